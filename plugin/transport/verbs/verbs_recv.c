/* The receiving end: announces buffers, accounts for segments. */
#include <string.h>
#include <arpa/inet.h>

#include "plugin/transport/verbs/verbs.h"

#define PART_OPEN    8  /* at least this part of what is open is announced in one write */
#define SIGNAL_EVERY 32 /* announcements; the completion of one frees those before it */

/* --- receive requests ------------------------------------------------------------------------- */

int verbs_recv_refill(const struct verbs_comm *comm, struct verbs_qp *qp)
{
    struct ibv_recv_wr *bad;

    while (qp->consumed) {
        uint32_t n = qp->consumed < VERBS_BATCH ? qp->consumed : VERBS_BATCH;
        /* Not changed by it: the type is the library's. */
        struct ibv_recv_wr *first = (struct ibv_recv_wr *)&comm->refill[VERBS_BATCH - n];
        int error = ibv_post_recv(qp->qp, first, &bad);
        if (error)
            return error;
        qp->consumed -= n;
    }
    return 0;
}

static enum mn_err refill(struct verbs_comm *comm, struct verbs_qp *qp)
{
    int error = verbs_recv_refill(comm, qp);

    return error ? verbs_refused(comm, qp->link, "receive requests", error) : MN_OK;
}

enum mn_err verbs_recv_refill_link(struct verbs_comm *comm, int i)
{
    const struct verbs_link *link = &comm->links[i];
    enum mn_err err = MN_OK;

    if (link->recovery.state || link->recovery.broken || link->recovery.spent ||
        (comm->broken_ms && comm->broken_link == i))
        return MN_OK;
    for (int q = link->first_qp; q < link->first_qp + link->n_qps && !err; q++)
        if (comm->qps[q].consumed)
            err = refill(comm, &comm->qps[q]);
    return err;
}

enum mn_err verbs_recv_prepare(struct verbs_comm *comm, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (int i = 0; i < VERBS_BATCH; i++)
        comm->refill[i] = (struct ibv_recv_wr){
            .wr_id = verbs_wr_pack(VERBS_RECEIVED, 0, 0, 0, 0, 0),
            .next = i + 1 < VERBS_BATCH ? &comm->refill[i + 1] : NULL,
        };
    for (int q = 0; q < comm->n_qps && !err; q++) {
        comm->qps[q].consumed = comm->rq_depth;
        err = refill(comm, &comm->qps[q]);
    }
    return err ? mn_fail(diag, err, "receive requests cannot be posted") : MN_OK;
}

/* --- announcements ---------------------------------------------------------------------------- */

/* A queue pair with room for the two writes that a group needs at the ring's end, or -1. */
static int qp_with_room(struct verbs_comm *comm)
{
    for (int i = 0; i < comm->n_qps; i++) {
        int q = comm->turn;
        comm->turn = (comm->turn + 1) % comm->n_qps;
        if (comm->links[comm->qps[q].link].recovery.away)
            continue;
        if (comm->qps[q].posted - comm->qps[q].retired + 2 <= comm->qps[q].depth)
            return q;
    }
    return -1;
}

/* 1 when it is on its way, 0 when the link took nothing, -1 when the comm has failed. */
static int write_entries(struct verbs_comm *comm, int q, uint32_t seq, uint32_t n, int anew)
{
    struct verbs_qp *qp = &comm->qps[q];
    struct verbs_link *link = &comm->links[qp->link];
    uint32_t entry = seq % VERBS_RING, bytes = n * (uint32_t)sizeof *comm->ring;
    int signal =
        anew || ++qp->unsignaled >= SIGNAL_EVERY || qp->posted - qp->retired >= qp->depth / 2;
    struct ibv_sge sge = {.addr = (uintptr_t)&comm->ring[entry],
                          .length = bytes,
                          .lkey = link->ring_mr->lkey};
    struct ibv_send_wr *bad,
        wr = {
            .wr_id = verbs_wr_pack(VERBS_ANNOUNCED, 0, 0, 0, (unsigned)q, qp->posted + 1),
            .sg_list = &sge,
            .num_sge = 1,
            .opcode = IBV_WR_RDMA_WRITE,
            .send_flags = (signal ? IBV_SEND_SIGNALED : 0u) |
                          (bytes <= link->max_inline ? IBV_SEND_INLINE : 0u),
            .wr.rdma = {comm->peer_ring + entry * sizeof *comm->ring, link->peer_ring_rkey},
        };
    int error = ibv_post_send(qp->qp, &wr, &bad);

    if (error)
        return verbs_refused(comm, qp->link, "an announcement", error) ? -1 : 0;
    qp->posted++;
    if (signal)
        qp->unsignaled = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct verbs_slot *slot = &comm->slots[(seq + i) % VERBS_RING];
        slot->qp = (uint8_t)q;
        slot->posted = qp->posted;
    }
    return 1;
}

/* Announcements that went by a link that is no more. A place is not used for another as long as a
 * write to it may be under way: the first had landed when its message came, but of one that was
 * written anew nothing is known until it completes. */
static enum mn_err announce_again(struct verbs_comm *comm)
{
    for (uint32_t seq = comm->seq_landed; comm->due && seq != comm->seq_announced; seq++) {
        struct verbs_slot *slot = &comm->slots[seq % VERBS_RING];
        if (!slot->due)
            continue;
        int wanted = slot->active && !slot->arrived, q = wanted ? qp_with_room(comm) : -1;
        if (wanted && q < 0)
            return MN_OK;
        if (wanted) {
            struct verbs_qp *qp = &comm->qps[q];
            int went = write_entries(comm, q, seq, 1, 1);
            if (went <= 0)
                return verbs_error(comm);
            if (!qp->anew || (int32_t)(seq + VERBS_RING - qp->anew_until) < 0)
                qp->anew_until = seq + VERBS_RING;
            comm->anew += !qp->anew;
            qp->anew = 1;
            qp->anew_posted = qp->posted;
        }
        slot->due = 0;
        comm->due--;
    }
    return MN_OK;
}

/* Whether the places of n more announcements are free of what was written anew: a device may read
 * the place, too, when it sends that again. */
static int places_are_free(struct verbs_comm *comm, uint32_t n)
{
    int free = 1;

    for (int q = 0; q < comm->n_qps && comm->anew; q++) {
        struct verbs_qp *qp = &comm->qps[q];
        if (!qp->anew)
            continue;
        if ((int32_t)(qp->retired - qp->anew_posted) >= 0) {
            qp->anew = 0;
            comm->anew--;
        } else if ((int32_t)(comm->seq_next + n - qp->anew_until) > 0) {
            free = 0;
        }
    }
    return free;
}

/* Announces what is posted: at once while the sender has little to fill, several buffers in one
 * write when it has more. What waits is less than an eighth of what is open, so that the sender
 * always has the group in turn, and comes with the next arrivals: a link whose round trip takes as
 * long as all that is open needs nearly all of it. */
static enum mn_err announce(struct verbs_comm *comm)
{
    uint32_t n = comm->seq_next - comm->seq_announced;
    uint32_t to_end = VERBS_RING - comm->seq_announced % VERBS_RING;
    int q = n && PART_OPEN * n >= comm->open ? qp_with_room(comm) : -1;

    if (q < 0)
        return MN_OK;
    uint32_t first = n < to_end ? n : to_end;
    int went = write_entries(comm, q, comm->seq_announced, first, 0);
    uint32_t done = went > 0 ? first : 0;
    if (went > 0 && n > to_end)
        done += write_entries(comm, q, comm->seq_announced + to_end, n - to_end, 0) > 0 ? n - to_end
                                                                                        : 0;
    comm->seq_announced += done;
    comm->open += done;
    return verbs_error(comm);
}

/* --- arrivals --------------------------------------------------------------------------------- */

static void land(struct verbs_comm *comm, struct verbs_slot *slot)
{
    struct verbs_group *group = slot->group;

    slot->active = 0;
    comm->due -= slot->due;
    slot->due = 0;
    comm->reserved -= slot->reserved;
    comm->open--;
    group->sizes[slot->seq - group->seq] = slot->received;
    group->landed++;
    while (comm->seq_landed != comm->seq_next && !comm->slots[comm->seq_landed % VERBS_RING].active)
        comm->seq_landed++;
}

static enum mn_err arrived(struct verbs_comm *comm, int link, const struct ibv_wc *wc)
{
    struct verbs_imm imm = verbs_imm_unpack(ntohl(wc->imm_data));
    struct verbs_slot *slot = &comm->slots[imm.entry];

    if (imm.epoch != (comm->links[link].recovery.turn & 31)) {
        comm->stale++; /* of queue pairs that are no more */
        return MN_OK;
    }
    if (!slot->active || (slot->seq / VERBS_RING & 15) != imm.seq_high ||
        (int32_t)(slot->seq - comm->seq_announced) >= 0)
        return verbs_fail(comm, link, MN_ERR_PROTO,
                          "a write names announcement %u, which is not open", imm.entry);
    if (!slot->n_segments)
        slot->n_segments = (uint16_t)imm.segments;
    uint64_t bit = 1ull << (imm.segment % 64), *seen = &slot->segments[imm.segment / 64];
    if (slot->n_segments != imm.segments || imm.segment >= imm.segments || *seen & bit ||
        wc->byte_len > slot->capacity - slot->received)
        return verbs_fail(comm, link, MN_ERR_PROTO,
                          "segment %u of %u with %u bytes does not fit announcement %u (%u of %u "
                          "bytes, %u segments)",
                          imm.segment, imm.segments, wc->byte_len, slot->seq, slot->received,
                          slot->capacity, slot->n_segments);
    *seen |= bit;
    comm->delivered |= (uint32_t)(wc->byte_len > 0) << link;
    slot->received += wc->byte_len;
    if (++slot->arrived == slot->n_segments)
        land(comm, slot);
    return MN_OK;
}

static int qp_numbered(const struct verbs_comm *comm, const struct verbs_link *link,
                       uint32_t number)
{
    int q = link->first_qp;

    while (q < link->first_qp + link->n_qps - 1 && comm->qps[q].number != number)
        q++;
    return q;
}

enum mn_err verbs_recv_completion(struct verbs_comm *comm, int i, const struct ibv_wc *wc)
{
    struct verbs_wr id = verbs_wr_unpack(wc->wr_id);
    int q = id.kind == VERBS_RECEIVED ? qp_numbered(comm, &comm->links[i], wc->qp_num) : (int)id.qp;

    if (q >= comm->n_qps || (comm->failover && comm->qps[q].number != wc->qp_num)) {
        comm->stale++;
        return MN_OK;
    }
    struct verbs_qp *qp = &comm->qps[q];
    if (wc->status != IBV_WC_SUCCESS) {
        qp->consumed += id.kind == VERBS_RECEIVED;
        comm->links[i].recovery.spent = 1;
        if (comm->links[i].recovery.state != VERBS_FENCED)
            verbs_broken(comm, q, wc);
        return MN_OK;
    }
    if (comm->silent)
        verbs_heard(comm, i);
    if (id.kind != VERBS_RECEIVED) {
        qp->retired += (uint16_t)(id.posted - qp->retired);
        if (id.kind == VERBS_PROBE)
            qp->probed_ms = 0;
        return MN_OK;
    }
    if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM)
        return verbs_fail(comm, i, MN_ERR_PROTO, "a message came that is no write");
    qp->consumed++;
    return arrived(comm, i, wc);
}

static enum mn_err progress(struct verbs_comm *comm)
{
    struct ibv_wc wcs[VERBS_BATCH];
    enum mn_err err = verbs_urgent(comm) ? verbs_look_soon(comm) : MN_OK;
    int moved = 0;

    if (err)
        return err;
    for (int i = 0; i < comm->n_links; i++) {
        struct verbs_link *link = &comm->links[i];
        if (link->recovery.state > VERBS_FENCED)
            continue;
        /* The barrier of the provider behind a completion's owner bit also orders the message,
         * which the device wrote before it: host memory is whole for whoever is told by test(). */
        int n = ibv_poll_cq(link->cq, VERBS_BATCH, wcs);
        if (n < 0)
            return verbs_fail(comm, i, MN_ERR_SYS, "the completion queue cannot be read");
        for (int k = 0; k < n && !err; k++) {
            err = verbs_recv_completion(comm, i, &wcs[k]);
            moved += wcs[k].status == IBV_WC_SUCCESS;
        }
        if (n > 0 && !err)
            err = verbs_recv_refill_link(comm, i);
        link->recovery.polls += !n;
        if (err)
            return err;
    }
    if (comm->due) {
        err = announce_again(comm);
        if (err)
            return err;
    }
    if (comm->seq_announced != comm->seq_next) {
        err = announce(comm);
        if (err)
            return err;
    }
    if (moved) {
        comm->idle = 0;
        return MN_OK;
    }
    return verbs_idle(comm);
}

enum mn_err verbs_recv_progress(struct verbs_comm *comm)
{
    return progress(comm);
}

/* --- the two calls ---------------------------------------------------------------------------- */

static void open_slot(struct verbs_comm *comm, struct verbs_group *group, uint8_t index, void *data,
                      uint32_t capacity, int tag, const struct verbs_memory *memory,
                      uint32_t reserved, uint32_t parts)
{
    uint32_t seq = group->seq + index;
    struct verbs_cts *cts = &comm->ring[seq % VERBS_RING];

    comm->slots[seq % VERBS_RING] = (struct verbs_slot){.group = group,
                                                        .seq = seq,
                                                        .capacity = capacity,
                                                        .reserved = (uint16_t)reserved,
                                                        .active = 1};
    *cts = (struct verbs_cts){.address = (uintptr_t)data,
                              .size = capacity,
                              .tag = tag,
                              .seq = seq,
                              .n = group->n,
                              .index = index,
                              .parts = (uint16_t)parts};
    for (int i = 0; memory && i < comm->n_links; i++)
        cts->rkeys[i] = memory->mrs[comm->links[i].device->index]->rkey;
    verbs_cts_seal(cts);
}

/* Parts that a message of so many bytes may have, which all may come by one queue pair, where no
 * more than most receive requests are there for it. */
static uint32_t parts_of(const struct verbs_comm *comm, uint32_t capacity, uint32_t segments,
                         uint32_t most)
{
    uint32_t parts = capacity / VERBS_STRIPE_MIN;

    if (parts > (uint32_t)comm->n_qps)
        parts = (uint32_t)comm->n_qps;
    if (parts > most - segments + 1)
        parts = most - segments + 1;
    return parts ? parts : 1;
}

enum mn_err verbs_irecv(struct mn_comm *base, int n, void **data, const size_t *sizes,
                        const int *tags, void **mhandles, struct mn_request **request)
{
    struct verbs_comm *comm = (struct verbs_comm *)base;
    struct verbs_group *group = &comm->groups[comm->group_next % VERBS_SLOTS];
    uint32_t capacity[VERBS_RECVS], reserve[VERBS_RECVS], parts[VERBS_RECVS], total = 0;
    uint32_t most = comm->rq_depth / (uint32_t)n;
    enum mn_err err = verbs_error(comm);

    *request = NULL;
    if (err)
        return err;
    most = most > VERBS_SEGMENTS ? VERBS_SEGMENTS : most;
    for (int i = 0; i < n; i++) {
        uint64_t limit = (uint64_t)most * comm->max_segment;
        if (sizes[i] && !verbs_covers(comm, mhandles[i], data[i], sizes[i]))
            return verbs_fail(comm, -1, MN_ERR_USAGE,
                              "%zu bytes at %p are outside the registered memory", sizes[i],
                              data[i]);
        limit = limit < comm->max_message ? limit : comm->max_message;
        capacity[i] = (uint32_t)(sizes[i] < limit ? sizes[i] : limit);
        reserve[i] = capacity[i] ? (capacity[i] - 1) / comm->max_segment + 1 : 1;
        parts[i] = VERBS_QPS;
        if (comm->failover) {
            parts[i] = parts_of(comm, capacity[i], reserve[i], most);
            reserve[i] += parts[i] - 1;
        }
        total += reserve[i];
    }
    if (group->posted || comm->reserved + total > comm->rq_depth ||
        comm->seq_next - comm->seq_landed + (uint32_t)n > VERBS_OUTSTANDING ||
        (comm->anew && !places_are_free(comm, (uint32_t)n)))
        return progress(comm);
    *group = (struct verbs_group){.base.comm = base,
                                  .seq = comm->seq_next,
                                  .n = (uint8_t)n,
                                  .posted = 1};
    for (int i = 0; i < n; i++)
        open_slot(comm, group, (uint8_t)i, data[i], capacity[i], tags[i], mhandles[i], reserve[i],
                  parts[i]);
    comm->reserved += total;
    comm->seq_next += (uint32_t)n;
    comm->group_next++;
    err = announce(comm);
    if (!err)
        *request = &group->base;
    return err;
}

enum mn_err verbs_recv_test(struct verbs_comm *comm, struct verbs_group *group, int *done,
                            int *sizes)
{
    *done = 0;
    if (group->landed < group->n) {
        enum mn_err err = verbs_error(comm);
        if (!err)
            err = progress(comm);
        if (group->landed < group->n)
            return err;
    }
    *done = 1;
    for (int i = 0; sizes && i < group->n; i++)
        sizes[i] = (int)group->sizes[i];
    group->posted = 0;
    return MN_OK;
}
