/* A second correct plugin, unlike the first in all it does: every connection is a loopback socket,
 * connects take several calls, bytes go from the socket in order into the receive's buffer. For
 * each row of faults.def there is a copy that has its number (../row.h): in that library one spot
 * is wrong, as an author's mistake would be. */
#ifndef ALT_H
#define ALT_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin/abi/nccl_abi.h"

enum alt_fault {
    A_NONE,
#define SECOND(name, version, scenario, rule, text) A_##name,
#include "tests/broken/second/faults.def"
#undef SECOND
};

extern int alt_fault;
#ifdef FAULT /* vtables.c: a constant there */
#define WRONG(name) (FAULT == A_##name)
#else
#define WRONG(name) (alt_fault == A_##name)
#endif

#define ALT_DEVICES 2
#define ALT_RECVS   8
#define ALT_ORDERED 16384 /* bytes read at once */
#define ALT_POOL    (NCCL_NET_MAX_REQUESTS * ALT_RECVS)

enum alt_kind { ALT_SEND, ALT_RECV, ALT_LISTEN, ALT_DIAL };

/* What a context owns: finalize frees what nobody closed. Must be first in each of its kinds. */
struct alt_owned {
    struct alt_owned *next;
    struct alt_context *context;
    enum alt_kind kind;
    int fd;
};

struct alt_context {
    struct alt_owned *owned;
    uint64_t comm_id;
    int users, slot;
    int old[256], n_old; /* sockets it closed; one fault */
};

struct alt_dial {
    struct alt_owned owned;
    int connected;
};

struct alt_listener {
    struct alt_owned owned;
    uint64_t token;
    int coming, polls, accepted, slot;
};

struct alt_mr {
    struct alt_mr *next;
    struct alt_comm *comm;
    char *data;
    size_t size;
    int slot;
};

struct alt_header {
    uint64_t size;
    int64_t tag;
};

struct alt_parked {
    struct alt_parked *next;
    struct alt_header header;
    char *data;
};

struct alt_request {
    struct alt_request *next; /* in its comm's queue */
    struct alt_comm *comm;
    int used, n, filled, done;
    uint16_t seq;
    uint64_t serial;
    struct alt_header header;
    size_t moved; /* header included */
    char *data[ALT_RECVS];
    size_t room[ALT_RECVS], got[ALT_RECVS], last[ALT_RECVS];
    int tags[ALT_RECVS], full[ALT_RECVS];
    const struct alt_mr *mr[ALT_RECVS];
};

struct alt_comm {
    struct alt_owned owned;
    pthread_mutex_t lock; /* regMr comes from another thread than the transfers */
    struct alt_request pool[ALT_POOL], *head, **tail;
    struct alt_mr *mrs;
    struct alt_parked *parked;
    ncclResult_t broken;
    /* Receives: the message on its way in. */
    struct alt_header header;
    size_t header_got, moved;
    struct alt_request *into; /* NULL: it is parked */
    struct alt_parked *parking;
    char *target, *bounce;
    char ordered[ALT_ORDERED]; /* read, and not yet in its place: at most a word's beginning */
    size_t held;
    int slot, cursor, listener;
    uint16_t seq;
    uint64_t serial;
    struct alt_request *withheld; /* one fault's send */
    pthread_t helper;             /* some faults' */
    pthread_cond_t work;
    int helped, stop, turn, asked;
};

/* base.c */
extern pthread_mutex_t alt_lock; /* contexts and what they own */
void alt_warn(const char *text);
void alt_nap(long us);
ncclResult_t alt_init(ncclDebugLogger_t logger);
ncclResult_t alt_context_new(void **ctx, uint64_t comm_id, ncclDebugLogger_t logger);
struct alt_context *alt_context_of(void *ctx); /* NULL: of the versions without */
ncclResult_t alt_finalize(void *ctx);
void alt_own(struct alt_context *c, struct alt_owned *o, enum alt_kind kind, int fd);
void alt_disown(struct alt_owned *o);
void alt_helper_idle(void); /* some faults' thread */

/* device.c */
ncclResult_t alt_devices(int *n);
ncclResult_t alt_properties(int dev, ncclNetProperties_v12_t *p);

/* connect.c */
ncclResult_t alt_listen(struct alt_context *c, int dev, void *handle, void **comm);
ncclResult_t alt_connect(struct alt_context *c, int dev, void *handle, void **comm);
ncclResult_t alt_accept(void *listen, void **comm);
int alt_fd(const struct alt_comm *comm);
void alt_release_slot(const struct alt_listener *l);

/* close.c */
ncclResult_t alt_close(void *comm);
ncclResult_t alt_close_listen(void *listen);
void alt_free(struct alt_owned *o);
void alt_forget_dials(struct alt_context *c);

/* memory.c */
ncclResult_t alt_reg(void *comm, void *data, size_t size, int type, void **mhandle);
ncclResult_t alt_dereg(void *comm, void *mhandle);
int alt_covered(const struct alt_mr *mr, const void *data, size_t size);

/* send.c, recv.c: under the comm's lock. */
void alt_send_progress(struct alt_comm *comm);
void alt_recv_progress(struct alt_comm *comm);
void alt_help(struct alt_comm *comm);

ncclResult_t alt_isend(void *comm, void *data, size_t size, int tag, void *mr, void **request);
ncclResult_t alt_irecv(void *comm, int n, void **data, const size_t *sizes, const int *tags,
                       void **mrs, void **request);
ncclResult_t alt_flush(void *comm, void **request);

/* put.c */
void alt_put(char *to, const char *from, size_t n);
void alt_put_ordered(struct alt_comm *comm, size_t have);

/* request.c */
struct alt_request *alt_take(struct alt_comm *comm);
int alt_in_turn(struct alt_comm *comm, int posts);
ncclResult_t alt_test(void *request, int *done, int *sizes);

#endif
