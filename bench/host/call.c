/* One function a call: which shape the version has, and what it cannot carry. */
#include <limits.h>
#include <string.h>

#include "bench/host/host_impl.h"

/* What RCCL leaves in *request before isend, and both libraries before some irecv. */
#define HINT ((void *)(uintptr_t)NCCL_NET_OPTIONAL_RECV_COMPLETION)

/* The device-handle argument. NCCL: the address of a pointer that is NULL. RCCL: the address of a
 * 4-byte channel number; a pointer written there runs over what lies beside it. */
struct device {
    ncclNetDeviceHandle_v7_t *pointer;
    _Alignas(8) uint32_t words[8];
};
#define CHANNEL 3

static ncclNetDeviceHandle_v7_t **device_begin(const struct mn_plugin *p, struct device *device)
{
    device->pointer = NULL;
    for (uint32_t i = 0; i < 8; i++)
        device->words[i] = i == CHANNEL ? 0 : 0x5ac35ac3 + i;
    return p->mode == MN_HOST_RCCL ? (void *)&device->words[CHANNEL] : &device->pointer;
}

static int device_end(const struct device *device, int result)
{
    for (uint32_t i = 0; i < 8; i++)
        if (device->words[i] != (i == CHANNEL ? 0 : 0x5ac35ac3 + i))
            return mn_host_broken("wrote through the device-handle argument, where RCCL has 4 "
                                  "bytes of its own");
    return result;
}

int mn_plugin_devices(struct mn_plugin *p, int *ndev)
{
    *ndev = 0;
    return (int)p->slots.devices(ndev);
}

int mn_plugin_properties(struct mn_plugin *p, int dev, struct mn_plugin_props *props)
{
    *props = (struct mn_plugin_props){
        .net = {.max_recvs = 1,
                .max_p2p_bytes = NCCL_MAX_NET_SIZE,
                .max_coll_bytes = NCCL_MAX_COLLNET_SIZE,
                .max_multi_request_size = 1,
                .rail_id = NCCL_NET_ID_UNDEF,
                .plane_id = NCCL_NET_ID_UNDEF},
        .device_type = NCCL_NET_DEVICE_HOST,
        .device_version = NCCL_NET_DEVICE_INVALID_VERSION,
        .n_devs = 1,
        .devs = {dev},
    };
    return p->library->version->properties(p->library->table, dev, props);
}

int mn_plugin_make_vdevice(struct mn_plugin *p, int n, const int *devs, int *dev)
{
    const struct mn_host_slots *s = &p->slots;
    ncclNetVDeviceProps_v9_t v9 = {.ndevs = n};
    ncclNetVDeviceProps_v12_t v12 = {.ndevs = n};
    int most = s->make_vdevice_v12 ? NCCL_NET_MAX_DEVS_PER_NIC_V12 : NCCL_NET_MAX_DEVS_PER_NIC_V11;

    *dev = -1;
    if (!s->make_vdevice_v9 && !s->make_vdevice_v12)
        return MN_HOST_ABSENT;
    if (n < 1 || n > most)
        return ncclInvalidArgument;
    for (int i = 0; i < n; i++) {
        v12.devs[i] = devs[i];
        if (i < NCCL_NET_MAX_DEVS_PER_NIC_V11)
            v9.devs[i] = devs[i];
    }
    return (int)(s->make_vdevice_v12 ? s->make_vdevice_v12(dev, &v12)
                                     : s->make_vdevice_v9(dev, &v9));
}

int mn_plugin_set_attr(struct mn_plugin *p, ncclNetAttr_v11_t *attr)
{
    return p->slots.set_attr ? (int)p->slots.set_attr(p->ctx, attr) : MN_HOST_ABSENT;
}

int mn_plugin_listen(struct mn_plugin *p, int dev, void *handle, void **comm)
{
    const struct mn_host_slots *s = &p->slots;

    *comm = NULL;
    memset(handle, 0, NCCL_NET_HANDLE_MAXSIZE);
    return (int)(s->listen_v11 ? s->listen_v11(p->ctx, dev, handle, comm)
                               : s->listen_v4(dev, handle, comm));
}

int mn_plugin_connect(struct mn_plugin *p, int dev, void *handle, void **comm)
{
    const struct mn_host_slots *s = &p->slots;
    /* Some plugins follow the config pointer without a look: it is never NULL. */
    ncclNetCommConfig_v10_t config = {p->traffic_class};
    struct device device;
    int result;

    *comm = NULL;
    if (p->library->block)
        return mn_host_block_connect(p->library->block, s, dev, handle, comm);
    ncclNetDeviceHandle_v7_t **arg = device_begin(p, &device);
    if (s->connect_v11)
        result = (int)s->connect_v11(p->ctx, dev, handle, comm, arg);
    else if (s->connect_v10)
        result = (int)s->connect_v10(dev, &config, handle, comm, arg);
    else if (s->connect_v7)
        result = (int)s->connect_v7(dev, handle, comm, arg);
    else
        result = (int)s->connect_v4(dev, handle, comm);
    return device_end(&device, result);
}

int mn_plugin_accept(struct mn_plugin *p, void *listen_comm, void **comm)
{
    const struct mn_host_slots *s = &p->slots;
    struct device device;

    *comm = NULL;
    if (p->library->block)
        return mn_host_block_accept(p->library->block, s, listen_comm, comm);
    if (s->accept_v4)
        return (int)s->accept_v4(listen_comm, comm);
    ncclNetDeviceHandle_v7_t **arg = device_begin(p, &device);
    return device_end(&device, (int)s->accept_v7(listen_comm, comm, arg));
}

int mn_plugin_reg_mr(struct mn_plugin *p, void *comm, void *data, size_t size, int type, void **mh)
{
    const struct mn_host_slots *s = &p->slots;

    *mh = NULL;
    if (s->reg_v8)
        return (int)s->reg_v8(comm, data, size, type, mh);
    if (size > INT_MAX)
        return ncclInvalidArgument;
    return (int)s->reg_v4(comm, data, (int)size, type, mh);
}

int mn_plugin_has_dmabuf(const struct mn_plugin *p)
{
    return p->slots.reg_dmabuf != NULL;
}

int mn_plugin_reg_dmabuf(struct mn_plugin *p, void *comm, void *data, size_t size, int type,
                         uint64_t offset, int fd, void **mh)
{
    *mh = NULL;
    if (!p->slots.reg_dmabuf)
        return MN_HOST_ABSENT;
    return (int)p->slots.reg_dmabuf(comm, data, size, type, offset, fd, mh);
}

int mn_plugin_dereg_mr(struct mn_plugin *p, void *comm, void *mh)
{
    return (int)p->slots.dereg(comm, mh);
}

/* NCCL would test what is left in the slot. */
static int posted(int result, void *const *request)
{
    if (!result && *request == HINT)
        return mn_host_broken("left in *request what was there on entry");
    return result;
}

int mn_plugin_isend(struct mn_plugin *p, void *comm, void *data, size_t size, int tag, void *mh,
                    void **request)
{
    const struct mn_host_slots *s = &p->slots;
    int rccl = p->mode == MN_HOST_RCCL && p->library->version->version >= 6;

    *request = rccl ? HINT : NULL;
    if (s->isend_v10)
        return posted((int)s->isend_v10(comm, data, size, tag, mh, NULL, request), request);
    if (s->isend_v9)
        return posted((int)s->isend_v9(comm, data, size, tag, mh, request), request);
    if (size > NCCL_MAX_NET_SIZE) {
        *request = NULL;
        return ncclInvalidArgument;
    }
    if (s->isend_v5)
        return posted((int)s->isend_v5(comm, data, (int)size, tag, mh, request), request);
    return (int)s->isend_v4(comm, data, (int)size, mh, request);
}

int mn_plugin_irecv(struct mn_plugin *p, void *comm, int n, void **data, size_t *sizes, int *tags,
                    void **mhs, void **request)
{
    const struct mn_host_slots *s = &p->slots;
    int narrow[MN_HOST_MAX_RECVS];
    void *phandles[MN_HOST_MAX_RECVS] = {NULL};
    int rccl = p->mode == MN_HOST_RCCL && n == 1;

    *request = NULL;
    if (n < 1 || n > (s->irecv_v4 ? 1 : MN_HOST_MAX_RECVS))
        return ncclInvalidArgument;
    if (s->irecv_v10 || s->irecv_v9) {
        *request = rccl ? HINT : NULL;
        int result = s->irecv_v10
                         ? (int)s->irecv_v10(comm, n, data, sizes, tags, mhs, phandles, request)
                         : (int)s->irecv_v9(comm, n, data, sizes, tags, mhs, request);
        return posted(result, request);
    }
    for (int i = 0; i < n; i++) {
        if (sizes[i] > NCCL_MAX_NET_SIZE)
            return ncclInvalidArgument;
        narrow[i] = (int)sizes[i];
    }
    if (s->irecv_v5)
        return (int)s->irecv_v5(comm, n, data, narrow, tags, mhs, request);
    return (int)s->irecv_v4(comm, data[0], narrow[0], mhs[0], request);
}

int mn_plugin_iflush(struct mn_plugin *p, void *comm, int n, void **data, int *sizes, void **mhs,
                     void **request)
{
    const struct mn_host_slots *s = &p->slots;

    *request = NULL;
    if (s->iflush_v5)
        return (int)s->iflush_v5(comm, n, data, sizes, mhs, request);
    if (!s->iflush_v4)
        return MN_HOST_ABSENT;
    if (n != 1)
        return ncclInvalidArgument;
    return (int)s->iflush_v4(comm, data[0], sizes[0], mhs[0], request);
}

int mn_plugin_test(struct mn_plugin *p, void *request, int *done, int *sizes)
{
    *done = 0;
    return (int)p->slots.test(request, done, sizes);
}

int mn_plugin_close_send(struct mn_plugin *p, void *comm)
{
    return (int)p->slots.close_send(comm);
}

int mn_plugin_close_recv(struct mn_plugin *p, void *comm)
{
    return (int)p->slots.close_recv(comm);
}

int mn_plugin_close_listen(struct mn_plugin *p, void *comm)
{
    if (p->library->block && mn_host_block_leave(p->library->block, comm))
        return ncclSuccess;
    return (int)p->slots.close_listen(comm);
}
