/* A recorded host set against the mesh file in force: each difference is a finding with the line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/finding.h"
#include "topo/mesh_file.h"

#define FROM SOURCE_DIR "/tests/fixtures/spark-lan-a/"

/* Lines 5, 7, 13 and 19 begin NICs. */
static const char file[] =
    "version: 1\n"
    "nodes:\n"
    "  - name: spark-1\n"
    "    nics:\n"
    "      - {netdev: enP7s7, role: management, addresses: [192.0.2.11/24],\n"
    "         speed: 1000, mtu: 1500}\n"
    "      - netdev: enp1s0f0np0\n"
    "        device: rocep1s0f0\n"
    "        mac: 4c:bb:47:10:00:10\n"
    "        addresses: [10.10.1.1/24]\n"
    "        gid: {index: 3, address: 10.10.1.1}\n"
    "        speed: 200000\n"
    "      - netdev: enP2p1s0f0np0\n"
    "        device: roceP2p1s0f0\n"
    "        mac: 4c:bb:47:10:02:10\n"
    "        addresses: [10.10.2.1/24]\n"
    "        gid: {index: 3, address: 10.10.2.1}\n"
    "        mtu: 9000\n"
    "      - {netdev: wlP9s9, role: management, addresses: [192.0.2.111/24]}\n"
    "  - name: spark-2\n"
    "    nics:\n"
    "      - {netdev: x, addresses: [10.10.1.2/24, 10.0.1.2/30]}\n";

struct scene {
    struct mn_host host;
    struct mn_mesh mesh;
    struct mn_findings found;
};

static size_t fired; /* bit a rule */

/* With the text "from" of the file replaced. */
static void begin(struct scene *s, const char *from, const char *to)
{
    const struct mn_host_source src = {.sysfs = FROM "sys", .netlink = FROM "netlink.json"};
    struct mn_diag diag = {.text = ""};
    const char *at = strstr(file, from);
    assert_non_null(at);
    char *text = mn_asprintf("%.*s%s%s", (int)(at - file), file, to, at + strlen(from));
    memset(s, 0, sizeof *s);
    mn_mesh_init(&s->mesh);
    if (mn_mesh_parse("mesh.yaml", text, strlen(text), &s->mesh, &diag) ||
        mn_host_read(&src, &s->host, &diag))
        fail_msg("%s", diag.text);
    free(text);
    mn_mesh_roles(&s->host, &s->mesh, "spark-1");
}

static struct mn_nic *nic_of(struct scene *s, const char *netdev)
{
    const struct mn_nic *nic = mn_host_nic(&s->host, netdev);
    assert_non_null(nic);
    return &s->host.nics[nic - s->host.nics];
}

/* The findings that are no notes of empty ports: exactly these "id line nic", separated by "; ". */
static const struct mn_finding *expect(struct scene *s, const char *wanted)
{
    const struct mn_in_force force = {&s->mesh, 0, "mesh.yaml"};
    const struct mn_finding *first = NULL;
    char seen[512] = "";
    size_t used = 0;
    mn_findings_check(&s->host, &force, &s->found);
    for (size_t i = 0; i < s->found.count; i++) {
        const struct mn_finding *f = &s->found.items[i];
        fired |= (size_t)1 << (f->rule - mn_finding_rules);
        assert_true(f->nic[0] && f->seen[0] && f->expected[0] && f->fix[0]);
        if (!strcmp(f->rule->id, "port-idle"))
            continue;
        first = first ? first : f;
        used += (size_t)snprintf(seen + used, sizeof seen - used, "%s%s %d %s", used ? "; " : "",
                                 f->rule->id, f->line, f->nic);
    }
    assert_string_equal(seen, wanted);
    return first;
}

static void end(struct scene *s)
{
    mn_findings_free(&s->found);
    mn_mesh_free(&s->mesh);
    mn_host_free(&s->host);
}

static void a_host_as_the_file_has_it(void **state)
{
    struct scene s;
    (void)state;
    begin(&s, "", "");
    expect(&s, "");
    end(&s);
}

/* What the file has instead, and what comes of it. */
static const struct {
    const char *from, *to, *findings, *seen, *expected, *fix;
} rows[] = {
    {"10.10.1.1/24]\n        gid: {index: 3, address: 10.10.1.1}", "10.10.1.7/24]",
     "file-address 7 enp1s0f0np0", "10.10.1.1/24", "10.10.1.7/24",
     "ip address add 10.10.1.7/24 dev enp1s0f0np0"},
    {"10.10.1.1/24", "10.10.1.1/30", "file-address 7 enp1s0f0np0", "10.10.1.1/24", "10.10.1.1/30",
     "ip address del 10.10.1.1/24 dev enp1s0f0np0 && ip address add 10.10.1.1/30 dev enp1s0f0np0"},
    {"device: rocep1s0f0", "device: mlx5_0", "file-device 7 enp1s0f0np0", "rocep1s0f0, port 1",
     "mlx5_0, port 1", "meshnet discover --output mesh.yaml --merge"},
    {"mtu: 9000", "mtu: 4200", "file-mtu 13 enP2p1s0f0np0", "MTU 9000", "MTU 4200",
     "ip link set dev enP2p1s0f0np0 mtu 4200"},
    {"speed: 200000", "speed: 400000", "file-speed 7 enp1s0f0np0", "200000 Mb/s", "400000 Mb/s",
     "ethtool enp1s0f0np0"},
    {"index: 3", "index: 5", "file-gid 7 enp1s0f0np0", "index 3 is the RoCE v2 GID of 10.10.1.1",
     "index 5", "--merge"},
    {"47:10:00:10", "47:10:00:77", "file-nic-other 7 enp1s0f0np0", "MAC 4c:bb:47:10:00:10",
     "enp1s0f0np0, MAC 4c:bb:47:10:00:77", "--merge"},
    {"netdev: enp1s0f0np0", "netdev: cable0", "file-nic-other 7 enp1s0f0np0",
     "the address of NIC cable0 is here", "netdev cable0", "--merge"},
    {"192.0.2.11/24", "192.0.2.99/24", "file-management 5 enP7s7", "192.0.2.11/24", "192.0.2.99/24",
     "--merge"},
    {"netdev: wlP9s9, role: management, addresses: [192.0.2.111/24]",
     "netdev: wlan7, role: management, addresses: [192.0.2.99/24]",
     "file-management 19 wlan7; file-nic-extra 3 wlP9s9", "no such netdev", "wlan7", "--merge"},
    {"      - {netdev: wlP9s9, role: management, addresses: [192.0.2.111/24]}\n", "",
     "file-nic-extra 3 wlP9s9", "192.0.2.111/24", "NIC of node spark-1", "--merge"},
    {"      - {netdev: wlP9s9",
     "      - {netdev: enp9, addresses: [10.10.9.1/24]}\n      - {netdev: wlP9s9",
     "file-nic-missing 19 enp9", "no such netdev, and none with its address",
     "NIC enp9 of node spark-1", "--merge"},
};

static void each_difference_has_its_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scene s;
        begin(&s, rows[i].from, rows[i].to);
        const struct mn_finding *f = expect(&s, rows[i].findings);
        if (!strstr(f->seen, rows[i].seen) || !strstr(f->expected, rows[i].expected) ||
            !strstr(f->fix, rows[i].fix))
            fail_msg("%s: seen %s, expected %s, fix %s", rows[i].findings, f->seen, f->expected,
                     f->fix);
        end(&s);
    }
}

static void a_missing_nic_may_have_another_name(void **state)
{
    struct scene s;
    (void)state;
    begin(&s, "", "");
    struct mn_nic *nic = nic_of(&s, "enp1s0f0np0");
    strcpy(nic->netdev, "eth9");
    strcpy(s.host.rdma[nic->rdma].netdev, "eth9");
    nic_of(&s, "eth9")->addrs[0].bytes[3] = 77;
    const struct mn_finding *f = expect(&s, "file-nic-missing 7 enp1s0f0np0; gid-missing 0 eth9; "
                                            "file-nic-extra 3 eth9");
    assert_non_null(strstr(f->seen, "its MAC is that of eth9"));
    end(&s);
}

/* The address comes from the file, or is one that no node of it has. */
static void the_file_knows_the_address(void **state)
{
    struct scene s;
    (void)state;
    begin(&s, "", "");
    nic_of(&s, "enp1s0f0np0")->n_addrs = 0;
    const struct mn_finding *f = expect(&s, "file-address 7 enp1s0f0np0; half-port 7 enp1s0f0np0");
    assert_string_equal(f->seen, "no address");
    assert_string_equal(f->fix, "ip address add 10.10.1.1/24 dev enp1s0f0np0");
    assert_non_null(strstr(f[1].fix, "ip address add 10.10.1.1/24 dev enp1s0f0np0"));
    end(&s);

    begin(&s, "", "");
    struct mn_nic *idle = nic_of(&s, "enp1s0f1np1");
    idle->carrier = 1;
    strcpy(s.host.rdma[idle->rdma].state, "ACTIVE");
    f = expect(&s, "no-address 0 enp1s0f1np1");
    assert_null(strstr(f->fix, "10.0.1."));
    assert_non_null(strstr(f->fix, "ip address add 10.0."));
    end(&s);

    /* On another NIC than the file's. */
    begin(&s, "", "");
    struct mn_nic *first = nic_of(&s, "enp1s0f0np0"), *second = nic_of(&s, "enP2p1s0f0np0");
    struct mn_addr *addrs = first->addrs;
    first->addrs = second->addrs;
    second->addrs = addrs;
    mn_findings_check(&s.host, &(struct mn_in_force){&s.mesh, 0, "mesh.yaml"}, &s.found);
    assert_string_equal(s.found.items[0].seen, "10.10.1.1/24 is on enP2p1s0f0np0");
    assert_string_equal(s.found.items[0].fix, "ip address del 10.10.1.1/24 dev enP2p1s0f0np0 && "
                                              "ip address add 10.10.1.1/24 dev enp1s0f0np0");
    end(&s);
}

static void every_rule_of_the_file_fires(void **state)
{
    int rules = 0;
    (void)state;
    for (size_t i = 0; i < mn_finding_rule_count; i++) {
        if (strncmp(mn_finding_rules[i].id, "file-", 5) != 0)
            continue;
        rules++;
        if (!(fired >> i & 1))
            fail_msg("no test made the rule %s fire", mn_finding_rules[i].id);
    }
    assert_int_equal(rules, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_as_the_file_has_it),
        cmocka_unit_test(each_difference_has_its_line),
        cmocka_unit_test(a_missing_nic_may_have_another_name),
        cmocka_unit_test(the_file_knows_the_address),
        cmocka_unit_test(every_rule_of_the_file_fires),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
