#include "bench/p2p/pump.h"
#include "topo/base/clock.h"

enum mn_err mn_p2p_wait(struct mn_p2p_pump *pump, void *request, struct mn_p2p_watch *w,
                        struct mn_diag *diag)
{
    int done = 0, sizes[MN_HOST_MAX_RECVS] = {0};

    for (w->idle = 0;;) {
        int result = mn_plugin_test(pump->plugin, request, &done, sizes);
        if (result)
            return mn_p2p_failed(pump, "test", result, diag);
        if (done)
            return MN_OK;
        enum mn_err err = mn_p2p_idle(w, diag);
        if (err)
            return err;
    }
}

enum mn_err mn_p2p_flush(struct mn_p2p_pump *pump, int connection, int n, void **data, int *sizes,
                         struct mn_p2p_watch *w, struct mn_diag *diag)
{
    void *mhs[MN_HOST_MAX_RECVS], *request = NULL;

    for (int i = 0; i < n; i++)
        mhs[i] = pump->mhs[1][connection];
    int result =
        mn_plugin_iflush(pump->plugin, pump->recvs[connection], n, data, sizes, mhs, &request);
    if (result)
        return mn_p2p_failed(pump, "iflush", result, diag);
    return request ? mn_p2p_wait(pump, request, w, diag) : MN_OK;
}

/* Receives are posted ahead, as NCCL's proxies do with the steps of a connection, and as many sends
 * may be under way: neither announcing the one nor the completion of the other is part of the
 * trip. */
#define AHEAD 8

struct ahead {
    void *requests[AHEAD];
    uint64_t posted;
};
struct sent {
    void *requests[AHEAD];
    uint64_t started, done;
};

/* The oldest that is under way. */
static enum mn_err test_sent(struct mn_p2p_pump *pump, struct sent *sent, struct mn_diag *diag)
{
    int done = 0, sizes[MN_HOST_MAX_RECVS] = {0};

    if (sent->done == sent->started)
        return MN_OK;
    int result = mn_plugin_test(pump->plugin, sent->requests[sent->done % AHEAD], &done, sizes);
    sent->done += !result && done;
    return result ? mn_p2p_failed(pump, "test", result, diag) : MN_OK;
}

static enum mn_err wait_sent(struct mn_p2p_pump *pump, struct sent *sent, uint64_t left,
                             struct mn_p2p_watch *w, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (w->idle = 0; !err && sent->started - sent->done > left;) {
        uint64_t before = sent->done;
        err = test_sent(pump, sent, diag);
        if (!err && before == sent->done)
            err = mn_p2p_idle(w, diag);
    }
    return err;
}

static enum mn_err start_send(struct mn_p2p_pump *pump, size_t size, struct sent *sent,
                              struct mn_p2p_watch *w, struct mn_diag *diag)
{
    enum mn_err err = wait_sent(pump, sent, AHEAD - 1, w, diag);
    void **request = &sent->requests[sent->started % AHEAD];

    *request = NULL;
    for (w->idle = 0; !err && !*request;) {
        int result = mn_plugin_isend(pump->plugin, pump->sends[0], pump->area[0], size, 0,
                                     pump->mhs[0][0], request);
        if (result)
            return mn_p2p_failed(pump, "isend", result, diag);
        if (!*request)
            err = mn_p2p_idle(w, diag);
    }
    sent->started += !err;
    return err;
}

static enum mn_err post_ahead(struct mn_p2p_pump *pump, size_t size, struct ahead *ahead,
                              uint64_t done, uint64_t count, struct mn_diag *diag)
{
    void *data = pump->area[1];
    int tag = 0;

    while (ahead->posted < count && ahead->posted - done < AHEAD) {
        void **request = &ahead->requests[ahead->posted % AHEAD];
        *request = NULL;
        int result = mn_plugin_irecv(pump->plugin, pump->recvs[0], 1, &data, &size, &tag,
                                     &pump->mhs[1][0], request);
        if (result)
            return mn_p2p_failed(pump, "irecv", result, diag);
        if (!*request)
            break;
        ahead->posted++;
    }
    return MN_OK;
}

/* mn_p2p_wait() for a receive, while a send may be under way: a plugin need not move what nobody
 * tests. */
static enum mn_err wait_beside(struct mn_p2p_pump *pump, void *request, struct sent *sent,
                               struct mn_p2p_watch *w, struct mn_diag *diag)
{
    int done = 0, sizes[MN_HOST_MAX_RECVS] = {0};
    enum mn_err err = MN_OK;

    for (w->idle = 0; !err;) {
        int result = mn_plugin_test(pump->plugin, request, &done, sizes);
        if (result)
            return mn_p2p_failed(pump, "test", result, diag);
        if (done)
            return MN_OK;
        err = test_sent(pump, sent, diag);
        if (!err)
            err = mn_p2p_idle(w, diag);
    }
    return err;
}

static enum mn_err take_next(struct mn_p2p_pump *pump, size_t size, struct ahead *ahead,
                             uint64_t done, uint64_t count, struct sent *sent,
                             struct mn_p2p_watch *w, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (w->idle = 0; !err && ahead->posted == done;) {
        err = post_ahead(pump, size, ahead, done, count, diag);
        if (!err && ahead->posted == done)
            err = mn_p2p_idle(w, diag);
    }
    if (!err)
        err = wait_beside(pump, ahead->requests[done % AHEAD], sent, w, diag);
    if (!err && pump->flush) {
        void *data = pump->area[1];
        int bytes = (int)size;
        err = mn_p2p_flush(pump, 0, 1, &data, &bytes, w, diag);
    }
    return err;
}

enum mn_err mn_p2p_pingpong(struct mn_p2p_pump *pump, size_t size, uint64_t count, int first,
                            float *rtts, struct mn_diag *diag)
{
    struct mn_p2p_watch w = {.pump = pump, .what = "playing ping-pong"};
    struct ahead ahead = {.posted = 0};
    struct sent sent = {.started = 0};
    enum mn_err err = post_ahead(pump, size, &ahead, 0, count, diag);

    for (uint64_t i = 0; i < count && !err; i++) {
        double start = rtts ? mn_seconds() : 0;
        if (first)
            err = start_send(pump, size, &sent, &w, diag);
        if (!err)
            err = take_next(pump, size, &ahead, i, count, &sent, &w, diag);
        if (!err && !first)
            err = start_send(pump, size, &sent, &w, diag);
        if (rtts)
            rtts[i] = (float)((mn_seconds() - start) * 1e6);
        if (!err)
            err = post_ahead(pump, size, &ahead, i + 1, count, diag);
    }
    return err ? err : wait_sent(pump, &sent, 0, &w, diag);
}
