#include "plugin/far.h"

#include <ifaddrs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "plugin/relay/able.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

int mn_far_is_cable(const struct mn_config *config, int ifindex)
{
    for (int d = 0; d < config->n_devices; d++)
        for (int i = 0; i < config->devices[d].n_locals; i++)
            if (config->devices[d].locals[i].ifindex == (uint32_t)ifindex)
                return 1;
    return 0;
}

static int is_local(const struct mn_config *config, const struct mn_addr *addr)
{
    for (int d = 0; d < config->n_devices; d++)
        for (int i = 0; i < config->devices[d].n_locals; i++)
            if (mn_addr_equal(&config->devices[d].locals[i].addr, addr))
                return 1;
    return 0;
}

/* The first of a NIC's addresses that others can come to, IPv4 before IPv6. */
static const struct mn_addr *address_of(const struct mn_addr *addrs, size_t n)
{
    const char *only = getenv("NCCL_SOCKET_FAMILY");
    int wanted = !only || !*only ? AF_UNSPEC : strcasecmp(only, "AF_INET6") ? AF_INET : AF_INET6;

    for (int family = AF_INET;; family = AF_INET6) {
        for (size_t i = 0; i < n; i++)
            if (addrs[i].family == family && (!wanted || wanted == family) &&
                !mn_addr_is_link_local(&addrs[i]) && !mn_addr_is_loopback(&addrs[i]))
                return &addrs[i];
        if (family == AF_INET6)
            return NULL;
    }
}

static void add(struct mn_config *config, const struct mn_nic *nic, const char *why)
{
    const struct mn_addr *addr =
        nic->admin_up && nic->carrier ? address_of(nic->addrs, nic->n_addrs) : NULL;
    char text[MN_ADDR_TEXT];

    if (!addr || mn_far_is_cable(config, nic->ifindex) || is_local(config, addr) ||
        config->n_far == MN_MAX_FAR)
        return;
    struct mn_local *far = &config->far[config->n_far++];
    far->addr = *addr;
    far->ifindex = (uint32_t)nic->ifindex;
    far->gid_index = -1;
    far->speed_mbps = nic->speed_mbps;
    snprintf(far->netdev, sizeof far->netdev, "%s", nic->netdev);
    MN_INFO("nodes without a cable to this one may come to %s on %s: %s",
            mn_addr_format(addr, text, sizeof text), nic->netdev, why);
}

/* Whether some node of the mesh shares neither a cable nor a route of the file with this one. A NIC
 * is one cable's end: without routes more nodes than NICs need no look at each. */
static int lacks_cables(const struct mn_mesh *mesh, int self)
{
    if (!mesh->n_routes && mesh->n_nodes > mesh->nodes[self].n_nics + 1)
        return 1;
    for (size_t n = 0; n < mesh->n_nodes; n++) {
        int joined = (int)n == self;
        for (size_t i = 0; i < 2 * mesh->n_links && !joined; i++)
            joined = !mn_link_is_bare(&mesh->links[i / 2]) &&
                     mesh->links[i / 2].ends[i % 2].node == self &&
                     mesh->links[i / 2].ends[!(i % 2)].node == (int)n;
        for (size_t i = 0; i < 2 * mesh->n_routes && !joined; i++)
            joined = mesh->routes[i / 2].ends[i % 2].node == self &&
                     mesh->routes[i / 2].ends[!(i % 2)].node == (int)n;
        if (!joined)
            return 1;
    }
    return 0;
}

static void mark_spare(struct mn_config *config, const char *netdev)
{
    for (int d = 0; d < config->n_devices; d++)
        for (int i = 0; i < config->devices[d].n_locals; i++)
            if (!strcmp(config->devices[d].locals[i].netdev, netdev))
                config->devices[d].locals[i].spare = 1;
}

static enum mn_err note_one(struct mn_config *config, const struct mn_mesh_node *node,
                            const struct mn_addr *addr, const char *link, const char *netdev,
                            struct mn_diag *diag)
{
    struct mn_beside *beside = mn_push(&config->beside, &config->n_beside, sizeof *beside, diag);

    if (!beside)
        return MN_ERR_NOMEM;
    if (addr)
        beside->addr = *addr;
    mn_strlcpy(beside->node, node->name, sizeof beside->node);
    mn_strlcpy(beside->link, link, sizeof beside->link);
    mn_strlcpy(beside->netdev, netdev, sizeof beside->netdev);
    return MN_OK;
}

/* All addresses of a neighbour's cables: the one of the link may be what is gone. */
static enum mn_err note_neighbour(struct mn_config *config, const struct mn_mesh_node *node,
                                  const char *link, const char *netdev, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    /* A second cable to it leads to the same addresses. */
    for (size_t b = 0; b < config->n_beside; b++)
        if (!strcmp(config->beside[b].node, node->name)) {
            if (strcmp(config->beside[b].netdev, netdev) != 0)
                mark_spare(config, netdev);
            return note_one(config, node, NULL, link, netdev, diag);
        }
    for (size_t i = 0; i < node->n_nics; i++)
        for (size_t a = 0; !err && a < node->nics[i].n_addrs; a++)
            if (node->nics[i].role != MN_ROLE_MANAGEMENT)
                err = note_one(config, node, &node->nics[i].addrs[a], link, netdev, diag);
    return err;
}

static enum mn_err note_neighbours(struct mn_config *config, const struct mn_mesh *mesh, int self,
                                   struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (size_t l = 0; self >= 0 && !err && l < 2 * mesh->n_links; l++) {
        const struct mn_mesh_link *link = &mesh->links[l / 2];
        const struct mn_mesh_end *own = &link->ends[l % 2], *end = &link->ends[!(l % 2)];
        if (own->node == self && !mn_link_is_bare(link))
            err = note_neighbour(config, &mesh->nodes[end->node], link->name,
                                 mesh->nodes[self].nics[own->nic].netdev, diag);
    }
    return err;
}

const struct mn_beside *mn_far_neighbour(const struct mn_config *config,
                                         const struct mn_handle *peer)
{
    for (int i = 0; i < peer->n_locals; i++)
        for (size_t b = 0; b < config->n_beside; b++)
            if (mn_addr_equal(&config->beside[b].addr, &peer->locals[i].addr))
                return &config->beside[b];
    return NULL;
}

static void choose(struct mn_config *config, const struct mn_host *host, const struct mn_mesh *mesh,
                   int self)
{
    const char *ifname = getenv("NCCL_SOCKET_IFNAME");

    for (size_t i = 0; self >= 0 && i < mesh->nodes[self].n_nics; i++) {
        const struct mn_mesh_nic *file = &mesh->nodes[self].nics[i];
        const struct mn_nic *nic =
            file->role == MN_ROLE_MANAGEMENT ? mn_mesh_nic_on_host(host, file) : NULL;
        if (nic)
            add(config, nic, "for management in the mesh file");
    }
    for (size_t i = 0; !config->n_far && ifname && *ifname && i < host->n_nics; i++)
        if (mn_selector_match(ifname, host->nics[i].netdev, -1))
            add(config, &host->nics[i], "NCCL_SOCKET_IFNAME");
    for (size_t i = 0; !config->n_far && !(ifname && *ifname) && i < host->n_nics; i++)
        if (host->nics[i].default_route)
            add(config, &host->nics[i], "the default route leads through it");
    for (size_t i = 0; self < 0 && !(ifname && *ifname) && i < host->n_nics; i++)
        if (host->nics[i].role == MN_ROLE_MANAGEMENT && !host->nics[i].default_route)
            add(config, &host->nics[i], "it seems to be for management");
}

enum mn_err mn_far_choose(struct mn_config *config, const struct mn_host *host,
                          const struct mn_mesh *mesh, int self, struct mn_diag *diag)
{
    const struct mn_settings *s = &config->settings;

    config->uncabled = self >= 0 && lacks_cables(mesh, self);
    if (mn_relay_able(config, 0) == MN_RELAY_ABLE ||
        (s->reach != MN_REACH_CABLES && !mn_reach_barred_by(s->reach, s->transport, s->allow_tcp)))
        choose(config, host, mesh, self);
    return note_neighbours(config, mesh, self, diag);
}

/* --- what has become of them --------------------------------------------------------------------
 */

#define ADDRS_MAX 16

/* Those that a NIC has now. */
static size_t addresses_now(const struct ifaddrs *list, const char *netdev,
                            struct mn_addr addrs[ADDRS_MAX])
{
    size_t n = 0;

    for (; list && n < ADDRS_MAX; list = list->ifa_next)
        if (list->ifa_addr && !strcmp(list->ifa_name, netdev) &&
            mn_addr_from_sockaddr(list->ifa_addr, &addrs[n]) >= 0) {
            addrs[n].prefix = addrs[n].family == AF_INET6 ? 128 : 32;
            n++;
        }
    return n;
}

/* Once for each change, and again when it has come back in between. is: family 0 for none. */
static void tell_change(int which, const char *netdev, struct mn_addr was, struct mn_addr is)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct mn_addr told[MN_MAX_FAR];
    static int said[MN_MAX_FAR];
    char before[MN_ADDR_TEXT], now[MN_ADDR_TEXT];
    int back = mn_addr_equal(&was, &is);

    pthread_mutex_lock(&lock);
    int news = !back && (!said[which] || !(mn_addr_equal(&told[which], &is) ||
                                           told[which].family + is.family == 0));
    told[which] = is;
    said[which] = !back;
    pthread_mutex_unlock(&lock);
    was.prefix = is.prefix = -1;
    mn_addr_format(&was, before, sizeof before);
    if (news && is.family)
        MN_INFO("%s has lost its address %s; nodes without a cable to this one come to %s from now "
                "on",
                netdev, before, mn_addr_format(&is, now, sizeof now));
    else if (news)
        MN_INFO("%s has lost its address %s and has no other: nodes without a cable to this one "
                "cannot come over it",
                netdev, before);
}

int mn_far_now(const struct mn_config *config, struct mn_local far[MN_MAX_FAR])
{
    struct ifaddrs *list;
    int n = 0;

    if (!config->n_far || getifaddrs(&list)) {
        memcpy(far, config->far, sizeof config->far);
        return config->n_far;
    }
    for (int i = 0; i < config->n_far; i++) {
        struct mn_addr addrs[ADDRS_MAX];
        size_t count = addresses_now(list, config->far[i].netdev, addrs), kept = 0;
        while (kept < count && !mn_addr_equal(&addrs[kept], &config->far[i].addr))
            kept++;
        const struct mn_addr *other = kept < count ? NULL : address_of(addrs, count);
        tell_change(i, config->far[i].netdev, config->far[i].addr,
                    kept < count ? config->far[i].addr
                    : other      ? *other
                                 : (struct mn_addr){.family = AF_UNSPEC});
        if (kept == count && (!other || is_local(config, other)))
            continue;
        far[n] = config->far[i];
        if (other)
            far[n].addr = *other;
        n++;
    }
    freeifaddrs(list);
    return n;
}
