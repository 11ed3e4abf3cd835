/* Bidirectional rings: both directions of every link carry half of the data. */
#include "bench/coll/lane.h"

static int peer_of(const struct mn_lane *lane, int way)
{
    int place = (lane->place + way + lane->n) % lane->n;

    return lane->ranks ? lane->ranks[place] : place;
}

/* Slice i, counted from this place against the lane's way: what arrives i steps later. */
static size_t slice_at(const struct mn_coll_job *job, const struct mn_lane *lane, int i,
                       size_t *bytes)
{
    struct mn_coll_job ring = *job;
    int slice = ((lane->place - lane->way * i) % lane->n + lane->n) % lane->n;

    if (lane->stride) {
        *bytes = lane->count * job->element;
        return lane->start + (size_t)slice * lane->stride;
    }
    ring.nranks = lane->n;
    return lane->start + mn_slice(&ring, lane->count, slice, bytes);
}

static size_t longest(const struct mn_coll_job *job, const struct mn_lane *lane)
{
    size_t n = (size_t)lane->n, each = lane->stride ? lane->count : (lane->count + n - 1) / n;

    return each * job->element;
}

void mn_lanes_stage(const struct mn_coll_job *job, struct mn_lane *lanes, int n, size_t base)
{
    for (int i = 0; i < n; i++) {
        lanes[i].staging = base;
        base += 2 * longest(job, &lanes[i]);
    }
}

static size_t chunks_of(const struct mn_coll_job *job, const struct mn_lane *lanes, int n)
{
    size_t most = 0;

    for (int i = 0; i < n; i++) {
        size_t chunks = (longest(job, &lanes[i]) + job->chunk - 1) / job->chunk;
        most = chunks > most ? chunks : most;
    }
    return most;
}

/* A chunk of a slice. */
struct part {
    size_t at, bytes;
};

static struct part part_of(const struct mn_coll_job *job, const struct mn_lane *lane, int i,
                           size_t chunk)
{
    size_t length, start = slice_at(job, lane, i, &length), at = chunk * job->chunk;

    if (at >= length)
        return (struct part){start, 0};
    return (struct part){start + at, length - at < job->chunk ? length - at : job->chunk};
}

static struct mn_at staged(const struct mn_coll_job *job, const struct mn_lane *lane, int step,
                           size_t chunk)
{
    return mn_at(MN_TMP,
                 lane->staging + (size_t)(step % 2) * longest(job, lane) + chunk * job->chunk);
}

/* In step k slice first + k goes and the next one comes; the last that comes is first - 1. */
static void pass_round(struct mn_flow *f, const struct mn_coll_job *job,
                       const struct mn_lane *lanes, int n, int first, enum mn_step_buffer buffer)
{
    size_t chunks = chunks_of(job, lanes, n);

    for (int k = 0; k < lanes[0].n - 1; k++)
        for (size_t c = 0; c < chunks; c++)
            for (int i = 0; i < n; i++) {
                const struct mn_lane *lane = &lanes[i];
                struct part goes = part_of(job, lane, first + k, c);
                struct part comes = part_of(job, lane, first + k + 1, c);
                mn_flow_send(f, peer_of(lane, lane->way), mn_at(buffer, goes.at), goes.bytes);
                mn_flow_recv(f, peer_of(lane, -lane->way), mn_at(buffer, comes.at), comes.bytes);
            }
}

void mn_lanes_allreduce(struct mn_flow *f, const struct mn_coll_job *job,
                        const struct mn_lane *lanes, int n, enum mn_step_buffer buffer)
{
    size_t chunks = chunks_of(job, lanes, n);

    for (int k = 0; k < lanes[0].n - 1; k++)
        for (size_t c = 0; c < chunks; c++)
            for (int i = 0; i < n; i++) {
                const struct mn_lane *lane = &lanes[i];
                struct part goes = part_of(job, lane, k, c), comes = part_of(job, lane, k + 1, c);
                struct mn_at stage = staged(job, lane, k, c);
                mn_flow_send(f, peer_of(lane, lane->way), mn_at(buffer, goes.at), goes.bytes);
                mn_flow_recv(f, peer_of(lane, -lane->way), stage, comes.bytes);
                mn_flow_reduce(f, stage, mn_at(buffer, comes.at), comes.bytes);
            }
    pass_round(f, job, lanes, n, -1, buffer);
}

/* Both ways round; stride as in mn_lane, 0 deals job->count. */
static void two_lanes(const struct mn_coll_job *job, size_t stride, struct mn_lane lanes[2])
{
    size_t half = job->count / 2;

    for (int i = 0; i < 2; i++)
        lanes[i] = (struct mn_lane){.n = job->nranks,
                                    .place = job->rank,
                                    .way = i ? -1 : 1,
                                    .start = i ? half * job->element : 0,
                                    .count = i ? job->count - half : half,
                                    .stride = stride};
    mn_lanes_stage(job, lanes, 2, 0);
}

void mn_biring_allreduce(const struct mn_coll_job *job, struct mn_schedule *s)
{
    struct mn_lane lanes[2];
    struct mn_flow *f = mn_flow_new(MN_ALLREDUCE, job, s);

    if (!f)
        return;
    two_lanes(job, 0, lanes);
    mn_flow_copy(f, mn_at(MN_IN, 0), mn_at(MN_OUT, 0), job->count * job->element);
    mn_lanes_allreduce(f, job, lanes, 2, MN_OUT);
    mn_flow_free(f);
}

void mn_biring_allgather(const struct mn_coll_job *job, struct mn_schedule *s)
{
    struct mn_lane lanes[2];
    size_t block = job->count * job->element;
    struct mn_flow *f = mn_flow_new(MN_ALLGATHER, job, s);

    if (!f)
        return;
    two_lanes(job, block, lanes);
    mn_flow_copy(f, mn_at(MN_IN, 0), mn_at(MN_OUT, (size_t)job->rank * block), block);
    pass_round(f, job, lanes, 2, 0, MN_OUT);
    mn_flow_free(f);
}

/* The slice that ends here is this rank's own: the first to go is the one behind it. */
void mn_biring_reducescatter(const struct mn_coll_job *job, struct mn_schedule *s)
{
    struct mn_lane lanes[2];
    size_t block = job->count * job->element;
    int last = job->nranks - 2;
    struct mn_flow *f = mn_flow_new(MN_REDUCESCATTER, job, s);

    if (!f)
        return;
    two_lanes(job, block, lanes);
    if (job->nranks == 1)
        mn_flow_copy(f, mn_at(MN_IN, 0), mn_at(MN_OUT, 0), block);
    size_t chunks = chunks_of(job, lanes, 2);
    for (int k = 0; k <= last; k++)
        for (size_t c = 0; c < chunks; c++)
            for (int i = 0; i < 2; i++) {
                const struct mn_lane *lane = &lanes[i];
                struct part goes = part_of(job, lane, k + 1, c);
                struct part comes = part_of(job, lane, k + 2, c);
                struct mn_at sum = staged(job, lane, k, c);
                mn_flow_send(f, peer_of(lane, lane->way),
                             k ? staged(job, lane, k - 1, c) : mn_at(MN_IN, goes.at), goes.bytes);
                mn_flow_recv(f, peer_of(lane, -lane->way), sum, comes.bytes);
                mn_flow_reduce(f, mn_at(MN_IN, comes.at), sum, comes.bytes);
                if (k == last)
                    mn_flow_copy(f, sum, mn_at(MN_OUT, lane->start + c * job->chunk), comes.bytes);
            }
    mn_flow_free(f);
}
