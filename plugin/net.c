#include <stdlib.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/context.h"
#include "plugin/fence.h"
#include "topo/base/log.h"

#define MAX_MESSAGE (1ull << 30) /* NCCL's own largest network message */

int mn_net_devices(int *ndev)
{
    const struct mn_config *config = mn_net_config();

    *ndev = config ? config->n_devices : 0;
    return ncclSuccess;
}

int mn_net_properties(int dev, struct mn_net_props *props)
{
    const struct mn_config *config = mn_net_config();

    if (!config || dev < 0 || dev >= config->n_devices)
        return ncclInvalidArgument;
    const struct mn_device *d = &config->devices[dev];
    *props = (struct mn_net_props){
        .name = mn_net_lasting(d->name),
        .pci_path = d->pci_path[0] ? mn_net_lasting(d->pci_path) : NULL,
        .guid = d->guid,
        .ptr_support = d->pointers,
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
    return props->name ? ncclSuccess : ncclSystemError;
}

int mn_net_listen(struct mn_net *net, int dev, void *handle, void **listen_comm)
{
    struct mn_diag diag;

    *listen_comm = NULL;
    net = mn_net_or_shared(net);
    const struct mn_device *d = mn_net_device(net, dev);
    if (!d)
        return ncclInvalidArgument;
    struct mn_listening *listening = calloc(1, sizeof *listening);
    enum mn_err err = listening
                          ? mn_listener_open(&net->config, d, handle, &listening->listener, &diag)
                          : mn_fail(&diag, MN_ERR_NOMEM, "no memory for a listener");
    if (err) {
        free(listening);
        return mn_net_explain(err, "listen", &diag);
    }
    mn_listening_adopt(net, listening);
    *listen_comm = listening;
    return ncclSuccess;
}

static int open_comm(struct mn_net *net, struct mn_conn *conn, void **out)
{
    struct mn_diag diag;
    struct mn_comm *comm;
    enum mn_err err = mn_comm_open(conn, &comm, &diag);

    if (err)
        return mn_net_explain(err, "connection", &diag);
    mn_comm_adopt(net, comm);
    *out = comm;
    return ncclSuccess;
}

int mn_net_connect(struct mn_net *net, int dev, int traffic_class, void *handle, void **send_comm)
{
    struct mn_conn *conn;
    struct mn_diag diag = {.text = ""};

    *send_comm = NULL;
    net = mn_net_or_shared(net);
    const struct mn_device *d = mn_net_device(net, dev);
    if (!d)
        return ncclInvalidArgument;
    if (traffic_class < 0)
        traffic_class = net->config.settings.traffic_class;
    mn_dialer_sweep(&net->config);
    enum mn_err err = mn_net_check_class(traffic_class, &diag);
    if (!err)
        err = mn_dialer_step(&net->config, d, traffic_class, handle, &conn, &diag);
    if (err == MN_ERR_AGAIN)
        return ncclSuccess;
    return err ? mn_net_explain(err, "connect", &diag) : open_comm(net, conn, send_comm);
}

int mn_net_accept(void *listen_comm, void **recv_comm)
{
    struct mn_listening *listening = listen_comm;
    struct mn_conn *conn;
    struct mn_diag diag = {.text = ""};

    *recv_comm = NULL;
    enum mn_err err = mn_listener_step(listening->listener, &conn, &diag);
    if (err == MN_ERR_AGAIN)
        return ncclSuccess;
    return err ? mn_net_explain(err, "accept", &diag) : open_comm(listening->net, conn, recv_comm);
}

/* No object is larger, and none goes around the end of memory. */
static enum mn_err check_range(const void *data, size_t size, struct mn_diag *diag)
{
    if (size <= PTRDIFF_MAX && (uintptr_t)data <= UINTPTR_MAX - size)
        return MN_OK;
    return mn_fail(diag, MN_ERR_USAGE,
                   "%zu bytes at %p: no buffer is so long; the caller's size "
                   "is wrong",
                   size, data);
}

static int registered(struct mn_comm *c, enum mn_err err, void **mhandle)
{
    if (!err && mn_comm_note(c, *mhandle)) {
        (void)c->ops->dereg_mr(c, *mhandle);
        err = MN_ERR_NOMEM;
        MN_WARN("no memory to note a registration");
    }
    return mn_net_result(err);
}

int mn_net_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
    struct mn_comm *c = comm;

    struct mn_diag diag;
    enum mn_err err = check_range(data, size, &diag);

    *mhandle = NULL;
    if (err)
        return mn_net_explain(err, "registration", &diag);
    return registered(c, c->ops->reg_mr(c, data, size, type, mhandle), mhandle);
}

int mn_net_reg_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
                      void **mhandle)
{
    struct mn_comm *c = comm;

    struct mn_diag diag;
    enum mn_err err = check_range(data, size, &diag);

    *mhandle = NULL;
    if (err)
        return mn_net_explain(err, "registration", &diag);
    return registered(c, c->ops->reg_dmabuf(c, data, size, type, offset, fd, mhandle), mhandle);
}

int mn_net_dereg_mr(void *comm, void *mhandle)
{
    struct mn_comm *c = comm;

    mn_comm_forget(c, mhandle);
    return mn_net_result(c->ops->dereg_mr(c, mhandle));
}

int mn_net_isend(void *send_comm, void *data, size_t size, int tag, void *mhandle, void **request)
{
    struct mn_comm *c = send_comm;
    struct mn_request *r = NULL;

    *request = NULL;
    if (!c->is_send || size > MAX_MESSAGE)
        return ncclInvalidArgument;
    /* The GPU wrote the bytes and then a flag, which NCCL's proxy thread has seen by a volatile
     * load: that orders nothing where the processor may load ahead (aarch64), and inline sends and
     * TCP load the bytes here. Costs no instruction on x86. What a NIC fetches itself is behind the
     * doorbell, whose barrier is the provider's. tests/models: flag-and-copy. */
    mn_read_fence();
    enum mn_err err = c->ops->isend(c, data, size, tag, mhandle, &r);
    *request = r;
    return mn_net_result(err);
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
    return mn_net_result(err);
}

int mn_net_iflush(void *recv_comm, int n, void **data, const int *sizes, void **mhandles,
                  void **request)
{
    struct mn_comm *c = recv_comm;
    struct mn_request *r = NULL;
    int last = n - 1;

    /* NCCL leaves finished buffers out of data but not out of sizes: those say nothing here. */
    (void)sizes;
    *request = NULL;
    if (c->is_send)
        return ncclInvalidArgument;
    while (last >= 0 && !mhandles[last])
        last--;
    if (last < 0)
        return ncclSuccess;
    enum mn_err err = c->ops->flush(c, data[last], mhandles[last], &r);
    *request = r;
    return mn_net_result(err);
}

int mn_net_test(void *request, int *done, int *sizes)
{
    struct mn_request *r = request;
    return mn_net_result(r->comm->ops->test(r, done, sizes));
}

static int close_comm(struct mn_comm *comm)
{
    if (comm)
        mn_comm_close(comm);
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
        mn_listening_close(listen_comm);
    return ncclSuccess;
}
