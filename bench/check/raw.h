/* The plugin's vtable as it is: arguments and results go through untouched, so that rules see what
 * NCCL would see. One row a version; only the widths and extra arguments differ. */
#ifndef MN_CHECK_RAW_H
#define MN_CHECK_RAW_H

#include <stddef.h>
#include <stdint.h>

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
};

/* Driven here, newest first, version 0 last. */
extern const struct mn_raw_version mn_raw_versions[];
const char *mn_raw_serves(int version); /* of any ABI version, driven here or not; NULL = unknown */

struct mn_raw {
    void *lib;
    const void *vtable;
    const struct mn_raw_version *version;
};

/* The properties of any version, absent fields with NCCL's own defaults. */
struct mn_raw_props {
    const char *name, *pci_path;
    uint64_t guid;
    int ptr_support, speed, port, max_comms, max_recvs, device_type, device_version;
    int has_v9, n_devs, devs0;
    size_t max_p2p_bytes, max_coll_bytes;
};

const char *mn_raw_name(const struct mn_raw *raw);
int mn_raw_has_dmabuf(const struct mn_raw *raw);
int mn_raw_has_v9(const struct mn_raw *raw);
int mn_raw_init(const struct mn_raw *raw,
                void (*logger)(int, unsigned long, const char *, int, const char *, ...));
int mn_raw_devices(const struct mn_raw *raw, int *ndev);
/* props: props_size bytes of the version. */
int mn_raw_properties(const struct mn_raw *raw, int dev, void *props);
void mn_raw_read_props(const struct mn_raw *raw, const void *props, struct mn_raw_props *out);
int mn_raw_listen(const struct mn_raw *raw, int dev, void *handle, void **comm);
/* device_handle: the last argument as NCCL passes it, may be NULL. */
int mn_raw_connect(const struct mn_raw *raw, int dev, void *handle, void **comm,
                   void **device_handle);
int mn_raw_accept(const struct mn_raw *raw, void *listen, void **comm, void **device_handle);
int mn_raw_reg(const struct mn_raw *raw, void *comm, void *data, size_t size, void **mhandle);
int mn_raw_dereg(const struct mn_raw *raw, void *comm, void *mhandle);
int mn_raw_isend(const struct mn_raw *raw, void *comm, void *data, size_t size, int tag,
                 void *mhandle, void **request);
int mn_raw_irecv(const struct mn_raw *raw, void *comm, int n, void **data, const size_t *sizes,
                 int *tags, void **mhandles, void **request);
int mn_raw_test(const struct mn_raw *raw, void *request, int *done, int *sizes);
int mn_raw_close_send(const struct mn_raw *raw, void *comm);
int mn_raw_close_recv(const struct mn_raw *raw, void *comm);
int mn_raw_close_listen(const struct mn_raw *raw, void *comm);

#endif
