/* The functions as the versions declare them; each is named after the oldest that does. */
#ifndef ALT_SHAPES_H
#define ALT_SHAPES_H

#include "tests/broken/second/alt.h"

ncclResult_t alt_init_v10(ncclDebugLogger_t logger, ncclProfilerCallback_t profiler);
ncclResult_t alt_init_v11(void **ctx, uint64_t comm_id, ncclNetCommConfig_v11_t *config,
                          ncclDebugLogger_t logger, ncclProfilerCallback_t profiler);
ncclResult_t alt_properties_v4(int dev, ncclNetProperties_v4_t *p);
ncclResult_t alt_properties_v5(int dev, ncclNetProperties_v5_t *p);
ncclResult_t alt_properties_v7(int dev, ncclNetProperties_v7_t *p);
ncclResult_t alt_properties_v8(int dev, ncclNetProperties_v8_t *p);
ncclResult_t alt_properties_v9(int dev, ncclNetProperties_v9_t *p);
ncclResult_t alt_properties_v11(int dev, ncclNetProperties_v11_t *p);
ncclResult_t alt_properties_v12(int dev, ncclNetProperties_v12_t *p);
ncclResult_t alt_listen_v4(int dev, void *handle, void **comm);
ncclResult_t alt_listen_v11(void *ctx, int dev, void *handle, void **comm);
ncclResult_t alt_connect_v4(int dev, void *handle, void **comm);
ncclResult_t alt_connect_v5(int dev, void *handle, void **comm);
ncclResult_t alt_connect_v7(int dev, void *handle, void **comm, ncclNetDeviceHandle_v7_t **dh);
ncclResult_t alt_connect_v10(int dev, ncclNetCommConfig_v10_t *config, void *handle, void **comm,
                             ncclNetDeviceHandle_v10_t **dh);
ncclResult_t alt_connect_v11(void *ctx, int dev, void *handle, void **comm,
                             ncclNetDeviceHandle_v11_t **dh);
ncclResult_t alt_accept_v4(void *listen, void **comm);
ncclResult_t alt_accept_v5(void *listen, void **comm);
ncclResult_t alt_accept_v7(void *listen, void **comm, ncclNetDeviceHandle_v7_t **dh);
ncclResult_t alt_reg_v4(void *comm, void *data, int size, int type, void **mhandle);
ncclResult_t alt_isend_v4(void *comm, void *data, int size, void *mr, void **request);
ncclResult_t alt_isend_v5(void *comm, void *data, int size, int tag, void *mr, void **request);
ncclResult_t alt_isend_v9(void *comm, void *data, size_t size, int tag, void *mr, void **request);
ncclResult_t alt_isend_v10(void *comm, void *data, size_t size, int tag, void *mr, void *phandle,
                           void **request);
ncclResult_t alt_irecv_v4(void *comm, void *data, int size, void *mr, void **request);
ncclResult_t alt_irecv_v5(void *comm, int n, void **data, int *sizes, int *tags, void **mrs,
                          void **request);
ncclResult_t alt_irecv_v9(void *comm, int n, void **data, size_t *sizes, int *tags, void **mrs,
                          void **request);
ncclResult_t alt_irecv_v10(void *comm, int n, void **data, size_t *sizes, int *tags, void **mrs,
                           void **phandles, void **request);
ncclResult_t alt_flush_v4(void *comm, void *data, int size, void *mr, void **request);
ncclResult_t alt_flush_v5(void *comm, int n, void **data, int *sizes, void **mrs, void **request);
ncclResult_t alt_set_attr(void *ctx, ncclNetAttr_v11_t *attr);

#endif
