#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "bench/memory.h"
#include "bench/p2p/pump.h"
#include "plugin/abi/nccl_abi.h"
#include "topo/base/alloc.h"

#define PAGE       4096
#define LOOK_EVERY 4096 /* empty polls between looks at the clock and the control connection */

double mn_p2p_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static double cpu_now(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static enum mn_err failed(const struct mn_p2p_pump *pump, const char *call, int result,
                          struct mn_diag *diag)
{
    return mn_fail(diag, MN_ERR_FAILED, "%s: the plugin's %s returned %s%s%s", pump->ctl->peer,
                   call, mn_nccl_result_name(result), pump->log[0] ? "; it said: " : "", pump->log);
}

/* A watch over a loop: bounded waiting without progress, and a look whether the peer still lives.
 */
struct watch {
    const struct mn_p2p_pump *pump;
    const char *what;
    double since;
    unsigned idle;
};

static enum mn_err idle(struct watch *w, struct mn_diag *diag)
{
    sched_yield(); /* as NCCL's progress thread does when nothing progressed */
    if (++w->idle % LOOK_EVERY)
        return MN_OK;
    double now = mn_p2p_now();
    if (w->idle == LOOK_EVERY || w->since == 0)
        w->since = now;
    if (now - w->since > w->pump->timeout_ms / 1000.0)
        return mn_fail(diag, MN_ERR_TIMEOUT, "%s: nothing moved for %u s while %s",
                       w->pump->ctl->peer, w->pump->timeout_ms / 1000, w->what);
    if (mn_ctl_gone(w->pump->ctl))
        return mn_fail(diag, MN_ERR_PEER_DEAD, "%s: its process ended while %s", w->pump->ctl->peer,
                       w->what);
    return MN_OK;
}

static void on_log(void *ctx, int level, const char *line)
{
    struct mn_p2p_pump *pump = ctx;
    if (level == NCCL_LOG_WARN)
        mn_strlcpy(pump->log, line, sizeof pump->log);
}

enum mn_err mn_p2p_open(struct mn_p2p_pump *pump, struct mn_diag *diag)
{
    size_t n = (size_t)pump->connections;
    struct rlimit files;
    int ndev = 0;

    /* Every connection takes several sockets on each side. */
    if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    pump->listens = mn_zalloc(n * sizeof(void *));
    pump->sends = mn_zalloc(n * sizeof(void *));
    pump->recvs = mn_zalloc(n * sizeof(void *));
    pump->handles = mn_zalloc(n * MN_HANDLE_SIZE);
    pump->peer_handles = mn_zalloc(n * MN_HANDLE_SIZE);
    for (int i = 0; i < 2; i++)
        pump->mhs[i] = mn_zalloc(n * sizeof(void *));
    mn_plugin_set_log(pump->plugin, on_log, pump);
    int result = mn_plugin_init(pump->plugin);
    if (result)
        return failed(pump, "init", result, diag);
    result = mn_plugin_devices(pump->plugin, &ndev);
    if (result || pump->device >= ndev)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "the plugin offers %d devices, number %d was asked for%s%s", ndev,
                       pump->device, pump->log[0] ? "; it said: " : "", pump->log);
    for (int i = 0; i < pump->connections && !result; i++)
        result = mn_plugin_listen(pump->plugin, pump->device, pump->handles + i * MN_HANDLE_SIZE,
                                  &pump->listens[i]);
    return result ? failed(pump, "listen", result, diag) : MN_OK;
}

enum mn_err mn_p2p_connect(struct mn_p2p_pump *pump, struct mn_diag *diag)
{
    struct watch w = {.pump = pump, .what = "connecting through the plugin"};
    int open = 0;

    while (open < 2 * pump->connections) {
        int before = open;
        for (int i = 0; i < pump->connections; i++) {
            int result;
            if (!pump->sends[i]) {
                result =
                    mn_plugin_connect(pump->plugin, pump->device,
                                      pump->peer_handles + i * MN_HANDLE_SIZE, &pump->sends[i]);
                if (result)
                    return failed(pump, "connect", result, diag);
                open += pump->sends[i] != NULL;
            }
            if (!pump->recvs[i]) {
                result = mn_plugin_accept(pump->plugin, pump->listens[i], &pump->recvs[i]);
                if (result)
                    return failed(pump, "accept", result, diag);
                open += pump->recvs[i] != NULL;
            }
        }
        enum mn_err err = open == before ? idle(&w, diag) : MN_OK;
        if (err)
            return err;
    }
    for (int i = 0; i < pump->connections; i++) {
        mn_plugin_close_listen(pump->plugin, pump->listens[i]);
        pump->listens[i] = NULL;
    }
    return MN_OK;
}

enum mn_err mn_p2p_buffers(struct mn_p2p_pump *pump, size_t largest, size_t memory,
                           struct mn_diag *diag)
{
    size_t slots = (size_t)pump->outstanding * (size_t)pump->connections;
    size_t one = (largest + PAGE - 1) / PAGE * PAGE + PAGE;
    /* Half of what is free: the other end may be a process of this host. */
    size_t most = mn_available_memory() / 2;

    if (2 * one > most)
        return mn_fail(diag, MN_ERR_FAILED,
                       "messages of %zu bytes need buffers of %zu bytes, this host can spare %zu; "
                       "leave out the largest of --sizes",
                       largest, 2 * one, most);
    if (memory > most)
        memory = most;
    if (slots * one > memory / 2)
        slots = memory / 2 / one ? memory / 2 / one : 1;
    pump->area_size = slots * one;
    for (int i = 0; i < 2; i++) {
        void *area =
            mmap(NULL, pump->area_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (area == MAP_FAILED)
            return mn_fail_errno(diag, "%zu bytes for message buffers (see --memory)",
                                 pump->area_size);
        memset(area, 0x5a, pump->area_size); /* real pages, not the shared zero page */
        pump->area[i] = area;
        for (int c = 0; c < pump->connections; c++) {
            void *comm = i ? pump->recvs[c] : pump->sends[c];
            int result = mn_plugin_reg_mr(pump->plugin, comm, area, pump->area_size, NCCL_PTR_HOST,
                                          &pump->mhs[i][c]);
            if (result)
                return failed(pump, "regMr", result, diag);
        }
    }
    return MN_OK;
}

void mn_p2p_close(struct mn_p2p_pump *pump)
{
    for (int c = 0; c < pump->connections && pump->sends; c++) {
        for (int i = 0; i < 2; i++) {
            void *comm = i ? pump->recvs[c] : pump->sends[c];
            if (comm && pump->area[i])
                mn_plugin_dereg_mr(pump->plugin, comm, pump->mhs[i][c]);
        }
        if (pump->sends[c])
            mn_plugin_close_send(pump->plugin, pump->sends[c]);
        if (pump->recvs[c])
            mn_plugin_close_recv(pump->plugin, pump->recvs[c]);
        if (pump->listens[c])
            mn_plugin_close_listen(pump->plugin, pump->listens[c]);
    }
    for (int i = 0; i < 2; i++) {
        if (pump->area[i])
            munmap(pump->area[i], pump->area_size);
        free(pump->mhs[i]);
    }
    free(pump->listens);
    free(pump->sends);
    free(pump->recvs);
    free(pump->handles);
    free(pump->peer_handles);
    mn_plugin_set_log(pump->plugin, NULL, NULL);
}

/* --- transfer --------------------------------------------------------------------------------- */

/* One way over one connection. */
struct flow {
    int connection, receiving;
    uint64_t posted, done;
    void *requests[MN_P2P_OUTSTANDING];
};

static uint8_t *slot(const struct mn_p2p_pump *pump, const struct flow *f, uint64_t number,
                     size_t size)
{
    size_t one = (size + PAGE - 1) / PAGE * PAGE + (size ? 0 : PAGE);
    size_t slots = pump->area_size / one;
    size_t at = ((size_t)f->connection * (size_t)pump->outstanding +
                 (size_t)(number % (uint64_t)pump->outstanding)) %
                slots;
    return pump->area[f->receiving] + at * one;
}

/* Every eight bytes tell where they belong: connection, message and offset. */
static uint64_t pattern(int connection, uint64_t number, size_t offset)
{
    uint64_t x = ((uint64_t)connection << 48) ^ (number << 24) ^ offset ^ 0x9e3779b97f4a7c15;
    return x * 0xd6e8feb86659fd93;
}

static void fill(uint8_t *data, size_t size, int connection, uint64_t number)
{
    for (size_t at = 0; at < size; at += 8) {
        uint64_t word = pattern(connection, number, at);
        memcpy(data + at, &word, size - at < 8 ? size - at : 8);
    }
}

static int right(const uint8_t *data, size_t size, int connection, uint64_t number)
{
    for (size_t at = 0; at < size; at += 8) {
        uint64_t word = pattern(connection, number, at);
        if (memcmp(data + at, &word, size - at < 8 ? size - at : 8) != 0)
            return 0;
    }
    return 1;
}

static int post(struct mn_p2p_pump *pump, struct flow *f, size_t size, int check)
{
    void **request = &f->requests[f->posted % (uint64_t)pump->outstanding];
    void *data = slot(pump, f, f->posted, size);
    void *mh = pump->mhs[f->receiving][f->connection];
    int tag = 0, result;

    if (f->receiving) {
        result = mn_plugin_irecv(pump->plugin, pump->recvs[f->connection], 1, &data, &size, &tag,
                                 &mh, request);
    } else {
        if (check)
            fill(data, size, f->connection, f->posted);
        result =
            mn_plugin_isend(pump->plugin, pump->sends[f->connection], data, size, tag, mh, request);
    }
    f->posted += !result && *request;
    return result;
}

/* Posts what may be posted, tests the oldest; *moved counts completions. */
static enum mn_err turn(struct mn_p2p_pump *pump, struct flow *f, size_t size, uint64_t count,
                        int window, int check, struct mn_p2p_seen *seen, int *moved,
                        struct mn_diag *diag)
{
    int done = 0, sizes[MN_HOST_MAX_RECVS] = {0};

    while (f->posted < count && f->posted - f->done < (uint64_t)window) {
        uint64_t before = f->posted;
        int result = post(pump, f, size, check);
        if (result)
            return failed(pump, f->receiving ? "irecv" : "isend", result, diag);
        if (f->posted == before)
            break;
    }
    if (f->done == f->posted)
        return MN_OK;
    int result = mn_plugin_test(pump->plugin, f->requests[f->done % (uint64_t)pump->outstanding],
                                &done, sizes);
    if (result)
        return failed(pump, "test", result, diag);
    if (!done)
        return MN_OK;
    if (f->receiving) {
        seen->messages++;
        seen->bytes += (uint64_t)sizes[0];
        if ((size_t)sizes[0] != size ||
            (check && !right(slot(pump, f, f->done, size), size, f->connection, f->done)))
            seen->wrong++;
    }
    f->done++;
    *moved = 1;
    return MN_OK;
}

/* When the buffers do not hold all outstanding messages apart, slots are shared, between
 * connections too: harmless for speed, not for a check, which then keeps one message under way each
 * direction. */
static int slots_shared(const struct mn_p2p_pump *pump, size_t size)
{
    size_t one = (size + PAGE - 1) / PAGE * PAGE + (size ? 0 : PAGE);

    return pump->area_size / one < (size_t)pump->connections * (size_t)pump->outstanding;
}

/* Whether a flow before this one still uses the same area. */
static int must_wait(const struct flow *flows, int i, uint64_t count)
{
    for (int j = 0; j < i; j++)
        if (flows[j].receiving == flows[i].receiving && flows[j].done < count)
            return 1;
    return 0;
}

enum mn_err mn_p2p_transfer(struct mn_p2p_pump *pump, size_t size, uint64_t count, int ways,
                            int check, struct mn_p2p_seen *seen, struct mn_diag *diag)
{
    struct watch w = {.pump = pump, .what = "moving messages"};
    struct flow *flows = mn_zalloc(2 * (size_t)pump->connections * sizeof *flows);
    int n = 0, alone = check && slots_shared(pump, size);
    int window = alone ? 1 : pump->outstanding;
    enum mn_err err = MN_OK;

    for (int c = 0; c < pump->connections; c++)
        for (int receiving = 0; receiving < 2; receiving++)
            if (ways & 1 << receiving)
                flows[n++] = (struct flow){.connection = c, .receiving = receiving};
    memset(seen, 0, sizeof *seen);
    double start = mn_p2p_now(), cpu = cpu_now();
    for (int left = n; left && !err;) {
        int moved = 0;
        for (int i = 0; i < n && !err; i++) {
            if (flows[i].done == count || (alone && must_wait(flows, i, count)))
                continue;
            err = turn(pump, &flows[i], size, count, window, check, seen, &moved, diag);
            left -= flows[i].done == count;
        }
        if (moved)
            w.idle = 0;
        else if (!err)
            err = idle(&w, diag);
    }
    seen->seconds = mn_p2p_now() - start;
    seen->cpu_seconds = cpu_now() - cpu;
    free(flows);
    return err;
}

/* --- ping-pong -------------------------------------------------------------------------------- */

static enum mn_err finish(struct mn_p2p_pump *pump, void *request, struct watch *w,
                          struct mn_diag *diag)
{
    int done = 0, sizes[MN_HOST_MAX_RECVS] = {0};

    for (w->idle = 0;;) {
        int result = mn_plugin_test(pump->plugin, request, &done, sizes);
        if (result)
            return failed(pump, "test", result, diag);
        if (done)
            return MN_OK;
        enum mn_err err = idle(w, diag);
        if (err)
            return err;
    }
}

static enum mn_err start_send(struct mn_p2p_pump *pump, size_t size, void **request,
                              struct watch *w, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    /* The previous one is asked after only now: its completion is not part of the trip. */
    if (*request)
        err = finish(pump, *request, w, diag);
    *request = NULL;
    for (w->idle = 0; !err && !*request;) {
        int result = mn_plugin_isend(pump->plugin, pump->sends[0], pump->area[0], size, 0,
                                     pump->mhs[0][0], request);
        if (result)
            return failed(pump, "isend", result, diag);
        if (!*request)
            err = idle(w, diag);
    }
    return err;
}

/* Receives are posted ahead, as NCCL's proxies do with the steps of a connection: announcing one is
 * not part of the trip either. */
#define AHEAD 8

struct ahead {
    void *requests[AHEAD];
    uint64_t posted;
};

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
            return failed(pump, "irecv", result, diag);
        if (!*request)
            break;
        ahead->posted++;
    }
    return MN_OK;
}

static enum mn_err take_next(struct mn_p2p_pump *pump, size_t size, struct ahead *ahead,
                             uint64_t done, uint64_t count, struct watch *w, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (w->idle = 0; !err && ahead->posted == done;) {
        err = post_ahead(pump, size, ahead, done, count, diag);
        if (!err && ahead->posted == done)
            err = idle(w, diag);
    }
    return err ? err : finish(pump, ahead->requests[done % AHEAD], w, diag);
}

enum mn_err mn_p2p_pingpong(struct mn_p2p_pump *pump, size_t size, uint64_t count, int first,
                            float *rtts, struct mn_diag *diag)
{
    struct watch w = {.pump = pump, .what = "playing ping-pong"};
    struct ahead ahead = {.posted = 0};
    void *sending = NULL;
    enum mn_err err = post_ahead(pump, size, &ahead, 0, count, diag);

    for (uint64_t i = 0; i < count && !err; i++) {
        double start = rtts ? mn_p2p_now() : 0;
        if (first)
            err = start_send(pump, size, &sending, &w, diag);
        if (!err)
            err = take_next(pump, size, &ahead, i, count, &w, diag);
        if (!err && !first)
            err = start_send(pump, size, &sending, &w, diag);
        if (rtts)
            rtts[i] = (float)((mn_p2p_now() - start) * 1e6);
        if (!err)
            err = post_ahead(pump, size, &ahead, i + 1, count, diag);
    }
    return !err && sending ? finish(pump, sending, &w, diag) : err;
}
