/* Numbers of cables: where they lie, that they stay, what they keep away from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topo/address.h"
#include "topo/address_range.h"
#include "topo/base/alloc.h"
#include "topo/mesh_file.h"

static struct mn_mesh mesh;
static struct mn_takens taken;
static struct mn_addressed done;
static struct mn_diag diag;

static int setup(void **state)
{
    (void)state;
    mn_mesh_init(&mesh);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mn_mesh_free(&mesh);
    mn_takens_free(&taken);
    mn_addressed_free(&done);
    return 0;
}

static void read_text(const char *text)
{
    mn_mesh_free(&mesh);
    if (mn_mesh_parse("mesh", text, strlen(text), &mesh, &diag))
        fail_msg("%s", diag.text);
}

static void number(const struct mn_address_plan *plan)
{
    mn_addressed_free(&done);
    if (mn_address_mesh(&mesh, plan, &taken, &done, &diag))
        fail_msg("%s", diag.text);
}

static void refuse(const struct mn_address_plan *plan)
{
    mn_addressed_free(&done);
    assert_int_equal(mn_address_mesh(&mesh, plan, &taken, &done, &diag), MN_ERR_CONFIG);
}

static void avoid(const char *net)
{
    assert_int_equal(mn_taken_add_text(&taken, net, "a test", &diag), MN_OK);
}

/* "a/p0" has exactly these. */
static void expect(const char *node, const char *nic, const char *addrs)
{
    char text[256] = "", one[MN_ADDR_TEXT];

    for (size_t n = 0; n < mesh.n_nodes; n++)
        for (size_t i = 0; i < mesh.nodes[n].n_nics; i++)
            for (size_t a = 0; a < mesh.nodes[n].nics[i].n_addrs; a++)
                if (!strcmp(mesh.nodes[n].name, node) && !strcmp(mesh.nodes[n].nics[i].name, nic))
                    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s",
                             *text ? " " : "",
                             mn_addr_format(&mesh.nodes[n].nics[i].addrs[a], one, sizeof one));
    assert_string_equal(text, addrs);
}

static const struct mn_address_plan ipv4 = {.family = AF_INET};

#define NODE(name)                                                                                 \
    "  - {name: " name ", nics: [{netdev: p0}, {netdev: p1}, {netdev: q0}, {netdev: q1}]}\n"
#define NODES(nodes) "version: 1\nnodes:\n" nodes "links:\n"

static void each_two_nodes_have_a_block(void **state)
{
    (void)state;
    read_text(NODES(NODE("n10") NODE("n2")
                        NODE("n1")) "  - {ends: [n10/p0, n2/p1]}\n  - {ends: [n10/q0, n2/q1]}\n"
                                    "  - {ends: [n10/p1, n1/p0]}\n  - {ends: [n2/p0, n1/p1]}\n");
    number(&ipv4);
    assert_int_equal(done.counts[MN_ADDRESS_NEW], 4);
    expect("n1", "p1", "10.66.0.0/31");
    expect("n2", "p0", "10.66.0.1/31");
    expect("n1", "p0", "10.66.1.0/31");
    expect("n2", "p1", "10.66.2.0/31");
    expect("n2", "q1", "10.66.2.2/31");
    expect("n10", "q0", "10.66.2.3/31");
    for (size_t i = 0; i < mesh.n_links; i++)
        assert_false(mn_link_is_bare(&mesh.links[i]));

    /* The same mesh in another order. */
    read_text(NODES(NODE("n1") NODE("n2") NODE(
        "n10")) "  - {ends: [n1/p1, n2/p0]}\n  - {name: n10-n2, ends: [n2/p1, n10/p0]}\n"
                "  - {ends: [n1/p0, n10/p1]}\n  - {name: n10-n2-2, ends: [n2/q1, n10/q0]}\n");
    number(&ipv4);
    expect("n1", "p1", "10.66.0.0/31");
    expect("n1", "p0", "10.66.1.0/31");
    expect("n2", "q1", "10.66.2.2/31");
    expect("n10", "q0", "10.66.2.3/31");
}

static void what_is_there_stays(void **state)
{
    static const struct mn_address_plan anew = {.family = AF_INET, .renumber = 1};

    (void)state;
    read_text("version: 1\nnodes:\n"
              "  - {name: a, nics: [{netdev: p0, addresses: [10.77.5.0/31]}, {netdev: q0}]}\n"
              "  - {name: b, nics: [{netdev: p0, addresses: [10.77.5.1/31]}, {netdev: q0}, "
              "{netdev: p1}]}\n"
              "  - {name: aa, nics: [{netdev: p0}]}\n"
              "links:\n  - {ends: [a/p0, b/p0]}\n  - {ends: [b/q0, a/q0]}\n"
              "  - {ends: [aa/p0, b/p1]}\n");
    number(&ipv4);
    assert_int_equal(done.counts[MN_ADDRESS_KEPT], 1);
    assert_int_equal(done.states[0], MN_ADDRESS_KEPT);
    expect("a", "p0", "10.77.5.0/31");
    expect("a", "q0", "10.77.5.2/31"); /* beside its other half */
    expect("b", "q0", "10.77.5.3/31");
    expect("aa", "p0", "10.77.0.0/31"); /* in the range that is there */
    number(&ipv4);
    assert_int_equal(done.counts[MN_ADDRESS_KEPT], 3);
    expect("aa", "p0", "10.77.0.0/31");
    number(&anew);
    assert_int_equal(done.counts[MN_ADDRESS_NEW], 3);
    expect("a", "p0", "10.66.0.0/31");
    expect("aa", "p0", "10.66.1.0/31");
    number(&(struct mn_address_plan){.family = AF_INET6, .pool = {AF_INET6, 48, {0xfd, 1}}});
    expect("a", "p0", "10.66.0.0/31 fd01::/127");
    expect("b", "q0", "10.66.0.3/31 fd01::3/127");
    expect("aa", "p0", "10.66.1.0/31 fd01:0:0:1::/127");
}

#define PAIR NODES(NODE("a") NODE("b")) "  - {ends: [a/p0, b/p0]}\n"

static void it_keeps_away(void **state)
{
    (void)state;
    avoid("10.66.0.7/32");
    avoid("10.67.0.0/16");
    mn_taken_add_usual(&taken);
    read_text(PAIR);
    number(&ipv4);
    expect("a", "p0", "10.68.0.0/31");
    /* From 10.87 on there are Podman, Kubernetes' services, … */
    avoid("10.64.0.0/11");
    read_text(PAIR);
    number(&ipv4);
    expect("a", "p0", "10.112.0.0/31");
    avoid("10.0.0.0/8");
    read_text(PAIR);
    number(&ipv4);
    expect("a", "p0", "172.16.0.0/31");
    avoid("172.0.0.0/8");
    read_text(PAIR);
    refuse(&ipv4);
    assert_non_null(strstr(diag.text, "--pool"));
    assert_true(mn_link_is_bare(&mesh.links[0]));
}

/* In a range that was named habits do not count, what is used does. */
static void a_pool_that_is_named(void **state)
{
    struct mn_address_plan plan = {.family = AF_INET, .pool = {AF_INET, 24, {172, 20, 1}}};

    (void)state;
    mn_taken_add_usual(&taken);
    avoid("172.20.1.0/29");
    read_text(PAIR);
    number(&plan);
    expect("a", "p0", "172.20.1.8/31");
    plan.prefix = 30;
    plan.renumber = 1;
    number(&plan);
    expect("a", "p0", "172.20.1.9/30");
    expect("b", "p0", "172.20.1.10/30");
    plan.pool.prefix = 29;
    refuse(&plan);
    assert_non_null(strstr(diag.text, "1 cable needs a /30 each"));
    assert_non_null(strstr(diag.text, "room for 0; expected a /28 or wider"));
    expect("a", "p0", "172.20.1.9/30");
    plan.pool.prefix = 31;
    refuse(&plan);
    plan.pool.prefix = -1;
    refuse(&plan);
    plan = (struct mn_address_plan){.family = AF_INET6, .pool = plan.pool};
    refuse(&plan);
    plan = (struct mn_address_plan){.family = AF_INET, .prefix = 24};
    refuse(&plan);
}

static void an_end_that_has_an_address(void **state)
{
    (void)state;
    read_text("version: 1\nnodes:\n"
              "  - {name: a, nics: [{netdev: p0, addresses: [10.9.0.254/24], "
              "gid: {index: 3, address: 10.9.0.254}}, {netdev: p1, addresses: [10.8.0.1/24], "
              "gid: {index: 3, address: 10.8.0.1}}, {netdev: p2, addresses: [10.7.0.1/31]}]}\n"
              "  - {name: b, nics: [{netdev: p0}, {netdev: p1}, {netdev: p2}]}\n"
              "links:\n  - {ends: [a/p0, b/p0]}\n  - {ends: [a/p1, b/p1]}\n"
              "  - {ends: [a/p2, b/p2]}\n");
    avoid("10.8.0.0/16");
    number(&ipv4);
    assert_int_equal(done.counts[MN_ADDRESS_COMPLETED], 2);
    expect("b", "p0", "10.9.0.253/24");
    expect("b", "p2", "10.7.0.0/31");
    assert_int_equal(mesh.nodes[0].nics[0].gid_index, 3);
    /* Somebody else's. */
    expect("a", "p1", "10.66.0.0/31");
    assert_int_equal(mesh.nodes[0].nics[1].gid_index, -1);
    assert_int_equal(mesh.nodes[0].nics[1].gid_addr.family, 0);
}

/* Nobody could tell which of both cables is meant. */
static void two_ends_in_one_subnet(void **state)
{
    (void)state;
    read_text("version: 1\nnodes:\n"
              "  - {name: a, nics: [{netdev: p0, addresses: [10.9.0.1/24]}]}\n"
              "  - {name: b, nics: [{netdev: p0, addresses: [10.9.1.2/16]}]}\n"
              "  - {name: c, nics: [{netdev: p0}, {netdev: p1}]}\n"
              "links:\n  - {ends: [a/p0, c/p0]}\n  - {ends: [b/p0, c/p1]}\n");
    number(&ipv4);
    assert_int_equal(done.counts[MN_ADDRESS_NEW], 2);
    expect("a", "p0", "10.66.0.0/31");
    expect("b", "p0", "10.66.1.0/31");
}

static void mtu_where_it_is_missing(void **state)
{
    struct mn_address_plan plan = ipv4;

    (void)state;
    read_text(
        "version: 1\nnodes:\n"
        "  - {name: a, nics: [{netdev: p0, device: r0}, {netdev: p1, mtu: 4000}, {netdev: p2}, "
        "{netdev: p3, mtu: 1500, device: r3}]}\n"
        "  - {name: b, nics: [{netdev: p0, speed: 100000}, {netdev: p1}, {netdev: p2}, "
        "{netdev: p3, mtu: 1500, device: r3}]}\n"
        "links:\n  - {ends: [a/p0, b/p0]}\n  - {ends: [a/p1, b/p1]}\n"
        "  - {ends: [a/p2, b/p2]}\n  - {ends: [a/p3, b/p3]}\n");
    number(&plan);
    const int expected[] = {9000, 4000, 0, 1500};
    for (int n = 0; n < 2; n++)
        for (int i = 0; i < 4; i++)
            assert_int_equal(mesh.nodes[n].nics[i].mtu, expected[i]);
    assert_int_equal(done.n_mtu, 3);
    plan.mtu = 8000;
    number(&plan);
    for (int i = 0; i < 8; i++)
        assert_int_equal(mesh.nodes[i / 4].nics[i % 4].mtu, 8000);
}

static struct mn_mesh_nic *add_nic(struct mn_mesh_node *node)
{
    struct mn_mesh_nic *nic = mn_grow((void **)&node->nics, &node->n_nics, sizeof *nic);

    snprintf(nic->name, sizeof nic->name, "p%zu", node->n_nics);
    return nic;
}

/* A line of so many nodes, two cables between neighbours. */
static void make_line(int n)
{
    for (int i = 0; i < n; i++) {
        struct mn_mesh_node *node =
            mn_grow((void **)&mesh.nodes, &mesh.n_nodes, sizeof *mesh.nodes);
        snprintf(node->name, sizeof node->name, "n%d", i);
        for (int k = 0; k < 4; k++)
            add_nic(node);
    }
    for (int i = 0; i + 1 < n; i++)
        for (int k = 0; k < 2; k++) {
            struct mn_mesh_link *link = mn_grow((void **)&mesh.links, &mesh.n_links, sizeof *link);
            snprintf(link->name, sizeof link->name, "c%d-%d", i, k);
            link->ends[0] = (struct mn_mesh_end){i + 1, k};
            link->ends[1] = (struct mn_mesh_end){i, 2 + k};
        }
}

static int by_number(const void *x, const void *y)
{
    const struct mn_addr *a = x, *b = y;

    return memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

/* Ten thousand nodes: more than there are blocks of a /16, or subnets. */
static void many(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__ /* there is one thread, and it is slow */
    int first = 1;
#else
    int first = 0;
#endif
    for (int round = first; round < 2; round++) {
        mn_mesh_free(&mesh);
        make_line(round ? 400 : 10000);
        size_t n = mesh.n_links;
        struct mn_addr *nets = mn_zalloc(n * sizeof *nets);
        number(&ipv4);
        assert_int_equal(done.counts[MN_ADDRESS_NEW], n);
        for (size_t i = 0; i < n; i++)
            nets[i] = mesh.links[i].subnet;
        qsort(nets, n, sizeof *nets, by_number);
        for (size_t i = 0; i < n; i++) {
            assert_true(nets[i].family == AF_INET && nets[i].prefix == 31);
            assert_true(!i || by_number(&nets[i - 1], &nets[i]) != 0);
        }
        free(nets);
    }
    expect("n0", "p3", "10.66.0.0/31");
    expect("n399", "p2", "10.66.6.59/31");
}

static void what_is_wrong_is_told(void **state)
{
    struct mn_troubles troubles = {.items = NULL};

    (void)state;
    read_text("version: 1\nnodes:\n"
              "  - {name: a, nics: [{netdev: p0, addresses: [172.20.0.0/31]}, {netdev: p1}, "
              "{netdev: p2, role: cable, addresses: [10.9.0.1/24, 10.3.0.1/24]}, "
              "{netdev: lan, role: management, addresses: [10.9.0.9/16]}]}\n"
              "  - {name: b, nics: [{netdev: p0, addresses: [172.20.0.1/31]}, {netdev: p1}, "
              "{netdev: p2, addresses: [10.9.0.2/24, 10.3.0.2/24]}]}\n"
              "links:\n  - {ends: [a/p0, b/p0]}\n  - {ends: [a/p1, b/p1]}\n"
              "  - {name: x, ends: [a/p2, b/p2]}\n");
    mn_taken_add_mesh(&taken, &mesh);
    mn_taken_add_usual(&taken);
    mn_address_check(&mesh, &taken, &troubles);
    assert_int_equal(troubles.count, 3);
    assert_string_equal(troubles.items[0].rule->id, "address-taken-by-habit");
    assert_non_null(strstr(troubles.items[0].seen, "172.20.0.0/31, and 172.20.0.0/14: Docker"));
    assert_string_equal(troubles.items[1].rule->id, "cable-without-address");
    assert_string_equal(troubles.items[2].rule->id, "address-in-use");
    assert_string_equal(troubles.items[2].where, "x (a/p2 - b/p2)");
    assert_string_equal(troubles.items[2].seen, "10.9.0.0/24, and 10.9.0.0/16: lan on a");
    mn_troubles_free(&troubles);
}

static void ranges(void **state)
{
    struct mn_ranges set = {.items = NULL};

    (void)state;
    mn_ranges_sort(&set);
    assert_null(mn_ranges_hit(&set, 0, ~(mn_wide)0));
    mn_ranges_add(&set, (struct mn_range){20, 29});
    mn_ranges_add(&set, (struct mn_range){5, 9});
    mn_ranges_add(&set, (struct mn_range){25, 40});
    mn_ranges_add(&set, (struct mn_range){26, 27});
    mn_ranges_sort(&set);
    assert_int_equal(set.count, 2);
    assert_null(mn_ranges_hit(&set, 0, 4));
    assert_null(mn_ranges_hit(&set, 10, 19));
    assert_null(mn_ranges_hit(&set, 41, 99));
    assert_ptr_equal(mn_ranges_hit(&set, 0, 5), &set.items[0]);
    assert_ptr_equal(mn_ranges_hit(&set, 40, 50), &set.items[1]);
    assert_ptr_equal(mn_ranges_hit(&set, 0, 99), &set.items[0]);
    mn_ranges_free(&set);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_two_nodes_have_a_block),
        TEST(what_is_there_stays),
        TEST(it_keeps_away),
        TEST(a_pool_that_is_named),
        TEST(an_end_that_has_an_address),
        TEST(two_ends_in_one_subnet),
        TEST(mtu_where_it_is_missing),
        TEST(many),
        TEST(what_is_wrong_is_told),
        TEST(ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
