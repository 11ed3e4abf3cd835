/* The plugin's CollNet vtable as it is, any version; only widths and the context differ. */
#ifndef MN_CHECK_COLL_RAW_H
#define MN_CHECK_COLL_RAW_H

#include "bench/check/raw.h"
#include "plugin/abi/nccl_coll_abi.h"

struct mn_coll_raw {
    const void *vtable;
    int version;
    void *ctx; /* v11 and later, after init */
};

/* The newest CollNet that a release which drives this net version looks for: 1 when there is one.
 * Versions before 8 are not looked for. */
int mn_coll_raw_find(const struct mn_raw *raw, struct mn_coll_raw *coll);
const char *mn_coll_raw_name(const struct mn_coll_raw *coll);
/* The first function that a release calls unchecked and that is not there, or NULL. */
const char *mn_coll_raw_absent(const struct mn_coll_raw *coll);

int mn_coll_raw_init(struct mn_coll_raw *coll, ncclDebugLogger_t logger);
int mn_coll_raw_devices(const struct mn_coll_raw *coll, int *ndev);
/* *max_bytes: of a collective; what v8 cannot say is NCCL's own limit. */
int mn_coll_raw_properties(const struct mn_coll_raw *coll, int dev, const char **name,
                           size_t *max_bytes);
int mn_coll_raw_listen(const struct mn_coll_raw *coll, int dev, void *handle, void **listen);
int mn_coll_raw_connect(const struct mn_coll_raw *coll, void **handles, int nranks, int rank,
                        void *listen, void **comm);
int mn_coll_raw_support(const struct mn_coll_raw *coll, int type, int op, int *supported);
int mn_coll_raw_reg(const struct mn_coll_raw *coll, void *comm, void *data, size_t size,
                    void **mhandle);
int mn_coll_raw_dereg(const struct mn_coll_raw *coll, void *comm, void *mhandle);
int mn_coll_raw_allreduce(const struct mn_coll_raw *coll, void *comm, void *send, void *recv,
                          size_t count, int type, int op, void *send_mhandle, void *recv_mhandle,
                          void **request);
/* part: one piece of memory for the window [offset, offset + bytes). */
int mn_coll_raw_allgather(const struct mn_coll_raw *coll, void *comm, void *send,
                          ncclNetSGE_v9_t part, size_t per_rank, size_t offset, size_t bytes,
                          void *send_mhandle, void **request);
int mn_coll_raw_reducescatter(const struct mn_coll_raw *coll, void *comm, ncclNetSGE_v9_t part,
                              void *recv, size_t per_rank, size_t offset, size_t bytes, int type,
                              int op, void *recv_mhandle, void **request);
int mn_coll_raw_test(const struct mn_coll_raw *coll, void *request, int *done, int *size);
int mn_coll_raw_close(const struct mn_coll_raw *coll, void *comm);
int mn_coll_raw_close_listen(const struct mn_coll_raw *coll, void *listen);
/* Nothing to call before v11. */
int mn_coll_raw_finalize(const struct mn_coll_raw *coll);

#endif
