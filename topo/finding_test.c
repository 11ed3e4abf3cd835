/* Hosts built by hand, one for each rule; every row of the table must be seen to fire. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "topo/finding.h"

#define NICS 4

/* A host with a good NIC or more; tests break what they are about. */
struct bench {
    struct mn_host host;
    struct mn_nic nics[NICS];
    struct mn_rdma_port rdma[NICS];
    struct mn_addr addrs[NICS];
    struct mn_gid gids[NICS];
};

static void address(struct bench *b, int i, const char *text)
{
    struct mn_diag diag;
    b->nics[i].n_addrs = 0;
    b->nics[i].addrs = &b->addrs[i];
    b->rdma[i].n_gids = 0;
    if (!text)
        return;
    assert_int_equal(mn_addr_parse(text, &b->addrs[i], &diag), MN_OK);
    b->nics[i].n_addrs = 1;
    b->gids[i] = (struct mn_gid){.index = 3, .type = MN_GID_ROCE_V2, .addr = b->addrs[i]};
    b->rdma[i].gids = &b->gids[i];
    b->rdma[i].n_gids = 1;
}

/* n NICs nic0…, each with RDMA device rdma0…, a Gen4 x16 slot, 100G, MTU 9000, 10.1.<i>.1/30. */
static void build(struct bench *b, int n)
{
    memset(b, 0, sizeof *b);
    for (int i = 0; i < n; i++) {
        struct mn_nic *nic = &b->nics[i];
        struct mn_rdma_port *port = &b->rdma[i];
        char text[32];
        snprintf(nic->netdev, sizeof nic->netdev, "nic%d", i);
        snprintf(nic->phys_port, sizeof nic->phys_port, "p%d", i);
        snprintf(nic->pci.address, sizeof nic->pci.address, "0000:%02x:00.0",
                 (unsigned)(i + 1) & 0xff);
        nic->kind = MN_NIC_ETHERNET;
        nic->mtu = 9000;
        nic->admin_up = nic->carrier = 1;
        nic->speed_mbps = 100000;
        nic->pci.speed = nic->pci.max_speed = 16;
        nic->pci.width = nic->pci.max_width = 16;
        nic->rdma = i;
        snprintf(port->device, sizeof port->device, "rdma%d", i);
        strcpy(port->netdev, nic->netdev);
        strcpy(port->state, "ACTIVE");
        strcpy(port->link_layer, "Ethernet");
        port->port = 1;
        port->active_mtu = 4096;
        snprintf(text, sizeof text, "10.1.%d.1/30", i);
        address(b, i, text);
    }
    b->host.nics = b->nics;
    b->host.n_nics = (size_t)n;
    b->host.rdma = b->rdma;
    b->host.n_rdma = (size_t)n;
    b->host.memlock = UINT64_MAX;
}

static size_t fired; /* bit a rule */

/* Exactly these ids, in order, separated by spaces. Returns the first finding in *first. */
static void expect(const struct bench *b, const char *ids, struct mn_finding *first)
{
    struct mn_findings found;
    char seen[512] = "";
    mn_findings_check(&b->host, NULL, &found);
    for (size_t i = 0; i < found.count; i++) {
        const struct mn_finding *f = &found.items[i];
        if (i > 0)
            strcat(seen, " ");
        strcat(seen, f->rule->id);
        fired |= (size_t)1 << (f->rule - mn_finding_rules);
        assert_true(f->nic[0] && f->seen[0] && f->expected[0] && f->fix[0]);
    }
    assert_string_equal(seen, ids);
    if (first)
        *first = found.items[0];
    mn_findings_free(&found);
}

static void test_good_host(void **state)
{
    struct bench b;
    (void)state;
    build(&b, 4);
    expect(&b, "", NULL);
}

static void test_link_down(void **state)
{
    struct bench b;
    struct mn_finding f;
    (void)state;
    build(&b, 1);
    b.nics[0].carrier = 0;
    expect(&b, "link-down", &f);
    assert_string_equal(f.nic, "nic0");
    assert_non_null(strstr(f.seen, "10.1.0.1/30"));
    assert_non_null(strstr(f.seen, "other end"));
    b.nics[0].admin_up = 0;
    expect(&b, "link-down", &f);
    assert_string_equal(f.fix, "ip link set dev nic0 up");
    address(&b, 0, NULL);
    expect(&b, "port-idle", &f);
    b.nics[0].is_vf = 1;
    expect(&b, "", NULL);
}

static void test_no_address(void **state)
{
    struct bench b;
    struct mn_finding f;
    (void)state;
    build(&b, 2);
    address(&b, 0, NULL);
    expect(&b, "no-address", &f);
    assert_non_null(strstr(f.seen, "no GID to send from yet"));
    assert_string_equal(f.fix, "ip address add 10.0.1.1/30 dev nic0   # other end: 10.0.1.2/30");
    /* Not a subnet that something here already uses, whatever its size. */
    address(&b, 1, "10.0.0.7/16");
    expect(&b, "no-address", &f);
    assert_non_null(strstr(f.fix, "add 10.1.0.1/30 dev nic0"));
    address(&b, 0, "fe80::1/64");
    b.rdma[0].n_gids = 0;
    expect(&b, "no-address", &f);
    assert_non_null(strstr(f.seen, "link-local"));
}

static void test_suggestions_differ(void **state)
{
    struct bench b;
    struct mn_findings found;
    (void)state;
    build(&b, 2);
    address(&b, 0, NULL);
    address(&b, 1, NULL);
    mn_findings_check(&b.host, NULL, &found);
    assert_int_equal(found.count, 2);
    assert_non_null(strstr(found.items[0].fix, "add 10.0.1.1/30 dev nic0"));
    assert_non_null(strstr(found.items[1].fix, "add 10.0.2.1/30 dev nic1"));
    mn_findings_free(&found);
}

static void test_subnets(void **state)
{
    struct bench b;
    struct mn_finding f;
    (void)state;
    build(&b, 2);
    address(&b, 1, "10.1.0.2/30");
    expect(&b, "same-subnet", &f);
    assert_string_equal(f.nic, "nic1");
    assert_non_null(strstr(f.seen, "nic0 (10.1.0.1/30)"));
    /* An office and a cable in one subnet: the cable's is to go, whichever comes first. */
    for (int office = 0; office < 2; office++) {
        b.nics[office].role = MN_ROLE_MANAGEMENT;
        expect(&b, "same-subnet", &f);
        assert_string_equal(f.nic, office ? "nic0" : "nic1");
        b.nics[office].role = MN_ROLE_AUTO;
    }
    b.nics[0].role = b.nics[1].role = MN_ROLE_MANAGEMENT;
    expect(&b, "", NULL);
    b.nics[0].role = b.nics[1].role = MN_ROLE_AUTO;
    address(&b, 1, "10.1.0.1/24");
    expect(&b, "duplicate-address", &f);
    assert_int_equal(f.rule->severity, MN_SEVERITY_ERROR);
    address(&b, 0, "fe80::1/64");
    address(&b, 1, "fe80::2/64");
    expect(&b, "no-address no-address", NULL);
    /* The real netmasks decide: neighbours of one /24 are two links when each is a /31. */
    address(&b, 0, "192.168.1.0/31");
    address(&b, 1, "192.168.1.2/31");
    expect(&b, "", NULL);
    /* One within the other; the wider one is to go, unless it is an office. */
    for (int wide = 0; wide < 2; wide++) {
        address(&b, wide, "192.168.1.4/24");
        address(&b, !wide, "192.168.1.0/31");
        expect(&b, "same-subnet", &f);
        assert_string_equal(f.nic, wide ? "nic1" : "nic0");
        assert_non_null(strstr(f.seen, "subnet of 192.168.1.4/24 overlaps that of nic"));
        b.nics[wide].role = MN_ROLE_MANAGEMENT;
        expect(&b, "", NULL);
        b.nics[wide].role = MN_ROLE_AUTO;
        address(&b, wide, "192.168.1.1/24");
        expect(&b, "same-subnet", &f);
        assert_non_null(strstr(f.seen, "shares a subnet"));
        address(&b, !wide, "192.168.1.7/32");
        expect(&b, "", NULL);
    }
}

static void test_peer_address(void **state)
{
    struct bench b;
    struct mn_finding f;
    struct mn_addr two[2];
    (void)state;
    build(&b, 2);
    address(&b, 0, "10.1.0.0/31");
    address(&b, 1, "10.1.0.1/32");
    expect(&b, "peer-address", &f);
    assert_string_equal(f.nic, "nic1");
    assert_string_equal(f.seen, "10.1.0.1/32 is the peer's in the subnet of nic0 (10.1.0.0/31)");
    assert_string_equal(f.fix, "ip address del 10.1.0.1/32 dev nic1");
    /* On loopback it is as bad; in a larger subnet it is somebody's address, why not this host's.
     */
    b.nics[1].kind = MN_NIC_LOOPBACK;
    b.nics[1].rdma = -1;
    expect(&b, "peer-address", NULL);
    address(&b, 0, "10.1.0.0/24");
    expect(&b, "", NULL);
    /* Both ends on one NIC. */
    build(&b, 1);
    mn_addr_parse("10.1.0.0/31", &two[0], NULL);
    mn_addr_parse("10.1.0.1/31", &two[1], NULL);
    b.nics[0].addrs = two;
    b.nics[0].n_addrs = 2;
    b.nics[0].rdma = -1;
    b.host.n_rdma = 0;
    expect(&b, "peer-address", &f);
    assert_string_equal(f.fix, "ip address del 10.1.0.1/31 dev nic0");
}

static void test_gid(void **state)
{
    struct bench b;
    struct mn_finding f;
    (void)state;
    build(&b, 1);
    b.gids[0].type = MN_GID_ROCE_V1;
    expect(&b, "gid-missing", &f);
    assert_non_null(strstr(f.seen, "RoCE v1 GID only"));
    b.gids[0].addr.bytes[3]++;
    expect(&b, "gid-missing", &f);
    assert_non_null(strstr(f.seen, "not in the GID table of rdma0"));
    b.rdma[0].n_gids = 0;
    expect(&b, "gid-missing", &f);
    assert_non_null(strstr(f.fix, "enable_roce"));
    strcpy(b.rdma[0].link_layer, "InfiniBand");
    expect(&b, "", NULL);
}

static void test_mtu(void **state)
{
    struct bench b;
    struct mn_finding f;
    (void)state;
    build(&b, 1);
    b.nics[0].mtu = 4200;
    expect(&b, "", NULL);
    b.nics[0].mtu = 4199;
    expect(&b, "mtu", &f);
    assert_non_null(strstr(f.seen, "MTU 4199"));
    assert_non_null(strstr(f.fix, "ip link set dev nic0 mtu 9000"));
    b.nics[0].rdma = -1; /* TCP does not mind */
    b.host.n_rdma = 0;
    expect(&b, "", NULL);
}

static void test_rdma_ports(void **state)
{
    struct bench b;
    struct mn_finding f;
    (void)state;
    build(&b, 1);
    strcpy(b.rdma[0].state, "DOWN");
    expect(&b, "rdma-inactive", NULL);
    strcpy(b.rdma[0].state, "INIT");
    strcpy(b.rdma[0].link_layer, "InfiniBand");
    b.rdma[0].node_guid = 0xabc0;
    expect(&b, "rdma-inactive", &f);
    assert_string_equal(f.fix, "opensm --guid 0x000000000000abc0 --daemon");
    build(&b, 1);
    b.nics[0].rdma = -1;
    b.rdma[0].netdev[0] = '\0';
    expect(&b, "rdma-no-netdev", &f);
    assert_string_equal(f.nic, "rdma0/1");
    strcpy(b.rdma[0].netdev, "elsewhere");
    expect(&b, "rdma-no-netdev", &f);
    assert_non_null(strstr(f.seen, "elsewhere is not in this network namespace"));
}

static void test_masters(void **state)
{
    struct bench b;
    struct mn_finding f;
    (void)state;
    build(&b, 2);
    b.nics[1].kind = MN_NIC_BOND;
    b.nics[1].rdma = -1;
    b.nics[1].pci = (struct mn_pci){0};
    b.host.n_rdma = 1;
    address(&b, 0, NULL);
    strcpy(b.nics[0].master, "nic1");
    expect(&b, "bonded", &f);
    assert_int_equal(f.rule->severity, MN_SEVERITY_NOTE);
    b.nics[1].kind = MN_NIC_BRIDGE;
    expect(&b, "bridged", &f);
    assert_string_equal(f.fix, "ip link set dev nic0 nomaster");
}

static void test_memlock(void **state)
{
    struct bench b;
    struct mn_finding f;
    (void)state;
    build(&b, 1);
    b.host.memlock = 8 << 20;
    expect(&b, "memlock", &f);
    assert_string_equal(f.nic, "host");
    assert_non_null(strstr(f.seen, "8M"));
    b.host.n_rdma = 0;
    b.nics[0].rdma = -1;
    expect(&b, "", NULL);
}

static void test_pcie_figures(void **state)
{
    char text[32];
    (void)state;
    assert_float_equal(mn_pci_gbps(2.5, 1), 2, 0.001);
    assert_float_equal(mn_pci_gbps(5, 8), 32, 0.001);
    assert_float_equal(mn_pci_gbps(8, 16), 126.03, 0.01);
    assert_float_equal(mn_pci_gbps(32, 4), 126.03, 0.01);
    assert_float_equal(mn_pci_gbps(64, 16), 968, 1);
    assert_float_equal(mn_pci_gbps(0, 16), 0, 0);
    assert_string_equal(mn_pci_format(32, 4, text, sizeof text), "5.0 x4");
    assert_string_equal(mn_pci_format(2.5, 1, text, sizeof text), "1.0 x1");
    assert_string_equal(mn_pci_format(0, 4, text, sizeof text), "");
}

static void test_pcie_slow(void **state)
{
    struct bench b;
    struct mn_finding f;
    (void)state;
    build(&b, 1);
    b.nics[0].pci.width = 4; /* 63 of 100 Gbit/s, of x16 it could have */
    expect(&b, "pcie-slow", &f);
    assert_string_equal(f.seen, "PCIe 4.0 x4 carries 63 Gb/s of the port's 100: 37 % lost");
    assert_non_null(strstr(f.expected, "PCIe 4.0 x16"));
    b.nics[0].pci.max_width = 4;
    expect(&b, "pcie-slow", &f);
    assert_non_null(strstr(f.expected, "the card itself does no more"));
    b.nics[0].is_vf = 1;
    expect(&b, "", NULL);
}

/* Two ports f0 and f1, each seen through the slots 0000:01:00 and 0002:01:00. */
static void build_spark(struct bench *b)
{
    static const char *const address_of[] = {"0000:01:00.0", "0000:01:00.1", "0002:01:00.0",
                                             "0002:01:00.1"};
    build(b, 4);
    for (int i = 0; i < 4; i++) {
        struct mn_nic *nic = &b->nics[i];
        strcpy(nic->pci.address, address_of[i]);
        snprintf(nic->phys_port, sizeof nic->phys_port, "p%d", i % 2);
        nic->speed_mbps = 200000;
        nic->pci.speed = nic->pci.max_speed = 32;
        nic->pci.width = nic->pci.max_width = 4;
    }
}

static void test_twins(void **state)
{
    struct bench b;
    struct mn_finding f;
    (void)state;
    build_spark(&b);
    b.nics[1].carrier = b.nics[3].carrier = 0;
    address(&b, 1, NULL);
    address(&b, 3, NULL);
    assert_ptr_equal(mn_nic_twin(&b.host, &b.nics[0]), &b.nics[2]);
    /* One cable: 2 x 126 Gbit/s serve 200; no wolf. */
    expect(&b, "port-idle port-idle", NULL);
    /* Its second half falls back to x2. */
    b.nics[2].pci.width = 2;
    expect(&b, "pcie-slow port-idle port-idle", &f);
    assert_string_equal(f.nic, "nic2");
    assert_string_equal(f.seen,
                        "PCIe 5.0 x2 with its twin carries 189 Gb/s of the port's 200: 5 % lost");
    b.nics[2].pci.width = 4;
    address(&b, 2, NULL);
    expect(&b, "half-port port-idle port-idle", &f);
    assert_string_equal(f.nic, "nic2");
    assert_string_equal(
        f.seen, "no address; its twin nic0 (10.1.0.1/30) alone carries 126 of the port's 200 Gb/s");
    address(&b, 2, "10.1.0.2/30");
    expect(&b, "same-subnet port-idle port-idle", &f);
    assert_non_null(strstr(f.seen, "its twin on the same port"));
}

static void test_shared_lanes(void **state)
{
    struct bench b;
    struct mn_finding f;
    (void)state;
    build_spark(&b); /* both cables in: 252 Gbit/s of lanes for 400 of ports */
    expect(&b, "pcie-shared", &f);
    assert_string_equal(f.seen, "nic0, nic1, nic2, nic3 share 252 Gb/s of PCIe");
    assert_string_equal(f.expected, "about 126 Gb/s a port when all 2 are busy");
}

static void test_relevant(void **state)
{
    struct bench b;
    (void)state;
    build(&b, 3);
    b.nics[0].kind = MN_NIC_LOOPBACK;
    assert_int_equal(mn_nic_is_relevant(&b.host, &b.nics[0]), 0);
    b.nics[0].kind = MN_NIC_VETH;
    assert_int_equal(mn_nic_is_relevant(&b.host, &b.nics[0]), 1);
    b.nics[1].kind = MN_NIC_BRIDGE;
    strcpy(b.nics[0].master, "nic1");
    assert_int_equal(mn_nic_is_relevant(&b.host, &b.nics[0]), 0);
    assert_int_equal(mn_nic_is_relevant(&b.host, &b.nics[1]), 0);
    strcpy(b.nics[2].master, "nic1"); /* a cable behind the bridge */
    assert_int_equal(mn_nic_is_relevant(&b.host, &b.nics[1]), 1);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < mn_finding_rule_count; i++) {
        const struct mn_finding_rule *rule = &mn_finding_rules[i];
        assert_true(rule->id && rule->title && rule->advice && rule->check);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(rule->id, mn_finding_rules[k].id);
        if (i > 0)
            assert_true(rule->severity <= mn_finding_rules[i - 1].severity);
        /* Those of the mesh file have a test of their own. */
        if (!(fired >> i & 1) && strncmp(rule->id, "file-", 5) != 0)
            fail_msg("no test made the rule %s fire", rule->id);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_host),    cmocka_unit_test(test_link_down),
        cmocka_unit_test(test_no_address),   cmocka_unit_test(test_suggestions_differ),
        cmocka_unit_test(test_subnets),      cmocka_unit_test(test_peer_address),
        cmocka_unit_test(test_gid),          cmocka_unit_test(test_mtu),
        cmocka_unit_test(test_rdma_ports),   cmocka_unit_test(test_masters),
        cmocka_unit_test(test_memlock),      cmocka_unit_test(test_pcie_figures),
        cmocka_unit_test(test_pcie_slow),    cmocka_unit_test(test_twins),
        cmocka_unit_test(test_shared_lanes), cmocka_unit_test(test_relevant),
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
