/* Lists of changes backwards, and as JSON; what they do is tested on namespaces in
 * tests/topo-apply.bats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fleet/apply.h"

static const struct mn_nic p0 = {.netdev = "p0",
                                 .mac = {2, 0, 0, 0, 0x0a, 1},
                                 .has_mac = 1,
                                 .ifindex = 7};

static void fill(struct mn_changes *list)
{
    *list = (struct mn_changes){.items = NULL};
    mn_change_add(list, MN_CHANGE_MTU, &p0, NULL, "1500", "9000");
    mn_change_add(list, MN_CHANGE_ADDRESS, &p0, NULL, NULL, "10.0.0.1/31");
    struct mn_change *file = mn_change_add(list, MN_CHANGE_FILE, NULL, "/etc/x", "old\n", "new\n");
    file->from_mode = 0600;
    file->to_mode = 0644;
}

static void backwards_the_last_is_first(void **state)
{
    struct mn_changes list, back, again;

    (void)state;
    fill(&list);
    mn_changes_reverse(&list, &back);
    assert_int_equal(back.count, 3);
    assert_int_equal(back.items[0].kind, MN_CHANGE_FILE);
    assert_string_equal(back.items[0].from, "new\n");
    assert_string_equal(back.items[0].to, "old\n");
    assert_int_equal(back.items[0].to_mode, 0600);
    assert_string_equal(back.items[1].from, "10.0.0.1/31");
    assert_null(back.items[1].to);
    assert_memory_equal(back.items[2].mac, p0.mac, 6);
    mn_changes_reverse(&back, &again);
    cJSON *a = mn_changes_json(&list), *b = mn_changes_json(&again);
    assert_true(cJSON_Compare(a, b, 1));
    cJSON_Delete(a);
    cJSON_Delete(b);
    mn_changes_free(&list);
    mn_changes_free(&back);
    mn_changes_free(&again);
}

static void json_is_read_as_it_was_written(void **state)
{
    struct mn_changes list, again;

    (void)state;
    fill(&list);
    cJSON *a = mn_changes_json(&list);
    assert_int_equal(mn_changes_parse(a, &again, NULL), MN_OK);
    cJSON *b = mn_changes_json(&again);
    assert_true(cJSON_Compare(a, b, 1));
    cJSON_Delete(a);
    cJSON_Delete(b);
    mn_changes_free(&list);
    mn_changes_free(&again);
}

static void what_is_no_change_is_refused(void **state)
{
    static const char *const texts[] = {
        "{}",
        "[1]",
        "[{}]",
        "[{\"kind\":\"mtu\",\"to\":\"9000\"}]",                          /* of no NIC */
        "[{\"kind\":\"file\",\"to\":\"x\"}]",                            /* without a path */
        "[{\"kind\":\"mut\",\"nic\":\"p0\",\"to\":\"9000\"}]",           /* unknown */
        "[{\"kind\":\"mtu\",\"nic\":\"p0\",\"to\":\"9000\"}]",           /* from what */
        "[{\"kind\":\"mtu\",\"nic\":\"p0123456789abcdef\"}]",            /* no netdev is so long */
        "[{\"kind\":\"mtu\",\"nic\":\"p0\",\"to\":9000}]",               /* no text */
        "[{\"kind\":\"mtu\",\"nic\":\"p0\",\"mac\":\"02:00:00:00:0a\"}]" /* no MAC */
    };
    struct mn_changes list;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct mn_diag diag = {.text = ""};
        cJSON *json = cJSON_Parse(texts[i]);
        assert_non_null(json);
        assert_int_equal(mn_changes_parse(json, &list, &diag), MN_ERR_PROTO);
        assert_true(diag.text[0]);
        assert_int_equal(list.count, 0);
        cJSON_Delete(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backwards_the_last_is_first),
        cmocka_unit_test(json_is_read_as_it_was_written),
        cmocka_unit_test(what_is_no_change_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
