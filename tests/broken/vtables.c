/* The exported structs, compiled once for each library with the number of its fault; see row.h. */
#ifndef FAULT /* the correct one */
#define FAULT 0
#endif
#include "tests/broken/row.h"
#include "tests/broken/shapes.h"

#define EXPORT __attribute__((visibility("default")))

int ref_fault = FAULT;
#if !FAULT
static const char *const rows[] = {
#define FAULT_ROW(name, version, rule, text) #name,
#include "tests/broken/faults.def"
#undef FAULT_ROW
};
BROKEN_FIND_ROW(ref_fault, "libnccl-net-fault-")
#endif

/* The preprocessor knows the first four rows of faults.def by number. */
#if FAULT == 1
extern int ref_nobody_defines_this(void);
__attribute__((constructor)) static void call_it(void)
{
    ref_nobody_defines_this();
}
#endif

#if FAULT == 4
EXPORT int ref_stray_symbol(void);
int ref_stray_symbol(void)
{
    return 0;
}
#endif

/* v: the version of the struct; the others: the oldest that declares it so. */
#define VTABLE(v, init_fn, properties_v, listen_v, connect_v, accept_v, reg_fn, send_v, flush_v)   \
    .name = IS(NAME_NULL)                ? NULL                                                    \
            : IS(NAME_RESERVED)          ? "RCCL-ANP"                                              \
            : IS(NAMES_DIFFER) && v == 6 ? "ref6"                                                  \
                                         : "ref",                                                  \
    .init = init_fn, .devices = IS(DEVICES_DIFFER) && v == 8 ? ref_devices_one : ref_devices,      \
    .getProperties = ref_properties_v##properties_v, .listen = ref_listen_v##listen_v,             \
    .connect = ref_connect_v##connect_v, .accept = ref_accept_v##accept_v, .regMr = reg_fn,        \
    .deregMr = ref_dereg, .isend = ref_isend_v##send_v, .irecv = ref_irecv_v##send_v,              \
    .iflush = IS(SLOT_NULL) ? NULL : ref_iflush_v##flush_v, .test = ref_test,                      \
    .closeSend = ref_close, .closeRecv = ref_close, .closeListen = ref_close_listen
#define DMABUF .regMrDmaBuf = IS(DMABUF_WITHOUT_BIT) ? ref_reg_dmabuf : NULL
#define CONTEXTS                                                                                   \
    .finalize = IS(V11_FINALIZE_MISSING) ? NULL : ref_finalize, .setNetAttr = ref_set_net_attr

#if FAULT != 2
EXPORT const ncclNet_v4_t ncclNetPlugin_v4 = {
    VTABLE(4, ref_init, 4, 4, 4, 4, ref_reg_v4, 4, 4),
};
EXPORT const ncclNet_v5_t ncclNetPlugin_v5 = {
    VTABLE(5, ref_init, 5, 4, 5, 5, ref_reg_v4, 5, 5),
};
EXPORT const ncclNet_v6_t ncclNetPlugin_v6 = {
    VTABLE(6, ref_init, 5, 4, 5, 5, ref_reg_v4, 5, 5),
    .regMrDmaBuf = IS(V6_DMABUF) ? ref_reg_dmabuf : NULL,
};
EXPORT const ncclNet_v7_t ncclNetPlugin_v7 = {
    VTABLE(7, ref_init, 7, 4, 7, 7, ref_reg_v4, 5, 5),
    DMABUF,
};
EXPORT const ncclNet_v8_t ncclNetPlugin_v8 = {
    VTABLE(8, ref_init, 8, 4, 7, 7, ref_reg, 5, 5),
    DMABUF,
};
EXPORT const ncclNet_v9_t ncclNetPlugin_v9 = {
    VTABLE(9, ref_init, 9, 4, 7, 7, ref_reg, 9, 5),
    DMABUF,
    .makeVDevice = IS(VDEVICE_LOST) || IS(V9_VDEVICE_ONE) ? ref_vdevice_v9 : NULL,
};
#if FAULT == 3
EXPORT const ncclNet_v8_t ncclNetPlugin_v10 = {
    VTABLE(8, ref_init, 8, 4, 7, 7, ref_reg, 5, 5),
};
#else
EXPORT const ncclNet_v10_t ncclNetPlugin_v10 = {
    VTABLE(10, ref_init_v10, 9, 4, 10, 7, ref_reg, 10, 5),
    DMABUF,
    .makeVDevice = IS(VDEVICE_LOST) || IS(V9_VDEVICE_ONE) ? ref_vdevice_v9 : NULL,
};
#endif
EXPORT const ncclNet_v11_t ncclNetPlugin_v11 = {
    VTABLE(11, ref_init_v11, 11, 11, 11, 7, ref_reg, 10, 5),
    DMABUF,
    .makeVDevice = IS(VDEVICE_LOST) || IS(V9_VDEVICE_ONE) ? ref_vdevice_v9 : NULL,
    CONTEXTS,
};
EXPORT const ncclNet_v12_t ncclNetPlugin_v12 = {
    VTABLE(12, ref_init_v11, 12, 11, 11, 7, ref_reg, 10, 5),
    DMABUF,
    .makeVDevice = IS(VDEVICE_LOST) ? ref_vdevice_v12 : NULL,
    CONTEXTS,
};
#endif
