#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "plugin/config.h"
#include "plugin/far.h"
#include "plugin/patience.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"
#include "topo/mesh_sort.h"

/* A NIC chosen for use, before devices are formed. */
struct choice {
    const struct mn_nic *nic;
    const struct mn_mesh_nic *file; /* NULL without a mesh file */
};

struct selection {
    struct choice picks[MN_MAX_DEVICES];
    int n;
    int family; /* AF_UNSPEC, AF_INET, AF_INET6 */
};

/* Of NCCL's own transport people shorten this: they are told what it means here. */
static void say_patience(const struct mn_settings *s)
{
    struct mn_patience p = mn_patience(s);

    if (p.is_short)
        MN_WARN("ack_timeout %d and %d retries: an RDMA device gives a link up after about %.1f s, "
                "rdma_silence would be %u s; a cable pulled for longer ends its connections",
                p.timeout, p.retries, p.ms / 1000.0, s->rdma_silence_ms / 1000);
}

static void pick(struct selection *sel, const struct mn_nic *nic, const struct mn_mesh_nic *file,
                 const char *why)
{
    if (sel->n == MN_MAX_DEVICES) {
        MN_WARN("%s: left out, only %d NICs can be used", nic->netdev, MN_MAX_DEVICES);
        return;
    }
    sel->picks[sel->n].nic = nic;
    sel->picks[sel->n++].file = file;
    MN_INFO("using %s (%s, %ld Mb/s, mtu %d): %s", nic->netdev, mn_nic_kind_name(nic->kind),
            nic->speed_mbps, nic->mtu, why);
}

static enum mn_err select_from_file(struct selection *sel, const struct mn_mesh *mesh,
                                    const struct mn_host *host, struct mn_config *config, int *self,
                                    struct mn_diag *diag)
{
    char why[256];
    enum mn_err err = mn_mesh_find_self(mesh, host, self, why, sizeof why, diag);

    if (err)
        return err;
    const struct mn_mesh_node *node = &mesh->nodes[*self];
    mn_strlcpy(config->node, node->name, sizeof config->node);
    MN_INFO("this host is node %s: %s", node->name, why);
    char bare[MN_BARE_NAMES];
    if (mn_mesh_bare(mesh, *self, bare))
        MN_INFO("cables without addresses yet, over which nothing goes: %s; meshnet topo address "
                "gives them",
                bare);
    err = mn_routed_from_mesh(mesh, *self, &config->routes, diag);
    if (err)
        return err;
    for (size_t i = 0; i < node->n_nics; i++) {
        const struct mn_mesh_nic *want = &node->nics[i];
        if (want->role == MN_ROLE_MANAGEMENT) {
            MN_INFO("node %s, NIC %s: for management, no data goes over it", node->name,
                    want->name);
            continue;
        }
        const struct mn_nic *nic = mn_mesh_nic_on_host(host, want);
        if (!nic)
            MN_WARN("node %s, NIC %s: no netdev %s on this host and none with its address; check "
                    "the mesh file or the cable",
                    node->name, want->name, want->netdev);
        else if (!nic->admin_up)
            MN_WARN("node %s, NIC %s: netdev %s is down; bring it up: ip link set %s up",
                    node->name, want->name, nic->netdev, nic->netdev);
        else
            pick(sel, nic, want, "named by the mesh file");
    }
    if (!sel->n)
        return mn_fail(
            diag, MN_ERR_CONFIG,
            "the mesh file names node %s, but none of its %zu NICs is usable here (those "
            "with \"role: management\" carry no data)",
            node->name, node->n_nics);
    return MN_OK;
}

/* The netdevs behind the RDMA devices that NCCL_IB_HCA selects. */
static int hca_selects(const char *list, const struct mn_host *host, const struct mn_nic *nic)
{
    for (size_t i = 0; i < host->n_rdma; i++)
        if (!strcmp(host->rdma[i].netdev, nic->netdev) &&
            mn_selector_match(list, host->rdma[i].device, host->rdma[i].port))
            return 1;
    return 0;
}

static int usable(const struct mn_nic *nic)
{
    return nic->admin_up && nic->n_addrs > 0;
}

/* What discovery takes: cables. Bridges and virtual odds and ends carry the containers and tunnels
 * of the host; a bond's or bridge's members have no traffic of their own. */
static int looks_like_cable(const struct mn_nic *nic)
{
    return usable(nic) && nic->carrier && !nic->master[0] && nic->kind != MN_NIC_LOOPBACK &&
           nic->kind != MN_NIC_BRIDGE && nic->kind != MN_NIC_OTHER;
}

/* What shows to be a network of the host's, by the same signs as for meshnet discover: a default
 * route, a gateway, a lease, many hosts, far less speed. NCCL alone would send half the data there.
 * Where nothing else has a carrier, it has to do. */
static void select_discovered(struct selection *sel, struct mn_host *host)
{
    char out[512] = "";
    size_t used = 0;
    int known = !mn_mesh_roles(host, NULL, NULL);

    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        if (!looks_like_cable(nic))
            continue;
        if (!known || nic->role != MN_ROLE_MANAGEMENT)
            pick(sel, nic, NULL, "discovered: up, has carrier and an address");
        else if (used < sizeof out)
            used += (size_t)snprintf(out + used, sizeof out - used, "%s%s (%s)", used ? ", " : "",
                                     nic->netdev, nic->role_why);
    }
    if (sel->n && used)
        MN_INFO("left out, as it seems to be for management: %s; NCCL_SOCKET_IFNAME takes in the "
                "NICs that it names, and a mesh file says it for good (meshnet discover)",
                out);
    for (size_t i = 0; i < host->n_nics && !sel->n; i++)
        if (looks_like_cable(&host->nics[i]))
            pick(sel, &host->nics[i], NULL, "no other NIC has a carrier");
}

static void select_by_environment(struct selection *sel, struct mn_host *host)
{
    const char *ifname = getenv("NCCL_SOCKET_IFNAME");
    const char *hca = getenv("NCCL_IB_HCA");
    int by_name = ifname && *ifname, by_hca = !by_name && hca && *hca && host->n_rdma;

    if (!by_name && !by_hca)
        select_discovered(sel, host);
    for (size_t i = 0; (by_name || by_hca) && i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        if (by_name && usable(nic) && mn_selector_match(ifname, nic->netdev, -1))
            pick(sel, nic, NULL, "selected by NCCL_SOCKET_IFNAME");
        else if (by_hca && usable(nic) && hca_selects(hca, host, nic))
            pick(sel, nic, NULL, "selected by NCCL_IB_HCA");
    }
    if (sel->n || by_name || by_hca)
        return;
    for (size_t i = 0; i < host->n_nics; i++)
        if (host->nics[i].kind == MN_NIC_LOOPBACK && usable(&host->nics[i]))
            pick(sel, &host->nics[i], NULL, "no other NIC is up; peers on this host only");
}

static void name_rdma(struct mn_local *local, const struct choice *c, const struct mn_host *host)
{
    const struct mn_mesh_nic *file = c->file;

    local->rdma_port = 1;
    local->gid_index = -1;
    if (c->nic->rdma >= 0) {
        mn_strlcpy(local->rdma_device, host->rdma[c->nic->rdma].device, sizeof local->rdma_device);
        local->rdma_port = host->rdma[c->nic->rdma].port;
    }
    if (!file)
        return;
    if (file->device[0]) {
        mn_strlcpy(local->rdma_device, file->device, sizeof local->rdma_device);
        local->rdma_port = file->port;
    }
    if (file->gid_index >= 0 &&
        (!file->gid_addr.family || mn_addr_equal(&file->gid_addr, &local->addr)))
        local->gid_index = file->gid_index;
}

static int has_addr(const struct mn_nic *nic, const struct mn_addr *addr)
{
    for (size_t i = 0; i < nic->n_addrs; i++)
        if (mn_addr_equal(&nic->addrs[i], addr))
            return 1;
    return 0;
}

/* NICs of one group have the number of its first one, plus one. */
static uint8_t group_number(const struct selection *sel, const struct choice *c)
{
    for (int i = 0; c->file && c->file->group[0] && i < sel->n; i++)
        if (sel->picks[i].file && !strcmp(sel->picks[i].file->group, c->file->group))
            return (uint8_t)(i + 1);
    return 0;
}

static void add_locals(struct mn_device *dev, const struct selection *sel, const struct choice *c,
                       const struct mn_host *host)
{
    int nic_number = dev->n_locals ? dev->locals[dev->n_locals - 1].nic + 1 : 0;
    size_t count = c->file && c->file->n_addrs ? c->file->n_addrs : c->nic->n_addrs;
    const struct mn_addr *addrs = c->file && c->file->n_addrs ? c->file->addrs : c->nic->addrs;

    for (size_t i = 0; i < count; i++) {
        const struct mn_addr *addr = &addrs[i];
        char text[MN_ADDR_TEXT];
        /* Every fe80::/10 address is in everybody's subnet: it names no cable. */
        if ((sel->family && addr->family != sel->family) || mn_addr_is_link_local(addr))
            continue;
        if (c->file && !has_addr(c->nic, addr)) {
            MN_WARN("%s: address %s of the mesh file is not there (removed, or not configured "
                    "yet?); left out",
                    c->nic->netdev, mn_addr_format(addr, text, sizeof text));
            continue;
        }
        if (dev->n_locals == MN_MAX_LOCALS) {
            MN_WARN("%s: address %s left out, a device offers %d addresses", c->nic->netdev,
                    mn_addr_format(addr, text, sizeof text), MN_MAX_LOCALS);
            continue;
        }
        struct mn_local *local = &dev->locals[dev->n_locals++];
        local->addr = *addr;
        local->ifindex = (uint32_t)c->nic->ifindex;
        local->nic = (uint8_t)nic_number;
        local->speed_mbps =
            c->file && c->file->speed_mbps ? c->file->speed_mbps : c->nic->speed_mbps;
        mn_strlcpy(local->netdev, c->nic->netdev, sizeof local->netdev);
        name_rdma(local, c, host);
        local->group = group_number(sel, c);
        if (local->speed_mbps > dev->speed_mbps)
            dev->speed_mbps = local->speed_mbps;
    }
}

static void form_devices(struct mn_config *config, const struct selection *sel,
                         const struct mn_host *host)
{
    int per_link = config->settings.device_mode == MN_DEVICE_PER_LINK;

    for (int i = 0; i < sel->n; i++) {
        const struct choice *c = &sel->picks[i];
        if (per_link || i == 0) {
            struct mn_device *dev = &config->devices[config->n_devices++];
            memset(dev, 0, sizeof *dev);
            snprintf(dev->name, sizeof dev->name, "%s%s", per_link ? "mesh-" : "mesh0",
                     per_link ? c->nic->netdev : "");
            mn_strlcpy(dev->pci_path, c->nic->pci.path, sizeof dev->pci_path);
            dev->guid = config->node_id + (uint64_t)config->n_devices;
        }
        struct mn_device *dev = &config->devices[config->n_devices - 1];
        if (strcmp(dev->pci_path, c->nic->pci.path) && strcmp(c->nic->pci.path, "") &&
            dev->n_locals && c->nic->speed_mbps > dev->speed_mbps)
            mn_strlcpy(dev->pci_path, c->nic->pci.path, sizeof dev->pci_path);
        add_locals(dev, sel, c, host);
        if (per_link && !dev->n_locals) {
            MN_WARN("%s: no usable address, no device", c->nic->netdev);
            config->n_devices--;
        }
    }
    if (!per_link && config->n_devices && !config->devices[0].n_locals)
        config->n_devices = 0;
}

static enum mn_err read_family(struct selection *sel, struct mn_diag *diag)
{
    const char *text = getenv("NCCL_SOCKET_FAMILY");

    if (!text || !*text)
        return MN_OK;
    if (!strcasecmp(text, "AF_INET"))
        sel->family = AF_INET;
    else if (!strcasecmp(text, "AF_INET6"))
        sel->family = AF_INET6;
    else
        return mn_fail(diag, MN_ERR_CONFIG, "NCCL_SOCKET_FAMILY=%s: expected AF_INET or AF_INET6",
                       text);
    MN_INFO("NCCL_SOCKET_FAMILY=%s: other addresses are left out", text);
    return MN_OK;
}

static enum mn_err load_with_host(struct mn_config *config, struct mn_mesh *mesh,
                                  struct mn_host *host, struct mn_diag *diag)
{
    struct selection sel = {0};
    char path[512];
    int self = -1;
    enum mn_err err = read_family(&sel, diag);

    mn_strlcpy(config->node, host->hostname, sizeof config->node);
    config->node_id = mn_node_id("/proc", host->hostname);
    if (err)
        return err;
    if (mn_mesh_find_file(path, sizeof path)) {
        MN_INFO("mesh file %s", path);
        err = mn_mesh_read(path, mesh, diag);
        if (err)
            return err;
        config->settings = mesh->settings;
        mn_mesh_digest(mesh, path, &config->mesh);
    } else {
        MN_INFO("no mesh file: choosing NICs by environment and discovery");
        mn_settings_default(&config->settings);
    }
    mn_settings_from_nccl(&config->settings, mesh->given);
    err = mn_settings_from_env(&config->settings, diag);
    if (!err)
        say_patience(&config->settings);
    if (!err && mesh->n_nodes)
        err = select_from_file(&sel, mesh, host, config, &self, diag);
    else if (!err)
        select_by_environment(&sel, host);
    if (!err && config->settings.key_file[0]) {
        err = mn_key_read(config->settings.key_file, config->cluster_key, diag);
        config->has_key = !err;
    }
    if (err)
        return err;
    form_devices(config, &sel, host);
    char bare[MN_BARE_NAMES];
    if (!config->n_devices && mesh->n_nodes && mn_mesh_bare(mesh, self, bare))
        return mn_fail(diag, MN_ERR_CONFIG,
                       "the cables of node %s have no addresses, or this host has not: %s; meshnet "
                       "topo address gives them, meshnet topo apply sets them",
                       config->node, bare);
    if (!config->n_devices && mesh->n_nodes)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "none of the addresses that the mesh file gives node %s is on this host",
                       config->node);
    err = mn_far_choose(config, host, mesh, self, diag);
    if (err)
        return err;
    if (!config->n_devices)
        MN_WARN("no NIC with a usable address: offering no device (see meshnet discover)");
    return MN_OK;
}

/* Takes over what is in mesh. */
static enum mn_err keep_mesh(struct mn_config *config, struct mn_mesh *mesh, struct mn_diag *diag)
{
    struct mn_relay_own *own = calloc(1, sizeof *own);

    if (!own)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for the mesh");
    own->mesh = *mesh;
    mn_mesh_init(mesh);
    config->relay = own;
    if (mn_mesh_sort(&own->mesh, diag))
        return MN_ERR_NOMEM;
    own->node = mn_mesh_node_index(&own->mesh, config->node);
    own->digest = config->mesh.digest.hash;
    return MN_OK;
}

enum mn_err mn_config_from_host(struct mn_config *config, struct mn_host *host,
                                struct mn_diag *diag)
{
    struct mn_mesh mesh;

    memset(config, 0, sizeof *config);
    mn_mesh_init(&mesh);
    enum mn_err err = load_with_host(config, &mesh, host, diag);
    if (!err && mesh.n_nodes)
        err = keep_mesh(config, &mesh, diag);
    mn_mesh_free(&mesh);
    if (err)
        mn_config_free(config);
    return err;
}

void mn_config_free(struct mn_config *config)
{
    mn_wipe(config->cluster_key, sizeof config->cluster_key);
    if (config->relay)
        mn_mesh_free(&config->relay->mesh);
    free(config->relay);
    config->relay = NULL;
    free(config->beside);
    config->beside = NULL;
    config->n_beside = 0;
}

enum mn_err mn_config_load(struct mn_config *config, struct mn_diag *diag)
{
    struct mn_host host;

    memset(config, 0, sizeof *config);
    enum mn_err err = mn_host_read(NULL, &host, diag);
    if (!err)
        (void)mn_host_around(NULL, &host, NULL); /* without it no network is */
    if (!err)
        err = mn_config_from_host(config, &host, diag);
    mn_host_free(&host);
    return err;
}
