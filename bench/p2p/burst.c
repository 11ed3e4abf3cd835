#include <stdlib.h>
#include <time.h>

#include "bench/p2p/message.h"
#include "bench/p2p/pump.h"
#include "bench/stats.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define WORD 8 /* bytes of a question or an answer */

/* The question or answer of a burst, over connection 0: one message the other way. */
static enum mn_err expect_word(struct mn_p2p_pump *pump, void **request, struct mn_p2p_watch *w,
                               struct mn_diag *diag)
{
    void *data = pump->area[1];
    size_t size = WORD;
    int tag = 0;
    enum mn_err err = MN_OK;

    *request = NULL;
    for (w->idle = 0; !err && !*request;) {
        int result = mn_plugin_irecv(pump->plugin, pump->recvs[0], 1, &data, &size, &tag,
                                     &pump->mhs[1][0], request);
        if (result)
            return mn_p2p_failed(pump, "irecv", result, diag);
        if (!*request)
            err = mn_p2p_idle(w, diag);
    }
    return err;
}

static enum mn_err take_word(struct mn_p2p_pump *pump, void *request, struct mn_p2p_watch *w,
                             struct mn_diag *diag)
{
    void *data = pump->area[1];
    int size = WORD;
    enum mn_err err = mn_p2p_wait(pump, request, w, diag);

    return err || !pump->flush ? err : mn_p2p_flush(pump, 0, 1, &data, &size, w, diag);
}

static enum mn_err send_word(struct mn_p2p_pump *pump, void **request, struct mn_p2p_watch *w,
                             struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    *request = NULL;
    for (w->idle = 0; !err && !*request;) {
        int result = mn_plugin_isend(pump->plugin, pump->sends[0], pump->area[0], WORD, 0,
                                     pump->mhs[0][0], request);
        if (result)
            return mn_p2p_failed(pump, "isend", result, diag);
        if (!*request)
            err = mn_p2p_idle(w, diag);
    }
    return err;
}

static void rest(unsigned ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    if (ms)
        nanosleep(&t, NULL);
}

/* One burst. What this side will receive is posted before the pause, so that announcing it is not
 * part of the time: the sender of the burst posts the receive of the word, its receiver those of
 * the burst. */
struct burst {
    struct mn_p2p_pump *pump;
    struct mn_p2p_watch watch;
    size_t size;
    uint64_t messages;
    unsigned pause_ms;
};

/* Sends the burst and waits for the answer, or is asked for the burst and sends it. */
static enum mn_err send_burst(struct burst *b, int asked, float *took, struct mn_diag *diag)
{
    struct mn_p2p_seen seen;
    void *word;
    enum mn_err err = expect_word(b->pump, &word, &b->watch, diag);

    if (!err && took)
        rest(b->pause_ms);
    double start = mn_seconds();
    if (!err && asked)
        err = take_word(b->pump, word, &b->watch, diag);
    if (!err)
        err = mn_p2p_transfer(b->pump, b->size, b->messages, 1, 0, &seen, diag);
    if (!err && !asked)
        err = take_word(b->pump, word, &b->watch, diag);
    if (took)
        *took = (float)((mn_seconds() - start) * 1e6);
    return err;
}

/* Receives the burst and answers, or asks for it and receives it. */
static enum mn_err receive_burst(struct burst *b, int asks, float *took, struct mn_diag *diag)
{
    struct mn_p2p_seen seen;
    void *word = NULL;
    enum mn_err err = MN_OK;
    struct mn_p2p_mover *m = mn_p2p_begin(b->pump, b->size, b->messages, 2, 0, diag);

    if (!m)
        return diag->code;
    if (took)
        rest(b->pause_ms);
    double start = mn_seconds();
    if (asks)
        err = send_word(b->pump, &word, &b->watch, diag);
    if (err)
        mn_p2p_cancel(m);
    else
        err = mn_p2p_finish(m, &seen, diag);
    if (took)
        *took = (float)((mn_seconds() - start) * 1e6);
    if (!err && !asks)
        err = send_word(b->pump, &word, &b->watch, diag);
    return err || !word ? err : mn_p2p_wait(b->pump, word, &b->watch, diag);
}

enum mn_err mn_p2p_bursts(struct mn_p2p_pump *pump, size_t size, int messages, uint64_t count,
                          unsigned pause_ms, int way, float *times, struct mn_diag *diag)
{
    struct burst b = {.pump = pump,
                      .watch = {.pump = pump, .what = "sending bursts"},
                      .size = size,
                      .messages = (uint64_t)messages,
                      .pause_ms = pause_ms};
    int receives = times ? way == 2 : way == 1, threads = pump->threads;
    enum mn_err err = MN_OK;

    pump->threads = 1; /* to start others would take its part of the time */

    for (uint64_t i = 0; i < count && !err; i++) {
        float *took = times ? &times[i] : NULL;
        err = receives ? receive_burst(&b, way == 2, took, diag)
                       : send_burst(&b, way == 2, took, diag);
        if (!err)
            err = mn_p2p_interrupted(pump, diag);
    }
    pump->threads = threads;
    return err;
}

/* count bursts on both sides. */
static enum mn_err both_sides(struct mn_p2p_pump *pump, const struct mn_p2p_plan *plan, size_t size,
                              uint64_t count, int way, float *times, struct mn_diag *diag)
{
    cJSON *message = mn_p2p_message("bursts"), *reply = NULL;

    cJSON_AddNumberToObject(message, "size", (double)size);
    cJSON_AddNumberToObject(message, "messages", plan->burst_messages);
    cJSON_AddNumberToObject(message, "count", (double)count);
    cJSON_AddNumberToObject(message, "way", way);
    cJSON_AddNumberToObject(message, "window", pump->window);
    enum mn_err err = mn_p2p_start(pump, message, diag);
    if (!err)
        err = mn_p2p_bursts(pump, size, plan->burst_messages, count, plan->pause_ms, way, times,
                            diag);
    if (!err)
        err = mn_ctl_receive(pump->ctl, plan->timeout_ms, &reply, diag);
    cJSON_Delete(reply);
    return err;
}

#define MOST 1000000 /* bursts of a measurement without --iters */

enum mn_err mn_p2p_measure_bursts(struct mn_p2p_pump *pump, const struct mn_p2p_plan *plan,
                                  size_t size, enum mn_p2p_direction direction,
                                  struct mn_p2p_burst *row, struct mn_diag *diag)
{
    float before[MN_P2P_BURSTS_BEFORE];
    int way = direction == MN_P2P_IN ? 2 : 1;
    enum mn_err err = both_sides(pump, plan, size, MN_P2P_BURSTS_BEFORE, way, before, diag);

    if (err)
        return err;
    double each = mn_stats_mean(before, MN_P2P_BURSTS_BEFORE) * 1e-3 + plan->pause_ms;
    double fit = plan->repeat.duration_ms / each;
    uint64_t count = plan->iters ? plan->iters : fit < 20 ? 20 : fit > MOST ? MOST : (uint64_t)fit;
    float *times = mn_zalloc(count * sizeof *times);
    err = both_sides(pump, plan, size, count, way, times, diag);
    if (!err) {
        mn_stats_sort(times, count);
        *row = (struct mn_p2p_burst){
            .size = size,
            .direction = direction,
            .bursts = count,
            .min = times[0],
            .mean = mn_stats_mean(times, count),
            .p50 = mn_stats_percentile(times, count, 50),
            .p90 = mn_stats_percentile(times, count, 90),
            .p99 = mn_stats_percentile(times, count, 99),
            .p999 = mn_stats_percentile(times, count, 99.9),
            .max = times[count - 1],
        };
    }
    free(times);
    return err;
}
