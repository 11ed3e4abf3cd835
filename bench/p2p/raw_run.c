#include <math.h>
#include <stdlib.h>

#include "bench/p2p/raw.h"
#include "bench/stats.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define ROUNDS      3
#define MOST_TRIPS  (1u << 20) /* round trips of a kind and round */
#define FEWEST      20
#define LARGEST_RUN 0xffff

/* --- both sides ------------------------------------------------------------------------------- */

enum mn_err mn_raw_begin(struct mn_p2p_session *r, struct mn_diag *diag)
{
    struct mn_p2p_pump *pump = &r->pump;
    long depth = (long)r->plan->outstanding * pump->connections;
    struct raw *raw = pump->raw = mn_zalloc(sizeof *raw);
    cJSON *message, *reply;

    raw->pump = pump;
    enum mn_err err = raw_open(raw, depth < RAW_DEPTH_MAX ? (int)depth : RAW_DEPTH_MAX, diag);
    if (err)
        return err;
    message = mn_p2p_message("raw-open");
    cJSON_AddNumberToObject(message, "depth", raw->depth);
    raw_put_end(message, raw);
    err = mn_p2p_ask(pump->ctl, r->plan->timeout_ms, message, "raw-opened", &reply, diag);
    if (err)
        return err;
    err = raw_get_end(reply, &raw->peer, diag);
    cJSON_Delete(reply);
    r->report->raw_depth = raw->depth;
    mn_strlcpy(r->report->raw_devices[0], raw->self.device, MN_RAW_DEVICE);
    mn_strlcpy(r->report->raw_devices[1], raw->peer.device, MN_RAW_DEVICE);
    return err ? err : raw_connect(raw, diag);
}

void mn_raw_end(struct mn_p2p_pump *pump)
{
    if (pump->raw)
        raw_close(pump->raw);
    free(pump->raw);
    pump->raw = NULL;
}

enum mn_err mn_raw_on_open(struct mn_p2p_pump *pump, const cJSON *m, struct mn_diag *diag)
{
    double depth;
    enum mn_err err = mn_ctl_number(m, "depth", 1, RAW_DEPTH_MAX, &depth, diag);

    if (!err && (pump->raw || !pump->area[0]))
        err = mn_fail(diag, MN_ERR_PROTO, "control message: 'raw-open' out of order");
    if (err)
        return err;
    pump->raw = mn_zalloc(sizeof *pump->raw);
    pump->raw->pump = pump;
    err = raw_open(pump->raw, (int)depth, diag);
    if (!err)
        err = raw_get_end(m, &pump->raw->peer, diag);
    if (!err)
        err = raw_connect(pump->raw, diag);
    if (err)
        return err;
    cJSON *reply = mn_p2p_message("raw-opened");
    raw_put_end(reply, pump->raw);
    return mn_ctl_send(pump->ctl, reply, diag);
}

enum mn_err mn_raw_on_move(struct mn_p2p_pump *pump, const cJSON *m, struct mn_diag *diag)
{
    struct raw *raw = pump->raw;
    struct raw_seen seen = {.lost = 0};
    double size, count, kind, run, begins, trips;
    enum mn_err err = mn_ctl_number(m, "size", 0, 1u << 30, &size, diag);

    if (!err)
        err = mn_ctl_number(m, "count", 1, 1e15, &count, diag);
    if (!err)
        err = mn_ctl_number(m, "kind", MN_RAW_RC_WRITE, MN_RAW_KINDS - 1, &kind, diag);
    if (!err)
        err = mn_ctl_number(m, "run", 1, LARGEST_RUN, &run, diag);
    if (!err)
        err = mn_ctl_number(m, "begins", 0, 1, &begins, diag);
    if (!err)
        err = mn_ctl_number(m, "trips", 0, 1, &trips, diag);
    if (!err && (!raw || size + MN_P2P_PAGE > (double)pump->area_size))
        err = mn_fail(diag, MN_ERR_PROTO, "control message: 'raw' out of order");
    enum mn_raw_kind k = err ? MN_RAW_RC_WRITE : (enum mn_raw_kind)kind;
    if (!err)
        err = raw_prepare(raw, k, (size_t)size, (unsigned)run, diag);
    if (!err)
        err = mn_ctl_send(pump->ctl, mn_p2p_message("ready"), diag);
    if (err)
        return err;
    if (trips > 0)
        err = raw_pingpong_follow(raw, k, (size_t)size, diag);
    else if (begins > 0)
        err = raw_stream(raw, k, (size_t)size, (uint64_t)count, &seen, diag);
    else
        err = raw_stream_follow(raw, k, (uint64_t)count, diag);
    if (err)
        return err;
    cJSON *reply = mn_p2p_message("moved");
    cJSON_AddNumberToObject(reply, "seconds", seen.seconds);
    cJSON_AddNumberToObject(reply, "lost", (double)seen.lost);
    return mn_ctl_send(pump->ctl, reply, diag);
}

/* --- the side that plans ---------------------------------------------------------------------- */

/* One measurement on both sides. rtts: ping-pong instead of a stream. */
static enum mn_err run(struct mn_p2p_session *r, enum mn_raw_kind kind, size_t size, uint64_t count,
                       int here_begins, float *rtts, struct raw_seen *seen, struct mn_diag *diag)
{
    struct raw *raw = r->pump.raw;
    unsigned number = raw->run % LARGEST_RUN + 1;
    cJSON *message = mn_p2p_message("raw"), *reply = NULL;
    double seconds = 0, lost = 0;

    cJSON_AddNumberToObject(message, "size", (double)size);
    cJSON_AddNumberToObject(message, "count", (double)count);
    cJSON_AddNumberToObject(message, "kind", kind);
    cJSON_AddNumberToObject(message, "run", number);
    cJSON_AddNumberToObject(message, "begins", !here_begins);
    cJSON_AddNumberToObject(message, "trips", rtts != NULL);
    enum mn_err err = raw_prepare(raw, kind, size, number, diag);
    if (err) {
        cJSON_Delete(message);
        return err;
    }
    err = mn_p2p_ask(r->pump.ctl, r->plan->timeout_ms, message, "ready", NULL, diag);
    if (err)
        return err;
    if (rtts)
        err = raw_pingpong(raw, kind, size, count, rtts, seen, diag);
    else if (here_begins)
        err = raw_stream(raw, kind, size, count, seen, diag);
    else
        err = raw_stream_follow(raw, kind, count, diag);
    if (err)
        return mn_p2p_add_peer_reason(r, err, diag);
    err = mn_ctl_receive(r->pump.ctl, r->plan->timeout_ms, &reply, diag);
    if (!err)
        err = mn_ctl_number(reply, "seconds", 0, 1e9, &seconds, diag);
    if (!err)
        err = mn_ctl_number(reply, "lost", 0, 1e15, &lost, diag);
    cJSON_Delete(reply);
    if (!err && !rtts && !here_begins)
        *seen = (struct raw_seen){.seconds = seconds, .lost = (uint64_t)lost};
    if (!err)
        mn_p2p_count_moved(r, size, rtts ? 2 * count : count);
    return err;
}

/* What all rounds of one kind and size gave. */
struct tally {
    uint64_t count, trips, lost;
    float gbps[ROUNDS], rate[ROUNDS], *rtts;
    size_t n_rtts;
};

static enum mn_err stream(struct mn_p2p_session *r, enum mn_raw_kind kind, size_t size,
                          enum mn_p2p_direction direction, uint64_t count, struct raw_seen *seen,
                          struct mn_diag *diag)
{
    int out = direction == MN_P2P_OUT;
    /* Data of a read comes to the side that begins. */
    int here_begins = kind == MN_RAW_RC_READ ? !out : out;

    *seen = (struct raw_seen){.lost = 0};
    if (kind != MN_RAW_PLUGIN)
        return run(r, kind, size, count, here_begins, NULL, seen, diag);
    struct mn_p2p_seen ends[2];
    enum mn_err err = mn_p2p_move(r, size, count, out ? 1 : 2, 0, ends, diag);
    seen->seconds = err ? 0 : fmax(ends[0].seconds, ends[1].seconds);
    r->report->wrong += err ? 0 : ends[0].wrong + ends[1].wrong;
    return err;
}

static double wanted(const struct mn_p2p_session *r)
{
    return r->plan->repeat.duration_ms / 1000.0 / ROUNDS;
}

/* Messages of a connection: the plugin has several, verbs alone one. */
static uint64_t messages(const struct mn_p2p_session *r, enum mn_raw_kind kind, uint64_t count)
{
    return kind == MN_RAW_PLUGIN ? count * (uint64_t)r->pump.connections : count;
}

static enum mn_err choose(struct mn_p2p_session *r, enum mn_raw_kind kind, size_t size,
                          enum mn_p2p_direction direction, struct tally *t, struct mn_diag *diag)
{
    double took = 0;
    struct raw_seen seen;
    enum mn_err err = MN_OK;

    t->count = r->plan->iters ? r->plan->iters : 2 * (uint64_t)r->plan->outstanding;
    for (int i = 0; i < 20 && took < wanted(r) / 4 && !err; i++) {
        if (i)
            t->count *= 4;
        err = stream(r, kind, size, direction, t->count, &seen, diag);
        took = fmax(seen.seconds, 1e-7);
        if (r->plan->iters)
            return err;
    }
    t->count = (uint64_t)fmax((double)t->count * wanted(r) / took, 2.0 * r->plan->outstanding);
    return err;
}

static enum mn_err bandwidth_round(struct mn_p2p_session *r, enum mn_raw_kind kind, size_t size,
                                   enum mn_p2p_direction direction, struct tally *t, int round,
                                   struct mn_diag *diag)
{
    struct raw_seen seen;
    enum mn_err err = stream(r, kind, size, direction, t->count, &seen, diag);

    if (err)
        return err;
    double arrived = (double)(messages(r, kind, t->count) - seen.lost);
    t->rate[round] = (float)(arrived / fmax(seen.seconds, 1e-9));
    t->gbps[round] = (float)(t->rate[round] * (double)size * 8 / 1e9);
    t->lost += seen.lost;
    return MN_OK;
}

static enum mn_err trips(struct mn_p2p_session *r, enum mn_raw_kind kind, size_t size,
                         uint64_t count, float *rtts, uint64_t *lost, struct mn_diag *diag)
{
    struct raw_seen seen = {.lost = 0};
    enum mn_err err = kind == MN_RAW_PLUGIN ? mn_p2p_rounds(r, size, count, rtts, diag)
                                            : run(r, kind, size, count, 1, rtts, &seen, diag);

    *lost += seen.lost;
    for (uint64_t i = 0; i < count && !err && kind != MN_RAW_RC_READ; i++)
        rtts[i] /= 2;
    return err;
}

static enum mn_err trips_round(struct mn_p2p_session *r, enum mn_raw_kind kind, size_t size,
                               struct tally *t, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    if (!t->rtts) { /* the first round says how many fit, and is not counted */
        float first[FEWEST];
        double start = mn_seconds();
        err = trips(r, kind, size, FEWEST, first, &t->lost, diag);
        double fit = wanted(r) / fmax((mn_seconds() - start) / FEWEST, 1e-7);
        t->trips = r->plan->iters     ? r->plan->iters
                   : fit < FEWEST     ? FEWEST
                   : fit > MOST_TRIPS ? MOST_TRIPS
                                      : (uint64_t)fit;
        t->rtts = mn_zalloc(t->trips * ROUNDS * sizeof *t->rtts);
    }
    if (!err)
        err = trips(r, kind, size, t->trips, t->rtts + t->n_rtts, &t->lost, diag);
    t->n_rtts += t->trips;
    return err;
}

static int carries(const struct mn_p2p_session *r, int kind, size_t size)
{
    return kind != MN_RAW_UD_SEND || size <= (size_t)r->pump.raw->mtu;
}

static void add_row(struct mn_p2p_session *r, int kind, size_t size,
                    enum mn_p2p_direction direction, struct tally *t)
{
    struct mn_p2p_raw *row = mn_grow((void **)&r->report->raw, &r->report->n_raw, sizeof *row);

    mn_stats_sort(t->gbps, ROUNDS);
    mn_stats_sort(t->rate, ROUNDS);
    mn_stats_sort(t->rtts, t->n_rtts);
    *row = (struct mn_p2p_raw){
        .size = size,
        .direction = direction,
        .kind = (enum mn_raw_kind)kind,
        .gbps = t->gbps[ROUNDS / 2],
        .messages_per_s = t->rate[ROUNDS / 2],
        .p50 = t->n_rtts ? mn_stats_percentile(t->rtts, t->n_rtts, 50) : NAN,
        .p99 = t->n_rtts ? mn_stats_percentile(t->rtts, t->n_rtts, 99) : NAN,
        .lost = t->lost,
    };
}

/* All kinds in turn, several times over: what disturbs one disturbs all. */
static enum mn_err measure_way(struct mn_p2p_session *r, size_t size,
                               enum mn_p2p_direction direction, int with_trips,
                               struct mn_diag *diag)
{
    struct tally tallies[MN_RAW_KINDS] = {{.count = 0}};
    enum mn_err err = MN_OK;

    for (int round = -1; round < ROUNDS; round++)
        for (int kind = 0; kind < MN_RAW_KINDS && !err; kind++) {
            enum mn_raw_kind k = (enum mn_raw_kind)kind;
            struct tally *t = &tallies[kind];
            if (!carries(r, kind, size))
                continue;
            err = round < 0 ? choose(r, k, size, direction, t, diag)
                            : bandwidth_round(r, k, size, direction, t, round, diag);
            if (!err && round >= 0 && with_trips && (size || k != MN_RAW_RC_WRITE))
                err = trips_round(r, k, size, t, diag);
        }
    for (int kind = 0; kind < MN_RAW_KINDS; kind++) {
        if (!err && carries(r, kind, size))
            add_row(r, kind, size, direction, &tallies[kind]);
        free(tallies[kind].rtts);
    }
    return err;
}

enum mn_err mn_raw_measure(struct mn_p2p_session *r, size_t size, struct mn_diag *diag)
{
    int done = 0;
    enum mn_err err = MN_OK;

    for (int d = MN_P2P_OUT; d <= MN_P2P_IN && !err; d++)
        if (r->plan->raw & 1u << d) /* a round trip has no direction: once */
            err = measure_way(r, size, (enum mn_p2p_direction)d,
                              size <= r->plan->latency_max && !done++, diag);
    return err;
}
