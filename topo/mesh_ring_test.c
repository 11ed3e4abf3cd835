/* Orders of nodes that follow the cables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topo/base/alloc.h"
#include "topo/mesh.h"

static struct mn_mesh mesh;

static void connect_nodes(int a, int b)
{
    struct mn_mesh_link *link = mn_grow((void **)&mesh.links, &mesh.n_links, sizeof *link);
    *link = (struct mn_mesh_link){.ends = {{a, 0}, {b, 0}}};
}

#define NODES 13

static void begin(void)
{
    mn_mesh_init(&mesh);
    for (int i = 0; i < NODES; i++)
        mn_grow((void **)&mesh.nodes, &mesh.n_nodes, sizeof *mesh.nodes);
}

static int setup(void **state)
{
    (void)state;
    begin();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mn_mesh_free(&mesh);
    return 0;
}

static int joined(int a, int b)
{
    for (size_t l = 0; l < mesh.n_links; l++)
        if ((mesh.links[l].ends[0].node == a && mesh.links[l].ends[1].node == b) ||
            (mesh.links[l].ends[0].node == b && mesh.links[l].ends[1].node == a))
            return 1;
    return 0;
}

/* Every node once, the first one first, and exactly so many gaps as were told. */
static void expect(const int *nodes, int n, int missing)
{
    int order[64], gaps = 0, least;

    assert_int_equal(mn_mesh_ring(&mesh, nodes, n, order, &least), missing);
    assert_int_equal(least, missing); /* and says that there is none better */
    assert_int_equal(mn_mesh_ring_gaps(&mesh, order, n), missing);
    assert_int_equal(order[0], nodes[0]);
    for (int i = 0; i < n; i++) {
        int times = 0;
        for (int j = 0; j < n; j++)
            times += order[j] == nodes[i];
        assert_int_equal(times, 1);
        gaps += n > 1 && !joined(order[i], order[(i + 1) % n]);
    }
    assert_int_equal(gaps, missing);
}

static void test_ring_in_any_order(void **state)
{
    const int nodes[] = {2, 5, 0, 3, 1, 4};

    (void)state;
    for (int i = 0; i < 6; i++)
        connect_nodes(i * 5 % 6, (i + 1) * 5 % 6);
    expect(nodes, 6, 0);
    expect(nodes, 5, 1); /* node 4 takes no part: a line */
}

static void test_line_and_star(void **state)
{
    const int nodes[] = {1, 0, 2, 3}, two[] = {3, 2}, one[] = {2};

    (void)state;
    connect_nodes(0, 1);
    connect_nodes(1, 2);
    connect_nodes(2, 3);
    expect(nodes, 4, 1);
    expect(two, 2, 0);
    expect(one, 1, 0);
    mn_mesh_free(&mesh);
    begin();
    for (int i = 1; i < 4; i++)
        connect_nodes(0, i);
    expect(nodes, 4, 2);
}

static void test_no_cables_and_a_full_mesh_of_twelve(void **state)
{
    int nodes[12];

    (void)state;
    for (int i = 0; i < 12; i++)
        nodes[i] = 11 - i;
    expect(nodes, 3, 3);
    for (int a = 0; a < 12; a++)
        for (int b = 0; b < a; b++)
            connect_nodes(a, b);
    expect(nodes, 12, 0);
}

/* Two halves joined by one node: no ring, and no endless search for one. */
static void test_bottleneck(void **state)
{
    int nodes[NODES];

    (void)state;
    for (int i = 0; i < NODES; i++)
        nodes[i] = i;
    for (int a = 0; a < 7; a++)
        for (int b = 0; b < a; b++) {
            connect_nodes(a, b);
            connect_nodes(a + 6, b + 6);
        }
    expect(nodes, NODES, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ring_in_any_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_line_and_star, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_cables_and_a_full_mesh_of_twelve, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bottleneck, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
