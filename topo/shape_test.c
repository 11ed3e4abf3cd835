/* Shapes by name, of graphs whose nodes are numbered by chance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/shape.h"

struct drawing {
    size_t n;
    int (*pairs)[2];
    size_t n_pairs;
};

static void join(struct drawing *d, size_t a, size_t b)
{
    int *pair = mn_grow((void **)&d->pairs, &d->n_pairs, sizeof *d->pairs);

    pair[0] = (int)a;
    pair[1] = (int)b;
}

static uint64_t chance(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Numbers the nodes anew and looks; the drawing is used up. */
static enum mn_shape shape_of(struct drawing *d, int sizes[3])
{
    int *name = mn_zalloc((d->n + 1) * sizeof *name);
    uint64_t seed = d->n + 7;
    struct mn_graph graph;
    enum mn_shape shape;

    for (size_t i = 0; i < d->n; i++)
        name[i] = (int)i;
    for (size_t i = d->n; i-- > 1;) {
        size_t k = chance(&seed) % (i + 1);
        int swap = name[i];

        name[i] = name[k];
        name[k] = swap;
    }
    for (size_t i = 0; i < d->n_pairs; i++)
        for (int side = 0; side < 2; side++)
            d->pairs[i][side] = name[d->pairs[i][side]];
    mn_graph_make(d->n, (const int(*)[2])d->pairs, d->n_pairs, &graph);
    shape = mn_graph_shape(&graph, sizes);
    mn_graph_free(&graph);
    free(d->pairs);
    free(name);
    *d = (struct drawing){0};
    return shape;
}

static struct drawing ring(size_t n)
{
    struct drawing d = {.n = n};

    for (size_t i = 0; i < n; i++)
        join(&d, i, (i + 1) % n);
    return d;
}

/* twist: the last row goes back to the first this many columns on. */
static struct drawing torus(size_t a, size_t b, size_t c, size_t twist)
{
    struct drawing d = {.n = a * b * c};

    for (size_t z = 0; z < c; z++)
        for (size_t y = 0; y < b; y++)
            for (size_t x = 0; x < a; x++) {
                size_t row = (z * b + y) * a, on = y + 1 == b ? twist : 0;

                if (a > 1)
                    join(&d, row + x, row + (x + 1) % a);
                if (b > 1)
                    join(&d, row + x, (z * b + (y + 1) % b) * a + (x + on) % a);
                if (c > 1)
                    join(&d, row + x, (((z + 1) % c) * b + y) * a + x);
            }
    return d;
}

static void is(struct drawing d, enum mn_shape expected)
{
    size_t n = d.n;
    enum mn_shape shape = shape_of(&d, NULL);

    if (shape != expected)
        fail_msg("%zu nodes: %s, expected %s", n, mn_shape_name(shape), mn_shape_name(expected));
}

static void small_shapes(void **state)
{
    struct drawing d = {.n = 0};

    (void)state;
    is(d, MN_SHAPE_SINGLE);
    d = (struct drawing){.n = 1};
    is(d, MN_SHAPE_SINGLE);
    d = (struct drawing){.n = 2};
    is(d, MN_SHAPE_PARTIAL);
    d = (struct drawing){.n = 2};
    join(&d, 0, 1);
    join(&d, 1, 0); /* two cables */
    join(&d, 1, 1); /* and one that leads nowhere */
    is(d, MN_SHAPE_PAIR);
    is(ring(3), MN_SHAPE_FULL);
    is(ring(4), MN_SHAPE_RING);
    is(ring(5000), MN_SHAPE_RING);
    d = ring(12);
    d.n_pairs--;
    is(d, MN_SHAPE_LINE);
    d = ring(12);
    d.n = 13;
    is(d, MN_SHAPE_PARTIAL);
    d = ring(12);
    join(&d, 0, 6);
    is(d, MN_SHAPE_PARTIAL);
    d = (struct drawing){.n = 3000};
    for (size_t i = 1; i < 3000; i++)
        join(&d, 0, i);
    is(d, MN_SHAPE_STAR);
    d = (struct drawing){.n = 120};
    for (size_t i = 0; i < d.n; i++)
        for (size_t k = 0; k < i; k++)
            join(&d, i, k);
    is(d, MN_SHAPE_FULL);
}

static void tori_of_all_sizes(void **state)
{
    static const int rows[][3] = {
        {2, 3, 1},  {2, 5, 1},   {2, 100, 1}, {3, 3, 1},    {3, 4, 1},  {4, 4, 1},   {4, 7, 1},
        {5, 5, 1},  {16, 16, 1}, {3, 3, 3},   {2, 3, 3},    {2, 4, 5},  {3, 4, 5},   {4, 4, 4},
        {8, 9, 10}, {64, 70, 1}, {2, 40, 50}, {16, 17, 18}, {3, 4, 50}, {3, 900, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct drawing d = torus((size_t)rows[i][0], (size_t)rows[i][1], (size_t)rows[i][2], 0);
        int sizes[3], places = rows[i][0] * rows[i][1] * rows[i][2];
        enum mn_shape shape = shape_of(&d, sizes);

        if (shape != MN_SHAPE_TORUS)
            fail_msg("%dx%dx%d: %s", rows[i][0], rows[i][1], rows[i][2], mn_shape_name(shape));
        assert_int_equal(sizes[0] * sizes[1] * (sizes[2] ? sizes[2] : 1), places);
        /* 2 x 4 and 4 x 4 may be looked at in several ways. */
        if (rows[i][0] != 4 && rows[i][1] != 4)
            assert_int_equal(sizes[0], rows[i][0]);
    }
}

static void what_is_nearly_a_torus_is_none(void **state)
{
    struct drawing d;

    (void)state;
    is(torus(2, 2, 1, 0), MN_SHAPE_RING);
    is(torus(2, 2, 2, 0), MN_SHAPE_TORUS); /* 2 x 4 */
    is(torus(5, 5, 1, 1), MN_SHAPE_PARTIAL);
    is(torus(16, 9, 1, 3), MN_SHAPE_PARTIAL);
    is(torus(2, 5, 1, 1), MN_SHAPE_PARTIAL); /* Moebius's ladder */
    is(torus(6, 6, 3, 2), MN_SHAPE_PARTIAL);
    d = torus(6, 6, 1, 0);
    d.n_pairs--;
    is(d, MN_SHAPE_PARTIAL);
    /* Two cables of one exchanged: all degrees are as they were. */
    d = torus(20, 20, 1, 0);
    int swap = d.pairs[3][1];
    d.pairs[3][1] = d.pairs[401][1];
    d.pairs[401][1] = swap;
    is(d, MN_SHAPE_PARTIAL);
    /* Every one of three joined to every one of three others. */
    d = (struct drawing){.n = 6};
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 3; k < 6; k++)
            join(&d, i, k);
    is(d, MN_SHAPE_PARTIAL);
}

static void pieces_are_numbered(void **state)
{
    static const int pairs[][2] = {{4, 1}, {0, 2}, {2, 0}};
    struct mn_graph graph;
    int piece[5];

    (void)state;
    mn_graph_make(5, pairs, 3, &graph);
    assert_int_equal(mn_graph_pieces(&graph, piece), 3);
    assert_int_equal(piece[0], 0);
    assert_int_equal(piece[2], 0);
    assert_int_equal(piece[1], 1);
    assert_int_equal(piece[4], 1);
    assert_int_equal(piece[3], 2);
    assert_int_equal(mn_graph_degree(&graph, 2), 1);
    assert_true(mn_graph_joined(&graph, 1, 4) && !mn_graph_joined(&graph, 1, 2));
    mn_graph_free(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_shapes),
        cmocka_unit_test(tori_of_all_sizes),
        cmocka_unit_test(what_is_nearly_a_torus_is_none),
        cmocka_unit_test(pieces_are_numbered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
