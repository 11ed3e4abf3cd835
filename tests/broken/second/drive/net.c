/* The calls as each version declares them. The structs of all versions have the same order: from v6
 * on there is one more behind regMr. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/broken/second/drive/drive.h"

typedef ncclResult_t (*call_t)(void);

enum slot {
    INIT,
    DEVICES,
    PROPERTIES,
    LISTEN,
    CONNECT,
    ACCEPT,
    REG,
    DEREG,
    ISEND,
    IRECV,
    IFLUSH,
    TEST,
    CLOSE_SEND,
    CLOSE_RECV,
    CLOSE_LISTEN
};
#define FINALIZE 19 /* v11 */

int null_device_handles;

#define CALL(n, slot, ...) ((ncclResult_t(*)(__VA_ARGS__))(n)->calls[at(n, slot)])

static int at(const struct net *n, enum slot slot)
{
    return (int)slot + (n->version >= 6 && slot > REG);
}

static void log_nothing(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                        const char *fmt, ...)
{
    (void)level;
    (void)flags;
    (void)file;
    (void)line;
    (void)fmt;
}

void net_open(struct net *n, const char *path, int version)
{
    char symbol[32];
    const void *table;

    snprintf(symbol, sizeof symbol, "ncclNetPlugin_v%d", version);
    *n = (struct net){.version = version, .lib = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    table = n->lib ? dlsym(n->lib, symbol) : NULL;
    if (!table) {
        fprintf(stderr, "%s: no %s: %s\n", path, symbol, dlerror());
        _Exit(2);
    }
    memcpy(&n->name, table, sizeof n->name);
    n->calls = (void (*const *)(void))((const char *)table + sizeof(char *));
}

ncclResult_t net_init(struct net *n, void **ctx, uint64_t id)
{
    ncclNetCommConfig_v11_t config = {NCCL_NET_TRAFFIC_CLASS_UNDEF};

    if (n->version >= 11)
        return CALL(n, INIT, void **, uint64_t, void *, ncclDebugLogger_t,
                    void *)(ctx, id, &config, log_nothing, NULL);
    *ctx = NULL;
    if (n->version == 10)
        return CALL(n, INIT, ncclDebugLogger_t, void *)(log_nothing, NULL);
    return CALL(n, INIT, ncclDebugLogger_t)(log_nothing);
}

void start(struct net *n)
{
    int count = 0;

    must(net_init(n, &n->ctx, 7), "init");
    must(net_devices(n, &count), "devices");
    if (count < 1)
        broken("no device");
}

ncclResult_t net_devices(struct net *n, int *count)
{
    return CALL(n, DEVICES, int *)(count);
}

ncclResult_t net_properties(struct net *n, int dev, void *props)
{
    return CALL(n, PROPERTIES, int, void *)(dev, props);
}

ncclResult_t net_listen(struct net *n, void *ctx, int dev, void *handle, void **comm)
{
    *comm = NULL;
    if (n->version >= 11)
        return CALL(n, LISTEN, void *, int, void *, void **)(ctx, dev, handle, comm);
    return CALL(n, LISTEN, int, void *, void **)(dev, handle, comm);
}

ncclResult_t net_connect(struct net *n, void *ctx, int dev, void *handle, void **comm)
{
    void *device = NULL, **devices = null_device_handles ? NULL : &device;
    ncclNetCommConfig_v10_t config = {NCCL_NET_TRAFFIC_CLASS_UNDEF};

    *comm = NULL;
    if (n->version >= 11)
        return CALL(n, CONNECT, void *, int, void *, void **, void **)(ctx, dev, handle, comm,
                                                                       devices);
    if (n->version == 10)
        return CALL(n, CONNECT, int, void *, void *, void **, void **)(dev, &config, handle, comm,
                                                                       devices);
    if (n->version >= 7)
        return CALL(n, CONNECT, int, void *, void **, void **)(dev, handle, comm, devices);
    return CALL(n, CONNECT, int, void *, void **)(dev, handle, comm);
}

ncclResult_t net_accept(struct net *n, void *listen, void **comm)
{
    void *device = NULL, **devices = null_device_handles ? NULL : &device;

    *comm = NULL;
    if (n->version >= 7)
        return CALL(n, ACCEPT, void *, void **, void **)(listen, comm, devices);
    return CALL(n, ACCEPT, void *, void **)(listen, comm);
}

ncclResult_t net_reg(struct net *n, void *comm, void *data, size_t size, void **mr)
{
    *mr = NULL;
    if (n->version >= 8)
        return CALL(n, REG, void *, void *, size_t, int, void **)(comm, data, size, NCCL_PTR_HOST,
                                                                  mr);
    return CALL(n, REG, void *, void *, int, int, void **)(comm, data, (int)size, NCCL_PTR_HOST,
                                                           mr);
}

ncclResult_t net_dereg(struct net *n, void *comm, void *mr)
{
    return CALL(n, DEREG, void *, void *)(comm, mr);
}

/* *request is what the caller left there, as in NCCL. */
ncclResult_t net_isend(struct net *n, void *comm, void *data, size_t size, int tag, void *mr,
                       void **request)
{
    if (n->version >= 10)
        return CALL(n, ISEND, void *, void *, size_t, int, void *, void *,
                    void **)(comm, data, size, tag, mr, NULL, request);
    if (n->version == 9)
        return CALL(n, ISEND, void *, void *, size_t, int, void *, void **)(comm, data, size, tag,
                                                                            mr, request);
    if (n->version >= 5)
        return CALL(n, ISEND, void *, void *, int, int, void *, void **)(comm, data, (int)size, tag,
                                                                         mr, request);
    return CALL(n, ISEND, void *, void *, int, void *, void **)(comm, data, (int)size, mr, request);
}

ncclResult_t net_irecv(struct net *n, void *comm, int k, void **data, const size_t *sizes,
                       const int *tags, void **mrs, void **request)
{
    void *phandles[8] = {NULL};
    size_t wide[8];
    int narrow[8], own_tags[8];

    for (int i = 0; i < k && i < 8; i++) {
        wide[i] = sizes[i];
        narrow[i] = (int)sizes[i];
        own_tags[i] = tags[i];
    }
    if (n->version >= 10)
        return CALL(n, IRECV, void *, int, void **, size_t *, int *, void **, void **,
                    void **)(comm, k, data, wide, own_tags, mrs, phandles, request);
    if (n->version == 9)
        return CALL(n, IRECV, void *, int, void **, size_t *, int *, void **,
                    void **)(comm, k, data, wide, own_tags, mrs, request);
    if (n->version >= 5)
        return CALL(n, IRECV, void *, int, void **, int *, int *, void **,
                    void **)(comm, k, data, narrow, own_tags, mrs, request);
    return CALL(n, IRECV, void *, void *, int, void *, void **)(comm, data[0], narrow[0], mrs[0],
                                                                request);
}

ncclResult_t net_flush(struct net *n, void *comm, void *data, int size, void *mr, void **request)
{
    if (n->version >= 5)
        return CALL(n, IFLUSH, void *, int, void **, int *, void **, void **)(comm, 1, &data, &size,
                                                                              &mr, request);
    return CALL(n, IFLUSH, void *, void *, int, void *, void **)(comm, data, size, mr, request);
}

ncclResult_t net_test(struct net *n, void *request, int *done, int *sizes)
{
    return CALL(n, TEST, void *, int *, int *)(request, done, sizes);
}

ncclResult_t net_close_send(struct net *n, void *comm)
{
    return CALL(n, CLOSE_SEND, void *)(comm);
}

ncclResult_t net_close_recv(struct net *n, void *comm)
{
    return CALL(n, CLOSE_RECV, void *)(comm);
}

ncclResult_t net_close_listen(struct net *n, void *comm)
{
    return CALL(n, CLOSE_LISTEN, void *)(comm);
}

ncclResult_t net_finalize(struct net *n, void *ctx)
{
    return n->version < 11 ? ncclSuccess : ((ncclResult_t(*)(void *))n->calls[FINALIZE])(ctx);
}

size_t props_size(int version)
{
    static const size_t sizes[] = {40, 48, 48, 56, 64, 104, 104, 112, 128};

    return sizes[version - 4];
}
