/* Cable or network: what each sign does to a host of a few NICs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "topo/mesh_file.h"

#define NICS 4

/* A NIC in a few words; speed 0 is unknown. */
struct card {
    const char *addr;
    long speed;
    int rdma, leased, hosts, wireless, to_default;
    const char *via; /* a gateway */
    int via_prefix;
    enum mn_nic_kind kind;
    enum mn_nic_role role;
};

#define CABLE(n)                                                                                   \
    {                                                                                              \
        .addr = "10.0." #n ".1/24", .speed = 200000, .rdma = 1                                     \
    }
#define LAN .addr = "192.0.2.11/24", .to_default = 1, .via = "192.0.2.1"

static const struct {
    const char *what;
    struct card cards[NICS];
    const char *roles; /* one letter a NIC: c cable, m management, k cable in spite of a sign */
    const char *why;   /* of the first m or k */
} rows[] = {
    {"cables alone", {CABLE(1), CABLE(2)}, "cc", NULL},
    {"an office network", {{LAN, .speed = 10000}, CABLE(1), CABLE(2)}, "mcc", "default route"},
    {"of unknown speed", {{LAN}, CABLE(1)}, "mc", "the default route by 192.0.2.1"},
    {"without a gateway's address",
     {{.addr = "192.0.2.11/24", .to_default = 1}, CABLE(1)},
     "mc",
     "the default route"},
    {"by IPv6 alone",
     {{.addr = "2001:db8::11/64", .to_default = 1, .via = "fe80::1"}, CABLE(1)},
     "mc",
     "fe80::1"},
    {"far slower", {{.addr = "192.0.2.11/24", .speed = 1000}, CABLE(1)}, "mc", "1 beside 200 Gb/s"},
    {"not far slower", {{.addr = "10.0.9.1/24", .speed = 100000}, CABLE(1)}, "cc", NULL},
    {"10G cables beside a 1G network",
     {{LAN, .speed = 1000},
      {.addr = "10.0.1.1/24", .speed = 10000},
      {.addr = "10.0.2.1/24", .speed = 10000}},
     "mcc",
     "default route"},
    {"10G cable beside a 10G network",
     {{LAN, .speed = 10000}, {.addr = "10.0.1.1/24", .speed = 10000}},
     "mc",
     "default route"},
    {"others in the subnet",
     {{.addr = "192.0.2.11/24", .speed = 200000, .rdma = 1, .hosts = 2}, CABLE(1)},
     "mc",
     "2 other hosts"},
    {"one other is the cable's end",
     {{.addr = "10.0.9.1/24", .speed = 200000, .rdma = 1, .hosts = 1}, CABLE(1)},
     "cc",
     NULL},
    {"a lease",
     {{.addr = "192.0.2.11/24", .speed = 200000, .rdma = 1, .leased = 1}, CABLE(1)},
     "mc",
     "a leased address"},
    {"a gateway to much",
     {{.addr = "192.0.2.11/24", .speed = 200000, .via = "192.0.2.1", .via_prefix = 8}, CABLE(1)},
     "mc",
     "a gateway, 192.0.2.1"},
    {"a gateway to another cable",
     {{.addr = "10.0.9.1/24", .speed = 200000, .rdma = 1, .via = "10.0.9.2", .via_prefix = 24},
      CABLE(1)},
     "cc",
     NULL},
    {"a gateway of a slower NIC",
     {{.addr = "192.0.2.11/24", .speed = 100000, .via = "192.0.2.1", .via_prefix = 24}, CABLE(1)},
     "mc",
     "a gateway"},
    {"wireless", {{.addr = "192.0.2.11/24", .wireless = 1}, CABLE(1)}, "mc", "wireless"},
    {"the default route is all there is",
     {{LAN, .speed = 10000}},
     "k",
     "there is no other network"},
    {"wired and wireless are all there is",
     {{LAN, .speed = 10000}, {LAN, .wireless = 1}},
     "km",
     "there is no other network"},
    {"a fabric beside the office: many hosts, but nothing else is there",
     {{LAN, .speed = 1000},
      {.addr = "10.1.0.1/16", .speed = 400000, .rdma = 1, .hosts = 31},
      {.addr = "10.2.0.1/16", .speed = 400000, .rdma = 1, .hosts = 31}},
     "mkk",
     "default route"},
    {"a fabric beside cables",
     {{.addr = "10.1.0.1/16", .speed = 200000, .rdma = 1, .hosts = 31}, CABLE(1)},
     "mc",
     "31 other hosts"},
    {"a cable that leads to the world",
     {{.addr = "10.0.9.1/24", .speed = 200000, .rdma = 1, .to_default = 1, .via = "10.0.9.2"},
      CABLE(1),
      {.addr = "192.0.2.11/24", .speed = 1000}},
     "kcm",
     "as fast as any"},
    {"the same without RDMA",
     {{.addr = "10.0.9.1/24", .speed = 10000, .to_default = 1, .via = "10.0.9.2"},
      {.addr = "192.0.2.11/24", .speed = 1000}},
     "km",
     "as fast as any"},
    {"but not with others there",
     {{.addr = "10.0.9.1/24",
       .speed = 200000,
       .rdma = 1,
       .hosts = 4,
       .to_default = 1,
       .via = "10.0.9.2"},
      CABLE(1)},
     "mc",
     "default route"},
    {"a subnet of two",
     {{.addr = "10.0.9.0/31", .speed = 10000, .to_default = 1, .via = "10.0.9.1", .leased = 1},
      {.addr = "10.0.1.1/24", .speed = 10000}},
     "kc",
     "room for one other"},
    {"Thunderbolt has two ends",
     {{LAN, .speed = 20000, .kind = MN_NIC_THUNDERBOLT}, {.addr = "10.0.1.1/24", .speed = 20000}},
     "kc",
     "room for one other"},
    {"no address counts for nothing",
     {{LAN, .speed = 1000}, {.addr = NULL, .speed = 200000, .rdma = 1}},
     "kc",
     "there is no other network"},
    {"what was said stays",
     {{LAN, .speed = 1000, .role = MN_ROLE_CABLE},
      {.addr = "10.0.1.1/24", .speed = 200000, .role = MN_ROLE_MANAGEMENT},
      CABLE(2)},
     "cmc",
     NULL},
};

static void build(const struct card *cards, struct mn_nic *nics, struct mn_addr *addrs,
                  struct mn_host *host)
{
    memset(nics, 0, NICS * sizeof *nics);
    *host = (struct mn_host){.hostname = "a", .nics = nics};
    for (size_t i = 0; i < NICS && (cards[i].addr || cards[i].speed); i++) {
        struct mn_nic *nic = &nics[host->n_nics++];
        snprintf(nic->netdev, sizeof nic->netdev, "n%zu", i);
        nic->kind = cards[i].kind;
        nic->speed_mbps = cards[i].speed;
        nic->rdma = cards[i].rdma ? (int)i : -1;
        nic->leased = cards[i].leased;
        nic->hosts = cards[i].hosts;
        nic->wireless = cards[i].wireless;
        nic->default_route = cards[i].to_default;
        nic->gateway_prefix = cards[i].via_prefix;
        nic->role = cards[i].role;
        if (cards[i].via)
            assert_int_equal(mn_addr_parse(cards[i].via, &nic->gateway, NULL), MN_OK);
        if (!cards[i].addr)
            continue;
        assert_int_equal(mn_addr_parse(cards[i].addr, &addrs[i], NULL), MN_OK);
        nic->addrs = &addrs[i];
        nic->n_addrs = 1;
    }
}

static char letter(const struct mn_nic *nic, const char **why)
{
    if (nic->role_why[0] && !*why)
        *why = nic->role_why;
    return nic->role == MN_ROLE_MANAGEMENT ? 'm' : strstr(nic->role_why, "; but") ? 'k' : 'c';
}

static void each_sign_is_weighed(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct mn_nic nics[NICS];
        struct mn_addr addrs[NICS];
        struct mn_host host;
        char roles[NICS + 1] = "";
        const char *why = NULL;
        build(rows[r].cards, nics, addrs, &host);
        mn_mesh_roles(&host, NULL, "a");
        for (size_t i = 0; i < host.n_nics; i++)
            roles[i] = letter(&nics[i], &why);
        if (strcmp(roles, rows[r].roles) != 0 ||
            (rows[r].why && (!why || !strstr(why, rows[r].why))))
            fail_msg("%s: %s (%s), expected %s (%s)", rows[r].what, roles, why ? why : "",
                     rows[r].roles, rows[r].why ? rows[r].why : "");
    }
}

static void the_mesh_knows_gateways_and_roles(void **state)
{
    static const struct card cards[NICS] =
        {{.addr = "10.0.9.1/24", .speed = 10000, .to_default = 1, .via = "10.0.9.2"},
         {.addr = "10.0.1.1/24", .speed = 10000},
         {.addr = "10.0.2.1/24", .speed = 10000}};
    static const char text[] =
        "version: 1\nnodes:\n"
        "  - {name: a, nics: [{netdev: n2, role: management, addresses: [10.0.2.1/24]}]}\n"
        "  - {name: b, nics: [{netdev: x, %saddresses: [10.0.9.2/24]}]}\n";
    (void)state;
    for (int management = 0; management < 2; management++) {
        struct mn_nic nics[NICS];
        struct mn_addr addrs[NICS];
        struct mn_host host;
        struct mn_mesh mesh;
        struct mn_diag diag = {.text = ""};
        char yaml[400];
        snprintf(yaml, sizeof yaml, text, management ? "role: management, " : "");
        mn_mesh_init(&mesh);
        if (mn_mesh_parse("mesh", yaml, strlen(yaml), &mesh, &diag))
            fail_msg("%s", diag.text);
        build(cards, nics, addrs, &host);
        mn_mesh_roles(&host, &mesh, "a");
        assert_int_equal(nics[0].role, management ? MN_ROLE_MANAGEMENT : MN_ROLE_AUTO);
        assert_non_null(strstr(nics[0].role_why, management ? "10.0.9.2" : "is a node"));
        assert_int_equal(nics[2].role, MN_ROLE_MANAGEMENT);
        assert_string_equal(nics[2].role_why, "so says the mesh file");
        mn_mesh_free(&mesh);
    }
}

/* A gateway by which the file's routes lead is wanted. */
static void routes_are_for_data(void **state)
{
    static const struct card cards[NICS] = {{LAN, .speed = 10000}, CABLE(1)};
    static const char yaml[] = "version: 1\nnodes:\n"
                               "  - {name: a, nics: [{netdev: n0, addresses: [192.0.2.11/24]}]}\n"
                               "  - {name: b, nics: [{netdev: x, addresses: [198.51.100.1/24]}]}\n"
                               "routes: [{ends: [a/n0, b/x], via: router}]\n";
    struct mn_nic nics[NICS];
    struct mn_addr addrs[NICS];
    struct mn_host host;
    struct mn_mesh mesh;
    struct mn_diag diag = {.text = ""};
    (void)state;
    mn_mesh_init(&mesh);
    if (mn_mesh_parse("mesh", yaml, strlen(yaml), &mesh, &diag))
        fail_msg("%s", diag.text);
    build(cards, nics, addrs, &host);
    mn_mesh_roles(&host, &mesh, "a");
    assert_int_equal(nics[0].role, MN_ROLE_CABLE);
    mn_mesh_free(&mesh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sign_is_weighed),
        cmocka_unit_test(the_mesh_knows_gateways_and_roles),
        cmocka_unit_test(routes_are_for_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
