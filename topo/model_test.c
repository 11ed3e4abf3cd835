/* Predictions beside what can be worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/load.h"
#include "topo/model.h"

#define RATE    1e9
#define LATENCY 1e-5

static struct mn_fabric fabric;
static struct mn_routes routes;
static struct mn_model model;
static struct mn_model_result got;

static void begin(int n)
{
    fabric = (struct mn_fabric){.n = n};
}

static int join(int a, int b)
{
    return mn_fabric_add(&fabric, a, b, RATE, LATENCY);
}

static void ready(void)
{
    mn_routes_find(&fabric, &routes);
    model = (struct mn_model){.fabric = &fabric, .routes = &routes, .n_ranks = fabric.n};
}

static void end(void)
{
    mn_routes_free(&routes);
    mn_fabric_free(&fabric);
}

static void ring(int n)
{
    begin(n);
    for (int i = 0; i < n; i++)
        join(i, (i + 1) % n);
    ready();
}

static double seconds(enum mn_model_op op, enum mn_model_algo algo, double bytes)
{
    assert_int_equal(mn_model_predict(&model, op, algo, bytes, 2, &got), MN_OK);
    return got.seconds;
}

static void assert_near(double value, double expected)
{
    assert_float_equal(value / expected, 1, 1e-6);
}

static void rings_on_rings(void **state)
{
    (void)state;
    for (int n = 2; n <= 9; n++) {
        ring(n);
        int cables = n == 2 ? 2 : 1; /* between neighbours */
        double slice = 1e5, wait = LATENCY + slice / RATE / cables, all = slice * n;
        assert_near(seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, all), 2 * (n - 1) * wait);
        assert_near(got.busbw, 2.0 * (n - 1) * slice / got.seconds);
        assert_near(seconds(MN_MODEL_ALL_GATHER, MN_MODEL_RING, all), (n - 1) * wait);
        assert_near(seconds(MN_MODEL_REDUCE_SCATTER, MN_MODEL_RING, all), (n - 1) * wait);
        assert_near(seconds(MN_MODEL_SEND_RECV, MN_MODEL_DIRECT, slice), wait);
        /* Much data hides the latency. */
        seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 1e9);
        assert_true(got.busbw > 0.99 * RATE * cables);
        assert_true(got.busbw <= RATE * cables);
        assert_int_equal(got.limit, MN_LIMIT_CABLE);
        seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 8);
        assert_int_equal(got.limit, MN_LIMIT_LATENCY);
        end();
    }
}

/* One way of one cable is slow: it limits, and is named. */
static void what_limits_is_named(void **state)
{
    (void)state;
    ring(5);
    fabric.cables[3].back = RATE / 4;
    seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 1e9);
    assert_true(got.busbw > 0.99 * RATE);
    seconds(MN_MODEL_ALL_TO_ALL, MN_MODEL_DIRECT, 1e9);
    assert_int_equal(got.cable, 3);
    assert_int_equal(got.direction, 1);
    fabric.cables[3].rate = RATE / 8;
    seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 1e9);
    assert_true(got.busbw > 0.99 * RATE / 8 && got.busbw <= RATE / 8);
    assert_int_equal(got.cable, 3);
    assert_int_equal(got.direction, 0);
    end();
}

/* What goes further takes both ways round, each for what it can carry. */
static void ways_beside_each_other(void **state)
{
    double alone;

    (void)state;
    ring(4);
    alone = seconds(MN_MODEL_ALL_TO_ALL, MN_MODEL_DIRECT, 4e9);
    fabric.relay_ways = 2;
    /* Each cable and direction: 1 GB of neighbours, and half a GB of four pairs that are opposite.
     */
    assert_near(seconds(MN_MODEL_ALL_TO_ALL, MN_MODEL_DIRECT, 4e9) - got.latency, 2.0);
    assert_true(alone > 2.5);
    /* A ring goes by cables alone: nothing else. */
    seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 4e9);
    assert_true(got.busbw > 0.99 * RATE && got.busbw <= RATE);
    end();

    ring(4);
    int opposite[2] = {0, 2};
    fabric.relay_ways = 2;
    fabric.cables[2].rate = 3 * RATE; /* 2 to 3 to 0: three times as much */
    fabric.cables[3].rate = 3 * RATE;
    model.node_of_rank = opposite;
    model.n_ranks = 2;
    assert_near(seconds(MN_MODEL_SEND_RECV, MN_MODEL_DIRECT, 4e9) - got.latency, 1.0);
    /* Both ways leave by halves of a port that carries no more than one. */
    fabric.groups = mn_zalloc(sizeof *fabric.groups);
    fabric.groups[0] = (struct mn_fabric_group){0, RATE};
    fabric.n_groups = 1;
    fabric.cables[0].groups[0] = fabric.cables[3].groups[1] = 0;
    assert_near(seconds(MN_MODEL_SEND_RECV, MN_MODEL_DIRECT, 4e9) - got.latency, 4.0);
    assert_int_equal(got.limit, MN_LIMIT_GROUP);
    end();
}

/* A cable that carries less both ways at once: a ring goes one way round and does not see it. */
static void both_ways_at_once(void **state)
{
    (void)state;
    ring(4);
    double one_way = seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 1e8);
    double there = seconds(MN_MODEL_ALL_TO_ALL, MN_MODEL_DIRECT, 4e8);
    for (size_t c = 0; c < fabric.n_cables; c++)
        fabric.cables[c].both = 1.5 * RATE;
    assert_near(seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 1e8), one_way);
    assert_float_equal(seconds(MN_MODEL_ALL_TO_ALL, MN_MODEL_DIRECT, 4e8) / there, 2 / 1.5, 1e-3);
    assert_int_equal(got.limit, MN_LIMIT_CABLE);
    end();
}

/* Halves of a port carry no more than the port; without a group two cables carry double. */
static void parallel_cables_and_ports(void **state)
{
    (void)state;
    for (int grouped = 0; grouped < 2; grouped++) {
        begin(4);
        for (int i = 0; i < 8; i++)
            join(i / 2, (i / 2 + 1) % 4);
        for (int n = 0; grouped && n < 4; n++) {
            struct mn_fabric_group *g =
                mn_grow((void **)&fabric.groups, &fabric.n_groups, sizeof *g);
            *g = (struct mn_fabric_group){n, RATE};
            fabric.cables[2 * n].groups[0] = fabric.cables[2 * n + 1].groups[0] = n;
        }
        ready();
        seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 4e9);
        assert_float_equal(got.busbw / RATE, grouped ? 1 : 2, 0.01);
        assert_int_equal(got.limit, grouped ? MN_LIMIT_GROUP : MN_LIMIT_CABLE);
        assert_int_equal(got.node, grouped ? 0 : -1);
        end();
    }
}

/* A line: what goes round must come back over all cables. */
static void a_ring_on_a_line(void **state)
{
    (void)state;
    begin(4);
    for (int i = 0; i < 3; i++)
        join(i, i + 1);
    ready();
    seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 1e9);
    assert_float_equal(got.busbw / RATE, 1, 0.01); /* the way back is the cables' other direction */
    model.host.forward = RATE / 2;
    seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 1e9);
    assert_float_equal(got.busbw / RATE, 0.5, 0.01);
    assert_int_equal(got.limit, MN_LIMIT_FORWARD);
    assert_true(got.node == 1 || got.node == 2);
    end();
}

static void ranks_out_of_order(void **state)
{
    const int order[] = {0, 3, 1, 4, 2, 5};

    (void)state;
    ring(6);
    double good = seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 1e8);
    model.node_of_rank = order;
    assert_true(seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 1e8) > 1.9 * good);
    end();
}

/* Of a ring of four each diagonal pair has a neighbour in between: 3 blocks over some cable. */
static void all_to_all_on_a_ring(void **state)
{
    (void)state;
    ring(4);
    assert_near(seconds(MN_MODEL_ALL_TO_ALL, MN_MODEL_DIRECT, 4e5), 2 * LATENCY + 3e5 / RATE);
    seconds(MN_MODEL_ALL_TO_ALL, MN_MODEL_DIRECT, 4e8);
    assert_near(got.busbw, 3e8 / got.seconds);
    fabric.far = 1e-3; /* what those opposite need more */
    assert_near(seconds(MN_MODEL_ALL_TO_ALL, MN_MODEL_DIRECT, 4e5),
                2 * LATENCY + 1e-3 + 3e5 / RATE);
    assert_near(seconds(MN_MODEL_SEND_RECV, MN_MODEL_DIRECT, 1e5), LATENCY + 1e5 / RATE);
    end();
}

/* The exchange, which counts by trees, is the sum of all pairs' flows. */
static void an_exchange_is_all_its_pairs(void **state)
{
    int path[32], unknown = -1;

    (void)state;
    for (int doors = 0; doors < 2; doors++) {
        begin(30);
        for (int i = 0; i < 30; i++) {
            join(i, i / 6 * 6 + (i + 1) % 6);
            join(i, (i + 6) % 30);
            if (i % 7 == 0)
                join(i, (i + 6) % 30);
        }
        for (size_t c = 0; c < fabric.n_cables; c++)
            fabric.cables[c].rate = RATE / (1 + (double)(c % 5));
        if (doors) {
            fabric.doors = mn_zalloc(31 * sizeof *fabric.doors);
            for (size_t c = fabric.n_cables; c-- > 0;)
                fabric.doors[fabric.cables[c].nodes[0]] = (int)c;
        }
        ready();
        struct mn_load load;
        mn_load_make(&fabric, &load);
        for (int a = 0; a < 30; a++)
            for (int b = 0; b < 30; b++) {
                int hops = a == b ? 0
                                  : mn_routes_path_by(&fabric, &routes, a, b,
                                                      doors ? fabric.doors[b] : -1, path);
                for (int i = 0; i < hops; i++)
                    mn_load_edge(&load, &routes, mn_routes_edge(&routes, path[i], path[i + 1]),
                                 path[i], 1e9 / 30, hops > 1, &unknown);
            }
        struct mn_load_worst worst = mn_load_worst(&load);
        seconds(MN_MODEL_ALL_TO_ALL, MN_MODEL_DIRECT, 1e9);
        assert_float_equal(got.seconds / worst.seconds, 1, 0.001);
        assert_int_equal(got.cable, worst.cable);
        assert_int_equal(got.direction, worst.direction);
        mn_load_free(&load);
        end();
    }
}

/* On a full mesh of four the trees' inner nodes pass on what comes from two; on a ring, where two
 * edges of the trees have no cable, they are slower, and the ring is as fast as before. */
static void trees_and_pat(void **state)
{
    (void)state;
    begin(4);
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < a; b++)
            join(a, b);
    ready();
    double small = seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_TREE, 8);
    assert_true(small < 1.001 * 4 * (LATENCY + 8 / RATE) && small > 4 * LATENCY);
    assert_true(small < seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 8));
    double full = seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_TREE, 1e9);
    double pat = seconds(MN_MODEL_ALL_GATHER, MN_MODEL_PAT, 8);
    assert_true(pat > 2 * LATENCY && pat < 2.001 * LATENCY);
    end();
    ring(4);
    assert_true(seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_TREE, 1e9) > 1.4 * full);
    assert_true(seconds(MN_MODEL_ALL_GATHER, MN_MODEL_PAT, 8) > 2.9 * LATENCY);
    end();
    ring(8); /* 4 blocks to the next rank, 2 over two cables, 1 over four */
    seconds(MN_MODEL_ALL_GATHER, MN_MODEL_PAT, 8e9);
    assert_float_equal(got.seconds, 4 + 2 * 2 + 1 * 3, 1.01); /* which have a choice of two */
    end();
}

static void chains(void **state)
{
    double chunk = 256 << 10;

    (void)state;
    ring(4);
    assert_near(seconds(MN_MODEL_BROADCAST, MN_MODEL_RING, 1e5), 3 * (LATENCY + 1e5 / RATE));
    assert_near(seconds(MN_MODEL_REDUCE, MN_MODEL_RING, 64 * chunk),
                3 * (LATENCY + chunk / RATE) + 63 * chunk / RATE);
    assert_near(seconds(MN_MODEL_REDUCE, MN_MODEL_DIRECT, 1e9), 2 * LATENCY + 2e9 / RATE);
    end();
}

static void hosts(void **state)
{
    (void)state;
    ring(4);
    fabric.hosts = mn_zalloc(5 * sizeof *fabric.hosts);
    fabric.hosts[2] = RATE; /* in and out together: half of what its cables could */
    seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 1e9);
    assert_float_equal(got.busbw / RATE, 0.5, 0.01);
    assert_int_equal(got.limit, MN_LIMIT_NODE);
    assert_int_equal(got.node, 2);
    model.host.message = 1e-3;
    assert_true(seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 8) > 6e-3);
    model.host.reduce = RATE / 8;
    double slow = seconds(MN_MODEL_REDUCE_SCATTER, MN_MODEL_RING, 4e5);
    assert_true(slow > seconds(MN_MODEL_ALL_GATHER, MN_MODEL_RING, 4e5) + 3 * 7e-4);
    end();
}

static void what_cannot_be_said(void **state)
{
    (void)state;
    ring(4);
    assert_int_equal(mn_model_predict(&model, MN_MODEL_BROADCAST, MN_MODEL_PAT, 8, 1, &got),
                     MN_ERR_UNSUPPORTED);
    fabric.cables[2].rate = 0;
    assert_int_equal(mn_model_predict(&model, MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 8, 1, &got),
                     MN_ERR_NOTFOUND);
    assert_int_equal(got.cable, 2);
    assert_true(isnan(got.seconds));
    end();
    begin(3);
    join(0, 1);
    ready();
    for (int algo = MN_MODEL_RING; algo <= MN_MODEL_TREE; algo++) {
        assert_int_equal(mn_model_predict(&model, MN_MODEL_ALL_REDUCE, (enum mn_model_algo)algo, 8,
                                          2, &got),
                         MN_ERR_NOTFOUND);
        assert_int_equal(got.cable, -1);
    }
    assert_int_equal(mn_model_predict(&model, MN_MODEL_ALL_TO_ALL, MN_MODEL_DIRECT, 8, 2, &got),
                     MN_ERR_NOTFOUND);
    model.n_ranks = 1;
    seconds(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 1e9);
    assert_int_equal(got.limit, MN_LIMIT_NOTHING);
    end();
}

static void halves(void **state)
{
    const char odd[] = {0, 1, 0, 1, 0, 1};

    (void)state;
    ring(6);
    fabric.cables[2].back = RATE / 2; /* 2 to 3 and back */
    assert_near(mn_fabric_bisection(&fabric, NULL), 1.5 * RATE);
    assert_near(mn_fabric_bisection(&fabric, odd), 5.5 * RATE);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_on_rings),
        cmocka_unit_test(what_limits_is_named),
        cmocka_unit_test(ways_beside_each_other),
        cmocka_unit_test(both_ways_at_once),
        cmocka_unit_test(parallel_cables_and_ports),
        cmocka_unit_test(a_ring_on_a_line),
        cmocka_unit_test(ranks_out_of_order),
        cmocka_unit_test(all_to_all_on_a_ring),
        cmocka_unit_test(an_exchange_is_all_its_pairs),
        cmocka_unit_test(trees_and_pat),
        cmocka_unit_test(chains),
        cmocka_unit_test(hosts),
        cmocka_unit_test(what_cannot_be_said),
        cmocka_unit_test(halves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
