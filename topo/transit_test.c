/* Packets walk over the routes that are made for each node, on shapes with a cable or two between
 * neighbours: all arrive, by the shortest way, and in lines, trees and rings where rp_filter=1
 * looks at them too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/route.h"
#include "topo/transit.h"

#define NODES 16

static struct mn_mesh mesh;
static struct mn_transit transits[NODES];
static int passed[NODES + 1]; /* the nodes of the last travel() */

static int add_nic(int node, int family, unsigned number)
{
    struct mn_mesh_node *n = &mesh.nodes[node];
    int index = (int)n->n_nics;
    struct mn_mesh_nic *nic = mn_grow((void **)&n->nics, &n->n_nics, sizeof *nic);
    struct mn_addr *addr = mn_grow((void **)&nic->addrs, &nic->n_addrs, sizeof *addr);

    snprintf(nic->name, sizeof nic->name, "eth%d", index);
    snprintf(nic->netdev, sizeof nic->netdev, "eth%d", index);
    addr->family = family;
    addr->bytes[0] = family == AF_INET ? 10 : 0xfd;
    addr->bytes[family == AF_INET ? 2 : 14] = (uint8_t)(number >> 8);
    addr->bytes[family == AF_INET ? 3 : 15] = (uint8_t)number;
    addr->prefix = family == AF_INET ? 31 : 127;
    return index;
}

static void add_cables(int a, int b, int count, int family)
{
    static unsigned number;

    for (int i = 0; i < count; i++, number += 2) {
        struct mn_mesh_end ends[2] = {{a, add_nic(a, family, number)},
                                      {b, add_nic(b, family, number + 1)}};
        struct mn_mesh_link *link = mn_grow((void **)&mesh.links, &mesh.n_links, sizeof *link);
        memcpy(link->ends, ends, sizeof ends);
        snprintf(link->name, sizeof link->name, "cable%zu", mesh.n_links);
        assert_true(mn_link_subnet(mn_mesh_end_nic(&mesh, &ends[0]),
                                   mn_mesh_end_nic(&mesh, &ends[1]), &link->subnet));
    }
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

static void find(void)
{
    for (size_t n = 0; n < mesh.n_nodes; n++)
        mn_transit_find(&mesh, (int)n, &transits[n]);
}

static void end(void)
{
    for (size_t n = 0; n < mesh.n_nodes; n++)
        mn_transit_free(&transits[n]);
    mn_mesh_free(&mesh);
}

static int has(int node, const struct mn_addr *addr)
{
    for (size_t i = 0; i < mesh.nodes[node].n_nics; i++)
        if (mn_addr_equal(&mesh.nodes[node].nics[i].addrs[0], addr))
            return (int)i;
    return -1;
}

static int covers(const struct mn_addr *net, const struct mn_addr *addr)
{
    struct mn_addr a = *addr;

    a.prefix = net->prefix;
    return mn_addr_share_subnet(net, &a);
}

/* As the kernel looks it up: the NIC and the address that is asked for on its cable. -1: no way. */
static int look_up(int node, const struct mn_addr *to, struct mn_addr *via)
{
    const struct mn_transit_route *best = NULL;

    for (size_t i = 0; i < mesh.nodes[node].n_nics; i++)
        if (covers(&mesh.nodes[node].nics[i].addrs[0], to)) {
            *via = *to;
            return (int)i;
        }
    for (const struct mn_transit_route *r = transits[node].routes;
         r < transits[node].routes + transits[node].n_routes; r++)
        if (covers(&r->to, to) && (!best || r->to.prefix > best->to.prefix))
            best = r;
    if (best)
        *via = best->via;
    return best ? best->nic : -1;
}

static struct mn_mesh_end across(int node, int nic)
{
    for (size_t i = 0; i < 2 * mesh.n_links; i++) {
        const struct mn_mesh_end *own = &mesh.links[i / 2].ends[i % 2];
        if (own->node == node && own->nic == nic)
            return mesh.links[i / 2].ends[!(i % 2)];
    }
    fail();
    return (struct mn_mesh_end){-1, -1};
}

/* Over how many cables a packet goes until it is there; strict: every node on the way would answer
 * its sender through the NIC by which it came. */
static int travel(int from, const struct mn_addr *to, int strict)
{
    struct mn_addr source = {.family = 0}, via;
    int here = from, hops = 0;

    passed[0] = from;
    while (has(here, to) < 0) {
        int nic = look_up(here, to, &via);
        assert_true(nic >= 0 && hops < NODES);
        if (!source.family)
            source = mesh.nodes[here].nics[nic].addrs[0];
        struct mn_mesh_end there = across(here, nic);
        assert_int_equal(has(there.node, &via), there.nic);
        here = there.node;
        passed[++hops] = here;
        if (strict)
            assert_int_equal(look_up(here, &source, &via), there.nic);
        assert_true(has(here, to) >= 0 || transits[here].forwards);
    }
    return hops;
}

static int cable_at(const struct mn_fabric *fabric, int node, int nic)
{
    for (size_t c = 0; c < fabric->n_cables; c++)
        for (int i = 0; i < 2; i++) {
            const struct mn_mesh_end *end = &mesh.links[fabric->cables[c].link].ends[i];
            if (end->node == node && end->nic == nic)
                return (int)c;
        }
    return -1;
}

/* dist: of two nodes, by their numbers. What topo/route says of the way is what packets do. */
static void all_arrive(int (*dist)(int, int, int), int strict)
{
    int n = (int)mesh.n_nodes, said[NODES + 1];
    struct mn_fabric fabric;
    struct mn_routes routes;

    mn_fabric_from_mesh(&mesh, &fabric);
    mn_routes_find(&fabric, &routes);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            for (size_t i = 0; a != b && i < mesh.nodes[b].n_nics; i++) {
                int hops = travel(a, &mesh.nodes[b].nics[i].addrs[0], strict);
                assert_int_equal(hops, dist(a, b, n));
                int cable = cable_at(&fabric, b, (int)i);
                assert_int_equal(mn_routes_path_by(&fabric, &routes, a, b, cable, said), hops);
                assert_memory_equal(said, passed, (size_t)(hops + 1) * sizeof *said);
            }
    mn_routes_free(&routes);
    mn_fabric_free(&fabric);
}

static int on_ring(int a, int b, int n)
{
    int d = abs(a - b);
    return d < n - d ? d : n - d;
}

static int on_line(int a, int b, int n)
{
    (void)n;
    return abs(a - b);
}

static int on_star(int a, int b, int n)
{
    (void)n;
    return a == 0 || b == 0 ? 1 : 2;
}

/* 4 x 4. */
static int on_torus(int a, int b, int n)
{
    (void)n;
    return on_ring(a % 4, b % 4, 4) + on_ring(a / 4, b / 4, 4);
}

static void rings(void **state)
{
    (void)state;
    for (int n = 4; n <= 9; n++)
        for (int halves = 1; halves <= 2; halves++)
            for (int family = 0; family < 2; family++) {
                begin(n);
                for (int i = 0; i < n; i++)
                    add_cables(i, (i + 1) % n, halves, family ? AF_INET6 : AF_INET);
                find();
                all_arrive(on_ring, 1);
                for (int i = 0; i < n; i++)
                    assert_true(transits[i].forwards && transits[i].n_nics == 2 * (size_t)halves);
                end();
            }
}

static void lines_and_stars(void **state)
{
    (void)state;
    for (int n = 3; n <= 8; n++)
        for (int star = 0; star < 2; star++) {
            begin(n);
            for (int i = 1; i < n; i++)
                add_cables(star ? 0 : i - 1, i, 2, AF_INET);
            find();
            all_arrive(star ? on_star : on_line, 1);
            for (int i = 0; i < n; i++)
                assert_int_equal(transits[i].forwards, star ? i == 0 : i > 0 && i < n - 1);
            end();
        }
}

static void torus(void **state)
{
    (void)state;
    begin(16);
    for (int i = 0; i < 16; i++) {
        add_cables(i, i / 4 * 4 + (i + 1) % 4, 1, AF_INET);
        add_cables(i, (i + 4) % 16, 1, AF_INET);
    }
    find();
    all_arrive(on_torus, 0);
    end();
}

static void nothing_where_all_are_neighbours(void **state)
{
    (void)state;
    begin(6);
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < a; b++)
            add_cables(a, b, 2, AF_INET);
    add_cables(4, 5, 1, AF_INET);
    find();
    for (int i = 0; i < 6; i++) {
        assert_true(mn_transit_is_empty(&transits[i]));
        assert_int_equal(transits[i].n_routes + transits[i].n_sysctls + transits[i].n_nics, 0);
        assert_false(transits[i].forwards);
    }
    end();
}

static void bare_cables_carry_nothing(void **state)
{
    (void)state;
    begin(4);
    for (int i = 0; i < 4; i++)
        add_cables(i, (i + 1) % 4, 1, AF_INET);
    mesh.links[3].subnet.family = 0;
    mesh.nodes[3].nics[1].n_addrs = mesh.nodes[0].nics[1].n_addrs = 0;
    find();
    assert_false(transits[0].forwards || transits[3].forwards);
    assert_true(transits[1].forwards && transits[2].forwards);
    assert_int_equal(transits[0].n_routes, 2);
    assert_int_equal(transits[0].n_nics, 1);
    end();
}

/* The order in a file says nothing about the way. */
static void the_order_of_the_file_does_not_count(void **state)
{
    struct mn_transit first;

    (void)state;
    begin(8);
    for (int i = 0; i < 8; i++) {
        add_cables(i, (i + 1) % 8, 1, AF_INET);
        add_cables(i, (i + 3) % 8, 2, AF_INET);
    }
    mn_transit_find(&mesh, 0, &first);
    for (size_t i = 0; i < mesh.n_links / 2; i++) {
        struct mn_mesh_link *a = &mesh.links[i], *b = &mesh.links[mesh.n_links - 1 - i], c = *a;
        *a = *b;
        *b = c;
        struct mn_mesh_end e = a->ends[0];
        a->ends[0] = a->ends[1];
        a->ends[1] = e;
    }
    find();
    assert_int_equal(first.n_routes, transits[0].n_routes);
    for (size_t i = 0; i < first.n_routes; i++) {
        const struct mn_transit_route *a = &first.routes[i], *b = &transits[0].routes[i];
        assert_true(mn_addr_equal(&a->to, &b->to) && a->to.prefix == b->to.prefix);
        assert_true(mn_addr_equal(&a->via, &b->via) && a->nic == b->nic);
    }
    mn_transit_free(&first);
    end();
}

static const struct mn_transit_sysctl *sysctl(const struct mn_transit *t, const char *key)
{
    for (size_t i = 0; i < t->n_sysctls; i++)
        if (!strcmp(t->sysctls[i].key, key))
            return &t->sysctls[i];
    return NULL;
}

static void what_the_kernel_is_told(void **state)
{
    (void)state;
    begin(3);
    add_cables(0, 1, 1, AF_INET);
    add_cables(1, 2, 1, AF_INET);
    add_cables(0, 1, 1, AF_INET6);
    add_cables(1, 2, 1, AF_INET6);
    add_nic(1, AF_INET, 4000);
    mesh.nodes[1].nics[4].role = MN_ROLE_MANAGEMENT;
    strcpy(mesh.nodes[1].nics[0].netdev, "eth0.7");
    find();
    assert_int_equal(sysctl(&transits[0], "net/ipv4/conf/eth0/rp_filter")->value, 2);
    assert_null(sysctl(&transits[0], "net/ipv4/conf/eth0/forwarding"));
    assert_null(sysctl(&transits[0], "net/ipv6/conf/all/forwarding"));
    assert_int_equal(sysctl(&transits[1], "net/ipv4/conf/eth0.7/forwarding")->value, 1);
    assert_int_equal(sysctl(&transits[1], "net/ipv6/conf/all/forwarding")->value, 1);
    assert_null(sysctl(&transits[1], "net/ipv4/conf/eth4/forwarding"));
    assert_int_equal(transits[1].n_nics, 4);

    char *script = mn_transit_script_text(&transits[1], &mesh.nodes[1]);
    char *sysctls = mn_transit_sysctl_text(&transits[1]);
    assert_non_null(strstr(script, "-A MESHNET -i 'eth0.7' -j MESHNET-OUT"));
    assert_non_null(strstr(script, "-A MESHNET-OUT -o 'eth3' -j ACCEPT"));
    assert_non_null(strstr(script, "put iptables\nput ip6tables\n"));
    assert_null(strstr(script, "eth4"));
    assert_non_null(strstr(script, "in all | lo | 'eth0.7' | 'eth1' | 'eth2' | 'eth3') continue"));
    assert_non_null(strstr(sysctls, "\n-net/ipv4/conf/eth0.7/forwarding = 1\n"));
    assert_null(strstr(sysctls, "ipv6"));
    free(script);
    free(sysctls);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings),
        cmocka_unit_test(lines_and_stars),
        cmocka_unit_test(torus),
        cmocka_unit_test(nothing_where_all_are_neighbours),
        cmocka_unit_test(bare_cables_carry_nothing),
        cmocka_unit_test(the_order_of_the_file_does_not_count),
        cmocka_unit_test(what_the_kernel_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
