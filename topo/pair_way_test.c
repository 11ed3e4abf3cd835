/* Ways of pairs, by what the mesh file says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "topo/base/alloc.h"
#include "topo/pair_way.h"

static struct mn_mesh mesh;

static struct mn_mesh_nic *add_nic(int node, unsigned third, unsigned last, long speed)
{
    struct mn_mesh_node *n = &mesh.nodes[node];
    struct mn_mesh_nic *nic = mn_grow((void **)&n->nics, &n->n_nics, sizeof *nic);
    struct mn_addr *addr = mn_grow((void **)&nic->addrs, &nic->n_addrs, sizeof *addr);

    *addr = (struct mn_addr){.family = AF_INET,
                             .bytes = {10, 0, (uint8_t)third, (uint8_t)last},
                             .prefix = 24};
    nic->speed_mbps = speed;
    return nic;
}

static void begin(int n)
{
    mn_mesh_init(&mesh);
    for (int i = 0; i < n; i++) {
        struct mn_mesh_node *node =
            mn_grow((void **)&mesh.nodes, &mesh.n_nodes, sizeof *mesh.nodes);
        snprintf(node->name, sizeof node->name, "n%d", i);
    }
}

static void add_cable(int a, int b, long speed, const char *group)
{
    struct mn_mesh_link *link = mn_grow((void **)&mesh.links, &mesh.n_links, sizeof *link);
    unsigned third = (unsigned)mesh.n_links;

    snprintf(add_nic(a, third, 1, speed)->group, sizeof mesh.nodes->nics->group, "%s", group);
    add_nic(b, third, 2, speed);
    link->ends[0] = (struct mn_mesh_end){a, (int)mesh.nodes[a].n_nics - 1};
    link->ends[1] = (struct mn_mesh_end){b, (int)mesh.nodes[b].n_nics - 1};
    link->subnet = mesh.nodes[a].nics[link->ends[0].nic].addrs[0];
}

static void add_management(int node, int family, long speed)
{
    struct mn_mesh_nic *nic = add_nic(node, 200, (unsigned)node + 1, speed);

    nic->role = MN_ROLE_MANAGEMENT;
    nic->addrs[0].family = family;
}

static double mbps(double speed)
{
    return speed * 1e6 / 8 * mn_fabric_payload(1500, 0);
}

/* What is found between two; the path's nodes as "023" in nodes, mbps 0: not known. */
static void expect(int from, int to, enum mn_pair_kind kind, const char *nodes, double speed)
{
    struct mn_fabric fabric;
    struct mn_routes routes;
    struct mn_pair_way way;
    int path[16];
    char text[16] = "";

    mn_fabric_from_mesh(&mesh, &fabric);
    mn_routes_find(&fabric, &routes);
    mn_pair_way_find(&mesh, &fabric, &routes, from, to, path, &way);
    for (int i = 0; way.hops && i <= way.hops; i++)
        text[i] = (char)('0' + path[i]);
    assert_int_equal(way.kind, kind);
    assert_string_equal(text, nodes);
    assert_true(way.rate >= mbps(speed) * 0.999999 && way.rate <= mbps(speed) * 1.000001);
    mn_routes_free(&routes);
    mn_fabric_free(&fabric);
}

static void test_cables(void **state)
{
    (void)state;
    begin(4);
    add_cable(0, 1, 100000, "");
    add_cable(1, 2, 40000, "");
    add_cable(1, 0, 25000, "");
    expect(0, 1, MN_PAIR_CABLE, "01", 125000);
    expect(1, 0, MN_PAIR_CABLE, "10", 125000);
    /* What goes further has one cable a hop. */
    expect(0, 2, MN_PAIR_NODES, "012", 40000);
    expect(2, 0, MN_PAIR_NODES, "210", 40000);
    expect(0, 3, MN_PAIR_OUTSIDE, "", 0);
    mesh.nodes[2].nics[0].speed_mbps = mesh.nodes[1].nics[1].speed_mbps = 0;
    expect(0, 2, MN_PAIR_NODES, "012", 0);
    mn_mesh_free(&mesh);
}

static void test_halves_of_a_port(void **state)
{
    (void)state;
    begin(2);
    add_cable(0, 1, 100000, "p");
    add_cable(0, 1, 100000, "p");
    add_cable(0, 1, 50000, "");
    expect(0, 1, MN_PAIR_CABLE, "01", 150000);
    expect(1, 0, MN_PAIR_CABLE, "10", 150000);
    mn_mesh_free(&mesh);
}

static void test_management(void **state)
{
    (void)state;
    begin(3);
    add_management(0, AF_INET, 10000);
    add_management(1, AF_INET, 1000);
    add_management(2, AF_INET6, 1000);
    expect(0, 1, MN_PAIR_MANAGEMENT, "", 1000);
    expect(0, 2, MN_PAIR_NONE, "", 0); /* both say where, and cannot meet */
    add_cable(0, 2, 1000, "");
    expect(0, 2, MN_PAIR_CABLE, "02", 1000);
    mesh.nodes[1].nics[0].role = MN_ROLE_CABLE;
    expect(0, 1, MN_PAIR_OUTSIDE, "", 0);
    mn_mesh_free(&mesh);
}

static void test_settings(void **state)
{
    (void)state;
    begin(3);
    add_cable(0, 1, 10000, "");
    add_cable(1, 2, 10000, "");
    expect(0, 2, MN_PAIR_NODES, "012", 10000);
    mesh.settings.reach = MN_REACH_DIRECT;
    expect(0, 2, MN_PAIR_NONE, "", 0);
    expect(0, 1, MN_PAIR_CABLE, "01", 10000);
    mesh.settings.reach = MN_REACH_CABLES;
    expect(0, 2, MN_PAIR_NODES, "012", 10000);
    mesh.links[1].subnet.family = 0; /* no way along cables is left */
    expect(0, 2, MN_PAIR_NONE, "", 0);
    mesh.settings.reach = MN_REACH_MANAGEMENT;
    expect(0, 2, MN_PAIR_OUTSIDE, "", 0);
    mesh.links[1].subnet.family = AF_INET;
    expect(0, 2, MN_PAIR_OUTSIDE, "", 0);
    expect(0, 1, MN_PAIR_CABLE, "01", 10000);
    mesh.settings.reach = MN_REACH_AUTO;
    mesh.settings.transport = MN_TRANSPORT_VERBS;
    expect(0, 2, MN_PAIR_NONE, "", 0);
    mesh.settings.transport = MN_TRANSPORT_AUTO;
    mesh.settings.allow_tcp = MN_TCP_NEVER;
    expect(0, 2, MN_PAIR_NONE, "", 0);
    assert_string_equal(mn_reach_barred_by(MN_REACH_AUTO, MN_TRANSPORT_AUTO, MN_TCP_NEVER),
                        "transport.allow_tcp: false");
    assert_string_equal(mn_reach_barred_by(MN_REACH_DIRECT, MN_TRANSPORT_VERBS, MN_TCP_NEVER),
                        "transport.reach: direct");
    assert_null(mn_reach_barred_by(MN_REACH_AUTO, MN_TRANSPORT_TCP, MN_TCP_AUTO));
    mn_mesh_free(&mesh);
}

/* All cables of each hop; where a cluster key is named, or nothing else is allowed. */
static void test_relays(void **state)
{
    (void)state;
    begin(12);
    add_cable(0, 1, 10000, "");
    add_cable(0, 1, 30000, "");
    add_cable(1, 2, 25000, "");
    for (int i = 2; i < 10; i++)
        add_cable(i, i + 1, 25000, "");
    expect(0, 2, MN_PAIR_NODES, "012", 25000);
    strcpy(mesh.settings.key_file, "/etc/meshnet/key");
    expect(0, 1, MN_PAIR_CABLE, "01", 40000);
    expect(0, 2, MN_PAIR_RELAY, "012", 25000);
    expect(2, 0, MN_PAIR_RELAY, "210", 25000);
    add_cable(1, 2, 25000, "");
    expect(0, 2, MN_PAIR_RELAY, "012", 40000);
    expect(0, 9, MN_PAIR_RELAY, "0123456789", 25000); /* eight relays; nine are too many */
    expect(1, 10, MN_PAIR_RELAY, "123456789:", 25000);
    expect(0, 10, MN_PAIR_NODES, "0123456789:", 25000);
    expect(0, 11, MN_PAIR_OUTSIDE, "", 0);
    mesh.settings.reach = MN_REACH_CABLES;
    expect(0, 2, MN_PAIR_NODES, "012", 25000);
    mesh.settings.reach = MN_REACH_RELAY;
    mesh.settings.key_file[0] = 0;
    mesh.settings.transport = MN_TRANSPORT_VERBS; /* forbids TCP alone */
    expect(0, 2, MN_PAIR_RELAY, "012", 40000);
    expect(0, 10, MN_PAIR_NONE, "", 0);
    mn_mesh_free(&mesh);
}

/* Both ways of a ring, each as much as its narrowest hop. */
static void test_relays_beside_each_other(void **state)
{
    (void)state;
    begin(4);
    add_cable(0, 1, 10000, "");
    add_cable(1, 2, 10000, "");
    add_cable(2, 3, 30000, "");
    add_cable(3, 0, 40000, "");
    strcpy(mesh.settings.key_file, "/etc/meshnet/key");
    expect(0, 2, MN_PAIR_RELAY, "032", 40000);
    expect(2, 0, MN_PAIR_RELAY, "230", 40000);
    expect(1, 3, MN_PAIR_RELAY, "123", 20000);
    mesh.settings.relay_ways = 1;
    expect(0, 2, MN_PAIR_RELAY, "032", 30000);
    mn_mesh_free(&mesh);
}

static void test_routers(void **state)
{
    (void)state;
    begin(3);
    add_cable(0, 1, 10000, "");
    add_cable(1, 2, 10000, "");
    struct mn_mesh_route *route = mn_grow((void **)&mesh.routes, &mesh.n_routes, sizeof *route);
    *route = (struct mn_mesh_route){.ends = {{2, 0}, {0, 0}}, .via = "box"};
    expect(0, 2, MN_PAIR_ROUTER, "", 10000);
    expect(2, 0, MN_PAIR_ROUTER, "", 10000);
    mesh.settings.reach =
        MN_REACH_DIRECT; /* forbids neighbours' forwarding, not what the file has */
    expect(0, 2, MN_PAIR_ROUTER, "", 10000);
    mn_mesh_free(&mesh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cables),     cmocka_unit_test(test_halves_of_a_port),
        cmocka_unit_test(test_management), cmocka_unit_test(test_settings),
        cmocka_unit_test(test_relays),     cmocka_unit_test(test_relays_beside_each_other),
        cmocka_unit_test(test_routers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
