/* Meshes as numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/fabric.h"
#include "topo/mesh_check.h"

static struct mn_mesh mesh;

static struct mn_mesh_nic *add_nic(int node, unsigned number, long speed)
{
    struct mn_mesh_node *n = &mesh.nodes[node];
    struct mn_mesh_nic *nic = mn_grow((void **)&n->nics, &n->n_nics, sizeof *nic);
    struct mn_addr *addr = mn_grow((void **)&nic->addrs, &nic->n_addrs, sizeof *addr);

    snprintf(nic->name, sizeof nic->name, "eth%zu", n->n_nics - 1);
    *addr = (struct mn_addr){.family = AF_INET, .bytes = {10, 0, 0, (uint8_t)number}, .prefix = 31};
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

static void add_cable(int a, int b, long speed_a, long speed_b)
{
    struct mn_mesh_link *link = mn_grow((void **)&mesh.links, &mesh.n_links, sizeof *link);
    unsigned number = 2 * (unsigned)mesh.n_links;

    add_nic(a, number, speed_a);
    add_nic(b, number + 1, speed_b);
    link->ends[0] = (struct mn_mesh_end){a, (int)mesh.nodes[a].n_nics - 1};
    link->ends[1] = (struct mn_mesh_end){b, (int)mesh.nodes[b].n_nics - 1};
    link->subnet = mesh.nodes[a].nics[link->ends[0].nic].addrs[0];
}

static double payload(double mbps, int mtu)
{
    return mbps * 1e6 / 8 * (mtu - 52) / (mtu + 38);
}

static void speeds_of_both_ends(void **state)
{
    struct mn_fabric f;

    (void)state;
    begin(4);
    add_cable(0, 1, 100000, 40000); /* the slower one counts */
    add_cable(1, 2, 0, 200000);     /* or the one that is known */
    add_cable(2, 3, 0, 0);
    mesh.nodes[0].nics[0].mtu = 9000;
    mesh.nodes[1].nics[0].mtu = 4200;
    mn_fabric_from_mesh(&mesh, &f);
    assert_int_equal(f.n, 4);
    assert_int_equal(f.n_cables, 3);
    assert_float_equal(f.cables[0].rate / payload(40000, 4200), 1, 1e-9);
    assert_float_equal(f.cables[1].rate / payload(200000, 1500), 1, 1e-9);
    assert_true(f.cables[2].rate <= 0);
    assert_true(f.cables[0].latency >= MN_FABRIC_TCP_LATENCY);
    assert_true(mn_fabric_rate(&f.cables[0], 1) >= f.cables[0].rate);
    f.cables[0].back = 7;
    assert_true(mn_fabric_rate(&f.cables[0], 1) <= 7 && mn_fabric_rate(&f.cables[0], 0) > 7);
    assert_int_equal(mn_fabric_direction(&f.cables[1], 2), 1);
    mn_fabric_free(&f);
    mn_mesh_free(&mesh);
}

static void bare_cables_are_left_out(void **state)
{
    struct mn_fabric f;

    (void)state;
    begin(3);
    add_cable(0, 1, 1000, 1000);
    add_cable(1, 2, 1000, 1000);
    mesh.links[0].subnet.family = 0;
    mn_fabric_from_mesh(&mesh, &f);
    assert_int_equal(f.n_cables, 1);
    assert_int_equal(f.cables[0].link, 1);
    assert_int_equal(f.doors[0], -1);
    assert_int_equal(f.doors[1], 0);
    mn_fabric_free(&f);
    mn_mesh_free(&mesh);
}

/* Halves of a port: of one name on two nodes they are two groups. */
static void groups_are_a_nodes_own(void **state)
{
    struct mn_fabric f;

    (void)state;
    begin(3);
    add_cable(0, 1, 100000, 100000);
    add_cable(0, 1, 100000, 100000);
    add_cable(1, 2, 50000, 50000);
    for (int n = 0; n < 2; n++)
        for (int i = 0; i < 2; i++)
            strcpy(mesh.nodes[n].nics[i].group, "p0");
    mesh.nodes[0].nics[0].device[0] = mesh.nodes[1].nics[0].device[0] = 'm';
    mesh.nodes[0].nics[1].device[0] = 'n'; /* the other half is none at its other end */
    mn_fabric_from_mesh(&mesh, &f);
    assert_int_equal(f.n_groups, 2);
    assert_int_equal(f.cables[0].groups[0], f.cables[1].groups[0]);
    assert_int_equal(f.cables[0].groups[1], f.cables[1].groups[1]);
    assert_int_not_equal(f.cables[0].groups[0], f.cables[0].groups[1]);
    assert_int_equal(f.cables[2].groups[0], -1);
    assert_true(f.cables[0].rate < f.cables[1].rate); /* with an MTU of 1500 */
    assert_float_equal(f.groups[0].rate / f.cables[1].rate, 1, 1e-9);
    assert_int_equal(f.groups[f.cables[0].groups[1]].node, 1);
    assert_true(f.cables[0].latency < MN_FABRIC_TCP_LATENCY); /* RDMA at both ends */
    assert_true(f.far > 0);
    assert_true(f.cables[1].latency >= MN_FABRIC_TCP_LATENCY);
    mn_fabric_free(&f);
    mesh.settings.transport = MN_TRANSPORT_TCP;
    mn_fabric_from_mesh(&mesh, &f);
    assert_true(f.cables[0].latency >= MN_FABRIC_TCP_LATENCY);
    assert_true(f.far <= 0);
    mn_fabric_free(&f);
    mn_mesh_free(&mesh);
}

/* Of a node's NICs the first, however the links are ordered. */
static void doors(void **state)
{
    struct mn_fabric f;

    (void)state;
    begin(3);
    add_cable(0, 1, 1, 1);
    add_cable(0, 2, 1, 1);
    struct mn_mesh_link first = mesh.links[0];
    mesh.links[0] = mesh.links[1];
    mesh.links[1] = first;
    mn_fabric_from_mesh(&mesh, &f);
    assert_int_equal(f.doors[0], 1);
    assert_int_equal(f.doors[1], 1);
    assert_int_equal(f.doors[2], 0);
    mn_fabric_free(&f);
    mn_mesh_free(&mesh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(speeds_of_both_ends),
        cmocka_unit_test(bare_cables_are_left_out),
        cmocka_unit_test(groups_are_a_nodes_own),
        cmocka_unit_test(doors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
