/* Devices, their one port, and its GID table. */
#include "tests/fakeverbs/fv.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#undef ibv_query_port

struct fv_context *fv_context_of(struct ibv_context *context)
{
    return (struct fv_context *)(void *)((char *)context -
                                         offsetof(struct fv_context, vctx.context));
}

static int listed;

/* Too late once the library is in use, as there. */
int ibv_fork_init(void)
{
    fv_lock();
    fv.counters[FV_FORK_INITS]++;
    int error = fv.config.forkless ? (int)fv.config.forkless : listed ? EINVAL : 0;
    fv_unlock();
    return error;
}

struct ibv_device **ibv_get_device_list(int *count)
{
    fv_lock();
    listed = 1;
    int n = fv.config.n_devices;
    struct ibv_device **list = calloc((size_t)n + 1, sizeof *list);
    for (int i = 0; list && i < n; i++)
        list[i] = &fv.devices[i].base;
    fv_unlock();
    if (count)
        *count = list ? n : 0;
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
    return htobe64(0x02fa4e00ff000000u + (uint64_t)((struct fv_device *)device - fv.devices));
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    const struct fv_config *c = &fv.config;
    memset(attr, 0, sizeof *attr);
    snprintf(attr->fw_ver, sizeof attr->fw_ver, "0.0.0");
    attr->node_guid = attr->sys_image_guid = ibv_get_device_guid(context->device);
    attr->max_mr_size = ~0ull;
    attr->page_size_cap = 0xfffff000;
    attr->vendor_id = 0xfa4e;
    attr->max_qp = (int)c->max_qp;
    attr->max_qp_wr = (int)c->max_qp_wr;
    attr->max_sge = attr->max_sge_rd = (int)c->max_sge;
    attr->max_cq = 65536;
    attr->max_cqe = (int)c->max_cqe;
    attr->max_mr = (int)c->max_mr;
    attr->max_pd = 65536;
    attr->max_qp_rd_atom = attr->max_qp_init_rd_atom =
        ((struct fv_device *)context->device)->config->bare ? 0 : (int)c->max_rd_atomic;
    attr->max_res_rd_atom = attr->max_qp_rd_atom * attr->max_qp;
    attr->atomic_cap = c->atomics ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
    attr->max_pkeys = 1;
    attr->local_ca_ack_delay = 15;
    attr->phys_port_cnt = 1;
    return 0;
}

static enum ibv_mtu mtu_code(long bytes)
{
    return bytes >= 4096   ? IBV_MTU_4096
           : bytes >= 2048 ? IBV_MTU_2048
           : bytes >= 1024 ? IBV_MTU_1024
           : bytes >= 512  ? IBV_MTU_512
                           : IBV_MTU_256;
}

static void set_speed(int gbps, struct ibv_port_attr *attr)
{
    static const struct {
        int gbps;
        uint8_t width, speed;
    } rows[] = {{10, 2, 1},  {20, 2, 2},   {25, 1, 32},  {40, 2, 4},
                {50, 1, 64}, {100, 2, 32}, {200, 2, 64}, {400, 2, 128}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].gbps == gbps) {
            attr->active_width = rows[i].width;
            attr->active_speed = rows[i].speed;
        }
    }
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *out,
                      size_t size)
{
    if (port != 1)
        return EINVAL;
    fv_control(FV_QUERY_PORT);
    fv_lock();
    const struct fv_device *device = fv_context_of(context)->device;
    struct ibv_port_attr attr = {
        .state = device->port_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = mtu_code(fv.config.mtu),
        .gid_tbl_len = FV_GIDS,
        .port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
        .max_msg_sz = (uint32_t)fv.config.max_msg,
        .pkey_tbl_len = 1,
        .max_vl_num = 1,
        .phys_state = device->port_up ? 5 : 3,
        .link_layer = fv.config.infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET,
        .lid = fv.config.infiniband ? (uint16_t)(device - fv.devices + 1) : 0,
        .flags = fv.config.infiniband == 2 ? IBV_QPF_GRH_REQUIRED : 0,
    };
    set_speed(device->config->gbps, &attr);
    fv_unlock();
    memset(out, 0, size);
    memcpy(out, &attr, size < sizeof attr ? size : sizeof attr);
    return 0;
}

/* The attributes of verbs 1.1 end before port_cap_flags2. */
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    return query_port(context, port, (struct ibv_port_attr *)attr,
                      offsetof(struct ibv_port_attr, port_cap_flags2));
}

void fv_gid_used(struct fv_device *device, int uses)
{
    device->gid_uses += uses;
    int shifted = fv.config.gidshift && device->gid_uses > fv.config.gidshift;
    if (shifted == device->shifted)
        return;
    device->shifted = shifted;
    for (struct fv_context *c = fv.contexts; c && !fv.config.gidmute; c = c->next)
        if (c->device == device)
            fv_event_put(c, (struct ibv_async_event){.element.port_num = 1,
                                                     .event_type = IBV_EVENT_GID_CHANGE});
}

/* Index 0 is the link-local address as RoCE v2; then come three entries an address: RoCE v1, a
 * hole, RoCE v2. A shifted table has everything but the first one further. */
int fv_gid_at(struct fv_device *device, int index, union ibv_gid *gid, int *type)
{
    memset(gid, 0, sizeof *gid);
    *type = fv.config.infiniband ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2;
    if (fv.config.infiniband && index > 0)
        return -1;
    if (index == 0) {
        gid->raw[0] = 0xfe, gid->raw[1] = 0x80;
        __be64 guid = ibv_get_device_guid(&device->base);
        memcpy(gid->raw + 8, &guid, sizeof guid);
        return 0;
    }
    int at = index - 1 - device->shifted;
    if (at < 0 || at / 3 >= device->config->n_addrs || at % 3 == 1)
        return -1;
    memcpy(gid->raw, device->config->addr[at / 3], sizeof gid->raw);
    *type = at % 3 == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
    return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    int type;
    if (port != 1 || index < 0 || index >= FV_GIDS) {
        errno = EINVAL;
        return -1;
    }
    fv_control(FV_QUERY_GIDS);
    fv_lock();
    struct fv_device *device = fv_context_of(context)->device;
    fv_gid_used(device, 1);
    if (fv_gid_at(device, index, gid, &type) != 0)
        memset(gid, 0, sizeof *gid);
    fv_unlock();
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
                             uint32_t flags, size_t entry_size)
{
    if (flags != 0 || entry_size != sizeof *entries)
        return -EINVAL;
    fv_control(FV_QUERY_GIDS);
    fv_lock();
    struct fv_device *device = fv_context_of(context)->device;
    fv_gid_used(device, 1);
    ssize_t n = 0;
    for (int i = 0; i < FV_GIDS; i++) {
        union ibv_gid gid;
        int type;
        if (fv_gid_at(device, i, &gid, &type) != 0)
            continue;
        if ((size_t)n == max) {
            n = -EINVAL;
            break;
        }
        entries[n++] = (struct ibv_gid_entry){
            .gid = gid,
            .gid_index = (uint32_t)i,
            .port_num = 1,
            .gid_type = (uint32_t)type,
            .ndev_ifindex = if_nametoindex(device->config->netdev),
        };
    }
    fv_unlock();
    return n;
}

void fv_port_set(struct fv_device *device, int up)
{
    if (device->port_up == up)
        return;
    device->port_up = up;
    for (int i = 0; i < fv.live_qps; i++) {
        struct fv_qp *qp = fv.live[i];
        if (qp->device == device) {
            atomic_store(&qp->wire->link_up, (uint32_t)up);
            fv_activate(qp);
        }
    }
    int told = !fv.config.portmute && strcmp(fv.config.untold, device->config->name) != 0;
    for (struct fv_context *c = fv.contexts; c && told; c = c->next)
        if (c->device == device)
            fv_event_put(c, (struct ibv_async_event){.element.port_num = 1,
                                                     .event_type = up ? IBV_EVENT_PORT_ACTIVE
                                                                      : IBV_EVENT_PORT_ERR});
}

void fv_loss_set(struct fv_device *device)
{
    for (int i = 0; i < fv.live_qps; i++) {
        struct fv_qp *qp = fv.live[i];
        if (qp->device != device ||
            atomic_exchange(&qp->wire->lost, device->config->lost) == device->config->lost)
            continue;
        fv_activate(qp);
        fv_bell(fv_peer(qp)); /* whose answers wait, too */
    }
}

struct ibv_context *ibv_open_device(struct ibv_device *base)
{
    struct fv_context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    if (fd < 0) {
        free(context);
        return NULL;
    }
    struct verbs_context *vctx = &context->vctx;
    vctx->query_port = query_port;
    vctx->sz = sizeof *vctx;
    vctx->context.device = base;
    vctx->context.ops.poll_cq = fv_poll_cq;
    vctx->context.ops.req_notify_cq = fv_req_notify_cq;
    vctx->context.ops.post_send = fv_post_send;
    vctx->context.ops.post_recv = fv_post_recv;
    vctx->context.cmd_fd = -1;
    vctx->context.async_fd = fd;
    vctx->context.num_comp_vectors = 1;
    vctx->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    pthread_mutex_init(&vctx->context.mutex, NULL);
    context->events_end = &context->events;
    fv_lock();
    context->device = (struct fv_device *)base;
    context->next = fv.contexts;
    fv.contexts = context;
    fv_unlock();
    if (fv_is_shared())
        fv_helper_start();
    return &vctx->context;
}

int ibv_close_device(struct ibv_context *base)
{
    struct fv_context *context = fv_context_of(base);
    fv_lock();
    if (context->children > 0)
        fv_die("ibv_close_device of %s, which still has %d protection domains or completion queues",
               base->device->name, context->children);
    struct fv_context **at = &fv.contexts;
    while (*at != context)
        at = &(*at)->next;
    *at = context->next;
    fv_event_drop(context, NULL);
    fv_unlock();
    fv_helper_stop();
    close(base->async_fd);
    pthread_mutex_destroy(&base->mutex);
    free(context);
    return 0;
}
