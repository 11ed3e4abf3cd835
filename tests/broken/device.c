/* Two devices and all their properties; shapes.c gives each version its own. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tests/broken/ref.h"

static atomic_int inside;

ncclResult_t ref_devices(int *ndev)
{
    BLOCKS_IN(DEVICES);
    *ndev = IS(DEVICES_ZERO) ? 0 : IS(DEVICES_MANY) ? 200 : N_DEVICES;
    return ncclSuccess;
}

ncclResult_t ref_devices_one(int *ndev)
{
    *ndev = 1;
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

void ref_properties(int dev, ncclNetProperties_v12_t *p)
{
    static char pci[] = "/sys/devices/", gone[] = "/sys/devices/none";
    int racing = atomic_fetch_add(&inside, 1);

    BLOCKS_IN(PROPERTIES);
    if (IS(PROPERTIES_RACE))
        sched_yield();
    *p = (ncclNetProperties_v12_t){
        .name = device_name(dev),
        .pciPath = IS(PCI_SLASH)  ? pci
                   : IS(PCI_GONE) ? gone
                                  : NULL,
        .guid = (uint64_t)dev + 1,
        .ptrSupport = IS(NO_HOST_POINTERS) ? NCCL_PTR_CUDA : NCCL_PTR_HOST,
        .speed = IS(SPEED_NEGATIVE)              ? -1
                 : IS(SPEED_OF_ANOTHER)          ? 25000
                 : racing && IS(PROPERTIES_RACE) ? 1
                                                 : 100000,
        .port = 1,
        .latency = 1.0f,
        .maxComms = IS(MAX_COMMS_ZERO) ? 0 : 65536,
        .maxRecvs = IS(MAX_RECVS_ZERO) ? 0 : MAX_RECVS,
        .netDeviceType = IS(DEVICE_TYPE) ? NCCL_NET_DEVICE_UNPACK : NCCL_NET_DEVICE_HOST,
        .netDeviceVersion = NCCL_NET_DEVICE_INVALID_VERSION,
        .vProps = {.ndevs = IS(VPROPS_GARBAGE) ? 77 : 1, .devs = {dev}},
        .maxP2pBytes = IS(P2P_BYTES_ZERO) ? 0 : 1u << 30,
        .maxCollBytes = 1u << 29,
        .maxMultiRequestSize = 1,
        .railId = NCCL_NET_ID_UNDEF,
        .planeId = NCCL_NET_ID_UNDEF,
    };
    atomic_fetch_sub(&inside, 1);
}
