/* The mesh model: links, merging, shape, which node is this host, settings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"
#include "topo/mesh_setting.h"

static void parse(struct mn_mesh *mesh, const char *text)
{
    struct mn_diag diag = {0};
    mn_mesh_init(mesh);
    if (mn_mesh_parse("mesh", text, strlen(text), mesh, &diag))
        fail_msg("%s", diag.text);
}

#define NIC(netdev, addr) "{netdev: " netdev ", addresses: [" addr "]}"
#define NODE(name, nics)  "  - {name: " name ", nics: [" nics "]}\n"
#define MESH(nodes)       "version: 1\nnodes:\n" nodes

static void links_under_both_netmasks(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b, *subnet; /* subnet NULL = no link */
    } rows[] = {
        {"10.0.1.1/24", "10.0.1.2/24", "10.0.1.0/24"},
        {"10.0.1.1/30", "10.0.1.2/24", "10.0.1.0/24"},
        {"10.0.1.1/30", "10.0.1.5/24", NULL},
        {"10.0.1.5/24", "10.0.1.1/30", NULL},
        {"10.0.1.0/31", "10.0.1.1/31", "10.0.1.0/31"},
        {"10.0.1.1/32", "10.0.1.2/32", NULL},
        {"fd00::1/64", "fd00::2/120", "fd00::/64"},
        {"fe80::1/64", "fe80::2/64", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_mesh mesh;
        char buf[MN_ADDR_TEXT];
        char *text =
            mn_asprintf(MESH(NODE("a", NIC("eth0", "\"%s\"")) NODE("b", NIC("eth0", "\"%s\""))),
                        rows[i].a, rows[i].b);
        parse(&mesh, text);
        free(text);
        assert_int_equal(mesh.n_links, rows[i].subnet != NULL);
        if (rows[i].subnet)
            assert_string_equal(mn_addr_format(&mesh.links[0].subnet, buf, sizeof buf),
                                rows[i].subnet);
        mn_mesh_free(&mesh);
    }
}

#define TWO_LINKS                                                                                  \
    MESH(NODE("a", NIC("p0", "10.0.1.1/24") ", " NIC("p1", "10.0.2.1/24"))                         \
             NODE("b", NIC("p0", "10.0.1.2/24") ", " NIC("p1", "10.0.2.2/24")))

static void parallel_links_have_names(void **state)
{
    (void)state;
    struct mn_mesh mesh;
    parse(&mesh, TWO_LINKS);
    assert_int_equal(mesh.n_links, 2);
    assert_string_equal(mesh.links[0].name, "a-b");
    assert_string_equal(mesh.links[1].name, "a-b-2");
    assert_string_equal(mn_mesh_shape(&mesh), "pair");
    mn_mesh_free(&mesh);

    /* A default name gives way to one that was chosen. */
    parse(&mesh, TWO_LINKS "links:\n  - ends: [a/p0, b/p0]\n  - {name: a-b, ends: [a/p1, b/p1]}\n");
    assert_string_equal(mesh.links[0].name, "a-b-2");
    assert_string_equal(mesh.links[1].name, "a-b");
    mn_mesh_free(&mesh);
}

/* What has become management is no link, and its number is not missed. */
static void management_is_no_link(void **state)
{
    (void)state;
    struct mn_mesh mesh, other;
    struct mn_diag diag = {0};
    parse(&mesh,
          MESH(NODE("a",
                    NIC("lan",
                        "192.0.2.1/24") ", " NIC("p0", "10.0.1.1/24") ", " NIC("p1", "10.0.2.1/24"))
                   NODE("b", NIC("lan", "192.0.2.2/24") ", " NIC("p0", "10.0.1.2/24") ", " NIC(
                                 "p1", "10.0.2.2/24"))));
    assert_int_equal(mesh.n_links, 3);
    assert_string_equal(mesh.links[2].name, "a-b-3");
    parse(&other, MESH(NODE("b", "{netdev: lan, role: management, addresses: [192.0.2.2/24]}, " NIC(
                                     "p0", "10.0.1.2/24") ", " NIC("p1", "10.0.2.2/24"))));
    assert_int_equal(mn_mesh_merge(&mesh, &other, &diag), MN_OK);
    mn_mesh_free(&other);
    assert_int_equal(mesh.n_links, 2);
    assert_string_equal(mesh.links[0].name, "a-b");
    assert_int_equal(mesh.links[0].ends[0].nic, 1);
    assert_string_equal(mesh.links[1].name, "a-b-2");
    mn_mesh_free(&mesh);
}

static void long_names_are_cut_between_characters(void **state)
{
    (void)state;
    struct mn_mesh mesh;
    char *yaml;
    parse(&mesh, MESH(NODE("äöüäöüäöüäöüäöüäöüäöüäöüäöü", NIC("p0", "10.0.1.1/24"))
                          NODE("xäöüäöüäöüäöüäöüäöüäöüäöüäöü", NIC("p0", "10.0.1.2/24"))));
    assert_int_equal(mesh.n_links, 1);
    assert_int_equal(mn_mesh_format_yaml(&mesh, &yaml, NULL), MN_OK);
    assert_int_equal(mn_mesh_parse("again", yaml, strlen(yaml), &mesh, NULL), MN_OK);
    free(yaml);
    mn_mesh_free(&mesh);
}

static void merge_keeps_link_names(void **state)
{
    (void)state;
    struct mn_mesh mesh, other;
    struct mn_diag diag = {0};
    parse(&mesh, TWO_LINKS "links:\n  - {name: blue, ends: [a/p0, b/p0]}\n"
                           "  - {name: red, ends: [b/p1, a/p1]}\n");
    parse(&other, MESH(NODE("b", NIC("p9", "10.0.9.2/24") ", " NIC("p1", "10.0.2.2/24") ", " NIC(
                                     "p0", "10.0.1.2/24")) NODE("c", NIC("p0", "10.0.9.3/24"))));
    assert_int_equal(mn_mesh_merge(&mesh, &other, &diag), MN_OK);
    mn_mesh_free(&other);
    assert_int_equal(mesh.n_nodes, 3);
    assert_int_equal(mesh.n_links, 3);
    assert_string_equal(mesh.links[0].name, "blue");
    assert_int_equal(mesh.links[0].ends[1].nic, 2); /* b's NICs stand in another order now */
    assert_string_equal(mesh.links[1].name, "red");
    assert_string_equal(mesh.links[2].name, "b-c");
    assert_string_equal(mn_mesh_shape(&mesh), "line");

    parse(&other, MESH(NODE("d", NIC("p0", "10.0.1.2/24"))));
    assert_int_equal(mn_mesh_merge(&mesh, &other, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "address 10.0.1.2/24 is used twice, by d/p0"));
    mn_mesh_free(&other);
    mn_mesh_free(&mesh);
}

static void merge_refuses_too_many_nodes(void **state)
{
    (void)state;
    struct mn_mesh mesh, other;
    struct mn_diag diag = {0};
    char *text = NULL;
    size_t len;
    FILE *file = open_memstream(&text, &len);
    fputs("version: 1\nnodes:\n", file);
    for (int i = 0; i < MN_MESH_NODES_MAX; i++)
        fprintf(file, "  - name: n%d\n", i);
    fclose(file);
    parse(&mesh, text);
    free(text);
    parse(&other, MESH("  - name: n4095\n"));
    assert_int_equal(mn_mesh_merge(&mesh, &other, &diag), MN_OK);
    mn_mesh_free(&other);
    parse(&other, MESH("  - name: n4096\n"));
    assert_int_equal(mn_mesh_merge(&mesh, &other, &diag), MN_ERR_CONFIG);
    mn_mesh_free(&other);
    assert_non_null(strstr(diag.text, "node \"n4096\" is one too many"));
    mn_mesh_free(&mesh);
}

static void shapes(void **state)
{
    (void)state;
    /* Cables as pairs of node letters. */
    static const struct {
        int nodes;
        const char *cables, *shape;
    } rows[] = {
        {1, "", "single node"},
        {2, "ab", "pair"},
        {2, "ab ab", "pair"},
        {2, "", "partial mesh"},
        {3, "ab bc ac", "full mesh"},
        {3, "ab bc", "line"},
        {4, "ab bc cd da", "ring"},
        {4, "ab bc cd", "line"},
        {4, "ab ac ad", "star"},
        {4, "ab bc ca ad", "partial mesh"},
        {4, "ab cd", "partial mesh"},
        {6, "ab bc ca de ef fd", "partial mesh"},
        {4, "ab ac ad bc bd cd", "full mesh"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_mesh mesh;
        mn_mesh_init(&mesh);
        for (int n = 0; n < rows[i].nodes; n++) {
            struct mn_mesh_node *node =
                mn_grow((void **)&mesh.nodes, &mesh.n_nodes, sizeof *mesh.nodes);
            snprintf(node->name, sizeof node->name, "%c", 'a' + n);
        }
        for (const char *at = rows[i].cables; *at; at += at[2] ? 3 : 2) {
            struct mn_mesh_link *link =
                mn_grow((void **)&mesh.links, &mesh.n_links, sizeof *mesh.links);
            link->ends[0].node = at[0] - 'a';
            link->ends[1].node = at[1] - 'a';
        }
        assert_string_equal(mn_mesh_shape(&mesh), rows[i].shape);
        mn_mesh_free(&mesh);
    }
}

/* --- which node is this host ------------------------------------------------------------------ */

static struct mn_addr addr_of(const char *text)
{
    struct mn_addr addr;
    assert_int_equal(mn_addr_parse(text, &addr, NULL), MN_OK);
    return addr;
}

static void find_self_row(const char *hostname, uint8_t mac_last, const char *address, int node,
                          const char *why_part)
{
    struct mn_mesh mesh;
    struct mn_diag diag = {0};
    struct mn_addr addr = addr_of(address);
    struct mn_nic nic = {.netdev = "eth7", .has_mac = 1, .addrs = &addr, .n_addrs = 1, .rdma = -1};
    struct mn_host host = {.nics = &nic, .n_nics = 1};
    char why[256] = "";
    int found = 99;
    memcpy(nic.mac, (uint8_t[]){2, 0, 0, 0, 0, mac_last}, 6);
    mn_strlcpy(host.hostname, hostname, sizeof host.hostname);
    parse(&mesh, "version: 1\nnodes:\n"
                 "  - {name: a, hostname: spark-a.lab, nics: [{netdev: eth0, "
                 "mac: \"02:00:00:00:00:01\", addresses: [10.0.1.1/24]}]}\n"
                 "  - {name: b, nics: [{netdev: eth0, mac: \"02:00:00:00:00:02\", "
                 "addresses: [10.0.1.2/24]}]}\n"
                 "  - {name: twin1, hostname: twin}\n  - {name: twin2, hostname: twin}\n");
    enum mn_err err = mn_mesh_find_self(&mesh, &host, &found, why, sizeof why, &diag);
    assert_int_equal(err, node < 0 ? MN_ERR_CONFIG : MN_OK);
    assert_int_equal(found, node);
    if (!strstr(node < 0 ? diag.text : why, why_part))
        fail_msg("\"%s\" lacks \"%s\"", node < 0 ? diag.text : why, why_part);
    mn_mesh_free(&mesh);
}

static void find_self(void **state)
{
    (void)state;
    unsetenv("MESHNET_NODE");
    find_self_row("x", 1, "192.0.2.1/24", 0, "eth7 has the MAC 02:00:00:00:00:01 of its NIC eth0");
    find_self_row("b", 1, "10.0.1.2/24", 0, "MAC"); /* the MAC is asked first */
    find_self_row("a", 9, "10.0.1.2/24", 1, "eth7 has the address 10.0.1.2/24 of its NIC eth0");
    find_self_row("spark-a.lab", 9, "192.0.2.1/24", 0, "the host name is spark-a.lab");
    find_self_row("spark-a", 9, "192.0.2.1/24", 0, "without the domain");
    find_self_row("b.lab", 9, "192.0.2.1/24", 1, "without the domain");
    find_self_row("twin", 9, "192.0.2.1/24", -1,
                  "two nodes by host names: twin1 (the host name is twin) and twin2");
    find_self_row("x", 9, "192.0.2.1/24", -1, "matches any of a, b, twin1, twin2");
    setenv("MESHNET_NODE", "b", 1);
    find_self_row("a", 1, "10.0.1.1/24", 1, "MESHNET_NODE");
    setenv("MESHNET_NODE", "z", 1);
    find_self_row("a", 1, "10.0.1.1/24", -1, "MESHNET_NODE=\"z\" is no node of the mesh");
    unsetenv("MESHNET_NODE");
}

static void ambiguous_identity(void **state)
{
    (void)state;
    struct mn_mesh mesh;
    struct mn_diag diag = {0};
    struct mn_addr one = addr_of("10.0.1.1/24"), two = addr_of("10.0.1.2/24");
    struct mn_nic nics[2] = {{.netdev = "eth0", .addrs = &one, .n_addrs = 1, .rdma = -1},
                             {.netdev = "eth1", .addrs = &two, .n_addrs = 1, .rdma = -1}};
    struct mn_host host = {.hostname = "a", .nics = nics, .n_nics = 2};
    char why[64];
    int node;
    unsetenv("MESHNET_NODE");
    parse(&mesh, MESH(NODE("a", NIC("p0", "10.0.1.1/24")) NODE("b", NIC("p0", "10.0.1.2/24"))));
    assert_int_equal(mn_mesh_find_self(&mesh, &host, &node, why, sizeof why, &diag), MN_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "two nodes by IP addresses: a (eth0 has the address"));
    mn_mesh_free(&mesh);
}

/* --- from a host ------------------------------------------------------------------------------ */

static void add_host(void **state)
{
    (void)state;
    struct mn_addr addrs[] = {addr_of("fe80::1/64"),    addr_of("10.0.1.1/24"),
                              addr_of("10.0.2.1/24"),   addr_of("127.0.0.1/8"),
                              addr_of("172.17.0.1/16"), addr_of("10.9.9.9/32"),
                              addr_of("10.0.7.1/24"),   addr_of("10.0.8.1/24")};
    struct mn_gid gid = {.index = 3, .type = MN_GID_ROCE_V2, .addr = addrs[1]};
    struct mn_rdma_port port = {.device = "mlx5_0", .port = 1, .gids = &gid, .n_gids = 1};
    mn_strlcpy(port.link_layer, "Ethernet", sizeof port.link_layer);
    struct mn_nic nics[] = {
        {.netdev = "lo", .kind = MN_NIC_LOOPBACK, .addrs = &addrs[3], .n_addrs = 1, .rdma = -1},
        {.netdev = "p0",
         .addrs = addrs,
         .n_addrs = 2,
         .mtu = 9000,
         .speed_mbps = 200000,
         .has_mac = 1,
         .mac = {2, 0, 0, 0, 0, 1},
         .phys_port = "x",
         .rdma = 0},
        {.netdev = "p1", .addrs = &addrs[2], .n_addrs = 1, .phys_port = "x", .rdma = -1},
        {.netdev = "bare", .rdma = -1},
        {.netdev = "local", .addrs = addrs, .n_addrs = 1, .rdma = -1},
        {.netdev = "member", .addrs = &addrs[2], .n_addrs = 1, .master = "bond0", .rdma = -1},
        {.netdev = "docker0", .kind = MN_NIC_BRIDGE, .addrs = &addrs[4], .n_addrs = 1, .rdma = -1},
        {.netdev = "alone", .addrs = &addrs[5], .n_addrs = 1, .rdma = -1},
        {.netdev = "p0.7",
         .kind = MN_NIC_VLAN,
         .addrs = &addrs[6],
         .n_addrs = 1,
         .has_mac = 1,
         .mac = {2, 0, 0, 0, 0, 1},
         .rdma = -1},
        {.netdev = "bond0",
         .kind = MN_NIC_BOND,
         .addrs = &addrs[7],
         .n_addrs = 1,
         .has_mac = 1,
         .mac = {2, 0, 0, 0, 0, 9},
         .rdma = -1},
    };
    struct mn_host host = {.hostname = "spark-a",
                           .nics = nics,
                           .n_nics = 10,
                           .rdma = &port,
                           .n_rdma = 1};
    struct mn_mesh mesh;
    char *first, *second;
    mn_mesh_init(&mesh);
    assert_int_equal(mn_mesh_add_host(&mesh, &host, NULL), MN_OK);
    assert_int_equal(mn_mesh_format_yaml(&mesh, &first, NULL), MN_OK);
    assert_string_equal(first, "version: 1\n"
                               "nodes:\n"
                               "  - name: spark-a\n"
                               "    nics:\n"
                               "      - netdev: p0\n"
                               "        device: mlx5_0\n"
                               "        mac: \"02:00:00:00:00:01\"\n"
                               "        addresses: [10.0.1.1/24]\n"
                               "        gid: {index: 3, address: 10.0.1.1}\n"
                               "        speed: 200000\n"
                               "        mtu: 9000\n"
                               "        group: port0\n"
                               "      - netdev: p1\n"
                               "        addresses: [10.0.2.1/24]\n"
                               "        group: port0\n"
                               "      - netdev: p0.7\n"
                               "        addresses: [10.0.7.1/24]\n"
                               "      - netdev: bond0\n"
                               "        addresses: [10.0.8.1/24]\n");
    assert_int_equal(mn_mesh_add_host(&mesh, &host, NULL), MN_OK);
    assert_int_equal(mn_mesh_format_yaml(&mesh, &second, NULL), MN_OK);
    assert_string_equal(first, second);
    free(first);
    free(second);
    mn_mesh_free(&mesh);
}

/* --- settings --------------------------------------------------------------------------------- */

static void settings_rows(void **state)
{
    (void)state;
    struct mn_settings defaults, settings;
    char text[320], again[320];
    mn_settings_default(&defaults);
    assert_int_equal(defaults.allow_tcp, MN_TCP_AUTO);
    assert_int_equal(defaults.chunk_bytes, 256 * 1024);
    assert_int_equal(defaults.silence_ms, 60000);
    assert_int_equal(defaults.traffic_class, -1);
    for (const struct mn_setting *row = mn_setting_rows; row->section; row++) {
        settings = defaults;
        assert_true(mn_setting_set(row, row->def, &settings));
        assert_memory_equal(&settings, &defaults, sizeof settings);
        assert_false(mn_setting_changed(row, &settings));
        mn_setting_format(row, &settings, text, sizeof text);
        assert_true(mn_setting_set(row, text, &settings));
        assert_string_equal(mn_setting_format(row, &settings, again, sizeof again), text);
        assert_int_equal(strncmp(row->env, "MESHNET_", 8), 0);
    }
}

static void settings_from_env(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
        int good;
    } rows[] = {
        {"MESHNET_SILENCE", "30s", 1},          {"MESHNET_SILENCE", "1s", 0},
        {"MESHNET_SILENCE", "soon", 0},         {"MESHNET_SILENCE", "", 1},
        {"MESHNET_TRANSPORT", "tcp", 1},        {"MESHNET_TRANSPORT", "rdma", 0},
        {"MESHNET_DEVICE_MODE", "per-link", 1}, {"MESHNET_DEVICE_MODE", "per", 0},
        {"MESHNET_ALLOW_TCP", "0", 1},          {"MESHNET_ALLOW_TCP", "2", 0},
        {"MESHNET_CHUNK_BYTES", "64K", 1},      {"MESHNET_CHUNK_BYTES", "63K", 0},
        {"MESHNET_SOCKETS_PER_LINK", "8", 1},   {"MESHNET_SOCKETS_PER_LINK", "-1", 0},
        {"MESHNET_PORT_RANGE", "0-65535", 0},   {"MESHNET_PORT_RANGE", "20000-20009", 1},
        {"MESHNET_PORT_RANGE", "20000", 0},     {"MESHNET_PORT_RANGE", "20009-20000", 0},
        {"MESHNET_PORT_RANGE", "7-7", 1},       {"MESHNET_PORT_RANGE", "any", 1},
        {"MESHNET_PORT_RANGE", "9-65536", 0},   {"MESHNET_PORT_RANGE", "-", 0},
        {"MESHNET_KEY_FILE", "/k", 1},          {"MESHNET_KEY_FILE", "/k\n", 0},
        {"MESHNET_REACH", "relay", 1},          {"MESHNET_REACH", "relayd", 0},
        {"MESHNET_RELAY_PORT", "1", 1},         {"MESHNET_RELAY_PORT", "0", 0},
        {"MESHNET_RELAY_SILENCE", "1s", 1},     {"MESHNET_RELAY_SILENCE", "999ms", 0},
        {"MESHNET_RELAY_BUFFERS", "8M", 1},     {"MESHNET_RELAY_BUFFERS", "2049M", 0},
        {"MESHNET_RELAY_SOCKET", "/r", 1},      {"MESHNET_RELAY_SOCKET", "/\t", 0},
        {"MESHNET_RELAY_WAYS", "4", 1},         {"MESHNET_RELAY_WAYS", "5", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_settings settings;
        struct mn_diag diag = {0};
        mn_settings_default(&settings);
        setenv(rows[i].name, rows[i].value, 1);
        enum mn_err err = mn_settings_from_env(&settings, &diag);
        unsetenv(rows[i].name);
        assert_int_equal(err, rows[i].good ? MN_OK : MN_ERR_CONFIG);
        if (!rows[i].good)
            assert_non_null(strstr(diag.text, "expected"));
    }
    struct mn_settings settings;
    mn_settings_default(&settings);
    setenv("MESHNET_SILENCE", "30s", 1);
    setenv("MESHNET_DEVICE_MODE", "per-link", 1);
    assert_int_equal(mn_settings_from_env(&settings, NULL), MN_OK);
    unsetenv("MESHNET_SILENCE");
    unsetenv("MESHNET_DEVICE_MODE");
    assert_int_equal(settings.silence_ms, 30000);
    assert_int_equal(settings.device_mode, MN_DEVICE_PER_LINK);
    assert_int_equal(settings.connect_ms, 60000);
}

static void settings_from_nccl(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
        int what;
        size_t offset;
        int number;
    } rows[] = {
#define AT(field) offsetof(struct mn_settings, field)
        {"NCCL_IB_TC", "106", MN_NCCL_TAKEN, AT(traffic_class), 106},
        {"NCCL_IB_TC", "0x6a", MN_NCCL_TAKEN, AT(traffic_class), 106},
        {"NCCL_IB_TC", "010", MN_NCCL_TAKEN, AT(traffic_class), 8},
        {"NCCL_IB_TC", "256", MN_NCCL_WRONG, AT(traffic_class), -1},
        {"NCCL_IB_TC", "-1", MN_NCCL_WRONG, AT(traffic_class), -1},
        {"NCCL_IB_TC", "106 ", MN_NCCL_WRONG, AT(traffic_class), -1},
        {"NCCL_IB_TC", "", MN_NCCL_UNSET, AT(traffic_class), -1},
        {"NCCL_IB_FIFO_TC", "84", MN_NCCL_TAKEN, AT(announce_class), 84},
        {"NCCL_IB_FIFO_TC", "-1", MN_NCCL_TAKEN, AT(announce_class), -1},
        {"NCCL_IB_FIFO_TC", "256", MN_NCCL_WRONG, AT(announce_class), -1},
        {"NCCL_IB_SL", "15", MN_NCCL_TAKEN, AT(service_level), 15},
        {"NCCL_IB_SL", "16", MN_NCCL_WRONG, AT(service_level), 0},
        {"NCCL_IB_TIMEOUT", "22", MN_NCCL_TAKEN, AT(ack_timeout), 22},
        {"NCCL_IB_TIMEOUT", "23", MN_NCCL_WRONG, AT(ack_timeout), 0},
        {"NCCL_IB_TIMEOUT", "0", MN_NCCL_WRONG, AT(ack_timeout), 0},
        {"NCCL_IB_RETRY_CNT", "7", MN_NCCL_TAKEN, AT(ack_retries), 7},
        {"NCCL_IB_RETRY_CNT", "8", MN_NCCL_WRONG, AT(ack_retries), -1},
        {"NCCL_IB_PKEY", "3", MN_NCCL_TAKEN, AT(partition), 3},
        {"NCCL_IB_PKEY", "99999999999999999999", MN_NCCL_WRONG, AT(partition), 0},
        {"NCCL_IB_PCI_RELAXED_ORDERING", "0", MN_NCCL_TAKEN, AT(relaxed_ordering), 0},
        {"NCCL_IB_PCI_RELAXED_ORDERING", "1", MN_NCCL_TAKEN, AT(relaxed_ordering), 1},
        {"NCCL_IB_PCI_RELAXED_ORDERING", "3", MN_NCCL_WRONG, AT(relaxed_ordering), 2},
#undef AT
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        struct mn_settings settings;
        char text[256];
        int what, found = MN_NCCL_UNSET;
        mn_settings_default(&settings);
        setenv(rows[k].name, rows[k].value, 1);
        for (int i = 0; (what = mn_setting_from_nccl(i, 0, &settings, text, sizeof text)) >= 0; i++)
            if (what != MN_NCCL_UNSET) {
                found = what;
                assert_non_null(strstr(text, rows[k].name));
                assert_non_null(strstr(text, rows[k].value));
                assert_int_equal(what == MN_NCCL_WRONG, strstr(text, "expected") != NULL);
            }
        unsetenv(rows[k].name);
        assert_int_equal(found, rows[k].what);
        assert_int_equal(*(int *)((char *)&settings + rows[k].offset), rows[k].number);
    }
}

/* Our variables, the file, NCCL's, what is built in. */
static void nccl_is_below_the_file(void **state)
{
    (void)state;
    static const char file[] = "version: 1\nnodes: [{name: a}]\ntransport: {traffic_class: 40}\n";
    struct mn_mesh mesh;
    struct mn_diag diag = {0};
    char text[256];
    int what, taken = 0;
    mn_mesh_init(&mesh);
    if (mn_mesh_parse("mesh.yaml", file, strlen(file), &mesh, &diag))
        fail_msg("%s", diag.text);
    setenv("NCCL_IB_TC", "50", 1);
    setenv("NCCL_IB_SL", "3", 1);
    setenv("NCCL_IB_PKEY", "4", 1);
    setenv("MESHNET_PARTITION", "5", 1);
    for (int i = 0;
         (what = mn_setting_from_nccl(i, mesh.given, &mesh.settings, text, sizeof text)) >= 0;
         i++) {
        taken += what == MN_NCCL_TAKEN;
        if (strstr(text, "NCCL_IB_TC"))
            assert_string_equal(text,
                                "NCCL_IB_TC=50 is not used: the mesh file has traffic_class: 40");
        if (strstr(text, "NCCL_IB_PKEY"))
            assert_string_equal(text, "NCCL_IB_PKEY=4 is not used: MESHNET_PARTITION is set");
    }
    assert_int_equal(taken, 1);
    assert_int_equal(mn_settings_from_env(&mesh.settings, NULL), MN_OK);
    unsetenv("NCCL_IB_TC");
    unsetenv("NCCL_IB_SL");
    unsetenv("NCCL_IB_PKEY");
    unsetenv("MESHNET_PARTITION");
    assert_int_equal(mesh.settings.traffic_class, 40);
    assert_int_equal(mesh.settings.service_level, 3);
    assert_int_equal(mesh.settings.partition, 5);
    mn_mesh_free(&mesh);
}

/* Roff writes a minus as "\\-". */
static void strip_escapes(char *text)
{
    char *to = text;
    for (; *text; text++)
        if (*text != '\\')
            *to++ = *text;
    *to = '\0';
}

/* Each setting's paragraph begins with its key, and names default, range and variable. */
static void man_page_has_every_setting(void **state)
{
    (void)state;
    char *page, expected[128];
    assert_int_equal(mn_file_read(SOURCE_DIR "/docs/man/meshnet.yaml.5", 1 << 20, &page, NULL,
                                  NULL),
                     MN_OK);
    strip_escapes(page);
    for (const struct mn_setting *row = mn_setting_rows; row->section; row++) {
        char *section = mn_asprintf("\n.SS %s\n", row->section);
        char *heading = mn_asprintf("\n.TP\n.B %s\n", row->key);
        char *line = mn_asprintf("\nDefault: %s. Expected: %s. Variable: %s.\n",
                                 *row->def ? row->def : "none",
                                 mn_setting_expected(row, expected, sizeof expected), row->env);
        const char *from = strstr(page, section);
        const char *at = from ? strstr(from, heading) : NULL;
        const char *help = at ? strstr(at, row->help) : NULL;
        const char *facts = help ? strstr(help, line) : NULL;
        const char *next = at ? strstr(at + 1, "\n.TP\n") : NULL;
        if (!facts || (next && next < facts))
            fail_msg("docs/man/meshnet.yaml.5 lacks %s, \"%s\" or \"%s\"", row->key, row->help,
                     line + 1);
        free(section);
        free(heading);
        free(line);
    }
    free(page);
}

static void a_bare_cable_waits_for_addresses(void **state)
{
    static const char text[] = "version: 1\n"
                               "nodes:\n"
                               "  - {name: a, nics: [{netdev: p0}, {netdev: p1}]}\n"
                               "  - {name: b, nics: [{netdev: p0}, {netdev: p1}]}\n"
                               "links:\n"
                               "  - {name: left, ends: [a/p0, b/p1]}\n"
                               "  - {name: right, ends: [a/p1, b/p0]}\n";
    struct mn_mesh mesh;
    struct mn_addr addrs[2];
    (void)state;
    mn_mesh_init(&mesh);
    assert_int_equal(mn_mesh_parse("text", text, sizeof text - 1, &mesh, NULL), MN_OK);
    assert_int_equal(mesh.n_links, 2);
    assert_true(mn_link_is_bare(&mesh.links[0]) && mn_link_is_bare(&mesh.links[1]));
    assert_int_equal(mn_mesh_link_up(&mesh, NULL), MN_OK);
    assert_int_equal(mesh.n_links, 2);
    assert_int_equal(mn_addr_parse("10.0.0.0/31", &addrs[0], NULL), MN_OK);
    assert_int_equal(mn_addr_parse("10.0.0.1/31", &addrs[1], NULL), MN_OK);
    mesh.nodes[0].nics[0].addrs = &addrs[0];
    mesh.nodes[1].nics[1].addrs = &addrs[1];
    mesh.nodes[0].nics[0].n_addrs = mesh.nodes[1].nics[1].n_addrs = 1;
    assert_int_equal(mn_mesh_link_up(&mesh, NULL), MN_OK);
    assert_int_equal(mesh.n_links, 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(mn_link_is_bare(&mesh.links[i]), !strcmp(mesh.links[i].name, "right"));
    /* Numbered otherwise than it is cabled: the addresses are believed. */
    mesh.nodes[1].nics[1].n_addrs = 0;
    mesh.nodes[1].nics[0].addrs = &addrs[1];
    mesh.nodes[1].nics[0].n_addrs = 1;
    assert_int_equal(mn_mesh_link_up(&mesh, NULL), MN_OK);
    assert_int_equal(mesh.n_links, 1);
    mesh.nodes[0].nics[0].addrs = mesh.nodes[1].nics[0].addrs = mesh.nodes[1].nics[1].addrs = NULL;
    mesh.nodes[0].nics[0].n_addrs = mesh.nodes[1].nics[0].n_addrs = 0;
    mn_mesh_free(&mesh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_under_both_netmasks),
        cmocka_unit_test(parallel_links_have_names),
        cmocka_unit_test(management_is_no_link),
        cmocka_unit_test(long_names_are_cut_between_characters),
        cmocka_unit_test(merge_keeps_link_names),
        cmocka_unit_test(merge_refuses_too_many_nodes),
        cmocka_unit_test(shapes),
        cmocka_unit_test(find_self),
        cmocka_unit_test(ambiguous_identity),
        cmocka_unit_test(add_host),
        cmocka_unit_test(settings_rows),
        cmocka_unit_test(settings_from_env),
        cmocka_unit_test(settings_from_nccl),
        cmocka_unit_test(nccl_is_below_the_file),
        cmocka_unit_test(man_page_has_every_setting),
        cmocka_unit_test(a_bare_cable_waits_for_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
