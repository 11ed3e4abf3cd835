/* The mesh as it is cabled, from two recorded DGX Sparks with one cable and an office. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_file.h"
#include "topo/survey.h"

#define FIXTURES SOURCE_DIR "/tests/fixtures/"

static const char *const halves[] = {"enp1s0f0np0", "enP2p1s0f0np0"};

static void host_add(struct mn_survey *survey, const char *fixture, const char *name, int bare)
{
    char sysfs[256], netlink[256];
    struct mn_host_source src = {.sysfs = sysfs, .netlink = netlink};
    struct mn_diag diag = {.text = ""};
    struct mn_host host;

    snprintf(sysfs, sizeof sysfs, FIXTURES "%s/sys", fixture);
    snprintf(netlink, sizeof netlink, FIXTURES "%s/netlink.json", fixture);
    if (mn_host_read(&src, &host, &diag) || mn_host_around(&src, &host, &diag))
        fail_msg("%s", diag.text);
    for (size_t i = 0; i < host.n_nics && bare; i++)
        if (host.nics[i].speed_mbps > 100000)
            host.nics[i].n_addrs = 0;
    mn_survey_add_host(survey, &host, name, "NVIDIA_DGX_Spark");
    mn_host_free(&host);
}

static struct mn_mesh_end end_of(const struct mn_survey *survey, int node, const char *netdev)
{
    int nic = mn_survey_nic_index(&survey->nodes[node], netdev);

    assert_true(nic >= 0);
    return (struct mn_mesh_end){node, nic};
}

static void heard(struct mn_survey *survey, int at, const char *at_nic, int from,
                  const char *from_nic)
{
    mn_survey_saw(survey, &(struct mn_sighting){.at = end_of(survey, at, at_nic),
                                                .from = end_of(survey, from, from_nic),
                                                .way = MN_SURVEY_IPV6,
                                                .mtu = 9000});
}

/* both: each half hears both of the other side, and its own twin. */
static void two_sparks(struct mn_survey *survey, int bare, int both)
{
    *survey = (struct mn_survey){.n_nodes = 0};
    host_add(survey, "spark-lan-a", "spark-1", bare);
    host_add(survey, "spark-lan-b", "spark-2", bare);
    for (int at = 0; at < 2; at++)
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 2; k++) {
                if (both || i == k)
                    heard(survey, at, halves[i], !at, halves[k]);
                if (both && i != k)
                    heard(survey, at, halves[i], at, halves[k]);
            }
    /* Over the office everybody hears everybody. */
    heard(survey, 0, "enP7s7", 1, "enP7s7");
    heard(survey, 1, "enP7s7", 0, "enP7s7");
}

/* What is written is read again, and its links are those that were made. */
static void comes_back(const struct mn_mesh *mesh)
{
    struct mn_mesh again;
    struct mn_diag diag = {.text = ""};
    char *text, *two;

    mn_mesh_init(&again);
    if (mn_mesh_format_yaml(mesh, &text, &diag) ||
        mn_mesh_parse("made", text, strlen(text), &again, &diag))
        fail_msg("%s", diag.text);
    assert_int_equal(again.n_links, mesh->n_links);
    for (size_t i = 0; i < mesh->n_links; i++)
        assert_string_equal(again.links[i].name, mesh->links[i].name);
    if (mn_mesh_link_up(&again, &diag) || mn_mesh_format_yaml(&again, &two, &diag))
        fail_msg("%s", diag.text);
    assert_string_equal(text, two);
    free(text);
    free(two);
    mn_mesh_free(&again);
}

static void made(const struct mn_survey *survey, const struct mn_mesh *old, struct mn_mesh *mesh)
{
    struct mn_diag diag = {.text = ""};

    if (mn_survey_mesh(survey, old, mesh, &diag))
        fail_msg("%s", diag.text);
    comes_back(mesh);
}

static const struct mn_mesh_nic *nic_at(const struct mn_mesh *mesh, int link, int side)
{
    const struct mn_mesh_end *end = &mesh->links[link].ends[side];

    return &mesh->nodes[end->node].nics[end->nic];
}

static void a_bare_cable_has_two_halves(void **state)
{
    (void)state;
    for (int both = 0; both < 2; both++) {
        struct mn_survey survey;
        struct mn_mesh mesh;

        two_sparks(&survey, 1, both);
        made(&survey, NULL, &mesh);
        assert_int_equal(mesh.n_nodes, 2);
        assert_int_equal(mesh.n_links, 2);
        assert_string_equal(mesh.links[0].name, "spark-1-spark-2");
        assert_string_equal(mesh.links[1].name, "spark-1-spark-2-2");
        for (int link = 0; link < 2; link++) {
            assert_true(mn_link_is_bare(&mesh.links[link]));
            for (int side = 0; side < 2; side++) {
                assert_string_equal(nic_at(&mesh, link, side)->netdev, halves[link]);
                assert_string_equal(nic_at(&mesh, link, side)->group, "port0");
            }
        }
        assert_true(mesh.nodes[0].n_nics >= 3); /* the office and both halves */
        mn_mesh_free(&mesh);
        mn_survey_free(&survey);
    }
}

static void addresses_that_fit_the_cable_stay(void **state)
{
    struct mn_survey survey;
    struct mn_mesh mesh;
    char text[MN_ADDR_TEXT];

    (void)state;
    two_sparks(&survey, 0, 1);
    made(&survey, NULL, &mesh);
    assert_int_equal(mesh.n_links, 2);
    assert_string_equal(mn_addr_format(&mesh.links[0].subnet, text, sizeof text), "10.10.1.0/24");
    assert_string_equal(mn_addr_format(&mesh.links[1].subnet, text, sizeof text), "10.10.2.0/24");
    mn_mesh_free(&mesh);
    /* Numbered crosswise: the halves hear one another, the addresses say otherwise. */
    struct mn_survey_nic *one = &survey.nodes[0].nics[end_of(&survey, 0, halves[0]).nic];
    struct mn_survey_nic *two = &survey.nodes[0].nics[end_of(&survey, 0, halves[1]).nic];
    struct mn_addr *addrs = one->addrs;
    size_t n_addrs = one->n_addrs;
    one->addrs = two->addrs;
    one->n_addrs = two->n_addrs;
    two->addrs = addrs;
    two->n_addrs = n_addrs;
    made(&survey, NULL, &mesh);
    assert_int_equal(mesh.n_links, 2);
    assert_true(mn_link_is_bare(&mesh.links[0]) && mn_link_is_bare(&mesh.links[1]));
    assert_int_equal(nic_at(&mesh, 0, 0)->n_addrs, 0);
    mn_mesh_free(&mesh);
    mn_survey_free(&survey);
}

static void names_and_addresses_of_the_old_mesh_stay(void **state)
{
    struct mn_survey survey;
    struct mn_mesh old, mesh;
    char text[MN_ADDR_TEXT];
    struct mn_diag diag = {.text = ""};

    (void)state;
    two_sparks(&survey, 1, 1);
    made(&survey, NULL, &old);
    strcpy(old.name, "desk");
    strcpy(old.nodes[1].name, "beta");
    strcpy(old.links[1].name, "second");
    old.settings.silence_ms = 30000;
    for (int link = 0; link < 2; link++)
        for (int side = 0; side < 2; side++) {
            struct mn_mesh_end *end = &old.links[link].ends[side];
            struct mn_mesh_nic *nic = &old.nodes[end->node].nics[end->nic];
            char addr[32];

            snprintf(addr, sizeof addr, "10.7.%d.%d/31", link, side);
            strcpy(nic->name, link ? "upper" : "lower");
            nic->addrs = mn_zalloc(sizeof *nic->addrs);
            nic->n_addrs = 1;
            assert_int_equal(mn_addr_parse(addr, nic->addrs, &diag), MN_OK);
        }
    assert_int_equal(mn_mesh_link_up(&old, &diag), MN_OK);
    /* A NIC has another name since, and a node is new: the MACs tell. */
    strcpy(survey.nodes[1].nics[end_of(&survey, 1, halves[0]).nic].netdev, "cable0");
    host_add(&survey, "thunderbolt", "late", 1);
    made(&survey, &old, &mesh);
    assert_string_equal(mesh.name, "desk");
    assert_int_equal(mesh.n_nodes, 3);
    assert_string_equal(mesh.nodes[1].name, "beta");
    assert_string_equal(mesh.nodes[2].name, "late");
    assert_int_equal(mesh.settings.silence_ms, 30000);
    assert_int_equal(mesh.n_links, 2);
    assert_string_equal(mesh.links[1].name, "second");
    assert_string_equal(nic_at(&mesh, 0, 1)->netdev, "cable0");
    assert_string_equal(nic_at(&mesh, 0, 1)->name, "lower");
    assert_string_equal(mn_addr_format(&mesh.links[1].subnet, text, sizeof text), "10.7.1.0/31");
    mn_mesh_free(&mesh);
    mn_mesh_free(&old);
    mn_survey_free(&survey);
}

static void a_switch_makes_no_cable(void **state)
{
    struct mn_survey survey;
    struct mn_mesh mesh;

    (void)state;
    two_sparks(&survey, 1, 0);
    survey.strangers = mn_zalloc(sizeof *survey.strangers);
    survey.n_strangers = 1;
    survey.strangers[0] = (struct mn_survey_stranger){.at = end_of(&survey, 0, halves[0]),
                                                      .way = MN_SURVEY_LLDP,
                                                      .system = "crs812"};
    made(&survey, NULL, &mesh);
    assert_int_equal(mesh.n_links, 0);
    mn_mesh_free(&mesh);
    /* The peer's own LLDP is no stranger's. */
    strcpy(survey.strangers[0].system, "spark-2");
    made(&survey, NULL, &mesh);
    assert_int_equal(mesh.n_links, 2);
    mn_mesh_free(&mesh);
    survey.n_strangers = 0;
    host_add(&survey, "dgx-spark", "spark-3", 1);
    heard(&survey, 2, halves[0], 0, halves[0]);
    made(&survey, NULL, &mesh);
    assert_int_equal(mesh.n_links, 0);
    mn_mesh_free(&mesh);
    mn_survey_free(&survey);
}

/* Whatever a node says of itself, the mesh file made of it can be read. */
static void what_is_odd_is_left_out(void **state)
{
    static const char text[] =
        "{\"version\":1,\"nodes\":[{\"name\":\"a\",\"nics\":[{\"netdev\":\"e0\",\"mtu\":100,"
        "\"speed\":99999999,\"mac\":\"02:00:00:00:00:01\",\"addresses\":[\"10.0.1.0/30\","
        "\"10.0.1.1/30\",\"10.0.1.1/24\",\"127.0.0.1/8\"]},{\"netdev\":\"e1\",\"mac\":"
        "\"01:00:00:00:00:01\"}]},{\"name\":\"b\",\"nics\":[{\"netdev\":\"e0\",\"port\":255,"
        "\"device\":\"d\",\"mac\":\"02:00:00:00:00:01\",\"addresses\":[\"10.0.1.2/30\","
        "\"10.0.1.3/30\"]},{\"netdev\":\"e1\",\"mac\":\"00:00:00:00:00:00\"}]}],\"seen\":["
        "{\"at\":\"a/e0\",\"from\":\"b/e0\",\"way\":\"raw\"},"
        "{\"at\":\"a/e1\",\"from\":\"b/e1\",\"way\":\"raw\"}]}";
    struct mn_survey survey;
    struct mn_mesh mesh;
    struct mn_diag diag = {.text = ""};
    cJSON *json = cJSON_Parse(text);

    (void)state;
    if (mn_survey_parse(json, &survey, &diag))
        fail_msg("%s", diag.text);
    cJSON_Delete(json);
    made(&survey, NULL, &mesh);
    assert_int_equal(mesh.n_links, 2);
    assert_false(mn_link_is_bare(&mesh.links[0]));
    assert_int_equal(nic_at(&mesh, 0, 0)->n_addrs, 1);
    assert_int_equal(nic_at(&mesh, 0, 1)->n_addrs, 1);
    assert_int_equal(nic_at(&mesh, 0, 0)->mtu, 0);
    /* A MAC of two nodes tells neither. */
    assert_true(!nic_at(&mesh, 0, 0)->has_mac && !nic_at(&mesh, 0, 1)->has_mac);
    assert_true(!nic_at(&mesh, 1, 0)->has_mac && !nic_at(&mesh, 1, 1)->has_mac);
    mn_mesh_free(&mesh);
    mn_survey_free(&survey);
}

/* A machine that was cloned has the MACs of another: whichever is asked first, each keeps its own
 * name and addresses, and no MAC in the file says that the one is the other. */
static void a_clone_is_not_taken_for_its_original(void **state)
{
    static const uint8_t office[6] = {2, 0, 0, 0, 0, 0x99};
    struct mn_survey survey;
    struct mn_mesh old, mesh;

    (void)state;
    two_sparks(&survey, 0, 1);
    made(&survey, NULL, &old);
    strcpy(old.nodes[0].name, "alpha");
    strcpy(old.nodes[1].name, "beta");
    mn_survey_free(&survey);
    for (int swapped = 0; swapped < 2; swapped++) {
        two_sparks(&survey, 0, 1);
        for (size_t i = 0; i < survey.nodes[0].n_nics; i++) {
            int twin = mn_survey_nic_index(&survey.nodes[1], survey.nodes[0].nics[i].netdev);

            assert_true(twin >= 0);
            memcpy(survey.nodes[0].nics[i].mac, survey.nodes[1].nics[twin].mac, 6);
        }
        if (swapped) {
            struct mn_survey_node first = survey.nodes[0];

            survey.nodes[0] = survey.nodes[1];
            survey.nodes[1] = first;
        }
        strcpy(survey.nodes[swapped].name, "alpha");
        strcpy(survey.nodes[!swapped].name, "beta");
        made(&survey, &old, &mesh);
        assert_int_equal(mesh.n_nodes, 2);
        assert_string_equal(mesh.nodes[swapped].name, "alpha");
        assert_string_equal(mesh.nodes[!swapped].name, "beta");
        assert_string_equal(mesh.nodes[swapped].hostname, "spark-1");
        assert_int_equal(mesh.n_links, 2);
        for (int link = 0; link < 2; link++)
            for (int side = 0; side < 2; side++) {
                assert_false(nic_at(&mesh, link, side)->has_mac);
                assert_int_equal(nic_at(&mesh, link, side)->n_addrs,
                                 nic_at(&old, link, side)->n_addrs);
            }
        mn_mesh_free(&mesh);
        /* A MAC that only one of them has tells again. */
        int nic = mn_survey_nic_index(&survey.nodes[swapped], "enP7s7");
        memcpy(survey.nodes[swapped].nics[nic].mac, office, 6);
        assert_true(mn_survey_mac_is(&survey, &survey.nodes[swapped], (size_t)nic, office));
        assert_false(mn_survey_mac_is(&survey, &survey.nodes[!swapped], (size_t)nic, office));
        mn_survey_free(&survey);
    }
    mn_mesh_free(&old);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bare_cable_has_two_halves),
        cmocka_unit_test(addresses_that_fit_the_cable_stay),
        cmocka_unit_test(names_and_addresses_of_the_old_mesh_stay),
        cmocka_unit_test(a_switch_makes_no_cable),
        cmocka_unit_test(what_is_odd_is_left_out),
        cmocka_unit_test(a_clone_is_not_taken_for_its_original),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
