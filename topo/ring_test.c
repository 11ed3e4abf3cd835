/* Rings in graphs whose nodes are numbered by chance: each node once, 0 first, the gaps as counted,
 * never fewer than the bound, and none where it is known that there need be none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/ring.h"

struct drawing {
    int n;
    int (*pairs)[2];
    size_t n_pairs;
};

static uint64_t seed = 1;

static int chance(int n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (unsigned)n);
}

static void join(struct drawing *d, int a, int b)
{
    int *pair = mn_grow((void **)&d->pairs, &d->n_pairs, sizeof *d->pairs);

    pair[0] = a;
    pair[1] = b;
}

static void renumber(struct drawing *d)
{
    int *name = mn_zalloc((size_t)d->n * sizeof *name);

    for (int i = 0; i < d->n; i++) {
        int k = chance(i + 1);
        name[i] = name[k];
        name[k] = i;
    }
    for (size_t i = 0; i < 2 * d->n_pairs; i++)
        d->pairs[i / 2][i % 2] = name[d->pairs[i / 2][i % 2]];
    free(name);
}

/* Uses the drawing up. */
static void expect(struct drawing *d, int missing, int least)
{
    struct mn_graph graph;
    struct mn_ring ring, again;
    char *used = mn_zalloc((size_t)d->n);

    mn_graph_make((size_t)d->n, (const int(*)[2])d->pairs, d->n_pairs, &graph);
    mn_graph_ring(&graph, &ring);
    mn_graph_ring(&graph, &again);
    assert_memory_equal(ring.order, again.order, (size_t)d->n * sizeof *ring.order);
    assert_int_equal(ring.order[0], 0);
    for (int i = 0; i < d->n; i++)
        assert_int_equal(used[ring.order[i]]++, 0);
    assert_int_equal(mn_graph_gaps(&graph, ring.order, d->n), ring.missing);
    assert_int_equal(ring.missing, missing);
    assert_int_equal(ring.least, least);
    mn_ring_free(&ring);
    mn_ring_free(&again);
    mn_graph_free(&graph);
    free(d->pairs);
    free(used);
    *d = (struct drawing){0};
}

/* A box of points; wraps: the last of a row is joined to its first. */
static struct drawing box(int x, int y, int z, int wraps)
{
    struct drawing d = {.n = x * y * z};
    const int size[3] = {x, y, z}, stride[3] = {1, x, x * y};

    for (int i = 0; i < d.n; i++)
        for (int k = 0; k < 3; k++) {
            int at = i / stride[k] % size[k];
            if (at + 1 < size[k])
                join(&d, i, i + stride[k]);
            else if (wraps && size[k] > 2)
                join(&d, i, i - at * stride[k]);
        }
    renumber(&d);
    return d;
}

static void test_tori(void **state)
{
    static const int sizes[][3] = {{3, 3, 1},  {4, 4, 1},  {5, 5, 1},   {8, 2, 1},  {16, 16, 1},
                                   {15, 7, 1}, {31, 9, 1}, {32, 32, 1}, {4, 4, 4},  {5, 3, 3},
                                   {8, 8, 8},  {7, 9, 5},  {40, 3, 1},  {100, 4, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct drawing d = box(sizes[i][0], sizes[i][1], sizes[i][2], 1);
        expect(&d, 0, 0);
    }
}

/* Points are black and white as on a chess board: an odd number cannot close. */
static void test_grids(void **state)
{
    static const int sizes[][3] = {{4, 4, 1},   {3, 3, 1},   {6, 5, 1}, {7, 7, 1},
                                   {16, 16, 1}, {21, 21, 1}, {4, 4, 4}, {5, 5, 5}};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct drawing d = box(sizes[i][0], sizes[i][1], sizes[i][2], 0);
        int odd = d.n % 2;
        expect(&d, odd, odd);
    }
}

static void test_hypercubes(void **state)
{
    (void)state;
    for (int dimensions = 2; dimensions <= 10; dimensions++) {
        struct drawing d = {.n = 1 << dimensions};
        for (int i = 0; i < d.n; i++)
            for (int bit = 1; bit < d.n; bit <<= 1)
                if (!(i & bit))
                    join(&d, i, i | bit);
        renumber(&d);
        expect(&d, 0, 0);
    }
}

/* What is cabled by hand: a ring in any numbers, with cables across or without. */
static void test_rings_with_chords(void **state)
{
    (void)state;
    for (int n = 3; n < 300; n += n < 20 ? 1 : 37)
        for (int chords = 0; chords <= n; chords += n) {
            struct drawing d = {.n = n};
            for (int i = 0; i < n; i++)
                join(&d, i, (i + 1) % n);
            for (int i = 0; i < chords; i++)
                join(&d, chance(n), chance(n));
            renumber(&d);
            expect(&d, 0, 0);
        }
}

static void test_a_torus_that_lost_cables(void **state)
{
    struct drawing d = box(12, 12, 1, 1);

    (void)state;
    for (int i = 0; i < 6; i++) {
        int gone = chance((int)d.n_pairs);
        memcpy(d.pairs[gone], d.pairs[--d.n_pairs], sizeof *d.pairs);
    }
    expect(&d, 0, 0);
}

static void test_what_cannot_close(void **state)
{
    struct drawing d = {.n = 40};

    (void)state;
    for (int i = 0; i + 1 < d.n; i++) /* a line */
        join(&d, i, i + 1);
    renumber(&d);
    expect(&d, 1, 1);
    d.n = 30;
    for (int i = 1; i < d.n; i++) /* a star */
        join(&d, 0, i);
    renumber(&d);
    expect(&d, 28, 28);
    d.n = 60;
    for (int i = 0; i < d.n; i++) /* three rings */
        join(&d, i, i % 20 == 19 ? i - 19 : i + 1);
    renumber(&d);
    expect(&d, 3, 3);
    d.n = 21;
    for (int i = 0; i < 2; i++) /* two full meshes that have one node in common */
        for (int a = 10 * i; a <= 10 * i + 10; a++)
            for (int b = 10 * i; b < a; b++)
                join(&d, a, b);
    renumber(&d);
    expect(&d, 1, 1);
    d.n = 5; /* no cables */
    expect(&d, 5, 5);
    d.n = 1;
    expect(&d, 0, 0);
    d.n = 2;
    join(&d, 0, 1);
    expect(&d, 0, 0);
}

/* No order is changed that is as good as any. */
static void test_the_order_stays(void **state)
{
    struct drawing d = {.n = 9};
    struct mn_graph graph;
    struct mn_ring ring;

    (void)state;
    for (int i = 0; i < d.n; i++)
        for (int k = 0; k < i; k++)
            join(&d, i, k);
    mn_graph_make((size_t)d.n, (const int(*)[2])d.pairs, d.n_pairs, &graph);
    mn_graph_ring(&graph, &ring);
    for (int i = 0; i < d.n; i++)
        assert_int_equal(ring.order[i], i);
    mn_ring_free(&ring);
    mn_graph_free(&graph);
    free(d.pairs);
}

/* Petersen's graph has a path through all nodes and no ring; that is known by trying alone. */
static void test_petersen(void **state)
{
    struct drawing d = {.n = 10};

    (void)state;
    for (int i = 0; i < 5; i++) {
        join(&d, i, (i + 1) % 5);
        join(&d, i, i + 5);
        join(&d, i + 5, (i + 2) % 5 + 5);
    }
    renumber(&d);
    expect(&d, 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tori),
        cmocka_unit_test(test_grids),
        cmocka_unit_test(test_hypercubes),
        cmocka_unit_test(test_rings_with_chords),
        cmocka_unit_test(test_a_torus_that_lost_cables),
        cmocka_unit_test(test_what_cannot_close),
        cmocka_unit_test(test_the_order_stays),
        cmocka_unit_test(test_petersen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
