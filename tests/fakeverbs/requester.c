/* The sending half of a queue pair: work requests to packets, answers to completions. */
#include "tests/fakeverbs/fv.h"

#include <string.h>

static struct fv_swqe *at(struct fv_qp *qp, uint64_t index)
{
    return &qp->sq[index % qp->cap.max_send_wr];
}

static void finish(struct fv_qp *qp, enum ibv_wc_status status)
{
    struct fv_swqe *w = at(qp, qp->sq_acked);
    w->status = status;
    w->ready = fv_ready(qp);
    if (w->opcode == IBV_WR_RDMA_READ && qp->reads > 0)
        qp->reads--;
    qp->sq_acked++;
}

void fv_send_fail(struct fv_qp *qp, enum ibv_wc_status status)
{
    if (qp->sq_acked < qp->sq_posted)
        finish(qp, status);
    fv_qp_error(qp);
}

/* --- sending --- */

static enum ibv_wc_status check(struct fv_qp *qp, const struct fv_swqe *w)
{
    if (w->length > (uint64_t)fv.config.max_msg ||
        (qp->base.qp_type == IBV_QPT_UD && w->length > (uint64_t)fv.config.mtu))
        return IBV_WC_LOC_LEN_ERR;
    if (w->opcode == IBV_WR_RDMA_READ && qp->attr.max_rd_atomic == 0)
        return IBV_WC_LOC_QP_OP_ERR;
    unsigned int access = w->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0;
    for (int i = 0; i < w->n_sge && !(w->flags & IBV_SEND_INLINE); i++)
        if (w->sge[i].length > 0 && !fv_mr_by_lkey(qp->base.pd, &w->sge[i], access))
            return IBV_WC_LOC_PROT_ERR;
    return IBV_WC_SUCCESS;
}

/* Faults that are counted by operations; the status is what the operation ends with. */
static enum ibv_wc_status begin(struct fv_qp *qp)
{
    static const enum ibv_wc_status errors[] = {IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR,
                                                IBV_WC_REM_OP_ERR,    IBV_WC_REM_INV_REQ_ERR,
                                                IBV_WC_LOC_PROT_ERR,  IBV_WC_LOC_QP_OP_ERR,
                                                IBV_WC_GENERAL_ERR};
    const struct fv_config *c = &fv.config;
    uint64_t n = ++fv.ops;
    fv.counters[FV_OPS]++;
    qp->device->ops++;
    if (c->silent && n >= (uint64_t)c->silent)
        fv.silent = 1;
    if (c->flap && n == (uint64_t)c->flap) {
        qp->device->up_at = fv.tick + (uint64_t)c->flap_polls;
        fv_port_set(qp->device, 0);
    }
    if (c->error && n == (uint64_t)c->error)
        return errors[fv_below(&qp->rng, sizeof errors / sizeof *errors)];
    return IBV_WC_SUCCESS;
}

/* length bytes of a work request's data from offset on, in or out; -1 when a region is gone. */
static int copy(struct fv_qp *qp, const struct fv_swqe *w, uint64_t index, uint64_t offset,
                uint8_t *data, uint64_t length, int in)
{
    if (w->flags & IBV_SEND_INLINE) {
        memcpy(data,
               qp->inline_data + (size_t)(index % qp->cap.max_send_wr) * qp->cap.max_inline_data +
                   offset,
               length);
        return 0;
    }
    for (int i = 0; i < w->n_sge && length > 0; i++) {
        const struct ibv_sge *sge = &w->sge[i];
        if (offset >= sge->length) {
            offset -= sge->length;
            continue;
        }
        uint64_t n = sge->length - offset < length ? sge->length - offset : length;
        struct fv_mr *mr = fv_mr_by_lkey(qp->base.pd, sge, in ? IBV_ACCESS_LOCAL_WRITE : 0);
        if (!mr)
            return -1;
        uint8_t *local = fv_mr_local(mr, sge->addr + offset);
        if (in)
            fv_dma(local, data, n);
        else
            fv_dma(data, local, n);
        data += n;
        length -= n;
        offset = 0;
    }
    return 0;
}

static int may_start(struct fv_qp *qp, const struct fv_swqe *w)
{
    if ((w->flags & IBV_SEND_FENCE) && qp->reads > 0)
        return 0;
    return w->opcode != IBV_WR_RDMA_READ || qp->reads < qp->attr.max_rd_atomic;
}

/* The head of the next packet in the peer's ring; NULL when that is full. */
static struct fv_packet *request(const struct fv_qp *qp, const struct fv_swqe *w,
                                 struct fv_wire *peer, uint32_t bytes)
{
    struct fv_packet *packet = fv_ring_room(&peer->req, peer->req_data, FV_REQ_RING, bytes);
    if (!packet)
        return NULL;
    packet->type = FV_REQUEST;
    packet->opcode = (uint8_t)w->opcode;
    packet->first = w->offset == 0;
    packet->src_qpn = qp->base.qp_num;
    packet->message = (uint32_t)qp->sq_sent;
    packet->imm = w->imm;
    packet->rkey = w->rkey;
    packet->addr = w->addr;
    packet->offset = w->offset;
    packet->total = w->length;
    packet->rnr_retry = qp->attr.rnr_retry;
    packet->solicited = (w->flags & IBV_SEND_SOLICITED) != 0;
    packet->qkey = w->qkey;
    return packet;
}

/* Without answers: what cannot be delivered is lost, and the work is done when the last packet has
 * left. Sends wait for room in a ring, though: the double loses nothing by being slow. */
static int send_unreliable(struct fv_qp *qp, struct fv_swqe *w)
{
    int is_ud = qp->base.qp_type == IBV_QPT_UD;
    uint64_t left = w->length - w->offset;
    uint32_t bytes = left < FV_FRAGMENT ? (uint32_t)left : FV_FRAGMENT;
    struct fv_wire *peer = is_ud ? fv_datagram_to(qp, w) : fv_reachable(qp);
    if (w->offset == 0)
        w->lost = fv.config.lose && ++fv.unreliable % (uint64_t)fv.config.lose == 0;
    if (peer && !fv.silent && !w->lost) {
        while (atomic_exchange(&peer->putting, 1))
            ;
        struct fv_packet *packet = request(qp, w, peer, bytes);
        int gone = packet && copy(qp, w, qp->sq_sent, w->offset, packet->data, bytes, 0) != 0;
        if (packet && !gone) {
            packet->last = w->offset + bytes == w->length;
            fv_ring_put(&peer->req, packet);
        }
        atomic_store(&peer->putting, 0);
        if (!packet)
            return -1;
        if (gone) {
            w->status = IBV_WC_LOC_PROT_ERR;
            return 1;
        }
        fv_bell(peer);
        fv.counters[FV_BYTES] += bytes;
        qp->device->bytes += bytes;
    }
    w->offset += bytes;
    if (w->offset == w->length) {
        qp->sq_sent++;
        finish(qp, IBV_WC_SUCCESS);
    }
    return 1;
}

/* The device takes its time for a packet. 0: it is not done with the one before. */
static int take_turn(struct fv_device *device)
{
    long slow = device->config->slow;
    if (slow == 0)
        return 1;
    uint64_t now = fv_is_shared() ? fv_now() : fv.tick;
    if (now < device->free_at)
        return 0;
    device->free_at = now + (uint64_t)slow * (fv_is_shared() ? 1000 : 1);
    return 1;
}

int fv_send_step(struct fv_qp *qp)
{
    if (qp->base.state != IBV_QPS_RTS || qp->sq_sent == qp->sq_posted)
        return 0;
    struct fv_swqe *w = at(qp, qp->sq_sent);
    if (fv.tick < w->ready)
        return -1;
    if (!w->started) {
        if (!may_start(qp, w))
            return -1;
        w->started = 1;
        enum ibv_wc_status status = begin(qp);
        if (status == IBV_WC_SUCCESS)
            status = check(qp, w);
        w->status = status;
    }
    if (w->status != IBV_WC_SUCCESS) {
        /* It fails by itself, after what was sent before it is answered. */
        if (qp->sq_acked < qp->sq_sent)
            return -1;
        fv_send_fail(qp, w->status);
        return 1;
    }
    if (qp->base.qp_type != IBV_QPT_RC)
        return send_unreliable(qp, w);
    struct fv_wire *peer = fv.silent ? NULL : fv_reachable(qp);
    if (!peer)
        return -1;
    int is_read = w->opcode == IBV_WR_RDMA_READ;
    uint64_t left = w->length - w->offset;
    uint32_t bytes = is_read ? 0 : left < FV_FRAGMENT ? (uint32_t)left : FV_FRAGMENT;
    if (!take_turn(qp->device))
        return -1;
    struct fv_packet *packet = request(qp, w, peer, bytes);
    if (!packet)
        return -1;
    if (!is_read && copy(qp, w, qp->sq_sent, w->offset, packet->data, bytes, 0) != 0) {
        w->status = IBV_WC_LOC_PROT_ERR;
        return 1;
    }
    w->offset += bytes;
    packet->last = is_read || w->offset == w->length;
    qp->reads += is_read;
    qp->sq_sent += packet->last;
    fv_ring_put(&peer->req, packet);
    fv_bell(peer);
    fv.counters[FV_BYTES] += bytes;
    qp->device->bytes += bytes;
    return 1;
}

/* --- answers --- */

static void answered(struct fv_qp *qp, const struct fv_packet *packet)
{
    /* Answers come in order, and one means that all before it went well. */
    uint32_t ahead = packet->message - (uint32_t)qp->sq_acked;
    if (packet->src_qpn != qp->attr.dest_qp_num || ahead >= qp->sq_sent - qp->sq_acked) {
        fv.counters[FV_STALE]++;
        return;
    }
    if (packet->type == FV_READ_DATA) {
        uint64_t index = qp->sq_acked + ahead;
        if (copy(qp, at(qp, index), index, packet->offset, (uint8_t *)(uintptr_t)packet->data,
                 packet->length, 1) != 0) {
            for (; ahead > 0; ahead--)
                finish(qp, IBV_WC_SUCCESS);
            fv_send_fail(qp, IBV_WC_LOC_PROT_ERR);
            return;
        }
    }
    if (!packet->last)
        return;
    for (; ahead > 0; ahead--)
        finish(qp, IBV_WC_SUCCESS);
    if (packet->status == IBV_WC_SUCCESS)
        finish(qp, IBV_WC_SUCCESS);
    else
        fv_send_fail(qp, (enum ibv_wc_status)packet->status);
}

int fv_answer_step(struct fv_qp *qp)
{
    struct fv_packet *packet = fv_ring_peek(&qp->wire->rsp, qp->wire->rsp_data, FV_RSP_RING);
    if (!packet)
        return 0;
    const struct fv_wire *peer = fv_peer(qp);
    int there = atomic_load(&peer->qpn) == packet->src_qpn;
    if (fv.silent || fv.muted || !atomic_load(&qp->wire->link_up) ||
        atomic_load(&qp->wire->lost) & FV_LOST_IN || (there && !fv_passes(peer, qp->wire)))
        return -1;
    if (qp->base.state == IBV_QPS_RTS)
        answered(qp, packet);
    fv_ring_take(&qp->wire->rsp, packet);
    return 1;
}
