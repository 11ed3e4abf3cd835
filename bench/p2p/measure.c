#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/p2p/message.h"
#include "bench/p2p/session.h"
#include "bench/stats.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define MAX_ROUNDS (1ul << 22)

static double slower(const struct mn_p2p_seen seen[2])
{
    return fmax(seen[0].seconds, seen[1].seconds);
}

/* How many messages fill a repetition, from a warm-up that grows until it lasts long enough to tell
 * and goes on until the speed is steady. */
static enum mn_err choose_count(struct mn_p2p_session *r, size_t size, int ways, uint64_t *count,
                                int *steady, struct mn_diag *diag)
{
    double want = mn_repeat_each(&r->plan->repeat), took = 0, before;
    struct mn_p2p_seen seen[2];
    enum mn_err err = MN_OK;

    *steady = -1;
    if (r->plan->iters) {
        *count = r->plan->iters;
        return r->plan->warmup ? mn_p2p_move(r, size, r->plan->warmup, ways, 0, seen, diag) : MN_OK;
    }
    *count = r->plan->warmup ? r->plan->warmup : (uint64_t)r->pump.window;
    for (int i = 0; i < 40 && took < want / 2 && !err; i++) {
        if (i)
            *count *= 4;
        err = mn_p2p_move(r, size, *count, ways, 0, seen, diag);
        took = slower(seen);
    }
    *count = (uint64_t)fmax(ceil((double)*count * want / fmax(took, 1e-6)), (double)r->pump.window);
    *steady = 0;
    took = 0;
    for (int i = 0; i < MN_REPEAT_WARMUPS && !*steady && !err; i++) {
        before = took;
        err = mn_p2p_move(r, size, *count, ways, 0, seen, diag);
        took = slower(seen);
        *steady = mn_repeat_is_steady(before, took);
        if (took * 1000 > r->plan->repeat.most_ms)
            break;
    }
    return err;
}

static void say(struct mn_p2p_session *r, const char *what, size_t size)
{
    char text[96], bytes[32];

    snprintf(text, sizeof text, "%s, %s bytes", what, mn_format_size(size, bytes, sizeof bytes));
    if (r->progress)
        r->progress(r->ctx, text, ++r->step, r->steps);
}

static enum mn_err bandwidth(struct mn_p2p_session *r, size_t size, enum mn_p2p_direction direction,
                             struct mn_diag *diag)
{
    static const int ways[] = {[MN_P2P_OUT] = 1, [MN_P2P_IN] = 2, [MN_P2P_BOTH] = 3};
    struct mn_repeat repeat = {.plan = r->plan->repeat};
    struct mn_p2p_bandwidth row = {.size = size, .direction = direction};
    struct mn_p2p_seen seen[2];
    uint64_t count;
    int steady;
    enum mn_err err = choose_count(r, size, ways[direction], &count, &steady, diag);

    while (!err && mn_repeat_wants_more(&repeat) && !(r->plan->iters && repeat.n)) {
        double start = mn_seconds();
        err = mn_p2p_move(r, size, count, ways[direction], 0, seen, diag);
        if (err)
            break;
        mn_repeat_add(&repeat, slower(seen), mn_seconds() - start);
        row.seconds += slower(seen);
        for (int end = 0; end < 2; end++) {
            row.messages += seen[end].messages;
            row.bytes += seen[end].bytes;
            row.cpu_seconds[end] += seen[end].cpu_seconds;
            r->report->wrong += seen[end].wrong;
        }
    }
    row.spread = mn_repeat_spread(&repeat);
    row.spread.steady = steady;
    mn_repeat_free(&repeat);
    if (!err)
        *(struct mn_p2p_bandwidth *)mn_grow((void **)&r->report->bandwidth, &r->report->n_bandwidth,
                                            sizeof row) = row;
    return err;
}

enum mn_err mn_p2p_rounds(struct mn_p2p_session *r, size_t size, uint64_t count, float *rtts,
                          struct mn_diag *diag)
{
    cJSON *message = mn_p2p_message("pingpong"), *reply = NULL;

    cJSON_AddNumberToObject(message, "size", (double)size);
    cJSON_AddNumberToObject(message, "count", (double)count);
    enum mn_err err = mn_p2p_start(&r->pump, message, diag);
    if (err)
        return err;
    err = mn_p2p_pingpong(&r->pump, size, count, 1, rtts, diag);
    if (err)
        return mn_p2p_add_peer_reason(r, err, diag);
    err = mn_ctl_receive(r->pump.ctl, r->plan->timeout_ms, &reply, diag);
    cJSON_Delete(reply);
    if (!err)
        mn_p2p_count_moved(r, size, 2 * count);
    return err;
}

/* Rounds of a repetition, and of a warm-up that goes on until the latency is steady. */
static enum mn_err choose_rounds(struct mn_p2p_session *r, size_t size, uint64_t *count,
                                 int *steady, struct mn_diag *diag)
{
    uint64_t warmup = r->plan->warmup ? r->plan->warmup : 200;
    double start = mn_seconds(), before, each;
    enum mn_err err = mn_p2p_rounds(r, size, warmup, NULL, diag);

    *steady = -1;
    *count = r->plan->iters;
    if (r->plan->iters || err)
        return err;
    each = fmax((mn_seconds() - start) / (double)warmup, 1e-7);
    *steady = 0;
    for (int i = 0; i < MN_REPEAT_WARMUPS && !*steady && !err; i++) {
        double fit = mn_repeat_each(&r->plan->repeat) / each;
        *count = fit < 20 ? 20 : fit > MAX_ROUNDS ? MAX_ROUNDS : (uint64_t)fit;
        start = mn_seconds();
        err = mn_p2p_rounds(r, size, *count, NULL, diag);
        before = each;
        each = fmax((mn_seconds() - start) / (double)*count, 1e-7);
        *steady = mn_repeat_is_steady(before, each);
        if ((mn_seconds() - start) * 1000 > r->plan->repeat.most_ms)
            break;
    }
    return err;
}

static struct mn_p2p_latency summary(float *rtts, size_t count, struct mn_repeat *repeat)
{
    struct mn_p2p_latency row = {.rounds = count, .spread = mn_repeat_spread(repeat)};

    row.mean = mn_stats_mean(rtts, count) / 2;
    mn_stats_sort(rtts, count);
    row.min = rtts[0] / 2.0;
    row.p50 = mn_stats_percentile(rtts, count, 50) / 2;
    row.p90 = mn_stats_percentile(rtts, count, 90) / 2;
    row.p99 = mn_stats_percentile(rtts, count, 99) / 2;
    row.p999 = mn_stats_percentile(rtts, count, 99.9) / 2;
    row.max = rtts[count - 1] / 2.0;
    row.spread.outliers = mn_stats_outliers(rtts, count);
    return row;
}

static enum mn_err latency(struct mn_p2p_session *r, size_t size, struct mn_diag *diag)
{
    struct mn_repeat repeat = {.plan = r->plan->repeat};
    float *rtts = NULL;
    size_t done = 0;
    uint64_t count;
    int steady;
    enum mn_err err = choose_rounds(r, size, &count, &steady, diag);

    while (!err && mn_repeat_wants_more(&repeat) && !(r->plan->iters && repeat.n) &&
           done + count <= MAX_ROUNDS + r->plan->iters) {
        float *more = realloc(rtts, (done + count) * sizeof *rtts);
        if (!more) {
            err = mn_fail(diag, MN_ERR_NOMEM, "no memory for %zu rounds", done + (size_t)count);
            break;
        }
        double start = mn_seconds();
        rtts = more;
        err = mn_p2p_rounds(r, size, count, rtts + done, diag);
        mn_repeat_add(&repeat, err ? 0 : mn_stats_mean(rtts + done, count), mn_seconds() - start);
        done += count;
    }
    if (!err) {
        struct mn_p2p_latency *row =
            mn_grow((void **)&r->report->latency, &r->report->n_latency, sizeof *row);
        *row = summary(rtts, done, &repeat);
        row->size = size;
        row->spread.steady = steady;
    }
    mn_repeat_free(&repeat);
    free(rtts);
    return err;
}

static enum mn_err check(struct mn_p2p_session *r, size_t size, struct mn_diag *diag)
{
    struct mn_p2p_seen seen[2];
    enum mn_err err = mn_p2p_move(r, size, 2 * (uint64_t)r->pump.window * (uint64_t)r->pump.group,
                                  3, 1, seen, diag);

    if (!err) {
        r->report->checked += seen[0].messages + seen[1].messages;
        r->report->wrong += seen[0].wrong + seen[1].wrong;
    }
    return err;
}

/* Seconds that a bandwidth takes at least, by what was measured before: warm-up and one repetition
 * move what is under way at once three times. */
static double least_seconds(const struct mn_p2p_session *r, size_t size,
                            enum mn_p2p_direction direction)
{
    double moved = 3.0 * (double)size * r->pump.window * r->pump.connections * r->pump.group;
    const struct mn_p2p_bandwidth *like = NULL;

    for (size_t i = 0; i < r->report->n_bandwidth; i++)
        if (!like || r->report->bandwidth[i].direction == direction || like->direction != direction)
            like = &r->report->bandwidth[i];
    double gbytes = like ? mn_p2p_gbytes(like) : 0;
    return gbytes > 0 ? moved / gbytes / 1e9 : 0;
}

/* Whether it may still begin; what may not is noted. */
static int fits(struct mn_p2p_session *r, const char *what, size_t size, double seconds)
{
    char *text = r->report->left_out, bytes[32];
    size_t used = strlen(text), room = sizeof r->report->left_out - used;

    if (!r->plan->budget_ms ||
        (mn_seconds() - r->began + seconds) * 1000 + r->plan->repeat.most_ms <= r->plan->budget_ms)
        return 1;
    r->step++;
    snprintf(text + used, room, "%s%s of %s", used ? ", " : "", what,
             mn_format_size(size, bytes, sizeof bytes));
    return 0;
}

static enum mn_err bursts(struct mn_p2p_session *r, size_t size, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (int d = 0; d < MN_P2P_DIRECTIONS && !err; d++) {
        struct mn_p2p_burst row;
        if (!(r->plan->bursts & 1u << d) || !fits(r, "bursts", size, 0))
            continue;
        say(r, "bursts", size);
        err = mn_p2p_measure_bursts(&r->pump, r->plan, size, (enum mn_p2p_direction)d, &row, diag);
        if (err)
            return mn_p2p_add_peer_reason(r, err, diag);
        mn_p2p_count_moved(r, size,
                           (row.bursts + MN_P2P_BURSTS_BEFORE) * (uint64_t)r->plan->burst_messages *
                               (uint64_t)r->pump.connections);
        *(struct mn_p2p_burst *)mn_grow((void **)&r->report->bursts, &r->report->n_bursts,
                                        sizeof row) = row;
    }
    return err;
}

static enum mn_err rates(struct mn_p2p_session *r, size_t size, struct mn_diag *diag)
{
    struct mn_p2p_report *report = r->report;
    enum mn_err err = MN_OK;

    r->pump.window = r->plan->rate_outstanding;
    for (int d = 0; d < MN_P2P_DIRECTIONS && !err; d++) {
        if (!(r->plan->rate & 1u << d) || !fits(r, "message rate", size, 0))
            continue;
        say(r, "message rate", size);
        err = bandwidth(r, size, (enum mn_p2p_direction)d, diag);
        if (!err)
            *(struct mn_p2p_bandwidth *)mn_grow((void **)&report->rates, &report->n_rates,
                                                sizeof *report->rates) =
                report->bandwidth[--report->n_bandwidth];
    }
    r->pump.window = r->plan->outstanding;
    return err;
}

enum mn_err mn_p2p_measure(struct mn_p2p_session *r, struct mn_diag *diag)
{
    const struct mn_p2p_plan *plan = r->plan;
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < plan->n_sizes && !err; i++) {
        size_t size = (size_t)plan->sizes[i];
        if (plan->check && fits(r, "check", size, least_seconds(r, size, MN_P2P_BOTH))) {
            say(r, "checking data", size);
            err = check(r, size, diag);
        }
        if (plan->latency && size <= plan->latency_max && !err && fits(r, "latency", size, 0)) {
            say(r, "latency", size);
            err = latency(r, size, diag);
        }
        if (size <= plan->latency_max && !err)
            err = bursts(r, size, diag);
        if (size <= plan->latency_max && !err)
            err = rates(r, size, diag);
        for (int d = 0; d < MN_P2P_DIRECTIONS && !err; d++) {
            double least = least_seconds(r, size, (enum mn_p2p_direction)d);
            if (!(plan->directions & 1u << d) || size < plan->bandwidth_min ||
                !fits(r, mn_p2p_direction_names[d], size, least))
                continue;
            say(r, mn_p2p_direction_names[d], size);
            err = bandwidth(r, size, (enum mn_p2p_direction)d, diag);
        }
        if (plan->raw && !err && fits(r, "verbs alone", size, 0)) {
            say(r, "verbs alone", size);
            err = mn_raw_measure(r, size, diag);
        }
    }
    return err;
}
