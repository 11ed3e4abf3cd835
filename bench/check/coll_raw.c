#include "bench/check/coll_raw.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define OLDEST 8
#define NEWEST 12

/* v10 has v9's layout and v12 has v11's, but for the properties. */
#define V8(coll)  ((const ncclCollNet_v8_t *)(coll)->vtable)
#define V9(coll)  ((const ncclCollNet_v9_t *)(coll)->vtable)
#define V11(coll) ((const ncclCollNet_v11_t *)(coll)->vtable)
#define CALL(coll, name, ...)                                                                      \
    ((coll)->version >= 11  ? (int)V11(coll)->name(__VA_ARGS__)                                    \
     : (coll)->version >= 9 ? (int)V9(coll)->name(__VA_ARGS__)                                     \
                            : (int)V8(coll)->name(__VA_ARGS__))
/* Of three layouts with the same first members. */
#define HAS(coll, name)                                                                            \
    ((coll)->version >= 11  ? V11(coll)->name != NULL                                              \
     : (coll)->version >= 9 ? V9(coll)->name != NULL                                               \
                            : V8(coll)->name != NULL)

int mn_coll_raw_find(const struct mn_raw *raw, struct mn_coll_raw *coll)
{
    int newest = raw->version->version < NEWEST ? raw->version->version : NEWEST;

    memset(coll, 0, sizeof *coll);
    for (int version = newest; version >= OLDEST && !coll->vtable; version--) {
        char symbol[40];
        snprintf(symbol, sizeof symbol, "ncclCollNetPlugin_v%d", version);
        coll->vtable = dlsym(raw->lib, symbol);
        coll->version = version;
    }
    return coll->vtable != NULL;
}

const char *mn_coll_raw_name(const struct mn_coll_raw *coll)
{
    return V8(coll)->name;
}

const char *mn_coll_raw_absent(const struct mn_coll_raw *coll)
{
    const struct {
        const char *name;
        int there;
    } slots[] = {
        {"init", HAS(coll, init)},
        {"devices", HAS(coll, devices)},
        {"getProperties", HAS(coll, getProperties)},
        {"listen", HAS(coll, listen)},
        {"connect", HAS(coll, connect)},
        {"reduceSupport", HAS(coll, reduceSupport)},
        {"regMr", HAS(coll, regMr)},
        {"deregMr", HAS(coll, deregMr)},
        {"iallreduce", HAS(coll, iallreduce)},
        {"iallgather", HAS(coll, iallgather)},
        {"ireducescatter", HAS(coll, ireducescatter)},
        {"iflush", HAS(coll, iflush)},
        {"test", HAS(coll, test)},
        {"closeColl", HAS(coll, closeColl)},
        {"closeListen", HAS(coll, closeListen)},
        {"finalize", coll->version < 11 || V11(coll)->finalize},
    };

    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if (!slots[i].there)
            return slots[i].name;
    return NULL;
}

int mn_coll_raw_init(struct mn_coll_raw *coll, ncclDebugLogger_t logger)
{
    if (coll->version >= 11)
        return (int)V11(coll)->init(&coll->ctx, 0x5eed, logger);
    return coll->version >= 9 ? (int)V9(coll)->init(logger) : (int)V8(coll)->init(logger);
}

int mn_coll_raw_devices(const struct mn_coll_raw *coll, int *ndev)
{
    return CALL(coll, devices, ndev);
}

int mn_coll_raw_properties(const struct mn_coll_raw *coll, int dev, const char **name,
                           size_t *max_bytes)
{
    /* v11 and v12 differ before the limits: each by its own type. */
    union {
        ncclNetProperties_v8_t v8;
        ncclNetProperties_v9_t v9;
        ncclNetProperties_v11_t v11;
        ncclNetProperties_v12_t v12;
    } props;
    int result;

    memset(&props, 0, sizeof props);
    *max_bytes = NCCL_MAX_COLLNET_SIZE;
    switch (coll->version) {
    case 8:
        result = (int)V8(coll)->getProperties(dev, &props.v8);
        *name = props.v8.name;
        break;
    case 9:
    case 10:
        result = (int)V9(coll)->getProperties(dev, &props.v9);
        *name = props.v9.name;
        *max_bytes = props.v9.maxCollBytes;
        break;
    case 11:
        result = (int)V11(coll)->getProperties(dev, &props.v11);
        *name = props.v11.name;
        *max_bytes = props.v11.maxCollBytes;
        break;
    default:
        result = (int)((const ncclCollNet_v12_t *)coll->vtable)->getProperties(dev, &props.v12);
        *name = props.v12.name;
        *max_bytes = props.v12.maxCollBytes;
    }
    return result;
}

int mn_coll_raw_listen(const struct mn_coll_raw *coll, int dev, void *handle, void **listen)
{
    if (coll->version >= 11)
        return (int)V11(coll)->listen(coll->ctx, dev, handle, listen);
    return coll->version >= 9 ? (int)V9(coll)->listen(dev, handle, listen)
                              : (int)V8(coll)->listen(dev, handle, listen);
}

int mn_coll_raw_connect(const struct mn_coll_raw *coll, void **handles, int nranks, int rank,
                        void *listen, void **comm)
{
    return CALL(coll, connect, handles, nranks, rank, listen, comm);
}

int mn_coll_raw_support(const struct mn_coll_raw *coll, int type, int op, int *supported)
{
    return CALL(coll, reduceSupport, (ncclDataType_t)type, (ncclRedOp_t)op, supported);
}

int mn_coll_raw_reg(const struct mn_coll_raw *coll, void *comm, void *data, size_t size,
                    void **mhandle)
{
    return CALL(coll, regMr, comm, data, size, NCCL_PTR_HOST, mhandle);
}

int mn_coll_raw_dereg(const struct mn_coll_raw *coll, void *comm, void *mhandle)
{
    return CALL(coll, deregMr, comm, mhandle);
}

int mn_coll_raw_allreduce(const struct mn_coll_raw *coll, void *comm, void *send, void *recv,
                          size_t count, int type, int op, void *send_mhandle, void *recv_mhandle,
                          void **request)
{
    ncclDataType_t t = (ncclDataType_t)type;
    ncclRedOp_t o = (ncclRedOp_t)op;

    if (coll->version == 8)
        return (int)V8(coll)->iallreduce(comm, send, recv, (int)count, t, o, send_mhandle,
                                         recv_mhandle, request);
    return coll->version >= 11 ? (int)V11(coll)->iallreduce(comm, send, recv, count, t, o,
                                                            send_mhandle, recv_mhandle, request)
                               : (int)V9(coll)->iallreduce(comm, send, recv, count, t, o,
                                                           send_mhandle, recv_mhandle, request);
}

/* The padding behind v8's size is not zero: what reads it as v9's is found out. */
static ncclNetSGE_v8_t narrow(ncclNetSGE_v9_t part)
{
    ncclNetSGE_v8_t narrow;

    memset(&narrow, 0xa5, sizeof narrow);
    narrow.mhandle = part.mhandle;
    narrow.address = part.address;
    narrow.size = (uint32_t)part.size;
    return narrow;
}

int mn_coll_raw_allgather(const struct mn_coll_raw *coll, void *comm, void *send,
                          ncclNetSGE_v9_t part, size_t per_rank, size_t offset, size_t bytes,
                          void *send_mhandle, void **request)
{
    ncclNetSGE_v8_t part8 = narrow(part);

    if (coll->version == 8)
        return (int)V8(coll)->iallgather(comm, send, 1, &part8, per_rank, offset, bytes,
                                         send_mhandle, request);
    return coll->version >= 11 ? (int)V11(coll)->iallgather(comm, send, 1, &part, per_rank, offset,
                                                            bytes, send_mhandle, request)
                               : (int)V9(coll)->iallgather(comm, send, 1, &part, per_rank, offset,
                                                           bytes, send_mhandle, request);
}

int mn_coll_raw_reducescatter(const struct mn_coll_raw *coll, void *comm, ncclNetSGE_v9_t part,
                              void *recv, size_t per_rank, size_t offset, size_t bytes, int type,
                              int op, void *recv_mhandle, void **request)
{
    ncclNetSGE_v8_t part8 = narrow(part);
    ncclDataType_t t = (ncclDataType_t)type;
    ncclRedOp_t o = (ncclRedOp_t)op;

    if (coll->version == 8)
        return (int)V8(coll)->ireducescatter(comm, 1, &part8, recv, per_rank, offset, bytes, t, o,
                                             recv_mhandle, request);
    return coll->version >= 11
               ? (int)V11(coll)->ireducescatter(comm, 1, &part, recv, per_rank, offset, bytes, t, o,
                                                recv_mhandle, request)
               : (int)V9(coll)->ireducescatter(comm, 1, &part, recv, per_rank, offset, bytes, t, o,
                                               recv_mhandle, request);
}

int mn_coll_raw_test(const struct mn_coll_raw *coll, void *request, int *done, int *size)
{
    return CALL(coll, test, request, done, size);
}

int mn_coll_raw_close(const struct mn_coll_raw *coll, void *comm)
{
    return CALL(coll, closeColl, comm);
}

int mn_coll_raw_close_listen(const struct mn_coll_raw *coll, void *listen)
{
    return CALL(coll, closeListen, listen);
}

int mn_coll_raw_finalize(const struct mn_coll_raw *coll)
{
    return coll->version >= 11 ? (int)V11(coll)->finalize(coll->ctx) : 0;
}
