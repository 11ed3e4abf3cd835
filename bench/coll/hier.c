/* Hierarchical by host: sums within each host at its first rank, a ring among the first ranks, and
 * within the host back to all. Only the ring crosses cables. */
#include <stdlib.h>

#include "bench/coll/lane.h"

#define SLOTS 32 /* chunks under way from the host's others */

static int host_of(const struct mn_coll_job *job, int rank)
{
    return job->hosts ? job->hosts[rank] : rank;
}

static int first_of(const struct mn_coll_job *job, int rank)
{
    int r = 0;

    while (host_of(job, r) != host_of(job, rank))
        r++;
    return r;
}

static void ring_of_firsts(struct mn_flow *f, const struct mn_coll_job *job, int *firsts)
{
    struct mn_lane lane = {.ranks = firsts, .way = 1, .count = job->count};

    for (int r = 0; r < job->nranks; r++) {
        if (first_of(job, r) != r)
            continue;
        if (r == job->rank)
            lane.place = lane.n;
        firsts[lane.n++] = r;
    }
    mn_lanes_stage(job, &lane, 1, 0);
    mn_lanes_allreduce(f, job, &lane, 1, MN_OUT);
}

static void sum_host(struct mn_flow *f, const struct mn_coll_job *job)
{
    size_t all = job->count * job->element, slot = 0;

    for (size_t at = 0; at < all; at += job->chunk) {
        size_t bytes = all - at < job->chunk ? all - at : job->chunk;
        mn_flow_copy(f, mn_at(MN_IN, at), mn_at(MN_OUT, at), bytes);
        for (int r = job->rank + 1; r < job->nranks; r++)
            if (host_of(job, r) == host_of(job, job->rank)) {
                struct mn_at came = mn_at(MN_TMP, slot++ % SLOTS * job->chunk);
                mn_flow_recv(f, r, came, bytes);
                mn_flow_reduce(f, came, mn_at(MN_OUT, at), bytes);
            }
    }
}

static void tell_host(struct mn_flow *f, const struct mn_coll_job *job)
{
    size_t all = job->count * job->element;

    for (size_t at = 0; at < all; at += job->chunk)
        for (int r = job->rank + 1; r < job->nranks; r++)
            if (host_of(job, r) == host_of(job, job->rank))
                mn_flow_send(f, r, mn_at(MN_OUT, at),
                             all - at < job->chunk ? all - at : job->chunk);
}

void mn_hier_allreduce(const struct mn_coll_job *job, struct mn_schedule *s)
{
    size_t all = job->count * job->element;
    int first = first_of(job, job->rank), *firsts = calloc((size_t)job->nranks, sizeof *firsts);
    struct mn_flow *f = mn_flow_new(MN_ALLREDUCE, job, s);

    if (!firsts)
        s->err = MN_ERR_NOMEM;
    if (f && firsts && first == job->rank) {
        sum_host(f, job);
        ring_of_firsts(f, job, firsts);
        tell_host(f, job);
    } else if (f && firsts) {
        mn_flow_send(f, first, mn_at(MN_IN, 0), all);
        mn_flow_recv(f, first, mn_at(MN_OUT, 0), all);
    }
    mn_flow_free(f);
    free(firsts);
}
