/* The receiver's part of a link's end: from the fence on nothing arrives by it; what did is counted
 * before the sender is told. */
#include <string.h>

#include "plugin/transport/verbs/verbs.h"

#define FENCE_MS    200  /* a device that gives no completions for flushed requests is waited for */
#define FENCE_POLLS 1000 /* empty ones */

static void down(struct verbs_comm *comm, int i)
{
    struct verbs_recovery *r = &comm->links[i].recovery;

    verbs_retire(comm, i);
    r->state = VERBS_DOWN;
    r->asked = r->early = r->failed = r->job_due = r->broken = r->spent = 0;
    r->say = 1u << VERBS_ANSWER;
    comm->hurry = 1;
}

void verbs_fence(struct verbs_comm *comm, int i, uint64_t now)
{
    struct verbs_recovery *r = &comm->links[i].recovery;

    r->say &= (uint8_t) ~(1u << VERBS_SYNC_REQUEST);
    if (r->state == VERBS_JOINING && comm->job_link == i) {
        r->failed = 1; /* the job's end is that of the link */
        return;
    }
    if (r->state == VERBS_JOINING) {
        down(comm, i);
        return;
    }
    r->carried |= !r->early;
    if (comm->broken_link == i) {
        comm->broken_ms = 0;
        comm->broken_link = -1;
    }
    verbs_set_away(comm, i, 1);
    if (!r->asked)
        verbs_tell_gone(comm, i, now, now);
    r->unsure = 0;
    r->loud = !verbs_quiet(comm, i);
    r->state = VERBS_FENCED;
    r->asked = r->broken = 0;
    r->fenced_ms = now;
    r->polls = 0;
    comm->hurry = 1;
}

/* Every receive request was posted, and has completed, if only as flushed. */
static int all_counted(const struct verbs_comm *comm, const struct verbs_link *link)
{
    for (int q = link->first_qp; q < link->first_qp + link->n_qps; q++)
        if (comm->qps[q].qp && comm->qps[q].consumed < comm->rq_depth)
            return 0;
    return 1;
}

/* The sender will not see what of the rows was not written; what it has read it has, too, when the
 * row comes again. */
static void write_anew(struct verbs_comm *comm, int i)
{
    for (uint32_t seq = comm->seq_landed; seq != comm->seq_announced; seq++) {
        struct verbs_slot *slot = &comm->slots[seq % VERBS_RING];
        const struct verbs_qp *qp = &comm->qps[slot->qp];
        if (!slot->active || slot->due || slot->arrived || qp->link != i ||
            (int32_t)(qp->retired - slot->posted) >= 0)
            continue;
        slot->due = 1;
        comm->due++;
    }
    for (int q = 0; q < comm->n_qps; q++) {
        comm->anew -= comm->qps[q].link == i && comm->qps[q].anew;
        if (comm->qps[q].link == i)
            comm->qps[q].anew = 0;
    }
}

static enum mn_err count_rest(struct verbs_comm *comm, int i)
{
    struct ibv_wc wcs[VERBS_BATCH];
    enum mn_err err = MN_OK;

    for (int empty = 0; !err && empty < VERBS_EMPTY;) {
        int n = ibv_poll_cq(comm->links[i].cq, VERBS_BATCH, wcs);
        empty = n > 0 ? 0 : empty + 1;
        for (int k = 0; k < n && !err; k++)
            err = verbs_recv_completion(comm, i, &wcs[k]);
    }
    return err ? err : verbs_recv_refill_link(comm, i);
}

enum mn_err verbs_fence_step(struct verbs_comm *comm, int i, uint64_t now)
{
    struct verbs_link *link = &comm->links[i];
    struct verbs_recovery *r = &link->recovery;
    r->loud = r->loud && !verbs_quiet(comm, i);
    /* Who stands in for an owner that does not call looks only now and then. */
    enum mn_err err = count_rest(comm, i);
    r->polls += VERBS_EMPTY;
    int counted = !r->loud && all_counted(comm, link);

    if (err || (!counted && (now - r->fenced_ms < FENCE_MS || r->polls < FENCE_POLLS)))
        return err;
    r->unsure = !counted;
    if (!counted) /* with a queue pair, some libraries remove its completions: those are counted */
        verbs_destroy(comm, i);
    /* Where something may be missing, the sender must know all that is not. */
    for (int k = 0; k < comm->n_links && !err; k++)
        if (k == i || (r->unsure && comm->links[k].recovery.state <= VERBS_FENCED))
            err = count_rest(comm, k);
    if (err)
        return err;
    verbs_count_stall(r, now);
    write_anew(comm, i);
    down(comm, i);
    return MN_OK;
}

void verbs_write_answer(const struct verbs_comm *comm, int i, struct mn_bytes *b)
{
    uint32_t n = comm->seq_announced - comm->seq_landed;

    mn_put(b, comm->seq_landed, 4);
    mn_put(b, n, 2);
    mn_put(b, comm->links[i].recovery.unsure, 1);
    for (uint32_t k = 0; k < n; k++) {
        const struct verbs_slot *slot = &comm->slots[(comm->seq_landed + k) % VERBS_RING];
        size_t bytes = 16;
        if (!slot->active) {
            mn_put(b, 0xff, 1);
            continue;
        }
        while (bytes && !(slot->segments[(bytes - 1) / 8] >> (bytes - 1) % 8 * 8 & 0xff))
            bytes--;
        mn_put(b, bytes, 1);
        for (size_t at = 0; at < bytes; at++)
            mn_put(b, slot->segments[at / 8] >> at % 8 * 8 & 0xff, 1);
    }
}
