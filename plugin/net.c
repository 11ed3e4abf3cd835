#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/listen.h"
#include "plugin/net.h"
#include "plugin/transport.h"
#include "topo/base/log.h"

#define MAX_MESSAGE (1ull << 30) /* NCCL's own largest network message */

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mn_config *config; /* written once, under init_lock, before any other call */
static ncclDebugLogger_t nccl_logger;

static void log_to_nccl(enum mn_log_level level, const char *file, int line, const char *msg)
{
    static const ncclDebugLogLevel levels[] = {NCCL_LOG_WARN, NCCL_LOG_WARN, NCCL_LOG_INFO,
                                               NCCL_LOG_TRACE};
    nccl_logger(levels[level], NCCL_INIT | NCCL_NET, file, line, "NET/meshnet: %s", msg);
}

/* NCCL's words for our errors; an explanation was logged where the error was found. */
static ncclResult_t to_nccl(enum mn_err err)
{
    switch (err) {
    case MN_OK:
        return ncclSuccess;
    case MN_ERR_USAGE:
    case MN_ERR_UNSUPPORTED:
        return ncclInvalidArgument;
    case MN_ERR_CONFIG:
    case MN_ERR_TOO_LONG:
    case MN_ERR_AUTH:
        return ncclInvalidUsage;
    case MN_ERR_PEER_DEAD:
    case MN_ERR_PEER_SLOW:
    case MN_ERR_LINK_DEAD:
    case MN_ERR_TIMEOUT:
    case MN_ERR_PROTO:
    case MN_ERR_CLOSED:
        return ncclRemoteError;
    case MN_ERR_INTERNAL:
        return ncclInternalError;
    default:
        return ncclSystemError;
    }
}

static int explain(enum mn_err err, const char *doing, const struct mn_diag *diag)
{
    MN_WARN("%s: %s", doing, diag->text);
    return to_nccl(err);
}

static const struct mn_device *device_at(int dev)
{
    return config && dev >= 0 && dev < config->n_devices ? &config->devices[dev] : NULL;
}

int mn_net_init(void *logger)
{
    struct mn_diag diag = {.text = ""};
    enum mn_err err = MN_OK;

    pthread_mutex_lock(&init_lock);
    if (logger) {
        memcpy(&nccl_logger, &logger, sizeof nccl_logger);
        mn_log_set_sink(log_to_nccl);
    }
    if (!config) {
        struct mn_config *fresh = calloc(1, sizeof *fresh);
        err = fresh ? mn_config_load(fresh, &diag)
                    : mn_fail(&diag, MN_ERR_NOMEM, "no memory for the configuration");
        if (err)
            free(fresh);
        else
            config = fresh;
    }
    pthread_mutex_unlock(&init_lock);
    return err ? explain(err, "init", &diag) : ncclSuccess;
}

int mn_net_devices(int *ndev)
{
    *ndev = config ? config->n_devices : 0;
    return ncclSuccess;
}

int mn_net_properties(int dev, struct mn_net_props *props)
{
    const struct mn_device *d = device_at(dev);

    if (!d)
        return ncclInvalidArgument;
    *props = (struct mn_net_props){
        .name = (char *)(uintptr_t)d->name,
        .pci_path = d->pci_path[0] ? (char *)(uintptr_t)d->pci_path : NULL,
        .guid = d->guid,
        .ptr_support = NCCL_PTR_HOST,
        .speed_mbps = d->speed_mbps > 0 ? (int)d->speed_mbps : 10000,
        .port = 1,
        .max_comms = 65536,
        .max_recvs = MN_MAX_RECVS,
        .max_p2p_bytes = MAX_MESSAGE,
        .max_coll_bytes = MAX_MESSAGE,
        .max_multi_request_size = 1,
        .rail_id = -1,
        .plane_id = -1,
    };
    return ncclSuccess;
}

int mn_net_listen(int dev, void *handle, void **listen_comm)
{
    const struct mn_device *d = device_at(dev);
    struct mn_listener *listener;
    struct mn_diag diag;

    *listen_comm = NULL;
    if (!d)
        return ncclInvalidArgument;
    enum mn_err err = mn_listener_open(config, d, handle, &listener, &diag);
    if (err)
        return explain(err, "listen", &diag);
    *listen_comm = listener;
    return ncclSuccess;
}

/* Wraps a finished handshake in the transport's comm. */
static int open_comm(struct mn_conn *conn, void **comm)
{
    struct mn_diag diag;
    struct mn_comm *opened;
    enum mn_err err = conn->transport->open(conn, &opened, &diag);

    if (!err) {
        MN_INFO("%s peer %s by %s over %d cable(s), %d on each",
                conn->connector ? "sending to" : "receiving from", conn->peer_text,
                conn->transport->name, conn->plan.n_pairs ? conn->plan.n_pairs : 1,
                conn->plan.lanes_per_pair);
        conn->n_lanes = 0; /* sockets and set-up are the transport's now */
        conn->setup = NULL;
        *comm = opened;
    }
    mn_conn_close(conn);
    return err ? explain(err, "connection", &diag) : ncclSuccess;
}

int mn_net_connect(int dev, int traffic_class, void *handle, void **send_comm)
{
    const struct mn_device *d = device_at(dev);
    struct mn_conn *conn;
    struct mn_diag diag = {.text = ""};

    *send_comm = NULL;
    if (!d)
        return ncclInvalidArgument;
    if (traffic_class < 0)
        traffic_class = config->settings.traffic_class;
    mn_dialer_sweep(config);
    enum mn_err err = mn_dialer_step(config, d, traffic_class, handle, &conn, &diag);
    if (err == MN_ERR_AGAIN)
        return ncclSuccess;
    return err ? explain(err, "connect", &diag) : open_comm(conn, send_comm);
}

int mn_net_accept(void *listen_comm, void **recv_comm)
{
    struct mn_conn *conn;
    struct mn_diag diag = {.text = ""};

    *recv_comm = NULL;
    enum mn_err err = mn_listener_step(listen_comm, &conn, &diag);
    if (err == MN_ERR_AGAIN)
        return ncclSuccess;
    return err ? explain(err, "accept", &diag) : open_comm(conn, recv_comm);
}

int mn_net_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
    struct mn_comm *c = comm;
    return to_nccl(c->ops->reg_mr(c, data, size, type, mhandle));
}

int mn_net_dereg_mr(void *comm, void *mhandle)
{
    struct mn_comm *c = comm;
    return to_nccl(c->ops->dereg_mr(c, mhandle));
}

int mn_net_isend(void *send_comm, void *data, size_t size, int tag, void *mhandle, void **request)
{
    struct mn_comm *c = send_comm;
    struct mn_request *r = NULL;

    *request = NULL;
    if (!c->is_send || size > MAX_MESSAGE)
        return ncclInvalidArgument;
    enum mn_err err = c->ops->isend(c, data, size, tag, mhandle, &r);
    *request = r;
    return to_nccl(err);
}

int mn_net_irecv(void *recv_comm, int n, void **data, const size_t *sizes, const int *tags,
                 void **mhandles, void **request)
{
    struct mn_comm *c = recv_comm;
    struct mn_request *r = NULL;

    *request = NULL;
    if (c->is_send || n < 1 || n > MN_MAX_RECVS)
        return ncclInvalidArgument;
    enum mn_err err = c->ops->irecv(c, n, data, sizes, tags, mhandles, &r);
    *request = r;
    return to_nccl(err);
}

int mn_net_iflush(void *recv_comm, int n, void **data, const int *sizes, void **mhandles,
                  void **request)
{
    struct mn_comm *c = recv_comm;
    struct mn_request *r = NULL;

    (void)n;
    (void)data;
    (void)sizes;
    (void)mhandles;
    enum mn_err err = c->ops->flush(c, &r);
    *request = r;
    return to_nccl(err);
}

int mn_net_test(void *request, int *done, int *sizes)
{
    struct mn_request *r = request;
    return to_nccl(r->comm->ops->test(r, done, sizes));
}

static int close_comm(struct mn_comm *comm)
{
    if (comm)
        comm->ops->close(comm);
    return ncclSuccess;
}

int mn_net_close_send(void *send_comm)
{
    return close_comm(send_comm);
}

int mn_net_close_recv(void *recv_comm)
{
    return close_comm(recv_comm);
}

int mn_net_close_listen(void *listen_comm)
{
    if (listen_comm)
        mn_listener_close(listen_comm);
    return ncclSuccess;
}
