/* The properties as each version lays them out. */
#include <string.h>

#include "tests/broken/shapes.h"

/* Unless the fault leaves it as it was. */
#define SET(fault, p, field)                                                                       \
    do {                                                                                           \
        if (!IS(fault))                                                                            \
            (p)->field = all.field;                                                                \
    } while (0)

#define SET_V4(p)                                                                                  \
    do {                                                                                           \
        (p)->name = all.name;                                                                      \
        (p)->pciPath = all.pciPath;                                                                \
        (p)->guid = all.guid;                                                                      \
        (p)->ptrSupport = all.ptrSupport;                                                          \
        (p)->speed = all.speed;                                                                    \
        SET(FIELD_UNWRITTEN, p, port);                                                             \
        (p)->maxComms = all.maxComms;                                                              \
        if (IS(PROPERTIES_OVERRUN))                                                                \
            memset((p) + 1, 0, 4);                                                                 \
    } while (0)

#define SET_V5(p)                                                                                  \
    do {                                                                                           \
        SET_V4(p);                                                                                 \
        SET(V5_LATENCY_UNWRITTEN, p, latency);                                                     \
        (p)->maxRecvs = all.maxRecvs;                                                              \
    } while (0)

#define SET_V7(p)                                                                                  \
    do {                                                                                           \
        SET_V5(p);                                                                                 \
        SET(V7_TYPE_UNWRITTEN, p, netDeviceType);                                                  \
        (p)->netDeviceVersion = all.netDeviceVersion;                                              \
    } while (0)

#define SET_V8(p)                                                                                  \
    do {                                                                                           \
        SET_V7(p);                                                                                 \
        SET(V8_GLOBAL_UNWRITTEN, p, regIsGlobal);                                                  \
    } while (0)

#define SET_V9(p)                                                                                  \
    do {                                                                                           \
        SET_V8(p);                                                                                 \
        SET(V9_FLUSH_UNWRITTEN, p, forceFlush);                                                    \
        (p)->vProps.ndevs = all.vProps.ndevs;                                                      \
        memcpy((p)->vProps.devs, all.vProps.devs, sizeof(p)->vProps.devs);                         \
        (p)->maxP2pBytes = all.maxP2pBytes;                                                        \
        (p)->maxCollBytes = all.maxCollBytes;                                                      \
    } while (0)

#define SET_V11(p)                                                                                 \
    do {                                                                                           \
        SET_V9(p);                                                                                 \
        SET(V11_MULTI_UNWRITTEN, p, maxMultiRequestSize);                                          \
    } while (0)

#define SET_V12(p)                                                                                 \
    do {                                                                                           \
        SET_V11(p);                                                                                \
        SET(V12_RAIL_UNWRITTEN, p, railId);                                                        \
        (p)->planeId = all.planeId;                                                                \
    } while (0)

#define PROPERTIES(version, set)                                                                   \
    ncclResult_t ref_properties_v##version(int dev, ncclNetProperties_v##version##_t *p)           \
    {                                                                                              \
        ncclNetProperties_v12_t all;                                                               \
        if (dev < 0 || dev >= N_DEVICES)                                                           \
            return ncclInvalidArgument;                                                            \
        ref_properties(dev, &all);                                                                 \
        set(p);                                                                                    \
        return ncclSuccess;                                                                        \
    }

#define SET_V4_OR_LONGER(p)                                                                        \
    do {                                                                                           \
        if (IS(V4_PROPERTIES_LONG))                                                                \
            SET_V5((ncclNetProperties_v5_t *)(void *)(p));                                         \
        else                                                                                       \
            SET_V4(p);                                                                             \
    } while (0)

#define SET_V12_OR_OLDER(p)                                                                        \
    do {                                                                                           \
        if (IS(V12_LAYOUT_V11))                                                                    \
            SET_V11((ncclNetProperties_v11_t *)(void *)(p));                                       \
        else                                                                                       \
            SET_V12(p);                                                                            \
    } while (0)

PROPERTIES(4, SET_V4_OR_LONGER)
PROPERTIES(5, SET_V5)
PROPERTIES(7, SET_V7)
PROPERTIES(8, SET_V8)
PROPERTIES(9, SET_V9)
PROPERTIES(11, SET_V11)
PROPERTIES(12, SET_V12_OR_OLDER)

/* Two faults: a device that devices() does not count, and groups of one refused. */
ncclResult_t ref_vdevice_v9(int *dev, ncclNetVDeviceProps_v9_t *props)
{
    if (IS(V9_VDEVICE_ONE) && props->ndevs < 2)
        return ref_refuse("one device is no group");
    *dev = N_DEVICES;
    return ncclSuccess;
}

ncclResult_t ref_vdevice_v12(int *dev, ncclNetVDeviceProps_v12_t *props)
{
    (void)props;
    *dev = N_DEVICES;
    return ncclSuccess;
}
