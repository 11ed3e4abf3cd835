/* Bodies that several ABI versions share: their parameters are the same at machine level. */
#ifndef MN_ABI_COMMON_H
#define MN_ABI_COMMON_H

#include "plugin/abi/nccl_abi.h"
#include "plugin/net.h"

/* Everything is built hidden; the vtables alone are seen (exports.map names them again). */
#define MN_EXPORT __attribute__((visibility("default")))

/* v2 to v9 */
ncclResult_t mn_abi_init(ncclDebugLogger_t logger);
/* v2 to v12 */
ncclResult_t mn_abi_devices(int *ndev);
ncclResult_t mn_abi_dereg_mr(void *comm, void *mhandle);
ncclResult_t mn_abi_test(void *request, int *done, int *sizes);
ncclResult_t mn_abi_close_send(void *send_comm);
ncclResult_t mn_abi_close_recv(void *recv_comm);
ncclResult_t mn_abi_close_listen(void *listen_comm);
/* v2 to v10 */
ncclResult_t mn_abi_listen(int dev, void *handle, void **listen_comm);
/* v5 to v12 */
ncclResult_t mn_abi_iflush(void *recv_comm, int n, void **data, int *sizes, void **mhandles,
                           void **request);
/* v7 to v9; the device handle belongs to the caller in every dialect and is never touched */
ncclResult_t mn_abi_connect(int dev, void *handle, void **send_comm,
                            ncclNetDeviceHandle_v7_t **send_dev_comm);
/* v7 to v12 */
ncclResult_t mn_abi_accept(void *listen_comm, void **recv_comm,
                           ncclNetDeviceHandle_v7_t **recv_dev_comm);
/* v8 to v12 */
ncclResult_t mn_abi_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle);
ncclResult_t mn_abi_properties_v8(int dev, ncclNetProperties_v8_t *props);
/* v9 to v10 */
ncclResult_t mn_abi_properties_v9(int dev, ncclNetProperties_v9_t *props);

#endif
