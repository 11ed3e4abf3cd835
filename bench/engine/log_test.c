/* What is read from NCCL's log: lines as its releases write them, and any others. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/engine/engine_impl.h"

#define AT(line) "spark-a:4711:4711 [0] NCCL INFO " line "\n"

/* clang-format off */
static const char RELEASE_2_28[] =
    AT("Bootstrap: Using eth0:192.0.2.1<0>")
    AT("NET/Plugin: Loaded net plugin meshnet (v11)")
    AT("Successfully loaded external network plugin /opt/meshnet/libnccl-net-mesh.so")
    AT("Using network meshnet")
    AT("comm 0x55 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0")
    AT("Channel 00/0 : 1[0] -> 0[0] [receive] via NET/meshnet/0/GDRDMA")
    AT("Channel 01/0 : 1[0] -> 0[0] [receive] via NET/meshnet/0")
    AT("Channel 00/0 : 0[0] -> 1[0] [send] via NET/meshnet/0(1)/GDRDMA/Shared")
    AT("Channel 01/0 : 0[0] -> 1[0] [send] via NET/meshnet/0")
    AT("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read")
    AT("Channel 00 : 0[0] -> 1[0] via SHM/direct/direct")
    AT("CollNet 00/0 : 0 [receive] via COLLNET/mesh/0")
    AT("CollNet 00/0 : 0 [send] via COLLNET/mesh/0")
    AT("Connected all rings, use ring PXN 0 GDR 1");
/* clang-format on */

static void finds_network_plugin_and_channels(void **state)
{
    struct mn_engine_evidence e = {.gdr = 0};

    (void)state;
    mn_engine_log_parse(RELEASE_2_28, 1, &e);
    assert_string_equal(e.network, "meshnet");
    assert_string_equal(e.plugin, "meshnet (v11)");
    assert_int_equal(e.gdr, 1);
    assert_int_equal(e.n_vias, 4);
    assert_string_equal(e.via[0].name, "NET/meshnet");
    assert_int_equal(e.via[0].channels, 2);
    assert_string_equal(e.via[1].name, "P2P");
    assert_string_equal(e.via[2].name, "SHM");
    assert_string_equal(e.via[3].name, "COLLNET/mesh");
    assert_int_equal(e.via[3].channels, 1);
    assert_true(mn_engine_went_over(&e, "meshnet"));
    assert_true(mn_engine_went_over(&e, "mesh"));
    assert_false(mn_engine_went_over(&e, "Socket"));
}

static void adds_up_ranks_and_counts_those_that_differ(void **state)
{
    struct mn_engine_evidence e = {.gdr = 0};

    (void)state;
    mn_engine_log_parse(RELEASE_2_28, 1, &e);
    mn_engine_log_parse(RELEASE_2_28, 0, &e);
    assert_int_equal(e.differ, 0);
    mn_engine_log_parse(AT("Using network Socket"), 0, &e);
    mn_engine_log_parse("", 0, &e);
    assert_int_equal(e.differ, 2);
    assert_string_equal(e.network, "meshnet");
    assert_int_equal(e.via[0].channels, 4);
}

static void the_excerpt_says_the_same(void **state)
{
    struct mn_engine_evidence all = {.gdr = 0}, part = {.gdr = 0};
    char text[sizeof RELEASE_2_28];

    (void)state;
    memcpy(text, RELEASE_2_28, sizeof text);
    mn_engine_log_excerpt(text);
    assert_true(strlen(text) < strlen(RELEASE_2_28));
    assert_null(strstr(text, "Bootstrap"));
    mn_engine_log_parse(RELEASE_2_28, 1, &all);
    mn_engine_log_parse(text, 1, &part);
    assert_memory_equal(&all, &part, sizeof all);
}

static void strange_text_does_no_harm(void **state)
{
    static const char *const texts[] = {
        "Using network ",
        "\n\n",
        " via ",
        "-> via \n",
        "[send] via NET/",
        "[send] via COLLNET/",
        "x -> y via NET/\n",
        "x -> y via COLLNET",
        "oaded net plugin \nUsing network \n",
    };
    struct mn_engine_evidence e = {.gdr = 0};
    char longest[4096], warning[64];
    const char *advice;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        mn_engine_log_parse(texts[i], 1, &e);
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    memcpy(longest, "Using network ", 14);
    mn_engine_log_parse(longest, 1, &e);
    assert_int_equal(strlen(e.network), sizeof e.network - 1);
    memcpy(longest, "a -> b [send] via NET/", 22);
    for (int i = 0; i < 2 * MN_ENGINE_VIAS; i++) {
        longest[22] = (char)('a' + i);
        mn_engine_log_parse(longest, 0, &e);
    }
    assert_true(e.n_vias <= MN_ENGINE_VIAS);
    memcpy(longest, "NCCL WARN ", 10);
    mn_engine_log_warning(longest, warning, sizeof warning, &advice);
    assert_int_equal(strlen(warning), sizeof warning - 1);
}

static void the_last_warning_counts_and_what_is_known_of_any(void **state)
{
    char warning[256];
    const char *advice;

    (void)state;
    mn_engine_log_warning(RELEASE_2_28, warning, sizeof warning, &advice);
    assert_string_equal(warning, "");
    assert_string_equal(advice, "");
    mn_engine_log_warning("a:1:1 [0] init.cc:800 NCCL WARN Cuda failure 35 'CUDA driver version is "
                          "insufficient for CUDA runtime version'\n"
                          "a:1:1 [0] NCCL INFO init.cc:2000 -> 1\n"
                          "a:1:1 [0] NCCL WARN [Service thread] Could not receive\n",
                          warning, sizeof warning, &advice);
    assert_string_equal(warning, "[Service thread] Could not receive");
    assert_non_null(strstr(advice, "update the driver"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_network_plugin_and_channels),
        cmocka_unit_test(adds_up_ranks_and_counts_those_that_differ),
        cmocka_unit_test(the_excerpt_says_the_same),
        cmocka_unit_test(strange_text_does_no_harm),
        cmocka_unit_test(the_last_warning_counts_and_what_is_known_of_any),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
