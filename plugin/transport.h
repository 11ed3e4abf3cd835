/* What a transport does for the core, with its contract. The core owns the handshake; a transport
 * gets a finished connection and moves messages over its lanes. Absent operations are not allowed:
 * fill them with one that says MN_ERR_UNSUPPORTED. */
#ifndef MN_TRANSPORT_H
#define MN_TRANSPORT_H

#include "plugin/bytes.h"
#include "plugin/conn.h"

struct mn_comm;

/* First member of every transport's request. NCCL sees a pointer to it. */
struct mn_request {
    struct mn_comm *comm;
};

/* For epoll(7), edge-triggered: the owner adds EPOLLET. */
struct mn_wake {
    int fd;
    unsigned events;
};
#define MN_WAKES    80   /* of a comm at most: a lane or a link each, and the control connection */
#define MN_SLEEP_MS 1000 /* the longest sleep of an owner that has requests outstanding */

struct mn_transport {
    const char *name;
    enum mn_transport_kind kind;
    /* The control connection stays beside the data and can be opened again: open() takes
     * conn->reopen over, where there is one, by mn_reopen_keep(). */
    int keeps_control;

    /* Sets pointers of config and of its devices: the memory that reg_mr and reg_dmabuf take on
     * this host's devices as they are now; host memory is always among it. Called by init; may ask
     * kernel and GPU drivers. */
    void (*pointers)(struct mn_config *config);

    /* --- handshake; none of these blocks ---
     * Adds what the peer must know of this node to its side. Any number of times. */
    void (*offer)(struct mn_side *self);
    /* offer() with all that a message about addresses shows, as it is now; after an error. */
    void (*explain)(struct mn_side *self);
    /* The plan is agreed: makes what the data needs here and writes what the peer must know of it,
     * at most MN_FRAME_MAX / 2 bytes; nothing when the sockets are all. Keeps it in conn->setup. */
    enum mn_err (*begin)(struct mn_conn *conn, struct mn_bytes *out, struct mn_diag *diag);
    /* Acceptor: what begin() would have written, when it has set conn->setup_later instead; called
     * when step() says MN_OK. */
    void (*answer)(struct mn_conn *conn, struct mn_bytes *out);
    /* What the peer wrote, nothing of it trusted. */
    enum mn_err (*peer)(struct mn_conn *conn, struct mn_bytes *in, struct mn_diag *diag);
    /* MN_OK: data may arrive; MN_ERR_AGAIN; else it failed. */
    enum mn_err (*step)(struct mn_conn *conn, struct mn_diag *diag);
    /* Gives up conn->setup, in any state; not called after open() succeeded. */
    void (*cancel)(struct mn_conn *conn);

    /* --- connection ---
     * Takes the connection's sockets over (conn itself stays the caller's) and makes the sending or
     * receiving end. On error nothing is kept and the sockets still belong to conn. Allocates all
     * the comm will ever need. */
    enum mn_err (*open)(struct mn_conn *conn, struct mn_comm **comm, struct mn_diag *diag);
    /* Frees everything in any state, requests in flight included. The bytes of sends reported done
     * still reach the peer. For that, and to say what has landed, TCP waits where links are out, 10
     * s at most; else nothing of the peer is waited for. */
    void (*close)(struct mn_comm *comm);
    /* May run beside isend, irecv and test of the same comm. *mhandle is never NULL on success. */
    enum mn_err (*reg_mr)(struct mn_comm *comm, void *data, size_t size, int type, void **mhandle);
    enum mn_err (*dereg_mr)(struct mn_comm *comm, void *mhandle);
    /* The same for a DMA-BUF; the caller closes fd afterwards. */
    enum mn_err (*reg_dmabuf)(struct mn_comm *comm, void *data, size_t size, int type,
                              uint64_t offset, int fd, void **mhandle);
    /* Post. *request NULL with MN_OK: no room now, call again. The data belongs to the transport
     * until test() says done. Errors are explained once by the transport, at WARN, with peer and
     * link, and stay: every later call on the comm returns the same. */
    enum mn_err (*isend)(struct mn_comm *comm, void *data, size_t size, int tag, void *mhandle,
                         struct mn_request **request);
    enum mn_err (*irecv)(struct mn_comm *comm, int n, void **data, const size_t *sizes,
                         const int *tags, void **mhandles, struct mn_request **request);
    /* What was received before, into data among others, is visible to the GPU when the request is
     * done. *request NULL with MN_OK: it is already. */
    enum mn_err (*flush)(struct mn_comm *comm, void *data, void *mhandle,
                         struct mn_request **request);
    /* Advances the comm; never blocks. When *done, sizes (may be NULL) has one entry a receive and
     * the request is the transport's again. */
    enum mn_err (*test)(struct mn_request *request, int *done, int *sizes);

    /* --- sleeping: for owners whose config says so (mn_config.sleeps) ---
     * They test what is outstanding until nothing moves, arm the comm, and sleep when all are
     * armed; both calls are of the comm's one thread.
     *
     * What becomes ready when the comm may have something to do; returns how many, of which at most
     * max are written. Ready for no reason now and then. They stay until comm->wakes_changed counts
     * up, in any call on the comm: those that went are closed, which ends their places in an epoll
     * instance, and new ones are to be added. Before close() the owner takes all of them out: a
     * socket may stay open behind it. */
    int (*descriptors)(struct mn_comm *comm, struct mn_wake *wakes, int max);
    /* MN_OK: whatever comes from now on makes a descriptor ready. MN_ERR_AGAIN: something came
     * before, or ends soon: test what is outstanding, then arm again. Else the comm has failed; it
     * is looked at for that here as otherwise after many empty tests, so that its owner, while it
     * waits for something, arms it every MN_SLEEP_MS at least: silence makes nothing ready.
     *
     * Of two things nothing tells: that the receiver of an RDMA comm has announced buffers, for
     * which an owner with something to send, whose isend found no room, sleeps for short times
     * only; and that a flush is done. MN_ERR_UNSUPPORTED: the comm was made without sleeps, or is
     * one that nobody sleeps on. */
    enum mn_err (*arm)(struct mn_comm *comm);

    /* --- end ---
     * A context has ended and all it had is closed: waits until no thread works on what it left,
     * which takes no longer than what such a thread waits for. Others may begin and end meanwhile.
     */
    void (*settle)(const struct mn_config *config);
    /* Whether settle() would have nothing to wait for. */
    int (*settled)(const struct mn_config *config);
    /* No context is left, nor one that settles: ends every thread and closes every device. The next
     * comm begins anew. */
    void (*quit)(void);
};

struct mn_registration;

/* First member of every transport's comm; from registrations on it is the core's, zero at first. */
struct mn_comm {
    const struct mn_transport *ops;
    int is_send;
    unsigned wakes_changed; /* see descriptors() */
    struct mn_registration *registrations;
    struct mn_comm *next, **at;
};

/* NULL-terminated, one row a transport. */
extern const struct mn_transport *const mn_transports[];
const struct mn_transport *mn_transport_of(enum mn_transport_kind kind);
extern const struct mn_transport mn_transport_tcp, mn_transport_verbs, mn_transport_relay;

#endif
