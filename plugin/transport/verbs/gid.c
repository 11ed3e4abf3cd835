/* Which RDMA port and GID an address of this host is. The choice is a function of a map and a
 * local: gid_cache.c has the map. */
#include "plugin/transport/verbs/device_impl.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/log.h"

static union ibv_gid gid_of(const struct mn_addr *addr)
{
    union ibv_gid gid = {{0}};
    if (addr->family == AF_INET) {
        gid.raw[10] = gid.raw[11] = 0xff;
        memcpy(gid.raw + 12, addr->bytes, 4);
    } else {
        memcpy(gid.raw, addr->bytes, sizeof gid.raw);
    }
    return gid;
}

static int is_infiniband(const struct verbs_port *port)
{
    return port->attr.link_layer != IBV_LINK_LAYER_ETHERNET;
}

/* --- the choice --------------------------------------------------------------------------------
 */

static int on_named_device(const struct verbs_port *port, const struct mn_local *local)
{
    return strcmp(port->device->name, local->rdma_device) == 0;
}

static int is_named(const struct verbs_port *port, const struct mn_local *local)
{
    return on_named_device(port, local) &&
           (local->rdma_port <= 0 || port->number == local->rdma_port);
}

static int is_pinned(const struct verbs_gid *gid, const struct mn_local *local)
{
    return gid->index == local->gid_index && (!local->rdma_device[0] || is_named(gid->port, local));
}

/* 1 when a connection from this address can use it. */
static int fits(const struct verbs_gid *gid, const struct mn_local *local,
                const union ibv_gid *wanted)
{
    int here = gid->ifindex == local->ifindex;
    if (is_infiniband(gid->port))
        return (gid->index == 0 || gid->index == local->gid_index) &&
               (is_named(gid->port, local) || (gid->ifindex && here));
    return memcmp(gid->gid.raw, wanted->raw, sizeof wanted->raw) == 0 && (here || !gid->ifindex);
}

/* The greater the better, what comes first decides; in a tie the first of the map is taken. */
static unsigned rank(const struct verbs_gid *gid, const struct mn_local *local)
{
    const int merits[] = {
        is_pinned(gid, local),
        is_named(gid->port, local),
        on_named_device(gid->port, local),
        gid->ifindex == local->ifindex,
        gid->port->attr.state == IBV_PORT_ACTIVE, /* a bond has a GID on each port */
        gid->type == MN_GID_ROCE_V2,
    };
    unsigned value = 0;
    for (size_t i = 0; i < sizeof merits / sizeof *merits; i++)
        value = value << 1 | (merits[i] != 0);
    return value;
}

/* The port of the NIC when no GID fits: the one named, else one with a GID on its netdev, else one
 * that has the address on another netdev. A link-local address says nothing there: many netdevs
 * may have the same. */
static const struct verbs_port *
find_owner(const struct verbs_map *map, const struct mn_local *local, const union ibv_gid *wanted)
{
    const struct verbs_port *same_device = NULL;
    for (size_t i = 0; i < map->n_ports; i++) {
        if (is_named(&map->ports[i], local))
            return &map->ports[i];
        if (on_named_device(&map->ports[i], local))
            same_device = &map->ports[i];
    }
    if (same_device)
        return same_device;
    for (size_t i = 0; i < map->n_gids; i++)
        if (map->gids[i].ifindex && map->gids[i].ifindex == local->ifindex)
            return map->gids[i].port;
    for (size_t i = 0; i < map->n_gids && !mn_addr_is_link_local(&local->addr); i++)
        if (memcmp(map->gids[i].gid.raw, wanted->raw, sizeof wanted->raw) == 0)
            return map->gids[i].port;
    return NULL;
}

static const struct verbs_gid *find_index(const struct verbs_map *map,
                                          const struct verbs_port *port, int index)
{
    for (size_t i = 0; i < map->n_gids; i++)
        if (map->gids[i].port == port && map->gids[i].index == index)
            return &map->gids[i];
    return NULL;
}

void verbs_choose(const struct verbs_map *map, const struct mn_local *local,
                  struct verbs_choice *choice)
{
    const union ibv_gid wanted = gid_of(&local->addr);
    memset(choice, 0, sizeof *choice);
    const struct verbs_gid *best = NULL;
    for (size_t i = 0; i < map->n_gids; i++)
        if (fits(&map->gids[i], local, &wanted) &&
            (!best || rank(&map->gids[i], local) > rank(best, local)))
            best = &map->gids[i];
    choice->gid = best;
    choice->owner = best ? best->port : find_owner(map, local, &wanted);
    if (!best)
        return;
    choice->moved = local->rdma_device[0] && !is_named(best->port, local);
    choice->drifted = !choice->moved && !is_infiniband(best->port) && local->gid_index >= 0 &&
                      best->index != local->gid_index;
    if (choice->drifted)
        choice->pinned = find_index(map, best->port, local->gid_index);
}

/* --- what is said of it ------------------------------------------------------------------------
 */

static const char *netdev_of(uint32_t ifindex, char name[IF_NAMESIZE])
{
    if (ifindex == 0 || !if_indextoname(ifindex, name))
        mn_strlcpy(name, "-", IF_NAMESIZE);
    return name;
}

static void describe(const struct verbs_gid *gid, char *buf, size_t size)
{
    char text[MN_ADDR_TEXT], netdev[IF_NAMESIZE];
    static const uint8_t v4_mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct mn_addr addr = {AF_INET6, -1, {0}};
    memcpy(addr.bytes, gid->gid.raw, sizeof addr.bytes);
    if (memcmp(gid->gid.raw, v4_mapped, sizeof v4_mapped) == 0) {
        addr.family = AF_INET;
        memcpy(addr.bytes, gid->gid.raw + 12, 4);
    }
    snprintf(buf, size, "%s %s  %s", mn_addr_format(&addr, text, sizeof text),
             mn_gid_type_name(gid->type), netdev_of(gid->ifindex, netdev));
}

static int has_netdev(const struct verbs_map *map, const struct verbs_port *port, uint32_t ifindex)
{
    for (size_t i = 0; i < map->n_gids; i++)
        if (map->gids[i].port == port && map->gids[i].ifindex == ifindex)
            return 1;
    return 0;
}

char *verbs_map_table(const struct verbs_map *map, const struct verbs_port *port, uint32_t ifindex,
                      char *buf, size_t size)
{
    size_t used = 0;
    if (size > 0)
        buf[0] = '\0';
    for (size_t i = 0; i < map->n_gids; i++) {
        const struct verbs_gid *gid = &map->gids[i];
        if ((port && gid->port != port) || (ifindex && !has_netdev(map, gid->port, ifindex)))
            continue;
        char what[160], line[256];
        describe(gid, what, sizeof what);
        int len = snprintf(line, sizeof line, "  %s port %d gid %d  %s\n", gid->port->device->name,
                           gid->port->number, gid->index, what);
        if (used + (size_t)len >= size)
            break;
        memcpy(buf + used, line, (size_t)len + 1);
        used += (size_t)len;
    }
    return buf;
}

/* Each warning once for what it is about: connections are many. */
static int first_time(char kind, const char *device, int index, const struct mn_addr *addr)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        char kind, device[64];
        int index;
        struct mn_addr addr;
    } told[128];
    static size_t n_told;
    int first = 1;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n_told && first; i++)
        first = told[i].kind != kind || told[i].index != index ||
                strcmp(told[i].device, device) != 0 || !mn_addr_equal(&told[i].addr, addr);
    if (first && n_told < sizeof told / sizeof *told) {
        told[n_told].kind = kind;
        told[n_told].index = index;
        told[n_told].addr = *addr;
        mn_strlcpy(told[n_told].device, device, sizeof told[n_told].device);
        n_told++;
    } else {
        first = 0;
    }
    pthread_mutex_unlock(&lock);
    return first;
}

static const char *address_text(const struct mn_local *local, char *buf, size_t size)
{
    struct mn_addr addr = local->addr;
    addr.prefix = -1;
    return mn_addr_format(&addr, buf, size);
}

static void warn_of(const struct verbs_choice *choice, const struct mn_local *local)
{
    const struct verbs_gid *gid = choice->gid;
    const char *device = gid->port->device->name;
    char addr[MN_ADDR_TEXT], now[160] = "is empty";
    address_text(local, addr, sizeof addr);
    if (choice->moved && first_time('m', local->rdma_device, local->rdma_port, &local->addr))
        MN_WARN("%s (%s) is not on %s port %d as expected, but on %s port %d, which is used", addr,
                local->netdev, local->rdma_device, local->rdma_port > 0 ? local->rdma_port : 1,
                device, gid->port->number);
    if (choice->drifted && first_time('d', device, local->gid_index, &local->addr)) {
        if (choice->pinned) {
            char what[140];
            describe(choice->pinned, what, sizeof what);
            snprintf(now, sizeof now, "holds %s", what);
        }
        MN_WARN("gid_index %d of %s port %d is not %s any more: it %s; index %d is used, correct "
                "the mesh file or leave gid_index out",
                local->gid_index, device, gid->port->number, addr, now, gid->index);
    }
    if (gid->type == MN_GID_ROCE_V1 && first_time('1', device, gid->index, &local->addr))
        MN_WARN("%s is used with RoCE v1 (gid index %d of %s port %d): %s", addr, gid->index,
                device, gid->port->number,
                gid->index == local->gid_index ? "the mesh file wants it"
                                               : "there is no RoCE v2 GID of this address");
}

static const char *state_name(enum ibv_port_state state)
{
    static const char *const names[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
    return (size_t)state < sizeof names / sizeof *names ? names[state] : "in an unknown state";
}

static enum mn_err fail_inactive(const struct verbs_port *port, const struct mn_local *local,
                                 struct mn_diag *diag)
{
    int no_manager = is_infiniband(port) &&
                     (port->attr.state == IBV_PORT_INIT || port->attr.state == IBV_PORT_ARMED);
    return mn_fail(diag, MN_ERR_LINK_DEAD, "%s port %d (%s) is %s: check %s", port->device->name,
                   port->number, local->netdev, state_name(port->attr.state),
                   no_manager ? "that a subnet manager runs on this fabric" : "the cable");
}

static enum mn_err fail_unknown(const struct verbs_map *map, const struct verbs_port *port,
                                const struct mn_local *local, struct mn_diag *diag)
{
    char addr[MN_ADDR_TEXT], table[400];
    verbs_map_table(map, port, 0, table, sizeof table);
    return mn_fail(diag, MN_ERR_CONFIG, "%s port %d (%s, %s) has no GID for %s; its table:\n%s",
                   port->device->name, port->number, local->netdev, state_name(port->attr.state),
                   address_text(local, addr, sizeof addr), *table ? table : "  (empty)\n");
}

/* --- the place ---------------------------------------------------------------------------------
 */

enum mn_err verbs_place_on(const struct verbs_map *map, const struct mn_local *local,
                           struct verbs_place *place, struct mn_diag *diag)
{
    struct verbs_choice choice;
    verbs_choose(map, local, &choice);
    *place = (struct verbs_place){.device = choice.owner ? choice.owner->device : NULL};
    if (!choice.owner)
        return mn_fail(diag, MN_ERR_UNSUPPORTED, "no RDMA device belongs to %s", local->netdev);
    if (!choice.gid)
        return fail_unknown(map, choice.owner, local, diag);
    const struct verbs_port *port = choice.owner;
    if (port->attr.state != IBV_PORT_ACTIVE)
        return fail_inactive(port, local, diag);
    warn_of(&choice, local);
    *place = (struct verbs_place){
        .device = port->device,
        .port = port->number,
        .infiniband = (uint8_t)is_infiniband(port),
        .grh = is_infiniband(port) && port->attr.flags & IBV_QPF_GRH_REQUIRED,
        .mtu = (uint8_t)port->attr.active_mtu,
        .gid_type = (uint8_t)choice.gid->type,
        .gid_index = choice.gid->index,
        .lid = port->attr.lid,
        .max_message = port->attr.max_msg_sz,
        .gid = choice.gid->gid,
    };
    return MN_OK;
}
