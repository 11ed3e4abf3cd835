/* The exported structs, compiled once for each library with the number of its fault. */
#include "tests/broken/ref.h"

#define EXPORT __attribute__((visibility("default")))

extern const int ref_fault;
const int ref_fault = FAULT;

#define VTABLE(init_fn, properties_fn, connect_fn, send_fn, recv_fn)                               \
    .name = IS(NAME_NULL)       ? NULL                                                             \
            : IS(NAME_RESERVED) ? "RCCL-ANP"                                                       \
                                : "ref",                                                           \
    .init = init_fn, .devices = ref_devices, .getProperties = properties_fn, .listen = ref_listen, \
    .connect = connect_fn, .accept = ref_accept_v8, .regMr = ref_reg,                              \
    .regMrDmaBuf = IS(DMABUF_WITHOUT_BIT) ? ref_reg_dmabuf : NULL, .deregMr = ref_dereg,           \
    .isend = send_fn, .irecv = recv_fn, .iflush = IS(SLOT_NULL) ? NULL : ref_iflush,               \
    .test = ref_test, .closeSend = ref_close, .closeRecv = ref_close,                              \
    .closeListen = ref_close_listen

/* The preprocessor knows the first four rows of faults.def by number. */
#if FAULT == 1
extern int ref_nobody_defines_this(void);
__attribute__((constructor)) static void call_it(void)
{
    ref_nobody_defines_this();
}
#endif

#if FAULT != 2
EXPORT const ncclNet_v8_t ncclNetPlugin_v8 = {
    VTABLE(ref_init, ref_properties_v8, ref_connect_v8, ref_isend_v8, ref_irecv_v8)};
EXPORT const ncclNet_v9_t ncclNetPlugin_v9 = {
    VTABLE(ref_init, ref_properties_v9, ref_connect_v8, ref_isend_v9, ref_irecv_v9)};
#if FAULT == 3
EXPORT const ncclNet_v8_t ncclNetPlugin_v10 = {
    VTABLE(ref_init, ref_properties_v8, ref_connect_v8, ref_isend_v8, ref_irecv_v8)};
#else
EXPORT const ncclNet_v10_t ncclNetPlugin_v10 = {
    VTABLE(ref_init_v10, ref_properties_v9, ref_connect_v10, ref_isend_v10, ref_irecv_v10)};
#endif
#endif

#if FAULT == 4
EXPORT int ref_stray_symbol(void);
int ref_stray_symbol(void)
{
    return 0;
}
#endif
