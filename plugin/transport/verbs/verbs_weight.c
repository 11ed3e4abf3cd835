/* What each of several links can carry, found while it carries: their weights follow. */
#include "plugin/transport/verbs/verbs.h"
#include "topo/base/log.h"

#define STEPS       64 /* from nothing to all that was agreed */
#define STREAK      4  /* so often last in a row: a step more at once */
#define STREAK_MOST 32
#define NEAR        8  /* of all that was agreed: from here on step by step, so as not to pass it */
#define TRY_MOST    4  /* doublings of the looks until a link that gets nothing is tried again */
#define SLOW_PART   4  /* of what was agreed … */
#define SLOW_LOOKS  20 /* … for so many looks, of 50 ms */

static uint32_t step_of(const struct verbs_comm *comm, unsigned q)
{
    return comm->full_weight[q] / STEPS + 1;
}

static void raise_weight(struct verbs_comm *comm, unsigned q)
{
    uint32_t *weight = &comm->ways[q].weight, step = step_of(comm, q);

    if (*weight) /* else its link is away */
        *weight = *weight + step < comm->full_weight[q] ? *weight + step : comm->full_weight[q];
}

static void lower_weight(struct verbs_comm *comm, unsigned q, uint32_t steps)
{
    uint32_t *weight = &comm->ways[q].weight, least = step_of(comm, q);

    for (; steps && *weight > 2 * least; steps--) {
        *weight -= least;
        if (*weight < comm->full_weight[q] / NEAR)
            break;
    }
}

/* Queue pairs of one link have its speed in common. */
static unsigned group_of(const struct verbs_comm *comm, unsigned q)
{
    return comm->n_links > 1 ? comm->qps[q].link : q;
}

static void note_try(struct verbs_slow *slow, int is_last)
{
    if (!is_last)
        slow->failed = 0;
    else if (slow->tried && slow->failed < TRY_MOST)
        slow->failed++;
    slow->tried = 0;
}

void verbs_weigh(struct verbs_comm *comm, const struct verbs_send *send, unsigned last)
{
    unsigned group = group_of(comm, last);
    int others = 0, same_time = 0;

    for (int i = 0; i < send->n_parts; i++) {
        if (group_of(comm, send->parts[i].qp) == group)
            continue;
        others++;
        same_time |= send->parts[i].round == comm->round;
    }
    if (!others)
        return;
    if (!same_time) {
        comm->streak = group != comm->last_group ? 0 : comm->streak + (comm->streak < STREAK_MOST);
        comm->last_group = (uint8_t)group;
    }
    for (int i = 0; i < send->n_parts; i++) {
        unsigned q = send->parts[i].qp;
        int is_last = !same_time && group_of(comm, q) == group;
        note_try(&comm->links[comm->qps[q].link].slow, is_last);
        if (is_last)
            lower_weight(comm, q, 1 + comm->streak / STREAK);
        else
            raise_weight(comm, q);
    }
}

/* --- now and then ----------------------------------------------------------------------------- */

static uint64_t weight_of(const struct verbs_comm *comm, int i, uint64_t *full)
{
    const struct verbs_link *link = &comm->links[i];
    uint64_t weight = 0;

    *full = 0;
    for (int q = link->first_qp; q < link->first_qp + link->n_qps; q++) {
        weight += comm->ways[q].weight;
        *full += comm->full_weight[q];
    }
    return weight;
}

/* MB/s of link k since link i became slow. */
static double speed(const struct verbs_comm *comm, int i, int k, uint64_t now)
{
    const struct verbs_slow *slow = &comm->links[i].slow;

    return (double)(comm->links[k].carried - slow->at[k]) / 1000 / (double)(now - slow->since_ms);
}

static void tell_slow(struct verbs_comm *comm, int i, uint64_t now)
{
    char who[VERBS_WHO];
    int best = -1;

    for (int k = 0; k < comm->n_links; k++)
        if (k != i && !comm->links[k].recovery.away &&
            (best < 0 || speed(comm, i, k, now) > speed(comm, i, best, now)))
            best = k;
    if (best < 0 || now == comm->links[i].slow.since_ms)
        return;
    comm->links[i].slow.told = 1;
    MN_WARN("%s: slow: it takes %.1f MB/s, where %s takes %.1f; it gets no more than that; is its "
            "speed as agreed, and does it lose packets?",
            verbs_name(comm, i, who), speed(comm, i, i, now), comm->links[best].local.netdev,
            speed(comm, i, best, now));
}

static void look_at_speed(struct verbs_comm *comm, int i, uint64_t now)
{
    struct verbs_slow *slow = &comm->links[i].slow;
    uint64_t full, weight = weight_of(comm, i, &full);

    if (!weight || weight * SLOW_PART >= full) {
        slow->looks = 0;
        return;
    }
    if (!slow->looks++) {
        slow->since_ms = now;
        for (int k = 0; k < comm->n_links; k++)
            slow->at[k] = comm->links[k].carried;
    }
    if (slow->looks > SLOW_LOOKS && !slow->told)
        tell_slow(comm, i, now);
}

/* Its part was too small to be worth a write: it gets one now and then. */
static void try_again(struct verbs_comm *comm, struct verbs_link *link)
{
    if (++link->slow.idle < 1u << link->slow.failed)
        return;
    link->slow.idle = 0;
    link->slow.tried = 1;
    for (int q = link->first_qp; q < link->first_qp + link->n_qps; q++)
        raise_weight(comm, (unsigned)q);
}

void verbs_weigh_look(struct verbs_comm *comm, uint64_t now)
{
    int moved = 0;

    for (int i = 0; i < comm->n_links; i++)
        moved |= comm->links[i].carried != comm->links[i].slow.seen;
    if (!moved || comm->n_links < 2)
        return;
    for (int i = 0; i < comm->n_links; i++) {
        struct verbs_link *link = &comm->links[i];
        int idle = link->carried == link->slow.seen && !link->pending;
        if (idle)
            try_again(comm, link);
        link->slow.seen = link->carried;
        look_at_speed(comm, i, now);
    }
}
