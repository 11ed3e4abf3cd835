/* GPUs of a node: from a host, and in a merge. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_file.h"
#include "topo/mesh_gpu.h"

static void parse(struct mn_mesh *mesh, const char *text)
{
    struct mn_diag diag = {0};
    mn_mesh_init(mesh);
    if (mn_mesh_parse("mesh", text, strlen(text), mesh, &diag))
        fail_msg("%s", diag.text);
}

static struct mn_addr addr_of(const char *text)
{
    struct mn_addr addr;
    assert_int_equal(mn_addr_parse(text, &addr, NULL), MN_OK);
    return addr;
}

static void pci_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *pci; /* NULL: none */
    } rows[] = {
        {"0000:1a:00.0", "0000:1a:00.0"},
        {"ABCD:EF:1F.7", "abcd:ef:1f.7"},
        {"", NULL},
        {"1a:00.0", NULL},
        {"0000:1a:00", NULL},
        {"0000:1a:00.0 ", NULL},
        {"0000:1a:00:0", NULL},
        {"0000:1a:20.0", NULL},
        {"0000:1a:00.8", NULL},
        {"000g:1a:00.0", NULL},
        {"10000:1a:00.0", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char pci[MN_PCI_TEXT];
        assert_int_equal(mn_mesh_pci(rows[i].text, pci), rows[i].pci != NULL);
        if (rows[i].pci)
            assert_string_equal(pci, rows[i].pci);
    }
}

#define BRIDGE "/sys/devices/pci0000:00/0000:00:01.0/"

static const char one_gpu_yaml[] = "version: 1\n"
                                   "nodes:\n"
                                   "  - name: a\n"
                                   "    nics:\n"
                                   "      - netdev: p0\n"
                                   "        addresses: [10.0.1.1/24]\n"
                                   "      - netdev: bond0\n"
                                   "        addresses: [10.0.2.1/24]\n"
                                   "      - netdev: p1\n"
                                   "        addresses: [10.0.3.1/24]\n"
                                   "    gpus:\n"
                                   "      - {pci: 0000:1a:00.0, nics: [p1], path: root}\n";

static void gpus_of_a_host(void **state)
{
    (void)state;
    struct mn_addr addrs[] = {addr_of("10.0.1.1/24"), addr_of("10.0.2.1/24"),
                              addr_of("10.0.3.1/24")};
    struct mn_nic nics[] = {
        /* the nearest one, but not in the mesh: it has no address */
        {.netdev = "bare", .pci.path = BRIDGE "0000:1b:00.0", .rdma = -1},
        {.netdev = "p0",
         .pci.path = "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0",
         .addrs = addrs,
         .n_addrs = 1,
         .rdma = -1},
        {.netdev = "bond0", .kind = MN_NIC_BOND, .addrs = &addrs[1], .n_addrs = 1, .rdma = -1},
        {.netdev = "p1",
         .pci.path = "/sys/devices/pci0000:00/0000:00:02.0/0000:2b:00.0",
         .addrs = &addrs[2],
         .n_addrs = 1,
         .rdma = -1},
    };
    struct mn_gpu gpus[17] = {{.address = "0000:1A:00.0", .path = BRIDGE "0000:1a:00.0"},
                              {.address = "10000:1c:00.0", .path = BRIDGE "0000:1c:00.0"}};
    struct mn_host host = {.hostname = "a", .nics = nics, .n_nics = 4, .gpus = gpus, .n_gpus = 2};
    struct mn_mesh mesh;
    char *yaml;
    mn_strlcpy(gpus[0].name, "\xff\x01", sizeof gpus[0].name); /* no text for a file */
    mn_mesh_init(&mesh);
    assert_int_equal(mn_mesh_add_host(&mesh, &host, NULL), MN_OK);
    assert_int_equal(mn_mesh_format_yaml(&mesh, &yaml, NULL), MN_OK);
    assert_string_equal(yaml, one_gpu_yaml);
    free(yaml);

    for (int i = 0; i < 17; i++)
        snprintf(gpus[i].address, sizeof gpus[i].address, "0000:%02x:00.0", (unsigned)i);
    host.n_gpus = 17;
    assert_int_equal(mn_mesh_add_host(&mesh, &host, NULL), MN_OK);
    assert_int_equal(mesh.n_nodes, 1);
    assert_int_equal(mesh.nodes[0].n_gpus, 16);

    host.n_nics = 1; /* no NIC in the mesh, no GPU */
    assert_int_equal(mn_mesh_add_host(&mesh, &host, NULL), MN_OK);
    assert_int_equal(mesh.nodes[0].n_gpus, 0);
    mn_mesh_free(&mesh);
}

static void merge_takes_gpus(void **state)
{
    (void)state;
    struct mn_mesh mesh, other;
    char *yaml;
    parse(&mesh, "version: 1\nnodes: [{name: a, nics: [{netdev: eth0}]}]\n");
    parse(&other, one_gpu_yaml);
    assert_int_equal(mn_mesh_merge(&mesh, &other, NULL), MN_OK);
    assert_int_equal(mn_mesh_merge(&mesh, &other, NULL), MN_OK); /* in place of itself */
    assert_int_not_equal(other.nodes[0].gpus[0].line, 0);
    mn_mesh_free(&other);
    assert_int_equal(mesh.nodes[0].gpus[0].line, 0);
    assert_int_equal(mn_mesh_format_yaml(&mesh, &yaml, NULL), MN_OK);
    assert_string_equal(yaml, one_gpu_yaml);
    free(yaml);

    parse(&other, "version: 1\nnodes: [{name: a, nics: [{netdev: p0}]}]\n");
    assert_int_equal(mn_mesh_merge(&mesh, &other, NULL), MN_OK);
    mn_mesh_free(&other);
    assert_int_equal(mesh.nodes[0].n_gpus, 0);
    mn_mesh_free(&mesh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pci_addresses),
        cmocka_unit_test(gpus_of_a_host),
        cmocka_unit_test(merge_takes_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
