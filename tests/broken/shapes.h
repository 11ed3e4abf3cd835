/* The functions as the versions declare them; each is named after the oldest that does. */
#ifndef REF_SHAPES_H
#define REF_SHAPES_H

#include "tests/broken/ref.h"

/* properties.c */
ncclResult_t ref_properties_v4(int dev, ncclNetProperties_v4_t *p);
ncclResult_t ref_properties_v5(int dev, ncclNetProperties_v5_t *p);
ncclResult_t ref_properties_v7(int dev, ncclNetProperties_v7_t *p);
ncclResult_t ref_properties_v8(int dev, ncclNetProperties_v8_t *p);
ncclResult_t ref_properties_v9(int dev, ncclNetProperties_v9_t *p);
ncclResult_t ref_properties_v11(int dev, ncclNetProperties_v11_t *p);
ncclResult_t ref_properties_v12(int dev, ncclNetProperties_v12_t *p);
ncclResult_t ref_vdevice_v9(int *dev, ncclNetVDeviceProps_v9_t *props);
ncclResult_t ref_vdevice_v12(int *dev, ncclNetVDeviceProps_v12_t *props);

/* shapes.c */
ncclResult_t ref_init_v10(ncclDebugLogger_t logger, ncclProfilerCallback_t profiler);
ncclResult_t ref_init_v11(void **ctx, uint64_t comm_id, ncclNetCommConfig_v11_t *config,
                          ncclDebugLogger_t logger, ncclProfilerCallback_t profiler);
ncclResult_t ref_listen_v4(int dev, void *handle, void **comm);
ncclResult_t ref_listen_v11(void *ctx, int dev, void *handle, void **comm);
ncclResult_t ref_connect_v4(int dev, void *handle, void **comm);
ncclResult_t ref_connect_v5(int dev, void *handle, void **comm);
ncclResult_t ref_connect_v7(int dev, void *handle, void **comm, ncclNetDeviceHandle_v7_t **dh);
ncclResult_t ref_connect_v10(int dev, ncclNetCommConfig_v10_t *config, void *handle, void **comm,
                             ncclNetDeviceHandle_v10_t **dh);
ncclResult_t ref_connect_v11(void *ctx, int dev, void *handle, void **comm,
                             ncclNetDeviceHandle_v11_t **dh);
ncclResult_t ref_accept_v4(void *listen, void **comm);
ncclResult_t ref_accept_v5(void *listen, void **comm);
ncclResult_t ref_accept_v7(void *listen, void **comm, ncclNetDeviceHandle_v7_t **dh);
ncclResult_t ref_reg_v4(void *comm, void *data, int size, int type, void **mhandle);

ncclResult_t ref_isend_v4(void *comm, void *data, int size, void *mhandle, void **request);
ncclResult_t ref_isend_v5(void *comm, void *data, int size, int tag, void *mhandle, void **request);
ncclResult_t ref_isend_v9(void *comm, void *data, size_t size, int tag, void *mhandle,
                          void **request);
ncclResult_t ref_isend_v10(void *comm, void *data, size_t size, int tag, void *mhandle,
                           void *phandle, void **request);
ncclResult_t ref_irecv_v4(void *comm, void *data, int size, void *mhandle, void **request);
ncclResult_t ref_irecv_v5(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles,
                          void **request);
ncclResult_t ref_irecv_v9(void *comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
                          void **request);
ncclResult_t ref_irecv_v10(void *comm, int n, void **data, size_t *sizes, int *tags,
                           void **mhandles, void **phandles, void **request);
ncclResult_t ref_iflush_v4(void *comm, void *data, int size, void *mhandle, void **request);
ncclResult_t ref_iflush_v5(void *comm, int n, void **data, int *sizes, void **mhandles,
                           void **request);

#endif
