/* What libibverbs says of ports and GID tables, whatever it is: a GID that is chosen is the
 * address's own, on a port that is there; else there is a reason in words. */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/transport/verbs/device_impl.h"
#include "tests/fuzz/fuzz_kit.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define DEVICES 3
#define UNKNOWN 0xff /* entries: the library cannot tell */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fuzz_input in;

/* 0xff is no port that answers. */
static int query_port(struct ibv_context *context, uint8_t port,
                      struct _compat_ibv_port_attr *compat)
{
    struct ibv_port_attr *attr = (struct ibv_port_attr *)compat;
    unsigned kind = (unsigned)fuzz_take(&in, 1);

    (void)context;
    (void)port;
    if (kind == 0xff)
        return 5;
    attr->state = (enum ibv_port_state)(kind & 7);
    attr->link_layer = kind & 8 ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
    attr->flags = kind & 16 ? IBV_QPF_GRH_REQUIRED : 0;
    attr->gid_tbl_len = (int)(kind & 32 ? fuzz_take(&in, 1) : 8);
    attr->lid = (uint16_t)fuzz_take(&in, 2);
    return 0;
}

/* IPv4 and link-local addresses of which there are few, or any. */
static void take_gid(union ibv_gid *gid)
{
    unsigned kind = (unsigned)fuzz_take(&in, 1);

    memset(gid, 0, sizeof *gid);
    if (kind & 0x80) {
        fuzz_take_raw(&in, gid->raw, sizeof gid->raw);
    } else if (kind & 0x40) {
        gid->raw[0] = 0xfe, gid->raw[1] = 0x80;
        gid->raw[15] = kind & 3;
    } else {
        gid->raw[10] = gid->raw[11] = 0xff;
        gid->raw[12] = 10;
        gid->raw[15] = kind & 3;
    }
}

static ssize_t query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                               size_t max, uint32_t flags, size_t entry_size)
{
    size_t count = (size_t)fuzz_take(&in, 1);

    (void)context, (void)flags;
    if (entry_size != sizeof *entries)
        abort();
    if (count == UNKNOWN)
        return -95;
    for (size_t i = 0; i < count && i < max; i++) {
        entries[i].gid_index = (uint32_t)fuzz_take(&in, 2);
        entries[i].port_num = (uint32_t)fuzz_take(&in, 1);
        entries[i].gid_type = (uint32_t)fuzz_take(&in, 1);
        entries[i].ndev_ifindex = (uint32_t)fuzz_take(&in, 1);
        take_gid(&entries[i].gid);
    }
    return (ssize_t)count; /* more than there is room for: it must not be believed */
}

static const struct mn_ibv library = {.query_port_compat = query_port,
                                      .query_gid_table = query_gid_table};

static struct mn_local take_local(void)
{
    struct mn_local local = {.gid_index = -1};
    union ibv_gid gid;

    take_gid(&gid);
    if (gid.raw[10] == 0xff && gid.raw[11] == 0xff && !gid.raw[0]) {
        local.addr.family = AF_INET;
        memcpy(local.addr.bytes, gid.raw + 12, 4);
    } else {
        local.addr.family = AF_INET6;
        memcpy(local.addr.bytes, gid.raw, 16);
    }
    local.addr.prefix = 24;
    local.ifindex = (uint32_t)fuzz_take(&in, 1);
    unsigned named = (unsigned)fuzz_take(&in, 1);
    if (named & 0x80)
        snprintf(local.rdma_device, sizeof local.rdma_device, "fz%u", named & 3);
    local.rdma_port = (int)(named >> 4 & 3);
    if (named & 0x40)
        local.gid_index = (int)fuzz_take(&in, 2);
    snprintf(local.netdev, sizeof local.netdev, "eth%u", local.ifindex % 100);
    return local;
}

static int is_own(const union ibv_gid *gid, const struct mn_addr *addr)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (addr->family == AF_INET)
        return !memcmp(gid->raw, mapped, 12) && !memcmp(gid->raw + 12, addr->bytes, 4);
    return !memcmp(gid->raw, addr->bytes, 16);
}

static void check_map(const struct verbs_map *map)
{
    for (size_t i = 0; i < map->n_gids; i++) {
        const struct verbs_gid *gid = &map->gids[i];
        if (gid->port < map->ports || gid->port >= map->ports + map->n_ports)
            abort();
        if (i &&
            (gid[-1].port > gid->port || (gid[-1].port == gid->port && gid[-1].index > gid->index)))
            abort();
    }
}

static void check_place(const struct verbs_map *map, const struct mn_local *local)
{
    struct mn_diag diag = {.text = ""};
    struct verbs_choice choice;
    struct verbs_place place;

    verbs_choose(map, local, &choice);
    enum mn_err err = verbs_place_on(map, local, &place, &diag);
    if (err && !diag.text[0])
        abort();
    if (choice.owner && (choice.owner < map->ports || choice.owner >= map->ports + map->n_ports))
        abort();
    if (err)
        return;
    if (!choice.gid || choice.owner != choice.gid->port || !place.device ||
        choice.owner->attr.state != IBV_PORT_ACTIVE ||
        memcmp(place.gid.raw, choice.gid->gid.raw, sizeof place.gid.raw) != 0)
        abort();
    if (!place.infiniband && !is_own(&place.gid, &local->addr))
        abort();
}

static void check_table(const struct verbs_map *map, uint32_t ifindex)
{
    char text[200];
    size_t room = 1 + (size_t)fuzz_take(&in, 1) % sizeof text, len;

    verbs_map_table(map, map->n_ports && ifindex & 1 ? map->ports : NULL, ifindex / 2, text, room);
    len = strnlen(text, room);
    if (len == room || (len && text[len - 1] != '\n'))
        abort();
}

/* Devices that did not change have the same in the map that is made of this one. */
static void check_renewed(struct verbs_device *devices, int n, const struct verbs_map *map)
{
    struct mn_diag diag = {.text = ""};
    struct verbs_map again;
    uint32_t known = (uint32_t)fuzz_take(&in, 1) & ((1u << n) - 1), all = (1u << n) - 1;

    if (verbs_map_renew(devices, n, map, known, all, &again, &diag))
        abort();
    check_map(&again);
    if (known == all && (again.n_gids != map->n_gids || again.n_ports != map->n_ports))
        abort();
    verbs_map_free(&again);
}

static void be_silent(enum mn_log_level level, const char *file, int line, const char *text)
{
    (void)level, (void)file, (void)line, (void)text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct mn_host_source nowhere = {.sysfs = "/nonexistent"};
    struct verbs_device devices[DEVICES] = {{.ibv = &library}};
    struct ibv_context context = {.device = NULL};
    struct mn_diag diag = {.text = ""};
    struct verbs_map map;

    in = (struct fuzz_input){data, data + size};
    mn_log_set_sink(be_silent);
    int n = 1 + (int)(fuzz_take(&in, 1) % DEVICES);
    for (int i = 0; i < n; i++) {
        devices[i] = (struct verbs_device){.ibv = &library, .context = &context, .index = i};
        devices[i].attr.phys_port_cnt = (uint8_t)(fuzz_take(&in, 1) % 4);
        snprintf(devices[i].name, sizeof devices[i].name, "fz%d", i);
    }
    enum mn_err err = verbs_map_read(devices, n, &nowhere, &map, &diag);
    if (err && !diag.text[0])
        abort();
    check_map(&map);
    for (int i = 0; i < 4 && in.at < in.end; i++) {
        struct mn_local local = take_local();
        check_place(&map, &local);
        check_table(&map, local.ifindex);
    }
    if (!err)
        check_renewed(devices, n, &map);
    verbs_map_free(&map);
    return 0;
}
