/* Data connections: made, woken, put to sleep, ended. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fleet/relay/engine.h"
#include "plugin/abi/nccl_abi.h"
#include "topo/base/log.h"

#define SPIN_US    50
#define MAKING_US  200000
#define LOST_MS    300
#define RESTLESS   32
#define EDGE_LEAST 2 /* buffers */
#define EDGE_PART  8 /* of what its user may still have an edge takes such a part, if it can */

static struct relayd_hop *new_hop(struct relayd_line *line, struct relayd_way *way,
                                  enum mn_relay_kind kind, uint8_t class, int is_in)
{
    struct mn_relay *relay = line->relay;
    struct relayd_hop *hop = calloc(1, sizeof *hop);

    if (!hop)
        return NULL;
    hop->source.what = RELAYD_HOP;
    hop->relay = relay;
    hop->line = line;
    hop->way = way;
    hop->kind = kind;
    hop->class = class;
    hop->is_in = is_in;
    hop->share.cap = MN_RELAY_BUFFERS;
    hop->moved_us = relayd_now_us();
    hop->next = relay->hops;
    relay->hops = hop;
    return hop;
}

static int take_run(struct relayd_hop *hop)
{
    struct mn_pool *pool = &hop->relay->pool;
    uint32_t most = MN_RELAY_BUFFERS;

    if (!hop->way)
        return mn_pool_take(pool, hop->kind, most, 0, &hop->run);
    /* An edge has fewer when its user has many, so that he can have more of them. */
    size_t has, may = relayd_quota_bytes(hop->line, &has);
    most /= has <= may / 4 ? 1 : has <= may ? 2 : 4;
    while (most > EDGE_LEAST && most * mn_relay_bytes(hop->kind) > may / EDGE_PART)
        most /= 2;
    if (most * mn_relay_bytes(hop->kind) > may)
        return 0;
    hop->owner = (struct mn_owner){.node = hop->line->who.node, .uid = hop->line->who.uid};
    return mn_pool_take(pool, hop->kind, most, 1, &hop->run) ||
           mn_pool_take(pool, hop->kind, EDGE_LEAST, 1, &hop->run);
}

/* RDMA gives access by pages. */
static size_t heard_bytes(const struct relayd_hop *hop)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (hop->run.count * MN_HEAD_SIZE + page - 1) / page * page;
}

static int take_buffers(struct relayd_hop *hop)
{
    const struct mn_pool *pool = &hop->relay->pool;

    if (!take_run(hop) || !(hop->bufs = calloc(hop->run.count, sizeof *hop->bufs)))
        return 0;
    hop->heard = aligned_alloc((size_t)sysconf(_SC_PAGESIZE), heard_bytes(hop));
    if (!hop->heard)
        return 0;
    memset(hop->heard, 0, heard_bytes(hop));
    for (uint32_t i = 0; i < hop->run.count; i++) {
        hop->bufs[i].in = hop;
        hop->bufs[i].data = mn_pool_data(pool, &hop->run, i);
        hop->bufs[i].heard = hop->heard + i * MN_HEAD_SIZE;
        hop->bufs[i].head = mn_pool_head(pool, &hop->run, i);
        relayd_list_push(&hop->free, &hop->bufs[i]);
    }
    return 1;
}

struct relayd_hop *relayd_hop_listen(struct relayd_line *line, struct relayd_way *way,
                                     enum mn_relay_kind kind, uint8_t class,
                                     uint8_t handle[MN_HANDLE_SIZE], struct mn_diag *diag)
{
    struct mn_relay *relay = line->relay;
    struct relayd_hop *hop = new_hop(line, way, kind, class, 1);
    enum mn_err err = MN_OK;

    if (!hop || !take_buffers(hop))
        err =
            mn_fail(diag, MN_ERR_NOMEM, "no buffers are free for who asks (relay.buffers, %zu MiB)",
                    relay->pool.size >> 20);
    if (!err)
        err = mn_hop_listen(&relay->config, relay->config.devices, mn_line_key(line->line), handle,
                            &hop->hop, diag);
    if (err && hop)
        relayd_hop_end(hop);
    if (err)
        return NULL;
    hop->state = RELAYD_HOP_MAKING;
    return hop;
}

static enum mn_err dial(struct relayd_hop *hop, const uint8_t *handle, struct mn_diag *diag)
{
    const struct mn_config *config =
        hop->kind == MN_RELAY_BULK ? &hop->relay->bulk : &hop->relay->config;
    enum mn_err err =
        mn_hop_dial(config, config->devices, mn_line_key(hop->line->line), handle, &hop->hop, diag);

    if (!err)
        hop->state = RELAYD_HOP_MAKING;
    return err;
}

struct relayd_hop *relayd_hop_dial(struct relayd_line *line, struct relayd_way *way,
                                   enum mn_relay_kind kind, uint8_t class, const uint8_t *handle,
                                   struct mn_diag *diag)
{
    struct relayd_hop *hop = new_hop(line, way, kind, class, 0);

    if (!hop) {
        (void)mn_fail(diag, MN_ERR_NOMEM, "no memory for a data connection");
        return NULL;
    }
    if (dial(hop, handle, diag)) {
        relayd_hop_end(hop);
        return NULL;
    }
    return hop;
}

/* --- trunks ----------------------------------------------------------------------------------- */

static void put_trunk(struct relayd_line *line, enum mn_line_frame type,
                      const struct mn_line_trunk *frame)
{
    uint8_t payload[MN_LINE_MAX];

    relayd_line_put(line, type, payload, mn_line_trunk_put(frame, payload));
}

struct relayd_hop *relayd_trunk(struct relayd_line *line, uint8_t class, enum mn_relay_kind kind)
{
    struct relayd_hop **at = &line->trunk[0][class][kind];
    struct mn_line_trunk ask = {.class = class, .kind = (uint8_t)kind};

    if (*at)
        return *at;
    *at = new_hop(line, NULL, kind, class, 0);
    if (*at)
        put_trunk(line, MN_LINE_TRUNK, &ask);
    return *at;
}

void relayd_on_trunk(struct relayd_line *line, const struct mn_line_trunk *frame)
{
    struct relayd_hop **at = &line->trunk[1][frame->class][frame->kind];
    struct mn_line_trunk answer = {.class = frame->class, .kind = frame->kind};
    struct mn_diag diag = {.text = ""};

    if (*at)
        relayd_hop_end(*at);
    *at = relayd_hop_listen(line, NULL, frame->kind, frame->class, answer.handle, &diag);
    if (!*at) {
        MN_WARN("%s: a trunk for what has been over %d others is refused: %s", line->peer,
                frame->class, diag.text);
        memset(answer.handle, 0, sizeof answer.handle);
        line->relay->counts.refused++;
    }
    put_trunk(line, MN_LINE_TRUNKED, &answer);
}

void relayd_on_trunked(struct relayd_line *line, const struct mn_line_trunk *frame)
{
    static const uint8_t none[MN_HANDLE_SIZE];
    struct relayd_hop *hop = line->trunk[0][frame->class][frame->kind];
    struct mn_diag diag = {.text = ""};

    if (!hop || hop->state != RELAYD_HOP_ASKED)
        return;
    if (!memcmp(frame->handle, none, sizeof none))
        relayd_hop_fail(hop, MN_GONE_FULL, "relay %s has no buffers left", line->peer);
    else if (dial(hop, frame->handle, &diag))
        relayd_hop_fail(hop, MN_GONE_RELAY, "relay %s: %s", line->peer, diag.text);
}

/* --- stepping --------------------------------------------------------------------------------- */

void relayd_hop_wake(struct relayd_hop *hop)
{
    if (hop->state == RELAYD_HOP_ASLEEP)
        hop->state = RELAYD_HOP_HOT;
    hop->moved_us = relayd_now_us();
    hop->relay->spins = hop->relay->moved = 1; /* its turn of this round may be over */
}

void relayd_hop_fail(struct relayd_hop *hop, enum mn_gone why, const char *fmt, ...)
{
    va_list args;

    if (hop->failed)
        return;
    va_start(args, fmt);
    vsnprintf(hop->text, sizeof hop->text, fmt, args);
    va_end(args);
    hop->failed = (uint8_t)why;
    hop->relay->marked = 1;
}

/* A process that has ended says so by its line, too, which tells more: that is waited for. */
void relayd_hop_broken(struct relayd_hop *hop, enum mn_err err)
{
    if (hop->way && err == MN_ERR_PEER_DEAD && !hop->lost_ms)
        hop->lost_ms = hop->relay->now_ms;
    else if (!hop->lost_ms)
        relayd_hop_fail(hop, MN_GONE_RELAY, "the data connection with %s has failed: %s",
                        hop->line->peer, mn_err_text(err));
}

void relayd_hop_lost(struct relayd_hop *hop)
{
    if (hop->lost_ms && hop->relay->now_ms - hop->lost_ms > LOST_MS)
        relayd_hop_fail(hop, MN_GONE_PEER, "%s has closed its data connection", hop->line->peer);
}

enum mn_err relayd_hop_register(struct relayd_hop *hop)
{
    const struct mn_pool *pool = &hop->relay->pool;
    size_t data = (size_t)pool->units * MN_POOL_UNIT;
    struct {
        uint8_t *at;
        size_t size;
    } parts[2] = {{pool->heads, pool->size - data}, {pool->base, data}};

    if (hop->is_in) {
        parts[0].at = hop->heard;
        parts[0].size = heard_bytes(hop);
        parts[1].at = mn_pool_data(pool, &hop->run, 0);
        parts[1].size = (size_t)hop->run.count * mn_relay_bytes(hop->kind);
    }
    for (int i = 0; i < 2; i++) {
        enum mn_err err = hop->comm->ops->reg_mr(hop->comm, parts[i].at, parts[i].size,
                                                 NCCL_PTR_HOST, &hop->mhandles[i]);
        if (err)
            return err;
    }
    return MN_OK;
}

static void make(struct relayd_hop *hop)
{
    struct mn_relay *relay = hop->relay;
    struct mn_diag diag = {.text = ""};
    int is_late = relayd_now_us() - hop->moved_us >= MAKING_US;

    /* Who is long in coming is looked for at each tick: thousands of them would hold up all data.
     */
    if (is_late && relay->now_ms - hop->armed_ms < RELAYD_TICK_MS)
        return;
    hop->armed_ms = relay->now_ms;
    enum mn_err err = mn_hop_step(hop->hop, &hop->comm, &diag);
    if (err == MN_ERR_AGAIN) {
        relay->naps |= !is_late;
        return;
    }
    if (!err) {
        err = relayd_hop_register(hop);
        if (err)
            (void)mn_fail(&diag, err, "its buffers cannot be registered: %s", mn_err_text(err));
    } else {
        hop->comm = NULL;
    }
    if (!err && hop->is_in)
        err = relayd_post(hop);
    if (err) {
        relayd_hop_fail(hop, MN_GONE_RELAY, "no data connection with %s: %s", hop->line->peer,
                        diag.text);
        return;
    }
    hop->state = RELAYD_HOP_HOT;
    relayd_hop_wake(hop);
    if (hop->way)
        relayd_way_look(hop->way);
    else if (!hop->is_in)
        relayd_pump(hop);
}

/* Descriptors that went were closed, which took them out of epoll. */
static enum mn_err watch(struct relayd_hop *hop)
{
    struct mn_wake wakes[MN_WAKES];

    if (hop->wakes_known && hop->wakes_seen == hop->comm->wakes_changed)
        return MN_OK;
    hop->wakes_seen = hop->comm->wakes_changed;
    hop->wakes_known = 1;
    int n = hop->comm->ops->descriptors(hop->comm, wakes, MN_WAKES);
    for (int i = 0; i < n && i < MN_WAKES; i++) {
        enum mn_err err =
            relayd_watch(hop->relay, wakes[i].fd, wakes[i].events | EPOLLET, &hop->source, NULL);
        if (err)
            return err;
    }
    return MN_OK;
}

static void perhaps_sleep(struct relayd_hop *hop)
{
    struct mn_relay *relay = hop->relay;
    /* RDMA announces without waking. */
    int blind = hop->no_room && hop->comm->ops->kind == MN_TRANSPORT_VERBS;

    if (relayd_now_us() - hop->moved_us < SPIN_US) {
        relay->spins = 1;
        return;
    }
    if (blind || hop->free.n) {
        relay->naps = 1;
        return;
    }
    enum mn_err err = watch(hop);
    if (!err)
        err = hop->comm->ops->arm(hop->comm);
    if (!err) {
        hop->state = RELAYD_HOP_ASLEEP;
        hop->armed_ms = relay->now_ms;
        hop->restless = 0;
    } else if (err == MN_ERR_AGAIN) {
        /* One that waits for its cable says so for as long as that takes. */
        if (hop->restless++ < RESTLESS)
            relay->spins = 1;
        else
            relay->naps = 1;
    } else if (err == MN_ERR_UNSUPPORTED) {
        relay->naps = 1;
    } else {
        relayd_hop_broken(hop, err);
    }
}

void relayd_hop_step(struct relayd_hop *hop)
{
    int moved = 0;
    enum mn_err err;

    /* Of a way that ends it goes at the end of the turn, whatever it would say. */
    if (hop->failed || hop->lost_ms || (hop->way && hop->way->ended) ||
        hop->state == RELAYD_HOP_ASKED || hop->state >= RELAYD_HOP_ASLEEP)
        return;
    if (hop->state == RELAYD_HOP_MAKING) {
        make(hop);
        return;
    }
    err = hop->is_in ? relayd_receive(hop, &moved) : relayd_send(hop, &moved);
    if (err)
        relayd_hop_broken(hop, err);
    if (hop->failed || hop->lost_ms)
        return;
    if (moved) {
        relayd_hop_wake(hop);
        hop->restless = 0;
    } else {
        perhaps_sleep(hop);
    }
}

/* --- the end ---------------------------------------------------------------------------------- */

/* A transport may keep what it has to send, and its socket, when the comm is closed. */
static void unwatch(const struct relayd_hop *hop)
{
    struct mn_wake wakes[MN_WAKES];
    int n = hop->comm->ops->descriptors(hop->comm, wakes, MN_WAKES);

    for (int i = 0; i < n && i < MN_WAKES; i++)
        (void)epoll_ctl(hop->relay->epoll, EPOLL_CTL_DEL, wakes[i].fd, NULL);
}

static void release_all(struct relayd_list *list)
{
    struct relayd_buf *buf;

    while ((buf = relayd_list_pop(list)))
        relayd_buf_release(buf);
}

void relayd_hop_end(struct relayd_hop *hop)
{
    struct relayd_buf *buf;

    if (hop->state == RELAYD_HOP_ENDED)
        return;
    hop->state = RELAYD_HOP_ENDED;
    hop->lost_ms = 0; /* it may stay for what it has under way, without a line to speak of */
    hop->drained.count = 0;
    hop->relay->marked = 1;
    if (hop->comm)
        unwatch(hop);
    for (int i = 0; i < 2; i++)
        if (hop->comm && hop->mhandles[i])
            (void)hop->comm->ops->dereg_mr(hop->comm, hop->mhandles[i]);
    mn_hop_close(hop->hop);
    hop->hop = NULL;
    hop->comm = NULL;
    while ((buf = relayd_list_pop(&hop->posted)))
        relayd_list_push(&hop->free, buf);
    if (hop->current)
        relayd_buf_release(hop->current);
    hop->current = NULL;
    release_all(&hop->sending);
    if (hop->line && !hop->way && hop->line->trunk[hop->is_in][hop->class][hop->kind] == hop)
        hop->line->trunk[hop->is_in][hop->class][hop->kind] = NULL;
    if (hop->way && hop->way->edge[!hop->is_in][hop->kind] == hop)
        hop->way->edge[!hop->is_in][hop->kind] = NULL;
    hop->line = NULL;
    hop->way = NULL;
}

int relayd_hop_is_idle(const struct relayd_hop *hop)
{
    return hop->state == RELAYD_HOP_ENDED && !hop->busy;
}

void relayd_hop_free(struct relayd_hop *hop)
{
    if (hop->run.count)
        mn_pool_give(&hop->relay->pool, &hop->run);
    free(hop->bufs);
    free(hop->heard);
    free(hop);
}
