/* Collectives between processes over the version-free core: what the CollNet interface offers
 * (abi/coll_vN.c translates). Host memory; a ring in rank order, so neighbours in rank should be
 * neighbours on the mesh.
 *
 * Functions return an ncclResult_t value as int. All but mn_coll_connect return at once. One thread
 * at a time on a communicator, except that memory may be registered beside. Every rank posts the
 * same operations in the same order; they are done in that order. */
#ifndef MN_COLL_H
#define MN_COLL_H

#include <stddef.h>

#define MN_COLL_MAX_BYTES (1ull << 30) /* of one operation */
#define MN_COLL_REQUESTS  64           /* outstanding on one communicator */

struct mn_net;

/* A piece of host memory with its registration. */
struct mn_coll_part {
    void *data;
    size_t size;
    void *mhandle;
};

/* handle has MN_HANDLE_SIZE bytes. net: mn_net_init(). */
int mn_coll_listen(struct mn_net *net, int dev, void *handle, void **listen_comm);
int mn_coll_close_listen(void *listen_comm);
/* Rank i listens where handles[i] says; listen_comm is this rank's own. Waits for both neighbours,
 * no longer than connecting may take. */
int mn_coll_connect(void *const handles[], int nranks, int rank, void *listen_comm, void **coll);
int mn_coll_close(void *coll);
/* *supported: 1 when type (ncclDataType_t) can be reduced by op (ncclRedOp_t). */
int mn_coll_reduce_support(int type, int op, int *supported);
int mn_coll_reg_mr(void *coll, void *data, size_t size, int type, void **mhandle);
int mn_coll_dereg_mr(void *coll, void *mhandle);

/* The three operations set *request to NULL when there is no room now. send.data and recv.data may
 * be the same memory. sizes are in bytes and the same on every rank.
 *
 * Gather and scatter treat the nranks blocks of bytes_per_rank as one array, and of it do the
 * window [offset, offset + bytes): whole is the window's memory; own is this rank's block as far as
 * it lies in the window, from there on. */
int mn_coll_allreduce(void *coll, struct mn_coll_part send, struct mn_coll_part recv, int type,
                      int op, void **request);
int mn_coll_allgather(void *coll, struct mn_coll_part own, struct mn_coll_part whole,
                      size_t bytes_per_rank, size_t offset, size_t bytes, void **request);
int mn_coll_reducescatter(void *coll, struct mn_coll_part whole, struct mn_coll_part own,
                          size_t bytes_per_rank, size_t offset, size_t bytes, int type, int op,
                          void **request);
/* *size: bytes of the operation's result; may be NULL. */
int mn_coll_test(void *request, int *done, int *size);

#endif
