/* Surveys: what of a host is in one, JSON out and in, merging. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/survey.h"
#include "topo/taken.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define FIXTURES     SOURCE_DIR "/tests/fixtures/"

static void host_read(const char *fixture, struct mn_host *host)
{
    char sysfs[256], netlink[256];
    struct mn_host_source src = {.sysfs = sysfs, .netlink = netlink};
    struct mn_diag diag = {.text = ""};

    snprintf(sysfs, sizeof sysfs, FIXTURES "%s/sys", fixture);
    snprintf(netlink, sizeof netlink, FIXTURES "%s/netlink.json", fixture);
    if (mn_host_read(&src, host, &diag) || mn_host_around(&src, host, &diag))
        fail_msg("%s", diag.text);
}

static char *text_of(const struct mn_survey *survey)
{
    cJSON *json = mn_survey_json(survey);
    char *text = cJSON_Print(json);

    cJSON_Delete(json);
    return text;
}

static enum mn_err parse(const char *text, struct mn_survey *survey, struct mn_diag *diag)
{
    cJSON *json = cJSON_Parse(text);
    enum mn_err err = mn_survey_parse(json, survey, diag);

    cJSON_Delete(json);
    return err;
}

static const struct mn_survey_nic *nic_of(const struct mn_survey *survey, int node,
                                          const char *netdev)
{
    int nic = mn_survey_nic_index(&survey->nodes[node], netdev);

    if (nic < 0)
        fail_msg("no %s", netdev);
    return &survey->nodes[node].nics[nic];
}

static void a_hosts_ports_are_taken_bare_or_not(void **state)
{
    struct mn_survey survey = {.n_nodes = 0};
    struct mn_host host;
    struct mn_survey_node *node;

    (void)state;
    host_read("spark-lan-a", &host);
    node = mn_survey_add_host(&survey, &host, "a", "NVIDIA DGX Spark");
    assert_string_equal(node->name, "a");
    assert_string_equal(node->hostname, "spark-1");
    assert_string_equal(node->model, "NVIDIA DGX Spark");
    assert_int_equal(node->n_nics, 6); /* neither lo nor docker0 */
    const struct mn_survey_nic *half = nic_of(&survey, 0, "enp1s0f0np0");
    const struct mn_survey_nic *twin = nic_of(&survey, 0, "enP2p1s0f0np0");
    const struct mn_survey_nic *other = nic_of(&survey, 0, "enp1s0f1np1");
    assert_string_equal(half->phys_port, twin->phys_port);
    assert_string_not_equal(half->phys_port, other->phys_port);
    assert_true(half->carrier && !other->carrier && half->has_mac);
    assert_int_equal(half->role, MN_ROLE_AUTO);
    assert_int_equal(other->role, MN_ROLE_AUTO);
    assert_int_equal(nic_of(&survey, 0, "enP7s7")->role, MN_ROLE_MANAGEMENT);
    assert_int_equal(nic_of(&survey, 0, "wlP9s9")->role, MN_ROLE_MANAGEMENT);
    mn_host_free(&host);
    mn_survey_free(&survey);
    assert_int_equal(survey.n_nodes, 0);
}

/* The machine as it comes: the office has an address, the cables have none. */
static void the_office_stays_the_office_beside_bare_cables(void **state)
{
    struct mn_survey survey = {.n_nodes = 0};
    struct mn_host host;

    (void)state;
    host_read("spark-lan-a", &host);
    for (size_t i = 0; i < host.n_nics; i++)
        if (host.nics[i].speed_mbps > 100000 || !host.nics[i].carrier)
            host.nics[i].n_addrs = 0;
        else if (host.nics[i].wireless)
            host.nics[i].n_addrs = 0;
    mn_survey_add_host(&survey, &host, "a", NULL);
    assert_int_equal(nic_of(&survey, 0, "enP7s7")->role, MN_ROLE_MANAGEMENT);
    assert_non_null(strstr(nic_of(&survey, 0, "enP7s7")->role_why, "default route"));
    assert_int_equal(nic_of(&survey, 0, "wlP9s9")->role, MN_ROLE_MANAGEMENT);
    assert_int_equal(nic_of(&survey, 0, "enp1s0f0np0")->role, MN_ROLE_AUTO);
    assert_int_equal(nic_of(&survey, 0, "enp1s0f0np0")->n_addrs, 0);
    assert_string_equal(nic_of(&survey, 0, "enp1s0f0np0")->role_why, "");
    mn_survey_free(&survey);
    /* A port of 1G without an address may be a cable's end all the same. */
    for (size_t i = 0; i < host.n_nics; i++)
        if (!strcmp(host.nics[i].netdev, "enP7s7"))
            host.nics[i].n_addrs = 0;
    mn_survey_add_host(&survey, &host, "a", NULL);
    assert_int_equal(nic_of(&survey, 0, "enP7s7")->role, MN_ROLE_AUTO);
    mn_survey_free(&survey);
    mn_host_free(&host);
}

static void json_comes_back_as_it_went(void **state)
{
    static const char *const fixtures[] = {"dgx-spark",   "spark-lan-b", "mlx5-vf-bond",
                                           "thunderbolt", "mlx4-vpi",    "hgx-h100"};
    struct mn_survey survey = {.n_nodes = 0}, again;
    struct mn_diag diag = {.text = ""};
    char *one, *two;

    (void)state;
    for (size_t i = 0; i < COUNT(fixtures); i++) {
        struct mn_host host;

        host_read(fixtures[i], &host);
        mn_survey_add_host(&survey, &host, fixtures[i], "A model");
        assert_true(survey.nodes[i].n_nics > 0);
        mn_host_free(&host);
    }
    mn_survey_saw(&survey, &(struct mn_sighting){{0, 1}, {1, 2}, MN_SURVEY_RAW, 0});
    mn_survey_saw(&survey, &(struct mn_sighting){{0, 1}, {1, 2}, MN_SURVEY_RAW, 9000});
    mn_survey_saw(&survey, &(struct mn_sighting){{0, 1}, {1, 2}, MN_SURVEY_IPV6, 1500});
    assert_int_equal(survey.n_seen, 2);
    assert_int_equal(survey.seen[0].mtu, 9000);
    one = text_of(&survey);
    if (parse(one, &again, &diag))
        fail_msg("%s", diag.text);
    two = text_of(&again);
    assert_string_equal(one, two);
    assert_memory_equal(again.nodes[0].nics[0].mac, survey.nodes[0].nics[0].mac, 6);
    assert_int_equal(again.nodes[0].nics[1].gid_types, survey.nodes[0].nics[1].gid_types);
    cJSON_free(one);
    cJSON_free(two);
    mn_survey_free(&again);
    mn_survey_free(&survey);
}

#define NODES                                                                                      \
    "{\"version\":1,\"nodes\":[{\"name\":\"a\",\"nics\":[{\"netdev\":\"e0\"}]},"                   \
    "{\"name\":\"b\",\"nics\":[{\"netdev\":\"e0\"}]}]"

/* What a node uses elsewhere is told with it, of cables' own NICs it does not count. */
static void what_nodes_use_is_taken(void **state)
{
    static const char text[] =
        "{\"version\":1,\"nodes\":[{\"name\":\"a\",\"nics\":[{\"netdev\":\"e0\",\"mac\":"
        "\"02:00:00:00:00:01\",\"addresses\":[\"10.66.1.0/31\"]}],\"taken\":["
        "{\"net\":\"10.66.1.1/31\",\"netdev\":\"e0\"},"
        "{\"net\":\"10.66.9.0/31\",\"netdev\":\"e0\",\"route\":true},"
        "{\"net\":\"10.67.3.1/24\",\"netdev\":\"docker0\"},"
        "{\"net\":\"10.68.0.0/16\",\"netdev\":\"wg0\",\"route\":true},"
        "{\"net\":\"10.69.0.0/16\",\"route\":true}]},"
        "{\"name\":\"b\",\"nics\":[{\"netdev\":\"e0\"},{\"netdev\":\"lan\",\"addresses\":"
        "[\"10.70.0.2/24\",\"fe80::1/64\"]}]}],\"seen\":["
        "{\"at\":\"a/e0\",\"from\":\"b/e0\",\"way\":\"raw\"},"
        "{\"at\":\"b/e0\",\"from\":\"a/e0\",\"way\":\"raw\"}]}";
    static const char *const rows[][2] = {{"10.67.3.0/24", "docker0 on alpha"},
                                          {"10.68.0.0/16", "a route of wg0 on alpha"},
                                          {"10.69.0.0/16", "a route of alpha"},
                                          {"10.70.0.0/24", "lan on b"}};
    struct mn_survey survey, copy = {.n_nodes = 0}, again;
    struct mn_takens taken = {.items = NULL};
    struct mn_mesh mesh;
    struct mn_diag diag = {.text = ""};
    char *one, net[MN_ADDR_TEXT];

    (void)state;
    if (parse(text, &survey, &diag) || mn_survey_mesh(&survey, NULL, &mesh, &diag))
        fail_msg("%s", diag.text);
    strcpy(mesh.nodes[0].name, "alpha"); /* whose MAC tells */
    assert_int_equal(mn_survey_merge(&copy, &survey, &diag), MN_OK);
    one = text_of(&copy);
    assert_int_equal(parse(one, &again, &diag), MN_OK);
    cJSON_free(one);
    mn_taken_add_survey(&taken, &mesh, &again);
    assert_int_equal(taken.count, COUNT(rows));
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_string_equal(mn_addr_format(&taken.items[i].net, net, sizeof net), rows[i][0]);
        assert_string_equal(taken.items[i].what, rows[i][1]);
        assert_int_equal(taken.items[i].how, MN_TAKEN_USED);
    }
    mn_takens_free(&taken);
    mn_mesh_free(&mesh);
    mn_survey_free(&again);
    mn_survey_free(&copy);
    mn_survey_free(&survey);
}

static void wrong_surveys_are_explained(void **state)
{
    static const char *const rows[][2] = {
        {"[]", "an object"},
        {"{}", "version is missing"},
        {"{\"version\":2}", "version is 2; expected 1"},
        {"{\"version\":1,\"nodes\":{}}", "nodes has the wrong type; expected a list"},
        {"{\"version\":1,\"nodes\":[7]}", "nodes[0] is 7; expected an object"},
        {"{\"version\":1,\"nodes\":[{}]}", "nodes[0].name is missing"},
        {"{\"version\":1,\"nodes\":[{\"name\":\"\"}]}", "nodes[0].name is \"\""},
        {"{\"version\":1,\"nodes\":[{\"name\":\"a/b\"}]}", "without a slash"},
        {"{\"version\":1,\"nodes\":[{\"name\":\"a\"},{\"name\":\"a\"}]}", "nodes[1].name is \"a\""},
        {"{\"version\":1,\"nodes\":[{\"name\":\"a\",\"nics\":[{}]}]}", "nics[0].netdev is missing"},
        {"{\"version\":1,\"nodes\":[{\"name\":\"a\",\"taken\":[{\"net\":\"10.0.0.1\"}]}]}",
         "nodes[0].taken is \"10.0.0.1\"; expected networks"},
        {"{\"version\":1,\"nodes\":[{\"name\":\"a\",\"taken\":[{\"net\":\"10.0.0.0/"
         "8\",\"netdev\":7}]}]}",
         "nodes[0].netdev is 7"},
        {"{\"version\":1,\"nodes\":[{\"name\":\"a\",\"nics\":[{\"netdev\":\"abcdefghijklmnop\"}]}]"
         "}",
         "1 to 15 bytes"},
        {"{\"version\":1,\"nodes\":[{\"name\":\"a\",\"nics\":[{\"netdev\":\"e\",\"mtu\":-1}]}]}",
         "nodes[0].nics[0].mtu is -1; expected a whole number from 0"},
        {"{\"version\":1,\"nodes\":[{\"name\":\"a\",\"nics\":[{\"netdev\":\"e\",\"mtu\":1e999}]}]}",
         "mtu is inf"},
        {"{\"version\":1,\"nodes\":[{\"name\":\"a\",\"nics\":[{\"netdev\":\"e\",\"mtu\":1.5}]}]}",
         "whole number"},
        {"{\"version\":1,\"nodes\":[{\"name\":\"a\",\"nics\":[{\"netdev\":\"e\",\"pcie\":4}]}]}",
         "pcie is 4; expected an object"},
        {"{\"version\":1,\"nodes\":[{\"name\":\"a\",\"nics\":[{\"netdev\":\"e\",\"mac\":\"02:00\"}]"
         "}"
         "]}",
         "six bytes"},
        {"{\"version\":1,\"nodes\":[{\"name\":\"a\",\"nics\":[{\"netdev\":\"e\",\"kind\":\"x\"}]}]"
         "}",
         "kind is \"x\""},
        {"{\"version\":1,\"nodes\":[{\"name\":\"a\",\"nics\":[{\"netdev\":\"e\",\"role\":\"x\"}]}]"
         "}",
         "cable or management"},
        {"{\"version\":1,\"nodes\":[{\"name\":\"a\",\"nics\":[{\"netdev\":\"e\",\"carrier\":1}]}]}",
         "true or false"},
        {"{\"version\":1,\"nodes\":[{\"name\":\"a\",\"nics\":[{\"netdev\":\"e\",\"gids\":[\"v3\"]}]"
         "}"
         "]}",
         "RoCE v2"},
        {"{\"version\":1,\"nodes\":[{\"name\":\"a\",\"nics\":[{\"netdev\":\"e\",\"addresses\":"
         "[\"10.0.0.1\"]}]}]}",
         "addresses like"},
        {"{\"version\":1,\"nodes\":[{\"name\":\"a\",\"nics\":[{\"netdev\":\"e\"},"
         "{\"netdev\":\"e\"}]}]}",
         "of its own for each NIC"},
        {NODES ",\"seen\":[{\"at\":\"a/e0\",\"from\":\"c/e0\",\"way\":\"raw\"}]}",
         "seen[0].from is \"c/e0\"; expected NODE/NETDEV"},
        {NODES ",\"seen\":[{\"at\":\"a\",\"from\":\"b/e0\",\"way\":\"raw\"}]}", "seen[0].at"},
        {NODES ",\"seen\":[{\"at\":\"a/e0\",\"from\":\"b/e1\",\"way\":\"raw\"}]}", "seen[0].from"},
        {NODES ",\"seen\":[{\"at\":\"a/e0\",\"from\":\"b/e0\",\"way\":\"air\"}]}",
         "seen[0].way is \"air\""},
        {NODES ",\"seen\":[{\"at\":\"a/e0\",\"from\":\"b/e0\",\"way\":\"raw\",\"mtu\":\"x\"}]}",
         "seen[0].mtu"},
        {NODES ",\"strangers\":[{\"at\":\"a/e9\",\"way\":\"lldp\"}]}", "strangers[0].at"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct mn_survey survey;
        struct mn_diag diag = {.text = ""};

        assert_int_equal(parse(rows[i][0], &survey, &diag), MN_ERR_CONFIG);
        if (strncmp(diag.text, "survey: ", 8) != 0 || !strstr(diag.text, rows[i][1]))
            fail_msg("%s\ngives: %s\nwanted: %s", rows[i][0], diag.text, rows[i][1]);
        assert_true(!survey.nodes && !survey.seen && !survey.strangers);
    }
}

static void texts_of_strangers_are_fit_to_be_shown(void **state)
{
    struct mn_survey survey;
    struct mn_diag diag = {.text = ""};

    (void)state;
    if (parse(NODES
              ",\"strangers\":[{\"at\":\"a/e0\",\"way\":\"lldp\",\"system\":\"x\\u001b[2J\"}]}",
              &survey, &diag))
        fail_msg("%s", diag.text);
    assert_string_equal(survey.strangers[0].system, "x?[2J");
    mn_survey_free(&survey);
}

/* Else a merge, which keeps one of them, would not be the same survey. */
static void a_stranger_that_a_survey_names_twice_is_one(void **state)
{
    struct mn_survey survey;
    struct mn_diag diag = {.text = ""};

    (void)state;
    if (parse(NODES ",\"strangers\":["
                    "{\"at\":\"a/e0\",\"way\":\"lldp\",\"mac\":\"02:00:00:00:00:01\","
                    "\"system\":\"old\"},"
                    "{\"at\":\"a/e0\",\"way\":\"lldp\",\"mac\":\"02:00:00:00:00:01\","
                    "\"system\":\"new\"},"
                    "{\"at\":\"a/e0\",\"way\":\"raw\",\"mac\":\"02:00:00:00:00:01\"}]}",
              &survey, &diag))
        fail_msg("%s", diag.text);
    assert_int_equal(survey.n_strangers, 2);
    assert_string_equal(survey.strangers[0].system, "new");
    mn_survey_free(&survey);
}

static void merging_takes_what_is_new(void **state)
{
    struct mn_survey survey, other;
    struct mn_diag diag = {.text = ""};

    (void)state;
    assert_int_equal(parse(NODES ",\"seen\":[{\"at\":\"a/e0\",\"from\":\"b/e0\",\"way\":\"raw\"}]}",
                           &survey, &diag),
                     MN_OK);
    assert_int_equal(parse("{\"version\":1,\"nodes\":[{\"name\":\"c\",\"nics\":[{\"netdev\":\"e0\","
                           "\"addresses\":[\"10.0.0.1/30\"]}]},"
                           "{\"name\":\"b\",\"nics\":[{\"netdev\":\"e0\"}]}],"
                           "\"seen\":[{\"at\":\"b/e0\",\"from\":\"c/e0\",\"way\":\"ipv6\"}],"
                           "\"strangers\":[{\"at\":\"c/e0\",\"way\":\"lldp\",\"system\":\"sw\"}]}",
                           &other, &diag),
                     MN_OK);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(mn_survey_merge(&survey, &other, &diag), MN_OK);
        assert_int_equal(survey.n_nodes, 3);
        assert_string_equal(survey.nodes[2].name, "c");
        assert_int_equal(survey.nodes[2].nics[0].n_addrs, 1);
        assert_int_equal(survey.n_seen, 2);
        assert_int_equal(survey.seen[1].at.node, 1);
        assert_int_equal(survey.seen[1].from.node, 2);
        assert_int_equal(survey.n_strangers, 1);
        assert_int_equal(survey.strangers[0].at.node, 2);
    }
    /* A node that is known, but without that NIC. */
    strcpy(other.nodes[1].nics[0].netdev, "e7");
    assert_int_equal(mn_survey_merge(&survey, &other, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "b/e7"));
    assert_int_equal(survey.n_seen, 2);
    mn_survey_free(&other);
    mn_survey_free(&survey);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hosts_ports_are_taken_bare_or_not),
        cmocka_unit_test(the_office_stays_the_office_beside_bare_cables),
        cmocka_unit_test(json_comes_back_as_it_went),
        cmocka_unit_test(what_nodes_use_is_taken),
        cmocka_unit_test(wrong_surveys_are_explained),
        cmocka_unit_test(texts_of_strangers_are_fit_to_be_shown),
        cmocka_unit_test(a_stranger_that_a_survey_names_twice_is_one),
        cmocka_unit_test(merging_takes_what_is_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
