#include "plugin/context.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/logger.h"
#include "plugin/relay/hop.h"
#include "plugin/reopen.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

static pthread_mutex_t life_lock = PTHREAD_MUTEX_INITIALIZER; /* init and finalize */
static struct mn_net *nets, *shared;
static int ending;             /* contexts that finalize has taken and still waits for */
static struct mn_config *base; /* what the first context read and the others copy */
static atomic_int pointers;    /* of base, for who does not hold the lock */
static ncclDebugLogger_t nccl_logger;
static _Atomic(const struct mn_logger_levels *) levels; /* of nccl_logger */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* what the contexts own */
static struct mn_text {
    struct mn_text *next;
    char text[];
} * texts;

struct mn_registration {
    struct mn_registration *next;
    void *mhandle;
};

static void log_to_nccl(enum mn_log_level level, const char *file, int line, const char *msg)
{
    nccl_logger(atomic_load(&levels)->of[level], NCCL_INIT | NCCL_NET, file, line,
                "NET/meshnet: %s", msg);
}

static void set_logger(void *logger)
{
    if (!logger)
        return;
    memcpy(&nccl_logger, &logger, sizeof nccl_logger);
    atomic_store(&levels, mn_logger_levels(nccl_logger));
    mn_log_set_sink(log_to_nccl);
}

int mn_net_result(enum mn_err err)
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

int mn_net_explain(enum mn_err err, const char *doing, const struct mn_diag *diag)
{
    MN_WARN("%s: %s", doing, diag->text);
    return mn_net_result(err);
}

/* --- beginning and end ------------------------------------------------------------------------ */

/* TCP takes host memory alone: where it may have to step in, or where the mesh file says so, only
 * that is offered. NCCL asks before it connects: that a relay would take GPU memory to a node
 * without a cable is of use only where nothing else may take its place, as with reach: relay. */
static void find_pointers(struct mn_config *config)
{
    const struct mn_settings *s = &config->settings;
    int far = config->uncabled && !mn_reach_barred_by(s->reach, s->transport, s->allow_tcp);

    if (s->transport != MN_TRANSPORT_TCP && s->allow_tcp != MN_TCP_ALLOWED && s->gpu_direct)
        mn_transport_verbs.pointers(config);
    else
        mn_transport_tcp.pointers(config);
    if (!far || !(config->pointers & ~NCCL_PTR_HOST))
        return;
    MN_INFO("GPU memory is left to the host, since TCP may have to reach the nodes without a cable "
            "to this one; transport.reach: relay keeps GPUDirect where meshnet relayd runs on all "
            "nodes, and direct does for jobs whose ranks are neighbours");
    mn_transport_tcp.pointers(config);
}

static void quit_transports(void)
{
    for (int i = 0; mn_transports[i]; i++)
        mn_transports[i]->quit();
}

static enum mn_err read_config(struct mn_diag *diag)
{
    struct mn_config *fresh = calloc(1, sizeof *fresh);
    enum mn_err err = fresh ? mn_config_load(fresh, diag)
                            : mn_fail(diag, MN_ERR_NOMEM, "no memory for the configuration");

    if (err) {
        free(fresh);
        return err;
    }
    find_pointers(fresh);
    atomic_store(&pointers, fresh->pointers);
    base = fresh;
    return MN_OK;
}

static void forget_config(void)
{
    mn_config_free(base);
    free(base);
    base = NULL;
}

enum mn_err mn_net_check_class(int traffic_class, struct mn_diag *diag)
{
    return traffic_class <= 255 ? MN_OK
                                : mn_fail(diag, MN_ERR_CONFIG,
                                          "traffic class %d: expected 0 to 255, the byte of the IP "
                                          "header (ncclConfig_t.trafficClass)",
                                          traffic_class);
}

static enum mn_err begin(int traffic_class, struct mn_net **out, struct mn_diag *diag)
{
    enum mn_err err = base ? MN_OK : read_config(diag);

    if (err)
        return err;
    struct mn_net *net = calloc(1, sizeof *net);
    if (!net) {
        if (!nets && !ending) { /* which opened devices for it */
            quit_transports();
            forget_config();
        }
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for a communicator's context");
    }
    net->config = *base;
    if (traffic_class >= 0)
        net->config.settings.traffic_class = traffic_class;
    net->next = nets;
    nets = net;
    *out = net;
    return MN_OK;
}

/* An error here is an error for NCCL, too, and not "no device": both make it go on without this
 * plugin, but only an error is told by NCCL as one and ends a job that names the plugin. The
 * releases that crash after a failed init (2.28.3 to 2.29.3, with v10 and older) take v11 of this
 * library, where they call finalize with the NULL that is left here. */
int mn_net_init(void *logger)
{
    struct mn_diag diag = {.text = ""};

    pthread_mutex_lock(&life_lock);
    set_logger(logger);
    enum mn_err err = shared ? MN_OK : begin(-1, &shared, &diag);
    pthread_mutex_unlock(&life_lock);
    return err ? mn_net_explain(err, "init", &diag) : ncclSuccess;
}

int mn_net_open(void *logger, int traffic_class, struct mn_net **net)
{
    struct mn_diag diag = {.text = ""};

    *net = NULL;
    pthread_mutex_lock(&life_lock);
    set_logger(logger);
    enum mn_err err = mn_net_check_class(traffic_class, &diag);
    if (!err)
        err = begin(traffic_class, net, &diag);
    pthread_mutex_unlock(&life_lock);
    return err ? mn_net_explain(err, "init", &diag) : ncclSuccess;
}

static void settle(struct mn_net *net)
{
    while (net->comms)
        mn_comm_close(net->comms);
    while (net->listenings)
        mn_listening_close(net->listenings);
    mn_dialer_drop(&net->config);
    for (int i = 0; mn_transports[i]; i++)
        mn_transports[i]->settle(&net->config);
    mn_hop_settle(&net->config);
}

static void quit(void)
{
    mn_reopen_quit();
    quit_transports();
    mn_hop_quit();
    forget_config();
    mn_log_set_sink(NULL);
}

/* Neighbours that do not answer keep a context's jobs for seconds: others begin and end meanwhile.
 */
int mn_net_finalize(struct mn_net *net)
{
    struct mn_net **at = &nets;

    pthread_mutex_lock(&life_lock);
    while (*at && *at != net)
        at = &(*at)->next;
    int known = net && *at && net != shared;
    if (known) {
        *at = net->next;
        ending++;
    }
    pthread_mutex_unlock(&life_lock);
    if (!known)
        return ncclSuccess;
    settle(net);
    mn_wipe(net->config.cluster_key, sizeof net->config.cluster_key);
    free(net);
    pthread_mutex_lock(&life_lock);
    if (!--ending && !nets)
        quit();
    pthread_mutex_unlock(&life_lock);
    return ncclSuccess;
}

struct mn_net *mn_net_or_shared(struct mn_net *net)
{
    return net ? net : shared;
}

const struct mn_device *mn_net_device(const struct mn_net *net, int dev)
{
    return net && dev >= 0 && dev < net->config.n_devices ? &net->config.devices[dev] : NULL;
}

int mn_net_takes_dmabuf(void)
{
    return (atomic_load(&pointers) & NCCL_PTR_DMABUF) != 0;
}

const struct mn_config *mn_net_config(void)
{
    return base;
}

char *mn_net_lasting(const char *text)
{
    struct mn_text *t;

    pthread_mutex_lock(&lock);
    for (t = texts; t && strcmp(t->text, text) != 0; t = t->next)
        ;
    if (!t) {
        size_t size = strlen(text) + 1;
        t = malloc(sizeof *t + size);
        if (t) {
            memcpy(t->text, text, size);
            t->next = texts;
            texts = t;
        }
    }
    pthread_mutex_unlock(&lock);
    return t ? t->text : NULL;
}

/* --- what a context owns ---------------------------------------------------------------------- */

void mn_comm_adopt(struct mn_net *net, struct mn_comm *comm)
{
    pthread_mutex_lock(&lock);
    comm->next = net->comms;
    comm->at = &net->comms;
    if (comm->next)
        comm->next->at = &comm->next;
    net->comms = comm;
    pthread_mutex_unlock(&lock);
}

void mn_listening_adopt(struct mn_net *net, struct mn_listening *listening)
{
    listening->net = net;
    pthread_mutex_lock(&lock);
    listening->next = net->listenings;
    listening->at = &net->listenings;
    if (listening->next)
        listening->next->at = &listening->next;
    net->listenings = listening;
    pthread_mutex_unlock(&lock);
}

enum mn_err mn_comm_note(struct mn_comm *comm, void *mhandle)
{
    struct mn_registration *r = malloc(sizeof *r);

    if (!r)
        return MN_ERR_NOMEM;
    r->mhandle = mhandle;
    pthread_mutex_lock(&lock);
    r->next = comm->registrations;
    comm->registrations = r;
    pthread_mutex_unlock(&lock);
    return MN_OK;
}

void mn_comm_forget(struct mn_comm *comm, void *mhandle)
{
    struct mn_registration **at = &comm->registrations;

    pthread_mutex_lock(&lock);
    while (*at && (*at)->mhandle != mhandle)
        at = &(*at)->next;
    struct mn_registration *r = *at;
    if (r)
        *at = r->next;
    pthread_mutex_unlock(&lock);
    free(r);
}

void mn_comm_close(struct mn_comm *comm)
{
    pthread_mutex_lock(&lock);
    *comm->at = comm->next;
    if (comm->next)
        comm->next->at = comm->at;
    struct mn_registration *left = comm->registrations;
    pthread_mutex_unlock(&lock);
    while (left) {
        struct mn_registration *r = left;
        left = r->next;
        (void)comm->ops->dereg_mr(comm, r->mhandle);
        free(r);
    }
    comm->ops->close(comm);
}

void mn_listening_close(struct mn_listening *listening)
{
    pthread_mutex_lock(&lock);
    *listening->at = listening->next;
    if (listening->next)
        listening->next->at = listening->at;
    pthread_mutex_unlock(&lock);
    mn_listener_close(listening->listener);
    free(listening);
}

enum mn_err mn_comm_open(struct mn_conn *conn, struct mn_comm **comm, struct mn_diag *diag)
{
    enum mn_err err = conn->transport->open(conn, comm, diag);

    if (!err) {
        char over[64] = "";
        if (conn->plan.kind != MN_TRANSPORT_RELAY)
            snprintf(over, sizeof over, " over %d cable(s), %d on each", conn->plan.n_pairs,
                     conn->plan.lanes_per_pair);
        MN_INFO("%s peer %s by %s%s", conn->connector ? "sending to" : "receiving from",
                conn->peer_text, conn->transport->name, over);
        conn->n_lanes = 0; /* sockets and set-up are the transport's now */
        conn->setup = NULL;
    }
    mn_conn_close(conn);
    return err;
}
