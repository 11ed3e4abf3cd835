/* The vtables of all versions side by side: one row a version. */
#ifndef MN_HOST_SLOTS_H
#define MN_HOST_SLOTS_H

#include "bench/host.h"
#include "plugin/abi/nccl_abi.h"

/* Slots of one name whose parameters changed have a member for each shape, named after the version
 * that brought it; one of them is filled. */
struct mn_host_slots {
    ncclResult_t (*init_v4)(ncclDebugLogger_t);
    ncclResult_t (*init_v10)(ncclDebugLogger_t, ncclProfilerCallback_t);
    ncclResult_t (*init_v11)(void **, uint64_t, ncclNetCommConfig_v11_t *, ncclDebugLogger_t,
                             ncclProfilerCallback_t);
    ncclResult_t (*devices)(int *);
    ncclResult_t (*listen_v4)(int, void *, void **);
    ncclResult_t (*listen_v11)(void *, int, void *, void **);
    ncclResult_t (*connect_v4)(int, void *, void **);
    ncclResult_t (*connect_v7)(int, void *, void **, ncclNetDeviceHandle_v7_t **);
    ncclResult_t (*connect_v10)(int, ncclNetCommConfig_v10_t *, void *, void **,
                                ncclNetDeviceHandle_v7_t **);
    ncclResult_t (*connect_v11)(void *, int, void *, void **, ncclNetDeviceHandle_v7_t **);
    ncclResult_t (*accept_v4)(void *, void **);
    ncclResult_t (*accept_v7)(void *, void **, ncclNetDeviceHandle_v7_t **);
    ncclResult_t (*reg_v4)(void *, void *, int, int, void **);
    ncclResult_t (*reg_v8)(void *, void *, size_t, int, void **);
    ncclResult_t (*reg_dmabuf)(void *, void *, size_t, int, uint64_t, int, void **);
    ncclResult_t (*dereg)(void *, void *);
    ncclResult_t (*isend_v4)(void *, void *, int, void *, void **);
    ncclResult_t (*isend_v5)(void *, void *, int, int, void *, void **);
    ncclResult_t (*isend_v9)(void *, void *, size_t, int, void *, void **);
    ncclResult_t (*isend_v10)(void *, void *, size_t, int, void *, void *, void **);
    ncclResult_t (*irecv_v4)(void *, void *, int, void *, void **);
    ncclResult_t (*irecv_v5)(void *, int, void **, int *, int *, void **, void **);
    ncclResult_t (*irecv_v9)(void *, int, void **, size_t *, int *, void **, void **);
    ncclResult_t (*irecv_v10)(void *, int, void **, size_t *, int *, void **, void **, void **);
    ncclResult_t (*iflush_v4)(void *, void *, int, void *, void **);
    ncclResult_t (*iflush_v5)(void *, int, void **, int *, void **, void **);
    ncclResult_t (*test)(void *, int *, int *);
    ncclResult_t (*close_send)(void *);
    ncclResult_t (*close_recv)(void *);
    ncclResult_t (*close_listen)(void *);
    ncclResult_t (*make_vdevice_v9)(int *, ncclNetVDeviceProps_v9_t *);
    ncclResult_t (*make_vdevice_v12)(int *, ncclNetVDeviceProps_v12_t *);
    ncclResult_t (*finalize)(void *);
    ncclResult_t (*set_attr)(void *, ncclNetAttr_v11_t *);
};

struct mn_host_version {
    int version;
    int blocks; /* connect and accept */
    /* A plugin may fill its table in init: read again after it. */
    void (*read)(const void *table, struct mn_host_slots *slots);
    /* props comes with the defaults of what the version does not say. */
    int (*properties)(const void *table, int dev, struct mn_plugin_props *props);
};

extern const struct mn_host_version mn_host_v4, mn_host_v5, mn_host_v6, mn_host_v7, mn_host_v8,
    mn_host_v9, mn_host_v10, mn_host_v11, mn_host_v12;
/* Newest first, NULL last. */
extern const struct mn_host_version *const mn_host_versions[];

#endif
