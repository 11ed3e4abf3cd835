#include "topo/taken.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/base/log.h"
#include "topo/mesh_check.h"

void mn_taken_add(struct mn_takens *list, const struct mn_addr *net, enum mn_taken_how how,
                  const char *what, ...)
{
    struct mn_taken *taken = mn_grow((void **)&list->items, &list->count, sizeof *taken);
    va_list args;

    taken->net = *net;
    if (net->prefix < 0)
        taken->net.prefix = net->family == AF_INET ? 32 : 128;
    taken->net = mn_addr_network(&taken->net);
    taken->how = how;
    va_start(args, what);
    vsnprintf(taken->what, sizeof taken->what, what, args);
    va_end(args);
    mn_clean(taken->what);
}

enum mn_err mn_taken_add_text(struct mn_takens *list, const char *cidr, const char *what,
                              struct mn_diag *diag)
{
    struct mn_addr net;
    enum mn_err err = mn_addr_parse(cidr, &net, diag);

    if (!err)
        mn_taken_add(list, &net, MN_TAKEN_USED, "%s", what);
    return err;
}

void mn_takens_free(struct mn_takens *list)
{
    free(list->items);
    *list = (struct mn_takens){.items = NULL};
}

/* --- habits --------------------------------------------------------------------------------- */

void mn_taken_add_usual(struct mn_takens *list)
{
    static const struct {
        const char *net, *what;
    } usual[] = {
        {"10.0.0.0/15", "home routers, clouds and Docker Swarm; 10.1.0.0/16 MicroK8s"},
        {"10.4.0.0/24", "nerdctl"},
        {"10.8.0.0/24", "OpenVPN's and WireGuard's guides"},
        {"10.42.0.0/15", "K3s"},
        {"10.88.0.0/13", "Podman"},
        {"10.96.0.0/12", "Kubernetes' services"},
        {"10.128.0.0/14", "OpenShift"},
        {"10.152.183.0/24", "MicroK8s' services"},
        {"10.244.0.0/16", "Kubernetes' pods, by Flannel"},
        {"100.64.0.0/10", "Tailscale, and carriers' NAT"},
        {"169.254.0.0/16", "self-assigned addresses"},
        {"172.17.0.0/16", "Docker's docker0"},
        {"172.18.0.0/15", "Docker's networks"},
        {"172.20.0.0/14", "Docker's networks"},
        {"172.24.0.0/13", "Docker's networks"},
        {"192.168.0.0/16", "home routers, Docker, libvirt, Calico"},
        {"fd7a:115c:a1e0::/48", "Tailscale"},
    };

    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        struct mn_addr net;
        if (!mn_addr_parse(usual[i].net, &net, NULL))
            mn_taken_add(list, &net, MN_TAKEN_AVOIDED, "%s", usual[i].what);
    }
}

/* --- the mesh ------------------------------------------------------------------------------- */

static int is_cable(const struct mn_mesh *mesh, int node, int nic)
{
    for (size_t i = 0; i < 2 * mesh->n_links; i++) {
        const struct mn_mesh_end *end = &mesh->links[i / 2].ends[i % 2];
        if (end->node == node && end->nic == nic)
            return 1;
    }
    return 0;
}

void mn_taken_add_mesh(struct mn_takens *list, const struct mn_mesh *mesh)
{
    size_t total = 0, *first = mn_zalloc((mesh->n_nodes + 1) * sizeof *first);

    for (size_t n = 0; n < mesh->n_nodes; n++, first[n] = total)
        total += mesh->nodes[n].n_nics;
    char *cable = mn_zalloc(total + 1);
    for (size_t i = 0; i < 2 * mesh->n_links; i++) {
        const struct mn_mesh_end *end = &mesh->links[i / 2].ends[i % 2];
        cable[first[end->node] + (size_t)end->nic] = 1;
    }
    for (size_t n = 0; n < mesh->n_nodes; n++)
        for (size_t i = 0; i < mesh->nodes[n].n_nics; i++) {
            const struct mn_mesh_nic *nic = &mesh->nodes[n].nics[i];
            for (size_t a = 0; a < nic->n_addrs && !cable[first[n] + i]; a++)
                if (!mn_addr_is_nobodys(&nic->addrs[a]))
                    mn_taken_add(list, &nic->addrs[a], MN_TAKEN_USED, "%s on %s", nic->netdev,
                                 mesh->nodes[n].name);
        }
    free(cable);
    free(first);
}

/* --- this host ------------------------------------------------------------------------------ */

static int same_nic(const struct mn_mesh_nic *file, const struct mn_nic *nic)
{
    if (file->has_mac && nic->has_mac)
        return !memcmp(file->mac, nic->mac, sizeof file->mac);
    return !strcmp(file->netdev, nic->netdev);
}

/* Whether the NIC is a cable's end of the host's node. */
static int is_own_cable(const struct mn_mesh *mesh, int self, const struct mn_nic *nic)
{
    for (int i = 0; self >= 0 && nic && i < (int)mesh->nodes[self].n_nics; i++)
        if (same_nic(&mesh->nodes[self].nics[i], nic) && is_cable(mesh, self, i))
            return 1;
    return 0;
}

static void add_addrs(struct mn_takens *list, const struct mn_mesh *mesh, int self,
                      const struct mn_host *host)
{
    for (size_t i = 0; i < host->n_nics; i++) {
        const struct mn_nic *nic = &host->nics[i];
        if (nic->kind == MN_NIC_LOOPBACK || is_own_cable(mesh, self, nic))
            continue;
        for (size_t a = 0; a < nic->n_addrs; a++)
            if (!mn_addr_is_nobodys(&nic->addrs[a]))
                mn_taken_add(list, &nic->addrs[a], MN_TAKEN_USED, "%s on %s", nic->netdev,
                             host->hostname);
    }
}

static enum mn_err add_routes(struct mn_takens *list, const struct mn_mesh *mesh, int self,
                              const struct mn_host *host, struct mn_diag *diag)
{
    struct mn_destination *to;
    size_t count;
    enum mn_err err = mn_host_destinations(&to, &count, diag);

    for (size_t i = 0; i < count && !err; i++) {
        const struct mn_nic *nic = mn_host_nic_by_index(host, to[i].ifindex);
        if (to[i].to.prefix > 1 && !mn_addr_is_nobodys(&to[i].to) && !is_own_cable(mesh, self, nic))
            mn_taken_add(list, &to[i].to, MN_TAKEN_USED, "a route of %s%s%s",
                         nic ? nic->netdev : "", nic ? " on " : "", host->hostname);
    }
    free(to);
    return err;
}

enum mn_err mn_taken_add_host(struct mn_takens *list, const struct mn_mesh *mesh,
                              const struct mn_host_source *src, struct mn_diag *diag)
{
    struct mn_host host;
    char why[256];
    int self = -1;
    enum mn_err err = mn_host_read(src, &host, diag);

    /* A host that is no node of the mesh has no cable in it. */
    if (!err && mn_mesh_find_self(mesh, &host, &self, why, sizeof why, NULL))
        self = -1;
    if (!err)
        add_addrs(list, mesh, self, &host);
    if (!err && !(src && src->sysfs))
        err = add_routes(list, mesh, self, &host, diag);
    mn_host_free(&host);
    return err;
}
