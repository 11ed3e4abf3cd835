/* What a transport does for the core, with its contract. The core owns the handshake; a transport
 * gets a finished connection and moves messages over its lanes. Absent operations are not allowed:
 * fill them with one that says MN_ERR_UNSUPPORTED. */
#ifndef MN_TRANSPORT_H
#define MN_TRANSPORT_H

#include "plugin/conn.h"

struct mn_comm;

/* First member of every transport's request. NCCL sees a pointer to it. */
struct mn_request {
    struct mn_comm *comm;
};

struct mn_transport {
    const char *name;

    /* Takes the connection's sockets over (conn itself stays the caller's) and makes the sending or
     * receiving end. On error nothing is kept and the sockets still belong to conn. Allocates all
     * the comm will ever need. */
    enum mn_err (*open)(struct mn_conn *conn, struct mn_comm **comm, struct mn_diag *diag);
    /* Frees everything in any state, requests in flight included; does not wait for the peer. The
     * bytes of sends reported done still reach it. */
    void (*close)(struct mn_comm *comm);
    /* May run beside isend, irecv and test of the same comm. *mhandle is never NULL on success. */
    enum mn_err (*reg_mr)(struct mn_comm *comm, void *data, size_t size, int type, void **mhandle);
    enum mn_err (*dereg_mr)(struct mn_comm *comm, void *mhandle);
    /* Post. *request NULL with MN_OK: no room now, call again. The data belongs to the transport
     * until test() says done. Errors are explained once by the transport, at WARN, with peer and
     * link, and stay: every later call on the comm returns the same. */
    enum mn_err (*isend)(struct mn_comm *comm, void *data, size_t size, int tag,
                         struct mn_request **request);
    enum mn_err (*irecv)(struct mn_comm *comm, int n, void **data, const size_t *sizes,
                         const int *tags, struct mn_request **request);
    enum mn_err (*flush)(struct mn_comm *comm, struct mn_request **request);
    /* Advances the comm; never blocks. When *done, sizes (may be NULL) has one entry a receive and
     * the request is the transport's again. */
    enum mn_err (*test)(struct mn_request *request, int *done, int *sizes);
};

/* First member of every transport's comm. */
struct mn_comm {
    const struct mn_transport *ops;
    int is_send;
};

/* NULL-terminated; the first that the settings allow is used. One row a transport. */
extern const struct mn_transport *const mn_transports[];
extern const struct mn_transport mn_transport_tcp;

#endif
