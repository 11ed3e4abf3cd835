#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "plugin/conn.h"
#include "plugin/far.h"
#include "plugin/hops.h"
#include "plugin/reach.h"
#include "plugin/relay/tell.h"
#include "plugin/towards.h"
#include "topo/base/log.h"
#include "topo/base/once.h"

#define SILENT_MS  60000
#define RELAYED    UINT64_MAX /* among the kinds of ways that are told */
#define SILENT_MAX 32

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct mn_addr to;
    uint64_t until_ms;
} silent[SILENT_MAX];
static unsigned next_silent;

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

static const char *netdev_of(const struct mn_config *config, int ifindex)
{
    for (int d = 0; d < config->n_devices; d++)
        for (int i = 0; i < config->devices[d].n_locals; i++)
            if (config->devices[d].locals[i].ifindex == (uint32_t)ifindex)
                return config->devices[d].locals[i].netdev;
    return "";
}

/* A link-local address is in no mesh file: it is the node at the end of the NIC's cable. */
static const struct mn_beside *beside_of(const struct mn_config *config, const struct mn_addr *addr,
                                         int ifindex)
{
    const char *netdev = mn_addr_is_link_local(addr) ? netdev_of(config, ifindex) : NULL;

    for (size_t b = 0; b < config->n_beside; b++)
        if (netdev ? !strcmp(config->beside[b].netdev, netdev)
                   : mn_addr_equal(&config->beside[b].addr, addr))
            return &config->beside[b];
    return NULL;
}

/* A NIC of the mesh may have the default route, or a router beside the neighbours: what goes there
 * does not go along cables. Without a mesh file nobody knows which addresses are neighbours'. */
static int goes_along_cables(const struct mn_config *config, const struct mn_towards *way)
{
    int all_known = config->n_beside > 0;

    return mn_far_is_cable(config, way->ifindex) && way->prefix &&
           (!way->via.family || !all_known || beside_of(config, &way->via, way->ifindex));
}

static int is_wanted(enum mn_reach reach, enum mn_far_kind kind)
{
    return reach == MN_REACH_CABLES       ? kind == MN_FAR_CABLES
           : reach == MN_REACH_MANAGEMENT ? kind == MN_FAR_MANAGEMENT
                                          : 1;
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
        struct mn_towards towards;
        if (mn_addr_is_loopback(&way->to) || !mn_towards(&way->to, &towards) ||
            mn_addr_equal(&way->to, &towards.from))
            continue;
        way->from = towards.from;
        way->via = towards.via;
        way->ifindex = towards.ifindex;
        way->prefix = towards.prefix;
        int leaves_mesh = is_far && !mn_far_is_cable(config, towards.ifindex);
        way->kind = leaves_mesh                           ? MN_FAR_MANAGEMENT
                    : goes_along_cables(config, &towards) ? MN_FAR_CABLES
                                                          : MN_FAR_ELSEWHERE;
        n_found += is_wanted(config->settings.reach, way->kind);
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
        better += ways[i].kind != MN_FAR_ELSEWHERE || ways[i].prefix;
    for (int i = 0; i < n; i++)
        if (!better || ways[i].kind != MN_FAR_ELSEWHERE || ways[i].prefix)
            ways[kept++] = ways[i];
    return kept;
}

/* The node's name where the mesh file makes it a neighbour, else the address. */
static const char *name_of(const struct mn_config *config, const struct mn_addr *addr, int ifindex,
                           char text[MN_ADDR_TEXT])
{
    const struct mn_beside *beside = beside_of(config, addr, ifindex);

    return beside ? beside->node : mn_addr_format(addr, text, MN_ADDR_TEXT);
}

/* " through b and 10.2.2.1": as heard, else the first node alone. */
static void name_nodes(const struct mn_config *config, const struct mn_far_way *way, char *text,
                       size_t size)
{
    struct mn_hop hops[MN_HOPS_MAX];
    char name[MN_ADDR_TEXT];
    size_t used = 0;
    int known = mn_hops_heard(&way->to, hops), n = 0;

    text[0] = 0;
    for (int i = 0; i < known && used < size; i++)
        if (hops[i].kind == MN_HOP_PASSES)
            used += (size_t)snprintf(text + used, size - used, "%s%s", n++ ? " and " : " through ",
                                     name_of(config, &hops[i].at, way->ifindex, name));
    if (!n && way->via.family)
        snprintf(text, size, " through %s", name_of(config, &way->via, way->ifindex, name));
}

char *mn_far_text(const struct mn_config *config, const struct mn_far_way *way, char *text,
                  size_t size)
{
    static const char *const kinds[] = {"along the cables", "over the management network",
                                        "over the routing table"};
    char from[MN_ADDR_TEXT], to[MN_ADDR_TEXT], nodes[256] = "";

    if (way->kind != MN_FAR_MANAGEMENT)
        name_nodes(config, way, nodes, sizeof nodes);
    snprintf(text, size, "%s%s (%s to %s)", kinds[way->kind], nodes,
             mn_addr_format(&way->from, from, sizeof from),
             mn_addr_format(&way->to, to, sizeof to));
    return text;
}

#define MEND                                                                                       \
    "meshnet topo apply sets routes, forwarding and rules, meshnet doctor looks for the cause"

/* The last node that was heard, and what may be wrong there or behind it. */
static void say_hops(const struct mn_config *config, const struct mn_far_way *way, uint16_t port,
                     char *text, size_t size)
{
    struct mn_hop hops[MN_HOPS_MAX];
    char name[MN_ADDR_TEXT];
    int known = mn_hops_heard(&way->to, hops), is_6 = way->to.family == AF_INET6;
    const struct mn_hop *last = known ? &hops[known - 1] : NULL;
    const char *node = name_of(config, last ? &last->at : &way->via, way->ifindex, name);

    if (last && last->kind == MN_HOP_ARRIVED)
        snprintf(text, size,
                 "UDP comes through: a firewall on the peer, or in between, drops TCP port %u",
                 port);
    else if (last && last->kind == MN_HOP_REFUSES && mn_addr_equal(&last->at, &way->from))
        snprintf(text, size,
                 "%s, through which it goes, does not answer: check that cable and the address",
                 name_of(config, way->via.family ? &way->via : &way->to, way->ifindex, name));
    else if (last && last->kind == MN_HOP_REFUSES)
        snprintf(text, size, "%s refuses to pass it on, %s; " MEND, node,
                 last->forbidden ? "by a rule of its firewall"
                                 : "as it has no route there or the cable behind it is out");
    else if (last)
        snprintf(text, size,
                 "packets get as far as %s, which forwards: its firewall may drop what passes "
                 "(Docker's FORWARD policy: nft list ruleset), or what is behind it drops what "
                 "comes this way%s or has no route back; " MEND,
                 node, is_6 ? "" : " (a strict rp_filter)");
    else
        snprintf(
            text, size,
            "%s passes nothing on, or says nothing of it: forwarding is off there (sysctl %s), "
            "or its firewall%s drops it; " MEND,
            node, is_6 ? "net.ipv6.conf.all.forwarding" : "net.ipv4.ip_forward",
            is_6 ? "" : " or a strict rp_filter");
}

char *mn_far_why(const struct mn_config *config, const struct mn_far_way *way, uint16_t port,
                 char *text, size_t size)
{
    char via[MN_ADDR_TEXT];

    if (way->kind == MN_FAR_CABLES) {
        say_hops(config, way, port, text, size);
    } else if (way->kind == MN_FAR_ELSEWHERE && way->via.family) {
        snprintf(text, size, "no route along the cables leads there, %s takes the packets; " MEND,
                 mn_addr_format(&way->via, via, sizeof via));
    } else {
        mn_reach_why(NULL, &way->to, port, text, size);
    }
    return text;
}

void mn_far_ask(const struct mn_far_way *way)
{
    if (way->kind == MN_FAR_CABLES)
        mn_hops_ask(&way->to, &way->via, way->ifindex);
}

void mn_far_rest(const struct mn_far_way *way)
{
    if (way->kind == MN_FAR_CABLES)
        mn_hops_rest(&way->to);
}

static long speed_of(const struct mn_config *config, int ifindex)
{
    for (int d = 0; d < config->n_devices; d++)
        for (int i = 0; i < config->devices[d].n_locals; i++)
            if (config->devices[d].locals[i].ifindex == (uint32_t)ifindex)
                return config->devices[d].locals[i].speed_mbps;
    for (int i = 0; i < config->n_far; i++)
        if (config->far[i].ifindex == (uint32_t)ifindex)
            return config->far[i].speed_mbps;
    return 0;
}

/* As NCCL sees no other sign of it, a neighbour that has to be reached in another way is a warning.
 */
static void tell_neighbour(const char *name, const struct mn_beside *link, const char *carrier,
                           const char *way)
{
    MN_WARN("peer %s: link %s of the mesh file joins them over %s, but their addresses share no "
            "subnet under both netmasks (an address that is gone, a NIC that is off?); "
            "transport.allow_tcp lets %s carry it %s; meshnet doctor looks for the cause",
            name, link->link, link->netdev, carrier, way);
}

void mn_far_tell(const struct mn_config *config, const struct mn_handle *peer,
                 const struct mn_conn *conn, const struct mn_far_way *way)
{
    static struct mn_once said;
    const struct mn_beside *link = mn_far_neighbour(config, peer);
    int relayed = conn->plan.kind == MN_TRANSPORT_RELAY;
    uint64_t what[2] = {peer->node_id, relayed ? RELAYED : (uint64_t)way->kind};
    char text[640], speed[64] = "", hint[700];
    const char *name = conn->peer_text, *carrier = relayed ? "meshnet relayd" : "TCP";
    long mbps = speed_of(config, way->ifindex);

    if (!mn_once(&said, what, sizeof what))
        return;
    if (relayed)
        mn_relay_text(conn, text, sizeof text);
    else
        mn_far_text(config, way, text, sizeof text);
    if (mbps > 0 && !relayed)
        snprintf(speed, sizeof speed, ", at most %.4g Gb/s", (double)mbps / 1000);
    if (link)
        tell_neighbour(name, link, carrier, text);
    else
        MN_INFO("peer %s has no cable to this node: %s reaches it %s%s, shared with what else "
                "goes there%s%s",
                name, carrier, text, speed, relayed ? "" : mn_relay_hint(conn, hint, sizeof hint),
                relayed || way->kind == MN_FAR_CABLES
                    ? "; a cable between the two would be faster"
                    : "; a cable between the two, or routes through neighbours (meshnet topo "
                      "apply), would be faster");
}
