#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fleet/doctor.h"
#include "fleet/same_mesh.h"
#include "topo/base/alloc.h"
#include "topo/mesh_file.h"

static const char mesh_text[] =
    "version: 1\n"
    "nodes:\n"
    "  - name: a\n"
    "    nics: [{netdev: p0, name: left, addresses: [10.0.1.1/30]}, {netdev: p1, addresses: "
    "[10.0.3.2/30]}]\n"
    "  - name: b\n"
    "    nics: [{netdev: p0, name: left, addresses: [10.0.2.1/30]}, {netdev: p1, addresses: "
    "[10.0.1.2/30]}]\n"
    "  - name: c\n"
    "    nics: [{netdev: p0, name: left, addresses: [10.0.3.1/30]}, {netdev: p1, addresses: "
    "[10.0.2.2/30]}]\n";

struct ring {
    struct mn_mesh mesh;
    struct mn_doctor_node nodes[3];
    struct mn_doctor_case what;
    struct mn_troubles found;
};

/* Three nodes that say nothing but who they are, and that both NICs are up. */
static void setup(struct ring *r)
{
    struct mn_diag diag;

    memset(r, 0, sizeof *r);
    assert_int_equal(mn_mesh_parse("test", mesh_text, strlen(mesh_text), &r->mesh, &diag), MN_OK);
    for (size_t i = 0; i < 3; i++) {
        char *text =
            mn_asprintf("{\"node\": \"%s\", \"hostname\": \"%s\", \"mesh_path\": \"/m\", "
                        "\"clock\": {\"begin\": 1000.2, \"end\": 1000.8}, \"nics\": ["
                        "{\"nic\": \"left\", \"netdev\": \"p0\", \"up\": true, \"carrier\": true, "
                        "\"mtu\": 9000}, {\"nic\": \"p1\", \"netdev\": \"p1\", \"up\": true, "
                        "\"carrier\": true, \"mtu\": 9000}]}",
                        r->mesh.nodes[i].name, r->mesh.nodes[i].name);
        r->nodes[i] = (struct mn_doctor_node){.asked = 1,
                                              .begin = 1000,
                                              .end = 1001,
                                              .facts = cJSON_Parse(text)};
        assert_non_null(r->nodes[i].facts);
        free(text);
    }
    r->what = (struct mn_doctor_case){.mesh = &r->mesh, .file = "/m", .nodes = r->nodes};
}

static void teardown(struct ring *r)
{
    for (size_t i = 0; i < 3; i++)
        cJSON_Delete((cJSON *)(uintptr_t)r->nodes[i].facts);
    mn_troubles_free(&r->found);
    mn_mesh_free(&r->mesh);
}

static cJSON *facts(struct ring *r, int node)
{
    return (cJSON *)(uintptr_t)r->nodes[node].facts;
}

static cJSON *nic(struct ring *r, int node, int which)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItem(facts(r, node), "nics"), which);
}

static void judge(struct ring *r)
{
    mn_troubles_free(&r->found);
    mn_doctor_judge(&r->what, &r->found);
}

static void expect(struct ring *r, size_t count, const char *id, const char *where)
{
    judge(r);
    assert_int_equal(r->found.count, count);
    assert_string_equal(r->found.items[0].rule->id, id);
    assert_string_equal(r->found.items[0].where, where);
}

static void test_healthy(void **state)
{
    struct ring r;

    (void)state;
    setup(&r);
    judge(&r);
    assert_int_equal(r.found.count, 0);
    teardown(&r);
}

/* A cause hides what follows from it, on its own cable alone. */
static void test_consequences(void **state)
{
    struct mn_doctor_write writes[3] = {{.state = MN_WRITE_DEAD}, {.state = MN_WRITE_DEAD}};
    struct ring r;

    (void)state;
    setup(&r);
    r.what.writes = writes;
    cJSON_ReplaceItemInObject(nic(&r, 0, 0), "mtu", cJSON_CreateNumber(1500));
    expect(&r, 2, "cable-mtu", "a left (p0) - b p1");
    assert_string_equal(r.found.items[1].rule->id, "write-failed");
    assert_string_not_equal(r.found.items[1].where, r.found.items[0].where);
    teardown(&r);
}

static void test_clock(void **state)
{
    struct ring r;

    (void)state;
    setup(&r);
    /* 0.8 s after the answer was here, but it may have been on its way for all of the second. */
    cJSON *clock = cJSON_GetObjectItem(facts(&r, 1), "clock");
    cJSON_ReplaceItemInObject(clock, "begin", cJSON_CreateNumber(1001.3));
    cJSON_ReplaceItemInObject(clock, "end", cJSON_CreateNumber(1001.9));
    judge(&r);
    assert_int_equal(r.found.count, 0);
    cJSON_ReplaceItemInObject(clock, "begin", cJSON_CreateNumber(1001.6));
    cJSON_ReplaceItemInObject(clock, "end", cJSON_CreateNumber(1002.2));
    expect(&r, 1, "clock", "b");
    teardown(&r);
}

static void test_wrong_node(void **state)
{
    struct ring r;

    (void)state;
    setup(&r);
    cJSON_ReplaceItemInObject(facts(&r, 1), "node", cJSON_CreateString("c"));
    expect(&r, 1, "wrong-node", "b");
    /* What it says of its NICs is not said of b's. */
    assert_null(mn_doctor_end(&r.what, (struct mn_mesh_end){1, 0}));
    assert_non_null(mn_doctor_end(&r.what, (struct mn_mesh_end){0, 0}));
    teardown(&r);
}

static void test_majority(void **state)
{
    struct ring r;

    (void)state;
    setup(&r);
    for (int i = 0; i < 3; i++)
        cJSON_AddStringToObject(cJSON_AddObjectToObject(facts(&r, i), "versions"), "meshnet",
                                i == 0 ? "0.9" : "1.0");
    expect(&r, 1, "version", "a");
    assert_string_equal(r.found.items[0].expected, "meshnet 1.0, as on 2 others");
    teardown(&r);
}

/* What is to be pasted is one word of a shell, or is left out; never cut. */
static void test_commands(void **state)
{
    struct ring r;
    char path[400];

    (void)state;
    setup(&r);
    r.nodes[1].error = "no answer";
    mn_strlcpy(r.mesh.nodes[1].hostname, "b;'x' y", sizeof r.mesh.nodes[1].hostname);
    expect(&r, 1, "unreachable", "b");
    assert_string_equal(r.found.items[0].fix,
                        "ssh 'b;'\\''x'\\'' y' true   # that has to work without a question");
    mn_strlcpy(r.mesh.nodes[1].hostname, "-oProxyCommand=x", sizeof r.mesh.nodes[1].hostname);
    expect(&r, 1, "unreachable", "b");
    assert_string_equal(r.found.items[0].fix, "");
    mn_strlcpy(r.mesh.nodes[1].hostname, "b\nreboot", sizeof r.mesh.nodes[1].hostname);
    expect(&r, 1, "unreachable", "b");
    assert_string_equal(r.found.items[0].fix, "");
    r.nodes[1].error = NULL;
    cJSON_DeleteItemFromObject(facts(&r, 0), "mesh_path");
    r.what.file = "/a folder/$(x).yaml";
    expect(&r, 1, "no-mesh-file", "a");
    assert_string_equal(r.found.items[0].fix, "meshnet push --hosts a '/a folder/$(x).yaml'");
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    r.what.file = path;
    expect(&r, 1, "no-mesh-file", "a");
    assert_string_equal(r.found.items[0].fix, "");
    teardown(&r);
}

/* mlx5 does not negotiate again by ethtool. */
static void test_slower(void **state)
{
    struct ring r;

    (void)state;
    setup(&r);
    cJSON_AddNumberToObject(nic(&r, 0, 0), "speed", 100000);
    cJSON_AddNumberToObject(nic(&r, 1, 1), "speed", 200000);
    expect(&r, 1, "cable-speed", "a left (p0) - b p1");
    assert_non_null(strstr(r.found.items[0].fix, "ethtool -r p0 "));
    cJSON_AddStringToObject(nic(&r, 0, 0), "driver", "mlx5_core");
    r.what.file = "/my mesh";
    r.what.file_given = 1;
    judge(&r);
    assert_string_equal(r.found.items[0].fix,
                        "ip link set dev p0 down && ip link set dev p0 up   # on a; then meshnet "
                        "topo apply --mesh '/my mesh' --hosts a sets again the IPv6 addresses and "
                        "routes that go with it");
    teardown(&r);
}

/* Each id has its place in the manual, and none is there twice. */
static void test_manual(void **state)
{
    const struct mn_trouble_rule *rule;
    struct mn_diag diag;
    char *page;

    (void)state;
    assert_int_equal(mn_file_read(SOURCE_DIR "/docs/man/meshnet-doctor.1", 1u << 20, &page, NULL,
                                  &diag),
                     MN_OK);
    for (size_t i = 0; (rule = mn_doctor_rule(i)) != NULL; i++) {
        char id[80] = "";
        for (const char *at = rule->id; *at; at++)
            snprintf(id + strlen(id), sizeof id - strlen(id), *at == '-' ? "\\-" : "%c", *at);
        if (!strstr(page, id))
            fail_msg("docs/man/meshnet-doctor.1 lacks %s", rule->id);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(rule->id, mn_doctor_rule(k)->id);
        assert_non_null(rule->title);
        assert_non_null(rule->advice);
    }
    free(page);
}

/* --- relays -------------------------------------------------------------------------------------
 */

/* b's cable to c carries nothing any more, so that c is a node away from it. */
static void setup_line(struct ring *r, const char *key_file)
{
    setup(r);
    for (size_t i = 0; i < r->mesh.n_links; i++)
        if (!strcmp(r->mesh.links[i].name, "b-c"))
            memmove(&r->mesh.links[i], &r->mesh.links[i + 1],
                    (--r->mesh.n_links - i) * sizeof r->mesh.links[i]);
    snprintf(r->mesh.settings.key_file, sizeof r->mesh.settings.key_file, "%s", key_file);
}

static cJSON *relay(struct ring *r, int node, const char *text)
{
    cJSON *json = cJSON_Parse(text);

    assert_non_null(json);
    cJSON_DeleteItemFromObject(facts(r, node), "relay");
    cJSON_AddItemToObject(facts(r, node), "relay", json);
    return json;
}

static const struct mn_trouble *the_relay_trouble(struct ring *r)
{
    const struct mn_trouble *found = NULL;

    judge(r);
    for (size_t i = 0; i < r->found.count; i++)
        if (!strncmp(r->found.items[i].rule->id, "relay-", 6)) {
            assert_null(found);
            found = &r->found.items[i];
        }
    return found;
}

static void expect_relay(struct ring *r, const char *id, const char *where, const char *seen,
                         const char *fix)
{
    const struct mn_trouble *t = the_relay_trouble(r);

    assert_non_null(t);
    assert_string_equal(t->rule->id, id);
    assert_string_equal(t->where, where);
    assert_non_null(strstr(t->seen, seen));
    assert_non_null(strstr(t->fix, fix));
}

#define RELAY_GOOD                                                                                 \
    "{\"socket\": \"/s\", \"version\": \"1\", \"flows\": 2, \"waiting\": 3, \"oldest_ms\": 10, "   \
    "\"buffers\": 268435456, \"memlock\": -1, \"key\": \"aa\"}"

static void test_relays_not_wanted(void **state)
{
    struct ring r;

    (void)state;
    setup(&r); /* all are cabled */
    relay(&r, 0, "{\"error\": \"none\"}");
    assert_null(the_relay_trouble(&r));
    teardown(&r);
    setup_line(&r, "/k");
    r.mesh.settings.reach = MN_REACH_CABLES;
    relay(&r, 0, "{\"error\": \"none\"}");
    assert_null(the_relay_trouble(&r));
    teardown(&r);
}

static void test_relays_without_key(void **state)
{
    struct ring r;

    (void)state;
    setup_line(&r, "");
    relay(&r, 0, "{\"error\": \"none\"}");
    assert_null(the_relay_trouble(&r));
    teardown(&r);
}

static void test_relays(void **state)
{
    struct ring r;

    (void)state;
    setup_line(&r, "/k");
    for (int i = 0; i < 3; i++)
        relay(&r, i, RELAY_GOOD);
    assert_null(the_relay_trouble(&r));
    relay(&r, 1, "{\"error\": \"/s: no relayd\"}");
    expect_relay(&r, "relay-down", "b", "/s: no relayd", "systemctl enable --now meshnet-relayd");
    cJSON *json = relay(&r, 1, RELAY_GOOD);
    cJSON_ReplaceItemInObject(json, "key", cJSON_CreateString("bb"));
    expect_relay(&r, "relay-key", "b", "not that of most of the 3", "/k");
    json = relay(&r, 1, RELAY_GOOD);
    cJSON_ReplaceItemInObject(json, "oldest_ms", cJSON_CreateNumber(7000));
    expect_relay(&r, "relay-stuck", "b", "3 pieces of 2 flows wait in it, the oldest for 7 s",
                 "--status");
    json = relay(&r, 1, RELAY_GOOD);
    cJSON_ReplaceItemInObject(json, "memlock", cJSON_CreateNumber(8388608));
    assert_null(the_relay_trouble(&r)); /* no RDMA there */
    cJSON_AddStringToObject(nic(&r, 1, 0), "device", "mlx5_0");
    expect_relay(&r, "relay-memlock", "b", "may lock 8M", "LimitMEMLOCK=infinity");
    teardown(&r);
}

static void test_relays_of_before(void **state)
{
    struct mn_mesh_digest digest = {.hash = 0x1234};
    struct ring r;

    (void)state;
    setup_line(&r, "/k");
    mn_same_mesh_add(facts(&r, 2), &digest);
    cJSON *json = relay(&r, 2, RELAY_GOOD);
    cJSON_AddStringToObject(json, "mesh", "0000000000001234");
    assert_null(the_relay_trouble(&r));
    cJSON_ReplaceItemInObject(json, "mesh", cJSON_CreateString("0000000000001235"));
    expect_relay(&r, "relay-mesh", "c", "0000000000001235", "systemctl restart meshnet-relayd");
    cJSON_DeleteItemFromObject(json, "mesh");
    cJSON *versions = cJSON_AddObjectToObject(facts(&r, 2), "versions");
    cJSON_AddStringToObject(versions, "meshnet", "2");
    expect_relay(&r, "relay-version", "c", "relayd of meshnet 1 runs", "systemctl restart");
    teardown(&r);
}

/* Whatever a stranger says. */
static void test_relays_nonsense(void **state)
{
    static const char *const said[] = {"1", "[]", "{}",
                                       "{\"key\": 7, \"mesh\": [], \"version\": {}, "
                                       "\"oldest_ms\": \"x\", \"memlock\": {}, "
                                       "\"buffers\": 1e300, \"flows\": -1}"};
    struct ring r;

    (void)state;
    setup_line(&r, "/k");
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        relay(&r, 0, said[i]);
        assert_null(the_relay_trouble(&r));
    }
    teardown(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_healthy),
        cmocka_unit_test(test_consequences),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_wrong_node),
        cmocka_unit_test(test_majority),
        cmocka_unit_test(test_manual),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_slower),
        cmocka_unit_test(test_relays_not_wanted),
        cmocka_unit_test(test_relays_without_key),
        cmocka_unit_test(test_relays),
        cmocka_unit_test(test_relays_of_before),
        cmocka_unit_test(test_relays_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
