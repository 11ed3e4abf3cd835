#include "plugin/far.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/conn.h"
#include "topo/base/log.h"

#define SILENT_MS  60000
#define SILENT_MAX 32
#define TOLD_MAX   256

/* --- own addresses ------------------------------------------------------------------------------
 */

static int is_cable(const struct mn_config *config, const struct mn_nic *nic)
{
    for (int d = 0; d < config->n_devices; d++)
        for (int i = 0; i < config->devices[d].n_locals; i++)
            if (config->devices[d].locals[i].ifindex == (uint32_t)nic->ifindex)
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

/* The first address of a NIC that others can come to, IPv4 before IPv6. */
static const struct mn_addr *address_of(const struct mn_nic *nic)
{
    const char *only = getenv("NCCL_SOCKET_FAMILY");
    int wanted = !only || !*only ? AF_UNSPEC : strcasecmp(only, "AF_INET6") ? AF_INET : AF_INET6;

    for (int family = AF_INET;; family = AF_INET6) {
        for (size_t i = 0; i < nic->n_addrs; i++)
            if (nic->addrs[i].family == family && (!wanted || wanted == family) &&
                !mn_addr_is_link_local(&nic->addrs[i]) && !mn_addr_is_loopback(&nic->addrs[i]))
                return &nic->addrs[i];
        if (family == AF_INET6)
            return NULL;
    }
}

static void add(struct mn_config *config, const struct mn_nic *nic, const char *why)
{
    const struct mn_addr *addr = nic->admin_up && nic->carrier ? address_of(nic) : NULL;
    char text[MN_ADDR_TEXT];

    if (!addr || is_cable(config, nic) || is_local(config, addr) || config->n_far == MN_MAX_FAR)
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

/* Whether some node of the mesh shares no cable with this one. A NIC is one cable's end: more nodes
 * than NICs need no look at each. */
static int lacks_cables(const struct mn_mesh *mesh, int self)
{
    if (mesh->n_nodes > mesh->nodes[self].n_nics + 1)
        return 1;
    for (size_t n = 0; n < mesh->n_nodes; n++) {
        int joined = (int)n == self;
        for (size_t i = 0; i < 2 * mesh->n_links && !joined; i++)
            joined = !mn_link_is_bare(&mesh->links[i / 2]) &&
                     mesh->links[i / 2].ends[i % 2].node == self &&
                     mesh->links[i / 2].ends[!(i % 2)].node == (int)n;
        if (!joined)
            return 1;
    }
    return 0;
}

/* All addresses of a neighbour's cables: the one of the link may be what is gone. */
static void note_neighbour(struct mn_config *config, const struct mn_mesh_node *node,
                           const char *link, const char *netdev)
{
    for (size_t i = 0; i < node->n_nics; i++)
        for (size_t a = 0; a < node->nics[i].n_addrs; a++) {
            if (node->nics[i].role == MN_ROLE_MANAGEMENT || config->n_beside == MN_MAX_BESIDE)
                continue;
            struct mn_beside *beside = &config->beside[config->n_beside++];
            beside->addr = node->nics[i].addrs[a];
            snprintf(beside->link, sizeof beside->link, "%s", link);
            snprintf(beside->netdev, sizeof beside->netdev, "%s", netdev);
        }
}

static void note_neighbours(struct mn_config *config, const struct mn_mesh *mesh, int self)
{
    for (size_t l = 0; l < 2 * mesh->n_links; l++) {
        const struct mn_mesh_link *link = &mesh->links[l / 2];
        const struct mn_mesh_end *own = &link->ends[l % 2], *end = &link->ends[!(l % 2)];
        if (own->node == self && !mn_link_is_bare(link))
            note_neighbour(config, &mesh->nodes[end->node], link->name,
                           mesh->nodes[self].nics[own->nic].netdev);
    }
}

const struct mn_beside *mn_far_neighbour(const struct mn_config *config,
                                         const struct mn_handle *peer)
{
    for (int i = 0; i < peer->n_locals; i++)
        for (int b = 0; b < config->n_beside; b++)
            if (mn_addr_equal(&config->beside[b].addr, &peer->locals[i].addr))
                return &config->beside[b];
    return NULL;
}

void mn_far_choose(struct mn_config *config, const struct mn_host *host, const struct mn_mesh *mesh,
                   int self)
{
    const struct mn_settings *s = &config->settings;
    const char *ifname = getenv("NCCL_SOCKET_IFNAME");

    config->uncabled = self >= 0 && lacks_cables(mesh, self);
    if (self >= 0)
        note_neighbours(config, mesh, self);
    if (s->reach == MN_REACH_DIRECT || s->transport == MN_TRANSPORT_VERBS ||
        s->allow_tcp == MN_TCP_NEVER)
        return;
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

/* --- ways ---------------------------------------------------------------------------------------
 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct mn_addr to;
    uint64_t until_ms;
} silent[SILENT_MAX];
static struct {
    uint64_t node_id;
    enum mn_far_kind kind;
} told[TOLD_MAX];
static unsigned n_told, next_silent;

void mn_far_silent(const struct mn_addr *to)
{
    pthread_mutex_lock(&lock);
    unsigned at = 0;
    while (at < SILENT_MAX && !mn_addr_equal(&silent[at].to, to))
        at++;
    if (at == SILENT_MAX)
        at = next_silent++ % SILENT_MAX;
    silent[at].to = *to;
    silent[at].until_ms = mn_now_ms() + SILENT_MS;
    pthread_mutex_unlock(&lock);
}

static int was_silent(const struct mn_addr *to)
{
    uint64_t now = mn_now_ms();
    int found = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < SILENT_MAX; i++)
        found |= silent[i].until_ms > now && mn_addr_equal(&silent[i].to, to);
    pthread_mutex_unlock(&lock);
    return found;
}

/* This host's address on the way there, by the kernel's routes. 0: there is no way. */
static int source_towards(const struct mn_addr *to, struct mn_addr *from)
{
    struct sockaddr_storage ss;
    socklen_t len = mn_addr_sockaddr(to, 9, 0, &ss);
    int fd = socket(to->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int found = fd >= 0 && !connect(fd, (struct sockaddr *)&ss, len);

    len = sizeof ss;
    found = found && !getsockname(fd, (struct sockaddr *)&ss, &len) &&
            mn_addr_from_sockaddr((struct sockaddr *)&ss, from) >= 0;
    if (fd >= 0)
        close(fd);
    if (found)
        from->prefix = -1;
    return found;
}

int mn_far_ways(const struct mn_config *config, const struct mn_handle *peer,
                struct mn_far_way ways[MN_FAR_WAYS])
{
    struct mn_far_way found[MN_FAR_WAYS];
    int n_found = 0, n = 0;

    for (int i = 0; i < peer->n_locals + peer->n_far; i++) {
        int is_far = i >= peer->n_locals;
        struct mn_far_way *way = &found[n_found];
        way->to = is_far ? peer->far[i - peer->n_locals].addr : peer->locals[i].addr;
        way->to.prefix = -1;
        /* An address that this host has too, a container bridge's say, is not the peer. */
        if (mn_addr_is_loopback(&way->to) || !source_towards(&way->to, &way->from) ||
            mn_addr_equal(&way->to, &way->from))
            continue;
        way->kind = is_far                         ? MN_FAR_MANAGEMENT
                    : is_local(config, &way->from) ? MN_FAR_CABLES
                                                   : MN_FAR_ELSEWHERE;
        n_found++;
    }
    for (int late = 0; late < 2; late++)
        for (int kind = MN_FAR_CABLES; kind <= MN_FAR_ELSEWHERE; kind++)
            for (int i = 0; i < n_found; i++)
                if ((int)found[i].kind == kind && was_silent(&found[i].to) == late)
                    ways[n++] = found[i];
    /* An office's gateway takes packets to anywhere and says nothing: nobody waits for it who has a
     * better way. */
    int better = 0, kept = 0;
    for (int i = 0; i < n; i++)
        better += ways[i].kind != MN_FAR_ELSEWHERE;
    for (int i = 0; i < n; i++)
        if (!better || ways[i].kind != MN_FAR_ELSEWHERE)
            ways[kept++] = ways[i];
    return kept;
}

char *mn_far_text(const struct mn_far_way *way, char *text, size_t size)
{
    static const char *const kinds[] = {"along the cables, through neighbours that forward",
                                        "over the management network", "over the routing table"};
    char from[MN_ADDR_TEXT], to[MN_ADDR_TEXT];

    snprintf(text, size, "%s (%s to %s)", kinds[way->kind],
             mn_addr_format(&way->from, from, sizeof from),
             mn_addr_format(&way->to, to, sizeof to));
    return text;
}

static int is_news(uint64_t node_id, enum mn_far_kind kind)
{
    int news = 1;

    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < n_told && news; i++)
        news = told[i].node_id != node_id || told[i].kind != kind;
    if (news && n_told < TOLD_MAX) {
        told[n_told].node_id = node_id;
        told[n_told++].kind = kind;
    }
    pthread_mutex_unlock(&lock);
    return news;
}

static long speed_of(const struct mn_config *config, const struct mn_addr *from)
{
    for (int d = 0; d < config->n_devices; d++)
        for (int i = 0; i < config->devices[d].n_locals; i++)
            if (mn_addr_equal(&config->devices[d].locals[i].addr, from))
                return config->devices[d].locals[i].speed_mbps;
    for (int i = 0; i < config->n_far; i++)
        if (mn_addr_equal(&config->far[i].addr, from))
            return config->far[i].speed_mbps;
    return 0;
}

void mn_far_tell(const struct mn_config *config, uint64_t node_id, const char *peer,
                 const struct mn_far_way *way)
{
    char text[256], speed[64] = "";
    long mbps = speed_of(config, &way->from);

    if (!is_news(node_id, way->kind))
        return;
    if (mbps > 0)
        snprintf(speed, sizeof speed, ", at most %.4g Gb/s", (double)mbps / 1000);
    MN_INFO("peer %s has no cable to this node: TCP reaches it %s%s, shared with what else goes "
            "there%s",
            peer, mn_far_text(way, text, sizeof text), speed,
            way->kind == MN_FAR_CABLES
                ? "; a cable between the two would be faster"
                : "; a cable between the two, or routes through neighbours (meshnet topo apply), "
                  "would be faster");
}
