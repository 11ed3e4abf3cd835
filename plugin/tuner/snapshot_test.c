/* That all ranks decide alike: whatever the order in which a host's mesh file says what others'
 * say, and whichever thread asks first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/tuner/tuning_impl.h"
#include "topo/base/alloc.h"

#define THREADS 8
#define NODES   6

static char folder[] = "/tmp/meshnet-snapshot-XXXXXX";

/* Two triangles joined by two cables, one of them slow; 0 and 1 have a second cable. */
static const struct {
    int a, b, mbps;
} cables[] = {{0, 1, 100000}, {0, 1, 40000},  {1, 2, 100000}, {0, 2, 100000}, {3, 4, 100000},
              {4, 5, 100000}, {3, 5, 100000}, {2, 3, 10000},  {5, 0, 100000}};
#define CABLES (int)(sizeof cables / sizeof *cables)

/* The same mesh, with nodes and cables from the number first on, forwards or backwards: the order
 * of a node's NICs has a meaning, its first address is how others find it. */
static void write_mesh(const char *path, int first, int step)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs("version: 1\nnodes:\n", file);
    for (int k = 0; k < NODES; k++) {
        int node = (first + k * step + 2 * NODES) % NODES;
        fprintf(file, "  - name: n%d\n    nics:\n", node);
        for (int c = 0; c < CABLES; c++)
            if (cables[c].a == node || cables[c].b == node)
                fprintf(file,
                        "      - netdev: p%d\n        addresses: [10.0.%d.%d/30]\n"
                        "        speed: %d\n",
                        c, c, 1 + (cables[c].b == node), cables[c].mbps);
    }
    fputs("links:\n", file);
    for (int i = 0; i < CABLES; i++) {
        int c = (first + i * step + 2 * CABLES) % CABLES, turned = i % 2;
        fprintf(file, "  - name: c%d\n    ends: [n%d/p%d, n%d/p%d]\n", c,
                turned ? cables[c].b : cables[c].a, c, turned ? cables[c].a : cables[c].b, c);
    }
    assert_int_equal(fclose(file), 0);
}

static struct mn_tuning *tune(const char *path)
{
    const struct mn_tuning_asked asked = {.ranks = NODES, .nodes = NODES, .everything = 1};
    struct mn_tuning *t;
    struct mn_diag diag = {.text = ""};

    setenv("MESHNET_CONFIG", path, 1);
    if (mn_tuning_open(&asked, &t, &diag))
        fail_msg("%s", diag.text);
    return t;
}

static void test_one_decision(void **state)
{
    char path[128];
    struct mn_tuning *first = NULL;

    (void)state;
    for (int order = 0; order < 2 * NODES; order++) {
        snprintf(path, sizeof path, "%s/%d.yaml", folder, order);
        write_mesh(path, order / 2, order % 2 ? -1 : 1);
        struct mn_tuning *t = tune(path);
        unlink(path);
        assert_int_equal(t->rule, MN_TUNING_CABLES);
        assert_true(t->predicts);
        if (!first) {
            first = t;
            continue;
        }
        assert_memory_equal(t->order, first->order, NODES * sizeof *t->order);
        assert_int_equal(t->gaps, first->gaps);
        assert_int_equal(t->barred, first->barred);
        assert_memory_equal(t->leave, first->leave, sizeof t->leave);
        assert_memory_equal(t->times, first->times, sizeof t->times);
        assert_memory_equal(t->protocol, first->protocol, sizeof t->protocol);
        assert_memory_equal(t->one_channel, first->one_channel, sizeof t->one_channel);
        mn_tuning_free(t);
    }
    mn_tuning_free(first);
}

struct thread {
    pthread_t thread;
    pthread_barrier_t *start;
    const struct mn_mesh *mesh;
    enum mn_err err;
};

static void *ask(void *arg)
{
    struct thread *t = arg;
    struct mn_diag diag;

    pthread_barrier_wait(t->start);
    t->err = mn_tuning_mesh(&t->mesh, &diag);
    return NULL;
}

/* Communicators are made on many threads at a time; all have one mesh, as it was read first. */
static void test_threads(void **state)
{
    struct thread threads[THREADS];
    pthread_barrier_t start;
    char path[128];

    (void)state;
    assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (int round = 0; round < 20; round++) {
        snprintf(path, sizeof path, "%s/t%d.yaml", folder, round);
        write_mesh(path, round, 1);
        setenv("MESHNET_CONFIG", path, 1);
        for (int i = 0; i < THREADS; i++) {
            threads[i] = (struct thread){.start = &start};
            assert_int_equal(pthread_create(&threads[i].thread, NULL, ask, &threads[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i].thread, NULL);
            assert_int_equal(threads[i].err, MN_OK);
            assert_ptr_equal(threads[i].mesh, threads[0].mesh);
        }
        assert_int_equal(threads[0].mesh->n_nodes, NODES);
        unlink(path); /* and stays what it was */
        const struct mn_mesh *again;
        struct mn_diag diag;
        assert_int_equal(mn_tuning_mesh(&again, &diag), MN_OK);
        assert_ptr_equal(again, threads[0].mesh);
    }
    pthread_barrier_destroy(&start);
}

/* A product and a sum that are rounded together give other figures than one after the other does:
 * compilers may do so unless they are told not to, and ranks run on machines of several kinds. */
static void test_rounding(void **state)
{
    static volatile double a = 1 + 0x1p-30, b = 1 - 0x1p-30, c = -1;
    double x = a, y = b, z = c, at_once = x * y + z;
    volatile double product = a * b;

    (void)state;
    assert_true(at_once == product + z);
}

static int setup(void **state)
{
    (void)state;
    setenv("NCCL_TUNER_PLUGIN", "mesh", 1);
    return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_decision),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_rounding),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
