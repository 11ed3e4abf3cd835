/* What carried the messages, judged by counters. */
#include "bench/p2p.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* cmocka wants the above first. */
#include <cmocka.h>

#define NONE    MN_RDMA_UNCOUNTED
#define BYTES   MN_RDMA_BYTES
#define PACKETS MN_RDMA_PACKETS

/* A run of 100 messages of 8192 bytes: 819200 bytes, 200 packets. */
static void carriers(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct mn_nic_counters nics[2]; /* rx, tx, RDMA rx, RDMA tx, in what */
        enum mn_p2p_carrier carrier;
        double shares[2];
    } rows[] = {
        {"hardware: the netdevs see nothing",
         {{500, 500, 410000, 420000, BYTES}, {0, 0, 0, 0, BYTES}},
         MN_P2P_RDMA,
         {1, 0}},
        {"soft-RoCE, one NIC of two, acknowledgements beside",
         {{900000, 90000, 205, 30, PACKETS}, {90, 90, 0, 2, PACKETS}},
         MN_P2P_RDMA,
         {235.0 / 237, 2.0 / 237}},
        {"two kinds of NIC share it",
         {{0, 0, 0, 100, PACKETS}, {0, 0, 409600, 0, BYTES}},
         MN_P2P_RDMA,
         {0.5, 0.5}},
        {"TCP beside RDMA devices that stood still",
         {{700000, 200000, 0, 3, PACKETS}, {0, 100000, 0, 0, PACKETS}},
         MN_P2P_TCP,
         {0.9, 0.1}},
        {"TCP without RDMA devices",
         {{0, 900000, 0, 0, NONE}, {0, 0, 0, 0, NONE}},
         MN_P2P_TCP,
         {1, 0}},
        {"some of it by RDMA",
         {{800000, 0, 60, 40, PACKETS}, {0, 0, 0, 0, NONE}},
         MN_P2P_MIXED,
         {1, 0}},
        {"shared memory", {{300, 100, 0, 0, NONE}, {0, 0, 0, 0, NONE}}, MN_P2P_UNSEEN, {1, 0}},
        {"nothing at all", {{0, 0, 0, 0, NONE}, {0, 0, 0, 0, NONE}}, MN_P2P_UNSEEN, {0, 0}},
    };
    struct mn_p2p_report report = {.moved_bytes = 819200, .moved_packets = 200};
    struct mn_p2p_end end = {.n_nics = 2};
    double shares[MN_P2P_NICS];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("%s\n", rows[i].what);
        for (int k = 0; k < 2; k++)
            end.nics[k].n = rows[i].nics[k];
        assert_int_equal(mn_p2p_carrier(&report, &end, shares), rows[i].carrier);
        for (int k = 0; k < 2; k++)
            assert_float_equal(shares[k], rows[i].shares[k], 1e-9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(carriers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
