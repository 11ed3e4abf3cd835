#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/listen.h"
#include "plugin/transport.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define MAX_CANDIDATES (2 * MN_MAX_LOCALS)

/* A connect() under way. Found again by the ticket in the handle and the listener's nonce; both
 * must agree, since the handle came over a network. */
struct dialer {
    struct dialer *next;
    const struct mn_config *config; /* of the context that dials */
    uint64_t ticket;
    struct mn_handle handle;
    struct mn_side self;
    struct mn_pair candidates[MAX_CANDIDATES];
    int n_candidates, current;
    int slow; /* a candidate took the connection and then its time */
    struct mn_conn *conn;
    uint64_t deadline_ms, asked_ms; /* asked_ms with the lock held */
    struct mn_diag last;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dialer *dialers;
static uint64_t next_ticket = 1;

static struct dialer *find(const struct mn_config *config, const struct mn_handle *handle)
{
    struct dialer *d;

    pthread_mutex_lock(&lock);
    for (d = dialers; d; d = d->next)
        if (d->config == config && d->ticket == handle->scratch && handle->scratch &&
            mn_mac_equal(d->handle.nonce, handle->nonce, MN_NONCE_SIZE))
            break;
    if (d)
        d->asked_ms = mn_now_ms();
    pthread_mutex_unlock(&lock);
    return d;
}

static void end(struct dialer *d)
{
    if (d->conn)
        mn_conn_close(d->conn);
    free(d);
}

static void forget(struct dialer *d)
{
    pthread_mutex_lock(&lock);
    for (struct dialer **p = &dialers; *p; p = &(*p)->next)
        if (*p == d) {
            *p = d->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    end(d);
}

/* Ends those of config that were last asked after before a time. */
static void end_older(const struct mn_config *config, uint64_t before)
{
    struct dialer *stale = NULL;

    pthread_mutex_lock(&lock);
    for (struct dialer **p = &dialers; *p;) {
        struct dialer *d = *p;
        if (d->config == config && d->asked_ms < before) {
            *p = d->next;
            d->next = stale;
            stale = d;
        } else {
            p = &d->next;
        }
    }
    pthread_mutex_unlock(&lock);
    while (stale) {
        struct dialer *d = stale;
        stale = d->next;
        end(d);
    }
}

void mn_dialer_sweep(const struct mn_config *config)
{
    uint64_t now = mn_now_ms(), limit = 2 * (uint64_t)config->settings.connect_ms;

    end_older(config, now > limit ? now - limit : 0);
}

void mn_dialer_drop(const struct mn_config *config)
{
    end_older(config, UINT64_MAX);
}

static void remote_side(const struct mn_handle *handle, struct mn_side *side)
{
    memset(side, 0, sizeof *side);
    side->node_id = handle->node_id;
    memcpy(side->locals, handle->locals, sizeof side->locals);
    side->n_locals = handle->n_locals;
}

/* Devices chosen by NCCL need not share a cable with the peer's: then the whole node looks. */
static void all_locals(const struct mn_config *config, struct mn_side *side)
{
    side->n_locals = 0;
    for (int d = 0; d < config->n_devices; d++)
        for (int i = 0; i < config->devices[d].n_locals && side->n_locals < MN_MAX_LOCALS; i++) {
            side->locals[side->n_locals] = config->devices[d].locals[i];
            side->locals[side->n_locals++].nic = (uint8_t)(d * MN_MAX_LOCALS + i);
        }
}

static void list_addresses(const struct mn_side *side, const char *between, char *text, size_t size)
{
    char addr[MN_ADDR_TEXT], gid[24];
    size_t used = 0;

    text[0] = 0;
    for (int i = 0; i < side->n_locals && used < size; i++) {
        gid[0] = 0;
        if (side->locals[i].gid_index >= 0)
            snprintf(gid, sizeof gid, " gid %d", side->locals[i].gid_index);
        used += (size_t)snprintf(text + used, size - used, "%s%s%s", i ? between : "",
                                 mn_addr_format(&side->locals[i].addr, addr, sizeof addr), gid);
    }
}

/* What both ends have, for a failure that is about addresses. */
static void add_tables(struct dialer *d, struct mn_diag *diag)
{
    struct mn_side remote;
    char theirs[320];
    size_t used = strlen(diag->text);

    remote_side(&d->handle, &remote);
    list_addresses(&remote, "\n  ", theirs, sizeof theirs);
    for (int i = 0; mn_transports[i]; i++)
        mn_transports[i]->offer(&d->self);
    snprintf(diag->text + used, sizeof diag->text - used,
             ". The peer's GIDs when it listened:\n  %s\nOwn GIDs now:\n%s%s%s", theirs,
             d->self.rdma_table[0] ? d->self.rdma_table : "  none\n",
             d->self.rdma_text[0] ? "not usable: " : "", d->self.rdma_text);
}

static enum mn_err find_candidates(const struct mn_config *config, struct dialer *d,
                                   struct mn_diag *diag)
{
    struct mn_side remote;
    char mine[320], theirs[320];

    remote_side(&d->handle, &remote);
    d->n_candidates = mn_pairs_find(&d->self, &remote, d->candidates);
    if (!d->n_candidates && config->n_devices > 1) {
        all_locals(config, &d->self);
        d->n_candidates = mn_pairs_find(&d->self, &remote, d->candidates);
    }
    if (d->n_candidates)
        return MN_OK;
    list_addresses(&d->self, ", ", mine, sizeof mine);
    list_addresses(&remote, ", ", theirs, sizeof theirs);
    for (int i = 0; mn_transports[i]; i++)
        mn_transports[i]->offer(&d->self);
    if (!mn_plan_tcp_possible(&d->self)) {
        mn_fail(diag, MN_ERR_CONFIG,
                "no cable to the peer: own addresses %s, the peer's %s share no subnet under both "
                "netmasks, and TCP through the routing table is used only when "
                "transport.allow_tcp is true (MESHNET_ALLOW_TCP=true)",
                mine, theirs);
        add_tables(d, diag);
        return diag->code;
    }
    MN_WARN("no cable to the peer: own addresses %s, the peer's %s share no subnet under both "
            "netmasks; trying the routing table",
            mine, theirs);
    for (int i = 0; i < remote.n_locals; i++)
        if (!mn_addr_is_loopback(&remote.locals[i].addr))
            d->candidates[d->n_candidates++] = (struct mn_pair){MN_ROUTED, (uint8_t)i};
    return d->n_candidates ? MN_OK
                           : mn_fail(diag, MN_ERR_CONFIG,
                                     "the peer offers only loopback addresses and is not on "
                                     "this host (NCCL_SOCKET_IFNAME=lo on several hosts?)");
}

static enum mn_err begin(const struct mn_config *config, const struct mn_device *device,
                         const struct mn_handle *handle, void *bytes, struct dialer **out,
                         struct mn_diag *diag)
{
    struct dialer *d = calloc(1, sizeof *d);

    if (!d) {
        mn_fail(diag, MN_ERR_NOMEM, "no memory for a connection");
        return MN_ERR_NOMEM; /* the compiler does not know what mn_fail() returns */
    }
    d->config = config;
    d->handle = *handle;
    mn_side_self(config, device, &d->self);
    enum mn_err err = find_candidates(config, d, diag);
    if (err) {
        free(d);
        return err;
    }
    d->asked_ms = mn_now_ms();
    d->deadline_ms = d->asked_ms + config->settings.connect_ms;
    pthread_mutex_lock(&lock);
    d->ticket = next_ticket++;
    d->next = dialers;
    dialers = d;
    pthread_mutex_unlock(&lock);
    mn_handle_set_scratch(bytes, d->ticket);
    *out = d;
    return MN_OK;
}

static enum mn_err dial_current(const struct mn_config *config, struct dialer *d, int traffic_class,
                                struct mn_diag *diag)
{
    struct mn_pair pair = d->candidates[d->current];
    int routed = pair.connector == MN_ROUTED;
    const struct mn_addr *remote = &d->handle.locals[pair.acceptor].addr;
    struct mn_conn *conn = calloc(1, sizeof *conn);
    int fd;

    if (!conn)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for a connection");
    conn->config = config;
    conn->connector = 1;
    conn->traffic_class = traffic_class;
    conn->side[1] = d->self;
    conn->control = pair;
    conn->started_ms = mn_now_ms();
    conn->deadline_ms = conn->started_ms + config->settings.handshake_ms;
    mn_addr_format(remote, conn->peer_text, sizeof conn->peer_text);
    mn_conn_key(conn, d->handle.nonce);
    enum mn_err err = mn_random(conn->random[1], sizeof conn->random[1], diag);
    if (!err)
        err = mn_dial(routed ? NULL : &d->self.locals[pair.connector], remote, d->handle.port,
                      traffic_class, &fd, diag);
    if (err) {
        free(conn);
        return err;
    }
    mn_chan_init(&conn->chan, fd);
    d->conn = conn;
    return MN_OK;
}

static enum mn_err explain(const struct dialer *d, enum mn_err code, const char *why,
                           struct mn_diag *diag)
{
    struct mn_pair pair = d->candidates[d->current];
    struct mn_addr remote = d->handle.locals[pair.acceptor].addr;
    char addr[MN_ADDR_TEXT];

    remote.prefix = -1;
    return mn_fail(diag, code, "peer %s port %u over %s: %s",
                   mn_addr_format(&remote, addr, sizeof addr), d->handle.port,
                   pair.connector == MN_ROUTED ? "the routing table"
                                               : d->self.locals[pair.connector].netdev,
                   why);
}

/* One candidate after the other; when all have failed, the reason of the last is the answer. A peer
 * that took the connection but does not come to accept it is asked again until the dialer's
 * deadline. */
static enum mn_err advance(const struct mn_config *config, struct dialer *d, int traffic_class,
                           struct mn_diag *diag)
{
    for (;;) {
        enum mn_err err = d->conn ? MN_OK : dial_current(config, d, traffic_class, &d->last);
        if (!err)
            err = mn_conn_step(d->conn, &d->last);
        if (!err || err == MN_ERR_AGAIN)
            return err;
        explain(d, err == MN_ERR_TIMEOUT ? MN_ERR_LINK_DEAD : err, d->last.text, diag);
        if (d->conn) {
            d->slow |= err == MN_ERR_TIMEOUT && d->conn->state > MN_CONN_CONNECT;
            mn_conn_close(d->conn);
        }
        d->conn = NULL;
        if (d->current + 1 < d->n_candidates) {
            d->current++;
        } else if (d->slow) {
            d->current = d->slow = 0;
        } else {
            if (diag->code == MN_ERR_LINK_DEAD)
                add_tables(d, diag);
            return diag->code;
        }
        MN_WARN("%s; trying %s", diag->text, d->current ? "the next address" : "again");
    }
}

enum mn_err mn_dialer_step(const struct mn_config *config, const struct mn_device *device,
                           int traffic_class, void *handle, struct mn_conn **conn,
                           struct mn_diag *diag)
{
    struct mn_handle h;
    enum mn_err err = mn_handle_read(handle, config->cluster_key, &h, diag);

    if (err)
        return err;
    struct dialer *d = find(config, &h);
    if (!d)
        err = begin(config, device, &h, handle, &d, diag);
    if (err)
        return err;
    if (mn_now_ms() > d->deadline_ms) {
        char why[512];
        snprintf(why, sizeof why, "not accepted within %u s%s%.440s",
                 config->settings.connect_ms / 1000, d->last.text[0] ? "; last: " : "",
                 d->last.text);
        err = explain(d, MN_ERR_TIMEOUT, why, diag);
    } else {
        err = advance(config, d, traffic_class, diag);
    }
    if (err == MN_ERR_AGAIN)
        return err;
    if (!err) {
        *conn = d->conn;
        d->conn = NULL;
    }
    forget(d);
    return err;
}

static struct dialer *named(const struct mn_config *config, const void *handle)
{
    struct mn_handle h;

    return mn_handle_read(handle, config->cluster_key, &h, NULL) ? NULL : find(config, &h);
}

int mn_dialer_answered(const struct mn_config *config, const void *handle)
{
    const struct dialer *d = named(config, handle);
    return d && d->conn && d->conn->state > MN_CONN_CONNECT;
}

void mn_dialer_forget(const struct mn_config *config, const void *handle)
{
    struct dialer *d = named(config, handle);
    if (d)
        forget(d);
}
