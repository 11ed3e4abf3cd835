/* Ways over fabrics that are made here: their lengths, that both directions and every part agree,
 * and what is left when a way's cables are not to be used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/route.h"

static struct mn_fabric fabric;
static struct mn_routes routes;

static void begin(int n)
{
    fabric = (struct mn_fabric){.n = n};
}

static void ready(void)
{
    mn_routes_find(&fabric, &routes);
}

static void end(void)
{
    mn_routes_free(&routes);
    mn_fabric_free(&fabric);
}

static void join(int a, int b)
{
    mn_fabric_add(&fabric, a, b, 1e9, 1e-6);
}

static void torus(int x, int y)
{
    begin(x * y);
    for (int i = 0; i < x * y; i++) {
        join(i, i / x * x + (i + 1) % x);
        join(i, (i + x) % (x * y));
    }
    ready();
}

static int around(int a, int b, int n)
{
    int d = abs(a - b);
    return d < n - d ? d : n - d;
}

static void ways_are_shortest_and_the_same_both_ways(void **state)
{
    int there[64], back[64], part[64];

    (void)state;
    torus(6, 5);
    for (int a = 0; a < 30; a++)
        for (int b = 0; b < 30; b++) {
            int hops = mn_routes_path(&routes, a, b, there);
            assert_int_equal(hops, around(a % 6, b % 6, 6) + around(a / 6, b / 6, 5));
            assert_int_equal(mn_routes_path(&routes, b, a, back), hops);
            for (int i = 0; i <= hops; i++)
                assert_int_equal(there[i], back[hops - i]);
            for (int i = 0; i < hops; i++) {
                assert_non_null(mn_routes_edge(&routes, there[i], there[i + 1]));
                assert_int_equal(mn_routes_path(&routes, there[i], b, part), hops - i);
                assert_memory_equal(part, there + i, (size_t)(hops - i + 1) * sizeof *part);
            }
        }
    assert_int_equal(mn_routes_diameter(&routes), 5);
    end();
}

static void pieces_do_not_meet(void **state)
{
    int nodes[4];

    (void)state;
    begin(4);
    join(0, 1);
    join(3, 2);
    ready();
    assert_int_equal(mn_routes_path(&routes, 0, 1, nodes), 1);
    assert_int_equal(mn_routes_path(&routes, 0, 2, nodes), -1);
    assert_int_equal(mn_routes_path(&routes, 2, 2, nodes), 0);
    assert_int_equal(mn_routes_diameter(&routes), -1);
    assert_null(mn_routes_edge(&routes, 0, 2));
    assert_int_equal(mn_route_other(&routes, 0, 1, nodes), -1);
    end();
}

static void the_other_way_shares_no_cable(void **state)
{
    int nodes[8], other[8];
    const int round[] = {0, 4, 3, 2, 1};

    (void)state;
    begin(5);
    for (int i = 0; i < 5; i++)
        join(i, (i + 1) % 5);
    ready();
    assert_int_equal(mn_route_other(&routes, 0, 1, other), 4);
    assert_memory_equal(other, round, sizeof round);
    assert_int_equal(mn_routes_path(&routes, 0, 1, nodes), 1);
    end();

    begin(3); /* a line: none at its end, but between 0 and 1 there are two cables */
    join(1, 0);
    join(1, 2);
    join(0, 1);
    ready();
    assert_int_equal(mn_route_other(&routes, 1, 2, other), -1);
    assert_int_equal(mn_route_other(&routes, 0, 2, other), -1);
    assert_int_equal(mn_route_other(&routes, 0, 1, other), 1);
    assert_int_equal(mn_routes_edge(&routes, 0, 1)->count, 2);
    end();
}

static void parallel_cables_stay_together(void **state)
{
    (void)state;
    begin(3);
    join(2, 1);
    join(0, 1);
    join(1, 2);
    join(2, 1);
    ready();
    const struct mn_way_edge *edge = mn_routes_edge(&routes, 1, 2);
    const size_t cables[] = {0, 2, 3};
    assert_int_equal(edge->count, 3);
    assert_memory_equal(routes.cables + edge->first, cables, sizeof cables);
    end();
}

/* On a ring of four the ways between opposite nodes are told apart by weight. */
static void weights_decide(void **state)
{
    int nodes[4];

    (void)state;
    for (int light = 0; light < 4; light++) {
        begin(4);
        for (int i = 0; i < 4; i++) {
            join(i, (i + 1) % 4);
            fabric.cables[i].weight = i == light ? 1 : 5;
        }
        ready();
        assert_int_equal(mn_routes_path(&routes, light, (light + 2) % 4, nodes), 2);
        assert_int_equal(nodes[1], (light + 1) % 4);
        assert_int_equal(mn_routes_path(&routes, (light + 3) % 4, (light + 1) % 4, nodes), 2);
        assert_int_equal(nodes[1], light);
        end();
    }
    assert_true(mn_way_weight("a", "b") == mn_way_weight("b", "a"));
    assert_true(mn_way_weight("a", "bc") != mn_way_weight("ab", "c"));
}

/* What is looked for for one node is no slower to get for many. */
static void a_thousand_nodes(void **state)
{
    int nodes[1000], sum = 0;

    (void)state;
    torus(40, 25);
    for (int a = 0; a < 1000; a++)
        for (int b = 0; b < 1000; b++)
            sum += mn_routes_path(&routes, a, b, b % 100 ? NULL : nodes);
    assert_int_equal(sum, 1000 * (25 * 400 + 40 * 156));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ways_are_shortest_and_the_same_both_ways),
        cmocka_unit_test(pieces_do_not_meet),
        cmocka_unit_test(the_other_way_shares_no_cable),
        cmocka_unit_test(parallel_cables_stay_together),
        cmocka_unit_test(weights_decide),
        cmocka_unit_test(a_thousand_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
