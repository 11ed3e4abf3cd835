#include <arpa/inet.h>

#include "bench/p2p/raw.h"
#include "topo/base/clock.h"

#define BATCH 16

/* Writes on a reliable connection are seen in memory, as perftest does: the last byte of a message
 * is its number, never 0. Whatever else uses up a receive has the number as immediate data. */
struct game {
    struct raw *raw;
    enum mn_raw_kind kind;
    size_t size;
    struct mn_p2p_watch watch;
    uint64_t sent, done;
};

static uint8_t mark(uint64_t number)
{
    return (uint8_t)(number % 255 + 1);
}

static enum mn_err collect(struct game *g, struct mn_diag *diag)
{
    struct ibv_wc wc[BATCH];
    int got = raw_poll(g->raw, g->raw->send_cq, wc, BATCH, diag);

    if (got < 0)
        return MN_ERR_FAILED;
    g->done += (uint64_t)got;
    return MN_OK;
}

static enum mn_err send_number(struct game *g, uint64_t number, struct mn_diag *diag)
{
    enum mn_err err = collect(g, diag);

    for (g->watch.idle = 0; !err && g->sent - g->done >= (uint64_t)g->raw->depth;) {
        err = collect(g, diag);
        if (!err)
            err = mn_p2p_idle(&g->watch, diag);
    }
    if (err)
        return err;
    if (g->size)
        raw_slot(g->raw, RAW_OUT, 0, g->size)[g->size - 1] = mark(number);
    g->sent++;
    return raw_post(g->raw, g->kind, 0, g->size, (int64_t)(number & 0xffffffff), 1, diag);
}

/* Whether a number has come, by the last byte or a receive; *number is what it was. */
static enum mn_err look(struct game *g, uint64_t expected, int *came, uint64_t *number,
                        struct mn_diag *diag)
{
    const struct raw_way *way = &raw_ways[g->kind];
    struct ibv_wc wc;

    *came = 0;
    if (!way->notifies) {
        const volatile uint8_t *last = raw_slot(g->raw, RAW_IN, 0, g->size) + g->size - 1;
        *came = *last == mark(expected);
        *number = expected;
        return collect(g, diag);
    }
    int got = raw_poll(g->raw, g->raw->recv_cq, &wc, 1, diag);
    if (got < 0)
        return MN_ERR_FAILED;
    if (!got)
        return collect(g, diag);
    *came = 1;
    *number = ntohl(wc.imm_data);
    return raw_top_up(g->raw, way->qp, 1, diag);
}

static enum mn_err round_trip(struct game *g, uint64_t number, struct raw_seen *seen,
                              struct mn_diag *diag)
{
    int reliable = raw_ways[g->kind].reliable, came = 0;
    uint64_t got = 0;
    double since = mn_seconds();
    enum mn_err err = send_number(g, number, diag);

    if (raw_ways[g->kind].opcode == IBV_WR_RDMA_READ) {
        for (g->watch.idle = 0; !err && g->done < g->sent;) {
            err = collect(g, diag);
            if (!err && g->done < g->sent)
                err = mn_p2p_idle(&g->watch, diag);
        }
        return err;
    }
    for (g->watch.idle = 0; !err && !(came && got == (number & 0xffffffff));) {
        err = look(g, number, &came, &got, diag);
        if (err || came)
            continue;
        err = mn_p2p_idle(&g->watch, diag);
        if (reliable || err || mn_seconds() - since < RAW_RESEND)
            continue;
        seen->lost++; /* it, or its answer */
        since = mn_seconds();
        err = send_number(g, number, diag);
    }
    return err;
}

enum mn_err raw_pingpong(struct raw *raw, enum mn_raw_kind kind, size_t size, uint64_t count,
                         float *rtts, struct raw_seen *seen, struct mn_diag *diag)
{
    struct game g = {.raw = raw,
                     .kind = kind,
                     .size = size,
                     .watch = {.pump = raw->pump, .what = "playing ping-pong by verbs alone"}};
    double begin = mn_seconds(), alive = begin;
    enum mn_err err = MN_OK;

    *seen = (struct raw_seen){.lost = 0};
    for (uint64_t i = 0; i < count && !err; i++) {
        double start = mn_seconds();
        err = round_trip(&g, i, seen, diag);
        double end = mn_seconds();
        rtts[i] = (float)((end - start) * 1e6);
        if (end - alive > 0.5 && !err) {
            alive = end;
            err = raw_tell(raw, RAW_ALIVE, i + 1, diag);
        }
    }
    seen->seconds = mn_seconds() - begin;
    for (g.watch.idle = 0; !err && g.done < g.sent;) {
        err = collect(&g, diag);
        if (!err && g.done < g.sent)
            err = mn_p2p_idle(&g.watch, diag);
    }
    if (!err)
        err = raw_tell(raw, RAW_FINISH, 1, diag);
    return err ? err : raw_told(raw, diag);
}

enum mn_err raw_pingpong_follow(struct raw *raw, enum mn_raw_kind kind, size_t size,
                                struct mn_diag *diag)
{
    struct game g = {.raw = raw,
                     .kind = kind,
                     .size = size,
                     .watch = {.pump = raw->pump, .what = "verbs alone play ping-pong"}};
    int reads = raw_ways[kind].opcode == IBV_WR_RDMA_READ;
    uint64_t next = 0, alive = 0;
    enum mn_err err = MN_OK;

    while (!err && !raw_word(raw, RAW_FINISH)) {
        uint64_t number = 0;
        int came = 0;
        if (!reads)
            err = look(&g, next, &came, &number, diag);
        if (!err && came) {
            /* One that came before: its answer was lost. */
            if (number == (next & 0xffffffff))
                next++;
            err = send_number(&g, number, diag);
        }
        if (came || raw_word(raw, RAW_ALIVE) != alive) {
            alive = raw_word(raw, RAW_ALIVE);
            g.watch.idle = 0;
        } else if (!err) {
            err = mn_p2p_idle(&g.watch, diag);
        }
    }
    for (g.watch.idle = 0; !err && g.done < g.sent;) {
        err = collect(&g, diag);
        if (!err && g.done < g.sent)
            err = mn_p2p_idle(&g.watch, diag);
    }
    return err;
}
