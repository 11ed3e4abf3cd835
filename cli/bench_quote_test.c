/* The one line of a measurement, of made-up ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/bench.h"
#include "topo/mesh_file.h"

static const char file[] = "version: 1\n"
                           "nodes:\n"
                           "  - name: a\n"
                           "    nics:\n"
                           "      - {netdev: a0, addresses: [10.0.1.1/30]}\n"
                           "      - {netdev: a1, addresses: [10.0.2.1/30]}\n"
                           "  - name: b\n"
                           "    nics:\n"
                           "      - {netdev: b0, addresses: [10.0.1.2/30]}\n"
                           "      - {netdev: b1, addresses: [10.0.2.2/30]}\n"
                           "      - {netdev: b2, speed: 10000, addresses: [10.0.3.1/30]}\n"
                           "  - name: c\n"
                           "    nics:\n"
                           "      - {netdev: c0, speed: 10000, addresses: [10.0.3.2/30]}\n";

static struct mn_p2p_bandwidth rows[3];
static struct mn_p2p_latency latency;
static struct mn_p2p_report report;
static struct mn_mesh mesh;

static void add_nic(int end, const char *netdev, uint64_t bytes, long mbps)
{
    struct mn_p2p_end *e = &report.ends[end];
    struct mn_environment *env = &report.environments[end];

    strcpy(e->nics[e->n_nics].netdev, netdev);
    e->nics[e->n_nics++].n.tx_bytes = bytes;
    strcpy(env->nics[env->n_nics].netdev, netdev);
    env->nics[env->n_nics].speed_mbps = mbps;
    env->nics[env->n_nics++].mtu = 1500;
}

/* 7.2 Gb/s of a 10 Gb/s Ethernet of 1500 bytes, which has 9.41 for TCP. */
static int setup(void **state)
{
    (void)state;
    mn_mesh_init(&mesh);
    assert_int_equal(mn_mesh_parse("mesh", file, sizeof file - 1, &mesh, NULL), MN_OK);
    report = (struct mn_p2p_report){.bandwidth = rows, .n_bandwidth = 3, .moved_bytes = 900000000};
    rows[0] = (struct mn_p2p_bandwidth){.size = 8, .bytes = 1000, .seconds = 1};
    rows[1] = (struct mn_p2p_bandwidth){.size = 1 << 20, .bytes = 900000000, .seconds = 1};
    rows[2] = (struct mn_p2p_bandwidth){.size = 1 << 20,
                                        .direction = MN_P2P_IN,
                                        .bytes = 990000000,
                                        .seconds = 1};
    report.latency = &latency;
    report.n_latency = 1;
    latency.p50 = 13.2;
    strcpy(report.ends[0].node, "a");
    strcpy(report.ends[1].node, "b");
    add_nic(0, "lo", 0, 0);
    add_nic(0, "a0", 900000000, 10000);
    add_nic(1, "b0", 900000000, 10000);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mn_mesh_free(&mesh);
    return 0;
}

static void expect(const struct mn_mesh *of, const char *expected)
{
    char text[512];

    assert_string_equal(mn_bench_quote(&report, of, of ? 0 : -1, text, sizeof text), expected);
}

static void one_cable(void **state)
{
    (void)state;
    expect(&mesh, "a to b: 7.2 Gb/s over cable a-b, 76 % of what TCP can, 13 µs");
    expect(NULL, "a to b: 7.2 Gb/s over a0, 76 % of what TCP can, 13 µs");
    latency.p50 = 2.34;
    mesh.nodes[1].nics[0].speed_mbps = 8000; /* the slower end, as the mesh file has it */
    expect(&mesh, "a to b: 7.2 Gb/s over cable a-b, 96 % of what TCP can, 2.3 µs");
    report.environments[0].nics[1].speed_mbps = report.environments[1].nics[0].speed_mbps = 0;
    mesh.nodes[1].nics[0].speed_mbps = 0;
    expect(&mesh, "a to b: 7.2 Gb/s over cable a-b, 2.3 µs");
}

static void several_cables(void **state)
{
    (void)state;
    add_nic(0, "a1", 900000000, 10000);
    add_nic(1, "b1", 900000000, 10000);
    expect(&mesh, "a to b: 7.2 Gb/s over cables a-b and a-b-2, 38 % of what TCP can, 13 µs");
}

static void no_cable(void **state)
{
    (void)state;
    mesh.nodes[0].nics[0].speed_mbps = 2500;
    mesh.nodes[0].nics[1].speed_mbps = 1000;
    strcpy(report.ends[1].node, "c");
    strcpy(report.ends[1].nics[0].netdev, "c0");
    strcpy(report.environments[1].nics[0].netdev, "c0");
    report.environments[0].nics[1].speed_mbps = 0;
    expect(&mesh, "a to c: 7.2 Gb/s over a0 (there is no cable between them: TCP over b, at most "
                  "2.35 Gb/s; one would be faster), 306 % of what TCP can, 13 µs");
    expect(NULL, "a to c: 7.2 Gb/s over a0, 76 % of what TCP can, 13 µs");
}

static void rdma(void **state)
{
    (void)state;
    report.ends[0].nics[1].n =
        (struct mn_nic_counters){.rdma_tx = 900000000, .rdma_unit = MN_RDMA_BYTES};
    report.ends[1].nics[0].n =
        (struct mn_nic_counters){.rdma_rx = 900000000, .rdma_unit = MN_RDMA_BYTES};
    expect(&mesh, "a to b: 7.2 Gb/s over cable a-b, 78 % of what RDMA can, 13 µs");
}

static void what_was_measured(void **state)
{
    (void)state;
    report.n_latency = 0;
    expect(&mesh, "a to b: 7.2 Gb/s over cable a-b, 76 % of what TCP can");
    rows[0].direction = rows[1].direction = MN_P2P_IN;
    expect(&mesh, "a from b: 7.92 Gb/s over cable a-b, 84 % of what TCP can");
    rows[0].direction = rows[1].direction = rows[2].direction = MN_P2P_BOTH;
    expect(&mesh, "a and, both ways at once, b: 7.92 Gb/s over cable a-b, 42 % of what TCP can");
    report.n_bandwidth = 0;
    report.n_latency = 1;
    latency.p50 = 13.2;
    expect(&mesh, "a to b: 13 µs");
    report.n_latency = 0;
    expect(&mesh, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_cable, setup, teardown),
        cmocka_unit_test_setup_teardown(several_cables, setup, teardown),
        cmocka_unit_test_setup_teardown(no_cable, setup, teardown),
        cmocka_unit_test_setup_teardown(rdma, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_measured, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
