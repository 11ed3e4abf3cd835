#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/p2p/message.h"
#include "bench/stats.h"
#include "topo/base/alloc.h"

#define MAX_ROUNDS (1ul << 22)

const char *const mn_p2p_direction_names[MN_P2P_DIRECTIONS] = {"out", "in", "both"};

/* The run: plan, connections, where it stands. */
struct run {
    const struct mn_p2p_plan *plan;
    struct mn_p2p_pump pump;
    struct mn_p2p_report *report;
    mn_p2p_progress progress;
    void *ctx;
    int step, steps;
};

/* Asks the server and waits for the answer named by op. */
static enum mn_err ask(struct run *r, cJSON *message, const char *op, cJSON **reply,
                       struct mn_diag *diag)
{
    cJSON *got = NULL;
    enum mn_err err = mn_ctl_send(r->pump.ctl, message, diag);

    if (!err)
        err = mn_ctl_receive(r->pump.ctl, r->plan->timeout_ms, &got, diag);
    if (err)
        return err;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(got, "op");
    if (!cJSON_IsString(item) || strcmp(item->valuestring, op) != 0)
        err = mn_fail(diag, MN_ERR_PROTO, "%s: expected the message '%s'", r->pump.ctl->peer, op);
    if (err || !reply)
        cJSON_Delete(got);
    else
        *reply = got;
    return err;
}

static size_t largest(const struct mn_p2p_plan *plan)
{
    unsigned long long max = 0;

    for (size_t i = 0; i < plan->n_sizes; i++)
        max = plan->sizes[i] > max ? plan->sizes[i] : max;
    return (size_t)max;
}

static enum mn_err set_up(struct run *r, struct mn_diag *diag)
{
    struct mn_p2p_pump *pump = &r->pump;
    cJSON *message, *reply;
    enum mn_err err = mn_p2p_open(pump, diag);

    if (err)
        return err;
    message = mn_p2p_message("open");
    cJSON_AddNumberToObject(message, "connections", pump->connections);
    cJSON_AddNumberToObject(message, "outstanding", pump->outstanding);
    mn_p2p_put_handles(message, pump);
    err = ask(r, message, "opened", &reply, diag);
    if (err)
        return err;
    err = mn_p2p_get_handles(reply, pump, diag);
    mn_p2p_get_end(reply, &r->report->ends[1], &r->report->environments[1]);
    mn_p2p_own_end(pump, &r->report->ends[0]);
    mn_environment_read(mn_plugin_info(pump->plugin), &r->report->environments[0]);
    cJSON_Delete(reply);
    message = mn_p2p_message("connect");
    cJSON_AddNumberToObject(message, "largest", (double)largest(r->plan));
    cJSON_AddNumberToObject(message, "memory", (double)r->plan->memory);
    if (!err)
        err = mn_ctl_send(pump->ctl, message, diag);
    else
        cJSON_Delete(message);
    if (!err)
        err = mn_p2p_connect(pump, diag);
    if (!err)
        err = mn_p2p_buffers(pump, largest(r->plan), r->plan->memory, diag);
    if (err)
        return err;
    err = mn_ctl_receive(pump->ctl, r->plan->timeout_ms, &reply, diag);
    cJSON_Delete(reply);
    return err;
}

/* When our side failed, the other side's reason may say more: ends with both. */
static enum mn_err add_peer_reason(struct run *r, enum mn_err err, struct mn_diag *diag)
{
    struct mn_diag theirs = {.text = ""};
    cJSON *reply = NULL;

    if (mn_ctl_receive(r->pump.ctl, 1000, &reply, &theirs) == MN_ERR_FAILED) {
        size_t used = strlen(diag->text);
        snprintf(diag->text + used, sizeof diag->text - used, " (%.300s)", theirs.text);
    }
    cJSON_Delete(reply);
    return err;
}

/* For the judgement of the counters. A packet of RDMA carries at most 4096 bytes. */
static void count_moved(struct run *r, size_t size, uint64_t messages)
{
    r->report->moved_bytes += size * messages;
    r->report->moved_packets += (size > 4096 ? (size + 4095) / 4096 : 1) * messages;
}

/* One transfer on both sides; seen[0] is ours, seen[1] the peer's. ways: ours. */
static enum mn_err move(struct run *r, size_t size, uint64_t count, int ways, int check,
                        struct mn_p2p_seen seen[2], struct mn_diag *diag)
{
    cJSON *message = mn_p2p_message("transfer"), *reply;
    double value[5];
    static const char *const keys[] = {"messages", "bytes", "wrong", "seconds", "cpu"};

    cJSON_AddNumberToObject(message, "size", (double)size);
    cJSON_AddNumberToObject(message, "count", (double)count);
    cJSON_AddNumberToObject(message, "ways", (ways & 1) << 1 | ways >> 1);
    cJSON_AddNumberToObject(message, "check", check);
    enum mn_err err = ask(r, message, "ready", NULL, diag);
    if (err)
        return err;
    err = mn_p2p_transfer(&r->pump, size, count, ways, check, &seen[0], diag);
    if (err)
        return add_peer_reason(r, err, diag);
    err = mn_ctl_receive(r->pump.ctl, r->plan->timeout_ms, &reply, diag);
    for (int i = 0; i < 5 && !err; i++)
        err = mn_ctl_number(reply, keys[i], 0, 1.8e19, &value[i], diag);
    cJSON_Delete(reply);
    if (!err)
        seen[1] = (struct mn_p2p_seen){.messages = (uint64_t)value[0],
                                       .bytes = (uint64_t)value[1],
                                       .wrong = (uint64_t)value[2],
                                       .seconds = value[3],
                                       .cpu_seconds = value[4]};
    if (!err)
        count_moved(r, size, seen[0].messages + seen[1].messages);
    return err;
}

static double slower(const struct mn_p2p_seen seen[2])
{
    return fmax(seen[0].seconds, seen[1].seconds);
}

/* How many messages fill a repetition, from a warm-up that grows until it lasts long enough to tell
 * and goes on until the speed is steady. */
static enum mn_err choose_count(struct run *r, size_t size, int ways, uint64_t *count, int *steady,
                                struct mn_diag *diag)
{
    double want = mn_repeat_each(&r->plan->repeat), took = 0, before;
    struct mn_p2p_seen seen[2];
    enum mn_err err = MN_OK;

    *steady = -1;
    if (r->plan->iters) {
        *count = r->plan->iters;
        return r->plan->warmup ? move(r, size, r->plan->warmup, ways, 0, seen, diag) : MN_OK;
    }
    *count = r->plan->warmup ? r->plan->warmup : (uint64_t)r->pump.outstanding;
    for (int i = 0; i < 40 && took < want / 2 && !err; i++) {
        if (i)
            *count *= 4;
        err = move(r, size, *count, ways, 0, seen, diag);
        took = slower(seen);
    }
    *count =
        (uint64_t)fmax(ceil((double)*count * want / fmax(took, 1e-6)), (double)r->pump.outstanding);
    *steady = 0;
    took = 0;
    for (int i = 0; i < MN_REPEAT_WARMUPS && !*steady && !err; i++) {
        before = took;
        err = move(r, size, *count, ways, 0, seen, diag);
        took = slower(seen);
        *steady = mn_repeat_is_steady(before, took);
        if (took * 1000 > r->plan->repeat.most_ms)
            break;
    }
    return err;
}

static void say(struct run *r, const char *what, size_t size)
{
    char text[96], bytes[32];

    snprintf(text, sizeof text, "%s, %s bytes", what, mn_format_size(size, bytes, sizeof bytes));
    if (r->progress)
        r->progress(r->ctx, text, ++r->step, r->steps);
}

static enum mn_err bandwidth(struct run *r, size_t size, enum mn_p2p_direction direction,
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
        double start = mn_p2p_now();
        err = move(r, size, count, ways[direction], 0, seen, diag);
        if (err)
            break;
        mn_repeat_add(&repeat, slower(seen), mn_p2p_now() - start);
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

static enum mn_err rounds(struct run *r, size_t size, uint64_t count, float *rtts,
                          struct mn_diag *diag)
{
    cJSON *message = mn_p2p_message("pingpong"), *reply = NULL;

    cJSON_AddNumberToObject(message, "size", (double)size);
    cJSON_AddNumberToObject(message, "count", (double)count);
    enum mn_err err = ask(r, message, "ready", NULL, diag);
    if (err)
        return err;
    err = mn_p2p_pingpong(&r->pump, size, count, 1, rtts, diag);
    if (err)
        return add_peer_reason(r, err, diag);
    err = mn_ctl_receive(r->pump.ctl, r->plan->timeout_ms, &reply, diag);
    cJSON_Delete(reply);
    if (!err)
        count_moved(r, size, 2 * count);
    return err;
}

/* Rounds of a repetition, and of a warm-up that goes on until the latency is steady. */
static enum mn_err choose_rounds(struct run *r, size_t size, uint64_t *count, int *steady,
                                 struct mn_diag *diag)
{
    uint64_t warmup = r->plan->warmup ? r->plan->warmup : 200;
    double start = mn_p2p_now(), before, each;
    enum mn_err err = rounds(r, size, warmup, NULL, diag);

    *steady = -1;
    *count = r->plan->iters;
    if (r->plan->iters || err)
        return err;
    each = fmax((mn_p2p_now() - start) / (double)warmup, 1e-7);
    *steady = 0;
    for (int i = 0; i < MN_REPEAT_WARMUPS && !*steady && !err; i++) {
        double fit = mn_repeat_each(&r->plan->repeat) / each;
        *count = fit < 20 ? 20 : fit > MAX_ROUNDS ? MAX_ROUNDS : (uint64_t)fit;
        start = mn_p2p_now();
        err = rounds(r, size, *count, NULL, diag);
        before = each;
        each = fmax((mn_p2p_now() - start) / (double)*count, 1e-7);
        *steady = mn_repeat_is_steady(before, each);
        if ((mn_p2p_now() - start) * 1000 > r->plan->repeat.most_ms)
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
    row.p99 = mn_stats_percentile(rtts, count, 99) / 2;
    row.p999 = mn_stats_percentile(rtts, count, 99.9) / 2;
    row.spread.outliers = mn_stats_outliers(rtts, count);
    return row;
}

static enum mn_err latency(struct run *r, size_t size, struct mn_diag *diag)
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
        double start = mn_p2p_now();
        rtts = more;
        err = rounds(r, size, count, rtts + done, diag);
        mn_repeat_add(&repeat, err ? 0 : mn_stats_mean(rtts + done, count), mn_p2p_now() - start);
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

static enum mn_err check(struct run *r, size_t size, struct mn_diag *diag)
{
    struct mn_p2p_seen seen[2];
    enum mn_err err = move(r, size, 2 * (uint64_t)r->pump.outstanding, 3, 1, seen, diag);

    if (!err) {
        r->report->checked += seen[0].messages + seen[1].messages;
        r->report->wrong += seen[0].wrong + seen[1].wrong;
    }
    return err;
}

static enum mn_err peer_counters(struct run *r, struct mn_p2p_end *end, struct mn_diag *diag)
{
    cJSON *reply;
    enum mn_err err = ask(r, mn_p2p_message("counters"), "counters", &reply, diag);

    if (!err) {
        mn_p2p_get_counters(reply, end);
        cJSON_Delete(reply);
    }
    return err;
}

static enum mn_err measure(struct run *r, struct mn_diag *diag)
{
    const struct mn_p2p_plan *plan = r->plan;
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < plan->n_sizes && !err; i++) {
        size_t size = (size_t)plan->sizes[i];
        if (plan->check) {
            say(r, "checking data", size);
            err = check(r, size, diag);
        }
        if (plan->latency && size <= plan->latency_max && !err) {
            say(r, "latency", size);
            err = latency(r, size, diag);
        }
        for (int d = 0; d < MN_P2P_DIRECTIONS && !err; d++) {
            if (!(plan->directions & 1u << d))
                continue;
            say(r, mn_p2p_direction_names[d], size);
            err = bandwidth(r, size, (enum mn_p2p_direction)d, diag);
        }
    }
    return err;
}

enum mn_err mn_p2p_run(struct mn_plugin *plugin, struct mn_ctl *ctl, const struct mn_p2p_plan *plan,
                       mn_p2p_progress progress, void *ctx, struct mn_p2p_report *report,
                       struct mn_diag *diag)
{
    struct run r = {.plan = plan, .report = report, .progress = progress, .ctx = ctx};
    struct mn_p2p_end *ends = report->ends, before[2] = {{.n_nics = 0}};

    memset(report, 0, sizeof *report);
    report->started = time(NULL);
    r.pump = (struct mn_p2p_pump){.plugin = plugin,
                                  .ctl = ctl,
                                  .timeout_ms = plan->timeout_ms,
                                  .device = plan->device,
                                  .connections = plan->connections,
                                  .outstanding = plan->outstanding};
    r.steps = (int)plan->n_sizes * ((plan->check != 0) + __builtin_popcount(plan->directions));
    for (size_t i = 0; plan->latency && i < plan->n_sizes; i++)
        r.steps += plan->sizes[i] <= plan->latency_max;
    enum mn_err err = set_up(&r, diag);
    if (!err)
        err = peer_counters(&r, &before[1], diag);
    before[0].n_nics = mn_p2p_counters(before[0].nics);
    if (!err)
        err = measure(&r, diag);
    ends[0].n_nics = mn_p2p_counters(ends[0].nics);
    mn_strlcpy(ends[0].warning, r.pump.log, sizeof ends[0].warning);
    if (!err)
        err = peer_counters(&r, &ends[1], diag);
    for (int i = 0; i < 2; i++)
        mn_p2p_counters_since(ends[i].nics, ends[i].n_nics, before[i].nics, before[i].n_nics);
    if (!err)
        err = mn_ctl_send(ctl, mn_p2p_message("bye"), diag);
    mn_p2p_close(&r.pump);
    return err;
}

void mn_p2p_free(struct mn_p2p_report *report)
{
    free(report->bandwidth);
    free(report->latency);
}

double mn_p2p_gbytes(const struct mn_p2p_bandwidth *row)
{
    return row->seconds > 0 ? (double)row->bytes / row->seconds / 1e9 : 0;
}
