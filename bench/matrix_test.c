/* What is said of a matrix: limits, ratios and findings of made-up measurements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/matrix/matrix_impl.h"
#include "topo/base/alloc.h"
#include "topo/mesh_file.h"

/* Three nodes with two NICs each, and a second cable between a and b. */
static const char file[] = "version: 1\n"
                           "nodes:\n"
                           "  - name: a\n"
                           "    nics:\n"
                           "      - {netdev: a0, addresses: [10.0.1.1/30], mtu: 9000}\n"
                           "      - {netdev: a1, addresses: [10.0.2.1/30]}\n"
                           "      - {netdev: a2, addresses: [10.0.4.1/30]}\n"
                           "  - name: b\n"
                           "    nics:\n"
                           "      - {netdev: b0, addresses: [10.0.1.2/30]}\n"
                           "      - {netdev: b1, addresses: [10.0.3.1/30]}\n"
                           "      - {netdev: b2, addresses: [10.0.4.2/30]}\n"
                           "  - name: c\n"
                           "    nics:\n"
                           "      - {netdev: c0, addresses: [10.0.2.2/30]}\n"
                           "      - {netdev: c1, addresses: [10.0.3.2/30]}\n";

enum { A_B, A_B_2, A_C, B_C, LINKS };

static struct mn_mesh mesh;
static struct mn_matrix_report report;

static struct mn_matrix_end *end_of(int node, int nic)
{
    return &report.ends[node * MN_MATRIX_NICS + nic];
}

static int link_named(const char *name)
{
    for (size_t l = 0; l < mesh.n_links; l++)
        if (!strcmp(mesh.links[l].name, name))
            return (int)l;
    fail_msg("no link %s", name);
    return -1;
}

static void add(int link, int from, int to)
{
    struct mn_matrix_cell *cell =
        mn_grow((void **)&report.cells, &report.n_cells, sizeof *report.cells);

    *cell = (struct mn_matrix_cell){.link = link,
                                    .from = from,
                                    .to = to,
                                    .status = MN_CELL_OK,
                                    .carrier = MN_P2P_RDMA,
                                    .gbps = {92, 93, 180},
                                    .p50_us = 2,
                                    .p99_us = 3,
                                    .packets = 1000000};
}

static int setup(void **state)
{
    (void)state;
    mn_mesh_init(&mesh);
    assert_int_equal(mn_mesh_parse("mesh", file, sizeof file - 1, &mesh, NULL), MN_OK);
    report = (struct mn_matrix_report){.mesh = &mesh};
    report.ends = mn_zalloc(3 * MN_MATRIX_NICS * sizeof *report.ends);
    for (int node = 0; node < 3; node++)
        for (int nic = 0; nic < 3; nic++)
            *end_of(node, nic) =
                (struct mn_matrix_end){1, 1, 1, node || nic ? 4200 : 9000, 100, 126};
    end_of(1, 0)->mtu = 9000;
    add(link_named("a-b"), 0, 1);
    add(link_named("a-b-2"), 0, 1);
    add(link_named("a-c"), 0, 2);
    add(link_named("b-c"), 1, 2);
    add(-1, 0, 1);
    report.cells[LINKS].gbps[0] = report.cells[LINKS].gbps[1] = 185;
    report.cells[LINKS].n_lanes = 2;
    report.cells[LINKS].lanes[0] = (struct mn_matrix_lane){link_named("a-b"), 0.5f};
    report.cells[LINKS].lanes[1] = (struct mn_matrix_lane){link_named("a-b-2"), 0.5f};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mn_matrix_free(&report);
    mn_mesh_free(&mesh);
    return 0;
}

/* Exactly these findings, each a part of its text, in order; NULL ends them. */
static void expect(const char *text, ...)
{
    va_list ap;
    size_t i = 0;

    mn_matrix_judge(&report);
    va_start(ap, text);
    for (; text; text = va_arg(ap, const char *), i++) {
        if (i >= report.n_findings || !strstr(report.findings[i].text, text))
            print_error("finding %zu is '%s'\n", i,
                        i < report.n_findings ? report.findings[i].text : "not there");
        assert_true(i < report.n_findings);
        assert_non_null(strstr(report.findings[i].text, text));
    }
    va_end(ap);
    for (; i < report.n_findings; i++)
        fail_msg("unexpected: %s", report.findings[i].text);
}

static void test_a_good_mesh(void **state)
{
    (void)state;
    expect(NULL, NULL);
    /* 100 Gb/s; a path MTU of 4096 in frames of 4178. */
    assert_float_equal(report.limits[A_B].gbps, 98.04, 0.01);
    assert_string_equal(report.limits[A_B].by, "link speed 100 Gb/s, MTU 9000");
    assert_float_equal(mn_matrix_ratio(&report, A_B), 92 / 98.04, 0.001);
    assert_float_equal(report.limits[LINKS].gbps, 2 * 98.04, 0.01);
    assert_string_equal(report.limits[LINKS].by, "the sum of 2 cables");
}

static void test_limits(void **state)
{
    (void)state;
    end_of(2, 0)->pcie_gbps = 63;
    end_of(2, 1)->mtu = 1500;
    end_of(1, 1)->mtu = 1500;
    end_of(0, 2)->speed_gbps = end_of(1, 2)->speed_gbps = 0;
    report.cells[A_B].carrier = MN_P2P_TCP;
    mn_matrix_judge(&report);
    assert_float_equal(report.limits[A_C].gbps, 63 * 0.9804, 0.1);
    assert_string_equal(report.limits[A_C].by, "PCIe of c/c0, 63 Gb/s");
    assert_float_equal(report.limits[B_C].gbps, 100 * 1024 / 1106.0, 0.1);
    assert_float_equal(report.limits[A_B].gbps, 100 * 8948 / 9038.0, 0.1);
    assert_float_equal(report.limits[A_B_2].gbps, 0, 0);
    assert_true(mn_matrix_ratio(&report, A_B_2) < 0);
    assert_float_equal(report.limits[LINKS].gbps, 0, 0);
}

static void test_two_functions_of_a_port_are_no_sum(void **state)
{
    (void)state;
    strcpy(mesh.nodes[1].nics[0].group, "port0");
    strcpy(mesh.nodes[1].nics[2].group, "port0");
    mn_matrix_judge(&report);
    assert_float_equal(report.limits[LINKS].gbps, 98.04, 0.01);
    report.cells[LINKS].lanes[1].share = 0.02f;
    expect("pair a, b: half idle: link a-b-2 (a/a2) carried 2 % of the bytes, its part is 50",
           NULL);
}

static void test_slow_and_one_sided(void **state)
{
    (void)state;
    report.cells[A_C].gbps[MN_P2P_OUT] = report.cells[A_C].gbps[MN_P2P_IN] = 9.2f;
    report.cells[B_C].gbps[MN_P2P_IN] = 50;
    expect("link a-c: slow: 9.2 Gb/s from a to c, 9.2 back, where the others carry 92",
           "link b-c: 50 Gb/s is 51 % of what it could carry (link speed 100 Gb/s, MTU 4200)",
           "link b-c: one-sided: 92 Gb/s from b to c, 50 back", NULL);
    assert_int_equal(report.findings[0].severity, MN_MATRIX_BAD);
    assert_int_equal(report.findings[0].cell, A_C);
    assert_int_equal(report.findings[2].severity, MN_MATRIX_WARN);
}

static void test_lost_packets(void **state)
{
    (void)state;
    report.cells[A_B].lost = 400; /* a few are no news */
    report.cells[A_C].lost = 50000;
    expect("link a-c: loses packets: 5 %, 50000 of 1000000: cable", NULL);
    assert_float_equal(mn_matrix_lost(&report.cells[A_C]), 0.05, 1e-9);
    /* TCP loses some in a host's queues. All cables may be bad. */
    for (int i = 0; i < LINKS; i++) {
        report.cells[i].carrier = MN_P2P_TCP;
        report.cells[i].lost = 9000;
    }
    expect(NULL, NULL);
    report.cells[A_C].lost = report.cells[A_B].lost = 40000;
    expect("link a-b: loses packets: 4 %", "link a-c: loses packets", NULL);
    report.cells[A_C].lost = report.cells[A_B].lost = 3;
    report.cells[A_C].packets = report.cells[A_B].packets = 50;
    expect(NULL, NULL);
}

static void test_mtu(void **state)
{
    (void)state;
    end_of(1, 0)->mtu = 1500;
    end_of(0, 0)->mtu = 4200;
    expect("link a-b: wrong MTU: a/a0 has 4200, the mesh file says 9000",
           "link a-b: wrong MTU: a/a0 has 4200, b/b0 has 1500", NULL);
}

static void test_half_dead_pair(void **state)
{
    (void)state;
    end_of(1, 2)->carrier = 0;
    report.cells[A_B_2].status = MN_CELL_DEAD;
    strcpy(report.cells[A_B_2].error, "nobody answers");
    report.cells[LINKS].lanes[0].share = 1;
    report.cells[LINKS].lanes[1].share = 0;
    expect("link a-b-2: dead: b/b2 has no carrier: the cable is out",
           "pair a, b: half idle: link a-b-2 (a/a2) carried 0 % of the bytes, its part is 50",
           NULL);
    end_of(1, 2)->carrier = 1;
    report.cells[A_B].status = MN_CELL_WRONG;
    strcpy(report.cells[A_B].error, "3 messages arrived with wrong data or size");
    report.cells[A_C].status = MN_CELL_UNMEASURED;
    strcpy(report.cells[A_C].error, "c takes no part");
    expect("link a-b: wrong: 3 messages", "link a-b-2: dead: nobody answers",
           "link a-c: not measured: c takes no part", "pair a, b: half idle", NULL);
    assert_int_equal(report.findings[2].severity, MN_MATRIX_INFO);
}

static void test_speeds_differ(void **state)
{
    (void)state;
    end_of(2, 0)->speed_gbps = 25;
    report.cells[A_C].gbps[MN_P2P_OUT] = report.cells[A_C].gbps[MN_P2P_IN] = 24;
    expect("link a-c: a/a1 runs at 100 Gb/s, c/c0 at 25", "link a-c: slow: 24 Gb/s", NULL);
}

/* As of a rank with another mesh file. */
static void test_lanes_of_other_cables(void **state)
{
    const int32_t wrong[] = {-1, (int32_t)mesh.n_links, INT32_MAX, link_named("a-c")};
    struct mn_matrix_cell *cell = &report.cells[LINKS];

    (void)state;
    mn_matrix_check_lanes(&mesh, cell);
    assert_int_equal(cell->n_lanes, 2);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cell->n_lanes = 2;
        cell->lanes[1].link = wrong[i];
        mn_matrix_check_lanes(&mesh, cell);
        assert_int_equal(cell->n_lanes, 0);
    }
    cell->n_lanes = MN_MATRIX_LANES + 1;
    mn_matrix_check_lanes(&mesh, cell);
    assert_int_equal(cell->n_lanes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_good_mesh, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_functions_of_a_port_are_no_sum, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow_and_one_sided, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_packets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mtu, setup, teardown),
        cmocka_unit_test_setup_teardown(test_half_dead_pair, setup, teardown),
        cmocka_unit_test_setup_teardown(test_speeds_differ, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lanes_of_other_cables, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
