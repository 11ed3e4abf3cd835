#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/dialer_impl.h"
#include "plugin/listen.h"
#include "plugin/relay/able.h"
#include "plugin/transport.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define PAUSE_MS     10 /* after the first round of attempts; twice as long after each, up to */
#define MAX_PAUSE_MS 1000
#define ASK_MS       300 /* a peer that is there has answered by then */
#define HEAR_MS      100 /* for what is said of an attempt that failed at once */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mn_dialer *dialers;
static uint64_t next_ticket = 1;

static struct mn_dialer *find(const struct mn_config *config, const struct mn_handle *handle)
{
    struct mn_dialer *d;

    pthread_mutex_lock(&lock);
    for (d = dialers; d; d = d->next)
        if (d->config == config && d->ticket == handle->scratch && handle->scratch &&
            mn_mac_equal(d->handle.nonce, handle->nonce, MN_NONCE_SIZE))
            break;
    if (d) {
        d->asked_ms = mn_now_ms();
        d->in_call = 1;
    }
    pthread_mutex_unlock(&lock);
    return d;
}

static void leave_call(struct mn_dialer *d)
{
    pthread_mutex_lock(&lock);
    d->in_call = 0;
    pthread_mutex_unlock(&lock);
}

/* The acceptor may have said READY: it must see the connection's end, not the reset that closing
 * makes of what nobody has read. */
static void leave(struct mn_chan *chan)
{
    uint8_t sink[1024];

    if (shutdown(chan->fd, SHUT_WR) != 0)
        return;
    /* A peer has said less than two frames; whoever says more may have his reset. */
    for (int i = 0; i < 16 && recv(chan->fd, sink, sizeof sink, MSG_DONTWAIT) > 0; i++)
        ;
}

static void end(struct mn_dialer *d)
{
    for (int i = 0; i < d->n_candidates; i++)
        if (d->candidates[i].connector == MN_ROUTED)
            mn_far_rest(&d->ways[d->candidates[i].acceptor]);
    if (d->conn) {
        leave(&d->conn->chan);
        mn_conn_close(d->conn);
    }
    free(d);
}

static void forget(struct mn_dialer *d)
{
    pthread_mutex_lock(&lock);
    for (struct mn_dialer **p = &dialers; *p; p = &(*p)->next)
        if (*p == d) {
            *p = d->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    end(d);
}

/* Ends those of config that were last asked after before a time. Who was away for long in a call
 * may still be in it. */
static void end_older(const struct mn_config *config, uint64_t before)
{
    struct mn_dialer *stale = NULL;

    pthread_mutex_lock(&lock);
    for (struct mn_dialer **p = &dialers; *p;) {
        struct mn_dialer *d = *p;
        if (d->config == config && d->asked_ms < before &&
            (before == UINT64_MAX || !(d->agreed || d->in_call))) {
            *p = d->next;
            d->next = stale;
            stale = d;
        } else {
            p = &d->next;
        }
    }
    pthread_mutex_unlock(&lock);
    while (stale) {
        struct mn_dialer *d = stale;
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

/* For a peer that no cable joins: the relay, or TCP over what the routing table says. The relay's
 * ends, too, first meet in that way. */
static int may_go_far(const struct mn_config *config, const struct mn_dialer *d)
{
    return !(mn_far_neighbour(config, &d->handle) && d->self.allow_tcp != MN_TCP_ALLOWED) &&
           (mn_plan_may_relay(&d->self) ||
            (mn_plan_reaches_far(&d->self) && !(config->pointers & ~NCCL_PTR_HOST)));
}

static enum mn_err find_candidates(const struct mn_config *config, const struct mn_device *device,
                                   struct mn_dialer *d, struct mn_diag *diag)
{
    struct mn_side remote;

    mn_dialer_remote(&d->handle, &remote);
    d->n_candidates = mn_pairs_find(&d->self, &remote, d->candidates);
    if (!d->n_candidates && config->n_devices > 1) {
        d->self.n_locals = mn_locals_all(config, device, d->self.locals);
        d->n_candidates = mn_pairs_find(&d->self, &remote, d->candidates);
    }
    if (d->n_candidates)
        return MN_OK;
    int n = may_go_far(config, d) ? mn_far_ways(config, &d->handle, d->ways) : 0;
    for (int i = 0; i < n; i++)
        d->candidates[d->n_candidates++] = (struct mn_pair){MN_ROUTED, (uint8_t)i};
    return n ? MN_OK : mn_dialer_no_cable(d, diag);
}

static enum mn_err begin(const struct mn_config *config, const struct mn_device *device,
                         const struct mn_handle *handle, void *bytes, struct mn_dialer **out,
                         struct mn_diag *diag)
{
    struct mn_dialer *d = calloc(1, sizeof *d);

    if (!d) {
        mn_fail(diag, MN_ERR_NOMEM, "no memory for a connection");
        return MN_ERR_NOMEM; /* the compiler does not know what mn_fail() returns */
    }
    d->config = config;
    d->handle = *handle;
    mn_side_self(config, device, &d->self);
    d->self.relay = mn_relay_able(config, handle->node_id);
    enum mn_err err = find_candidates(config, device, d, diag);
    if (err) {
        free(d);
        return err;
    }
    d->asked_ms = mn_now_ms();
    d->stepped_ms = d->asked_ms;
    d->tell_ms = d->deadline_ms = d->asked_ms + config->settings.connect_ms;
    d->in_call = 1;
    d->last_state = -1;
    pthread_mutex_lock(&lock);
    d->ticket = next_ticket++;
    d->next = dialers;
    dialers = d;
    pthread_mutex_unlock(&lock);
    mn_handle_set_scratch(bytes, d->ticket);
    *out = d;
    return MN_OK;
}

/* Connections that nobody looks at wait in the listener's queue: ever fewer of them. */
static unsigned patience_ms(const struct mn_dialer *d)
{
    const struct mn_settings *s = &d->config->settings;
    uint64_t patience = (uint64_t)s->handshake_ms << (d->unheard < 8 ? d->unheard : 8);
    unsigned most = s->connect_ms > s->handshake_ms ? s->connect_ms : s->handshake_ms;

    /* Another address is to be tried: this one's cable may go meanwhile. */
    if (d->n_candidates > 1)
        return s->handshake_ms;
    return patience < most ? (unsigned)patience : most;
}

static enum mn_err dial_current(const struct mn_config *config, struct mn_dialer *d,
                                int traffic_class, struct mn_diag *diag)
{
    struct mn_pair pair = d->candidates[d->current];
    int routed = pair.connector == MN_ROUTED;
    const struct mn_addr *remote =
        routed ? &d->ways[pair.acceptor].to : &d->handle.locals[pair.acceptor].addr;
    struct mn_conn *conn = calloc(1, sizeof *conn);
    int fd;

    if (!conn)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for a connection");
    conn->config = config;
    conn->connector = 1;
    conn->traffic_class = traffic_class;
    conn->side[1] = d->self;
    conn->side[0].node_id = d->handle.node_id; /* for what is known of it before it says a word */
    conn->control = pair;
    conn->stepped_ms = mn_now_ms();
    conn->patience_ms = patience_ms(d);
    mn_addr_format(remote, conn->peer_text, sizeof conn->peer_text);
    mn_conn_key(config, d->handle.nonce, conn->key);
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
    d->dialed_ms = conn->stepped_ms;
    return MN_OK;
}

/* Another attempt may go better, or only one at another address, or none. */
enum prospect { AGAIN, ELSEWHERE, NONE };

static enum prospect prospect_of(const struct mn_dialer *d, enum mn_err err)
{
    /* SYS: no descriptor is free at the moment, most likely. */
    if (!d->conn)
        return err == MN_ERR_LINK_DEAD || err == MN_ERR_PEER_DEAD || err == MN_ERR_SYS ? AGAIN
                                                                                       : NONE;
    if (d->conn->again)
        return AGAIN;
    return d->conn->state <= MN_CONN_PROOF ? ELSEWHERE : NONE;
}

/* Said at once, then ever more seldom. */
static void tell(const struct mn_dialer *d, const struct mn_diag *diag)
{
    const char *then = d->current ? "the next address" : "again";

    /* That one of several ways does not lead there is no error, and the last WARN is what the
     * application sees as one (ncclGetLastError). */
    if (d->current && d->candidates[d->current].connector == MN_ROUTED)
        MN_INFO("%s; trying the next way", diag->text);
    else if (!(d->rounds & (d->rounds - 1)))
        MN_WARN("%s; trying %s", diag->text, then);
    else
        MN_INFO("%s; trying %s", diag->text, then);
}

static void set_agreed(struct mn_dialer *d, int agreed)
{
    if (d->agreed == agreed)
        return;
    pthread_mutex_lock(&lock);
    d->agreed = agreed;
    pthread_mutex_unlock(&lock);
}

/* The attempt is over. MN_OK: the next one may begin, after a pause when all candidates had theirs;
 * else nothing is left to try. */
static enum mn_err next_attempt(struct mn_dialer *d, enum mn_err err, struct mn_diag *diag)
{
    enum prospect prospect = prospect_of(d, err);
    int state = d->conn ? (int)d->conn->state : MN_CONN_CONNECT;
    struct mn_diag why = *diag;
    struct mn_pair pair = d->candidates[d->current];

    set_agreed(d, 0);
    d->unheard = err == MN_ERR_TIMEOUT && state == MN_CONN_HELLO ? d->unheard + 1 : 0;
    if (d->conn && d->conn->relay_failed && !mn_plan_only_relay(d->conn->side)) {
        MN_INFO("peer %s: no relay: %s; other ways are taken for a minute", d->conn->peer_text,
                diag->text);
        mn_conn_close(d->conn);
        d->conn = NULL;
        return MN_OK;
    }
    if (pair.connector == MN_ROUTED && err == MN_ERR_LINK_DEAD && state == MN_CONN_CONNECT)
        mn_far_silent(&d->ways[pair.acceptor].to);
    err = mn_dialer_explain(d, err == MN_ERR_TIMEOUT ? MN_ERR_LINK_DEAD : err, why.text, diag);
    if (state >= d->last_state) {
        d->last = *diag;
        d->last_state = state;
    }
    if (d->conn)
        mn_conn_close(d->conn);
    d->conn = NULL;
    d->hopeful |= prospect == AGAIN;
    if (prospect == NONE)
        return err;
    if (d->current + 1 < d->n_candidates) {
        d->current++;
        tell(d, diag);
        return MN_OK;
    }
    if (!d->hopeful)
        return err;
    unsigned pause = d->rounds < 7 ? PAUSE_MS << d->rounds : MAX_PAUSE_MS;
    d->pause_end_ms = mn_now_ms() + (pause < MAX_PAUSE_MS ? pause : MAX_PAUSE_MS);
    d->rounds++;
    d->current = d->hopeful = 0;
    d->last_state = -1;
    tell(d, diag);
    return MN_OK;
}

/* Where packets get to is asked only when nobody answers. An attempt that fails before that is over
 * a little later, with what is heard then. Returns err, or MN_ERR_AGAIN. */
static enum mn_err hold(struct mn_dialer *d, enum mn_err err, const struct mn_diag *diag)
{
    const struct mn_far_way *way = &d->ways[d->candidates[d->current].acceptor];
    uint64_t now = mn_now_ms();
    int early = now - d->dialed_ms < ASK_MS;

    if (d->candidates[d->current].connector != MN_ROUTED || d->conn->state != MN_CONN_CONNECT ||
        !err || (early && err == MN_ERR_AGAIN))
        return err;
    mn_far_ask(way);
    if (!early || way->kind != MN_FAR_CABLES || err != MN_ERR_LINK_DEAD)
        return err;
    d->held = *diag;
    d->held_until_ms = now + HEAR_MS;
    return MN_ERR_AGAIN;
}

static enum mn_err release(struct mn_dialer *d, struct mn_diag *diag)
{
    if (mn_now_ms() < d->held_until_ms)
        return MN_ERR_AGAIN;
    d->held_until_ms = 0;
    *diag = d->held;
    return diag->code;
}

/* One candidate after the other, round after round. */
static enum mn_err advance(const struct mn_config *config, struct mn_dialer *d, int traffic_class,
                           struct mn_diag *diag)
{
    for (;;) {
        if (!d->conn && mn_now_ms() < d->pause_end_ms)
            return MN_ERR_AGAIN;
        enum mn_err err = d->conn ? MN_OK : dial_current(config, d, traffic_class, diag);
        if (!err && d->held_until_ms)
            err = release(d, diag);
        else if (!err)
            err = hold(d, mn_conn_step(d->conn, diag), diag);
        if (!err || err == MN_ERR_AGAIN)
            return err;
        err = next_attempt(d, err, diag);
        if (err)
            return err;
    }
}

/* connect has passed: the last cause, or what is waited for if there was none. */
static enum mn_err give_up(struct mn_dialer *d, struct mn_diag *diag)
{
    unsigned seconds = d->config->settings.connect_ms / 1000;
    char why[sizeof d->last.text];

    if (d->last.text[0]) {
        snprintf(why, sizeof why, "%.700s. Not connected within %u s", d->last.text, seconds);
        return mn_fail(diag, d->last.code, "%s", why);
    }
    snprintf(why, sizeof why, "nobody answers. Not connected within %u s", seconds);
    return mn_dialer_explain(d, MN_ERR_LINK_DEAD, why, diag);
}

/* The peer's host has the connection and answers for it, its process is stopped or at work
 * elsewhere: a rank that waits for another which is late looks at nobody. */
static int is_unheard(const struct mn_dialer *d)
{
    const struct mn_settings *s = &d->config->settings;
    unsigned least = s->handshake_ms < s->connect_ms ? s->handshake_ms : s->connect_ms;

    return d->conn && d->conn->state == MN_CONN_HELLO &&
           (d->conn->idle_ms >= least / 2 || !d->last.text[0]);
}

/* Whether the acceptor alone decides now. */
static int with_the_acceptor(const struct mn_dialer *d)
{
    return d->conn && d->conn->state == MN_CONN_LANES && d->conn->lanes_agreed;
}

static void tell_late(struct mn_dialer *d, uint64_t now)
{
    if (d->told || now <= d->tell_ms)
        return;
    d->told = 1;
    MN_WARN("peer %s has not accepted within %u s: its process is stopped, or busy elsewhere, or "
            "waits for a rank that is late; its host answers; still waiting",
            d->conn->peer_text, d->config->settings.connect_ms / 1000);
}

/* No attempt has ended. MN_ERR_AGAIN: it is waited on. */
static enum mn_err look_at_clock(struct mn_dialer *d, struct mn_diag *diag)
{
    uint64_t now = mn_now_ms();

    if (with_the_acceptor(d)) {
        /* It may have said READY already: nobody ends this but the connection itself. */
        set_agreed(d, 1);
        tell_late(d, now);
    } else if (is_unheard(d)) {
        d->deadline_ms = now + d->config->settings.connect_ms;
        tell_late(d, now);
    } else if (now > d->deadline_ms) {
        return give_up(d, diag);
    }
    return MN_ERR_AGAIN;
}

static void count_away(struct mn_dialer *d)
{
    unsigned most = d->config->settings.handshake_ms / MN_PATIENT_CALLS;
    uint64_t now = mn_now_ms(), away = now - d->stepped_ms;

    d->stepped_ms = now;
    if (away > most)
        d->deadline_ms += away - most;
}

enum mn_err mn_dialer_step(const struct mn_config *config, const struct mn_device *device,
                           int traffic_class, void *handle, struct mn_conn **conn,
                           struct mn_diag *diag)
{
    struct mn_handle h;
    enum mn_err err = mn_handle_read(handle, mn_config_key(config), &h, diag);

    if (err)
        return err;
    struct mn_dialer *d = find(config, &h);
    if (!d)
        err = begin(config, device, &h, handle, &d, diag);
    if (err)
        return err;
    count_away(d);
    err = advance(config, d, traffic_class, diag);
    if (err == MN_ERR_AGAIN)
        err = look_at_clock(d, diag);
    if (err && err != MN_ERR_AGAIN && diag->code == MN_ERR_LINK_DEAD)
        mn_dialer_add_tables(d, diag);
    if (err == MN_ERR_AGAIN) {
        leave_call(d);
        return err;
    }
    if (!err) {
        struct mn_pair pair = d->candidates[d->current];
        if (pair.connector == MN_ROUTED)
            mn_far_tell(config, &h, d->conn, &d->ways[pair.acceptor]);
        *conn = d->conn;
        d->conn = NULL;
    }
    forget(d);
    return err;
}

static struct mn_dialer *named(const struct mn_config *config, const void *handle)
{
    struct mn_handle h;

    return mn_handle_read(handle, mn_config_key(config), &h, NULL) ? NULL : find(config, &h);
}

int mn_dialer_answered(const struct mn_config *config, const void *handle)
{
    struct mn_dialer *d = named(config, handle);
    int answered = d && d->conn && d->conn->state > MN_CONN_CONNECT;

    if (d)
        leave_call(d);
    return answered;
}

enum mn_err mn_dialer_cause(const struct mn_config *config, const void *handle,
                            struct mn_diag *diag)
{
    struct mn_dialer *d = named(config, handle);
    int known = d && d->last.text[0] && !d->unheard && !with_the_acceptor(d) && !is_unheard(d);
    enum mn_err err = known ? give_up(d, diag) : MN_ERR_AGAIN;

    if (d)
        leave_call(d);
    return err;
}

void mn_dialer_forget(const struct mn_config *config, const void *handle)
{
    struct mn_dialer *d = named(config, handle);
    if (d)
        forget(d);
}
