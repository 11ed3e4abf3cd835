#include "bench/check/raw.h"

#include <dlfcn.h>
#include <string.h>

#include "bench/check/remote.h"

static void read_slots(struct mn_raw *raw)
{
    for (const struct mn_host_version *const *v = mn_host_versions; *v; v++)
        if ((*v)->version == raw->version->version)
            (*v)->read(raw->vtable, &raw->slots);
}

int mn_raw_find(struct mn_raw *raw, int wanted)
{
    raw->vtable = NULL;
    for (const struct mn_raw_version *v = mn_raw_versions; v->version && !raw->vtable; v++) {
        if (wanted && wanted != v->version)
            continue;
        raw->version = v;
        raw->vtable = dlsym(raw->lib, v->symbol);
    }
    if (!raw->vtable)
        return 0;
    read_slots(raw);
    return 1;
}

/* Every version begins with the name. */
const char *mn_raw_name(const struct mn_raw *raw)
{
    return *(const char *const *)raw->vtable;
}

int mn_raw_has_dmabuf(const struct mn_raw *raw)
{
    return raw->slots.reg_dmabuf != NULL;
}

int mn_raw_has_v9(const struct mn_raw *raw)
{
    return raw->version->version >= 9;
}

static int any_init_as(struct mn_raw *raw, uint64_t comm_id, int traffic_class, mn_raw_log log)
{
    ncclDebugLogger_t logger = (ncclDebugLogger_t)(void (*)(void))log;
    ncclNetCommConfig_v11_t config = {.trafficClass = traffic_class};
    const struct mn_host_slots *s = &raw->slots;
    int result;

    if (s->init_v11)
        result = (int)s->init_v11(&raw->ctx, comm_id, &config, logger, NULL);
    else
        result = (int)(s->init_v10 ? s->init_v10(logger, NULL) : s->init_v4(logger));
    /* The caller's config is gone once init has returned. */
    *(volatile int *)&config.trafficClass = 0x7fffffff;
    read_slots(raw);
    return result;
}

static int any_finalize(const struct mn_raw *raw)
{
    return (int)raw->slots.finalize(raw->ctx);
}

static int any_devices(const struct mn_raw *raw, int *ndev)
{
    return (int)raw->slots.devices(ndev);
}

#define CALL_PROPERTIES(n)                                                                         \
    case n:                                                                                        \
        return (int)((const ncclNet_v##n##_t *)raw->vtable)->getProperties(dev, props)

static int any_properties(const struct mn_raw *raw, int dev, void *props)
{
    switch (raw->version->version) {
        CALL_PROPERTIES(4);
        CALL_PROPERTIES(5);
        CALL_PROPERTIES(6);
        CALL_PROPERTIES(7);
        CALL_PROPERTIES(8);
        CALL_PROPERTIES(9);
        CALL_PROPERTIES(10);
        CALL_PROPERTIES(11);
    default:
        return (int)((const ncclNet_v12_t *)raw->vtable)->getProperties(dev, props);
    }
}

static int any_listen(const struct mn_raw *raw, int dev, void *handle, void **comm)
{
    const struct mn_host_slots *s = &raw->slots;

    return (int)(s->listen_v11 ? s->listen_v11(raw->ctx, dev, handle, comm)
                               : s->listen_v4(dev, handle, comm));
}

static int any_connect(const struct mn_raw *raw, int dev, void *handle, void **comm,
                       void **device_handle)
{
    ncclNetCommConfig_v10_t config = {.trafficClass = NCCL_NET_TRAFFIC_CLASS_UNDEF};
    const struct mn_host_slots *s = &raw->slots;
    void *device = device_handle;

    if (raw->remote)
        return mn_remote_connect(raw->remote, dev, handle, comm, device_handle);
    if (s->connect_v11)
        return (int)s->connect_v11(raw->ctx, dev, handle, comm, device);
    if (s->connect_v10)
        return (int)s->connect_v10(dev, &config, handle, comm, device);
    return (int)(s->connect_v7 ? s->connect_v7(dev, handle, comm, device)
                               : s->connect_v4(dev, handle, comm));
}

static int any_accept(const struct mn_raw *raw, void *listen, void **comm, void **device_handle)
{
    const struct mn_host_slots *s = &raw->slots;

    return (int)(s->accept_v7 ? s->accept_v7(listen, comm, (void *)device_handle)
                              : s->accept_v4(listen, comm));
}

static int any_reg(const struct mn_raw *raw, void *comm, void *data, size_t size, void **mhandle)
{
    const struct mn_host_slots *s = &raw->slots;

    if (mn_remote_owns(raw->remote, comm))
        return mn_remote_reg(raw->remote, comm, data, size, mhandle);
    return (int)(s->reg_v8 ? s->reg_v8(comm, data, size, NCCL_PTR_HOST, mhandle)
                           : s->reg_v4(comm, data, (int)size, NCCL_PTR_HOST, mhandle));
}

static int any_dereg(const struct mn_raw *raw, void *comm, void *mhandle)
{
    if (mn_remote_owns(raw->remote, comm))
        return mn_remote_dereg(raw->remote, comm, mhandle);
    return (int)raw->slots.dereg(comm, mhandle);
}

static int any_isend(const struct mn_raw *raw, void *comm, void *data, size_t size, int tag,
                     void *mhandle, void **request)
{
    const struct mn_host_slots *s = &raw->slots;

    if (mn_remote_owns(raw->remote, comm))
        return mn_remote_isend(raw->remote, comm, data, size, tag, mhandle, request);
    if (s->isend_v10)
        return (int)s->isend_v10(comm, data, size, tag, mhandle, NULL, request);
    if (s->isend_v9)
        return (int)s->isend_v9(comm, data, size, tag, mhandle, request);
    return (int)(s->isend_v5 ? s->isend_v5(comm, data, (int)size, tag, mhandle, request)
                             : s->isend_v4(comm, data, (int)size, mhandle, request));
}

static int any_irecv(const struct mn_raw *raw, void *comm, int n, void **data, const size_t *sizes,
                     int *tags, void **mhandles, void **request)
{
    const struct mn_host_slots *s = &raw->slots;
    size_t wide[MN_RAW_MAX_RECVS];
    int narrow[MN_RAW_MAX_RECVS];
    void *phandles[MN_RAW_MAX_RECVS] = {NULL};

    for (int i = 0; i < n; i++) {
        wide[i] = sizes[i];
        narrow[i] = (int)sizes[i];
    }
    if (s->irecv_v10)
        return (int)s->irecv_v10(comm, n, data, wide, tags, mhandles, phandles, request);
    if (s->irecv_v9)
        return (int)s->irecv_v9(comm, n, data, wide, tags, mhandles, request);
    if (s->irecv_v5)
        return (int)s->irecv_v5(comm, n, data, narrow, tags, mhandles, request);
    return n == 1 ? (int)s->irecv_v4(comm, data[0], narrow[0], mhandles[0], request)
                  : (int)ncclInvalidArgument;
}

static int any_iflush(const struct mn_raw *raw, void *comm, int n, void **data, int *sizes,
                      void **mhandles, void **request)
{
    const struct mn_host_slots *s = &raw->slots;

    return (int)(s->iflush_v5 ? s->iflush_v5(comm, n, data, sizes, mhandles, request)
                              : s->iflush_v4(comm, data[0], sizes[0], mhandles[0], request));
}

static int any_test(const struct mn_raw *raw, void *request, int *done, int *sizes)
{
    if (mn_remote_owns(raw->remote, request))
        return mn_remote_test(raw->remote, request, done, sizes);
    return (int)raw->slots.test(request, done, sizes);
}

static int any_close_send(const struct mn_raw *raw, void *comm)
{
    if (mn_remote_owns(raw->remote, comm))
        return mn_remote_close(raw->remote, comm);
    return (int)raw->slots.close_send(comm);
}

static int any_close_recv(const struct mn_raw *raw, void *comm)
{
    return (int)raw->slots.close_recv(comm);
}

static int any_close_listen(const struct mn_raw *raw, void *comm)
{
    return (int)raw->slots.close_listen(comm);
}

int mn_raw_make_vdevice(const struct mn_raw *raw, int n, const int *devs, int *dev, int *called)
{
    const struct mn_host_slots *s = &raw->slots;
    ncclNetVDeviceProps_v9_t v9 = {.ndevs = n};
    ncclNetVDeviceProps_v12_t v12 = {.ndevs = n};

    *called = (s->make_vdevice_v9 || s->make_vdevice_v12) && n <= raw->version->max_vdevs;
    if (!*called)
        return ncclSuccess;
    if (s->make_vdevice_v12) {
        memcpy(v12.devs, devs, (size_t)n * sizeof *devs);
        return (int)s->make_vdevice_v12(dev, &v12);
    }
    memcpy(v9.devs, devs, (size_t)n * sizeof *devs);
    return (int)s->make_vdevice_v9(dev, &v9);
}

int mn_raw_set_attr(const struct mn_raw *raw, ncclNetAttr_v11_t *attr, int *called)
{
    *called = raw->slots.set_attr != NULL;
    return *called ? (int)raw->slots.set_attr(raw->ctx, attr) : (int)ncclSuccess;
}

/* What follows shows the judge where the rule is, and whether it comes on. */

void mn_raw_enter(struct mn_raw_watch *watch, enum mn_raw_call call)
{
    if (!watch)
        return;
    atomic_store_explicit(&watch->call, (int)call, memory_order_relaxed);
    atomic_fetch_add_explicit(&watch->inside[call], 1, memory_order_relaxed);
}

int mn_raw_leave(struct mn_raw_watch *watch, enum mn_raw_call call, int result, int moved)
{
    if (watch)
        atomic_fetch_sub_explicit(&watch->inside[call], 1, memory_order_relaxed);
    if (watch && (moved || result))
        atomic_fetch_add_explicit(&watch->moves, 1, memory_order_relaxed);
    return result;
}

static void enter(const struct mn_raw *raw, enum mn_raw_call call)
{
    mn_raw_enter(raw->watch, call);
}

static int leave(const struct mn_raw *raw, enum mn_raw_call call, int result, int moved)
{
    return mn_raw_leave(raw->watch, call, result, moved);
}

int mn_raw_init_as(struct mn_raw *raw, uint64_t comm_id, int traffic_class, mn_raw_log log)
{
    enter(raw, MN_RAW_INIT);
    return leave(raw, MN_RAW_INIT, any_init_as(raw, comm_id, traffic_class, log), 1);
}

int mn_raw_init(struct mn_raw *raw, mn_raw_log log)
{
    raw->ctx = NULL;
    return mn_raw_init_as(raw, 1, NCCL_NET_TRAFFIC_CLASS_UNDEF, log);
}

int mn_raw_finalize(const struct mn_raw *raw)
{
    enter(raw, MN_RAW_CLOSE);
    return leave(raw, MN_RAW_CLOSE, any_finalize(raw), 1);
}

int mn_raw_devices(const struct mn_raw *raw, int *ndev)
{
    enter(raw, MN_RAW_PROPERTIES);
    return leave(raw, MN_RAW_PROPERTIES, any_devices(raw, ndev), 1);
}

int mn_raw_properties(const struct mn_raw *raw, int dev, void *props)
{
    enter(raw, MN_RAW_PROPERTIES);
    return leave(raw, MN_RAW_PROPERTIES, any_properties(raw, dev, props), 1);
}

int mn_raw_listen(const struct mn_raw *raw, int dev, void *handle, void **comm)
{
    enter(raw, MN_RAW_CONNECT);
    return leave(raw, MN_RAW_CONNECT, any_listen(raw, dev, handle, comm), 1);
}

int mn_raw_connect(const struct mn_raw *raw, int dev, void *handle, void **comm,
                   void **device_handle)
{
    enter(raw, MN_RAW_CONNECT);
    int result = any_connect(raw, dev, handle, comm, device_handle);
    return leave(raw, MN_RAW_CONNECT, result, *comm != NULL);
}

int mn_raw_accept(const struct mn_raw *raw, void *listen, void **comm, void **device_handle)
{
    enter(raw, MN_RAW_CONNECT);
    int result = any_accept(raw, listen, comm, device_handle);
    return leave(raw, MN_RAW_CONNECT, result, *comm != NULL);
}

int mn_raw_reg(const struct mn_raw *raw, void *comm, void *data, size_t size, void **mhandle)
{
    enter(raw, MN_RAW_MEMORY);
    return leave(raw, MN_RAW_MEMORY, any_reg(raw, comm, data, size, mhandle), 1);
}

int mn_raw_dereg(const struct mn_raw *raw, void *comm, void *mhandle)
{
    enter(raw, MN_RAW_MEMORY);
    return leave(raw, MN_RAW_MEMORY, any_dereg(raw, comm, mhandle), 1);
}

int mn_raw_isend(const struct mn_raw *raw, void *comm, void *data, size_t size, int tag,
                 void *mhandle, void **request)
{
    enter(raw, MN_RAW_TRANSFER);
    int result = any_isend(raw, comm, data, size, tag, mhandle, request);
    return leave(raw, MN_RAW_TRANSFER, result, *request != NULL);
}

int mn_raw_irecv(const struct mn_raw *raw, void *comm, int n, void **data, const size_t *sizes,
                 int *tags, void **mhandles, void **request)
{
    enter(raw, MN_RAW_TRANSFER);
    int result = any_irecv(raw, comm, n, data, sizes, tags, mhandles, request);
    return leave(raw, MN_RAW_TRANSFER, result, *request != NULL);
}

int mn_raw_iflush(const struct mn_raw *raw, void *comm, int n, void **data, int *sizes,
                  void **mhandles, void **request)
{
    enter(raw, MN_RAW_TRANSFER);
    return leave(raw, MN_RAW_TRANSFER, any_iflush(raw, comm, n, data, sizes, mhandles, request), 1);
}

int mn_raw_test(const struct mn_raw *raw, void *request, int *done, int *sizes)
{
    enter(raw, MN_RAW_TRANSFER);
    int result = any_test(raw, request, done, sizes);
    return leave(raw, MN_RAW_TRANSFER, result, *done != 0);
}

int mn_raw_close_send(const struct mn_raw *raw, void *comm)
{
    enter(raw, MN_RAW_CLOSE);
    return leave(raw, MN_RAW_CLOSE, any_close_send(raw, comm), 1);
}

int mn_raw_close_recv(const struct mn_raw *raw, void *comm)
{
    enter(raw, MN_RAW_CLOSE);
    return leave(raw, MN_RAW_CLOSE, any_close_recv(raw, comm), 1);
}

int mn_raw_close_listen(const struct mn_raw *raw, void *comm)
{
    enter(raw, MN_RAW_CLOSE);
    return leave(raw, MN_RAW_CLOSE, any_close_listen(raw, comm), 1);
}
