/* The rules and figures behind every version of the tuner. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/tuner/tuning.h"
#include "topo/mesh_file.h"
#include "topo/model.h"

#define RING_SIMPLE (NCCL_ALGO_RING * NCCL_NUM_PROTOCOLS + NCCL_PROTO_SIMPLE)
#define CELLS       (NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS)

/* Nodes and the cables between them, each of so many Mb/s, 0: not said. Sorted by nodes. */
struct cable {
    int a, b, mbps;
};

static void make_mesh(int n, const struct cable *cables, int n_cables, struct mn_mesh *mesh)
{
    char *text = NULL;
    size_t len = 0;
    struct mn_diag diag = {.text = ""};
    FILE *file = open_memstream(&text, &len);

    assert_non_null(file);
    fputs("version: 1\nnodes:\n", file);
    for (int node = 0; node < n; node++) {
        fprintf(file, "  - name: n%d\n    nics:\n", node);
        for (int i = 0; i < n_cables; i++) {
            const struct cable *c = &cables[i];
            if (c->a != node && c->b != node)
                continue;
            fprintf(file, "      - netdev: p%d\n        addresses: [10.%d.%d.%d/30]\n", i,
                    i / 64 / 256, i / 64 % 256, i % 64 * 4 + 1 + (c->b == node));
            if (c->mbps)
                fprintf(file, "        speed: %d\n", c->mbps);
        }
    }
    fclose(file);
    mn_mesh_init(mesh);
    if (mn_mesh_parse("test", text, len, mesh, &diag))
        fail_msg("%s", diag.text);
    free(text);
}

static void make_ring(int n, int mbps, struct mn_mesh *mesh)
{
    struct cable *cables = calloc((size_t)n, sizeof *cables);

    assert_non_null(cables);
    for (int i = 0; i < n; i++)
        cables[i] = (struct cable){i, (i + 1) % n, mbps};
    make_mesh(n, cables, n, mesh);
    free(cables);
}

static struct mn_tuning *tune(const struct mn_mesh *mesh, struct mn_tuning_asked asked)
{
    struct mn_tuning *t;
    struct mn_diag diag = {.text = ""};

    if (mn_tuning_make(mesh, &asked, &t, &diag))
        fail_msg("%s", diag.text);
    return t;
}

static struct mn_tuning *tune_all(const struct mn_mesh *mesh)
{
    return tune(mesh, (struct mn_tuning_asked){.ranks = mesh->n_nodes, .nodes = mesh->n_nodes});
}

/* Asks for an all-reduce with rings and trees that NCCL thinks to take no time; returns the cell
 * that it would take. */
static int ask(const struct mn_tuning *t, size_t bytes, float table[CELLS], int *channels)
{
    int best = -1;

    *channels = 0;
    for (int i = 0; i < CELLS; i++)
        table[i] = i / 3 == NCCL_ALGO_RING || i / 3 == NCCL_ALGO_TREE ? 0 : NCCL_ALGO_PROTO_IGNORE;
    mn_tuning_costs(t, ncclFuncAllReduce, bytes, 1, table, NCCL_NUM_ALGORITHMS, NCCL_NUM_PROTOCOLS,
                    channels);
    for (int i = 0; i < CELLS; i++)
        if (table[i] >= 0 && (best < 0 || table[i] < table[best]))
            best = i;
    assert_true(best >= 0);
    return best;
}

/* --- tests ------------------------------------------------------------------------------------ */

#define TREES (1u << NCCL_ALGO_TREE | 1u << NCCL_ALGO_NVLS_TREE)
#define PAT   (1u << NCCL_ALGO_PAT)
#define MBPS  100000

/* Cables that are there decide, not how many. */
static void test_what_is_barred(void **state)
{
    static const struct {
        int n, n_cables;
        struct cable cables[16];
        unsigned barred;
        int gaps;
    } cases[] = {
        {3, 2, {{0, 1, MBPS}, {1, 2, MBPS}}, 0, 1}, /* the ring joins all three pairs */
        {4, 3, {{0, 1, MBPS}, {0, 2, MBPS}, {0, 3, MBPS}}, TREES | PAT, 2},
        {4, 4, {{0, 1, MBPS}, {1, 2, MBPS}, {2, 3, MBPS}, {0, 3, MBPS}}, TREES | PAT, 0},
        /* Five in a ring, and the two pairs that trees join beside it. */
        {5,
         7,
         {{0, 1, MBPS},
          {1, 2, MBPS},
          {2, 3, MBPS},
          {3, 4, MBPS},
          {0, 4, MBPS},
          {0, 3, MBPS},
          {2, 4, MBPS}},
         PAT,
         0},
        /* Six, and all but what is opposite: PAT's distances are 1, 2 and 4. */
        {6,
         12,
         {{0, 1, MBPS},
          {1, 2, MBPS},
          {2, 3, MBPS},
          {3, 4, MBPS},
          {4, 5, MBPS},
          {0, 5, MBPS},
          {0, 2, MBPS},
          {1, 3, MBPS},
          {2, 4, MBPS},
          {3, 5, MBPS},
          {0, 4, MBPS},
          {1, 5, MBPS}},
         0,
         0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mn_mesh mesh;
        make_mesh(cases[i].n, cases[i].cables, cases[i].n_cables, &mesh);
        struct mn_tuning *t = tune_all(&mesh);
        assert_int_equal(t->rule, MN_TUNING_CABLES);
        assert_int_equal(t->barred, cases[i].barred);
        assert_int_equal(t->gaps, cases[i].gaps);
        for (enum mn_tuning_way way = MN_TUNING_TREE; way <= MN_TUNING_PAT; way++)
            if (t->barred & (way == MN_TUNING_TREE ? TREES : PAT)) {
                const int *pair = t->leave[way];
                assert_true(pair[0] < pair[1] && pair[1] < cases[i].n);
                assert_false(mn_mesh_has_cable(&mesh, t->order[pair[0]], t->order[pair[1]]));
            }
        mn_tuning_free(t);
        mn_mesh_free(&mesh);
    }
}

/* Six with all but the opposite: trees and PAT stay within the cables, and have times. */
static void test_trees_along_cables(void **state)
{
    static const struct cable cables[] = {{0, 1, MBPS}, {0, 2, MBPS}, {0, 4, MBPS}, {0, 5, MBPS},
                                          {1, 2, MBPS}, {1, 3, MBPS}, {1, 5, MBPS}, {2, 3, MBPS},
                                          {2, 4, MBPS}, {3, 4, MBPS}, {3, 5, MBPS}, {4, 5, MBPS}};
    struct mn_mesh mesh;
    float table[CELLS];
    int channels;

    (void)state;
    make_mesh(6, cables, 12, &mesh);
    struct mn_tuning *t = tune_all(&mesh);
    assert_true(!t->barred && t->predicts);
    for (size_t bytes = 1; bytes < 1ul << 34; bytes *= 4) {
        int best = ask(t, bytes, table, &channels);
        for (int a = NCCL_ALGO_TREE; a <= NCCL_ALGO_RING; a++)
            for (int p = 0; p < 3; p++) {
                double us = mn_tuning_time(t, ncclFuncAllReduce, bytes, 1, a, p);
                assert_true(us > 0 && table[a * 3 + p] == (float)us);
                assert_true(table[best] <= table[a * 3 + p]);
            }
    }
    /* By one channel where two trees are slower: then both say so, or none. */
    for (int k = 0; k < MN_TUNING_SIZES; k++) {
        int best = ask(t, (size_t)1 << k, table, &channels);
        assert_int_equal(channels, best / 3 == NCCL_ALGO_TREE &&
                                       t->one_channel[ncclFuncAllReduce][MN_TUNING_TREE][k]);
    }
    /* Of what is told in a group, latencies add up and bandwidth does not. */
    double one = mn_tuning_time(t, ncclFuncAllReduce, 1 << 20, 1, NCCL_ALGO_RING, NCCL_PROTO_LL),
           few = mn_tuning_time(t, ncclFuncAllReduce, 1 << 20, 4, NCCL_ALGO_RING, NCCL_PROTO_LL);
    assert_true(few > one && few < 4 * one);
    mn_tuning_free(t);
    mn_mesh_free(&mesh);
}

/* The protocol that is quick for few bytes gives way to those that waste less; longer takes longer;
 * what NCCL thinks to be slower than the cables stays. */
static void test_figures(void **state)
{
    struct mn_mesh mesh;
    float table[CELLS], before = 0;
    int channels, protocol = NCCL_PROTO_LL;

    (void)state;
    make_ring(4, MBPS, &mesh);
    struct mn_tuning *t = tune_all(&mesh);
    for (size_t bytes = 1; bytes <= (size_t)1 << 34; bytes *= 2) {
        int best = ask(t, bytes, table, &channels);
        assert_int_equal(best / 3, NCCL_ALGO_RING);
        assert_true(table[best] >= before && best % 3 >= protocol);
        assert_true(bytes > 1024 || best % 3 == NCCL_PROTO_LL);
        before = table[best];
        protocol = best % 3;
    }
    assert_int_equal(protocol, NCCL_PROTO_SIMPLE);
    /* 100 Gb/s are 12.5 GB/s less what headers take; 16 GiB go by one and a half times. */
    double rate = 1.5 * (double)((size_t)1 << 34) / ((double)before * 1e-6);
    assert_true(rate > 11e9 && rate < 12.5e9);
    table[RING_SIMPLE] = 5e9f;
    mn_tuning_costs(t, ncclFuncAllReduce, 1 << 20, 1, table, NCCL_NUM_ALGORITHMS, 3, &channels);
    assert_true(table[RING_SIMPLE] == 5e9f);
    mn_tuning_free(t);
    mn_mesh_free(&mesh);
}

/* Protocols cost what NCCL says that they do: once, and at each step. Of four nodes a ring's
 * all-reduce has two rounds of three, a tree's goes up two and down two, PAT has two. */
static void test_constants(void **state)
{
    static const struct {
        int function, algorithm, steps;
    } ways[] = {{ncclFuncAllReduce, NCCL_ALGO_RING, 6},    {ncclFuncAllReduce, NCCL_ALGO_TREE, 4},
                {ncclFuncAllGather, NCCL_ALGO_RING, 3},    {ncclFuncAllGather, NCCL_ALGO_PAT, 2},
                {ncclFuncReduceScatter, NCCL_ALGO_PAT, 2}, {ncclFuncBroadcast, NCCL_ALGO_RING, 3}};
    struct mn_mesh mesh;

    (void)state;
    make_ring(4, MBPS, &mesh);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int a = ways[i].algorithm;
        ncclTunerConstants_v5_t c = {.baseLatencies = {{0}}};
        struct mn_tuning_asked asked = {.ranks = 4, .nodes = 4, .constants = &c, .everything = 1};
        struct mn_tuning *t = tune(&mesh, asked), *slow;
        c.baseLatencies[a][NCCL_PROTO_SIMPLE] = 50;
        c.hwLatencies[NCCL_HW_NET][a][NCCL_PROTO_SIMPLE] = 10;
        slow = tune(&mesh, asked);
        for (int p = 0; p < 3; p++) {
            double more = mn_tuning_time(slow, ways[i].function, 4096, 1, a, p) -
                          mn_tuning_time(t, ways[i].function, 4096, 1, a, p);
            double wanted = p == NCCL_PROTO_SIMPLE ? 50 + 10 * ways[i].steps : 0;
            assert_true(more > wanted - 0.01 && more < wanted + 0.01);
        }
        mn_tuning_free(t);
        mn_tuning_free(slow);
    }
    mn_mesh_free(&mesh);
}

/* Without what protocols add, times are those of the model that bench and plans have, ways through
 * other nodes included. */
static void test_same_model(void **state)
{
    static const struct cable star[] = {{0, 1, MBPS}, {0, 2, MBPS}, {0, 3, MBPS}};
    ncclTunerConstants_v5_t c = {.baseLatencies = {{0}}};
    struct mn_mesh mesh;
    struct mn_fabric fabric;
    struct mn_routes routes;
    struct mn_model_result result;

    (void)state;
    make_mesh(4, star, 3, &mesh);
    struct mn_tuning *t =
        tune(&mesh, (struct mn_tuning_asked){.ranks = 4, .nodes = 4, .constants = &c});
    mn_fabric_from_mesh(&mesh, &fabric);
    mn_routes_find(&fabric, &routes);
    struct mn_model model = {.fabric = &fabric,
                             .routes = &routes,
                             .node_of_rank = t->order,
                             .n_ranks = 4};
    for (size_t bytes = 1; bytes <= 1ul << 30; bytes *= 2) {
        assert_int_equal(mn_model_predict(&model, MN_MODEL_ALL_REDUCE, MN_MODEL_RING, (double)bytes,
                                          2, &result),
                         MN_OK);
        double ours =
            mn_tuning_time(t, ncclFuncAllReduce, bytes, 1, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE) /
            1e6 / result.seconds;
        assert_true(ours > 0.999 && ours < 1.001);
    }
    mn_routes_free(&routes);
    mn_fabric_free(&fabric);
    mn_tuning_free(t);
    mn_mesh_free(&mesh);
}

/* Sizes for which a full mesh of four with one slow cable is given one tree, whichever that is. */
static int one_channels(size_t ranks, const ncclTunerConstants_v5_t *constants)
{
    static const int pairs[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
    int count = 0;

    for (int slow = 0; slow < 6; slow++) {
        struct cable cables[6];
        struct mn_mesh mesh;
        for (int i = 0; i < 6; i++)
            cables[i] = (struct cable){pairs[i][0], pairs[i][1], i == slow ? 1000 : MBPS};
        make_mesh(4, cables, 6, &mesh);
        struct mn_tuning *t =
            tune(&mesh,
                 (struct mn_tuning_asked){.ranks = ranks, .nodes = 4, .constants = constants});
        for (int k = 20; k < MN_TUNING_SIZES; k++)
            count += t->one_channel[ncclFuncAllReduce][MN_TUNING_TREE][k];
        mn_tuning_free(t);
        mn_mesh_free(&mesh);
    }
    return count;
}

/* Only where it is known what a channel carries, and never with several ranks a node. */
static void test_one_channel(void **state)
{
    ncclTunerConstants_v5_t c = {.baseLatencies = {{0}}};

    (void)state;
    assert_int_equal(one_channels(4, NULL), 0);
    assert_int_equal(one_channels(4, &c), 0);
    for (int cap = 0; cap < NCCL_NUM_COMPCAPS_V5; cap++)
        for (int s = 0; s < NCCL_NUM_TUNING_SCALES; s++)
            c.perChMaxTreeBws[cap][s] = c.perChMaxTreeLL128Bws[cap][s] = 20;
    assert_true(one_channels(4, &c) > 0);
    assert_int_equal(one_channels(8, &c), 0);
    c.perChMaxTreeBws[0][2] = 0.01; /* less than the slow cable */
    assert_int_equal(one_channels(4, &c), 0);
}

/* Of complete meshes with a slow cable the figures are the mesh's, and nothing is barred. */
static void test_unequal(void **state)
{
    static const struct cable cables[] = {{0, 1, 1000}, {0, 2, MBPS}, {0, 3, MBPS},
                                          {1, 2, MBPS}, {1, 3, MBPS}, {2, 3, MBPS}};
    struct mn_mesh mesh;
    float table[CELLS];
    int channels;

    (void)state;
    make_mesh(4, cables, 6, &mesh);
    struct mn_tuning *t = tune_all(&mesh);
    assert_int_equal(t->rule, MN_TUNING_UNEQUAL);
    assert_int_equal(t->barred, 0);
    (void)ask(t, 1 << 20, table, &channels);
    /* 1 MiB twice less a quarter, over 1 Gb/s. */
    assert_true(table[RING_SIMPLE] > 12e3f && table[RING_SIMPLE] < 20e3f);
    mn_tuning_free(t);
    /* Some of them: nobody knows whether the slow one is among their cables. */
    t = tune(&mesh, (struct mn_tuning_asked){.ranks = 3, .nodes = 3});
    assert_int_equal(t->rule, MN_TUNING_COMPLETE);
    (void)ask(t, 1 << 20, table, &channels);
    assert_true(table[RING_SIMPLE] == 0);
    mn_tuning_free(t);
    mn_mesh_free(&mesh);
}

/* Every fourth size is predicted from 17 nodes on, and none of more than 512; what is barred stays
 * so, and ways that are barred are not looked at but to be shown. */
static void test_large(void **state)
{
    float table[CELLS];
    int channels;
    struct mn_mesh mesh;

    (void)state;
    for (int n = 16; n <= 17; n++) {
        make_ring(n, MBPS, &mesh);
        struct mn_tuning *t = tune_all(&mesh);
        float before = 0;
        for (int k = 0; k < MN_TUNING_SIZES; k++) {
            int best = ask(t, (size_t)1 << k, table, &channels);
            assert_int_equal(best / 3, NCCL_ALGO_RING);
            assert_true(table[best] > before || k < 10);
            before = table[best];
        }
        assert_true(mn_tuning_time(t, ncclFuncAllReduce, 64, 1, NCCL_ALGO_TREE, 0) < 0);
        mn_tuning_free(t);
        t = tune(&mesh,
                 (struct mn_tuning_asked){.ranks = (size_t)n, .nodes = (size_t)n, .everything = 1});
        assert_true(mn_tuning_time(t, ncclFuncAllReduce, 64, 1, NCCL_ALGO_TREE, 0) > 0);
        assert_true(mn_tuning_time(t, ncclFuncAllGather, 64, 1, NCCL_ALGO_PAT, 2) > 0);
        mn_tuning_free(t);
        mn_mesh_free(&mesh);
    }
    make_ring(513, MBPS, &mesh);
    struct mn_tuning *t = tune_all(&mesh);
    assert_true(!t->predicts && t->barred == (TREES | PAT));
    (void)ask(t, 4096, table, &channels);
    assert_true(table[RING_SIMPLE] == 0 && table[0] < 0);
    mn_tuning_free(t);
    mn_mesh_free(&mesh);
}

/* Two pieces, as while a cable is missing in the file: nothing can be predicted, nothing breaks. */
static void test_in_pieces(void **state)
{
    static const struct cable cables[] = {{0, 1, MBPS}, {2, 3, MBPS}};
    struct mn_mesh mesh;
    float table[CELLS];
    int channels;

    (void)state;
    make_mesh(4, cables, 2, &mesh);
    struct mn_tuning *t = tune_all(&mesh);
    assert_false(t->predicts);
    assert_int_equal(ask(t, 4096, table, &channels) / 3, NCCL_ALGO_RING);
    mn_tuning_free(t);
    t = tune(NULL, (struct mn_tuning_asked){.ranks = 4, .nodes = 4});
    assert_int_equal(t->rule, MN_TUNING_NO_MESH);
    mn_tuning_free(t);
    mn_tuning_free(NULL);
    for (int rule = MN_TUNING_NO_MESH; rule <= MN_TUNING_PART; rule++)
        assert_true(*mn_tuning_rule_text((enum mn_tuning_rule)rule));
    mn_mesh_free(&mesh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_barred), cmocka_unit_test(test_trees_along_cables),
        cmocka_unit_test(test_figures),        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_same_model),     cmocka_unit_test(test_unequal),
        cmocka_unit_test(test_one_channel),    cmocka_unit_test(test_large),
        cmocka_unit_test(test_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
