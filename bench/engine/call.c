/* One collective as calls of NCCL. Those it has no call for in every release are groups of sends
 * and receives, as in nccl-tests. */
#include "bench/engine/engine_impl.h"

#define CALL(member, symbol, ...) (*call = #symbol, engine->nccl.member(__VA_ARGS__))

/* Elements that go to a peer or come from it, and where they lie. */
static size_t piece(const struct mn_engine_work *w, int peer, int sending, size_t *at)
{
    const struct mn_coll_job *job = w->job;
    int n = job->nranks, self = job->rank, from = sending ? self : peer;

    *at = 0;
    switch (w->collective) {
    case MN_GATHER:
        *at = sending ? 0 : (size_t)peer * job->count;
        return (sending ? peer : self) == job->root ? job->count : 0;
    case MN_SCATTER:
        *at = sending ? (size_t)peer * job->count : 0;
        return from == job->root ? job->count : 0;
    case MN_SENDRECV:
        return (sending ? peer : self) == (from + 1) % n ? job->count : 0;
    default: /* all-to-all, all-to-all-v */
        for (int r = 0; r < peer; r++)
            *at += sending ? mn_coll_count(job, self, r) : mn_coll_count(job, r, self);
        return sending ? mn_coll_count(job, self, peer) : mn_coll_count(job, peer, self);
    }
}

static ncclResult_t exchange(struct mn_engine *engine, const struct mn_engine_work *w,
                             const char **call)
{
    size_t at, count, element = w->job->element;
    ncclComm_t comm = engine->comm;
    ncclResult_t result = CALL(group_start, ncclGroupStart);

    for (int peer = 0; peer < w->job->nranks && !result; peer++) {
        count = piece(w, peer, 1, &at);
        if (count)
            result = CALL(send, ncclSend, (const char *)w->in + at * element, count, w->type, peer,
                          comm, engine->stream);
        count = piece(w, peer, 0, &at);
        if (count && !result)
            result = CALL(recv, ncclRecv, (char *)w->out + at * element, count, w->type, peer, comm,
                          engine->stream);
    }
    return result ? result : CALL(group_end, ncclGroupEnd);
}

ncclResult_t mn_engine_call(struct mn_engine *engine, const struct mn_engine_work *w,
                            const char **call)
{
    size_t count = w->job->count;
    int root = w->job->root;
    ncclComm_t comm = engine->comm;
    cudaStream_t stream = engine->stream;

    switch (w->collective) {
    case MN_ALLREDUCE:
        return CALL(all_reduce, ncclAllReduce, w->in, w->out, count, w->type, w->op, comm, stream);
    case MN_ALLGATHER:
        return CALL(all_gather, ncclAllGather, w->in, w->out, count, w->type, comm, stream);
    case MN_REDUCESCATTER:
        return CALL(reduce_scatter, ncclReduceScatter, w->in, w->out, count, w->type, w->op, comm,
                    stream);
    case MN_BROADCAST:
        return CALL(broadcast, ncclBroadcast, w->in, w->out, count, w->type, root, comm, stream);
    case MN_REDUCE:
        return CALL(reduce, ncclReduce, w->in, w->out, count, w->type, w->op, root, comm, stream);
    default:
        return exchange(engine, w, call);
    }
}
