#include "bench/p2p/raw.h"
#include "topo/base/clock.h"

#define BATCH 16
#define LOOK  256   /* turns between looks at the clock */
#define LATE  0.001 /* seconds without arrivals until all are told to the sender */

/* Of the side that begins. Messages: done <= sent locally; arrived and lost as far as the other
 * side said. */
struct stream {
    struct raw *raw;
    enum mn_raw_kind kind;
    size_t size;
    uint64_t count, sent, done, arrived, lost;
    double progress; /* when something last moved */
    double tail;     /* seconds waited for what did not come any more */
    unsigned turns;
};

static enum mn_err post(struct stream *s, int *moved, struct mn_diag *diag)
{
    struct raw *raw = s->raw;
    uint64_t depth = (uint64_t)raw->depth, every = depth < 4 ? 1 : depth / 4;
    int notifies = raw_ways[s->kind].notifies;
    enum mn_err err = MN_OK;

    while (!err && s->sent < s->count && s->sent - s->done < depth &&
           (!notifies || s->sent - s->arrived - s->lost < 2 * depth)) {
        int signaled = (s->sent + 1) % every == 0 || s->sent + 1 == s->count;
        err = raw_post(raw, s->kind, s->sent, s->size, -1, signaled, diag);
        s->sent++;
        *moved = 1;
    }
    return err;
}

static enum mn_err collect(struct stream *s, int *moved, struct mn_diag *diag)
{
    struct ibv_wc wc[BATCH];
    int got = raw_poll(s->raw, s->raw->send_cq, wc, BATCH, diag);
    uint64_t arrived;

    if (got < 0)
        return MN_ERR_FAILED;
    if (got)
        s->done = wc[got - 1].wr_id;
    arrived = raw_ways[s->kind].notifies ? raw_word(s->raw, RAW_CREDIT) : s->done;
    *moved |= got || arrived > s->arrived;
    if (arrived > s->arrived)
        s->arrived = arrived;
    if (s->arrived + s->lost > s->sent) /* counted as lost too soon */
        s->lost = s->sent - s->arrived;
    return MN_OK;
}

/* Nobody answers for what unreliable queue pairs lost: after a while it is counted. */
static void give_up(struct stream *s, double now)
{
    if (raw_ways[s->kind].reliable || s->done < s->sent || now - s->progress < RAW_RESEND)
        return;
    s->lost = s->sent - s->arrived;
    if (s->sent == s->count)
        s->tail = now - s->progress;
    s->progress = now;
}

enum mn_err raw_stream(struct raw *raw, enum mn_raw_kind kind, size_t size, uint64_t count,
                       struct raw_seen *seen, struct mn_diag *diag)
{
    struct mn_p2p_watch w = {.pump = raw->pump, .what = "moving messages by verbs alone"};
    double start = mn_seconds(), alive = start, now = start;
    struct stream s = {.raw = raw, .kind = kind, .size = size, .count = count, .progress = start};
    int fresh = 0; /* something moved since the clock was looked at */
    enum mn_err err = MN_OK;

    /* Something lost is only believed at the end: it may be late. */
    while (!err && (s.arrived < count || s.done < count) && s.tail == 0) {
        int moved = 0;
        err = post(&s, &moved, diag);
        if (!err)
            err = collect(&s, &moved, diag);
        fresh |= moved;
        if (moved)
            w.idle = 0;
        else if (!err)
            err = mn_p2p_idle(&w, diag);
        if (err || (moved && ++s.turns % LOOK != 0))
            continue;
        now = mn_seconds();
        if (fresh)
            s.progress = now;
        else
            give_up(&s, now);
        fresh = 0;
        if (now - alive > 0.5) { /* the other side waits, but not for ever */
            alive = now;
            err = raw_tell(raw, RAW_ALIVE, s.sent + 1, diag);
        }
    }
    *seen = (struct raw_seen){.seconds = mn_seconds() - start - s.tail, .lost = s.lost};
    if (!err)
        err = raw_tell(raw, RAW_FINISH, 1, diag);
    return err ? err : raw_told(raw, diag);
}

/* Counts what arrives and tells the sender: often enough that it never waits for it alone. */
static enum mn_err count_arrivals(struct raw *raw, int qp, uint64_t *arrived, int *got,
                                  struct mn_diag *diag)
{
    struct ibv_wc wc[BATCH];

    *got = raw_poll(raw, raw->recv_cq, wc, BATCH, diag);
    if (*got < 0)
        return MN_ERR_FAILED;
    *arrived += (uint64_t)*got;
    return *got ? raw_top_up(raw, qp, *got, diag) : MN_OK;
}

enum mn_err raw_stream_follow(struct raw *raw, enum mn_raw_kind kind, uint64_t count,
                              struct mn_diag *diag)
{
    struct mn_p2p_watch w = {.pump = raw->pump, .what = "verbs alone move messages"};
    const struct raw_way *way = &raw_ways[kind];
    uint64_t arrived = 0, told = 0, alive = 0, step = (uint64_t)(raw->depth + 1) / 2;
    unsigned turns = 0;
    double since = mn_seconds();
    enum mn_err err = MN_OK;

    while (!err && !raw_word(raw, RAW_FINISH)) {
        int got = 0;
        if (way->notifies)
            err = count_arrivals(raw, way->qp, &arrived, &got, diag);
        if (got)
            turns = 0;
        else if (++turns % LOOK == 1)
            since = turns == 1 ? mn_seconds() : since;
        int late = arrived > told && !got && turns % LOOK == 0 && mn_seconds() - since > LATE;
        if (!err && (arrived - told >= step || (arrived == count && told < count) || late)) {
            err = raw_tell(raw, RAW_CREDIT, arrived, diag);
            told = arrived;
        }
        if (got || raw_word(raw, RAW_ALIVE) != alive) {
            alive = raw_word(raw, RAW_ALIVE);
            w.idle = 0;
        } else if (!err) {
            err = mn_p2p_idle(&w, diag);
        }
    }
    return err ? err : raw_told(raw, diag);
}
