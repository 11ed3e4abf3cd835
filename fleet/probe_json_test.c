/* What a node answers, read by the one who leads: nothing of it is trusted; and one survey of all
 * answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "fleet/probe_impl.h"
#include "topo/base/alloc.h"

/* "a" with the NIC e0, which has heard e1 of the other node. */
static struct mn_probe_result result_of(const char *name, const char *netdev, const char *other,
                                        const char *from)
{
    struct mn_probe_result result = {.seconds = 1.5, .n_nics = 1, .n_heard = 1};
    struct mn_survey_node *node =
        mn_grow((void **)&result.survey.nodes, &result.survey.n_nodes, sizeof *result.survey.nodes);
    struct mn_survey_nic *nic = mn_grow((void **)&node->nics, &node->n_nics, sizeof *nic);

    mn_strlcpy(node->name, name, sizeof node->name);
    mn_strlcpy(node->hostname, name, sizeof node->hostname);
    mn_strlcpy(nic->netdev, netdev, sizeof nic->netdev);
    nic->kind = MN_NIC_ETHERNET;
    nic->mtu = 9000;
    nic->admin_up = nic->carrier = 1;
    result.nics = mn_zalloc(sizeof *result.nics);
    mn_strlcpy(result.nics->netdev, netdev, sizeof result.nics->netdev);
    result.nics->probed = 3;
    result.heard = mn_zalloc(sizeof *result.heard);
    *result.heard = (struct mn_probe_heard){.mac = {2, 0, 0, 0, 0, 9},
                                            .kind = MN_NIC_ETHERNET,
                                            .nic_mtu = 1500,
                                            .speed_mbps = 100000,
                                            .way = MN_SURVEY_RAW,
                                            .mtu = 1500,
                                            .back_mtu = 1280};
    mn_strlcpy(result.heard->at, netdev, sizeof result.heard->at);
    mn_strlcpy(result.heard->node, other, sizeof result.heard->node);
    mn_strlcpy(result.heard->netdev, from, sizeof result.heard->netdev);
    return result;
}

static void what_is_answered_is_read(void **state)
{
    struct mn_probe_result result = result_of("a", "e0", "b", "e1"), got;
    struct mn_diag diag;
    cJSON *json = mn_probe_result_json(&result);

    (void)state;
    assert_int_equal(mn_probe_result_parse(json, &got, &diag), MN_OK);
    assert_string_equal(got.survey.nodes[0].name, "a");
    assert_int_equal(got.n_nics, 1);
    assert_int_equal(got.nics->probed, 3);
    assert_int_equal(got.n_heard, 1);
    assert_memory_equal(got.heard, result.heard, sizeof *got.heard);
    mn_probe_result_free(&got);
    mn_probe_result_free(&result);
    cJSON_Delete(json);
}

static void refuse(const char *key, const char *field, const char *value)
{
    struct mn_probe_result result = result_of("a", "e0", "b", "e1"), got;
    struct mn_diag diag;
    cJSON *json = mn_probe_result_json(&result), *in = cJSON_GetObjectItem(json, key);

    if (field)
        cJSON_ReplaceItemInObject(cJSON_GetArrayItem(in, 0), field, cJSON_Parse(value));
    else
        cJSON_ReplaceItemInObject(json, key, cJSON_Parse(value));
    enum mn_err err = mn_probe_result_parse(json, &got, &diag);
    if (!err || !diag.text[0])
        fail_msg("%s %s %s: %s", key, field ? field : "", value, mn_err_name(err));
    assert_null(got.heard);
    mn_probe_result_free(&result);
    cJSON_Delete(json);
}

static void what_cannot_be_is_refused(void **state)
{
    static const struct {
        const char *key, *field, *value;
    } wrong[] = {
        {"heard", "mtu", "-1"},
        {"heard", "mtu", "1e9"},
        {"heard", "mtu", "1.5"},
        {"heard", "mtu", "\"9000\""},
        {"heard", "node", "\"\""},
        {"heard", "node", "\"a/b\""},
        {"heard", "netdev", "\"sixteen-letters-\""},
        {"heard", "mac", "\"0200000000\""},
        {"heard", "mac", "\"02000000000g\""},
        {"heard", "kind", "99"},
        {"heard", "way", "\"lldp\""},
        {"heard", NULL, "{}"},
        {"nics", "probed", "8"},
        {"nics", "why", "null"},
        {"nics", NULL, "[1]"},
        {"survey", NULL, "{\"version\":1,\"nodes\":[],\"seen\":[],\"strangers\":[]}"},
        {"survey", NULL, "null"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        refuse(wrong[i].key, wrong[i].field, wrong[i].value);
}

static void a_question_is_read_and_its_bounds_are_kept(void **state)
{
    static const char *const wrong[][2] = {{"key", "\"00\""}, {"run", "7"},    {"count", "65"},
                                           {"index", "2"},    {"index", "-1"}, {"ms", "60001"},
                                           {"ms", "null"},    {"take", "[1]"}, {"skip", "\"e\""}};
    const char *names[] = {"e0", "b/e1"};
    const struct mn_probe_plan plan = {.key = {1, 2, 0xff},
                                       .run = 0x1234,
                                       .index = 1,
                                       .count = 2,
                                       .ms = 500,
                                       .up = 1,
                                       .take = {names, 2}};
    struct mn_probe_plan got;
    struct mn_diag diag;
    cJSON *ask = mn_probe_ask(&plan);

    (void)state;
    assert_int_equal(mn_probe_ask_parse(ask, &got, &diag), MN_OK);
    assert_memory_equal(got.key, plan.key, sizeof got.key);
    assert_true(got.run == plan.run && got.index == 1 && got.count == 2 && got.ms == 500);
    assert_true(got.up && !got.lldp && !got.whole && got.take.count == 2 && !got.skip.count);
    assert_string_equal(got.take.items[1], "b/e1");
    free(got.take.items);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cJSON *other = cJSON_Duplicate(ask, 1);
        cJSON_ReplaceItemInObject(other, wrong[i][0], cJSON_Parse(wrong[i][1]));
        if (mn_probe_ask_parse(other, &got, &diag) != MN_ERR_PROTO)
            fail_msg("%s: %s", wrong[i][0], wrong[i][1]);
        free(got.take.items);
        free(got.skip.items);
        cJSON_Delete(other);
    }
    cJSON_Delete(ask);
}

static void two_that_heard_each_other_are_one_survey(void **state)
{
    struct mn_probe_result results[2] = {result_of("a", "e0", "b", "e1"),
                                         result_of("b", "e1", "a", "e0")};
    struct mn_survey survey;
    struct mn_diag diag;

    (void)state;
    assert_int_equal(mn_probe_gather(results, 2, &survey, &diag), MN_OK);
    assert_int_equal(survey.n_nodes, 2);
    assert_int_equal(survey.n_seen, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(survey.seen[i].at.node, i);
        assert_int_equal(survey.seen[i].from.node, !i);
        assert_int_equal(survey.seen[i].mtu, 1500);
    }
    mn_survey_free(&survey);
    mn_probe_result_free(&results[1]);
    /* Whom the other heard could not be told. */
    results[1] = result_of("a", "e7", "a", "e0");
    assert_int_equal(mn_probe_gather(results, 2, &survey, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "two nodes are called a"));
    assert_null(survey.nodes);
    for (int i = 0; i < 2; i++)
        mn_probe_result_free(&results[i]);
}

static void one_that_did_not_answer_is_there_by_what_was_heard(void **state)
{
    struct mn_probe_result result = result_of("a", "e0", "b", "e1");
    struct mn_survey survey;
    struct mn_diag diag;

    (void)state;
    assert_int_equal(mn_probe_gather(&result, 1, &survey, &diag), MN_OK);
    assert_int_equal(survey.n_nodes, 2);
    assert_string_equal(survey.nodes[1].name, "b");
    assert_int_equal(survey.nodes[1].n_nics, 1);
    assert_int_equal(survey.nodes[1].nics[0].mtu, 1500);
    assert_int_equal(survey.n_seen, 2);
    assert_int_equal(survey.seen[1].at.node, 1);
    assert_int_equal(survey.seen[1].mtu, 1280); /* as b said in its probes */
    mn_survey_free(&survey);
    /* A NIC that this node does not have is none. */
    mn_strlcpy(result.heard->at, "e9", sizeof result.heard->at);
    assert_int_equal(mn_probe_gather(&result, 1, &survey, &diag), MN_OK);
    assert_int_equal(survey.n_seen, 0);
    mn_survey_free(&survey);
    mn_probe_result_free(&result);
}

/* As a survey has it: an address that nothing else has, or none. */
static void of_a_silent_infiniband_nic_no_address_is_taken(void **state)
{
    struct mn_probe_result result = result_of("a", "e0", "b", "ib0");
    struct mn_survey survey;
    struct mn_diag diag;

    (void)state;
    for (int i = 0; i < 3; i++) {
        result.heard->kind = i == 1 ? MN_NIC_INFINIBAND : MN_NIC_ETHERNET;
        if (i == 2)
            memset(result.heard->mac, 0, sizeof result.heard->mac);
        assert_int_equal(mn_probe_gather(&result, 1, &survey, &diag), MN_OK);
        assert_int_equal(survey.nodes[1].nics[0].has_mac, i == 0);
        mn_survey_free(&survey);
    }
    mn_probe_result_free(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_answered_is_read),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(a_question_is_read_and_its_bounds_are_kept),
        cmocka_unit_test(two_that_heard_each_other_are_one_survey),
        cmocka_unit_test(one_that_did_not_answer_is_there_by_what_was_heard),
        cmocka_unit_test(of_a_silent_infiniband_nic_no_address_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
