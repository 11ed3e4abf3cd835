/* Progress of a flow, and what its ends come to when nothing goes on. */
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "plugin/transport/relay/flow.h"
#include "topo/base/log.h"

#define LOOK_US   3 /* between looks at lines while nothing moves */
#define TICK_MS   100
#define ENDED_MS  3000
#define LOST_MS   6000 /* a way attaches anew within some 2 s of its line\'s end */
#define HOLD_US   100  /* what is said of small messages, while … */
#define HOLD_LEFT 4    /* … so many receives are posted of which the sender knows */

uint64_t relay_now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

enum mn_err relay_fail(struct relay_comm *comm, enum mn_err code, const char *fmt, ...)
{
    const struct relay_word word = {.type = RELAY_FAILED, .code = (uint8_t)code};
    char text[512];
    va_list args;
    int none = MN_OK;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!atomic_compare_exchange_strong(&comm->error, &none, (int)code))
        return (enum mn_err)none;
    MN_WARN("%s peer %s, by relay: %s", comm->base.is_send ? "send to" : "receive from", comm->peer,
            text);
    (void)relay_talk_put(&comm->talk, &word);
    relay_talk_flush(comm);
    return code;
}

/* --- talking ---------------------------------------------------------------------------------- */

/* The state of ways, as it is when there is room to say so. */
static void put_states(struct relay_comm *comm)
{
    for (int i = 0; i < comm->n_ways; i++) {
        struct relay_way *way = &comm->ways[i];
        struct relay_word word = {.way = (uint8_t)i};
        if ((!way->closed_pair && !way->say_open) || !relay_talk_has_room(&comm->talk))
            continue;
        word.type = way->state == RELAY_IS_REFUSED ? RELAY_REFUSED : RELAY_CLOSED;
        word.pair = way->closed_pair;
        if (way->closed_pair && relay_talk_put(&comm->talk, &word))
            way->closed_pair = 0;
        word.type = RELAY_OPEN;
        word.pair = way->pair;
        if (way->say_open && relay_talk_put(&comm->talk, &word))
            way->say_open = 0;
    }
}

static struct relay_way *who_talks(struct relay_comm *comm)
{
    for (int i = 0; i < comm->n_ways && comm->talk_way < 0; i++)
        if (comm->ways[i].state == RELAY_IS_OPEN && comm->ways[i].line) {
            comm->talk_way = i;
            relay_talk_again(&comm->talk);
        }
    return comm->talk_way < 0 ? NULL : &comm->ways[comm->talk_way];
}

void relay_talk_flush(struct relay_comm *comm)
{
    struct mn_line_talk f;
    uint8_t payload[MN_LINE_MAX];

    comm->held = comm->hurry = 0;
    put_states(comm);
    struct relay_way *way = who_talks(comm);
    if (!way)
        return;
    while ((f.len = (uint16_t)relay_talk_next(&comm->talk, f.words))) {
        f.flow = comm->flow;
        f.way = way->number;
        f.to = comm->base.is_send ? MN_RELAY_RECEIVER : MN_RELAY_SENDER;
        /* A line that has ended says so when it is stepped. */
        if (mn_line_put(way->line, MN_LINE_TALK, payload, mn_line_talk_put(&f, payload)))
            return;
        relay_talk_taken(&comm->talk);
    }
}

/* --- progress --------------------------------------------------------------------------------- */

/* Of ways that something is waited for. */
static void look_for_silence(struct relay_comm *comm)
{
    unsigned bound = comm->config->settings.relay_silence_ms;

    if (!comm->waits && !comm->wants)
        return;
    for (int i = 0; i < comm->n_ways; i++) {
        struct relay_way *way = &comm->ways[i];
        if (way->state != RELAY_AWAITS && way->state != RELAY_IS_OPEN)
            continue;
        /* Its end is a process, which may be stopped: its kernel tells of a silent cable. */
        if (relay_is_direct(comm, way))
            continue;
        mn_line_ping(way->line);
        unsigned silent = mn_line_silent_ms(way->line);
        if (silent > bound)
            relay_way_gone(comm, way, MN_GONE_RELAY, 1,
                           "relay %s has not answered for %.1f s: its cable, its host, or its "
                           "relayd is stopped",
                           mn_line_peer(way->line), (double)silent / 1000);
    }
}

/* Small messages one by one, while S knows of receives enough: a relay has less to pass on. */
static int may_hold(const struct relay_comm *comm, uint64_t us)
{
    return !comm->hurry && comm->owes && comm->waits >= HOLD_LEFT + comm->held &&
           us - comm->owed_us < HOLD_US;
}

enum mn_err relay_progress(struct relay_comm *comm)
{
    uint64_t us = relay_now_us(), ms = us / 1000;

    if (relay_error(comm))
        return (enum mn_err)relay_error(comm);
    /* What D has said since its last call. */
    if (comm->defers && !may_hold(comm, us)) {
        relay_talk_flush(comm);
        atomic_store(&comm->owes, RELAY_OWES_NOTHING);
    }
    if (comm->moved || us - comm->looked_us >= LOOK_US) {
        comm->looked_us = us;
        comm->moved = 0;
        for (int i = 0; i < comm->n_ways; i++)
            relay_way_step(comm, &comm->ways[i], ms);
    }
    if (ms - comm->ticked_ms >= TICK_MS) {
        comm->ticked_ms = ms;
        /* A socket that was given up may look as if its process had ended; other ways know better.
         */
        if (comm->ended_ms && ms - comm->ended_ms > ENDED_MS && relay_ways_open(comm))
            comm->ended_ms = 0;
        if (comm->lost_ms && ms - comm->lost_ms > ENDED_MS && relay_ways_open(comm))
            comm->lost_ms = 0;
        look_for_silence(comm);
    }
    if (!relay_error(comm)) {
        if (comm->base.is_send)
            relay_send_advance(comm);
        else
            relay_recv_advance(comm);
        if (comm->defers)
            relay_defer(comm);
        else
            relay_talk_flush(comm);
    }
    return (enum mn_err)relay_error(comm);
}

enum mn_err relay_look_hopeless(struct relay_comm *comm)
{
    const unsigned bound = comm->config->settings.silence_ms;
    const struct relay_way *way = &comm->ways[0];
    int refused = 0;
    char through[256];

    if (relay_error(comm))
        return (enum mn_err)relay_error(comm);
    /* One that opens and carries nothing is no way, however often it comes back. */
    if (comm->vain > 1 && mn_now_ms() - comm->vain_ms > bound && relay_send_waits(comm))
        return relay_fail(comm, MN_ERR_LINK_DEAD,
                          "nothing has come to the receiver for %.1f s: ways have opened and gone "
                          "%u times; transport.silence is %u s; through %s: %s",
                          (double)(mn_now_ms() - comm->vain_ms) / 1000, comm->vain, bound / 1000,
                          relay_way_text(comm, way, through, sizeof through), way->why.text);
    if (relay_ways_open(comm)) {
        comm->none_ms = 0;
        return MN_OK;
    }
    if (comm->ended_ms ||
        (comm->lost_ms && mn_now_ms() - comm->lost_ms > (bound < LOST_MS ? bound : LOST_MS)))
        return relay_fail(comm, MN_ERR_PEER_DEAD, "peer is gone: %s", comm->ended_text);
    for (int i = 0; i < comm->n_ways; i++)
        refused += comm->ways[i].state == RELAY_IS_REFUSED;
    if (!comm->none_ms)
        comm->none_ms = comm->ticked_ms;
    if (refused == comm->n_ways || comm->ticked_ms - comm->none_ms > bound)
        return relay_fail(comm, MN_ERR_LINK_DEAD,
                          "no way is left, for %.1f s; transport.silence is %u s; through %s: %s",
                          (double)(comm->ticked_ms - comm->none_ms) / 1000, bound / 1000,
                          relay_way_text(comm, way, through, sizeof through), way->why.text);
    return MN_OK;
}

void relay_ways_sum(const struct relay_comm *comm)
{
    uint64_t all = 0;
    char text[512] = "", through[256];
    size_t at = 0;

    for (int i = 0; i < comm->n_ways; i++)
        all += comm->ways[i].bytes;
    for (int i = 0; i < comm->n_ways && at < sizeof text; i++) {
        const struct relay_way *way = &comm->ways[i];
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "%s%llu bytes (%.0f %%) in %llu pieces through %s", i ? ", " : "",
                               (unsigned long long)way->bytes,
                               all ? 100.0 * (double)way->bytes / (double)all : 0,
                               (unsigned long long)way->pieces,
                               relay_way_text(comm, way, through, sizeof through));
    }
    MN_INFO("%s peer %s, closed after %.1f s: %s", comm->base.is_send ? "send to" : "receive from",
            comm->peer, (double)(mn_now_ms() - comm->born_ms) / 1000, text);
}
