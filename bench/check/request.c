/* How many requests may be out, and in which order they are tested. */
#include <stdatomic.h>
#include <string.h>

#include "bench/check/kit.h"
#include "bench/host.h"

#define MAX_REQUESTS 32 /* NCCL_NET_MAX_REQUESTS */
#define FLOOD        4096
#define SIZE         512
#define OPTIONAL     ((void *)0x1) /* NCCL_NET_OPTIONAL_RECV_COMPLETION */

struct lane {
    struct mn_pair pair;
    struct mn_buf out[MAX_REQUESTS], in[MAX_REQUESTS];
    struct mn_req sends[MAX_REQUESTS], recvs[MAX_REQUESTS];
};

static struct lane lanes[2];

static void open_lane(struct mn_check *check, struct lane *lane, int n)
{
    mn_kit_connect(check, &lane->pair);
    for (int i = 0; i < n; i++) {
        mn_kit_buf(check, lane->pair.send, SIZE, 0, &lane->out[i]);
        mn_kit_buf(check, lane->pair.recv, SIZE, 0, &lane->in[i]);
        mn_kit_fill(&lane->out[i], SIZE, 300u + (unsigned)i);
    }
}

static void expect_lane(struct mn_check *check, struct lane *lane, int n, const char *what)
{
    for (int i = 0; i < n; i++)
        mn_kit_expect(check, &lane->in[i], SIZE, 300u + (unsigned)i, what);
}

/* None was reported done yet: one that is given out twice would be tested again after done. */
static void expect_distinct(struct mn_check *check, const struct lane *lane)
{
    for (int i = 0; i < MAX_REQUESTS; i++)
        for (int k = 0; k < i; k++)
            if ((!lane->sends[i].done && !lane->sends[k].done &&
                 lane->sends[i].request == lane->sends[k].request) ||
                (!lane->recvs[i].done && !lane->recvs[k].done &&
                 lane->recvs[i].request == lane->recvs[k].request))
                mn_check_fail(check, "requests %d and %d are under way and the same", k, i);
}

static void check_outstanding(struct mn_check *check)
{
    struct lane *lane = &lanes[0];
    struct mn_req *all[2 * MAX_REQUESTS];

    mn_check_init(check);
    open_lane(check, lane, MAX_REQUESTS);
    for (int i = 0; i < MAX_REQUESTS; i++) {
        struct mn_buf *buf = &lane->in[i];
        const size_t size = SIZE;
        const int tag = 0;
        mn_check_step(check, "irecv %d of %d, none tested", i + 1, MAX_REQUESTS);
        if (!mn_kit_try_irecv(check, lane->pair.recv, 1, &buf, &size, &tag, &lane->recvs[i]))
            mn_check_fail(check, "irecv %d of %d gave a NULL request: %d receives must fit", i + 1,
                          MAX_REQUESTS, MAX_REQUESTS);
        all[i] = &lane->recvs[i];
    }
    for (int i = 0; i < MAX_REQUESTS; i++) {
        mn_kit_isend_polling(check, lane->pair.send, &lane->out[i], SIZE, &lane->sends[i],
                             lane->recvs, MAX_REQUESTS);
        all[MAX_REQUESTS + i] = &lane->sends[i];
    }
    expect_distinct(check, lane);
    mn_kit_wait(check, all, 2 * MAX_REQUESTS);
    expect_lane(check, lane, MAX_REQUESTS, "32 requests outstanding");
}

/* Whether another call fits. An error beyond what NCCL ever has in flight is an answer too: its own
 * Socket gives one; request.backpressure is about that. */
static int fits(struct mn_check *check, const char *call, int result, int n, const void *request)
{
    if (n < MAX_REQUESTS)
        mn_check_ok(check, call, result);
    if (result == 0 && request == MN_KIT_STALE)
        mn_check_fail(check, "%s returned success and left *request at %p as it was", call,
                      MN_KIT_STALE);
    return result == 0 && request != NULL;
}

static int another_irecv(struct mn_check *check, struct lane *lane, int n)
{
    void *request = MN_KIT_STALE;
    const size_t size = SIZE;
    int tag = 0, result = mn_raw_irecv(&check->raw, lane->pair.recv, 1, (void **)&lane->in[0].data,
                                       &size, &tag, &lane->in[0].mhandle, &request);

    return fits(check, "irecv", result, n, request);
}

static int another_isend(struct mn_check *check, struct lane *lane, int n)
{
    void *request = MN_KIT_STALE;
    int result = mn_raw_isend(&check->raw, lane->pair.send, lane->out[0].data, SIZE, 0,
                              lane->out[0].mhandle, &request);

    return fits(check, "isend", result, n, request);
}

/* NCCL leaves an old pointer in the slot: a full plugin must overwrite it with NULL. */
static void check_written(struct mn_check *check)
{
    int n = 0, sends = 0;

    mn_check_init(check);
    open_lane(check, &lanes[0], 1);
    open_lane(check, &lanes[1], 1);
    mn_check_step(check, "irecv until there are no resources");
    while (n < FLOOD && another_irecv(check, &lanes[0], n))
        n++;
    for (int i = 0; i < 4; i++)
        another_irecv(check, &lanes[0], n);
    mn_check_step(check, "isend until there are no resources");
    while (sends < FLOOD && another_isend(check, &lanes[1], sends))
        sends++;
    another_isend(check, &lanes[1], sends);
    mn_check_note(check, "%d receives fitted", n);
}

/* Whether a call that found 0x1 in *request posted something. */
static int optional(struct mn_check *check, const char *call, int result, struct mn_req *req)
{
    mn_check_ok(check, call, result);
    if (req->request == OPTIONAL)
        mn_check_fail(check, "%s returned success and left 0x1 in *request", call);
    req->done = req->result = 0;
    memset(req->sizes, 0, sizeof req->sizes);
    return req->request != NULL;
}

static int optional_isend(struct mn_check *check, struct lane *lane, struct mn_req *req)
{
    req->request = OPTIONAL;
    return optional(check, "isend",
                    mn_raw_isend(&check->raw, lane->pair.send, lane->out[0].data, SIZE, 0,
                                 lane->out[0].mhandle, &req->request),
                    req);
}

static void check_optional(struct mn_check *check)
{
    struct lane *lane = &lanes[0];
    struct mn_req recv = {.request = OPTIONAL}, send;
    void *data, *mhandle;
    size_t size = SIZE;
    int tag = 0;

    mn_check_init(check);
    if (!mn_raw_has_v9(&check->raw))
        mn_check_skip(check, "only v9 and newer are given 0x1");
    open_lane(check, lane, 1);
    data = lane->in[0].data;
    mhandle = lane->in[0].mhandle;
    mn_check_step(check, "irecv and isend with 0x1 in *request");
    if (!optional(check, "irecv",
                  mn_raw_irecv(&check->raw, lane->pair.recv, 1, &data, &size, &tag, &mhandle,
                               &recv.request),
                  &recv))
        mn_check_fail(check, "irecv gave a NULL request, nothing was in flight");
    while (!optional_isend(check, lane, &send))
        mn_kit_isend_again(check, &recv, 1);
    mn_kit_wait2(check, &recv, &send);
    expect_lane(check, lane, 1, "with optional completion");
}

static void post_lane(struct mn_check *check, struct lane *lane, int n)
{
    for (int i = 0; i < n; i++)
        mn_kit_irecv(check, lane->pair.recv, &lane->in[i], SIZE, 0, &lane->recvs[i]);
    for (int i = 0; i < n; i++)
        mn_kit_isend_polling(check, lane->pair.send, &lane->out[i], SIZE, &lane->sends[i],
                             lane->recvs, n);
}

/* Only the newest request is tested until it is done, then the one before it. */
static void check_order(struct mn_check *check)
{
    struct lane *lane = &lanes[0];
    const int n = 8;

    mn_check_init(check);
    open_lane(check, lane, n);
    post_lane(check, lane, n);
    for (int i = n - 1; i >= 0; i--) {
        mn_check_step(check, "test of receive and send %d, the older ones untested", i);
        mn_kit_wait2(check, &lane->recvs[i], &lane->sends[i]);
    }
    expect_lane(check, lane, n, "tested in reverse");
}

static void check_independent(struct mn_check *check)
{
    mn_check_init(check);
    open_lane(check, &lanes[0], 4);
    open_lane(check, &lanes[1], 4);
    post_lane(check, &lanes[0], 4);
    post_lane(check, &lanes[1], 4);
    for (int l = 1; l >= 0; l--)
        for (int i = 0; i < 4; i++) {
            mn_check_step(check, "test on connection %d only", l);
            mn_kit_wait2(check, &lanes[l].recvs[i], &lanes[l].sends[i]);
        }
    expect_lane(check, &lanes[0], 4, "connection 0");
    expect_lane(check, &lanes[1], 4, "connection 1");
}

/* One byte of out each, so that none is touched before its send is done. */
static int send_byte(struct mn_check *check, struct mn_pair *pair, struct mn_buf *out, int i,
                     int tag, struct mn_req *req)
{
    struct mn_buf byte = *out;

    byte.data = out->data + i;
    byte.data[0] = (unsigned char)(i * 7 + 3);
    return mn_kit_try_isend(check, pair->send, &byte, 1, tag, req);
}

/* Sends without a receive until the plugin has had enough, which it says with a NULL request. */
static void check_backpressure(struct mn_check *check)
{
    static struct mn_req sends[FLOOD];
    struct mn_buf out, in;
    struct mn_pair pair;
    int most, n = 0;

    mn_check_init(check);
    most = MAX_REQUESTS * check->props.max_recvs + 8;
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, FLOOD, 0, &out);
    mn_kit_buf(check, pair.recv, SIZE, 0, &in);
    mn_check_step(check, "isend without a receive, until a NULL request or %d times", most);
    while (n < most && n < FLOOD && send_byte(check, &pair, &out, n, 0, &sends[n]))
        n++;
    mn_check_note(check, "%d sends were taken ahead of any receive", n);
    for (int i = 0; i < n; i++) {
        struct mn_req recv;
        mn_kit_irecv(check, pair.recv, &in, SIZE, 0, &recv);
        mn_check_step(check, "test of receive %d for %d sends posted before", i, n);
        for (int tests = 0; !mn_kit_test(check, &recv); tests++) {
            mn_kit_test(check, &sends[tests % n]);
            if (mn_check_expired(check))
                mn_check_fail(check, "message %d of %d that were posted never arrived", i, n);
            mn_check_pause(check);
        }
        if (recv.sizes[0] != 1 || in.data[0] != (unsigned char)(i * 7 + 3))
            mn_check_fail(check, "message %d of %d: %d bytes, first 0x%02x, sent was 1, 0x%02x", i,
                          n, recv.sizes[0], in.data[0], (unsigned char)(i * 7 + 3));
    }
    for (int i = 0; i < n; i++) {
        struct mn_req *one = &sends[i];
        mn_kit_wait(check, &one, 1);
    }
    mn_kit_pass(check, &pair, SIZE, SIZE, 1);
}

/* As many grouped receives as a comm must hold, every one of its messages on the way. */
static void check_full(struct mn_check *check)
{
    static struct mn_req sends[MAX_REQUESTS * MN_RAW_MAX_RECVS], recvs[MAX_REQUESTS];
    static struct mn_buf in[MN_RAW_MAX_RECVS], *bufs[MN_RAW_MAX_RECVS];
    size_t sizes[MN_RAW_MAX_RECVS];
    int tags[MN_RAW_MAX_RECVS], group, n_sent = 0, n_done = 0;
    struct mn_buf out, all;
    struct mn_pair pair;

    mn_check_init(check);
    group = check->props.max_recvs < MN_RAW_MAX_RECVS ? check->props.max_recvs : MN_RAW_MAX_RECVS;
    if (group < 2)
        mn_check_skip(check, "maxRecvs is %d: receives are not grouped", group);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, (size_t)(MAX_REQUESTS * group), 0, &out);
    mn_kit_buf(check, pair.recv, (size_t)(MAX_REQUESTS * group), 0, &all);
    for (int r = 0; r < MAX_REQUESTS; r++) {
        for (int i = 0; i < group; i++) {
            in[i] = all;
            in[i].data = all.data + r * group + i;
            bufs[i] = &in[i];
            sizes[i] = 1;
            tags[i] = i;
        }
        mn_check_step(check, "irecv %d of %d with %d buffers each", r + 1, MAX_REQUESTS, group);
        if (!mn_kit_try_irecv(check, pair.recv, group, bufs, sizes, tags, &recvs[r]))
            mn_check_fail(check,
                          "irecv %d of %d gave a NULL request: %d receives of %d buffers "
                          "must fit",
                          r + 1, MAX_REQUESTS, MAX_REQUESTS, group);
    }
    mn_check_step(check, "%d messages for %d receives of %d", MAX_REQUESTS * group, MAX_REQUESTS,
                  group);
    while (n_done < MAX_REQUESTS) {
        if (n_sent < MAX_REQUESTS * group)
            n_sent += send_byte(check, &pair, &out, n_sent, n_sent % group, &sends[n_sent]);
        for (int i = 0; i < n_sent; i++)
            mn_kit_test(check, &sends[i]);
        n_done += mn_kit_test(check, &recvs[n_done]);
        if (mn_check_expired(check))
            mn_check_fail(check, "%d of %d receives done, %d of %d messages posted", n_done,
                          MAX_REQUESTS, n_sent, MAX_REQUESTS * group);
    }
    for (int i = 0; i < MAX_REQUESTS * group; i++)
        if (all.data[i] != (unsigned char)(i * 7 + 3))
            mn_check_fail(check, "slot %d of receive %d holds another message", i % group,
                          i / group);
}

/* The array of profiler handles, not only what is in it, may be missing. */
static void check_phandles(struct mn_check *check)
{
    struct lane *lane = &lanes[0];
    void *data, *mhandle;
    size_t size = SIZE;
    struct mn_req recv = {.request = MN_KIT_STALE}, send;
    int tag = 0;

    mn_check_init(check);
    open_lane(check, lane, 1);
    data = lane->in[0].data;
    mhandle = lane->in[0].mhandle;
    mn_check_step(check, "irecv with phandles NULL");
    mn_check_ok(check, "irecv",
                (int)check->raw.slots.irecv_v10(lane->pair.recv, 1, &data, &size, &tag, &mhandle,
                                                NULL, &recv.request));
    if (!recv.request || recv.request == MN_KIT_STALE)
        mn_check_fail(check, "irecv gave no request, nothing was in flight");
    mn_kit_isend(check, lane->pair.send, &lane->out[0], SIZE, 0, &send);
    mn_kit_wait2(check, &recv, &send);
    expect_lane(check, lane, 1, "without profiler handles");
}

static atomic_int started_without;

static ncclResult_t profile(void **event, int type, void *phandle, int64_t id, void *data)
{
    enum { START = 0 };

    (void)event;
    (void)id;
    (void)data;
    if (type == START && !phandle)
        atomic_store(&started_without, 1);
    return ncclSuccess;
}

static void no_log(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                   const char *fmt, ...)
{
    (void)level;
    (void)flags;
    (void)file;
    (void)line;
    (void)fmt;
}

/* NCCL gives every plugin the callback; the handles are NULL unless a profiler runs. */
static void check_profiler(struct mn_check *check)
{
    struct lane *lane = &lanes[0];
    ncclNetCommConfig_v11_t config = {.trafficClass = -1};
    int ndev = 0;

    mn_check_load(check);
    mn_check_step(check, "init with a profiler callback");
    mn_check_ok(check, "init",
                check->raw.version->has_ctx
                    ? (int)check->raw.slots.init_v11(&check->raw.ctx, 1, &config, no_log, profile)
                    : (int)check->raw.slots.init_v10(no_log, profile));
    if (mn_raw_devices(&check->raw, &ndev) != 0 || ndev < 1)
        mn_check_skip(check, "no device (rule device.count)");
    mn_kit_connect(check, &lane->pair);
    for (unsigned i = 0; i < 4; i++)
        mn_kit_pass(check, &lane->pair, 5000, 5000, i);
    if (atomic_load(&started_without))
        mn_check_fail(check, "the profiler was called with a NULL phandle; NCCL reads through it");
}

static void check_flush(struct mn_check *check)
{
    struct lane *lane = &lanes[0];
    void *data, *mhandle, *request = MN_KIT_STALE;
    int size = SIZE, done = 0, result;

    mn_check_init(check);
    open_lane(check, lane, 1);
    post_lane(check, lane, 1);
    mn_kit_wait2(check, &lane->recvs[0], &lane->sends[0]);
    data = lane->in[0].data;
    mhandle = lane->in[0].mhandle;
    mn_check_step(check, "iflush of a completed receive");
    result = mn_raw_iflush(&check->raw, lane->pair.recv, 1, &data, &size, &mhandle, &request);
    if (result) {
        mn_check_note(check, "refused with %s: nothing needs a flush", mn_nccl_result_name(result));
        return;
    }
    if (request == MN_KIT_STALE)
        mn_check_fail(check, "iflush returned success and left *request as it was");
    while (request && !done) {
        mn_check_ok(check, "test of a flush", mn_raw_test(&check->raw, request, &done, NULL));
        if (mn_check_expired(check))
            mn_check_fail(check, "the flush is never done");
    }
    expect_lane(check, lane, 1, "after the flush");
    mn_kit_pass(check, &lane->pair, SIZE, SIZE, 7);
}

static const struct mn_check_rule rules[] = {
    {"request.outstanding", "32 receives and 32 sends fit",
     "NCCL_NET_MAX_REQUESTS is 32 for each comm", check_outstanding, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: posts steps of all operations of "
                 "a shared comm without counting; NCCL_NET_MAX_REQUESTS is the promise",
     .breaks = "Jobs with many steps in flight stand still.", .flags = MN_CHECK_ENDS},
    {"request.written", "*request is written on every success",
     "the slot still holds an old pointer; without resources it must become NULL", check_written,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyProgress: the slot holds the request of "
                 "eight steps ago, and is read after isend",
     .breaks = "NCCL tests a request that is long gone.", .flags = MN_CHECK_ENDS},
    {"request.optional", "0x1 in *request is replaced",
     "NCCL_NET_OPTIONAL_RECV_COMPLETION on entry is a hint; RCCL presets isend too", check_optional,
     .profile = "nccl-2.24",
     .evidence = "NCCL 2.24 transport/net.cc, recvProxyProgress: writes 0x1 into the slot before "
                 "irecv, and tests what it finds there after",
     .breaks = "NCCL tests the address 1, and crashes.", .since = 9, .flags = MN_CHECK_ENDS},
    {"request.order", "requests complete whichever is tested",
     "connections and steps are tested in any interleaving", check_order, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, progressOps: tests operations of different connections in "
                 "any interleaving",
     .breaks = "Point-to-point traffic hangs.", .flags = MN_CHECK_ENDS},
    {"request.independent", "one connection moves while another is not tested",
     "progress of a comm never depends on the others being polled", check_independent,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, progressOps: an operation that waits for the GPU is not "
                 "tested meanwhile",
     .breaks = "Ranks that wait for each other over two connections hang.", .flags = MN_CHECK_ENDS},
    {"request.full", "32 grouped receives and all their messages fit",
     "NCCL_NET_MAX_REQUESTS counts receives, each of up to maxRecvs buffers", check_full,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: posts groups of maxRecvs buffers "
                 "on shared comms without counting; NCCL_NET_MAX_REQUESTS is the promise",
     .breaks = "Point-to-point traffic over shared connections hangs.", .flags = MN_CHECK_ENDS},
    {"request.backpressure", "more sends than fit get a NULL request, and lose nothing",
     "a NULL request with success means not now; what got a request is delivered in order",
     check_backpressure, .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL 2.27 transport/net.cc tries again after a NULL request, but never has more "
                 "than NCCL_NET_MAX_REQUESTS; its own Socket reports ncclInternalError beyond",
     .breaks = "A burst of messages fails the job or loses one of them.", .flags = MN_CHECK_ENDS},
    {"request.phandles", "irecv works without an array of profiler handles",
     "the bootstrap passes NULL for phandles", check_phandles, .profile = "nccl-2.26",
     .evidence = "NCCL 2.26 bootstrap.cc, netIrecv: passes NULL for the array of handles",
     .breaks = "Jobs with NCCL_OOB_NET_ENABLE=1 crash.", .since = 10, .flags = MN_CHECK_ENDS},
    {"request.profiler", "the profiler is called with a handle or not at all",
     "phandle is NULL unless a profiler runs; a start event reads through it", check_profiler,
     .profile = "nccl-2.26",
     .evidence = "NCCL 2.26 plugin/profiler.cc, ncclProfilerCallback: a start event reads through "
                 "the handle",
     .breaks = "Every job crashes at its first transfer.", .since = 10,
     .here = "the profiler sees one process only"},
    {"request.flush", "iflush replaces *request",
     "success with NULL means nothing to wait for; else a request that test completes, sizes NULL",
     check_flush, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: tests what iflush left in the "
                 "slot, unless it is NULL",
     .breaks = "NCCL tests a request that is long gone.", .flags = MN_CHECK_ENDS},
};

MN_CHECK_FAMILY(mn_check_request_family, "request", "request limits", rules);
