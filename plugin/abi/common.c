#include <string.h>

#include "plugin/abi/common.h"

ncclResult_t mn_abi_init(ncclDebugLogger_t logger)
{
    void *opaque;

    _Static_assert(sizeof opaque == sizeof logger, "function pointers fit data pointers");
    memcpy(&opaque, &logger, sizeof opaque);
    return (ncclResult_t)mn_net_init(opaque);
}

ncclResult_t mn_abi_devices(int *ndev)
{
    return (ncclResult_t)mn_net_devices(ndev);
}

ncclResult_t mn_abi_dereg_mr(void *comm, void *mhandle)
{
    return (ncclResult_t)mn_net_dereg_mr(comm, mhandle);
}

ncclResult_t mn_abi_test(void *request, int *done, int *sizes)
{
    return (ncclResult_t)mn_net_test(request, done, sizes);
}

ncclResult_t mn_abi_close_send(void *send_comm)
{
    return (ncclResult_t)mn_net_close_send(send_comm);
}

ncclResult_t mn_abi_close_recv(void *recv_comm)
{
    return (ncclResult_t)mn_net_close_recv(recv_comm);
}

ncclResult_t mn_abi_close_listen(void *listen_comm)
{
    return (ncclResult_t)mn_net_close_listen(listen_comm);
}

ncclResult_t mn_abi_listen(int dev, void *handle, void **listen_comm)
{
    return (ncclResult_t)mn_net_listen(NULL, dev, handle, listen_comm);
}

ncclResult_t mn_abi_iflush(void *recv_comm, int n, void **data, int *sizes, void **mhandles,
                           void **request)
{
    return (ncclResult_t)mn_net_iflush(recv_comm, n, data, sizes, mhandles, request);
}

ncclResult_t mn_abi_connect(int dev, void *handle, void **send_comm,
                            ncclNetDeviceHandle_v7_t **send_dev_comm)
{
    (void)send_dev_comm;
    return (ncclResult_t)mn_net_connect(NULL, dev, NCCL_NET_TRAFFIC_CLASS_UNDEF, handle, send_comm);
}

ncclResult_t mn_abi_accept(void *listen_comm, void **recv_comm,
                           ncclNetDeviceHandle_v7_t **recv_dev_comm)
{
    (void)recv_dev_comm;
    return (ncclResult_t)mn_net_accept(listen_comm, recv_comm);
}

ncclResult_t mn_abi_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
    return (ncclResult_t)mn_net_reg_mr(comm, data, size, type, mhandle);
}

ncclResult_t mn_abi_properties_v9(int dev, ncclNetProperties_v9_t *props)
{
    struct mn_net_props p;
    ncclResult_t result = (ncclResult_t)mn_net_properties(dev, &p);

    if (result != ncclSuccess)
        return result;
    *props = (ncclNetProperties_v9_t){
        .name = p.name,
        .pciPath = p.pci_path,
        .guid = p.guid,
        .ptrSupport = p.ptr_support,
        .regIsGlobal = p.reg_is_global,
        .forceFlush = p.force_flush,
        .speed = p.speed_mbps,
        .port = p.port,
        .latency = p.latency_us,
        .maxComms = p.max_comms,
        .maxRecvs = p.max_recvs,
        .netDeviceType = NCCL_NET_DEVICE_HOST,
        .netDeviceVersion = NCCL_NET_DEVICE_INVALID_VERSION,
        .vProps = {.ndevs = 1, .devs = {dev}},
        .maxP2pBytes = p.max_p2p_bytes,
        .maxCollBytes = p.max_coll_bytes,
    };
    return ncclSuccess;
}

ncclResult_t mn_abi_properties_v8(int dev, ncclNetProperties_v8_t *props)
{
    ncclNetProperties_v9_t p;
    ncclResult_t result = mn_abi_properties_v9(dev, &p);

    if (result != ncclSuccess)
        return result;
    *props = (ncclNetProperties_v8_t){
        .name = p.name,
        .pciPath = p.pciPath,
        .guid = p.guid,
        .ptrSupport = p.ptrSupport,
        .regIsGlobal = p.regIsGlobal,
        .speed = p.speed,
        .port = p.port,
        .latency = p.latency,
        .maxComms = p.maxComms,
        .maxRecvs = p.maxRecvs,
        .netDeviceType = p.netDeviceType,
        .netDeviceVersion = p.netDeviceVersion,
    };
    return ncclSuccess;
}
