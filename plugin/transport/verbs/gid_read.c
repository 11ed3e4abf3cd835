/* The ports and GID tables of the devices, as they are now. */
#include "plugin/transport/verbs/device_impl.h"

#include <stdlib.h>
#include <string.h>

static enum mn_err make_ports(const struct verbs_device *devices, int n, struct verbs_map *map,
                              struct mn_diag *diag)
{
    size_t max = 0;
    for (int i = 0; i < n; i++)
        max += devices[i].attr.phys_port_cnt;
    map->ports = calloc(max ? max : 1, sizeof *map->ports);
    return map->ports ? MN_OK : mn_fail(diag, MN_ERR_NOMEM, "no memory for the RDMA ports");
}

static enum mn_err read_ports(struct verbs_device *devices, int n, struct verbs_map *map,
                              struct mn_diag *diag)
{
    enum mn_err err = make_ports(devices, n, map, diag);
    if (err)
        return err;
    for (int i = 0; i < n; i++) {
        for (int number = 1; number <= devices[i].attr.phys_port_cnt; number++) {
            struct verbs_port *port = &map->ports[map->n_ports];
            port->device = &devices[i];
            port->number = (uint8_t)number;
            if (mn_ibv_query_port(devices[i].ibv, devices[i].context, port->number, &port->attr) ==
                0)
                map->n_ports++;
        }
    }
    return MN_OK;
}

static const struct verbs_port *find_port(const struct verbs_map *map, const char *device,
                                          uint32_t number)
{
    for (size_t i = 0; i < map->n_ports; i++)
        if (map->ports[i].number == number && strcmp(map->ports[i].device->name, device) == 0)
            return &map->ports[i];
    return NULL;
}

/* Room for n more. */
static struct verbs_gid *make_room(struct verbs_map *map, size_t n, struct mn_diag *diag)
{
    struct verbs_gid *grown = reallocarray(map->gids, map->n_gids + n, sizeof *grown);
    if (!grown) {
        mn_fail(diag, MN_ERR_NOMEM, "no memory for %zu GIDs", map->n_gids + n);
        return NULL;
    }
    map->gids = grown;
    return grown + map->n_gids;
}

static enum mn_gid_type type_of(const struct verbs_port *port, uint32_t type)
{
    if (port->attr.link_layer != IBV_LINK_LAYER_ETHERNET)
        return MN_GID_IB;
    /* Older kernels call RoCE v1 "IB". */
    return type == IBV_GID_TYPE_ROCE_V2 ? MN_GID_ROCE_V2 : MN_GID_ROCE_V1;
}

/* *known = 0: the library or the kernel cannot tell. */
static enum mn_err ask_device(const struct verbs_device *device, struct verbs_map *map, int *known,
                              struct mn_diag *diag)
{
    /* The call answers for all ports at once, and refuses less room than they may need. */
    size_t max = 1;
    for (size_t i = 0; i < map->n_ports; i++)
        if (map->ports[i].device == device && map->ports[i].attr.gid_tbl_len > 0)
            max += (size_t)map->ports[i].attr.gid_tbl_len;
    struct ibv_gid_entry *entries = calloc(max, sizeof *entries);
    if (!entries)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for the GID table of %s", device->name);
    ssize_t count = device->ibv->query_gid_table(device->context, entries, max, 0, sizeof *entries);
    enum mn_err err = MN_OK;
    *known = count >= 0;
    struct verbs_gid *gid = count > 0 ? make_room(map, (size_t)count, diag) : NULL;
    if (count > 0 && !gid)
        err = MN_ERR_NOMEM;
    for (ssize_t i = 0; gid && i < count && (size_t)i < max; i++) {
        const struct verbs_port *port = find_port(map, device->name, entries[i].port_num);
        if (!port)
            continue;
        *gid++ = (struct verbs_gid){port, (uint16_t)entries[i].gid_index,
                                    type_of(port, entries[i].gid_type), entries[i].ndev_ifindex,
                                    entries[i].gid};
        map->n_gids++;
    }
    free(entries);
    return err;
}

static enum mn_err take_sysfs(const struct mn_host *host, const struct verbs_device *device,
                              struct verbs_map *map, struct mn_diag *diag)
{
    for (size_t i = 0; i < host->n_rdma; i++) {
        const struct mn_rdma_port *from = &host->rdma[i];
        const struct verbs_port *port = strcmp(from->device, device->name) == 0
                                            ? find_port(map, device->name, (uint32_t)from->port)
                                            : NULL;
        if (!port || from->n_gids == 0)
            continue;
        struct verbs_gid *gid = make_room(map, from->n_gids, diag);
        if (!gid)
            return MN_ERR_NOMEM;
        for (size_t k = 0; k < from->n_gids; k++) {
            const struct mn_nic *nic = mn_host_nic(host, from->gids[k].netdev);
            gid[k] = (struct verbs_gid){port,
                                        (uint16_t)from->gids[k].index,
                                        from->gids[k].type,
                                        nic ? (uint32_t)nic->ifindex : 0,
                                        {{0}}};
            memcpy(gid[k].gid.raw, from->gids[k].raw, sizeof gid[k].gid.raw);
        }
        map->n_gids += from->n_gids;
    }
    return MN_OK;
}

/* All devices, in their order, so that the map does not depend on who could tell. */
static enum mn_err read_gids(struct verbs_device *devices, int n, const struct mn_host_source *src,
                             struct verbs_map *map, struct mn_diag *diag)
{
    struct mn_host host = {0};
    int host_read = 0;
    enum mn_err err = MN_OK;
    for (int i = 0; i < n && err == MN_OK; i++) {
        int known = 0;
        err = ask_device(&devices[i], map, &known, diag);
        if (err != MN_OK || known)
            continue;
        if (!host_read)
            err = mn_host_read(src, &host, diag);
        host_read = 1;
        if (err == MN_OK)
            err = take_sysfs(&host, &devices[i], map, diag);
    }
    if (host_read)
        mn_host_free(&host);
    return err;
}

static int by_place(const void *a, const void *b)
{
    const struct verbs_gid *x = a, *y = b;
    if (x->port != y->port)
        return x->port < y->port ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

enum mn_err verbs_map_read(struct verbs_device *devices, int n, const struct mn_host_source *src,
                           struct verbs_map *map, struct mn_diag *diag)
{
    memset(map, 0, sizeof *map);
    enum mn_err err = read_ports(devices, n, map, diag);
    if (err == MN_OK)
        err = read_gids(devices, n, src, map, diag);
    if (map->n_gids > 1)
        qsort(map->gids, map->n_gids, sizeof *map->gids, by_place);
    return err;
}

/* What a map has of one device, behind what is in another; whose ports have room. */
static enum mn_err append(struct verbs_map *to, const struct verbs_map *from,
                          const struct verbs_device *device, struct mn_diag *diag)
{
    struct verbs_gid *gid = from->n_gids ? make_room(to, from->n_gids, diag) : NULL;
    if (from->n_gids && !gid)
        return MN_ERR_NOMEM;
    for (size_t i = 0; i < from->n_ports; i++)
        if (from->ports[i].device == device)
            to->ports[to->n_ports++] = from->ports[i];
    for (size_t i = 0; i < from->n_gids; i++) {
        if (from->gids[i].port->device != device)
            continue;
        *gid = from->gids[i];
        gid++->port = find_port(to, device->name, from->gids[i].port->number);
        to->n_gids++;
    }
    return MN_OK;
}

enum mn_err verbs_map_renew(struct verbs_device *devices, int n, const struct verbs_map *old,
                            uint32_t known, uint32_t wanted, struct verbs_map *map,
                            struct mn_diag *diag)
{
    memset(map, 0, sizeof *map);
    enum mn_err err = make_ports(devices, n, map, diag);
    for (int i = 0; i < n && err == MN_OK; i++) {
        if (known >> i & 1) {
            err = append(map, old, &devices[i], diag);
        } else if (wanted >> i & 1) {
            struct verbs_map fresh;
            err = verbs_map_read(&devices[i], 1, NULL, &fresh, diag);
            if (err == MN_OK)
                err = append(map, &fresh, &devices[i], diag);
            verbs_map_free(&fresh);
        }
    }
    return err;
}

void verbs_map_free(struct verbs_map *map)
{
    free(map->ports);
    free(map->gids);
    memset(map, 0, sizeof *map);
}
