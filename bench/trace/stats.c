#include <stdlib.h>
#include <string.h>

#include "bench/stats.h"
#include "bench/trace/read.h"
#include "topo/base/alloc.h"

/* What a request is of, by its number less one. */
struct request {
    uint32_t comm;
    uint8_t op;
};

struct walk {
    struct mn_trace_stats *stats;
    struct request *requests;
    size_t n_requests;
    uint32_t *under_way;            /* by comm */
    uint32_t *took[MN_TRACE_N_OPS]; /* ns */
    size_t n_took[MN_TRACE_N_OPS];
};

static int bits_of(uint64_t size)
{
    int bits = size ? 64 - __builtin_clzll(size) : 0;
    return bits < MN_TRACE_SIZES ? bits : MN_TRACE_SIZES - 1;
}

static struct mn_trace_comm *comm_of(struct walk *w, uint32_t number)
{
    return number && number <= w->stats->n_comms ? &w->stats->comms[number - 1] : NULL;
}

static void made(struct walk *w, const struct mn_trace_record *r)
{
    w->stats->comms[w->stats->n_comms++] = (struct mn_trace_comm){.op = (enum mn_trace_op)r->op,
                                                                  .smallest = UINT64_MAX,
                                                                  .first_ns = r->start_ns};
}

static void posted(struct walk *w, const struct mn_trace_event *e)
{
    struct mn_trace_comm *comm = comm_of(w, e->comm);

    w->requests[w->n_requests++] = (struct request){e->comm, e->record->op};
    if (!comm || e->record->op == MN_TRACE_IFLUSH)
        return;
    if (++w->under_way[e->comm - 1] > comm->outstanding)
        comm->outstanding = w->under_way[e->comm - 1];
    if (e->record->count > comm->group)
        comm->group = e->record->count;
}

static void count(struct mn_trace_comm *comm, uint64_t size)
{
    comm->messages++;
    comm->bytes += size;
    comm->smallest = size < comm->smallest ? size : comm->smallest;
    comm->largest = size > comm->largest ? size : comm->largest;
}

static void done(struct walk *w, const struct mn_trace_event *e)
{
    if (!e->request || e->request > w->n_requests)
        return;
    const struct request *request = &w->requests[e->request - 1];
    struct mn_trace_comm *comm = comm_of(w, request->comm);
    if (!comm || request->op == MN_TRACE_IFLUSH)
        return;
    w->under_way[request->comm - 1] -= w->under_way[request->comm - 1] > 0;
    if (request->op == MN_TRACE_IRECV && !e->record->result) {
        count(comm, e->record->size);
        w->stats->receives[bits_of(e->record->size)]++;
    }
}

static void visit(void *ctx, const struct mn_trace_event *e)
{
    const struct mn_trace_record *r = e->record;
    struct walk *w = ctx;
    struct mn_trace_comm *comm = comm_of(w, e->comm);
    struct mn_trace_calls *calls = &w->stats->calls[r->op];

    if (r->op == MN_TRACE_LISTEN || r->op == MN_TRACE_CONNECT || r->op == MN_TRACE_ACCEPT) {
        if (e->comm)
            made(w, r);
    } else if (e->request &&
               (r->op == MN_TRACE_ISEND || r->op == MN_TRACE_IRECV || r->op == MN_TRACE_IFLUSH)) {
        posted(w, e);
    } else if (r->op == MN_TRACE_DONE) {
        done(w, e);
    }
    if (r->op == MN_TRACE_ISEND && comm && !r->result) {
        count(comm, r->size);
        w->stats->sends[bits_of(r->size)]++;
    }
    if (comm)
        comm->last_ns = r->start_ns + r->took_ns;
    if (comm && (r->op == MN_TRACE_ISEND || r->op == MN_TRACE_IRECV || r->op == MN_TRACE_PART) &&
        r->size > comm->posted)
        comm->posted = r->size;
    if (r->op == MN_TRACE_PART)
        return;
    calls->calls++;
    calls->failed += r->result != 0;
    w->stats->empty += r->empty;
    w->took[r->op][w->n_took[r->op]++] = r->took_ns;
    if (r->thread > w->stats->threads)
        w->stats->threads = r->thread;
    if (r->start_ns + r->took_ns > w->stats->last_ns)
        w->stats->last_ns = r->start_ns + r->took_ns;
}

/* Room for as many of each as there are records of the kind. */
static void make_room(struct walk *w, const struct mn_trace *trace)
{
    size_t of[MN_TRACE_N_OPS] = {0};

    for (size_t i = 0; i < trace->n; i++)
        of[trace->records[i].op]++;
    for (int op = 0; op < MN_TRACE_N_OPS; op++)
        w->took[op] = mn_zalloc(of[op] * sizeof *w->took[op]);
    w->requests = mn_zalloc((of[MN_TRACE_ISEND] + of[MN_TRACE_IRECV] + of[MN_TRACE_IFLUSH]) *
                            sizeof *w->requests);
    size_t comms = of[MN_TRACE_LISTEN] + of[MN_TRACE_CONNECT] + of[MN_TRACE_ACCEPT];
    w->stats->comms = mn_zalloc(comms * sizeof *w->stats->comms);
    w->under_way = mn_zalloc(comms * sizeof *w->under_way);
}

/* The value of that rank among n, by two counts: of upper halves, then of lower ones. */
static uint32_t value_of_rank(const uint32_t *values, size_t n, size_t rank)
{
    size_t *counts = mn_zalloc(65536 * sizeof *counts);
    uint32_t upper = 0, lower = 0;

    for (size_t i = 0; i < n; i++)
        counts[values[i] >> 16]++;
    for (; rank >= counts[upper]; upper++)
        rank -= counts[upper];
    memset(counts, 0, 65536 * sizeof *counts);
    for (size_t i = 0; i < n; i++)
        if (values[i] >> 16 == upper)
            counts[values[i] & 0xffff]++;
    for (; rank >= counts[lower]; lower++)
        rank -= counts[lower];
    free(counts);
    return upper << 16 | lower;
}

static double took_us(const struct walk *w, int op, double percent)
{
    size_t n = w->n_took[op];

    return n ? value_of_rank(w->took[op], n, mn_stats_rank(n, percent)) / 1e3 : 0;
}

void mn_trace_stats(const struct mn_trace *trace, struct mn_trace_stats *stats)
{
    struct walk w = {.stats = stats};

    *stats = (struct mn_trace_stats){.comms = NULL};
    make_room(&w, trace);
    mn_trace_walk(trace, visit, &w);
    for (int op = 0; op < MN_TRACE_N_OPS; op++) {
        stats->calls[op].p50_us = took_us(&w, op, 50);
        stats->calls[op].p99_us = took_us(&w, op, 99);
        stats->calls[op].max_us = took_us(&w, op, 100);
        free(w.took[op]);
    }
    for (size_t i = 0; i < stats->n_comms; i++)
        if (!stats->comms[i].messages)
            stats->comms[i].smallest = 0;
    free(w.requests);
    free(w.under_way);
}

void mn_trace_stats_free(struct mn_trace_stats *stats)
{
    free(stats->comms);
    stats->comms = NULL;
}
