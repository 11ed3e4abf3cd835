/* A small, correct network plugin for the tests of verify-plugin, in every version from v4 to v12:
 * bytes move by copying, or over a loopback socket when the peer is another process. For each row
 * of faults.def there is a copy that has its number (row.h): in that library one spot is wrong. */
#ifndef REF_H
#define REF_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin/abi/nccl_abi.h"

enum fault {
    F_NONE,
#define FAULT_ROW(name, version, rule, text) F_##name,
#include "tests/broken/faults.def"
#undef FAULT_ROW
};

extern int ref_fault;
#ifdef FAULT /* vtables.c: a constant there */
#define IS(name) (FAULT == F_##name)
#else
#define IS(name) (ref_fault == F_##name)
#endif

#define N_DEVICES 2
#define MAX_RECVS 8
#define SLOTS     (NCCL_NET_MAX_REQUESTS * MAX_RECVS)
#define QUEUED    1024 /* messages on their way; then isend says "not now" */

enum kind { SEND, RECV };

struct message {
    struct message *next;
    size_t size, moved; /* moved: bytes already written to the other process, header included; or
                           delivered, of a lent one */
    int tag;
    struct request *sender;
    int lent;            /* data is the sender's: the send is done once it was delivered */
    unsigned char *data; /* else a copy: in this process the send is done once copied */
};

enum trouble { FINE, TOO_LONG, PEER_GONE, WITHDRAWN };

struct request {
    int used, n, filled, done, sent, owed;
    enum trouble trouble;
    enum kind kind;
    struct comm *comm;
    unsigned long serial;
    void *data[MAX_RECVS];
    size_t room[MAX_RECVS], got[MAX_RECVS];
    int tags[MAX_RECVS], full[MAX_RECVS];
    struct registration *mhandles[MAX_RECVS];
    const void *source; /* copied late, by some faults only */
    struct message *late;
};

/* What goes before each message between two processes. */
struct header {
    uint64_t size;
    int64_t tag;
};

/* What some faults still write when the receive was reported done. */
struct leftover {
    const struct request *owner;
    unsigned long serial;
    unsigned char *to, *from;
    size_t n;
};

/* What both ends share; freed with the second of them. */
struct channel {
    struct channel *next; /* waiting for accept */
    struct message *head, **tail;
    int queued;
    struct comm *ends[2];
    int closed[2], leaked_fd;
    int fd; /* to the other process, which has the other end; -1: both are here */
    struct header header;
    size_t header_got;
    struct message *incoming;
    int silence; /* reads in a row that found nothing */
    struct leftover leftover;
    struct message *unsent; /* by one fault, until the sender's next call */
    size_t last_size;
};

struct comm {
    struct comm *next; /* of all comms */
    enum kind kind;
    struct context *context;
    struct channel *channel;
    struct request requests[SLOTS];
    struct registration *registrations;
    int out, n_registrations, attempts;
    unsigned long number;
    pthread_t maker;
};

struct listener {
    struct listener *next;
    struct context *context;
    uint64_t id, token[2];
    struct channel *waiting, *given;
    int dev, fd, coming, idle_calls, accepted; /* coming: connected, has not said the token yet */
    uint64_t port;
    pthread_t maker;
};

struct registration {
    struct registration *next;
    char *data;
    size_t size;
    void *first; /* posted with it; for one fault */
};

struct handle {
    uint64_t hash, id, token[2], port, check;
};
_Static_assert(sizeof(struct handle) <= NCCL_NET_HANDLE_MAXSIZE_V4, "v4's handle is the shortest");

/* Of one communicator, from v11 on; NULL stands for all older versions together. */
struct context {
    struct context *next;
    int traffic_class;
    const ncclNetCommConfig_v11_t *kept; /* by one fault */
};

/* Guards everything the comms share. */
extern pthread_mutex_t ref_lock;
extern struct listener *ref_listeners;
extern struct comm *ref_comms;

/* load.c */
ncclResult_t ref_refuse(const char *why); /* logs, ncclInvalidUsage */
void ref_nap(void);
void ref_start(void *(*run)(void *)); /* a thread nobody joins */
void *ref_idle(void *arg);
void *ref_wander(void *arg); /* comes back into the library's code time and again */
/* A call that never returns. */
#define BLOCKS_IN(call)                                                                            \
    do {                                                                                           \
        if (IS(BLOCKS_##call) || IS(BLOCKS_EVERYWHERE))                                            \
            ref_idle(NULL);                                                                        \
    } while (0)
void ref_start_spinning(void); /* four of them: seen on a busy machine too */
ncclResult_t ref_init(ncclDebugLogger_t logger);

/* context.c */
ncclResult_t ref_new_context(void **ctx, const ncclNetCommConfig_v11_t *config);
ncclResult_t ref_finalize(void *ctx);
ncclResult_t ref_set_net_attr(void *ctx, ncclNetAttr_v11_t *attr);
void ref_use_attr(void);
int ref_is_context(const void *ctx);

/* device.c */
ncclResult_t ref_devices(int *ndev);
ncclResult_t ref_devices_one(int *ndev);
void ref_properties(int dev, ncclNetProperties_v12_t *p);

/* connect.c */
ncclResult_t ref_listen(struct context *context, int dev, void *handle, void **comm);
ncclResult_t ref_connect(struct context *context, int dev, void *handle, void **comm,
                         void **device_handle);
ncclResult_t ref_accept(void *listen, void **comm, void **device_handle);

/* handle.c */
void ref_write_handle(const struct listener *l, unsigned char *out);
int ref_bad_handle(const struct handle *h, const void *where);

/* close.c */
ncclResult_t ref_close(void *comm);
ncclResult_t ref_close_listen(void *listen);
void ref_free_comm(struct comm *comm); /* under the lock */
void ref_free_listener(struct listener *l);
void ref_lose_messages(void);    /* everybody's; one fault */
extern atomic_int ref_disturbed; /* a close was, and others suffer; some faults */

/* wire.c, under the lock. */
int ref_wire_listen(uint64_t *port);          /* a descriptor or -1 */
int ref_wire_connect(const struct handle *h); /* the same; -1 with EAGAIN: later */
int ref_wire_accept(struct listener *l);      /* the same */
void ref_wire_send(struct channel *channel);
void ref_wire_receive(struct channel *channel);

/* register.c */
ncclResult_t ref_reg(void *comm, void *data, size_t size, int type, void **mhandle);
ncclResult_t ref_reg_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
                            void **mhandle);
ncclResult_t ref_dereg(void *comm, void *mhandle);
int ref_covers(const struct registration *mhandle, const void *data, size_t size);
void *ref_offset(void *data, struct registration *mhandle);

/* copy.c: into the receive buffer; a reader may look at it meanwhile. */
void ref_copy(unsigned char *to, const unsigned char *from, size_t n);

/* match.c, under the lock. */
struct request *ref_take(struct comm *comm, enum kind kind);
struct request *ref_oldest(struct comm *comm);
/* Gives waiting messages to posted receives as far as the tags allow. */
void ref_progress(struct channel *channel);
void ref_push(struct channel *channel, struct message *m);
struct message *ref_pop(struct channel *channel, struct message **at);
void ref_discard(struct message *m);
void ref_drop_messages(struct channel *channel);
/* Whether the request is the next to complete in the order one fault imposes on all comms. */
int ref_first_of_all(const struct request *r);
void ref_forget(const struct request *r);

/* transfer.c */
struct message *ref_new_message(void *data, size_t size, int tag);
ncclResult_t ref_isend(struct comm *comm, void *data, size_t size, int tag, void *mhandle,
                       void **request);
ncclResult_t ref_irecv(struct comm *comm, int n, void **data, const size_t *sizes, const int *tags,
                       void **mhandles, void **request);
/* One fault: a message goes out with the sender's next call after it was done. */
void ref_send_unsent(struct channel *channel, struct message *next);

/* test.c */
extern int ref_somebody_died; /* a peer in another process */
ncclResult_t ref_test(void *request, int *done, int *sizes);

#endif
