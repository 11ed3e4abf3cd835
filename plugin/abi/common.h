/* Bodies that several ABI versions share: their parameters are the same at machine level. */
#ifndef MN_ABI_COMMON_H
#define MN_ABI_COMMON_H

#include "plugin/abi/nccl_abi.h"
#include "plugin/net.h"

/* Everything is built hidden; the vtables alone are seen (exports.map names them again). */
#define MN_EXPORT __attribute__((visibility("default")))

/* By which NCCL_NET asks for it. */
#ifndef MN_PLUGIN_NAME
#define MN_PLUGIN_NAME "meshnet"
#endif

/* The fields of each version's properties, as initialisers. */
#define MN_PROPS_V4(p)                                                                             \
    .name = (p).name, .pciPath = (p).pci_path, .guid = (p).guid, .ptrSupport = (p).ptr_support,    \
    .speed = (p).speed_mbps, .port = (p).port, .maxComms = (p).max_comms
#define MN_PROPS_V5(p) MN_PROPS_V4(p), .latency = (p).latency_us, .maxRecvs = (p).max_recvs
#define MN_PROPS_V7(p)                                                                             \
    MN_PROPS_V5(p), .netDeviceType = NCCL_NET_DEVICE_HOST,                                         \
                    .netDeviceVersion = NCCL_NET_DEVICE_INVALID_VERSION
#define MN_PROPS_V8(p) MN_PROPS_V7(p), .regIsGlobal = (p).reg_is_global
#define MN_PROPS_V9(p, dev)                                                                        \
    MN_PROPS_V8(p), .forceFlush = (p).force_flush, .vProps = {.ndevs = 1, .devs = {dev}},          \
                    .maxP2pBytes = (p).max_p2p_bytes, .maxCollBytes = (p).max_coll_bytes
#define MN_PROPS_V11(p, dev) MN_PROPS_V9(p, dev), .maxMultiRequestSize = (p).max_multi_request_size
#define MN_PROPS_V12(p, dev) MN_PROPS_V11(p, dev), .railId = (p).rail_id, .planeId = (p).plane_id

/* v2 to v9 */
ncclResult_t mn_abi_init(ncclDebugLogger_t logger);
/* v11 to v12; attributes of v11 and v12 are one type, and so is the configuration. */
ncclResult_t mn_abi_init_v11(void **ctx, uint64_t comm_id, ncclNetCommConfig_v11_t *config,
                             ncclDebugLogger_t logger, ncclProfilerCallback_t profiler);
ncclResult_t mn_abi_finalize(void *ctx);
ncclResult_t mn_abi_set_net_attr(void *ctx, ncclNetAttr_v11_t *attr);
/* v2 to v12 */
ncclResult_t mn_abi_devices(int *ndev);
ncclResult_t mn_abi_dereg_mr(void *comm, void *mhandle);
ncclResult_t mn_abi_test(void *request, int *done, int *sizes);
ncclResult_t mn_abi_close_send(void *send_comm);
ncclResult_t mn_abi_close_recv(void *recv_comm);
ncclResult_t mn_abi_close_listen(void *listen_comm);
/* v5 to v10; v11 to v12 */
ncclResult_t mn_abi_listen(int dev, void *handle, void **listen_comm);
ncclResult_t mn_abi_listen_v11(void *ctx, int dev, void *handle, void **listen_comm);
/* v5 to v6; v7 to v9; v11 to v12. The device handle belongs to the caller in every dialect and is
 * never touched. */
ncclResult_t mn_abi_connect_v5(int dev, void *handle, void **send_comm);
ncclResult_t mn_abi_connect(int dev, void *handle, void **send_comm,
                            ncclNetDeviceHandle_v7_t **send_dev_comm);
ncclResult_t mn_abi_connect_v11(void *ctx, int dev, void *handle, void **send_comm,
                                ncclNetDeviceHandle_v11_t **send_dev_comm);
/* v5 to v6; v7 to v12 */
ncclResult_t mn_abi_accept_v5(void *listen_comm, void **recv_comm);
ncclResult_t mn_abi_accept(void *listen_comm, void **recv_comm,
                           ncclNetDeviceHandle_v7_t **recv_dev_comm);
/* v2 to v7; v8 to v12 */
ncclResult_t mn_abi_reg_mr_v4(void *comm, void *data, int size, int type, void **mhandle);
ncclResult_t mn_abi_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle);
/* v6 to v12. A table has it while GPU memory can be registered so, and NULL else: RCCL calls what
 * is there, whatever the properties say. MN_ABI_DMABUF(table) makes init keep the table's slot
 * right. */
typedef ncclResult_t mn_abi_dmabuf_fn(void *comm, void *data, size_t size, int type,
                                      uint64_t offset, int fd, void **mhandle);
void mn_abi_dmabuf_slot(mn_abi_dmabuf_fn **slot);
#define MN_ABI_DMABUF(table)                                                                       \
    __attribute__((constructor)) static void note_dmabuf_slot(void)                                \
    {                                                                                              \
        mn_abi_dmabuf_slot(&(table).regMrDmaBuf);                                                  \
    }
/* After an init. */
void mn_abi_dmabuf_set(void);
/* v5 to v8; v9; v10 to v12, whose profiler handles are not used. From v9 on *request may hold
 * NCCL_NET_OPTIONAL_RECV_COMPLETION on entry to irecv, a hint that is not used: without the
 * completion there is no proof of delivery. */
ncclResult_t mn_abi_isend_v5(void *comm, void *data, int size, int tag, void *mhandle,
                             void **request);
ncclResult_t mn_abi_irecv_v5(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles,
                             void **request);
ncclResult_t mn_abi_isend_v10(void *comm, void *data, size_t size, int tag, void *mhandle,
                              void *phandle, void **request);
ncclResult_t mn_abi_irecv_v10(void *comm, int n, void **data, size_t *sizes, int *tags,
                              void **mhandles, void **phandles, void **request);
/* v5 to v12 */
ncclResult_t mn_abi_iflush(void *recv_comm, int n, void **data, int *sizes, void **mhandles,
                           void **request);
/* v5 to v6; v9 to v10 */
ncclResult_t mn_abi_properties_v5(int dev, ncclNetProperties_v5_t *props);
ncclResult_t mn_abi_properties_v9(int dev, ncclNetProperties_v9_t *props);

#endif
