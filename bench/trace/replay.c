#include <stdlib.h>
#include <string.h>

#include "bench/trace/replay_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define LOOK_S 0.1 /* between looks at the group while only the clock is waited for */

/* The data of a message follows from its connection, its tag and its number among those of the tag:
 * both ends know it, in whatever order receives are posted. */
static uint64_t seed_of(struct line *line, int32_t tag)
{
    size_t i = 0;

    while (i < line->n_tags && line->tags[i].tag != tag)
        i++;
    if (i == line->n_tags)
        *(struct tag *)mn_grow((void **)&line->tags, &line->n_tags, sizeof *line->tags) =
            (struct tag){tag, 0};
    return line->hash ^ (uint64_t)(uint32_t)tag * 0x9e3779b97f4a7c15u ^
           ++line->tags[i].count * 0xd1342543de82ef95u;
}

static uint64_t word(uint64_t seed, size_t at)
{
    uint64_t x = (seed + at) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 31;
}

static void fill(uint8_t *data, size_t size, uint64_t seed)
{
    for (size_t at = 0; at < size; at += 8) {
        uint64_t w = word(seed, at);
        memcpy(data + at, &w, size - at < 8 ? size - at : 8);
    }
}

static int is_filled(const uint8_t *data, size_t size, uint64_t seed)
{
    for (size_t at = 0; at < size; at += 8) {
        uint64_t w = word(seed, at);
        if (memcmp(data + at, &w, size - at < 8 ? size - at : 8) != 0)
            return 0;
    }
    return 1;
}

/* A slot that no message is in; NULL: the trace has more at once than it says. */
static uint8_t *take_slot(struct line *line)
{
    for (size_t i = 0; i < line->n_slots; i++) {
        size_t at = line->next_slot++ % line->n_slots;
        if (line->busy[at])
            continue;
        line->busy[at] = 1;
        return line->area + at * line->slot;
    }
    return NULL;
}

static void give_slot(struct line *line, const uint8_t *data)
{
    line->busy[(size_t)(data - line->area) / line->slot] = 0;
}

static int parts_of(const struct mn_trace_record *record)
{
    return record->op == MN_TRACE_IRECV && record->count > 1 ? record->count : 1;
}

static struct message *messages_of(struct asked *a)
{
    return a->more ? a->more : &a->one;
}

/* A request is over: checks what came. */
static void take_in(struct replay *r, struct asked *a, const int *sizes)
{
    struct line *line = &r->lines[a->line - 1];
    struct message *messages = messages_of(a);

    for (int i = 0; i < parts_of(a->record) && a->record->op != MN_TRACE_IFLUSH; i++) {
        if (a->record->op == MN_TRACE_IRECV) {
            size_t size = sizes[i] > 0 ? (size_t)sizes[i] : 0;
            r->report->received++;
            r->report->received_bytes += size;
            r->report->wrong +=
                size > line->slot || !is_filled(messages[i].data, size, messages[i].seed);
        }
        give_slot(line, messages[i].data);
    }
    free(a->more);
    *a = (struct asked){.record = NULL};
    r->idle = 0;
}

static enum mn_err test(struct replay *r, struct asked *a)
{
    int done = 0, sizes[MN_HOST_MAX_RECVS] = {0};
    enum mn_err err =
        mn_replay_called(r, "test", mn_plugin_test(r->plan->plugin, a->request, &done, sizes));

    if (!err && done)
        take_in(r, a, sizes);
    return err;
}

/* Offers a request to the plugin, which may not take it yet. */
static enum mn_err offer(struct replay *r, struct asked *a)
{
    struct mn_plugin *p = r->plan->plugin;
    struct line *line = &r->lines[a->line - 1];
    struct message *messages = messages_of(a);
    size_t sizes[MN_HOST_MAX_RECVS];
    int tags[MN_HOST_MAX_RECVS], one = 1, n = parts_of(a->record);
    void *mhs[MN_HOST_MAX_RECVS], *data[MN_HOST_MAX_RECVS];

    for (int i = 0; i < n; i++) {
        sizes[i] = (size_t)a->record[i].size;
        tags[i] = a->record[i].tag;
        data[i] = messages[i].data;
        mhs[i] = line->mh;
    }
    a->request = NULL;
    if (a->record->op == MN_TRACE_ISEND)
        return mn_replay_called(r, "isend",
                                mn_plugin_isend(p, line->comm, data[0], sizes[0], tags[0], line->mh,
                                                &a->request));
    if (a->record->op == MN_TRACE_IRECV)
        return mn_replay_called(r, "irecv",
                                mn_plugin_irecv(p, line->comm, n, data, sizes, tags, mhs,
                                                &a->request));
    enum mn_err err =
        mn_replay_called(r, "iflush",
                         mn_plugin_iflush(p, line->comm, 1, data, &one, mhs, &a->request));
    if (!err && !a->request)
        take_in(r, a, &one); /* nothing to wait for */
    return err;
}

/* Whatever is not over may be needed for what is waited for, here or by the other side. Requests of
 * a connection are offered in their order. */
static enum mn_err poll_all(struct replay *r)
{
    enum mn_err err = MN_OK;

    r->pass++;
    while (r->oldest < r->n_asked && !r->asked[r->oldest].record)
        r->oldest++;
    for (size_t i = r->oldest; i < r->n_asked && !err; i++) {
        struct asked *a = &r->asked[i];
        if (!a->record)
            continue;
        struct line *line = &r->lines[a->line - 1];
        if (!a->request && line->pass != r->pass) {
            err = offer(r, a);
            if (a->record && !a->request)
                line->pass = r->pass;
            else
                r->idle = 0;
        } else if (a->request) {
            err = test(r, a);
        }
    }
    return err ? err : mn_replay_idle(r);
}

/* Records of several threads are not quite in order: what began before the first is not waited for.
 */
static void wait_until(struct replay *r, uint64_t start_ns)
{
    double now = mn_seconds(), looked = now, after;

    if (r->began <= 0) {
        r->began = now;
        r->first_ns = r->last_ns = start_ns;
    }
    r->last_ns = start_ns > r->last_ns ? start_ns : r->last_ns;
    after = start_ns > r->first_ns ? (double)(start_ns - r->first_ns) / 1e9 : 0;
    for (; r->plan->timed && !r->err && now - r->began < after; now = mn_seconds()) {
        r->idle = 0; /* waiting for the clock is no standstill */
        r->err = poll_all(r);
        /* Which mn_replay_idle does only in a standstill. */
        if (!r->err && now - looked > LOOK_S) {
            r->err = mn_group_look(r->group, r->diag);
            looked = now;
        }
    }
}

static void prepare(struct replay *r, struct asked *a, const struct mn_trace_event *e)
{
    struct line *line = mn_replay_line(r, e->comm);
    const struct mn_trace_record *record = e->record;
    int n = parts_of(record);

    a->more = n > 1 ? mn_zalloc((size_t)n * sizeof *a->more) : NULL;
    struct message *messages = messages_of(a);
    for (int i = 0; i < n; i++) {
        int flush = record->op == MN_TRACE_IFLUSH;
        messages[i].data = flush ? line->area : take_slot(line);
        messages[i].seed = flush ? 0 : seed_of(line, record[i].tag);
        if (!messages[i].data) {
            r->err = mn_fail(r->diag, MN_ERR_CONFIG,
                             "connection %u of the trace has requests that never ended", e->comm);
            return;
        }
    }
    if (record->op == MN_TRACE_ISEND) {
        fill(messages->data, (size_t)record->size, messages->seed);
        r->report->sent++;
        r->report->sent_bytes += record->size;
    }
    a->line = e->comm;
    a->record = record;
}

/* Whether all parts of a request are there, and it fits its connection: a file may hold anything,
 * and the plugin writes where it is told to. */
static int is_whole(const struct replay *r, const struct line *line, const struct mn_trace_event *e)
{
    const struct mn_trace_record *record = e->record;
    size_t left = (size_t)(r->plan->trace->records + r->plan->trace->n - record);
    int n = parts_of(record), here = line && line->area, flush = record->op == MN_TRACE_IFLUSH;

    if (e->request != r->n_asked + 1 || (size_t)n > left || n > MN_HOST_MAX_RECVS)
        return 0;
    if (here && (line->op == MN_TRACE_CONNECT) != (record->op == MN_TRACE_ISEND))
        return 0;
    for (int i = 0; i < n; i++)
        if ((here && !flush && record[i].size > line->slot) ||
            (i && (record[i].op != MN_TRACE_PART || record[i].a != record->a ||
                   record[i].c != record->c)))
            return 0;
    return 1;
}

static void post(struct replay *r, const struct mn_trace_event *e)
{
    struct line *line = mn_replay_line(r, e->comm);
    int here = line && line->area;

    if (!is_whole(r, line, e)) {
        r->err =
            mn_fail(r->diag, MN_ERR_CONFIG, "request %u of the trace is not whole", e->request);
        return;
    }
    if (here)
        wait_until(r, e->record->start_ns);
    /* Only now: polling passes over what has no record for good. */
    struct asked *a = mn_grow((void **)&r->asked, &r->n_asked, sizeof *a);
    *a = (struct asked){.record = NULL};
    r->report->left_out += !here;
    if (here && !r->err)
        prepare(r, a, e);
    if (here && !r->err)
        r->err = poll_all(r);
}

static void play(void *ctx, const struct mn_trace_event *e)
{
    const struct mn_trace_record *record = e->record;
    struct replay *r = ctx;
    enum mn_trace_op op = (enum mn_trace_op)record->op;

    if (r->err || !e->request)
        return;
    if (op == MN_TRACE_ISEND || op == MN_TRACE_IRECV || op == MN_TRACE_IFLUSH) {
        post(r, e);
    } else if (op == MN_TRACE_DONE && e->request <= r->n_asked && !record->result) {
        struct asked *a = &r->asked[e->request - 1];
        if (a->record)
            wait_until(r, record->start_ns);
        while (a->record && !r->err)
            r->err = poll_all(r);
    }
}

enum mn_err mn_replay(struct mn_group *group, const struct mn_replay_plan *plan,
                      struct mn_replay_report *reports, struct mn_diag *diag)
{
    struct mn_replay_report own = {.sent = 0};
    struct replay r = {.group = group, .plan = plan, .report = &own, .diag = diag};

    enum mn_err err = mn_replay_connect(&r);
    if (!err)
        err = mn_group_barrier(group, diag);
    if (!err) {
        mn_trace_walk(plan->trace, play, &r);
        err = r.err;
    }
    /* What the recorded process did not wait for. */
    while (!err && r.oldest < r.n_asked)
        err = poll_all(&r);
    if (r.began > 0) {
        own.seconds = mn_seconds() - r.began;
        own.recorded_seconds = (double)(r.last_ns - r.first_ns) / 1e9;
    }
    if (!err)
        err = mn_group_allgather(group, &own, sizeof own, reports, diag);
    /* Before the others find their connections closed, and take that for the reason. */
    if (err)
        (void)mn_group_fail(group, err, diag);
    mn_replay_close(&r);
    return err;
}
