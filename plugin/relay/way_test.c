#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "plugin/relay/way.h"
#include "topo/base/alloc.h"

static struct mn_mesh mesh;

static void begin(int n)
{
    mn_mesh_init(&mesh);
    for (int i = 0; i < n; i++) {
        struct mn_mesh_node *node = mn_grow((void **)&mesh.nodes, &mesh.n_nodes, sizeof *node);
        snprintf(node->name, sizeof node->name, "n%02d", i);
    }
}

static int nic(int node, struct mn_addr addr, long speed)
{
    struct mn_mesh_node *n = &mesh.nodes[node];
    struct mn_mesh_nic *own = mn_grow((void **)&n->nics, &n->n_nics, sizeof *own);

    own->addrs = mn_zalloc(sizeof *own->addrs);
    own->addrs[0] = addr;
    own->n_addrs = 1;
    own->speed_mbps = speed;
    own->gid_index = -1;
    return (int)n->n_nics - 1;
}

/* Cable number L has the addresses 10.0.L.1 and 10.0.L.2. */
static void join(int a, int b, long speed)
{
    uint8_t number = (uint8_t)mesh.n_links;
    struct mn_addr addr = {.family = AF_INET, .prefix = 24, .bytes = {10, 0, number, 1}};
    struct mn_mesh_link *link = mn_grow((void **)&mesh.links, &mesh.n_links, sizeof *link);

    link->ends[0] = (struct mn_mesh_end){a, nic(a, addr, speed)};
    addr.bytes[3] = 2;
    link->ends[1] = (struct mn_mesh_end){b, nic(b, addr, speed)};
    link->subnet = addr;
    link->subnet.bytes[3] = 0;
}

static void ring(int n)
{
    begin(n);
    for (int i = 0; i < n; i++)
        join(i, (i + 1) % n, 100000);
}

static int tear_down(void **state)
{
    (void)state;
    mn_mesh_free(&mesh);
    return 0;
}

static struct mn_relay_way ways[MN_RELAY_WAYS];
static uint32_t weights[MN_RELAY_WAYS];

static int find(int from, int to)
{
    int n = mn_relay_ways(&mesh, from, to, MN_RELAY_WAYS, ways, weights);

    for (int w = 0; w < n; w++) {
        assert_true(mn_relay_way_holds(&mesh, &ways[w]));
        assert_int_equal(ways[w].nodes[0], from);
        assert_int_equal(ways[w].nodes[ways[w].n - 1], to);
        assert_true(weights[w] > 0);
    }
    return n;
}

static void a_ring_of_four_has_two_ways_of_one_relay(void **state)
{
    (void)state;
    ring(4);
    assert_int_equal(find(0, 2), 2);
    assert_int_equal(ways[0].n, 3);
    assert_int_equal(ways[1].n, 3);
    assert_int_equal(ways[0].nodes[1] + ways[1].nodes[1], 1 + 3);
    assert_int_equal(mn_relay_ways(&mesh, 0, 2, 1, ways, weights), 1);
    assert_int_equal(mn_relay_ways(&mesh, 0, 0, 4, ways, weights), 0);
    assert_int_equal(mn_relay_ways(&mesh, 0, 4, 4, ways, weights), 0);
}

static void a_ring_of_eight_has_two_ways_of_three_relays(void **state)
{
    (void)state;
    ring(8);
    assert_int_equal(find(1, 5), 2);
    assert_int_equal(ways[0].n, 5);
    assert_int_equal(ways[1].n, 5);
    assert_int_equal(find(0, 2), 2); /* one of one relay, one of five: the shorter is first */
    assert_int_equal(ways[0].n, 3);
    assert_int_equal(ways[1].n, 7);
}

static void a_line_and_a_star_have_one_way(void **state)
{
    (void)state;
    begin(4);
    for (int i = 0; i < 3; i++)
        join(i, i + 1, 100000);
    assert_int_equal(find(0, 3), 1);
    assert_int_equal(ways[0].n, 4);
    assert_int_equal(find(0, 1), 0); /* neighbours, and no other way */
    mn_mesh_free(&mesh);
    begin(5);
    for (int i = 1; i < 5; i++)
        join(0, i, 100000);
    assert_int_equal(find(4, 2), 1);
    assert_int_equal(ways[0].n, 3);
    assert_int_equal(ways[0].nodes[1], 0);
}

/* A detour: their own cable is not a way, and each of the others is one relay. */
static void neighbours_of_a_full_mesh_have_ways_beside_their_cable(void **state)
{
    (void)state;
    begin(5);
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < a; b++)
            join(a, b, 100000);
    assert_int_equal(find(1, 4), 3);
    for (int w = 0; w < 3; w++)
        assert_int_equal(ways[w].n, 3);
}

/* Two of its ways could meet in node 2: those that do not are taken. */
static void ways_have_no_relay_in_common_where_that_goes(void **state)
{
    (void)state;
    begin(7); /* 0 - 1,3 - 2 - 4,5 - 6, and 1 - 5 */
    join(0, 1, 0);
    join(0, 3, 0);
    join(1, 2, 0);
    join(3, 2, 0);
    join(2, 4, 0);
    join(2, 5, 0);
    join(4, 6, 0);
    join(5, 6, 0);
    join(1, 5, 0);
    assert_int_equal(find(0, 6), 2);
    assert_int_equal(ways[0].n, 4); /* 0 1 5 6 */
    assert_int_equal(ways[1].n, 5); /* 0 3 2 4 6 */
    for (int i = 1; i < 3; i++)
        for (int k = 1; k < 4; k++)
            assert_int_not_equal(ways[0].nodes[i], ways[1].nodes[k]);
    mn_mesh_free(&mesh);
    begin(5); /* a bow tie: all ways go through 2 */
    join(0, 1, 0);
    join(0, 2, 0);
    join(1, 2, 0);
    join(2, 3, 0);
    join(2, 4, 0);
    join(3, 4, 0);
    assert_int_equal(find(0, 4), 2);
    assert_int_equal(ways[0].n, 3);
    assert_int_equal(ways[1].n, 5);
}

static void too_many_relays_are_no_way(void **state)
{
    (void)state;
    begin(MN_RELAY_MAX + 3);
    for (int i = 0; i < MN_RELAY_MAX + 2; i++)
        join(i, i + 1, 0);
    assert_int_equal(find(0, MN_RELAY_MAX + 1), 1);
    assert_int_equal(ways[0].n, MN_RELAY_NODES);
    assert_int_equal(find(0, MN_RELAY_MAX + 2), 0);
}

static void bare_cables_carry_nothing(void **state)
{
    struct mn_relay_way way = {3, {0, 1, 2}};

    (void)state;
    ring(4);
    assert_true(mn_relay_way_holds(&mesh, &way));
    memset(&mesh.links[1].subnet, 0, sizeof mesh.links[1].subnet); /* 1 - 2 */
    assert_int_equal(find(0, 2), 1);
    assert_int_equal(ways[0].nodes[1], 3);
    assert_false(mn_relay_way_holds(&mesh, &way));
}

static void both_directions_and_every_node_find_the_same(void **state)
{
    struct mn_relay_way there[MN_RELAY_WAYS];
    uint32_t weighed[MN_RELAY_WAYS];

    (void)state;
    begin(16); /* a torus of 4 by 4: many ways of one length */
    for (int i = 0; i < 16; i++) {
        join(i, i / 4 * 4 + (i + 1) % 4, 100000);
        join(i, (i + 4) % 16, 25000);
    }
    for (int a = 0; a < 16; a++)
        for (int b = 0; b < 16; b++) {
            int n = find(a, b);
            assert_true(a == b ? n == 0 : n == 4 || (n == 3 && mn_mesh_has_cable(&mesh, a, b)));
            memcpy(there, ways, sizeof there);
            memcpy(weighed, weights, sizeof weighed);
            assert_int_equal(find(b, a), n);
            for (int w = 0; w < n; w++) {
                assert_int_equal(ways[w].n, there[w].n);
                assert_int_equal(weights[w], weighed[w]);
                for (int i = 0; i < ways[w].n; i++)
                    assert_int_equal(ways[w].nodes[i], there[w].nodes[there[w].n - 1 - i]);
            }
        }
}

static void the_narrowest_hop_weighs(void **state)
{
    (void)state;
    begin(4);
    join(0, 1, 100000);
    join(1, 2, 40000);
    join(2, 1, 40000); /* a second cable: together 80 Gb/s */
    join(0, 3, 25000);
    join(3, 2, 100000);
    assert_int_equal(find(0, 2), 2);
    int fast = ways[0].nodes[1] == 1 ? 0 : 1;
    assert_int_equal(ways[fast].nodes[1], 1);
    /* Payload of full packets: a little less than the wire. */
    assert_in_range(weights[fast], 70000, 80000);
    assert_in_range(weights[!fast], 22000, 25000);
    mesh.nodes[0].nics[1].speed_mbps = mesh.nodes[3].nics[0].speed_mbps = 0;
    assert_int_equal(find(0, 2), 2);
    assert_int_equal(weights[0], weights[1]);
}

static void ways_that_are_none_do_not_hold(void **state)
{
    static const struct mn_relay_way bad[] = {{2, {0, 1}},       {0, {0}},
                                              {-1, {0}},         {11, {0, 1, 2, 3}},
                                              {4, {0, 1, 0, 3}}, {3, {0, 2, 3}},
                                              {3, {0, 1, 4}},    {3, {0, 1, 65535}},
                                              {4, {0, 1, 2, 0}}, {5, {0, 1, 2, 3, 0}}};

    (void)state;
    ring(4);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (mn_relay_way_holds(&mesh, &bad[i]))
            fail_msg("way %zu holds", i);
    assert_true(mn_relay_way_holds(&mesh, &(struct mn_relay_way){4, {0, 1, 2, 3}}));
}

static void doors_are_the_neighbours_addresses_the_fastest_first(void **state)
{
    struct mn_relay_door doors[4];
    const long speeds[] = {10000, 100000, 0, 40000, 100000};
    const uint8_t order[] = {1, 4, 3, 0};

    (void)state;
    begin(3);
    for (int i = 0; i < 5; i++)
        join(i % 2, !(i % 2), speeds[i]);
    join(0, 2, 400000); /* another's */
    assert_int_equal(mn_relay_doors(&mesh, 0, 1, doors, 4), 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(doors[i].from.bytes[2], order[i]);
        assert_int_equal(doors[i].to.bytes[2], order[i]);
        assert_int_equal(doors[i].from.bytes[3], order[i] % 2 ? 2 : 1);
        assert_int_equal(doors[i].to.bytes[3], order[i] % 2 ? 1 : 2);
    }
    assert_int_equal(mn_relay_doors(&mesh, 1, 0, doors, 1), 1);
    assert_int_equal(doors[0].from.bytes[2], 1);
    assert_int_equal(doors[0].from.bytes[3], 1);
    assert_int_equal(mn_relay_doors(&mesh, 1, 2, doors, 4), 0);
    assert_int_equal(mn_relay_doors(&mesh, 0, 1, doors, 0), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_ring_of_four_has_two_ways_of_one_relay),
        TEST(a_ring_of_eight_has_two_ways_of_three_relays),
        TEST(a_line_and_a_star_have_one_way),
        TEST(neighbours_of_a_full_mesh_have_ways_beside_their_cable),
        TEST(ways_have_no_relay_in_common_where_that_goes),
        TEST(too_many_relays_are_no_way),
        TEST(bare_cables_carry_nothing),
        TEST(both_directions_and_every_node_find_the_same),
        TEST(the_narrowest_hop_weighs),
        TEST(ways_that_are_none_do_not_hold),
        TEST(doors_are_the_neighbours_addresses_the_fastest_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
