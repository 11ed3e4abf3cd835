/* The exported structs, compiled once for each library with the number of its fault; see row.h. */
#ifndef FAULT /* the correct one */
#define FAULT 0
#endif
#include "tests/broken/row.h"
#include "tests/broken/second/shapes.h"

#define EXPORT __attribute__((visibility("default")))

int alt_fault = FAULT;
#if !FAULT
static const char *const rows[] = {
#define SECOND(name, version, scenario, rule, text) #name,
#include "tests/broken/second/faults.def"
#undef SECOND
};
BROKEN_FIND_ROW(alt_fault, "libnccl-net-second-")
#endif

/* The oldest version that declares each part so. */
#define VTABLE(init_fn, properties_v, listen_v, connect_v, accept_v, reg_fn, send_v, flush_v)      \
    .name = "alt", .init = init_fn, .devices = alt_devices,                                        \
    .getProperties = alt_properties_v##properties_v, .listen = alt_listen_v##listen_v,             \
    .connect = alt_connect_v##connect_v, .accept = alt_accept_v##accept_v, .regMr = reg_fn,        \
    .deregMr = alt_dereg, .isend = alt_isend_v##send_v, .irecv = alt_irecv_v##send_v,              \
    .iflush = alt_flush_v##flush_v, .test = alt_test, .closeSend = alt_close,                      \
    .closeRecv = alt_close, .closeListen = alt_close_listen

EXPORT const ncclNet_v4_t ncclNetPlugin_v4 = {VTABLE(alt_init, 4, 4, 4, 4, alt_reg_v4, 4, 4)};
EXPORT const ncclNet_v5_t ncclNetPlugin_v5 = {VTABLE(alt_init, 5, 4, 5, 5, alt_reg_v4, 5, 5)};

/* The union keeps what is read behind a struct of v5 the same in every build. */
typedef union {
    ncclNet_v6_t right;
    ncclNet_v5_t former;
} v6_t;

EXPORT const v6_t ncclNetPlugin_v6 = {
#define V6 VTABLE(alt_init, 5, 4, 5, 5, alt_reg_v4, 5, 5)
#if defined(FAULT_IS_V6_IS_V5)
    .former = {V6},
#else
    .right = {V6},
#endif
};
EXPORT const ncclNet_v7_t ncclNetPlugin_v7 = {VTABLE(alt_init, 7, 4, 7, 7, alt_reg_v4, 5, 5)};
EXPORT const ncclNet_v8_t ncclNetPlugin_v8 = {VTABLE(alt_init, 8, 4, 7, 7, alt_reg, 5, 5)};
EXPORT const ncclNet_v9_t ncclNetPlugin_v9 = {VTABLE(alt_init, 9, 4, 7, 7, alt_reg, 9, 5)};
EXPORT const ncclNet_v10_t ncclNetPlugin_v10 = {VTABLE(alt_init_v10, 9, 4, 10, 7, alt_reg, 10, 5)};
EXPORT const ncclNet_v11_t ncclNetPlugin_v11 = {
    VTABLE(alt_init_v11, 11, 11, 11, 7, alt_reg, 10, 5),
    .finalize = alt_finalize,
    .setNetAttr = alt_set_attr,
};
EXPORT const ncclNet_v12_t ncclNetPlugin_v12 = {
    VTABLE(alt_init_v11, 12, 11, 11, 7, alt_reg, 10, 5),
    .finalize = alt_finalize,
    .setNetAttr = alt_set_attr,
};
