/* Inside of bench/host: one row of functions an ABI version, over that version's vtable. */
#ifndef MN_HOST_IMPL_H
#define MN_HOST_IMPL_H

#include "bench/host.h"
#include "plugin/abi/nccl_abi.h"

struct mn_host_version {
    int version;
    int (*init)(const void *table, ncclDebugLogger_t logger);
    int (*devices)(const void *table, int *ndev);
    int (*properties)(const void *table, int dev, struct mn_net_props *props);
    int (*listen)(const void *table, int dev, void *handle, void **comm);
    int (*connect)(const void *table, int dev, void *handle, void **comm);
    int (*accept)(const void *table, void *listen_comm, void **comm);
    int (*reg_mr)(const void *table, void *comm, void *data, size_t size, int type, void **mh);
    int (*dereg_mr)(const void *table, void *comm, void *mh);
    int (*isend)(const void *table, void *comm, void *data, size_t size, int tag, void *mh,
                 void **request);
    int (*irecv)(const void *table, void *comm, int n, void **data, size_t *sizes, int *tags,
                 void **mhs, void **request);
    int (*iflush)(const void *table, void *comm, int n, void **data, int *sizes, void **mhs,
                  void **request);
    int (*test)(const void *table, void *request, int *done, int *sizes);
    int (*close_send)(const void *table, void *comm);
    int (*close_recv)(const void *table, void *comm);
    int (*close_listen)(const void *table, void *comm);
};

struct mn_plugin {
    struct mn_plugin_info info;
    const struct mn_host_version *version;
    const void *table;
    void *library;
};

extern const struct mn_host_version mn_host_v8, mn_host_v9, mn_host_v10;

/* What v8 could carry in an int, and NCCL's own bound for it. */
#define MN_HOST_INT_BYTES ((size_t)1 << 30)

/* The functions whose signature no version from 8 to 10 changed, for a vtable type T. */
#define MN_HOST_COMMON(T)                                                                          \
    static int devices(const void *t, int *ndev)                                                   \
    {                                                                                              \
        return ((const T *)t)->devices(ndev);                                                      \
    }                                                                                              \
    static int listen_(const void *t, int dev, void *handle, void **comm)                          \
    {                                                                                              \
        return ((const T *)t)->listen(dev, handle, comm);                                          \
    }                                                                                              \
    static int accept_(const void *t, void *listen_comm, void **comm)                              \
    {                                                                                              \
        ncclNetDeviceHandle_v7_t *handle = NULL;                                                   \
        return ((const T *)t)->accept(listen_comm, comm, &handle);                                 \
    }                                                                                              \
    static int reg_mr(const void *t, void *comm, void *data, size_t size, int type, void **mh)     \
    {                                                                                              \
        return ((const T *)t)->regMr(comm, data, size, type, mh);                                  \
    }                                                                                              \
    static int dereg_mr(const void *t, void *comm, void *mh)                                       \
    {                                                                                              \
        return ((const T *)t)->deregMr(comm, mh);                                                  \
    }                                                                                              \
    static int iflush(const void *t, void *comm, int n, void **data, int *sizes, void **mhs,       \
                      void **request)                                                              \
    {                                                                                              \
        return ((const T *)t)->iflush(comm, n, data, sizes, mhs, request);                         \
    }                                                                                              \
    static int test(const void *t, void *request, int *done, int *sizes)                           \
    {                                                                                              \
        return ((const T *)t)->test(request, done, sizes);                                         \
    }                                                                                              \
    static int close_send(const void *t, void *comm)                                               \
    {                                                                                              \
        return ((const T *)t)->closeSend(comm);                                                    \
    }                                                                                              \
    static int close_recv(const void *t, void *comm)                                               \
    {                                                                                              \
        return ((const T *)t)->closeRecv(comm);                                                    \
    }                                                                                              \
    static int close_listen(const void *t, void *comm)                                             \
    {                                                                                              \
        return ((const T *)t)->closeListen(comm);                                                  \
    }

#define MN_HOST_ROW(N)                                                                             \
    const struct mn_host_version mn_host_v##N = {                                                  \
        .version = N,                                                                              \
        .init = init,                                                                              \
        .devices = devices,                                                                        \
        .properties = properties,                                                                  \
        .listen = listen_,                                                                         \
        .connect = connect_,                                                                       \
        .accept = accept_,                                                                         \
        .reg_mr = reg_mr,                                                                          \
        .dereg_mr = dereg_mr,                                                                      \
        .isend = isend,                                                                            \
        .irecv = irecv,                                                                            \
        .iflush = iflush,                                                                          \
        .test = test,                                                                              \
        .close_send = close_send,                                                                  \
        .close_recv = close_recv,                                                                  \
        .close_listen = close_listen,                                                              \
    }

/* Lower-case hexadecimal SHA-256 of a file (FIPS 180-4). */
enum mn_err mn_sha256_file(const char *path, char hex[65], struct mn_diag *diag);
void mn_sha256(const void *data, size_t len, uint8_t digest[32]);

/* Fields every properties struct from v8 on shares by name. */
#define MN_HOST_PROPERTIES(out, in)                                                                \
    do {                                                                                           \
        (out)->name = (in).name;                                                                   \
        (out)->pci_path = (in).pciPath;                                                            \
        (out)->guid = (in).guid;                                                                   \
        (out)->ptr_support = (in).ptrSupport;                                                      \
        (out)->reg_is_global = (in).regIsGlobal;                                                   \
        (out)->speed_mbps = (in).speed;                                                            \
        (out)->port = (in).port;                                                                   \
        (out)->latency_us = (in).latency;                                                          \
        (out)->max_comms = (in).maxComms;                                                          \
        (out)->max_recvs = (in).maxRecvs;                                                          \
        (out)->max_multi_request_size = 1;                                                         \
        (out)->rail_id = (out)->plane_id = -1;                                                     \
    } while (0)

#endif
