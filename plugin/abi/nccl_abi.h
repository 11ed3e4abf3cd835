/* The ncclNet plugin ABI, versions 8 to 10, in our own words: what NCCL and RCCL expect behind the
 * symbols ncclNetPlugin_vN. Layout facts from NCCL's src/include/plugin/net headers (2.20 to 2.27);
 * each is asserted below. LP64, natural alignment. */
#ifndef MN_NCCL_ABI_H
#define MN_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6
} ncclResult_t;

typedef enum {
    NCCL_LOG_NONE = 0,
    NCCL_LOG_VERSION = 1,
    NCCL_LOG_WARN = 2,
    NCCL_LOG_INFO = 3,
    NCCL_LOG_ABORT = 4,
    NCCL_LOG_TRACE = 5
} ncclDebugLogLevel;

/* Subsystem bits a network plugin uses; equal in every release. */
#define NCCL_INIT 0x1ul
#define NCCL_NET  0x10ul

#define NCCL_PTR_HOST   0x1
#define NCCL_PTR_CUDA   0x2
#define NCCL_PTR_DMABUF 0x4

#define NCCL_NET_HANDLE_MAXSIZE           128
#define NCCL_NET_MAX_REQUESTS             32
#define NCCL_NET_OPTIONAL_RECV_COMPLETION 0x1 /* v9: may stand in *request on entry to irecv */
#define NCCL_NET_TRAFFIC_CLASS_UNDEF      (-1)

typedef void (*ncclDebugLogger_t)(ncclDebugLogLevel level, unsigned long flags, const char *file,
                                  int line, const char *fmt, ...);
typedef ncclResult_t (*ncclProfilerCallback_t)(void **eHandle, int type, void *phandle,
                                               int64_t pluginId, void *extData);

typedef enum { NCCL_NET_DEVICE_HOST = 0, NCCL_NET_DEVICE_UNPACK = 1 } ncclNetDeviceType;
#define NCCL_NET_DEVICE_INVALID_VERSION 0

typedef struct {
    ncclNetDeviceType netDeviceType;
    int netDeviceVersion;
    void *handle;
    size_t size;
    int needsProxyProgress;
} ncclNetDeviceHandle_v7_t;
typedef ncclNetDeviceHandle_v7_t ncclNetDeviceHandle_v8_t;
typedef ncclNetDeviceHandle_v7_t ncclNetDeviceHandle_v9_t;
typedef ncclNetDeviceHandle_v7_t ncclNetDeviceHandle_v10_t;

typedef struct {
    int ndevs;
    int devs[4];
} ncclNetVDeviceProps_v9_t;
typedef ncclNetVDeviceProps_v9_t ncclNetVDeviceProps_v10_t;

typedef struct {
    int trafficClass;
} ncclNetCommConfig_v10_t;

typedef struct {
    char *name;
    char *pciPath;
    uint64_t guid;
    int ptrSupport;
    int regIsGlobal;
    int speed; /* Mbit/s */
    int port;
    float latency; /* microseconds */
    int maxComms;
    int maxRecvs;
    ncclNetDeviceType netDeviceType;
    int netDeviceVersion;
} ncclNetProperties_v8_t;

typedef struct {
    char *name;
    char *pciPath;
    uint64_t guid;
    int ptrSupport;
    int regIsGlobal;
    int forceFlush;
    int speed;
    int port;
    float latency;
    int maxComms;
    int maxRecvs;
    ncclNetDeviceType netDeviceType;
    int netDeviceVersion;
    ncclNetVDeviceProps_v9_t vProps;
    size_t maxP2pBytes;
    size_t maxCollBytes;
} ncclNetProperties_v9_t;
typedef ncclNetProperties_v9_t ncclNetProperties_v10_t;

typedef struct {
    const char *name;
    ncclResult_t (*init)(ncclDebugLogger_t logFunction);
    ncclResult_t (*devices)(int *ndev);
    ncclResult_t (*getProperties)(int dev, ncclNetProperties_v8_t *props);
    ncclResult_t (*listen)(int dev, void *handle, void **listenComm);
    ncclResult_t (*connect)(int dev, void *handle, void **sendComm,
                            ncclNetDeviceHandle_v8_t **sendDevComm);
    ncclResult_t (*accept)(void *listenComm, void **recvComm,
                           ncclNetDeviceHandle_v8_t **recvDevComm);
    ncclResult_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
    ncclResult_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,
                                int fd, void **mhandle);
    ncclResult_t (*deregMr)(void *comm, void *mhandle);
    ncclResult_t (*isend)(void *sendComm, void *data, int size, int tag, void *mhandle,
                          void **request);
    ncclResult_t (*irecv)(void *recvComm, int n, void **data, int *sizes, int *tags,
                          void **mhandles, void **request);
    ncclResult_t (*iflush)(void *recvComm, int n, void **data, int *sizes, void **mhandles,
                           void **request);
    ncclResult_t (*test)(void *request, int *done, int *sizes);
    ncclResult_t (*closeSend)(void *sendComm);
    ncclResult_t (*closeRecv)(void *recvComm);
    ncclResult_t (*closeListen)(void *listenComm);
    ncclResult_t (*getDeviceMr)(void *comm, void *mhandle, void **dptr_mhandle);
    ncclResult_t (*irecvConsumed)(void *recvComm, int n, void *request);
} ncclNet_v8_t;

typedef struct {
    const char *name;
    ncclResult_t (*init)(ncclDebugLogger_t logFunction);
    ncclResult_t (*devices)(int *ndev);
    ncclResult_t (*getProperties)(int dev, ncclNetProperties_v9_t *props);
    ncclResult_t (*listen)(int dev, void *handle, void **listenComm);
    ncclResult_t (*connect)(int dev, void *handle, void **sendComm,
                            ncclNetDeviceHandle_v9_t **sendDevComm);
    ncclResult_t (*accept)(void *listenComm, void **recvComm,
                           ncclNetDeviceHandle_v9_t **recvDevComm);
    ncclResult_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
    ncclResult_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,
                                int fd, void **mhandle);
    ncclResult_t (*deregMr)(void *comm, void *mhandle);
    ncclResult_t (*isend)(void *sendComm, void *data, size_t size, int tag, void *mhandle,
                          void **request);
    ncclResult_t (*irecv)(void *recvComm, int n, void **data, size_t *sizes, int *tags,
                          void **mhandles, void **request);
    ncclResult_t (*iflush)(void *recvComm, int n, void **data, int *sizes, void **mhandles,
                           void **request);
    ncclResult_t (*test)(void *request, int *done, int *sizes);
    ncclResult_t (*closeSend)(void *sendComm);
    ncclResult_t (*closeRecv)(void *recvComm);
    ncclResult_t (*closeListen)(void *listenComm);
    ncclResult_t (*getDeviceMr)(void *comm, void *mhandle, void **dptr_mhandle);
    ncclResult_t (*irecvConsumed)(void *recvComm, int n, void *request);
    ncclResult_t (*makeVDevice)(int *d, ncclNetVDeviceProps_v9_t *props);
} ncclNet_v9_t;

typedef struct {
    const char *name;
    ncclResult_t (*init)(ncclDebugLogger_t logFunction, ncclProfilerCallback_t profFunction);
    ncclResult_t (*devices)(int *ndev);
    ncclResult_t (*getProperties)(int dev, ncclNetProperties_v10_t *props);
    ncclResult_t (*listen)(int dev, void *handle, void **listenComm);
    ncclResult_t (*connect)(int dev, ncclNetCommConfig_v10_t *config, void *handle, void **sendComm,
                            ncclNetDeviceHandle_v10_t **sendDevComm);
    ncclResult_t (*accept)(void *listenComm, void **recvComm,
                           ncclNetDeviceHandle_v10_t **recvDevComm);
    ncclResult_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
    ncclResult_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,
                                int fd, void **mhandle);
    ncclResult_t (*deregMr)(void *comm, void *mhandle);
    ncclResult_t (*isend)(void *sendComm, void *data, size_t size, int tag, void *mhandle,
                          void *phandle, void **request);
    ncclResult_t (*irecv)(void *recvComm, int n, void **data, size_t *sizes, int *tags,
                          void **mhandles, void **phandles, void **request);
    ncclResult_t (*iflush)(void *recvComm, int n, void **data, int *sizes, void **mhandles,
                           void **request);
    ncclResult_t (*test)(void *request, int *done, int *sizes);
    ncclResult_t (*closeSend)(void *sendComm);
    ncclResult_t (*closeRecv)(void *recvComm);
    ncclResult_t (*closeListen)(void *listenComm);
    ncclResult_t (*getDeviceMr)(void *comm, void *mhandle, void **dptr_mhandle);
    ncclResult_t (*irecvConsumed)(void *recvComm, int n, void *request);
    ncclResult_t (*makeVDevice)(int *d, ncclNetVDeviceProps_v10_t *props);
} ncclNet_v10_t;

#define MN_AT(type, field, offset)                                                                 \
    _Static_assert(offsetof(type, field) == (offset), #type "." #field)
#define MN_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)

MN_SIZE(ncclNetDeviceHandle_v7_t, 32);
MN_SIZE(ncclNetVDeviceProps_v9_t, 20);
MN_SIZE(ncclNetCommConfig_v10_t, 4);
MN_SIZE(ncclNetProperties_v8_t, 64);
MN_AT(ncclNetProperties_v8_t, guid, 16);
MN_AT(ncclNetProperties_v8_t, ptrSupport, 24);
MN_AT(ncclNetProperties_v8_t, regIsGlobal, 28);
MN_AT(ncclNetProperties_v8_t, speed, 32);
MN_AT(ncclNetProperties_v8_t, port, 36);
MN_AT(ncclNetProperties_v8_t, latency, 40);
MN_AT(ncclNetProperties_v8_t, maxComms, 44);
MN_AT(ncclNetProperties_v8_t, maxRecvs, 48);
MN_AT(ncclNetProperties_v8_t, netDeviceType, 52);
MN_AT(ncclNetProperties_v8_t, netDeviceVersion, 56);
MN_SIZE(ncclNetProperties_v9_t, 104);
MN_AT(ncclNetProperties_v9_t, forceFlush, 32);
MN_AT(ncclNetProperties_v9_t, speed, 36);
MN_AT(ncclNetProperties_v9_t, port, 40);
MN_AT(ncclNetProperties_v9_t, latency, 44);
MN_AT(ncclNetProperties_v9_t, maxComms, 48);
MN_AT(ncclNetProperties_v9_t, maxRecvs, 52);
MN_AT(ncclNetProperties_v9_t, netDeviceType, 56);
MN_AT(ncclNetProperties_v9_t, netDeviceVersion, 60);
MN_AT(ncclNetProperties_v9_t, vProps, 64);
MN_AT(ncclNetProperties_v9_t, maxP2pBytes, 88);
MN_AT(ncclNetProperties_v9_t, maxCollBytes, 96);
MN_SIZE(ncclNet_v8_t, 152);
MN_AT(ncclNet_v8_t, connect, 40);
MN_AT(ncclNet_v8_t, isend, 80);
MN_AT(ncclNet_v8_t, test, 104);
MN_AT(ncclNet_v8_t, irecvConsumed, 144);
MN_SIZE(ncclNet_v9_t, 160);
MN_AT(ncclNet_v9_t, isend, 80);
MN_AT(ncclNet_v9_t, makeVDevice, 152);
MN_SIZE(ncclNet_v10_t, 160);
MN_AT(ncclNet_v10_t, connect, 40);
MN_AT(ncclNet_v10_t, irecv, 88);
MN_AT(ncclNet_v10_t, makeVDevice, 152);

#endif
