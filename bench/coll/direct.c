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

void mn_direct_broadcast(const struct mn_coll_job *job, struct mn_schedule *s)
{
    size_t bytes = block(job);

    if (job->rank != job->root) {
        recv_all(job, s, job->root, (struct mn_at){MN_OUT, 0}, bytes);
        return;
    }
    mn_schedule_copy(s, (struct mn_at){MN_IN, 0}, (struct mn_at){MN_OUT, 0}, bytes, MN_NO_STEP);
    for (int k = 1; k < job->nranks; k++)
        send_all(job, s, (job->root + k) % job->nranks, (struct mn_at){MN_IN, 0}, bytes);
}

/* Where the block from one rank to another begins in the sender's input. */
static size_t sent_before(const struct mn_coll_job *job, int from, int to)
{
    size_t sum = 0;

    for (int r = 0; r < to; r++)
        sum += mn_coll_count(job, from, r);
    return sum * job->element;
}

static size_t received_before(const struct mn_coll_job *job, int from, int to)
{
    size_t sum = 0;

    for (int r = 0; r < from; r++)
        sum += mn_coll_count(job, r, to);
    return sum * job->element;
}

void mn_direct_alltoallv(const struct mn_coll_job *job, struct mn_schedule *s)
{
    int self = job->rank;

    mn_schedule_copy(s, (struct mn_at){MN_IN, sent_before(job, self, self)},
                     (struct mn_at){MN_OUT, received_before(job, self, self)},
                     mn_coll_count(job, self, self) * job->element, MN_NO_STEP);
    for (int k = 1; k < job->nranks; k++) {
        int to = (self + k) % job->nranks, from = (self - k + job->nranks) % job->nranks;
        recv_all(job, s, from, (struct mn_at){MN_OUT, received_before(job, from, self)},
                 mn_coll_count(job, from, self) * job->element);
        send_all(job, s, to, (struct mn_at){MN_IN, sent_before(job, self, to)},
                 mn_coll_count(job, self, to) * job->element);
    }
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
