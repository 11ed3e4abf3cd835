/* The schedule of one collective on a ring, a piece at a time: private to plugin/coll*.c.
 *
 * The data is nranks slices. In step k a rank sends slice first - k to its right neighbour and
 * takes slice first - k - 1 from its left one. In a reducing step what comes is combined with this
 * rank's own data in a staging slot and travels on from there; in a gathering step it lands in the
 * result and travels on from there. Slices are cut into segments and these into chunks: a segment's
 * chunks fill half of the slots, so that a step's chunks always have room beside those of the step
 * before, whatever the others do. */
#ifndef MN_COLL_RING_H
#define MN_COLL_RING_H

#include <stdint.h>

#include "plugin/coll.h"
#include "plugin/net.h"
#include "plugin/reduce.h"

#define COLL_CHUNK  (128u << 10)
#define COLL_SLOTS  16
#define COLL_CHUNKS (COLL_SLOTS / 2) /* of a segment */
#define COLL_FLIGHT 8                /* sends, and receives, on their way */

/* One chunk: segment, step, chunk. The order of items is the order of messages. */
struct coll_item {
    uint32_t segment, step, chunk;
};

struct coll_op {
    struct mn_coll *coll;
    int used;
    int reducing, gathering; /* steps of each kind; reducing ones come first */
    int first;               /* slice sent in step 0 */
    mn_reduce_fn *reduce;
    size_t element;              /* bytes, 1 where nothing is reduced */
    size_t block, window, bytes; /* bytes of a slice, start and size of the window */
    const uint8_t *in;           /* of the window; of the own slice for a gather */
    uint8_t *out;                /* of the window; of the own slice for a scatter */
    void *in_mhandle, *out_mhandle;
    uint32_t segments;
    struct coll_item sending, receiving, landed; /* next of each */
    int result;                                  /* bytes */
    int done;
};

struct coll_flight {
    void *request;
    struct coll_item item;
    uint8_t *data;
    size_t size;
    int slot;
};

struct mn_coll {
    int rank, nranks, error;
    void *send_comm, *recv_comm;
    uint8_t *slots; /* COLL_SLOTS * COLL_CHUNK */
    void *slots_send, *slots_recv;
    uint32_t free_slots;      /* bit a slot */
    uint8_t held[COLL_SLOTS]; /* slots that landed and are to be sent, in that order */
    uint32_t held_in, held_out;
    struct coll_flight sends[COLL_FLIGHT], recvs[COLL_FLIGHT];
    uint32_t sent, send_done, received, recv_done; /* counts */
    struct coll_op ops[MN_COLL_REQUESTS];
    uint32_t posted, finished; /* counts; the operation in turn is finished % MN_COLL_REQUESTS */
};

/* Registrations of one piece of memory: it is sent from and received into. */
struct coll_mr {
    void *send, *recv;
};

/* The slice's start in the window and its length there. */
size_t coll_slice(const struct coll_op *op, int slice, size_t *length);
/* Sets segments and the first items; ready to be advanced. */
void coll_ring_begin(struct coll_op *op);
/* Does what can be done now for the operation in turn. A result of the core, which stays. */
int coll_ring_advance(struct mn_coll *coll);

#endif
