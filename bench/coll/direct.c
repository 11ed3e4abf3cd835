/* Each rank with each other, no detours: few steps, many connections. */
#include "bench/coll/algorithm.h"

/* One message in chunks. */
static void send_all(const struct mn_coll_job *job, struct mn_schedule *s, int peer,
                     struct mn_at from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += job->chunk)
        mn_schedule_send(s, peer, (struct mn_at){from.buffer, from.offset + at},
                         bytes - at < job->chunk ? bytes - at : job->chunk, MN_NO_STEP);
}

static void recv_all(const struct mn_coll_job *job, struct mn_schedule *s, int peer,
                     struct mn_at to, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += job->chunk)
        mn_schedule_recv(s, peer, (struct mn_at){to.buffer, to.offset + at},
                         bytes - at < job->chunk ? bytes - at : job->chunk, MN_NO_STEP);
}

static size_t block(const struct mn_coll_job *job)
{
    return job->count * job->element;
}

/* In step k with the ranks k away, so that all pairs are busy and nobody is everyone's target. */
void mn_direct_alltoall(const struct mn_coll_job *job, struct mn_schedule *s)
{
    size_t bytes = block(job), own = (size_t)job->rank * bytes;

    mn_schedule_copy(s, (struct mn_at){MN_IN, own}, (struct mn_at){MN_OUT, own}, bytes, MN_NO_STEP);
    for (int k = 1; k < job->nranks; k++) {
        int to = (job->rank + k) % job->nranks;
        int from = (job->rank - k + job->nranks) % job->nranks;
        recv_all(job, s, from, (struct mn_at){MN_OUT, (size_t)from * bytes}, bytes);
        send_all(job, s, to, (struct mn_at){MN_IN, (size_t)to * bytes}, bytes);
    }
}

void mn_direct_allgather(const struct mn_coll_job *job, struct mn_schedule *s)
{
    size_t bytes = block(job);

    mn_schedule_copy(s, (struct mn_at){MN_IN, 0}, (struct mn_at){MN_OUT, (size_t)job->rank * bytes},
                     bytes, MN_NO_STEP);
    for (int k = 1; k < job->nranks; k++) {
        int to = (job->rank + k) % job->nranks;
        int from = (job->rank - k + job->nranks) % job->nranks;
        recv_all(job, s, from, (struct mn_at){MN_OUT, (size_t)from * bytes}, bytes);
        send_all(job, s, to, (struct mn_at){MN_IN, 0}, bytes);
    }
}

void mn_direct_gather(const struct mn_coll_job *job, struct mn_schedule *s)
{
    size_t bytes = block(job);

    if (job->rank != job->root) {
        send_all(job, s, job->root, (struct mn_at){MN_IN, 0}, bytes);
        return;
    }
    mn_schedule_copy(s, (struct mn_at){MN_IN, 0}, (struct mn_at){MN_OUT, (size_t)job->rank * bytes},
                     bytes, MN_NO_STEP);
    for (int r = 0; r < job->nranks; r++)
        if (r != job->root)
            recv_all(job, s, r, (struct mn_at){MN_OUT, (size_t)r * bytes}, bytes);
}

void mn_direct_scatter(const struct mn_coll_job *job, struct mn_schedule *s)
{
    size_t bytes = block(job);

    if (job->rank != job->root) {
        recv_all(job, s, job->root, (struct mn_at){MN_OUT, 0}, bytes);
        return;
    }
    mn_schedule_copy(s, (struct mn_at){MN_IN, (size_t)job->rank * bytes}, (struct mn_at){MN_OUT, 0},
                     bytes, MN_NO_STEP);
    for (int r = 0; r < job->nranks; r++)
        if (r != job->root)
            send_all(job, s, r, (struct mn_at){MN_IN, (size_t)r * bytes}, bytes);
}

void mn_direct_sendrecv(const struct mn_coll_job *job, struct mn_schedule *s)
{
    int to = (job->rank + 1) % job->nranks, from = (job->rank + job->nranks - 1) % job->nranks;

    if (job->nranks == 1) {
        mn_schedule_copy(s, (struct mn_at){MN_IN, 0}, (struct mn_at){MN_OUT, 0}, block(job),
                         MN_NO_STEP);
        return;
    }
    recv_all(job, s, from, (struct mn_at){MN_OUT, 0}, block(job));
    send_all(job, s, to, (struct mn_at){MN_IN, 0}, block(job));
}
