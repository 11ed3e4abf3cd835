/* The RDMA devices of this process. */
#include "plugin/transport/verbs/device_impl.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/log.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct verbs_device all_devices[VERBS_MAX_DEVICES];
static int n_devices, opened;

/* iWARP has no write with immediate data as this transport needs it, and other transports no RC
 * queue pairs. */
static const char *why_not(enum ibv_transport_type transport)
{
    switch (transport) {
    case IBV_TRANSPORT_IB: /* RoCE, too */
        return NULL;
    case IBV_TRANSPORT_IWARP:
        return "it speaks iWARP";
    default:
        return "it has no reliable connected queue pairs";
    }
}

static int has_usable_port(const struct verbs_device *device)
{
    for (int port = 1; port <= device->attr.phys_port_cnt; port++) {
        struct ibv_port_attr attr;
        /* Kernels too old to say have InfiniBand alone. */
        if (mn_ibv_query_port(device->ibv, device->context, (uint8_t)port, &attr) == 0 &&
            (attr.link_layer == IBV_LINK_LAYER_ETHERNET ||
             attr.link_layer == IBV_LINK_LAYER_INFINIBAND ||
             attr.link_layer == IBV_LINK_LAYER_UNSPECIFIED))
            return 1;
    }
    return 0;
}

/* Fills all but the index. */
static int open_one(const struct mn_ibv *ibv, struct ibv_device *listed,
                    struct verbs_device *device)
{
    memset(device, 0, sizeof *device);
    device->ibv = ibv;
    mn_strlcpy(device->name, ibv->get_device_name(listed), sizeof device->name);
    const char *reason = why_not(listed->transport_type);
    if (reason) {
        MN_INFO("RDMA device %s is left out: %s", device->name, reason);
        return 0;
    }
    device->context = ibv->open_device(listed);
    if (!device->context) {
        MN_WARN("RDMA device %s cannot be opened (%s) and is left out; in a container, pass "
                "/dev/infiniband through",
                device->name, strerror(errno));
        return 0;
    }
    int err = ibv->query_device(device->context, &device->attr);
    if (err != 0) {
        MN_WARN("RDMA device %s does not tell its limits (%s) and is left out", device->name,
                strerror(err > 0 ? err : errno));
    } else if (!has_usable_port(device)) {
        MN_INFO("RDMA device %s is left out: no port of its %d is Ethernet or InfiniBand",
                device->name, device->attr.phys_port_cnt);
    } else {
        device->pd = ibv->alloc_pd(device->context);
        if (device->pd)
            return 1;
        MN_WARN("RDMA device %s gives no protection domain (%s) and is left out", device->name,
                strerror(errno));
    }
    ibv->close_device(device->context);
    return 0;
}

int verbs_devices_open(const struct mn_ibv *ibv, struct verbs_device *devices, int max)
{
    int listed = 0, n = 0;
    struct ibv_device **list = ibv->get_device_list(&listed);
    if (!list) {
        MN_INFO("libibverbs %s lists no RDMA device (%s)", ibv->version, strerror(errno));
        return 0;
    }
    for (int i = 0; i < listed; i++) {
        if (n == max) {
            MN_WARN("%d RDMA devices are in use; %s and what follows are left out", max,
                    ibv->get_device_name(list[i]));
            break;
        }
        if (open_one(ibv, list[i], &devices[n])) {
            devices[n].index = n;
            n++;
        }
    }
    ibv->free_device_list(list);
    return n;
}

static void open_all(void)
{
    struct mn_diag diag;
    const struct mn_ibv *ibv = mn_ibv_open(&diag);
    if (!ibv) {
        MN_INFO("no RDMA: %s", diag.text);
        return;
    }
    n_devices = verbs_devices_open(ibv, all_devices, VERBS_MAX_DEVICES);
    if (n_devices > 0)
        verbs_events_start(all_devices, n_devices);
}

int verbs_devices(struct verbs_device **devices)
{
    pthread_mutex_lock(&lock);
    if (!opened)
        open_all();
    opened = 1;
    int n = n_devices;
    pthread_mutex_unlock(&lock);
    *devices = all_devices;
    return n;
}

void verbs_devices_close(struct verbs_device *devices, int n)
{
    for (int i = 0; i < n; i++) {
        int error = devices[i].ibv->dealloc_pd(devices[i].pd);
        if (!error)
            error = devices[i].ibv->close_device(devices[i].context);
        if (error)
            MN_WARN("RDMA device %s cannot be closed: %s", devices[i].name,
                    strerror(error > 0 ? error : errno));
    }
}

void verbs_devices_quit(void)
{
    pthread_mutex_lock(&lock);
    verbs_events_stop();
    verbs_cache_forget();
    verbs_devices_close(all_devices, n_devices);
    n_devices = opened = 0;
    pthread_mutex_unlock(&lock);
}
