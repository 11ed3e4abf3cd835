/* devices, getProperties. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/broken/second/alt.h"

static char names[ALT_DEVICES][16] = {"alt0", "alt1"};

ncclResult_t alt_devices(int *n)
{
    static int found;

    found = WRONG(DEVICES_DOUBLE) ? found + ALT_DEVICES : ALT_DEVICES;
    *n = found;
    return ncclSuccess;
}

static char *name_of(int dev)
{
    static char one[16], *last;
    char *before = last;

    if (WRONG(PROPS_STATIC_NAME)) {
        snprintf(one, sizeof one, "alt%d", dev);
        return one;
    }
    if (WRONG(PROPS_NAME_FREED)) {
        last = strdup(names[dev]);
        free(before);
        return last;
    }
    return names[dev];
}

ncclResult_t alt_properties(int dev, ncclNetProperties_v12_t *p)
{
    static volatile int asked;
    int own = dev;

    if (dev < 0 || dev >= ALT_DEVICES)
        return ncclInvalidArgument;
    if (WRONG(PROPS_STATIC_DEVICE)) {
        asked = dev;
        (void)!access("/sys/class/net/lo/speed", R_OK); /* a look at the device */
    }
    if (WRONG(PROPS_LEAK) && open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
        return ncclSystemError;
    memset(p, 0, sizeof *p);
    p->name = name_of(dev);
    p->ptrSupport = NCCL_PTR_HOST;
    p->speed = 10000;
    p->maxComms = 1 << 16;
    p->maxRecvs = ALT_RECVS;
    p->netDeviceType = NCCL_NET_DEVICE_HOST;
    p->netDeviceVersion = NCCL_NET_DEVICE_INVALID_VERSION;
    p->vProps.ndevs = 1;
    p->maxP2pBytes = WRONG(PROPS_P2P_UNBOUNDED) ? SIZE_MAX : NCCL_MAX_NET_SIZE_BYTES;
    p->maxCollBytes = NCCL_MAX_NET_SIZE_BYTES;
    p->maxMultiRequestSize = 1;
    p->railId = NCCL_NET_ID_UNDEF;
    p->planeId = NCCL_NET_ID_UNDEF;
    if (WRONG(PROPS_STATIC_DEVICE))
        own = asked;
    p->guid = 0xa170 + (uint64_t)own;
    p->port = 1;
    p->vProps.devs[0] = WRONG(PROPS_VDEV_ZERO) ? 0 : own;
    return ncclSuccess;
}
