#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bench/p2p/pump.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

/* One way over one connection, in steps: a message when sending, a request of several messages when
 * receiving. The messages of a request have the tags 0, 1, … */
struct flow {
    int connection, receiving;
    uint64_t steps, posted, done;
    void *flush;                  /* of the oldest step, which has arrived */
    int sizes[MN_HOST_MAX_RECVS]; /* of that step */
    void *requests[MN_P2P_OUTSTANDING * MN_HOST_MAX_RECVS];
};

/* The flows of a thread: both ways of its connections. */
struct lane {
    struct mn_p2p_mover *mover;
    uint8_t *staging; /* a message, where the buffers cannot be touched */
    pthread_t thread;
    struct flow *flows;
    int n, started;
    struct mn_p2p_seen seen;
    struct mn_diag diag;
    enum mn_err err;
};

struct mn_p2p_mover {
    struct mn_p2p_pump *pump;
    size_t size;
    uint64_t count;
    int check, alone, n_lanes;
    struct flow *flows;
    struct lane *lanes;
    atomic_int stop; /* a thread failed: the others end, too */
};

static size_t slot_size(size_t size)
{
    return (size + MN_P2P_PAGE - 1) / MN_P2P_PAGE * MN_P2P_PAGE + (size ? 0 : MN_P2P_PAGE);
}

static uint8_t *slot(const struct mn_p2p_pump *pump, const struct flow *f, uint64_t number,
                     size_t size)
{
    size_t slots = pump->area_size / slot_size(size);
    size_t each = (size_t)pump->window * (size_t)pump->group;
    size_t at = ((size_t)f->connection * each + (size_t)(number % each)) % slots;

    return pump->area[f->receiving] + at * slot_size(size);
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

/* How many messages a step has. */
static int step_messages(const struct mn_p2p_mover *m, const struct flow *f, uint64_t step)
{
    uint64_t group = (uint64_t)m->pump->group;

    if (!f->receiving)
        return 1;
    return (int)(m->count - step * group < group ? m->count - step * group : group);
}

static void **request_of(const struct mn_p2p_mover *m, struct flow *f, uint64_t step)
{
    size_t room = (size_t)m->pump->window * (size_t)(f->receiving ? 1 : m->pump->group);

    return &f->requests[step % room];
}

static int post_receive(struct mn_p2p_mover *m, struct flow *f)
{
    struct mn_p2p_pump *pump = m->pump;
    void *data[MN_HOST_MAX_RECVS], *mhs[MN_HOST_MAX_RECVS];
    size_t sizes[MN_HOST_MAX_RECVS];
    int tags[MN_HOST_MAX_RECVS], n = step_messages(m, f, f->posted);

    for (int i = 0; i < n; i++) {
        data[i] = slot(pump, f, f->posted * (uint64_t)pump->group + (uint64_t)i, m->size);
        sizes[i] = m->size;
        tags[i] = i;
        mhs[i] = pump->mhs[1][f->connection];
    }
    return mn_plugin_irecv(pump->plugin, pump->recvs[f->connection], n, data, sizes, tags, mhs,
                           request_of(m, f, f->posted));
}

/* Where the process can write a message, or read it, that lies in data. */
static uint8_t *touchable(const struct lane *lane, uint8_t *data)
{
    return lane->staging ? lane->staging : data;
}

static int post_send(struct lane *lane, struct flow *f, enum mn_err *err)
{
    struct mn_p2p_mover *m = lane->mover;
    struct mn_p2p_pump *pump = m->pump;
    uint8_t *data = slot(pump, f, f->posted, m->size);

    if (m->check) {
        fill(touchable(lane, data), m->size, f->connection, f->posted);
        if (lane->staging)
            *err = mn_area_copy(&pump->memory, data, lane->staging, m->size, &lane->diag);
    }
    return *err ? 0
                : mn_plugin_isend(pump->plugin, pump->sends[f->connection], data, m->size,
                                  (int)(f->posted % (uint64_t)pump->group),
                                  pump->mhs[0][f->connection], request_of(m, f, f->posted));
}

/* As many steps as may be under way, or as the plugin takes now. */
static enum mn_err post(struct lane *lane, struct flow *f)
{
    struct mn_p2p_mover *m = lane->mover;
    enum mn_err err = MN_OK;
    uint64_t window = (uint64_t)(m->alone ? 1 : m->pump->window);

    if (!f->receiving)
        window *= (uint64_t)m->pump->group;
    while (f->posted < f->steps && f->posted - f->done < window) {
        void **request = request_of(m, f, f->posted);
        *request = NULL;
        int result = f->receiving ? post_receive(m, f) : post_send(lane, f, &err);
        if (err)
            return err;
        if (result)
            return mn_p2p_failed(m->pump, f->receiving ? "irecv" : "isend", result, &lane->diag);
        if (!*request)
            break;
        f->posted++;
    }
    return MN_OK;
}

static enum mn_err judge(struct lane *lane, struct flow *f)
{
    struct mn_p2p_mover *m = lane->mover;
    int n = step_messages(m, f, f->done);
    enum mn_err err = MN_OK;

    for (int i = 0; i < n && !err; i++) {
        uint64_t number = f->done * (uint64_t)m->pump->group + (uint64_t)i;
        uint8_t *data = slot(m->pump, f, number, m->size);
        lane->seen.messages++;
        lane->seen.bytes += (uint64_t)f->sizes[i];
        if (m->check && lane->staging)
            err = mn_area_copy(&m->pump->memory, lane->staging, data, m->size, &lane->diag);
        if ((size_t)f->sizes[i] != m->size ||
            (m->check && !right(touchable(lane, data), m->size, f->connection, number)))
            lane->seen.wrong++;
    }
    return err;
}

/* Starts the flush of what arrived; leaves f->flush NULL when the plugin has nothing to do. */
static enum mn_err start_flush(struct mn_p2p_mover *m, struct flow *f, struct mn_diag *diag)
{
    void *data[MN_HOST_MAX_RECVS], *mhs[MN_HOST_MAX_RECVS];
    int n = step_messages(m, f, f->done), result;

    for (int i = 0; i < n; i++) {
        data[i] = slot(m->pump, f, f->done * (uint64_t)m->pump->group + (uint64_t)i, m->size);
        mhs[i] = m->pump->mhs[1][f->connection];
    }
    f->flush = NULL;
    result = mn_plugin_iflush(m->pump->plugin, m->pump->recvs[f->connection], n, data, f->sizes,
                              mhs, &f->flush);
    return result ? mn_p2p_failed(m->pump, "iflush", result, diag) : MN_OK;
}

/* Posts what may be posted, tests the oldest; *moved counts completions. */
static enum mn_err turn(struct lane *lane, struct flow *f, int *moved)
{
    struct mn_p2p_mover *m = lane->mover;
    int done = 0, unused[MN_HOST_MAX_RECVS], flushed = f->flush != NULL;
    enum mn_err err = post(lane, f);

    if (err || f->done == f->posted)
        return err;
    int result = mn_plugin_test(m->pump->plugin, flushed ? f->flush : *request_of(m, f, f->done),
                                &done, flushed ? unused : f->sizes);
    if (result)
        return mn_p2p_failed(m->pump, "test", result, &lane->diag);
    if (!done)
        return MN_OK;
    f->flush = NULL;
    if (f->receiving && !flushed && m->pump->flush)
        err = start_flush(m, f, &lane->diag);
    if (f->receiving && !f->flush && !err)
        err = judge(lane, f);
    f->done += !f->flush;
    ++*moved;
    return err;
}

/* Whether a flow before this one still uses the same area. */
static int must_wait(const struct lane *lane, int i)
{
    for (int j = 0; j < i; j++)
        if (lane->flows[j].receiving == lane->flows[i].receiving &&
            lane->flows[j].done < lane->flows[j].steps)
            return 1;
    return 0;
}

static void *drive(void *arg)
{
    struct lane *lane = arg;
    struct mn_p2p_mover *m = lane->mover;
    struct mn_p2p_watch w = {.pump = m->pump, .what = "moving messages"};

    for (int left = lane->n; left && !lane->err && !atomic_load(&m->stop);) {
        int moved = 0;
        for (int i = 0; i < lane->n && !lane->err; i++) {
            struct flow *f = &lane->flows[i];
            if (f->done == f->steps || (m->alone && must_wait(lane, i)))
                continue;
            lane->err = turn(lane, f, &moved);
            left -= f->done == f->steps;
        }
        if (moved)
            w.idle = 0;
        else if (!lane->err)
            lane->err = mn_p2p_idle(&w, &lane->diag);
        if (!lane->err)
            lane->err = mn_p2p_interrupted(m->pump, &lane->diag);
    }
    if (lane->err)
        atomic_store(&m->stop, 1);
    return NULL;
}

/* When the buffers do not hold all outstanding messages apart, slots are shared, between
 * connections too: harmless for speed, not for a check, which then keeps one request under way each
 * direction. */
static int slots_shared(const struct mn_p2p_pump *pump, size_t size)
{
    size_t wanted = (size_t)pump->connections * (size_t)pump->window * (size_t)pump->group;

    return pump->area_size / slot_size(size) < wanted;
}

static void add_flows(struct mn_p2p_mover *m, struct lane *lane, int connection, int ways)
{
    uint64_t group = (uint64_t)m->pump->group;

    for (int receiving = 0; receiving < 2; receiving++)
        if (ways & 1 << receiving)
            lane->flows[lane->n++] =
                (struct flow){.connection = connection,
                              .receiving = receiving,
                              .steps = receiving ? (m->count + group - 1) / group : m->count};
}

void mn_p2p_cancel(struct mn_p2p_mover *m)
{
    for (int l = 0; l < m->n_lanes; l++)
        free(m->lanes[l].staging);
    free(m->flows);
    free(m->lanes);
    free(m);
}

struct mn_p2p_mover *mn_p2p_begin(struct mn_p2p_pump *pump, size_t size, uint64_t count, int ways,
                                  int check, struct mn_diag *diag)
{
    struct mn_p2p_mover *m = mn_zalloc(sizeof *m);
    size_t connections = (size_t)pump->connections;
    enum mn_err err = MN_OK;

    *m = (struct mn_p2p_mover){.pump = pump, .size = size, .count = count, .check = check};
    m->alone = check && slots_shared(pump, size);
    m->n_lanes = m->alone                            ? 1
                 : pump->threads < pump->connections ? pump->threads
                                                     : pump->connections;
    m->flows = mn_zalloc(2 * connections * sizeof *m->flows);
    m->lanes = mn_zalloc((size_t)m->n_lanes * sizeof *m->lanes);
    struct flow *next = m->flows;
    for (int l = 0; l < m->n_lanes; l++) {
        struct lane *lane = &m->lanes[l];
        lane->mover = m;
        if (check && mn_memory_is_apart(&pump->memory))
            lane->staging = mn_zalloc(size + 8);
        lane->flows = next;
        for (int c = l; c < pump->connections; c += m->n_lanes)
            add_flows(m, lane, c, ways);
        next += lane->n;
        for (int i = 0; i < lane->n && !err; i++)
            if (lane->flows[i].receiving && !m->alone)
                err = post(lane, &lane->flows[i]);
        if (err && diag && lane->diag.code)
            *diag = lane->diag;
    }
    if (!err)
        return m;
    mn_p2p_cancel(m);
    return NULL;
}

enum mn_err mn_p2p_finish(struct mn_p2p_mover *m, struct mn_p2p_seen *seen, struct mn_diag *diag)
{
    double start = mn_seconds(), cpu = mn_p2p_cpu_now();
    enum mn_err err = MN_OK;

    memset(seen, 0, sizeof *seen);
    for (int l = 1; l < m->n_lanes && !err; l++) {
        int no = pthread_create(&m->lanes[l].thread, NULL, drive, &m->lanes[l]);
        m->lanes[l].started = !no;
        if (no)
            err = mn_fail(diag, MN_ERR_FAILED, "no thread can be started: %s (see --threads)",
                          strerror(no));
    }
    if (err)
        atomic_store(&m->stop, 1);
    drive(&m->lanes[0]);
    for (int l = 0; l < m->n_lanes; l++) {
        struct lane *lane = &m->lanes[l];
        if (lane->started)
            pthread_join(lane->thread, NULL);
        seen->messages += lane->seen.messages;
        seen->bytes += lane->seen.bytes;
        seen->wrong += lane->seen.wrong;
        if (lane->err && !err) {
            err = lane->err;
            if (diag)
                *diag = lane->diag;
        }
    }
    seen->seconds = mn_seconds() - start;
    seen->cpu_seconds = mn_p2p_cpu_now() - cpu;
    mn_p2p_cancel(m);
    return err;
}

enum mn_err mn_p2p_transfer(struct mn_p2p_pump *pump, size_t size, uint64_t count, int ways,
                            int check, struct mn_p2p_seen *seen, struct mn_diag *diag)
{
    struct mn_p2p_mover *m = mn_p2p_begin(pump, size, count, ways, check, diag);

    return m ? mn_p2p_finish(m, seen, diag) : diag->code;
}
