/* The plugin's vtable as it is: arguments and results go through untouched, so that rules see what
 * NCCL would see. One row a version; only the widths and extra arguments differ. */
#ifndef MN_CHECK_RAW_H
#define MN_CHECK_RAW_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/host/slots.h"

#define MN_RAW_PROPS_MAX 256 /* more than any version's properties */
#define MN_RAW_MAX_RECVS 64

struct mn_raw_field {
    const char *name;
    size_t offset, size;
};

struct mn_raw_version {
    int version;
    const char *symbol;
    const char *serves; /* NCCL releases that load it */
    size_t vtable_size, props_size;
    const struct mn_raw_field *fields; /* of the properties, those every plugin must write */
    const struct mn_raw_field *slots;  /* of the vtable, those NCCL calls unchecked */
    size_t n_fields, n_slots;
    size_t handle_size; /* what listen may write */
    int has_ctx;        /* v11: init makes a context a communicator, finalize ends it */
    int max_vdevs;      /* v9: devices a virtual one may have, else 0 */
};

/* Newest first, version 0 last. */
extern const struct mn_raw_version mn_raw_versions[];
const char *mn_raw_serves(int version); /* of any ABI version, driven here or not; NULL = unknown */

/* What a call is for: rules that wait in vain for one thing wait in calls of one kind. */
enum mn_raw_call {
    MN_RAW_LOAD, /* before any call */
    MN_RAW_INIT,
    MN_RAW_PROPERTIES,
    MN_RAW_CONNECT,
    MN_RAW_MEMORY,
    MN_RAW_TRANSFER,
    MN_RAW_CLOSE,
    MN_RAW_TUNER,
    MN_RAW_N_CALLS
};

/* Where the rule's processes are, for who watches them. */
struct mn_raw_watch {
    atomic_int call; /* enum mn_raw_call, the last one */
    atomic_int inside[MN_RAW_N_CALLS];
    atomic_uint moves; /* calls that brought something: all but NULL and not done */
};

struct mn_raw {
    void *lib;
    const void *vtable;
    const struct mn_raw_version *version;
    struct mn_host_slots slots;
    void *ctx; /* v11: of the last mn_raw_init; a copy of the struct with another ctx is another
                * communicator */
    struct mn_raw_watch *watch; /* NULL = nobody looks */
    struct mn_remote *remote; /* where connect goes, and all it leads to (remote.h); NULL = here */
};

/* Before a call and after it; watch may be NULL. moved: whether it brought something. Gives result
 * back. */
void mn_raw_enter(struct mn_raw_watch *watch, enum mn_raw_call call);
int mn_raw_leave(struct mn_raw_watch *watch, enum mn_raw_call call, int result, int moved);

typedef void (*mn_raw_log)(int, unsigned long, const char *, int, const char *, ...);

/* The properties of any version, absent fields with NCCL's own defaults. */
struct mn_raw_props {
    const char *name, *pci_path;
    uint64_t guid;
    int ptr_support, speed, port, max_comms, max_recvs, device_type, device_version;
    int has_v9, n_devs, devs0;
    size_t max_p2p_bytes, max_coll_bytes;
};

/* Fills in vtable, version and slots from lib: the wanted version, 0 = the newest there. 0 when it
 * has none. */
int mn_raw_find(struct mn_raw *raw, int wanted);
const char *mn_raw_name(const struct mn_raw *raw);
int mn_raw_has_dmabuf(const struct mn_raw *raw);
int mn_raw_has_v9(const struct mn_raw *raw);
/* Reads the slots again: a plugin may fill its table here. */
int mn_raw_init(struct mn_raw *raw, mn_raw_log log);
/* v11: the same with what NCCL passes along. traffic_class -1 = undefined. */
int mn_raw_init_as(struct mn_raw *raw, uint64_t comm_id, int traffic_class, mn_raw_log log);
int mn_raw_finalize(const struct mn_raw *raw); /* v11, of raw->ctx */
int mn_raw_devices(const struct mn_raw *raw, int *ndev);
/* props: props_size bytes of the version. */
int mn_raw_properties(const struct mn_raw *raw, int dev, void *props);
void mn_raw_read_props(const struct mn_raw *raw, const void *props, struct mn_raw_props *out);
int mn_raw_listen(const struct mn_raw *raw, int dev, void *handle, void **comm);
/* device_handle: the last argument as NCCL passes it, may be NULL; dropped before v7. */
int mn_raw_connect(const struct mn_raw *raw, int dev, void *handle, void **comm,
                   void **device_handle);
int mn_raw_accept(const struct mn_raw *raw, void *listen, void **comm, void **device_handle);
int mn_raw_reg(const struct mn_raw *raw, void *comm, void *data, size_t size, void **mhandle);
int mn_raw_dereg(const struct mn_raw *raw, void *comm, void *mhandle);
/* v4 drops the tag and takes n = 1 only. */
int mn_raw_isend(const struct mn_raw *raw, void *comm, void *data, size_t size, int tag,
                 void *mhandle, void **request);
int mn_raw_irecv(const struct mn_raw *raw, void *comm, int n, void **data, const size_t *sizes,
                 int *tags, void **mhandles, void **request);
int mn_raw_iflush(const struct mn_raw *raw, void *comm, int n, void **data, int *sizes,
                  void **mhandles, void **request);
int mn_raw_test(const struct mn_raw *raw, void *request, int *done, int *sizes);
int mn_raw_close_send(const struct mn_raw *raw, void *comm);
int mn_raw_close_recv(const struct mn_raw *raw, void *comm);
int mn_raw_close_listen(const struct mn_raw *raw, void *comm);
/* Optional calls: *called is 0 when the version or the plugin has none. */
int mn_raw_make_vdevice(const struct mn_raw *raw, int n, const int *devs, int *dev, int *called);
int mn_raw_set_attr(const struct mn_raw *raw, ncclNetAttr_v11_t *attr, int *called);

#endif
