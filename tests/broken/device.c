/* Two devices, and their properties as each version lays them out. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/broken/ref.h"

static atomic_int inside;

ncclResult_t ref_devices(int *ndev)
{
    *ndev = IS(DEVICES_ZERO) ? 0 : IS(DEVICES_MANY) ? 200 : N_DEVICES;
    return ncclSuccess;
}

static char *device_name(int dev)
{
    static char names[N_DEVICES][16] = {"ref0", "ref1"};
    static char changing[32];
    static unsigned calls;

    if (IS(DEVICE_NAME_NULL))
        return NULL;
    if (IS(DEVICE_NAMES_SAME))
        return names[0];
    if (IS(NAME_CHANGES)) {
        snprintf(changing, sizeof changing, "ref%d-%u", dev, calls++);
        return changing;
    }
    return names[dev % N_DEVICES];
}

static void common_v8(int dev, ncclNetProperties_v8_t *p)
{
    static char pci[] = "/sys/devices/", gone[] = "/sys/devices/none";
    int racing = atomic_fetch_add(&inside, 1);

    if (IS(PROPERTIES_RACE))
        sched_yield();
    *p = (ncclNetProperties_v8_t){
        .name = device_name(dev),
        .pciPath = IS(PCI_SLASH)  ? pci
                   : IS(PCI_GONE) ? gone
                                  : NULL,
        .guid = (uint64_t)dev + 1,
        .ptrSupport = IS(NO_HOST_POINTERS) ? NCCL_PTR_CUDA : NCCL_PTR_HOST,
        .speed = IS(SPEED_NEGATIVE)              ? -1
                 : racing && IS(PROPERTIES_RACE) ? 1
                                                 : 100000,
        .port = 1,
        .maxComms = IS(MAX_COMMS_ZERO) ? 0 : 65536,
        .maxRecvs = IS(MAX_RECVS_ZERO) ? 0 : MAX_RECVS,
        .netDeviceType = IS(DEVICE_TYPE) ? NCCL_NET_DEVICE_UNPACK : NCCL_NET_DEVICE_HOST,
    };
    atomic_fetch_sub(&inside, 1);
}

ncclResult_t ref_properties_v8(int dev, ncclNetProperties_v8_t *p)
{
    int port = p->port;

    common_v8(dev, p);
    if (IS(FIELD_UNWRITTEN))
        p->port = port;
    return ncclSuccess;
}

ncclResult_t ref_properties_v9(int dev, ncclNetProperties_v9_t *p)
{
    ncclNetProperties_v8_t v8;
    int port = p->port;

    common_v8(dev, &v8);
    memset(p, 0, sizeof *p);
    if (IS(PROPERTIES_OVERRUN))
        memset(p + 1, 0, 4);
    p->name = v8.name;
    p->pciPath = v8.pciPath;
    p->guid = v8.guid;
    p->ptrSupport = v8.ptrSupport;
    p->speed = v8.speed;
    p->port = IS(FIELD_UNWRITTEN) ? port : v8.port;
    p->maxComms = v8.maxComms;
    p->maxRecvs = v8.maxRecvs;
    p->netDeviceType = v8.netDeviceType;
    p->vProps.ndevs = IS(VPROPS_GARBAGE) ? 77 : 1;
    p->vProps.devs[0] = dev;
    p->maxP2pBytes = IS(P2P_BYTES_ZERO) ? 0 : 1u << 30;
    p->maxCollBytes = 1u << 29;
    return ncclSuccess;
}
