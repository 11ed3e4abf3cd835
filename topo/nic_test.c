/* The host inventory over recorded hosts, exactly; over the real one, what must hold anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "topo/base/alloc.h"
#include "topo/nic_read.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct mn_host_source source(const char *name)
{
    static char sysfs[512], netlink[512];
    snprintf(sysfs, sizeof sysfs, "%s/tests/fixtures/%s/sys", SOURCE_DIR, name);
    snprintf(netlink, sizeof netlink, "%s/tests/fixtures/%s/netlink.json", SOURCE_DIR, name);
    return (struct mn_host_source){.sysfs = sysfs, .netlink = netlink};
}

static struct mn_host load(const char *name)
{
    struct mn_host_source src = source(name);
    struct mn_host host;
    struct mn_diag diag = {0};
    if (mn_host_read(&src, &host, &diag) != MN_OK || mn_host_locality(&src, &host, &diag) != MN_OK)
        fail_msg("%s: %s", name, diag.text);
    return host;
}

static void format_nic(const struct mn_host *host, const struct mn_nic *nic, char *buf, size_t size)
{
    FILE *file = fmemopen(buf, size, "w");
    char text[MN_ADDR_TEXT];
    fprintf(file, "%d %s %s %s mtu %d%s%s %ld%s", nic->ifindex, nic->netdev,
            mn_nic_kind_name(nic->kind), nic->driver[0] ? nic->driver : "-", nic->mtu,
            nic->admin_up ? " up" : "", nic->carrier ? " carrier" : "", nic->speed_mbps,
            nic->is_vf ? " vf" : "");
    if (nic->master[0])
        fprintf(file, " in %s", nic->master);
    if (nic->pci.path[0])
        fprintf(file, " %s x%d/%d %.1f/%.1f numa %d", nic->pci.address, nic->pci.width,
                nic->pci.max_width, nic->pci.speed, nic->pci.max_speed, nic->pci.numa);
    if (nic->phys_port[0])
        fprintf(file, " port %s", nic->phys_port);
    if (nic->rdma >= 0)
        fprintf(file, " %s/%d", host->rdma[nic->rdma].device, host->rdma[nic->rdma].port);
    if (nic->gpu[0])
        fprintf(file, " gpu %s", nic->gpu);
    for (size_t i = 0; i < nic->n_addrs; i++)
        fprintf(file, " %s", mn_addr_format(&nic->addrs[i], text, sizeof text));
    fclose(file);
}

static void format_port(const struct mn_rdma_port *port, char *buf, size_t size)
{
    FILE *file = fmemopen(buf, size, "w");
    fprintf(file, "%s/%d %s %s %s %s %ld x%d lid %d %s gids", port->device, port->port,
            port->netdev[0] ? port->netdev : "-", port->state, port->phys_state, port->link_layer,
            port->rate_mbps, port->active_width, port->lid,
            port->pci.address[0] ? port->pci.address : "-");
    for (size_t i = 0; i < port->n_gids; i++)
        fprintf(file, " %d", port->gids[i].index);
    fclose(file);
}

struct inventory {
    const char *fixture, *hostname;
    uint64_t memlock;
    const char *nics[10], *ports[6], *gpus[10];
};

static const struct inventory inventories[] = {
    {"dgx-spark",
     "spark-1",
     UINT64_MAX,
     {"1 lo loopback - mtu 65536 up carrier 0 127.0.0.1/8 ::1/128",
      "2 enP7s7 ethernet r8127 mtu 1500 up carrier 1000 0007:01:00.0 x1/1 16.0/16.0 numa -1 "
      "gpu 000f:01:00.0 192.0.2.11/24 fe80::4ebb:47ff:fe00:1/64",
      "3 enp1s0f0np0 ethernet mlx5_core mtu 9000 up carrier 200000 0000:01:00.0 x4/4 32.0/32.0 "
      "numa -1 port b03d6d00030a6630/p0 rocep1s0f0/1 gpu 000f:01:00.0 10.10.1.1/24 "
      "fe80::4ebb:47ff:fe00:10/64",
      "4 enp1s0f1np1 ethernet mlx5_core mtu 9000 up 0 0000:01:00.1 x4/4 32.0/32.0 numa -1 "
      "port b03d6d00030a6630/p1 rocep1s0f1/1 gpu 000f:01:00.0",
      "5 enP2p1s0f0np0 ethernet mlx5_core mtu 9000 up carrier 200000 0002:01:00.0 x4/4 32.0/32.0 "
      "numa -1 port b03d6d00030a6630/p0 roceP2p1s0f0/1 gpu 000f:01:00.0 10.10.2.1/24 "
      "fe80::4ebb:47ff:fe00:210/64",
      "6 enP2p1s0f1np1 ethernet mlx5_core mtu 9000 up 0 0002:01:00.1 x4/4 32.0/32.0 numa -1 "
      "port b03d6d00030a6630/p1 roceP2p1s0f1/1 gpu 000f:01:00.0",
      "7 docker0 bridge - mtu 1500 up 0 172.17.0.1/16"},
     {"roceP2p1s0f0/1 enP2p1s0f0np0 ACTIVE LinkUp Ethernet 200000 x2 lid 0 0002:01:00.0 gids 0 1 2 "
      "3",
      "roceP2p1s0f1/1 enP2p1s0f1np1 DOWN Disabled Ethernet 40000 x4 lid 0 0002:01:00.1 gids",
      "rocep1s0f0/1 enp1s0f0np0 ACTIVE LinkUp Ethernet 200000 x2 lid 0 0000:01:00.0 gids 0 1 2 3",
      "rocep1s0f1/1 enp1s0f1np1 DOWN Disabled Ethernet 40000 x4 lid 0 0000:01:00.1 gids"},
     {"000f:01:00.0 NVIDIA 2e12 -1"}},
    {"mlx5-vf-bond",
     "bond-1",
     64u << 20,
     {"1 lo loopback - mtu 65536 up carrier 0 127.0.0.1/8 ::1/128",
      "2 ens1f0np0 ethernet mlx5_core mtu 9000 up carrier 100000 in bond0 0000:3b:00.0 x16/16 "
      "16.0/16.0 numa 0 port 1000000003d3ebe8/p0 gpu 0000:3d:00.0",
      "3 ens1f1np1 ethernet mlx5_core mtu 9000 up carrier 100000 in bond0 0000:3b:00.1 x16/16 "
      "16.0/16.0 numa 0 port 1000000003d3ebe8/p1 gpu 0000:3d:00.0",
      "4 ens1f0v0 ethernet mlx5_core mtu 9000 up carrier 100000 vf 0000:3b:00.2 x16/16 16.0/16.0 "
      "numa 0 mlx5_2/1 gpu 0000:3d:00.0 10.0.5.1/30 fe80::eaeb:d3ff:fe00:20/64",
      "5 ens1f0v1 ethernet mlx5_core mtu 1500 up carrier 100000 vf 0000:3b:00.3 x16/16 16.0/16.0 "
      "numa 0 mlx5_3/1 gpu 0000:3d:00.0 10.0.6.0/31",
      "6 bond0 bond - mtu 9000 up carrier 200000 mlx5_bond_0/1 10.0.1.1/24 "
      "fe80::eaeb:d3ff:fe00:10/64",
      "7 bond0.100 vlan - mtu 9000 up carrier 200000 mlx5_bond_0/1 10.0.100.1/26 fd00:100::1/64 "
      "fe80::eaeb:d3ff:fe00:10/64"},
     {"mlx5_2/1 ens1f0v0 ACTIVE LinkUp Ethernet 100000 x4 lid 0 0000:3b:00.2 gids 0 1 2 3",
      "mlx5_3/1 ens1f0v1 ACTIVE LinkUp Ethernet 100000 x4 lid 0 0000:3b:00.3 gids 0 1",
      "mlx5_bond_0/1 bond0 ACTIVE LinkUp Ethernet 100000 x4 lid 0 0000:3b:00.0 gids 0 1 4 5 7 8 10 "
      "11 12"},
     {"0000:3d:00.0 NVIDIA 20b5 0", "0000:af:00.0 NVIDIA 20b5 1"}},
    {"irdma",
     "e810-1",
     UINT64_MAX,
     {"1 lo loopback - mtu 65536 up carrier 0 127.0.0.1/8 ::1/128",
      "2 ens2f0 ethernet ice mtu 9000 up carrier 100000 0000:18:00.0 x8/16 16.0/16.0 numa 0 "
      "rocep24s0f0/1 10.20.0.0/31 fd20::1/120 fe80::b696:91ff:fe00:0/64",
      "3 ens2f1 ethernet ice mtu 1500 up carrier 100000 0000:18:00.1 x8/16 16.0/16.0 numa 0 "
      "rocep24s0f1/1 10.20.1.1/31 fd20:1::1/120 fe80::b696:91ff:fe00:1/64"},
     {"rocep24s0f0/1 ens2f0 ACTIVE LinkUp Ethernet 100000 x4 lid 1 0000:18:00.0 gids 0 1 2",
      "rocep24s0f1/1 ens2f1 ACTIVE LinkUp Ethernet 100000 x4 lid 1 0000:18:00.1 gids 0 1 2"},
     {NULL}},
    {"thunderbolt",
     "nuc-1",
     8u << 20,
     {"1 lo loopback - mtu 65536 up carrier 0 127.0.0.1/8 ::1/128",
      "2 enp86s0 ethernet igc mtu 1500 up carrier 2500 0000:56:00.0 x1/1 5.0/5.0 numa -1 "
      "192.0.2.21/24",
      "3 thunderbolt0 thunderbolt thunderbolt-net mtu 65520 up carrier 40000 0000:00:0d.2 x0/0 "
      "0.0/0.0 numa -1 169.254.10.1/16 fe80::5a:8cff:fe00:0/64",
      "4 thunderbolt1 thunderbolt thunderbolt-net mtu 1500 0 0000:00:0d.3 x0/0 0.0/0.0 numa -1"},
     {NULL},
     {NULL}},
    {"soft-roce",
     "vm-1",
     64u << 10,
     {"1 lo loopback - mtu 65536 up carrier 0 127.0.0.1/8 ::1/128",
      "2 eth0 ethernet virtio_net mtu 4500 up carrier 0 0000:00:03.0 x0/0 0.0/0.0 numa -1 rxe0/1 "
      "10.30.0.1/24 fe80::5054:ff:fe00:1/64",
      "3 tun0 other - mtu 1420 up carrier 10 10.99.0.2/32"},
     {"rxe0/1 eth0 ACTIVE LinkUp Ethernet 2500 x1 lid 0 - gids 0 1"},
     {NULL}},
    {"mlx4-vpi",
     "vpi-1",
     UINT64_MAX,
     {"1 lo loopback - mtu 65536 up carrier 0 127.0.0.1/8 ::1/128",
      "2 ib0 infiniband mlx4_core mtu 2044 up carrier 56000 0000:05:00.0 x8/8 8.0/8.0 numa -1 "
      "mlx4_0/1 10.40.0.1/24",
      "3 enp5s0d1 ethernet mlx4_core mtu 1500 up 0 0000:05:00.0 x8/8 8.0/8.0 numa -1 mlx4_0/2"},
     {"mlx4_0/1 ib0 ACTIVE LinkUp InfiniBand 56000 x4 lid 7 0000:05:00.0 gids 0",
      "mlx4_0/2 enp5s0d1 DOWN Disabled Ethernet 10000 x4 lid 0 0000:05:00.0 gids"},
     {NULL}},
    {"hgx-h100",
     "hgx-1",
     UINT64_MAX,
     {"1 lo loopback - mtu 65536 up carrier 0 127.0.0.1/8",
      "2 enp26s0np0 ethernet mlx5_core mtu 9000 up carrier 400000 0000:1a:00.0 x16/16 "
      "32.0/32.0 numa 0 mlx5_0/1 gpu 0000:18:00.0 10.0.0.0/31",
      "3 enp27s0np0 ethernet mlx5_core mtu 9000 up carrier 400000 0000:1b:00.0 x16/16 "
      "32.0/32.0 numa 0 mlx5_1/1 gpu 0000:18:00.0 10.0.1.0/31",
      "4 enp77s0np0 ethernet mlx5_core mtu 9000 up carrier 400000 0000:4d:00.0 x16/16 "
      "32.0/32.0 numa 0 gpu 0000:4b:00.0 10.0.2.0/31",
      "5 enp78s0np0 ethernet mlx5_core mtu 9000 up carrier 400000 0000:4e:00.0 x16/16 "
      "32.0/32.0 numa 0 gpu 0000:4b:00.0 10.0.3.0/31",
      "6 enp156s0np0 ethernet mlx5_core mtu 9000 up carrier 400000 0000:9c:00.0 x16/16 "
      "32.0/32.0 numa 1 gpu 0000:9a:00.0 10.0.4.0/31",
      "7 enp157s0np0 ethernet mlx5_core mtu 9000 up carrier 400000 0000:9d:00.0 x16/16 "
      "32.0/32.0 numa 1 gpu 0000:9a:00.0 10.0.5.0/31",
      "8 enp204s0np0 ethernet mlx5_core mtu 9000 up carrier 400000 0000:cc:00.0 x16/16 "
      "32.0/32.0 numa 1 gpu 0000:ca:00.0 10.0.6.0/31",
      "9 enp205s0np0 ethernet mlx5_core mtu 9000 up carrier 400000 0000:cd:00.0 x16/16 "
      "32.0/32.0 numa 1 gpu 0000:ca:00.0 10.0.7.0/31"},
     {"mlx5_0/1 enp26s0np0 ACTIVE LinkUp Ethernet 400000 x4 lid 0 0000:1a:00.0 gids 2 3",
      "mlx5_1/1 enp27s0np0 ACTIVE LinkUp Ethernet 400000 x4 lid 0 0000:1b:00.0 gids 2 3"},
     {"0000:18:00.0 NVIDIA 2330 0", "0000:19:00.0 NVIDIA 2330 0", "0000:4b:00.0 NVIDIA 2330 0",
      "0000:4c:00.0 NVIDIA 2330 0", "0000:9a:00.0 NVIDIA 2330 1", "0000:9b:00.0 NVIDIA 2330 1",
      "0000:ca:00.0 NVIDIA 2330 1", "0000:cb:00.0 NVIDIA 2330 1"}},
    {"mi300x",
     "mi300x-1",
     UINT64_MAX,
     {"1 lo loopback - mtu 65536 up carrier 0 127.0.0.1/8",
      "2 enp27s0np0 ethernet bnxt_en mtu 9000 up carrier 400000 0000:1b:00.0 x16/16 "
      "32.0/32.0 numa 0 gpu 0000:1a:00.0 10.1.0.1/30",
      "3 enp61s0np0 ethernet bnxt_en mtu 9000 up carrier 400000 0000:3d:00.0 x16/16 "
      "32.0/32.0 numa 0 gpu 0000:3c:00.0 10.1.1.1/30",
      "4 enp78s0np0 ethernet bnxt_en mtu 9000 up carrier 400000 0000:4e:00.0 x16/16 "
      "32.0/32.0 numa 0 gpu 0000:4d:00.0 10.1.2.1/30",
      "5 enp95s0np0 ethernet bnxt_en mtu 9000 up carrier 400000 0000:5f:00.0 x16/16 "
      "32.0/32.0 numa 0 gpu 0000:5e:00.0 10.1.3.1/30",
      "6 enp157s0np0 ethernet bnxt_en mtu 9000 up carrier 400000 0000:9d:00.0 x16/16 "
      "32.0/32.0 numa 1 gpu 0000:9c:00.0 10.1.4.1/30",
      "7 enp189s0np0 ethernet bnxt_en mtu 9000 up carrier 400000 0000:bd:00.0 x16/16 "
      "32.0/32.0 numa 1 gpu 0000:bc:00.0 10.1.5.1/30",
      "8 enp205s0np0 ethernet bnxt_en mtu 9000 up carrier 400000 0000:cd:00.0 x16/16 "
      "32.0/32.0 numa 1 gpu 0000:cc:00.0 10.1.6.1/30",
      "9 enp221s0np0 ethernet bnxt_en mtu 9000 up carrier 400000 0000:dd:00.0 x16/16 "
      "32.0/32.0 numa 1 gpu 0000:dc:00.0 10.1.7.1/30"},
     {NULL},
     {"0000:1a:00.0 AMD Instinct MI300X OAM 0", "0000:3c:00.0 AMD Instinct MI300X OAM 0",
      "0000:4d:00.0 AMD Instinct MI300X OAM 0", "0000:5e:00.0 AMD Instinct MI300X OAM 0",
      "0000:9c:00.0 AMD Instinct MI300X OAM 1", "0000:bc:00.0 AMD Instinct MI300X OAM 1",
      "0000:cc:00.0 AMD Instinct MI300X OAM 1", "0000:dc:00.0 AMD Instinct MI300X OAM 1"}},
    {"strix-halo",
     "strix-1",
     UINT64_MAX,
     {"1 lo loopback - mtu 65536 up carrier 0 127.0.0.1/8",
      "2 enp191s0 ethernet r8169 mtu 1500 up carrier 2500 0000:bf:00.0 x1/1 5.0/5.0 numa -1 "
      "gpu 0000:c1:00.0 192.0.2.31/24",
      "3 thunderbolt0 thunderbolt thunderbolt-net mtu 65520 up carrier 40000 0000:c3:00.5 x0/0 "
      "0.0/0.0 numa -1 gpu 0000:c1:00.0 10.2.0.0/31"},
     {NULL},
     {"0000:c1:00.0 AMD 1586 -1"}},
};

static void inventories_are_exact(void **state)
{
    (void)state;
    char text[512];
    for (size_t i = 0; i < COUNT(inventories); i++) {
        const struct inventory *want = &inventories[i];
        struct mn_host host = load(want->fixture);
        assert_string_equal(host.hostname, want->hostname);
        assert_int_equal(host.memlock, want->memlock);
        for (size_t j = 0; j < host.n_nics; j++) {
            format_nic(&host, &host.nics[j], text, sizeof text);
            assert_non_null(want->nics[j]);
            assert_string_equal(text, want->nics[j]);
        }
        assert_null(want->nics[host.n_nics]);
        for (size_t j = 0; j < host.n_rdma; j++) {
            format_port(&host.rdma[j], text, sizeof text);
            assert_non_null(want->ports[j]);
            assert_string_equal(text, want->ports[j]);
        }
        assert_null(want->ports[host.n_rdma]);
        for (size_t j = 0; j < host.n_gpus; j++) {
            snprintf(text, sizeof text, "%s %s %d", host.gpus[j].address, host.gpus[j].name,
                     host.gpus[j].numa);
            assert_non_null(want->gpus[j]);
            assert_string_equal(text, want->gpus[j]);
        }
        assert_null(want->gpus[host.n_gpus]);
        mn_host_free(&host);
    }
}

/* "switch eth0 eth1" */
static void format_near(const struct mn_host *host, const struct mn_gpu *gpu, char *buf,
                        size_t size)
{
    const struct mn_nic *near[16];
    enum mn_pci_distance distance;
    assert_true(host->n_nics <= COUNT(near));
    size_t count = mn_gpu_nics(host, gpu, near, &distance);
    FILE *file = fmemopen(buf, size, "w");
    fprintf(file, "%s", mn_pci_distance_name(distance));
    for (size_t i = 0; i < count; i++)
        fprintf(file, " %s", near[i]->netdev);
    fclose(file);
}

static void gpus_know_their_nics(void **state)
{
    (void)state;
    static const struct {
        const char *fixture, *near[8]; /* in the order of the GPUs */
    } rows[] = {
        {"dgx-spark",
         {"across enP7s7 enp1s0f0np0 enp1s0f1np1 enP2p1s0f0np0 enP2p1s0f1np1"}}, /* numa -1 */
        {"mlx5-vf-bond",
         {"root ens1f0np0 ens1f1np1 ens1f0v0 ens1f0v1",
          "across ens1f0np0 ens1f1np1 ens1f0v0 ens1f0v1"}},
        {"hgx-h100",
         {"switch enp26s0np0 enp27s0np0", "switch enp26s0np0 enp27s0np0",
          "switch enp77s0np0 enp78s0np0", "switch enp77s0np0 enp78s0np0",
          "switch enp156s0np0 enp157s0np0", "switch enp156s0np0 enp157s0np0",
          "switch enp204s0np0 enp205s0np0", "switch enp204s0np0 enp205s0np0"}},
        {"mi300x",
         {"switch enp27s0np0", "switch enp61s0np0", "switch enp78s0np0", "switch enp95s0np0",
          "switch enp157s0np0", "switch enp189s0np0", "switch enp205s0np0", "switch enp221s0np0"}},
        {"strix-halo", {"root enp191s0 thunderbolt0"}},
    };
    char text[256];
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct mn_host host = load(rows[i].fixture);
        for (size_t j = 0; j < host.n_gpus; j++) {
            format_near(&host, &host.gpus[j], text, sizeof text);
            assert_non_null(rows[i].near[j]);
            assert_string_equal(text, rows[i].near[j]);
        }
        mn_host_free(&host);
    }
}

/* No GPU is nearer to a NIC than the one named as its nearest. */
static void nearest_gpu_agrees_with_distances(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(inventories); i++) {
        struct mn_host host = load(inventories[i].fixture);
        for (size_t n = 0; n < host.n_nics; n++) {
            const struct mn_nic *nic = &host.nics[n];
            enum mn_pci_distance best = MN_PCI_ACROSS, named = MN_PCI_ACROSS;
            for (size_t g = 0; g < host.n_gpus; g++) {
                enum mn_pci_distance far = mn_gpu_distance(&host.gpus[g], &nic->pci);
                best = far < best ? far : best;
                if (!strcmp(host.gpus[g].address, nic->gpu))
                    named = far;
            }
            assert_int_equal(named, best);
        }
        mn_host_free(&host);
    }
}

static void distances(void **state)
{
    (void)state;
    static const char gpu_path[] =
        "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0";
    static const struct {
        const char *path;
        int gpu_numa, numa;
        enum mn_pci_distance distance;
    } rows[] = {
        {"/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1a:00.0", 0, 0,
         MN_PCI_SWITCH},
        {"/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1a:00.0", 0, 1,
         MN_PCI_SWITCH},
        {"/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.1", -1, -1, MN_PCI_SWITCH},
        {"/sys/devices/pci0000:15/0000:15:01.1/0000:1a:00.0", 0, 0, MN_PCI_ROOT},
        {"/sys/devices/pci0000:15/0000:15:02.0", -1, -1, MN_PCI_ROOT},
        {"/sys/devices/pci0000:1/0000:1:02.0", -1, -1, MN_PCI_ACROSS}, /* a prefix is no part */
        {"/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0", 0, 0, MN_PCI_NUMA},
        {"/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0", 0, 1, MN_PCI_ACROSS},
        {"/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0", -1, -1, MN_PCI_ACROSS},
        {"/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0", -1, 0, MN_PCI_ACROSS},
        {"/sys/devices/platform/pcie@15/pci0000:15/0000:15:02.0", -1, -1, MN_PCI_ROOT},
        {"", 1, 1, MN_PCI_NUMA},
        {"", -1, -1, MN_PCI_ACROSS},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct mn_gpu gpu = {.numa = rows[i].gpu_numa};
        struct mn_pci pci = {.numa = rows[i].numa};
        mn_strlcpy(gpu.path, gpu_path, sizeof gpu.path);
        mn_strlcpy(pci.path, rows[i].path, sizeof pci.path);
        assert_int_equal(mn_gpu_distance(&gpu, &pci), rows[i].distance);
    }
}

static void device_attributes(void **state)
{
    (void)state;
    struct mn_host host = load("dgx-spark");
    const struct mn_nic *nic = mn_host_nic(&host, "enP2p1s0f0np0");
    assert_non_null(nic);
    const struct mn_rdma_port *port = &host.rdma[nic->rdma];
    assert_string_equal(port->fw_ver, "28.45.4028");
    assert_string_equal(port->hca_type, "MT4129");
    assert_string_equal(port->board_id, "NVD0000000087");
    assert_int_equal(port->node_guid, 0x4cbb470003000210);
    assert_int_equal(port->sys_image_guid, 0x4cbb470003000010);
    assert_int_equal(port->from_verbs, 0);
    assert_int_equal(port->max_qp, 0);
    assert_string_equal(port->pci.path, "/sys/devices/pci0002:00/0002:00:00.0/0002:01:00.0");
    static const uint8_t mac[6] = {0x4c, 0xbb, 0x47, 0, 2, 0x10};
    assert_true(nic->has_mac);
    assert_memory_equal(nic->mac, mac, sizeof mac);
    assert_false(mn_host_nic(&host, "lo")->has_mac);
    mn_host_free(&host);
}

static void gids_are_found_through_holes(void **state)
{
    (void)state;
    static const struct {
        const char *fixture, *netdev, *addr;
        int index; /* -1 = none */
        const char *gid_netdev;
    } rows[] = {
        {"dgx-spark", "enp1s0f0np0", "10.10.1.1", 3, "enp1s0f0np0"},
        {"dgx-spark", "enp1s0f0np0", "10.10.2.1", -1, NULL}, /* the twin's address */
        {"dgx-spark", "enp1s0f1np1", "10.10.1.1", -1, NULL}, /* empty table */
        {"mlx5-vf-bond", "bond0", "10.0.1.1", 5, "bond0"},
        {"mlx5-vf-bond", "bond0.100", "10.0.100.1", 10, "bond0.100"},
        {"mlx5-vf-bond", "bond0.100", "fd00:100::1", 12, "bond0.100"},
        {"mlx5-vf-bond", "ens1f0v0", "10.0.5.1", 3, "ens1f0v0"},
        {"mlx5-vf-bond", "ens1f0v1", "10.0.6.0", -1, NULL}, /* RoCE v1 only */
        {"mlx5-vf-bond", "bond0", "::", -1, NULL},          /* a hole is not the address :: */
        {"irdma", "ens2f1", "10.20.1.1", 1, "ens2f1"},
        {"irdma", "ens2f1", "fe80::b696:91ff:fe00:1", 0, "ens2f1"},
        {"soft-roce", "eth0", "10.30.0.1", 1, "eth0"},
        {"mlx4-vpi", "ib0", "10.40.0.1", 0, ""}, /* InfiniBand: the port's own GID */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct mn_host host = load(rows[i].fixture);
        const struct mn_nic *nic = mn_host_nic(&host, rows[i].netdev);
        struct mn_addr addr;
        assert_non_null(nic);
        assert_int_equal(mn_addr_parse(rows[i].addr, &addr, NULL), MN_OK);
        const struct mn_gid *gid = mn_rdma_gid_for(&host.rdma[nic->rdma], &addr);
        assert_int_equal(gid ? gid->index : -1, rows[i].index);
        if (gid) {
            assert_string_equal(gid->netdev, rows[i].gid_netdev);
            assert_true(gid->type == MN_GID_IB || gid->type == MN_GID_ROCE_V2);
        }
        mn_host_free(&host);
    }
}

static void lookups(void **state)
{
    (void)state;
    struct mn_host host = load("irdma");
    struct mn_addr addr, other;
    assert_int_equal(mn_addr_parse("10.20.1.1/24", &addr, NULL), MN_OK);
    assert_int_equal(mn_addr_parse("10.20.1.0", &other, NULL), MN_OK);
    assert_ptr_equal(mn_host_nic_by_addr(&host, &addr), mn_host_nic(&host, "ens2f1"));
    assert_null(mn_host_nic_by_addr(&host, &other));
    assert_null(mn_host_nic(&host, "ens2f"));
    mn_host_free(&host);
    assert_null(mn_host_nic(&host, "ens2f1"));
}

static void counters(void **state)
{
    (void)state;
    static const struct {
        const char *fixture, *netdev, *device;
        uint64_t rx, tx, rdma_rx, rdma_tx;
        enum mn_rdma_unit unit;
    } rows[] = {
        {"mlx5-vf-bond", "bond0", "mlx5_bond_0", 6000, 12000, 1000, 2000,
         MN_RDMA_BYTES},                                                           /* words of 4 */
        {"irdma", "ens2f0", "rocep24s0f0", 2000, 4000, 7070, 8080, MN_RDMA_BYTES}, /* v4 and v6 */
        {"soft-roce", "eth0", "rxe0", 2000, 4000, 5, 6, MN_RDMA_PACKETS},
        {"thunderbolt", "thunderbolt0", "", 3000, 6000, 0, 0, MN_RDMA_UNCOUNTED},
        {"thunderbolt", "thunderbolt0", NULL, 3000, 6000, 0, 0, MN_RDMA_UNCOUNTED},
    };
    struct mn_nic_counters got;
    struct mn_diag diag;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct mn_host_source src = source(rows[i].fixture);
        assert_int_equal(mn_nic_counters_read(&src, rows[i].netdev, rows[i].device, 1, &got, &diag),
                         MN_OK);
        assert_int_equal(got.rx_bytes, rows[i].rx);
        assert_int_equal(got.tx_bytes, rows[i].tx);
        assert_int_equal(got.rdma_rx, rows[i].rdma_rx);
        assert_int_equal(got.rdma_tx, rows[i].rdma_tx);
        assert_int_equal(got.rdma_unit, rows[i].unit);
    }
    struct mn_host_source src = source("irdma");
    assert_int_equal(mn_nic_counters_read(&src, "nosuch0", NULL, 1, &got, &diag), MN_ERR_NOTFOUND);
    assert_non_null(strstr(diag.text, "nosuch0"));
    assert_int_equal(mn_nic_counters_read(NULL, "nosuch0", NULL, 0, &got, &diag), MN_ERR_NOTFOUND);
    assert_non_null(strstr(diag.text, "nosuch0"));
}

static void decimals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } rows[] = {{"32.0 GT/s PCIe", 32},
                {"2.5 GT/s PCIe", 2.5},
                {"8 GT/s", 8},
                {"64.0 GT/s PCIe", 64},
                {"Unknown", 0},
                {"Unknown speed", 0},
                {"", 0},
                {"-1", 0},
                {".5", 0},
                {"200 Gb/sec (4X HDR)", 200}};
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_float_equal(mn_sysfs_decimal(rows[i].text), rows[i].value, 1e-9);
}

static int count_fds(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void real_host(void **state)
{
    (void)state;
    struct mn_diag diag = {0};
    int fds = 0;
    for (int round = 0; round < 3; round++) {
        struct mn_host host;
        if (mn_host_read(NULL, &host, &diag) != MN_OK ||
            mn_host_locality(NULL, &host, &diag) != MN_OK)
            fail_msg("%s", diag.text);
        const struct mn_nic *lo = mn_host_nic(&host, "lo");
        assert_non_null(lo);
        assert_int_equal(lo->kind, MN_NIC_LOOPBACK);
        assert_int_equal(lo->ifindex, 1);
        assert_true(lo->admin_up);
        struct mn_addr addr;
        assert_int_equal(mn_addr_parse("127.0.0.1", &addr, NULL), MN_OK);
        assert_ptr_equal(mn_host_nic_by_addr(&host, &addr), lo);
        assert_int_equal(lo->addrs[0].prefix, 8);
        for (size_t i = 0; i < host.n_nics; i++) {
            assert_int_equal(host.nics[i].ifindex, if_nametoindex(host.nics[i].netdev));
            assert_true(i == 0 || host.nics[i].ifindex > host.nics[i - 1].ifindex);
            assert_true(host.nics[i].rdma < (int)host.n_rdma);
        }
        assert_true(host.hostname[0] != '\0');
        assert_true(host.verbs[0] != '\0');
        mn_host_free(&host);
        /* The first round may open libraries; later ones must leave nothing open. */
        assert_true(round < 2 || count_fds() == fds);
        fds = count_fds();
    }
}

static void real_counters_move(void **state)
{
    (void)state;
    static const char data[4000];
    struct mn_nic_counters before, after;
    struct mn_diag diag;
    struct mn_addr addr;
    struct sockaddr_storage ss;
    assert_int_equal(mn_addr_parse("127.0.0.1", &addr, NULL), MN_OK);
    socklen_t len = mn_addr_sockaddr(&addr, 9, 0, &ss);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(mn_nic_counters_read(NULL, "lo", NULL, 0, &before, &diag), MN_OK);
    assert_int_equal(sendto(fd, data, sizeof data, 0, (struct sockaddr *)&ss, len), sizeof data);
    assert_int_equal(mn_nic_counters_read(NULL, "lo", NULL, 0, &after, &diag), MN_OK);
    assert_true(after.tx_bytes >= before.tx_bytes + sizeof data);
    assert_int_equal(after.rdma_unit, MN_RDMA_UNCOUNTED);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inventories_are_exact),
        cmocka_unit_test(gpus_know_their_nics),
        cmocka_unit_test(nearest_gpu_agrees_with_distances),
        cmocka_unit_test(distances),
        cmocka_unit_test(device_attributes),
        cmocka_unit_test(gids_are_found_through_holes),
        cmocka_unit_test(lookups),
        cmocka_unit_test(counters),
        cmocka_unit_test(decimals),
        cmocka_unit_test(real_host),
        cmocka_unit_test(real_counters_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
