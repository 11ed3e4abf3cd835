/* v4: handles of 64 bytes, an accept that waits, and a connect that cannot wait for the other
 * side's accept. A comm given out early is a transport of its own, around the one it will have. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/context.h"
#include "plugin/thread.h"
#include "topo/base/log.h"

#define STEP_NS      100000
#define ACCEPT_TIMES 10 /* connect, which a rank that loads a model may take */

/* A registration, made when there is something to make it with. */
struct promise {
    struct promise *next;
    void *data;
    size_t size;
    int type;
    void *mhandle;
};

struct early {
    struct mn_comm base;
    struct early *next; /* of those whose handshake goes on */
    struct mn_net *net;
    const struct mn_device *device;
    uint8_t handle[MN_HANDLE_SIZE];
    /* Enum below; what follows is constant once it is not WAITING: stored with release, loaded with
     * acquire. tests/models: early. */
    atomic_int state;
    struct mn_comm *real;     /* READY */
    enum mn_err error;        /* FAILED */
    struct promise *promises; /* WAITING: those to be kept */
};

enum { WAITING, READY, FAILED };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct early *waiting;
static int running; /* the thread, which ends when nobody waits */

static int state_of(struct early *e)
{
    return atomic_load_explicit(&e->state, memory_order_acquire);
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){0, STEP_NS}, NULL);
}

/* --- the handshake, with the lock held or before anyone knows of it ----------------------------
 */

static enum mn_err keep_promises(struct early *e)
{
    struct promise *p = e->promises;
    enum mn_err err = MN_OK;

    for (; p && !err; p = p->next)
        err = e->real->ops->reg_mr(e->real, p->data, p->size, p->type, &p->mhandle);
    for (struct promise *kept = e->promises; err && kept != p; kept = kept->next)
        if (kept->mhandle)
            (void)e->real->ops->dereg_mr(e->real, kept->mhandle);
    return err;
}

static void settle(struct early *e, struct mn_conn *conn, enum mn_err err, struct mn_diag *diag)
{
    if (!err)
        err = mn_comm_open(conn, &e->real, diag);
    if (err)
        (void)mn_net_explain(err, "connect", diag);
    else
        err = keep_promises(e);
    if (err && e->real) {
        e->real->ops->close(e->real);
        e->real = NULL;
    }
    e->error = err;
    atomic_store_explicit(&e->state, err ? FAILED : READY, memory_order_release);
}

static enum mn_err step(struct early *e)
{
    const struct mn_config *config = &e->net->config;
    struct mn_diag diag = {.text = ""};
    struct mn_conn *conn = NULL;
    enum mn_err err =
        mn_dialer_step(config, e->device, config->settings.traffic_class, e->handle, &conn, &diag);

    if (err != MN_ERR_AGAIN)
        settle(e, conn, err, &diag);
    return err;
}

static void *drive(void *none)
{
    pthread_mutex_lock(&lock);
    while (waiting) {
        for (struct early **at = &waiting; *at;) {
            struct early *e = *at, *next = e->next;
            if (step(e) == MN_ERR_AGAIN)
                at = &e->next;
            else
                *at = next;
        }
        pthread_mutex_unlock(&lock);
        pause_briefly();
        pthread_mutex_lock(&lock);
    }
    running = 0;
    pthread_mutex_unlock(&lock);
    return none;
}

static int start_waiting(struct early *e)
{
    pthread_t thread;
    int error = 0;

    pthread_mutex_lock(&lock);
    if (!running)
        error = mn_thread_start("mn-connect", drive, NULL, &thread);
    if (!error) {
        if (!running)
            pthread_detach(thread);
        running = 1;
        e->next = waiting;
        waiting = e;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

/* --- the comm -----------------------------------------------------------------------------------
 */

static enum mn_err early_reg_mr(struct mn_comm *base, void *data, size_t size, int type,
                                void **mhandle)
{
    struct early *e = (struct early *)base;
    struct promise *p;
    enum mn_err err = MN_OK;

    if (type != NCCL_PTR_HOST)
        return MN_ERR_UNSUPPORTED;
    p = calloc(1, sizeof *p);
    if (!p)
        return MN_ERR_NOMEM;
    *p = (struct promise){.data = data, .size = size, .type = type};
    pthread_mutex_lock(&lock);
    int state = state_of(e);
    if (state == WAITING) {
        p->next = e->promises;
        e->promises = p;
    }
    pthread_mutex_unlock(&lock);
    if (state != WAITING)
        err = state == READY ? e->real->ops->reg_mr(e->real, data, size, type, &p->mhandle)
                             : e->error;
    if (err)
        free(p);
    else
        *mhandle = p;
    return err;
}

static enum mn_err early_dereg_mr(struct mn_comm *base, void *mhandle)
{
    struct early *e = (struct early *)base;
    struct promise *p = mhandle;
    enum mn_err err = MN_OK;

    pthread_mutex_lock(&lock);
    for (struct promise **at = &e->promises; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (state_of(e) == READY)
        err = e->real->ops->dereg_mr(e->real, p->mhandle);
    free(p);
    return err;
}

static enum mn_err early_isend(struct mn_comm *base, void *data, size_t size, int tag,
                               void *mhandle, struct mn_request **request)
{
    struct early *e = (struct early *)base;
    struct promise *p = mhandle;

    *request = NULL;
    switch (state_of(e)) {
    case READY:
        return e->real->ops->isend(e->real, data, size, tag, p ? p->mhandle : NULL, request);
    case FAILED:
        return e->error;
    default:
        return MN_OK;
    }
}

static void early_close(struct mn_comm *base)
{
    struct early *e = (struct early *)base;

    pthread_mutex_lock(&lock);
    for (struct early **at = &waiting; *at; at = &(*at)->next)
        if (*at == e) {
            *at = e->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (state_of(e) == WAITING)
        mn_dialer_forget(&e->net->config, e->handle);
    else if (e->real)
        e->real->ops->close(e->real);
    free(e);
}

/* What v4 does not have, what no sending end has, and what the real one's requests go to. */
static enum mn_err no_dmabuf(struct mn_comm *base, void *data, size_t size, int type,
                             uint64_t offset, int fd, void **mhandle)
{
    (void)base, (void)data, (void)size, (void)type, (void)offset, (void)fd, (void)mhandle;
    return MN_ERR_UNSUPPORTED;
}

static enum mn_err no_irecv(struct mn_comm *base, int n, void **data, const size_t *sizes,
                            const int *tags, void **mhandles, struct mn_request **request)
{
    (void)base, (void)n, (void)data, (void)sizes, (void)tags, (void)mhandles, (void)request;
    return MN_ERR_UNSUPPORTED;
}

static enum mn_err no_flush(struct mn_comm *base, void *data, void *mhandle,
                            struct mn_request **request)
{
    (void)base, (void)data, (void)mhandle, (void)request;
    return MN_ERR_UNSUPPORTED;
}

static enum mn_err no_test(struct mn_request *request, int *done, int *sizes)
{
    (void)request, (void)done, (void)sizes;
    return MN_ERR_UNSUPPORTED;
}

static int no_descriptors(struct mn_comm *base, struct mn_wake *wakes, int max)
{
    (void)base, (void)wakes, (void)max;
    return 0;
}

static enum mn_err no_arm(struct mn_comm *base)
{
    (void)base;
    return MN_ERR_UNSUPPORTED;
}

static const struct mn_transport early_transport = {
    .name = "early",
    .close = early_close,
    .reg_mr = early_reg_mr,
    .dereg_mr = early_dereg_mr,
    .reg_dmabuf = no_dmabuf,
    .isend = early_isend,
    .irecv = no_irecv,
    .flush = no_flush,
    .test = no_test,
    .descriptors = no_descriptors,
    .arm = no_arm,
};

/* --- the calls ----------------------------------------------------------------------------------
 */

int mn_net_listen_short(int dev, void *handle, void **listen_comm)
{
    const struct mn_net *net = mn_net_or_shared(NULL);
    uint8_t whole[MN_HANDLE_SIZE];
    struct mn_handle h;
    struct mn_diag diag;
    int result = mn_net_listen(NULL, dev, whole, listen_comm);

    if (result != ncclSuccess)
        return result;
    enum mn_err err = mn_handle_read(whole, mn_config_key(&net->config), &h, &diag);
    if (err) {
        (void)mn_net_close_listen(*listen_comm);
        *listen_comm = NULL;
        return mn_net_explain(err, "listen", &diag);
    }
    mn_handle_write_short(&h, mn_config_key(&net->config), handle);
    return ncclSuccess;
}

/* MN_OK: *conn is through already; MN_ERR_AGAIN: the peer's host has taken the connection. */
static enum mn_err reach(struct early *e, struct mn_conn **conn, struct mn_diag *diag)
{
    const struct mn_config *config = &e->net->config;
    enum mn_err err;

    while ((err = mn_dialer_step(config, e->device, config->settings.traffic_class, e->handle, conn,
                                 diag)) == MN_ERR_AGAIN &&
           !mn_dialer_answered(config, e->handle))
        pause_briefly();
    return err;
}

int mn_net_connect_early(int dev, void *handle, void **send_comm)
{
    struct mn_net *net = mn_net_or_shared(NULL);
    const struct mn_device *device = mn_net_device(net, dev);
    struct mn_diag diag = {.text = ""};
    struct mn_conn *conn = NULL;
    struct mn_handle h;

    *send_comm = NULL;
    if (!device)
        return ncclInvalidArgument;
    mn_dialer_sweep(&net->config);
    enum mn_err err = mn_handle_read_short(handle, mn_config_key(&net->config), &h, &diag);
    if (err)
        return mn_net_explain(err, "connect", &diag);
    struct early *e = calloc(1, sizeof *e);
    if (!e)
        return ncclSystemError;
    e->base = (struct mn_comm){.ops = &early_transport, .is_send = 1};
    e->net = net;
    e->device = device;
    mn_handle_write(&h, mn_config_key(&net->config), e->handle);
    err = reach(e, &conn, &diag);
    int error = err == MN_ERR_AGAIN ? start_waiting(e) : 0;
    if (error) {
        mn_dialer_forget(&net->config, e->handle);
        err = mn_fail(&diag, MN_ERR_SYS, "no thread for the handshake: %s", mn_thread_why(error));
    }
    if (err != MN_ERR_AGAIN) {
        settle(e, conn, err, &diag);
        err = e->error;
    }
    if (err && err != MN_ERR_AGAIN) {
        free(e);
        return mn_net_result(err);
    }
    mn_comm_adopt(net, &e->base);
    *send_comm = e;
    return ncclSuccess;
}

int mn_net_accept_wait(void *listen_comm, void **recv_comm)
{
    const struct mn_listening *listening = listen_comm;
    uint64_t patience = listening->net->config.settings.connect_ms, began = mn_now_ms();
    uint64_t most = patience * ACCEPT_TIMES;
    struct mn_diag diag;
    int told = 0;

    for (;;) {
        int result = mn_net_accept(listen_comm, recv_comm);
        uint64_t waited = mn_now_ms() - began;
        if (result != ncclSuccess || *recv_comm)
            return result;
        if (waited > patience && !told++)
            MN_WARN("accept: nobody has connected for %u s: a rank may be late; waiting for it, "
                    "%u s at most",
                    (unsigned)(patience / 1000), (unsigned)(most / 1000));
        if (waited > most)
            break;
        pause_briefly();
    }
    enum mn_err err =
        mn_fail(&diag, MN_ERR_TIMEOUT, "nobody has connected within %u s", (unsigned)(most / 1000));
    return mn_net_explain(err, "accept", &diag);
}
