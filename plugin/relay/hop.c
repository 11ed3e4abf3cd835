#include <ifaddrs.h>
#include <net/if.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/context.h"
#include "plugin/relay/hop.h"
#include "topo/base/alloc.h"

/* What the comms of one line work with, as long as one of them is there, or a transport's thread
 * that works for one which has been given up. */
struct shared {
    struct shared *next;
    const struct mn_config *from; /* NULL: it has ended */
    int users;
    struct mn_config config;
};

struct mn_hop {
    struct shared *shared;
    const struct mn_device *device; /* of the copy */
    uint64_t end_ms;
    int dials;
    struct mn_listener *listener;
    uint8_t handle[MN_HANDLE_SIZE]; /* of who dials */
    struct mn_comm *comm;           /* mn_comm_close sets it to NULL */
    struct mn_diag failed;          /* code 0: has not */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shared *all;

/* --- the copy --------------------------------------------------------------------------------- */

/* Only what is here now is offered: a cable that is out would keep a slower one beside it from
 * being taken. And what has come since the start is known by now. Nothing is here: who tries says
 * why. */
static void keep_here(struct mn_device *device, const struct ifaddrs *host)
{
    struct mn_device now = *device;

    now.n_locals = 0;
    for (int i = 0; i < device->n_locals; i++) {
        const struct ifaddrs *here = mn_addr_here(host, &device->locals[i].addr);
        if (!here)
            continue;
        struct mn_local *local = &now.locals[now.n_locals++];
        *local = device->locals[i];
        mn_strlcpy(local->netdev, here->ifa_name, sizeof local->netdev);
        local->ifindex = if_nametoindex(here->ifa_name);
    }
    if (now.n_locals)
        *device = now;
}

static struct shared *copy_of(const struct mn_config *config, const uint8_t key[MN_KEY_SIZE])
{
    struct shared *s = malloc(sizeof *s);
    struct ifaddrs *host;

    if (!s)
        return NULL;
    s->from = config;
    s->users = 1;
    s->config = *config;
    s->config.settings.reach = MN_REACH_DIRECT;
    s->config.settings.detour = MN_DETOUR_OFF;
    s->config.routes.n = s->config.n_far = 0;
    s->config.uncabled = 0;
    s->config.beside = NULL;
    s->config.n_beside = 0;
    memset(&s->config.mesh, 0, sizeof s->config.mesh); /* the way has been agreed by its digest */
    s->config.has_key = s->config.hop = 1;
    memcpy(s->config.cluster_key, key, MN_KEY_SIZE);
    if (getifaddrs(&host))
        return s;
    for (int d = 0; d < s->config.n_devices; d++)
        keep_here(&s->config.devices[d], host);
    freeifaddrs(host);
    return s;
}

static struct shared *take(const struct mn_config *config, const uint8_t key[MN_KEY_SIZE])
{
    struct shared *s;

    pthread_mutex_lock(&lock);
    for (s = all; s; s = s->next)
        if (s->from == config && s->users && mn_mac_equal(s->config.cluster_key, key, MN_KEY_SIZE))
            break;
    if (s) {
        s->users++;
    } else if ((s = copy_of(config, key))) {
        s->next = all;
        all = s;
    }
    pthread_mutex_unlock(&lock);
    return s;
}

static int is_settled(const struct shared *s)
{
    for (int i = 0; mn_transports[i]; i++)
        if (!mn_transports[i]->settled(&s->config))
            return 0;
    return 1;
}

static void release(struct shared *s)
{
    mn_wipe(s->config.cluster_key, sizeof s->config.cluster_key);
    free(s);
}

/* Frees those that nobody uses any more. */
static void sweep_locked(int quit)
{
    for (struct shared **at = &all; *at;) {
        struct shared *s = *at;
        if (!s->users && (quit || is_settled(s))) {
            *at = s->next;
            release(s);
        } else {
            at = &s->next;
        }
    }
}

static void give_back(struct shared *s)
{
    pthread_mutex_lock(&lock);
    s->users--;
    sweep_locked(0);
    pthread_mutex_unlock(&lock);
}

/* One that nobody uses and that is kept for a transport's thread; used from here on. */
static struct shared *take_left(const struct mn_config *config)
{
    pthread_mutex_lock(&lock);
    struct shared *s = all;
    while (s && (s->from != config || s->users))
        s = s->next;
    if (s) {
        s->from = NULL;
        s->users++;
    }
    pthread_mutex_unlock(&lock);
    return s;
}

void mn_hop_settle(const struct mn_config *config)
{
    struct shared *s;

    while ((s = take_left(config))) {
        for (int i = 0; mn_transports[i]; i++)
            mn_transports[i]->settle(&s->config);
        give_back(s);
    }
}

void mn_hop_quit(void)
{
    pthread_mutex_lock(&lock);
    sweep_locked(1);
    pthread_mutex_unlock(&lock);
}

/* --- the hop ---------------------------------------------------------------------------------- */

static enum mn_err begin(const struct mn_config *config, const struct mn_device *device,
                         const uint8_t key[MN_KEY_SIZE], struct mn_hop **out, struct mn_diag *diag)
{
    struct mn_hop *hop = calloc(1, sizeof *hop);

    if (!hop || !(hop->shared = take(config, key))) {
        free(hop);
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for a data connection to a neighbour");
    }
    hop->device = &hop->shared->config.devices[device - config->devices];
    hop->end_ms = mn_now_ms() + config->settings.connect_ms;
    *out = hop;
    return MN_OK;
}

enum mn_err mn_hop_listen(const struct mn_config *config, const struct mn_device *device,
                          const uint8_t key[MN_KEY_SIZE], void *handle, struct mn_hop **out,
                          struct mn_diag *diag)
{
    struct mn_hop *hop = NULL;
    enum mn_err err = begin(config, device, key, &hop, diag);

    if (err)
        return err;
    err = mn_listener_open(&hop->shared->config, hop->device, handle, &hop->listener, diag);
    if (err) {
        hop->listener = NULL;
        mn_hop_close(hop);
        return err;
    }
    *out = hop;
    return MN_OK;
}

enum mn_err mn_hop_dial(const struct mn_config *config, const struct mn_device *device,
                        const uint8_t key[MN_KEY_SIZE], const void *handle, struct mn_hop **out,
                        struct mn_diag *diag)
{
    struct mn_handle h;
    struct mn_hop *hop = NULL;
    enum mn_err err = mn_handle_read(handle, key, &h, diag);

    if (!err)
        err = begin(config, device, key, &hop, diag);
    if (err)
        return err;
    hop->dials = 1;
    hop->end_ms += config->settings.handshake_ms;
    memcpy(hop->handle, handle, sizeof hop->handle);
    /* The ticket in it is whatever the other end left there: none of this process's. */
    mn_handle_set_scratch(hop->handle, 0);
    *out = hop;
    return MN_OK;
}

static void let_go(struct mn_hop *hop)
{
    if (hop->listener)
        mn_listener_close(hop->listener);
    hop->listener = NULL;
    if (hop->dials)
        mn_dialer_forget(&hop->shared->config, hop->handle);
    hop->dials = 0;
}

static enum mn_err late(const struct mn_hop *hop, struct mn_diag *diag)
{
    unsigned seconds = hop->shared->config.settings.connect_ms / 1000;

    return hop->dials ? mn_fail(diag, MN_ERR_TIMEOUT,
                                "a neighbour's data connection was not accepted within %u s: its "
                                "process is stopped, or busy elsewhere",
                                seconds)
                      : mn_fail(diag, MN_ERR_TIMEOUT,
                                "no neighbour came for the data connection that it was told of "
                                "within %u s",
                                seconds);
}

static enum mn_err advance(struct mn_hop *hop, struct mn_diag *diag)
{
    const struct mn_config *config = &hop->shared->config;
    struct mn_conn *conn;
    struct mn_comm *comm = NULL;
    enum mn_err err = hop->dials ? mn_dialer_step(config, hop->device, -1, hop->handle, &conn, diag)
                                 : mn_listener_step(hop->listener, &conn, diag);

    if (!err)
        err = mn_comm_open(conn, &comm, diag);
    if (err == MN_ERR_AGAIN && mn_now_ms() > hop->end_ms) {
        /* What the dialer waits for is more than this where it was not called for seconds. */
        err = hop->dials ? mn_dialer_cause(config, hop->handle, diag) : MN_ERR_AGAIN;
        if (err == MN_ERR_AGAIN)
            err = late(hop, diag);
    }
    if (err)
        return err;
    comm->next = NULL; /* mn_comm_close() takes it out of a list */
    comm->at = &hop->comm;
    hop->comm = comm;
    return MN_OK;
}

enum mn_err mn_hop_step(struct mn_hop *hop, struct mn_comm **comm, struct mn_diag *diag)
{
    if (!hop->comm && !hop->failed.code) {
        enum mn_err err = advance(hop, &hop->failed);
        if (err == MN_ERR_AGAIN) {
            hop->failed.code = MN_OK;
            return err;
        }
        hop->failed.code = err;
        let_go(hop);
    }
    if (hop->failed.code && diag)
        *diag = hop->failed;
    if (!hop->failed.code)
        *comm = hop->comm;
    return hop->failed.code;
}

void mn_hop_close(struct mn_hop *hop)
{
    if (!hop)
        return;
    if (hop->comm)
        mn_comm_close(hop->comm);
    let_go(hop);
    give_back(hop->shared);
    free(hop);
}
