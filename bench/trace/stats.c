#include <stdlib.h>

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
    uint32_t *under_way; /* by comm */
    size_t n_under_way;
    float *took[MN_TRACE_N_OPS];
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
    struct mn_trace_comm *comm =
        mn_grow((void **)&w->stats->comms, &w->stats->n_comms, sizeof *comm);

    *comm = (struct mn_trace_comm){.op = (enum mn_trace_op)r->op,
                                   .smallest = UINT64_MAX,
                                   .first_ns = r->start_ns};
    (void)mn_grow((void **)&w->under_way, &w->n_under_way, sizeof *w->under_way);
}

static void posted(struct walk *w, const struct mn_trace_event *e)
{
    struct mn_trace_comm *comm = comm_of(w, e->comm);
    struct request *request = mn_grow((void **)&w->requests, &w->n_requests, sizeof *request);

    *request = (struct request){e->comm, e->record->op};
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
    *(float *)mn_grow((void **)&w->took[r->op], &w->n_took[r->op], sizeof(float)) =
        (float)r->took_ns / 1000;
    if (r->thread > w->stats->threads)
        w->stats->threads = r->thread;
    if (r->start_ns + r->took_ns > w->stats->last_ns)
        w->stats->last_ns = r->start_ns + r->took_ns;
}

void mn_trace_stats(const struct mn_trace *trace, struct mn_trace_stats *stats)
{
    struct walk w = {.stats = stats};

    *stats = (struct mn_trace_stats){.comms = NULL};
    mn_trace_walk(trace, visit, &w);
    for (int op = 0; op < MN_TRACE_N_OPS; op++) {
        size_t n = w.n_took[op];
        if (n) {
            mn_stats_sort(w.took[op], n);
            stats->calls[op].p50_us = mn_stats_percentile(w.took[op], n, 50);
            stats->calls[op].p99_us = mn_stats_percentile(w.took[op], n, 99);
            stats->calls[op].max_us = (double)w.took[op][n - 1];
        }
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
