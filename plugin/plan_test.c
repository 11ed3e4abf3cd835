#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "plugin/plan.h"

static void add(struct mn_side *side, const char *addr, uint8_t nic, long speed)
{
    struct mn_local *l = &side->locals[side->n_locals++];

    l->nic = nic;
    l->speed_mbps = speed;
    assert_int_equal(mn_addr_parse(addr, &l->addr, NULL), MN_OK);
}

static void test_only_the_shared_cable(void **state)
{
    struct mn_side a = {.node_id = 1, .allow_tcp = MN_TCP_AUTO},
                   b = {.node_id = 2, .allow_tcp = MN_TCP_AUTO};
    struct mn_pair pairs[MN_MAX_LOCALS];

    (void)state;
    add(&a, "10.0.1.0/31", 0, 100000);
    add(&a, "10.0.2.1/30", 1, 100000);
    add(&b, "10.0.3.1/24", 0, 100000);
    add(&b, "10.0.1.1/31", 1, 100000);
    assert_int_equal(mn_pairs_find(&a, &b, pairs), 1);
    assert_int_equal(pairs[0].connector, 0);
    assert_int_equal(pairs[0].acceptor, 1);
}

/* Named by the file of either end, which alone has it at hand. */
static void test_a_route_joins_what_no_subnet_does(void **state)
{
    struct mn_side a = {.node_id = 1, .allow_tcp = MN_TCP_AUTO},
                   b = {.node_id = 2, .allow_tcp = MN_TCP_AUTO};
    struct mn_routed routes = {.n = 1};
    struct mn_pair pairs[MN_MAX_LOCALS];

    (void)state;
    add(&a, "10.0.1.1/30", 0, 100000);
    add(&a, "10.0.2.1/30", 1, 100000);
    add(&b, "10.0.2.2/30", 0, 100000);
    add(&b, "10.0.9.1/30", 1, 100000);
    assert_int_equal(mn_pairs_find(&a, &b, pairs), 1);
    for (int end = 0; end < 2; end++) {
        routes.pairs[0].own = end ? b.locals[1].addr : a.locals[0].addr;
        routes.pairs[0].peer = end ? a.locals[0].addr : b.locals[1].addr;
        a.routes = end ? NULL : &routes;
        b.routes = end ? &routes : NULL;
        assert_int_equal(mn_pairs_find(&a, &b, pairs), 2);
        assert_int_equal(pairs[0].connector, 0);
        assert_int_equal(pairs[0].acceptor, 1);
        assert_int_equal(pairs[1].connector, 1);
        assert_int_equal(pairs[1].acceptor, 0);
    }
}

static void test_both_netmasks_count(void **state)
{
    struct mn_side a = {.node_id = 1, .allow_tcp = MN_TCP_AUTO},
                   b = {.node_id = 2, .allow_tcp = MN_TCP_AUTO};
    struct mn_pair pairs[MN_MAX_LOCALS];

    (void)state;
    add(&a, "10.0.0.1/16", 0, 0); /* sees b in its subnet, b does not see a in its own */
    add(&b, "10.0.9.1/24", 0, 0);
    assert_int_equal(mn_pairs_find(&a, &b, pairs), 0);
}

static void test_parallel_links_and_one_pair_a_nic(void **state)
{
    struct mn_side a = {.node_id = 1, .allow_tcp = MN_TCP_AUTO},
                   b = {.node_id = 2, .allow_tcp = MN_TCP_AUTO};
    struct mn_pair pairs[MN_MAX_LOCALS];
    struct mn_plan plan;

    (void)state;
    add(&a, "10.0.1.1/24", 0, 100000);
    add(&a, "fd00::1/64", 0, 100000); /* the same cable again */
    add(&a, "10.0.2.1/24", 1, 200000);
    add(&b, "10.0.1.2/24", 0, 100000);
    add(&b, "fd00::2/64", 0, 100000);
    add(&b, "10.0.2.2/24", 1, 200000);
    assert_int_equal(mn_pairs_find(&a, &b, pairs), 2);
    assert_int_equal(pairs[0].connector, 2); /* fastest first */
    assert_int_equal(mn_plan_make(&a, &b, pairs[1], &plan, NULL), MN_OK);
    assert_int_equal(plan.n_pairs, 2);
    assert_int_equal(plan.pairs[0].connector, pairs[1].connector); /* control first */
    assert_int_equal(plan.pairs[1].connector, 2);
}

static void test_slow_network_beside_the_cables(void **state)
{
    struct mn_side a = {.node_id = 1, .allow_tcp = MN_TCP_AUTO},
                   b = {.node_id = 2, .allow_tcp = MN_TCP_AUTO};
    struct mn_pair pairs[MN_MAX_LOCALS];

    (void)state;
    add(&a, "192.168.0.1/24", 0, 1000);
    add(&a, "10.0.1.1/31", 1, 100000);
    add(&b, "192.168.0.2/24", 0, 1000);
    add(&b, "10.0.1.0/31", 1, 100000);
    assert_int_equal(mn_pairs_find(&a, &b, pairs), 1);
    assert_int_equal(pairs[0].connector, 1);
}

static void test_same_host_uses_equal_addresses(void **state)
{
    struct mn_side a = {.node_id = 1, .allow_tcp = MN_TCP_AUTO},
                   b = {.node_id = 1, .allow_tcp = MN_TCP_AUTO};
    struct mn_pair pairs[MN_MAX_LOCALS];
    struct mn_plan plan;

    (void)state;
    add(&a, "10.0.1.1/24", 0, 0);
    add(&b, "10.0.1.1/24", 0, 0);
    assert_int_equal(mn_pairs_find(&a, &b, pairs), 1);
    assert_int_equal(mn_plan_make(&a, &b, pairs[0], &plan, NULL), MN_OK);
    assert_int_equal(plan.n_pairs, 1);
    b.node_id = 2; /* equal addresses on two hosts: a container bridge, or a mistake */
    assert_int_equal(mn_pairs_find(&a, &b, pairs), 0);
}

/* Both ends must come to one plan from the same two lists, whatever is in them. */
static void test_both_ends_agree(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 2000; round++) {
        struct mn_side s[2] = {{.node_id = 1, .allow_tcp = MN_TCP_AUTO},
                               {.node_id = 2, .allow_tcp = MN_TCP_AUTO}};
        struct mn_pair pairs[MN_MAX_LOCALS];
        struct mn_plan plan;
        for (int k = 0; k < 2; k++) {
            s[k].sockets_per_link = rand() % 9;
            s[k].n_locals = 1 + rand() % MN_MAX_LOCALS;
            for (int i = 0; i < s[k].n_locals; i++) {
                struct mn_local *l = &s[k].locals[i];
                l->addr = (struct mn_addr){.family = AF_INET,
                                           .prefix = 22 + rand() % 11,
                                           .bytes = {10, 0, (uint8_t)(rand() % 4),
                                                     (uint8_t)(rand() % 8)}};
                l->nic = (uint8_t)(rand() % 4);
                l->speed_mbps = rand() % 3 * 100000;
            }
        }
        int count = mn_pairs_find(&s[0], &s[1], pairs);
        if (!count)
            continue;
        assert_int_equal(mn_plan_make(&s[0], &s[1], pairs[rand() % count], &plan, NULL), MN_OK);
        assert_in_range(plan.n_pairs, 1, MN_MAX_LOCALS);
        assert_in_range(plan.lanes_per_pair, 1, 8);
        for (int i = 0; i < plan.n_pairs; i++)
            for (int j = i + 1; j < plan.n_pairs; j++) {
                assert_int_not_equal(s[0].locals[plan.pairs[i].connector].nic,
                                     s[0].locals[plan.pairs[j].connector].nic);
                assert_int_not_equal(s[1].locals[plan.pairs[i].acceptor].nic,
                                     s[1].locals[plan.pairs[j].acceptor].nic);
            }
    }
}

static void give_rdma(struct mn_side *side, int local, enum mn_rdma_state state)
{
    side->rdma[local] = (struct mn_rdma_end){.state = (uint8_t)state,
                                             .port = 1,
                                             .mtu = 5,
                                             .gid_type = MN_GID_ROCE_V2};
}

static void two_cables(struct mn_side *a, struct mn_side *b)
{
    *a = (struct mn_side){.node_id = 1, .node = "a", .allow_tcp = MN_TCP_AUTO};
    *b = (struct mn_side){.node_id = 2, .node = "b", .allow_tcp = MN_TCP_AUTO};
    add(a, "10.0.1.1/24", 0, 100000);
    add(a, "10.0.2.1/24", 1, 100000);
    add(b, "10.0.1.2/24", 0, 100000);
    add(b, "10.0.2.2/24", 1, 100000);
}

static const struct mn_pair first_pair = {0, 0};

static void test_rdma_where_both_ends_can(void **state)
{
    struct mn_side a, b;
    struct mn_plan plan;

    (void)state;
    two_cables(&a, &b);
    for (int i = 0; i < 2; i++) {
        give_rdma(&a, i, MN_RDMA_READY);
        give_rdma(&b, i, MN_RDMA_READY);
    }
    assert_int_equal(mn_plan_make(&a, &b, first_pair, &plan, NULL), MN_OK);
    assert_int_equal(plan.kind, MN_TRANSPORT_VERBS);
    assert_int_equal(plan.n_pairs, 2);
    /* One of the two cannot: the control connection may still run over it. */
    give_rdma(&b, 0, MN_RDMA_BROKEN);
    assert_int_equal(mn_plan_make(&a, &b, first_pair, &plan, NULL), MN_OK);
    assert_int_equal(plan.kind, MN_TRANSPORT_VERBS);
    assert_int_equal(plan.n_pairs, 1);
    assert_int_equal(plan.pairs[0].connector, 1);
    a.kind = MN_TRANSPORT_TCP;
    assert_int_equal(mn_plan_make(&a, &b, first_pair, &plan, NULL), MN_OK);
    assert_int_equal(plan.kind, MN_TRANSPORT_TCP);
    assert_string_equal(plan.why_tcp, ""); /* it was asked for */
    b.kind = MN_TRANSPORT_VERBS;
    assert_int_equal(mn_plan_make(&a, &b, first_pair, &plan, NULL), MN_ERR_CONFIG);
}

static void test_tcp_only_when_allowed(void **state)
{
    struct mn_side a, b;
    struct mn_plan plan;
    struct mn_diag diag;

    (void)state;
    two_cables(&a, &b);
    assert_int_equal(mn_plan_make(&a, &b, first_pair, &plan, NULL), MN_OK);
    assert_int_equal(plan.kind, MN_TRANSPORT_TCP);
    assert_string_equal(plan.why_tcp, ""); /* neither has RDMA: nothing to say */
    a.allow_tcp = b.allow_tcp = MN_TCP_ALLOWED;
    give_rdma(&a, 0, MN_RDMA_READY);
    assert_int_equal(mn_plan_make(&a, &b, first_pair, &plan, NULL), MN_OK);
    assert_non_null(strstr(plan.why_tcp, "b has no RDMA device"));
    assert_int_equal(plan.rdma_failed, 0);
    give_rdma(&a, 0, MN_RDMA_NONE);
    a.allow_tcp = b.allow_tcp = MN_TCP_AUTO;
    b.allow_tcp = MN_TCP_NEVER;
    assert_int_equal(mn_plan_make(&a, &b, first_pair, &plan, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "no RDMA between a and b"));
    assert_null(strstr(diag.text, "GID"));
    b.allow_tcp = MN_TCP_AUTO;
    /* There is RDMA, so TCP would be a step back nobody has agreed to. */
    give_rdma(&a, 0, MN_RDMA_READY);
    give_rdma(&b, 0, MN_RDMA_BROKEN);
    strcpy(b.rdma_text, "mlx5_0 port 1 has no GID for 10.0.1.2");
    strcpy(a.rdma_table, "  mlx5_3 port 1 gid 3  10.0.1.1\n");
    strcpy(b.rdma_table, "  mlx5_0 port 1 gid 0  fe80::1\n");
    assert_int_equal(mn_plan_make(&a, &b, first_pair, &plan, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, b.rdma_text));
    assert_non_null(strstr(diag.text, a.rdma_table));
    assert_non_null(strstr(diag.text, b.rdma_table));
    assert_non_null(strstr(diag.text, "allow_tcp"));
    a.allow_tcp = MN_TCP_ALLOWED;
    assert_int_equal(mn_plan_make(&a, &b, first_pair, &plan, NULL), MN_ERR_CONFIG);
    b.allow_tcp = MN_TCP_ALLOWED;
    assert_int_equal(mn_plan_make(&a, &b, first_pair, &plan, NULL), MN_OK);
    assert_int_equal(plan.kind, MN_TRANSPORT_TCP);
    assert_non_null(strstr(plan.why_tcp, b.rdma_text));
    assert_int_equal(plan.rdma_failed, 1);
    /* A routed peer has no cable for RDMA. */
    struct mn_pair routed = {MN_ROUTED, 0};
    assert_int_equal(mn_plan_make(&a, &b, routed, &plan, NULL), MN_OK);
    assert_int_equal(plan.n_pairs, 0);
    assert_int_equal(plan.kind, MN_TRANSPORT_TCP);
    a.allow_tcp = b.allow_tcp = MN_TCP_AUTO;
    assert_int_equal(mn_plan_make(&a, &b, routed, &plan, NULL), MN_OK);
    assert_string_equal(plan.why_tcp, ""); /* no cable's RDMA is passed over */
    b.reach = MN_REACH_DIRECT;
    assert_int_equal(mn_plan_make(&a, &b, routed, &plan, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "on b the setting transport.reach: direct forbids"));
    b.reach = MN_REACH_AUTO;
    a.allow_tcp = MN_TCP_NEVER;
    assert_int_equal(mn_plan_make(&a, &b, routed, &plan, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "on a the setting transport.allow_tcp: false"));
    a.allow_tcp = MN_TCP_AUTO;
    a.kind = MN_TRANSPORT_VERBS;
    assert_int_equal(mn_plan_make(&a, &b, routed, &plan, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "on a the setting transport.kind: verbs"));
}

/* In front of TCP, where both can and go by one mesh file; at a routed peer alone. */
static void test_the_relay_where_both_can(void **state)
{
    static const struct {
        enum mn_relay_able c, a;
        enum mn_reach reach;
        uint64_t mesh; /* the acceptor's; the connector's is 7 */
        int node;      /* the acceptor's; the connector's is 0 */
        enum mn_transport_kind kind;
        const char *why; /* in the error where reach is relay, and in why not */
    } rows[] = {
        {MN_RELAY_ABLE, MN_RELAY_ABLE, MN_REACH_AUTO, 7, 2, MN_TRANSPORT_RELAY, NULL},
        {MN_RELAY_OFF, MN_RELAY_ABLE, MN_REACH_AUTO, 7, 2, MN_TRANSPORT_TCP, "on a it is not"},
        {MN_RELAY_ABLE, MN_RELAY_KEYLESS, MN_REACH_AUTO, 7, 2, MN_TRANSPORT_TCP, "on b there is"},
        {MN_RELAY_LATELY, MN_RELAY_ABLE, MN_REACH_AUTO, 7, 2, MN_TRANSPORT_TCP, "on a it failed"},
        {MN_RELAY_ABLE, MN_RELAY_ABLE, MN_REACH_AUTO, 8, 2, MN_TRANSPORT_TCP, "different mesh"},
        {MN_RELAY_ABLE, MN_RELAY_ABLE, MN_REACH_AUTO, 7, 0, MN_TRANSPORT_TCP, "both are node a"},
        {MN_RELAY_ABLE, MN_RELAY_ABLE, MN_REACH_RELAY, 7, 2, MN_TRANSPORT_RELAY, NULL},
        {MN_RELAY_LATELY, MN_RELAY_ABLE, MN_REACH_RELAY, 7, 2, MN_TRANSPORT_RELAY, NULL},
        {MN_RELAY_ABLE, MN_RELAY_OFF, MN_REACH_RELAY, 7, 2, MN_TRANSPORT_AUTO, "on b it is not"},
        {MN_RELAY_KEYLESS, MN_RELAY_ABLE, MN_REACH_RELAY, 7, 2, MN_TRANSPORT_AUTO, "key_file"},
        {MN_RELAY_ABLE, MN_RELAY_ABLE, MN_REACH_RELAY, 8, 2, MN_TRANSPORT_AUTO, "meshnet push"},
    };
    const struct mn_pair routed = {MN_ROUTED, 0};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_side a, b;
        struct mn_plan plan;
        struct mn_diag diag = {.text = ""};
        char why[256];
        two_cables(&a, &b);
        a.relay = rows[i].c;
        b.relay = rows[i].a;
        b.reach = rows[i].reach;
        a.mesh = 7;
        b.mesh = rows[i].mesh;
        b.relay_node = rows[i].node;
        mn_plan_why_no_relay(&a, &b, why, sizeof why);
        assert_true(rows[i].why ? strstr(why, rows[i].why) != NULL : !why[0]);
        enum mn_err err = mn_plan_make(&a, &b, routed, &plan, &diag);
        assert_int_equal(err, rows[i].kind == MN_TRANSPORT_AUTO ? MN_ERR_CONFIG : MN_OK);
        if (err) {
            assert_non_null(strstr(diag.text, rows[i].why));
            assert_non_null(strstr(diag.text, "on b transport.reach: relay"));
            continue;
        }
        assert_int_equal(plan.kind, rows[i].kind);
        assert_int_equal(plan.n_pairs, 0);
        /* A cable is a cable. */
        assert_int_equal(mn_plan_make(&a, &b, first_pair, &plan, NULL), MN_OK);
        assert_int_equal(plan.kind, MN_TRANSPORT_TCP);
        assert_int_equal(plan.n_pairs, 2);
        /* What forbids TCP does not forbid the relay. */
        a.kind = MN_TRANSPORT_VERBS;
        assert_int_equal(mn_plan_make(&a, &b, routed, &plan, NULL),
                         rows[i].kind == MN_TRANSPORT_RELAY ? MN_OK : MN_ERR_CONFIG);
    }
}

/* Neighbours take the relay besides their cables where both want it and can; as the less willing
 * says. */
static void test_a_detour_is_what_both_want(void **state)
{
    static const struct {
        enum mn_detour c, a;
        enum mn_relay_able able;
        uint64_t node_id; /* the acceptor's; the connector's is 1 */
        enum mn_detour detour;
    } rows[] = {
        {MN_DETOUR_OFF, MN_DETOUR_OFF, MN_RELAY_ABLE, 2, MN_DETOUR_OFF},
        {MN_DETOUR_ON, MN_DETOUR_OFF, MN_RELAY_ABLE, 2, MN_DETOUR_OFF},
        {MN_DETOUR_SPARE, MN_DETOUR_ON, MN_RELAY_ABLE, 2, MN_DETOUR_SPARE},
        {MN_DETOUR_ON, MN_DETOUR_ON, MN_RELAY_ABLE, 2, MN_DETOUR_ON},
        {MN_DETOUR_ON, MN_DETOUR_ON, MN_RELAY_LATELY, 2, MN_DETOUR_OFF},
        {MN_DETOUR_ON, MN_DETOUR_ON, MN_RELAY_KEYLESS, 2, MN_DETOUR_OFF},
        {MN_DETOUR_ON, MN_DETOUR_ON, MN_RELAY_ABLE, 1, MN_DETOUR_OFF},
    };
    const struct mn_pair routed = {MN_ROUTED, 0};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_side a, b;
        struct mn_plan plan;
        two_cables(&a, &b);
        a.node_id = 1;
        b.node_id = rows[i].node_id;
        a.detour = rows[i].c;
        b.detour = rows[i].a;
        a.relay = rows[i].able;
        b.relay = MN_RELAY_ABLE;
        a.mesh = b.mesh = 7;
        b.relay_node = 2;
        assert_int_equal(mn_plan_make(&a, &b, first_pair, &plan, NULL), MN_OK);
        assert_int_equal(plan.detour, rows[i].detour);
        assert_int_equal(plan.kind, rows[i].detour ? MN_TRANSPORT_RELAY : MN_TRANSPORT_TCP);
        assert_int_equal(plan.n_pairs, a.node_id == b.node_id ? 1 : 2);
        /* Without a cable there is nothing to go besides. */
        if (!mn_plan_make(&a, &b, routed, &plan, NULL))
            assert_int_equal(plan.detour, MN_DETOUR_OFF);
    }
}

static void test_shared_ports_are_weighed(void **state)
{
    struct mn_side a, b;
    struct mn_plan plan;

    (void)state;
    two_cables(&a, &b);
    add(&a, "10.0.3.1/24", 2, 100000);
    add(&b, "10.0.3.2/24", 2, 100000);
    for (int i = 0; i < 3; i++) {
        give_rdma(&a, i, MN_RDMA_READY);
        give_rdma(&b, i, MN_RDMA_READY);
    }
    a.locals[0].group = a.locals[1].group = 1;
    assert_int_equal(mn_plan_make(&a, &b, first_pair, &plan, NULL), MN_OK);
    assert_int_equal(plan.n_pairs, 3);
    assert_int_equal(plan.weights[0], 50000);
    assert_int_equal(plan.weights[1], 50000);
    assert_int_equal(plan.weights[2], 100000);
    b.locals[2].speed_mbps = 50000;
    assert_int_equal(mn_plan_make(&a, &b, first_pair, &plan, NULL), MN_OK);
    assert_int_equal(plan.weights[2], 50000);
    a.locals[0].speed_mbps = a.locals[1].speed_mbps = b.locals[0].speed_mbps = 0;
    b.locals[1].speed_mbps = 0;
    assert_int_equal(mn_plan_make(&a, &b, first_pair, &plan, NULL), MN_OK);
    for (int i = 0; i < plan.n_pairs; i++)
        assert_int_not_equal(plan.weights[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_shared_cable),
        cmocka_unit_test(test_a_route_joins_what_no_subnet_does),
        cmocka_unit_test(test_both_netmasks_count),
        cmocka_unit_test(test_parallel_links_and_one_pair_a_nic),
        cmocka_unit_test(test_slow_network_beside_the_cables),
        cmocka_unit_test(test_same_host_uses_equal_addresses),
        cmocka_unit_test(test_both_ends_agree),
        cmocka_unit_test(test_rdma_where_both_ends_can),
        cmocka_unit_test(test_tcp_only_when_allowed),
        cmocka_unit_test(test_the_relay_where_both_can),
        cmocka_unit_test(test_a_detour_is_what_both_want),
        cmocka_unit_test(test_shared_ports_are_weighed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
