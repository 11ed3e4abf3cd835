/* Ways of a flow: dialled, attached, opened, gone, and again. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plugin/transport/relay/flow.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define PAUSE_MS     500
#define PAUSE_MAX_MS 2000
#define DOORS        8
#define BROKEN_MS    500

static const char *node_name(const struct relay_comm *comm, int node)
{
    const struct mn_mesh *mesh = &comm->config->relay->mesh;

    return (size_t)node < mesh->n_nodes ? mesh->nodes[node].name : "?";
}

char *relay_way_text(const struct relay_comm *comm, const struct relay_way *way, char *text,
                     size_t size)
{
    size_t at = 0;

    text[0] = 0;
    if (relay_is_direct(comm, way))
        snprintf(text, size, "their own cable");
    for (int i = 1; i < way->nodes.n - 1 && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i > 1 ? ", " : "",
                               node_name(comm, way->nodes.nodes[i]));
    return text;
}

int relay_ways_open(const struct relay_comm *comm)
{
    int n = 0;

    for (int i = 0; i < comm->n_ways; i++)
        n += comm->ways[i].state == RELAY_IS_OPEN;
    return n;
}

/* Who is at the other end of its line, "relay b (10.0.1.2)". Returns text. */
static char *other_end(const struct relay_comm *comm, const struct relay_way *way, char *text,
                       size_t size)
{
    int direct = relay_is_direct(comm, way);

    snprintf(text, size, "%s%s", direct ? "" : "relay ",
             direct || !way->line ? comm->peer : mn_line_peer(way->line));
    return text;
}

/* The relay beside this end. */
static int neighbour(const struct relay_comm *comm, const struct relay_way *way)
{
    return way->nodes.nodes[comm->base.is_send ? 1 : way->nodes.n - 2];
}

/* --- the end of one --------------------------------------------------------------------------- */

static void put_gone(struct relay_comm *comm, struct relay_way *way, enum mn_gone why,
                     const char *text)
{
    struct mn_line_gone f = {.flow = comm->flow,
                             .way = way->number,
                             .instance = way->instance,
                             .why = (uint8_t)why};
    uint8_t payload[MN_LINE_MAX];

    mn_strlcpy(f.text, text, sizeof f.text);
    (void)mn_line_put(way->line, MN_LINE_GONE, payload, mn_line_gone_put(&f, payload));
}

/* What has come is read, since a socket that is closed with something unread forgets what it has
 * to send. */
static void close_line(struct relay_way *way)
{
    enum mn_line_frame type;
    uint8_t *payload;
    size_t len;

    if (way->line && way->state >= RELAY_AWAITS && !mn_line_step(way->line, NULL))
        while (!mn_line_get(way->line, &type, &payload, &len))
            ;
    mn_line_close(way->line);
    way->line = NULL;
}

static void close_hops(struct relay_comm *comm, struct relay_way *way)
{
    relay_memory_close(comm, way);
    for (int kind = 0; kind < MN_RELAY_KINDS; kind++) {
        struct relay_hop *hop = &way->hops[kind];
        mn_hop_close(hop->hop);
        hop->hop = NULL;
        hop->comm = NULL;
    }
    if (comm->base.is_send)
        relay_send_gone(comm, way);
    else
        relay_recv_gone(comm, way);
}

static void warn_gone(struct relay_comm *comm, struct relay_way *way, uint64_t now)
{
    int left = relay_ways_open(comm);
    char through[256], rest[64];

    way->gone_ms = now;
    if (left)
        snprintf(rest, sizeof rest, "%d other%s go%s on", left, left > 1 ? "s" : "",
                 left > 1 ? "" : "es");
    else
        snprintf(rest, sizeof rest, "it was the last; waiting for one, %u s at most",
                 comm->config->settings.silence_ms / 1000);
    MN_WARN("%s peer %s: the way through %s is gone: %s; %s",
            comm->base.is_send ? "send to" : "receive from", comm->peer,
            relay_way_text(comm, way, through, sizeof through), way->why.text, rest);
}

void relay_way_gone(struct relay_comm *comm, struct relay_way *way, enum mn_gone why, int tell,
                    const char *fmt, ...)
{
    uint64_t now = mn_now_ms();
    int was_open = way->state == RELAY_IS_OPEN;
    va_list args;
    char text[MN_WORDS_MAX];

    if (way->state == RELAY_RESTS || way->state == RELAY_IS_REFUSED)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mn_fail(&way->why, MN_ERR_LINK_DEAD, "%s", text);
    if (was_open && !comm->base.is_send) {
        relay_recv_collect(comm, way);
        relay_flush_way(comm, way);
    } else if (was_open && relay_send_waits(comm) && !comm->vain++) {
        comm->vain_ms = now;
    }
    if (tell && way->line && way->state >= RELAY_AWAITS)
        put_gone(comm, way, why == MN_GONE_REFUSED ? why : MN_GONE_PEER, text);
    atomic_store_explicit(&way->unfit, 0, memory_order_relaxed);
    close_hops(comm, way);
    close_line(way);
    if (way->pair && was_open)
        way->closed_pair = way->pair;
    way->pair = way->peer_pair = 0;
    way->say_open = 0;
    way->broken_ms = 0;
    way->pause_ms = way->pause_ms ? way->pause_ms * 2 : PAUSE_MS;
    if (way->pause_ms > PAUSE_MAX_MS)
        way->pause_ms = PAUSE_MAX_MS;
    way->next_ms = now + way->pause_ms;
    way->state = why == MN_GONE_REFUSED ? RELAY_IS_REFUSED : RELAY_RESTS;
    comm->moved = 1;
    if (comm->talk_way == way->number)
        comm->talk_way = -1;
    if (was_open && why != MN_GONE_ENDED)
        warn_gone(comm, way, now);
}

enum mn_err relay_way_closed(struct relay_comm *comm, const struct relay_word *word)
{
    struct relay_way *way = &comm->ways[word->way];
    int refused = word->type == RELAY_REFUSED;

    if (word->way >= comm->n_ways)
        return MN_ERR_PROTO;
    if (way->pair == word->pair)
        relay_way_gone(comm, way, refused ? MN_GONE_REFUSED : MN_GONE_PEER, 1, "the %s %s",
                       comm->base.is_send ? "receiver" : "sender",
                       refused ? "does not take the memory there" : "has closed it");
    return MN_OK;
}

static void tell_broken(struct relay_comm *comm, struct relay_way *way, enum mn_err err)
{
    char who[192];

    relay_way_gone(comm, way, MN_GONE_RELAY, 1, "data connection with %s has failed: %s",
                   other_end(comm, way, who, sizeof who), mn_err_text(err));
}

void relay_way_broken(struct relay_comm *comm, struct relay_way *way, enum mn_err err)
{
    comm->moved = 1;
    if (err == MN_ERR_PEER_DEAD)
        way->broken_ms = mn_now_ms();
    else
        tell_broken(comm, way, err);
}

void relay_way_end(struct relay_comm *comm, struct relay_way *way)
{
    if (way->line && way->state >= RELAY_AWAITS)
        put_gone(comm, way, MN_GONE_ENDED, "its process has closed the connection");
    close_hops(comm, way);
    close_line(way);
    way->state = RELAY_RESTS;
}

/* --- its beginning ---------------------------------------------------------------------------- */

void relay_way_begin(struct relay_comm *comm, struct relay_way *way)
{
    const struct mn_relay_own *own = comm->config->relay;
    struct mn_relay_door doors[DOORS];
    int relay = neighbour(comm, way);
    struct mn_diag diag = {.text = ""};
    const struct mn_line_dial dial = {
        .config = comm->config,
        .kind = MN_LINE_PROCESS,
        .node = own->node,
        .relay_node = relay,
        .relay_name = node_name(comm, relay),
        .doors = doors,
        .n_doors = mn_relay_doors(&own->mesh, own->node, relay, doors, DOORS),
        .port = (uint16_t)comm->config->settings.relay_port,
    };

    way->state = RELAY_DIALS;
    if (mn_line_dial(&dial, &way->line, &diag)) {
        way->line = NULL;
        relay_way_gone(comm, way, MN_GONE_RELAY, 0, "meshnet relayd on %s: %s", dial.relay_name,
                       diag.text);
    }
}

const struct mn_device *relay_way_device(const struct relay_comm *comm, const struct relay_way *way)
{
    const struct mn_config *config = comm->config;
    struct mn_relay_door doors[DOORS];
    int n = mn_relay_doors(&config->relay->mesh, config->relay->node, neighbour(comm, way), doors,
                           DOORS);

    for (int i = 0; i < n; i++)
        for (int d = 0; d < config->n_devices; d++)
            for (int l = 0; l < config->devices[d].n_locals; l++)
                if (mn_addr_equal(&config->devices[d].locals[l].addr, &doors[i].from))
                    return &config->devices[d];
    return &config->devices[0];
}

static void attach(struct relay_comm *comm, struct relay_way *way)
{
    struct mn_line_attach f = {.flow = comm->flow,
                               .way = way->number,
                               .role = comm->base.is_send ? MN_RELAY_SENDER : MN_RELAY_RECEIVER,
                               .at = (uint8_t)(comm->base.is_send ? 1 : way->nodes.n - 2),
                               .instance = ++way->instance,
                               .mesh = comm->config->relay->digest,
                               .nodes = way->nodes};
    struct mn_diag diag = {.text = ""};
    uint8_t payload[MN_LINE_MAX];
    enum mn_err err = MN_OK;

    way->state = RELAY_AWAITS;
    for (int kind = 0; kind < MN_RELAY_KINDS && !comm->base.is_send && !err; kind++)
        err = mn_hop_listen(comm->config, relay_way_device(comm, way), mn_line_key(way->line),
                            f.handles[kind], &way->hops[kind].hop, &diag);
    if (!err)
        err = mn_line_put(way->line, MN_LINE_ATTACH, payload, mn_line_attach_put(&f, payload));
    if (err)
        relay_way_gone(comm, way, MN_GONE_RELAY, 1, "%s: %s", mn_line_peer(way->line),
                       diag.text[0] ? diag.text : mn_err_text(err));
}

/* --- what comes over its line ----------------------------------------------------------------- */

static int is_ours(const struct relay_comm *comm, const struct relay_way *way,
                   const struct mn_relay_flow *flow, uint8_t number)
{
    return !memcmp(flow, &comm->flow, sizeof *flow) && number == way->number;
}

static void on_attached(struct relay_comm *comm, struct relay_way *way, const uint8_t *payload,
                        size_t len)
{
    struct mn_line_attached f;
    struct mn_diag diag = {.text = ""};
    enum mn_err err = MN_OK;

    if (!mn_line_attached_get(payload, len, &f) || !is_ours(comm, way, &f.flow, f.way) ||
        !comm->base.is_send || way->hops[0].hop)
        err = mn_fail(&diag, MN_ERR_PROTO, "sends an ATTACHED that nobody waits for");
    else if (relay_is_direct(comm, way)) {
        relay_direct_attached(comm, way, &f);
        return;
    } else if (f.instance != way->instance)
        return;
    for (int kind = 0; kind < MN_RELAY_KINDS && !err; kind++)
        err = mn_hop_dial(comm->config, relay_way_device(comm, way), mn_line_key(way->line),
                          f.handles[kind], &way->hops[kind].hop, &diag);
    if (err)
        relay_way_gone(comm, way, MN_GONE_RELAY, 1, "%s: %s", mn_line_peer(way->line), diag.text);
}

static void on_gone(struct relay_comm *comm, struct relay_way *way, const uint8_t *payload,
                    size_t len)
{
    struct mn_line_gone f;

    if (!mn_line_gone_get(payload, len, &f) || !is_ours(comm, way, &f.flow, f.way) ||
        f.instance != way->instance) {
        relay_way_gone(comm, way, MN_GONE_RELAY, 1, "%s: sends what is no GONE of this flow",
                       mn_line_peer(way->line));
        return;
    }
    if ((f.why == MN_GONE_ENDED && !comm->ended_ms) || (f.why == MN_GONE_LOST && !comm->lost_ms)) {
        *(f.why == MN_GONE_LOST ? &comm->lost_ms : &comm->ended_ms) = mn_now_ms();
        mn_strlcpy(comm->ended_text, f.text, sizeof comm->ended_text);
    }
    /* At a set-up it is tried again: others end, and give back what they had. */
    if (f.why == MN_GONE_FULL)
        way->tries++;
    relay_way_gone(comm, way, f.why, 0, "%s", f.text);
}

static void on_talk(struct relay_comm *comm, struct relay_way *way, const uint8_t *payload,
                    size_t len)
{
    struct mn_line_talk f;
    struct mn_bytes messages;
    struct relay_word word;
    int is = 0;

    if (!mn_line_talk_get(payload, len, &f) || !is_ours(comm, way, &f.flow, f.way) ||
        f.to != (comm->base.is_send ? MN_RELAY_SENDER : MN_RELAY_RECEIVER)) {
        relay_way_gone(comm, way, MN_GONE_RELAY, 1, "%s: sends what is no TALK of this flow",
                       mn_line_peer(way->line));
        return;
    }
    enum mn_err err = relay_talk_hear(&comm->talk, f.words, f.len, &messages);
    while (!err && (is = relay_word_get(&messages, &word)) > 0)
        err = comm->base.is_send ? relay_send_word(comm, &word) : relay_recv_word(comm, &word);
    if (err == MN_ERR_PROTO || is < 0)
        relay_fail(comm, MN_ERR_PROTO, "what it says is not of the relay's protocol (message %d)",
                   word.type);
}

static void on_opened(struct relay_comm *comm, struct relay_way *way, const uint8_t *payload,
                      size_t len)
{
    struct mn_line_opened f;

    if (mn_line_opened_get(payload, len, &f) && is_ours(comm, way, &f.flow, f.way) && f.pair &&
        f.instance == way->instance && !way->pair)
        way->pair = f.pair;
    else
        relay_way_gone(comm, way, MN_GONE_RELAY, 1, "%s: sends what is no OPENED of this flow",
                       mn_line_peer(way->line));
}

static void on_frame(struct relay_comm *comm, struct relay_way *way, enum mn_line_frame type,
                     const uint8_t *payload, size_t len)
{
    comm->moved = 1;
    switch (type) {
    case MN_LINE_ATTACHED:
        on_attached(comm, way, payload, len);
        break;
    case MN_LINE_OPENED:
        on_opened(comm, way, payload, len);
        break;
    case MN_LINE_GONE:
        on_gone(comm, way, payload, len);
        break;
    case MN_LINE_TALK:
        on_talk(comm, way, payload, len);
        break;
    default:
        relay_way_gone(comm, way, MN_GONE_RELAY, 1,
                       "%s: sends a frame of type %d, which is not for a process",
                       mn_line_peer(way->line), (int)type);
    }
}

static void serve_line(struct relay_comm *comm, struct relay_way *way)
{
    struct mn_diag diag = {.text = ""};
    enum mn_line_frame type;
    uint8_t *payload;
    size_t len;
    enum mn_err err = mn_line_step(way->line, &diag);

    if (err == MN_ERR_AGAIN)
        return;
    if (err && relay_is_direct(comm, way)) {
        /* Who only gives up the way says so before. */
        if (err == MN_ERR_PEER_DEAD && !comm->ended_ms && mn_line_has_closed(way->line)) {
            comm->ended_ms = mn_now_ms();
            mn_strlcpy(comm->ended_text, "its process has ended without closing the connection",
                       sizeof comm->ended_text);
        }
        relay_way_gone(comm, way, MN_GONE_PEER, 0, "%s", diag.text);
        return;
    }
    if (err) {
        way->tries = (uint8_t)(mn_line_fd(way->line) < 0 ? RELAY_TRIES : way->tries + 1);
        relay_way_gone(comm, way, err == MN_ERR_AUTH ? MN_GONE_REFUSED : MN_GONE_RELAY, 0,
                       "relay %s", diag.text);
        return;
    }
    if (way->state == RELAY_DIALS) {
        comm->moved = 1;
        if (relay_is_direct(comm, way))
            relay_direct_attach(comm, way);
        else
            attach(comm, way);
    }
    while (way->line && !mn_line_get(way->line, &type, &payload, &len))
        on_frame(comm, way, type, payload, len);
}

/* --- steps ------------------------------------------------------------------------------------ */

/* What does not take the memory now will not later. */
static void unfit(struct relay_comm *comm, struct relay_way *way)
{
    char who[192];

    relay_way_gone(comm, way, MN_GONE_REFUSED, 1,
                   "data connection with %s does not take the memory that is registered",
                   other_end(comm, way, who, sizeof who));
}

static void serve_hops(struct relay_comm *comm, struct relay_way *way)
{
    struct mn_diag diag = {.text = ""};
    char who[192];
    int up = 0;

    for (int kind = 0; kind < MN_RELAY_KINDS; kind++) {
        struct relay_hop *hop = &way->hops[kind];
        enum mn_err err = hop->comm || !hop->hop ? MN_OK : mn_hop_step(hop->hop, &hop->comm, &diag);
        if (err && err != MN_ERR_AGAIN) {
            relay_way_gone(comm, way, MN_GONE_RELAY, 1, "data connection with %s: %s",
                           other_end(comm, way, who, sizeof who), diag.text);
            return;
        }
        up += hop->comm != NULL;
    }
    if (up < MN_RELAY_KINDS || !way->pair)
        return;
    if (relay_memory_open(comm, way)) {
        unfit(comm, way);
        return;
    }
    way->state = RELAY_IS_OPEN;
    comm->none_ms = 0;
    way->say_open = (uint8_t)comm->base.is_send;
    comm->moved = 1;
    char through[256];
    relay_way_text(comm, way, through, sizeof through);
    if (way->was_open)
        MN_WARN("%s peer %s: the way through %s is back after %.1f s; %llu pieces of it went again",
                comm->base.is_send ? "send to" : "receive from", comm->peer, through,
                (double)(mn_now_ms() - way->gone_ms) / 1000, (unsigned long long)way->again);
    else
        MN_INFO("%s peer %s: a way through %s is open",
                comm->base.is_send ? "send to" : "receive from", comm->peer, through);
    way->was_open = 1;
    way->again = 0;
}

void relay_way_step(struct relay_comm *comm, struct relay_way *way, uint64_t now_ms)
{
    if (way->state == RELAY_IS_REFUSED)
        return;
    if (relay_is_direct(comm, way)) {
        relay_direct_step(comm, way, now_ms);
    } else if (way->state == RELAY_RESTS) {
        if (now_ms < way->next_ms || comm->ended_ms)
            return;
        relay_way_begin(comm, way);
    }
    if (way->line)
        serve_line(comm, way);
    if (way->broken_ms && now_ms - way->broken_ms > BROKEN_MS)
        tell_broken(comm, way, MN_ERR_PEER_DEAD);
    if (way->state == RELAY_AWAITS)
        serve_hops(comm, way);
    if (atomic_load_explicit(&way->unfit, memory_order_relaxed) && way->state == RELAY_IS_OPEN)
        unfit(comm, way);
}
