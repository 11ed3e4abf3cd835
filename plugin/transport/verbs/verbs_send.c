/* The sending end: reads announcements, writes messages, counts completions. */
#include <string.h>
#include <arpa/inet.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/transport/verbs/verbs.h"

/* --- announcements ---------------------------------------------------------------------------- */

/* The device may be writing it: eight bytes at a time, and the check decides. So no order among the
 * loads is needed, nor among the device's writes: whatever mixture of old and new words is read, it
 * is taken only when it is the whole announcement. Nothing else is read on the strength of it: what
 * it names lies with the peer. tests/models: announcement. */
static void read_entry(const struct verbs_comm *comm, uint32_t seq, struct verbs_cts *cts)
{
    const uint64_t *from = (const uint64_t *)&comm->ring[seq % VERBS_RING];
    uint64_t to[sizeof *cts / 8];

    for (size_t i = 0; i < sizeof to / sizeof *to; i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    memcpy(cts, to, sizeof to);
}

/* 1 when the group in turn is whole in comm->head. */
static int read_head(struct verbs_comm *comm)
{
    struct verbs_cts *head = comm->head;

    if (comm->head_n)
        return 1;
    read_entry(comm, comm->seq, &head[0]);
    if (!verbs_cts_valid(&head[0], comm->seq) || head[0].index || head[0].n < 1 ||
        head[0].n > VERBS_RECVS)
        return 0;
    for (uint32_t i = 1; i < head[0].n; i++) {
        read_entry(comm, comm->seq + i, &head[i]);
        if (!verbs_cts_valid(&head[i], comm->seq + i) || head[i].index != i ||
            head[i].n != head[0].n)
            return 0;
    }
    comm->head_n = head[0].n;
    comm->head_filled = 0;
    return 1;
}

/* The free place with this tag in the group in turn, or -1. */
static int place_for(struct verbs_comm *comm, int tag)
{
    if (!read_head(comm))
        return -1;
    for (int i = 0; i < comm->head_n; i++)
        if (!(comm->head_filled >> i & 1) && comm->head[i].tag == tag)
            return i;
    return -1;
}

static void fill_place(struct verbs_comm *comm, int place)
{
    comm->head_filled |= (uint8_t)(1u << place);
    if (comm->head_filled == (1u << comm->head_n) - 1) {
        comm->seq += comm->head_n;
        comm->head_n = 0;
    }
}

/* --- writing ---------------------------------------------------------------------------------- */

static struct verbs_send *take_slot(struct verbs_comm *comm)
{
    for (size_t i = 0; i < VERBS_SLOTS / 64; i++)
        if (comm->free_sends[i]) {
            int bit = __builtin_ctzll(comm->free_sends[i]);
            comm->free_sends[i] &= ~(1ull << bit);
            struct verbs_send *send = &comm->sends[i * 64 + (size_t)bit];
            send->generation++;
            return send;
        }
    return NULL;
}

static unsigned slot_of(const struct verbs_comm *comm, const struct verbs_send *send)
{
    return (unsigned)(send - comm->sends);
}

static void give_slot(struct verbs_comm *comm, struct verbs_send *send)
{
    unsigned slot = slot_of(comm, send);

    send->active = 0;
    comm->free_sends[slot / 64] |= 1ull << (slot % 64);
}

uint32_t verbs_segment_length(const struct verbs_comm *comm, const struct verbs_send_part *part,
                              uint32_t k)
{
    uint32_t left = part->length - k * comm->max_segment;
    return left < comm->max_segment ? left : comm->max_segment;
}

static void plan_parts(struct verbs_comm *comm, struct verbs_send *send)
{
    struct verbs_part parts[VERBS_QPS];
    uint64_t rounded = send->size / comm->max_segment + (uint64_t)comm->n_qps;
    int most = rounded > VERBS_SEGMENTS ? 1 : comm->n_qps;
    if (most > send->cts.parts)
        most = send->cts.parts ? send->cts.parts : 1;
    int n = verbs_split(comm->ways, comm->n_qps, comm->turn, send->size, most, parts);

    comm->turn = (comm->turn + 1) % comm->n_qps;
    send->n_parts = (uint16_t)n;
    send->segments = 0;
    for (int i = 0; i < n; i++) {
        uint32_t cut = parts[i].length ? (parts[i].length - 1) / comm->max_segment + 1 : 1;
        send->parts[i] = (struct verbs_send_part){.offset = parts[i].offset,
                                                  .length = parts[i].length,
                                                  .first = send->segments,
                                                  .n_segments = (uint16_t)cut,
                                                  .qp = (uint8_t)parts[i].way};
        send->segments = (uint16_t)(send->segments + cut);
    }
    send->unposted = send->pending = send->segments;
}

/* The part, of which nothing is under way, goes on by a link that is there. 0: there is none, or
 * what its own has done is not known yet. */
static int reroute(struct verbs_comm *comm, struct verbs_send_part *part)
{
    const struct verbs_link *link = &comm->links[comm->qps[part->qp].link];
    struct verbs_part whole[VERBS_QPS];

    if (!link->recovery.away)
        return 1;
    if (comm->n_away == comm->n_links ||
        (link->recovery.state != VERBS_DOWN && link->recovery.state != VERBS_JOINING))
        return 0;
    uint32_t left = part->length - part->posted * comm->max_segment;
    (void)verbs_split(comm->ways, comm->n_qps, comm->turn, left, 1, whole);
    part->qp = (uint8_t)whole[0].way;
    comm->turn = (comm->turn + 1) % comm->n_qps;
    return 1;
}

/* 1 posted, 0 no room in the send queue, -1 failed. */
static int post_segment(struct verbs_comm *comm, struct verbs_send *send,
                        struct verbs_send_part *part)
{
    struct verbs_qp *qp = &comm->qps[part->qp];
    struct verbs_link *link = &comm->links[qp->link];
    uint32_t length = verbs_segment_length(comm, part, part->posted);
    uint32_t offset = part->offset + part->posted * comm->max_segment;
    struct ibv_send_wr wr, *bad;
    struct ibv_sge sge;

    if (qp->posted - qp->retired >= qp->depth)
        return 0;
    wr.wr_id = verbs_wr_pack(VERBS_DATA, send->generation, slot_of(comm, send),
                             (unsigned)(part - send->parts), part->qp, qp->posted + 1);
    wr.next = NULL;
    wr.sg_list = &sge;
    wr.num_sge = length > 0;
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.imm_data = htonl(verbs_imm_pack(send->cts.seq, (uint32_t)part->first + part->posted,
                                       send->segments, link->recovery.turn & 31));
    wr.wr.rdma.remote_addr = send->cts.address + offset;
    wr.wr.rdma.rkey = send->cts.rkeys[qp->link];
    if (length) {
        sge.addr = (uint64_t)(uintptr_t)send->data + offset;
        sge.length = length;
        sge.lkey = send->memory->mrs[link->device->index]->lkey;
        if (send->host && length <= link->max_inline)
            wr.send_flags |= IBV_SEND_INLINE;
    }
    int error = ibv_post_send(qp->qp, &wr, &bad);
    if (error)
        return verbs_refused(comm, qp->link, "a write", error) ? -1 : 0;
    qp->posted++;
    part->posted++;
    send->unposted--;
    link->pending++;
    comm->ways[part->qp].outstanding += length;
    return 1;
}

static enum mn_err post_all(struct verbs_comm *comm, struct verbs_send *send)
{
    for (int i = 0; i < send->n_parts; i++) {
        struct verbs_send_part *part = &send->parts[i];
        int posted = part->posted == part->n_segments || reroute(comm, part);
        while (posted > 0 && part->posted < part->n_segments)
            posted = post_segment(comm, send, part);
        if (posted < 0)
            return verbs_error(comm);
    }
    return MN_OK;
}

/* What found no room in the send queues when it was posted. */
static enum mn_err post_waiting(struct verbs_comm *comm)
{
    enum mn_err err = MN_OK;

    for (unsigned i = 0; i < VERBS_SLOTS && comm->waiting && !err; i++) {
        struct verbs_send *send = &comm->sends[i];
        if (!send->active || !send->unposted)
            continue;
        err = post_all(comm, send);
        comm->waiting -= !send->unposted;
    }
    return err;
}

/* --- completions ------------------------------------------------------------------------------ */

int verbs_is_settled(const struct verbs_comm *comm, const struct verbs_send *send)
{
    for (int i = 0; i < send->n_parts && comm->n_away; i++)
        if (comm->links[comm->qps[send->parts[i].qp].link].recovery.state == VERBS_FENCED)
            return 0;
    return 1;
}

static void on_completion(struct verbs_comm *comm, struct verbs_link *link, const struct ibv_wc *wc)
{
    struct verbs_wr id = verbs_wr_unpack(wc->wr_id);

    if (id.qp >= (unsigned)comm->n_qps || id.slot >= VERBS_SLOTS) {
        comm->stale++;
        return;
    }
    struct verbs_qp *qp = &comm->qps[id.qp];
    if (qp->number != wc->qp_num) {
        comm->stale++;
        return;
    }
    link->pending--;
    /* What a link that was given up has done, the receiver tells. */
    if (link->recovery.state == VERBS_FENCED)
        return;
    if (wc->status != IBV_WC_SUCCESS) {
        verbs_broken(comm, (int)id.qp, wc);
        return;
    }
    qp->retired += (uint16_t)(id.posted - qp->retired);
    if (comm->silent)
        verbs_heard(comm, qp->link);
    if (id.kind == VERBS_PROBE) {
        qp->probed_ms = 0;
        return;
    }
    struct verbs_send *send = &comm->sends[id.slot];
    if (!send->active || send->done || send->generation != id.generation ||
        id.part >= send->n_parts) {
        comm->stale++;
        return;
    }
    struct verbs_send_part *part = &send->parts[id.part];
    uint32_t bytes = verbs_segment_length(comm, part, part->acked);
    comm->ways[id.qp].outstanding -= bytes;
    link->carried += bytes;
    part->acked++;
    part->round = comm->round;
    if (--send->pending || !verbs_is_settled(comm, send))
        return;
    send->done = 1;
    if (send->n_parts > 1)
        verbs_weigh(comm, send, id.qp);
}

static enum mn_err progress(struct verbs_comm *comm)
{
    struct ibv_wc wcs[VERBS_BATCH];
    enum mn_err err = verbs_urgent(comm) ? verbs_look_soon(comm) : MN_OK;
    int moved = 0;

    if (err)
        return err;
    comm->round++;
    for (int i = 0; i < comm->n_links; i++) {
        struct verbs_link *link = &comm->links[i];
        if (!link->pending)
            continue;
        /* Providers read the owner bit of a completion before the rest of it with a barrier of
         * their own (udma_from_device_barrier), and let nothing pass it that is read later. */
        int n = ibv_poll_cq(link->cq, VERBS_BATCH, wcs);
        if (n < 0)
            return verbs_fail(comm, i, MN_ERR_SYS, "the completion queue cannot be read");
        for (int k = 0; k < n; k++) {
            on_completion(comm, link, &wcs[k]);
            moved += wcs[k].status == IBV_WC_SUCCESS;
        }
    }
    if (comm->waiting && moved) {
        err = post_waiting(comm);
        if (err)
            return err;
    }
    if (moved) {
        comm->idle = 0;
        return MN_OK;
    }
    return verbs_idle(comm);
}

enum mn_err verbs_send_again(struct verbs_comm *comm)
{
    comm->waiting = 0;
    for (unsigned i = 0; i < VERBS_SLOTS; i++)
        comm->waiting += comm->sends[i].active && comm->sends[i].unposted;
    return post_waiting(comm);
}

enum mn_err verbs_send_progress(struct verbs_comm *comm)
{
    return progress(comm);
}

void verbs_send_landed(struct verbs_comm *comm, uint32_t seq)
{
    for (unsigned i = 0; i < VERBS_SLOTS; i++) {
        struct verbs_send *send = &comm->sends[i];
        if (send->active && (int32_t)(send->cts.seq - seq) < 0)
            send->done = 1;
    }
}

/* --- the two calls ---------------------------------------------------------------------------- */

enum mn_err verbs_isend(struct mn_comm *base, void *data, size_t size, int tag, void *mhandle,
                        struct mn_request **request)
{
    struct verbs_comm *comm = (struct verbs_comm *)base;
    enum mn_err err = verbs_error(comm);

    *request = NULL;
    if (err)
        return err;
    int place = comm->n_away == comm->n_links ? -1 : place_for(comm, tag);
    if (place < 0)
        return progress(comm);
    const struct verbs_cts *cts = &comm->head[place];
    if (size > cts->size || size > comm->max_message)
        return verbs_fail(comm, -1, MN_ERR_TOO_LONG,
                          "message with tag %d has %zu bytes, the receive posted for it takes %u",
                          tag, size, cts->size < comm->max_message ? cts->size : comm->max_message);
    if (size && !verbs_covers(comm, mhandle, data, size))
        return verbs_fail(comm, -1, MN_ERR_USAGE,
                          "%zu bytes at %p are outside the registered memory", size, data);
    struct verbs_send *send = take_slot(comm);
    if (!send)
        return progress(comm);
    send->base.comm = base;
    send->active = 1;
    send->done = 0;
    send->size = (uint32_t)size;
    send->data = data;
    send->memory = mhandle;
    send->host = size && send->memory->type == NCCL_PTR_HOST;
    send->cts = *cts;
    fill_place(comm, place);
    plan_parts(comm, send);
    err = post_all(comm, send);
    if (err)
        return err;
    comm->waiting += send->unposted > 0;
    *request = &send->base;
    return MN_OK;
}

enum mn_err verbs_send_test(struct verbs_comm *comm, struct verbs_send *send, int *done, int *sizes)
{
    *done = 0;
    if (!send->done) {
        enum mn_err err = verbs_error(comm);
        if (!err)
            err = progress(comm);
        if (!send->done)
            return err;
    }
    *done = 1;
    if (sizes)
        *sizes = (int)send->size;
    give_slot(comm, send);
    return MN_OK;
}
