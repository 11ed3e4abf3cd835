/* Schedules carried out in a model, beside what the model's algorithms say and what can be worked
 * out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/predict.h"
#include "topo/base/alloc.h"

#define RATE    1e9
#define LATENCY 1e-5

static struct mn_fabric fabric;
static struct mn_routes routes;
static struct mn_model model;
static struct mn_model_result got;

static void ring(int n)
{
    fabric = (struct mn_fabric){.n = n};
    for (int i = 0; i < n; i++)
        mn_fabric_add(&fabric, i, (i + 1) % n, RATE, LATENCY);
    mn_routes_find(&fabric, &routes);
    model = (struct mn_model){.fabric = &fabric, .routes = &routes, .n_ranks = n};
}

static void end(void)
{
    mn_routes_free(&routes);
    mn_fabric_free(&fabric);
}

static double seconds(enum mn_collective c, const char *algorithm, unsigned long long bytes)
{
    struct mn_diag diag = {.text = ""};
    struct mn_collective_task task = {.collective = c,
                                      .algorithm =
                                          algorithm ? mn_algorithm_find(c, algorithm) : NULL,
                                      .type = MN_TYPE_FLOAT32,
                                      .bytes = bytes};

    assert_true(!algorithm || task.algorithm);
    if (mn_predict(&model, &task, 0, NULL, &got, &diag))
        fail_msg("%s", diag.text);
    return got.seconds;
}

static double modelled(enum mn_model_op op, enum mn_model_algo algo, double bytes)
{
    struct mn_model_result r;

    assert_int_equal(mn_model_predict(&model, op, algo, bytes, 2, &r), MN_OK);
    return r.seconds;
}

/* Two ways to the same: rounds added up, and every message on its own. */
static void as_the_model_has_it(void **state)
{
    static const struct {
        enum mn_collective c;
        const char *algorithm;
        enum mn_model_op op;
        enum mn_model_algo algo;
    } rows[] = {
        {MN_ALLREDUCE, "ring", MN_MODEL_ALL_REDUCE, MN_MODEL_RING},
        {MN_ALLGATHER, "ring", MN_MODEL_ALL_GATHER, MN_MODEL_RING},
        {MN_REDUCESCATTER, "ring", MN_MODEL_REDUCE_SCATTER, MN_MODEL_RING},
        {MN_BROADCAST, "ring", MN_MODEL_BROADCAST, MN_MODEL_RING},
        {MN_REDUCE, "ring", MN_MODEL_REDUCE, MN_MODEL_RING},
        {MN_ALLTOALL, "direct", MN_MODEL_ALL_TO_ALL, MN_MODEL_DIRECT},
        {MN_ALLGATHER, "direct", MN_MODEL_ALL_GATHER, MN_MODEL_DIRECT},
        {MN_BROADCAST, "direct", MN_MODEL_BROADCAST, MN_MODEL_DIRECT},
        {MN_SENDRECV, "direct", MN_MODEL_SEND_RECV, MN_MODEL_DIRECT},
    };
    static const unsigned long long sizes[] = {840, 84000, 1 << 20, 16 << 20};

    (void)state;
    for (int n = 3; n <= 6; n++) {
        ring(n);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (size_t k = 0; k < 4; k++) {
                double a = seconds(rows[i].c, rows[i].algorithm, sizes[k]);
                double b = modelled(rows[i].op, rows[i].algo, (double)sizes[k]);
                if (!(a > 0.85 * b && a < 1.15 * b))
                    fail_msg("%d ranks, %s by %s of %llu: %g, the model has %g", n,
                             mn_collective_name(rows[i].c), rows[i].algorithm, sizes[k], a, b);
            }
        end();
    }
}

static void all_collectives_by_all_algorithms_end(void **state)
{
    (void)state;
    for (int n = 1; n <= 9; n += 4) {
        ring(n < 2 ? 2 : n);
        model.n_ranks = n;
        for (const struct mn_algorithm *a = mn_algorithms; a->name; a++)
            for (unsigned long long bytes = 0; bytes <= 4 << 20; bytes += 1 << 20) {
                double t = seconds(a->collective, a->name, bytes);
                assert_true(isfinite(t) && t >= 0);
                assert_true(n == 1 || bytes == 0 || t > LATENCY);
            }
        end();
    }
}

/* Two flows share a cable, a third one has its own. */
static void flows_share_what_they_meet_on(void **state)
{
    const int nodes[] = {0, 0, 1, 1};

    (void)state;
    ring(4);
    model.node_of_rank = nodes; /* 1 to 2 and 3 to 0 over the cable: one each way */
    double apart = seconds(MN_SENDRECV, "direct", 1 << 20);
    assert_float_equal(apart, LATENCY + (1 << 20) / RATE, 1e-7);
    double all = seconds(MN_ALLTOALL, "direct", 4 << 20); /* four blocks each way */
    assert_float_equal(all, LATENCY + 4 * (1 << 20) / RATE, 1e-7);
    assert_int_equal(got.limit, MN_LIMIT_CABLE);
    assert_int_equal(got.cable, 0);
    end();
}

static void what_limits(void **state)
{
    (void)state;
    ring(4);
    fabric.cables[2].rate = RATE / 10;
    double slow = seconds(MN_ALLREDUCE, "ring", 8 << 20);
    assert_true(slow > 1.5 * (8 << 20) / (RATE / 10) && slow < 1.6 * (8 << 20) / (RATE / 10));
    assert_int_equal(got.cable, 2);
    assert_int_equal(got.direction, 0);
    seconds(MN_ALLREDUCE, "ring", 8);
    assert_int_equal(got.limit, MN_LIMIT_LATENCY);
    end();
}

/* A round that has to reduce what it brought before the next one begins; where there is more than a
 * chunk, the next one is under way meanwhile. */
static void processors(void **state)
{
    (void)state;
    ring(4);
    double slice = 1 << 16, plain = seconds(MN_ALLREDUCE, "ring", 1 << 18);
    double much = seconds(MN_ALLREDUCE, "ring", 64 << 20);
    model.host.reduce = 2 * RATE;
    assert_float_equal(seconds(MN_ALLREDUCE, "ring", 1 << 18), plain + 3 * slice / (2 * RATE),
                       1e-9);
    assert_true(seconds(MN_ALLREDUCE, "ring", 64 << 20) < 1.02 * much);
    model.host.copy = RATE / 10;
    assert_true(seconds(MN_ALLREDUCE, "ring", 1 << 18) > plain + slice / (RATE / 10));
    end();
}

static void what_cannot_be_predicted(void **state)
{
    struct mn_diag diag = {.text = ""};
    struct mn_collective_task task = {.collective = MN_ALLTOALL,
                                      .type = MN_TYPE_FLOAT32,
                                      .bytes = 4096};

    (void)state;
    ring(4);
    fabric.cables[1].rate = 0;
    assert_int_equal(mn_predict(&model, &task, 0, NULL, &got, &diag), MN_ERR_NOTFOUND);
    assert_int_equal(got.cable, 1);
    assert_true(isnan(got.seconds));
    model.n_ranks = MN_PREDICT_RANKS + 1;
    assert_int_equal(mn_predict(&model, &task, 0, NULL, &got, &diag), MN_ERR_UNSUPPORTED);
    end();
    fabric = (struct mn_fabric){.n = 3};
    mn_fabric_add(&fabric, 0, 1, RATE, LATENCY);
    mn_routes_find(&fabric, &routes);
    model.n_ranks = 3;
    assert_int_equal(mn_predict(&model, &task, 0, NULL, &got, &diag), MN_ERR_NOTFOUND);
    assert_non_null(strstr(diag.text, "no way from rank"));
    end();
}

/* What a library may choose from: the faster of ring and trees. */
static void a_library(void **state)
{
    struct mn_diag diag = {.text = ""};
    struct mn_collective_task task = {.collective = MN_ALLREDUCE,
                                      .type = MN_TYPE_FLOAT32,
                                      .bytes = 8};

    (void)state;
    ring(8);
    assert_int_equal(mn_predict(&model, &task, 1, NULL, &got, &diag), MN_OK);
    double tree = modelled(MN_MODEL_ALL_REDUCE, MN_MODEL_TREE, 8);
    double ring = modelled(MN_MODEL_ALL_REDUCE, MN_MODEL_RING, 8);
    assert_float_equal(got.seconds, tree < ring ? tree : ring, 1e-12);
    task.collective = MN_GATHER;
    assert_int_equal(mn_predict(&model, &task, 1, NULL, &got, &diag), MN_ERR_UNSUPPORTED);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_model_has_it),
        cmocka_unit_test(all_collectives_by_all_algorithms_end),
        cmocka_unit_test(flows_share_what_they_meet_on),
        cmocka_unit_test(what_limits),
        cmocka_unit_test(processors),
        cmocka_unit_test(what_cannot_be_predicted),
        cmocka_unit_test(a_library),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
