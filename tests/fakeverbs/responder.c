/* The receiving half of a queue pair: packets to memory, receive completions and answers. */
#include "tests/fakeverbs/fv.h"

static int wants_recv(const struct fv_packet *packet)
{
    int is_send = packet->opcode == IBV_WR_SEND || packet->opcode == IBV_WR_SEND_WITH_IMM;
    return (is_send && packet->first) ||
           (packet->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && packet->last);
}

static void done(struct fv_qp *qp, const struct fv_packet *packet)
{
    fv_ring_take(&qp->wire->req, packet);
    qp->rx_seen = 0;
}

/* The requester, or NULL when it is gone: then nobody needs an answer. */
static struct fv_wire *requester(const struct fv_qp *qp)
{
    struct fv_wire *peer = fv_peer(qp);
    return atomic_load(&peer->qpn) == qp->attr.dest_qp_num ? peer : NULL;
}

/* Room was made sure of before. */
static void answer(struct fv_qp *qp, const struct fv_packet *packet, enum ibv_wc_status status)
{
    if (qp->base.qp_type != IBV_QPT_RC)
        return;
    struct fv_wire *peer = requester(qp);
    struct fv_packet *ack = peer ? fv_ring_room(&peer->rsp, peer->rsp_data, FV_RSP_RING, 0) : NULL;
    if (!ack)
        return;
    ack->type = FV_ACK;
    ack->last = 1;
    ack->src_qpn = qp->base.qp_num;
    ack->message = packet->message;
    ack->status = (uint32_t)status;
    fv_ring_put(&peer->rsp, ack);
    fv_bell(peer);
}

static struct fv_rwqe *front(struct fv_qp *qp)
{
    return &qp->rq[qp->rq_used % qp->cap.max_recv_wr];
}

static void use_recv(struct fv_qp *qp, const struct fv_packet *packet, const struct ibv_wc *wc)
{
    struct fv_rwqe *w = front(qp);
    w->wc = *wc;
    w->wc.wr_id = w->wr_id;
    w->wc.src_qp = packet->src_qpn;
    w->solicited = packet->solicited;
    w->ready = fv_ready(qp);
    qp->rq_used++;
}

/* This packet and the rest of its message are lost: nobody is told on an unreliable queue pair. */
static int drop(struct fv_qp *qp, const struct fv_packet *packet)
{
    qp->rx_dropping = !packet->last;
    done(qp, packet);
    return 1;
}

/* The request cannot be carried out: the requester learns why, this queue pair is at its end. */
static int refuse(struct fv_qp *qp, const struct fv_packet *packet, enum ibv_wc_status theirs,
                  enum ibv_event_type event)
{
    if (qp->base.qp_type != IBV_QPT_RC)
        return drop(qp, packet);
    answer(qp, packet, theirs);
    done(qp, packet);
    fv_event_qp(qp, event);
    fv_qp_error(qp);
    return 1;
}

static int refuse_recv(struct fv_qp *qp, const struct fv_packet *packet, enum ibv_wc_status mine,
                       enum ibv_wc_status theirs)
{
    use_recv(qp, packet, &(struct ibv_wc){.status = mine});
    answer(qp, packet, theirs);
    done(qp, packet);
    fv_qp_error(qp);
    return 1;
}

/* No receive is posted: 1 when the requester's patience is at its end. */
static int not_ready(struct fv_qp *qp, const struct fv_packet *packet)
{
    fv.counters[FV_RNR] += !qp->rx_denied;
    if (qp->base.qp_type != IBV_QPT_RC || qp->lingers)
        return drop(qp, packet);
    if (packet->rnr_retry != 7 && qp->rx_rnr++ >= packet->rnr_retry) {
        answer(qp, packet, IBV_WC_RNR_RETRY_EXC_ERR);
        done(qp, packet);
        return 1;
    }
    qp->rx_gate = fv.tick + 16;
    return -1;
}

/* A packet's data lands in up to four pieces in any order, a piece a step, or at once. */
static void cut(struct fv_qp *qp, const struct fv_packet *packet)
{
    int n = 1;
    if (fv.config.reorder && packet->length >= 8)
        n = 1 + (int)fv_below(&qp->rng, FV_PIECES);
    qp->rx_pieces = n;
    qp->rx_piece = 0;
    for (int i = 0; i < n; i++)
        qp->rx_order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)fv_below(&qp->rng, (uint64_t)i + 1), swap = qp->rx_order[i];
        qp->rx_order[i] = qp->rx_order[j];
        qp->rx_order[j] = swap;
    }
}

/* Edges of a piece; inner ones are multiples of 4, for flags are words. */
static uint32_t edge(const struct fv_qp *qp, const struct fv_packet *packet, int i)
{
    return i == qp->rx_pieces
               ? packet->length
               : (uint32_t)((uint64_t)packet->length * (uint64_t)i / (uint64_t)qp->rx_pieces) & ~3u;
}

static void next_piece(struct fv_qp *qp, const struct fv_packet *packet, uint32_t *from,
                       uint32_t *to)
{
    int i = qp->rx_order[qp->rx_piece++];
    *from = edge(qp, packet, i);
    *to = edge(qp, packet, i + 1);
}

static int write_step(struct fv_qp *qp, const struct fv_packet *packet)
{
    if (packet->length > 0) {
        uint8_t *to = qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE
                          ? fv_mr_by_rkey(qp->base.pd, packet->rkey, packet->addr, packet->total,
                                          IBV_ACCESS_REMOTE_WRITE)
                          : NULL;
        if (!to)
            return refuse(qp, packet, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
        uint32_t from, end;
        next_piece(qp, packet, &from, &end);
        fv_mr_write(packet->rkey, to + packet->offset + from, packet->data + from, end - from);
        if (qp->rx_piece < qp->rx_pieces)
            return 1;
    }
    if (!packet->last) {
        done(qp, packet);
        return 1;
    }
    if (packet->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
        use_recv(qp, packet,
                 &(struct ibv_wc){.status = IBV_WC_SUCCESS,
                                  .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                                  .byte_len = (uint32_t)packet->total,
                                  .imm_data = packet->imm,
                                  .wc_flags = IBV_WC_WITH_IMM});
    answer(qp, packet, IBV_WC_SUCCESS);
    done(qp, packet);
    return 1;
}

/* Bytes of a receive that come before the data: where a datagram is from, left as they were. */
static uint64_t before(const struct fv_qp *qp)
{
    return qp->base.qp_type == IBV_QPT_UD ? sizeof(struct ibv_grh) : 0;
}

/* 0, or what is wrong with the receive's buffers. */
static enum ibv_wc_status scatter(struct fv_qp *qp, const struct fv_packet *packet)
{
    const struct fv_rwqe *w = front(qp);
    uint64_t room = 0, offset = packet->offset + before(qp), done_bytes = 0;
    for (int i = 0; i < w->n_sge; i++)
        room += w->sge[i].length;
    if (packet->total + before(qp) > room)
        return IBV_WC_LOC_LEN_ERR;
    for (int i = 0; i < w->n_sge && done_bytes < packet->length; i++) {
        const struct ibv_sge *sge = &w->sge[i];
        if (offset >= sge->length) {
            offset -= sge->length;
            continue;
        }
        struct fv_mr *mr = fv_mr_by_lkey(qp->base.pd, sge, IBV_ACCESS_LOCAL_WRITE);
        if (!mr)
            return IBV_WC_LOC_PROT_ERR;
        uint64_t n = sge->length - offset;
        if (n > packet->length - done_bytes)
            n = packet->length - done_bytes;
        fv_dma(fv_mr_local(mr, sge->addr + offset), packet->data + done_bytes, n);
        done_bytes += n;
        offset = 0;
    }
    return IBV_WC_SUCCESS;
}

static int send_step(struct fv_qp *qp, const struct fv_packet *packet)
{
    enum ibv_wc_status wrong = scatter(qp, packet);
    if (wrong != IBV_WC_SUCCESS)
        return refuse_recv(qp, packet, wrong,
                           wrong == IBV_WC_LOC_LEN_ERR ? IBV_WC_REM_INV_REQ_ERR
                                                       : IBV_WC_REM_OP_ERR);
    if (packet->last) {
        int imm = packet->opcode == IBV_WR_SEND_WITH_IMM;
        use_recv(qp, packet,
                 &(struct ibv_wc){.status = IBV_WC_SUCCESS,
                                  .opcode = IBV_WC_RECV,
                                  .byte_len = (uint32_t)(packet->total + before(qp)),
                                  .imm_data = imm ? packet->imm : 0,
                                  .wc_flags =
                                      (imm ? IBV_WC_WITH_IMM : 0) | (before(qp) ? IBV_WC_GRH : 0)});
        answer(qp, packet, IBV_WC_SUCCESS);
    }
    done(qp, packet);
    return 1;
}

static int read_step(struct fv_qp *qp, const struct fv_packet *packet)
{
    if (qp->attr.max_dest_rd_atomic == 0)
        return refuse(qp, packet, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
    const uint8_t *from = NULL;
    fv_mr_settle(qp->base.context);
    if (packet->total > 0) {
        from = qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ
                   ? fv_mr_by_rkey(qp->base.pd, packet->rkey, packet->addr, packet->total,
                                   IBV_ACCESS_REMOTE_READ)
                   : NULL;
        if (!from)
            return refuse(qp, packet, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    }
    uint64_t left = packet->total - qp->rx_offset;
    uint32_t bytes = left < FV_FRAGMENT ? (uint32_t)left : FV_FRAGMENT;
    struct fv_wire *peer = requester(qp);
    if (!peer) {
        done(qp, packet);
        return 1;
    }
    struct fv_packet *data = fv_ring_room(&peer->rsp, peer->rsp_data, FV_RSP_RING, bytes);
    if (!data)
        return -1;
    data->type = FV_READ_DATA;
    data->src_qpn = qp->base.qp_num;
    data->message = packet->message;
    data->status = IBV_WC_SUCCESS;
    data->offset = qp->rx_offset;
    if (bytes > 0)
        fv_dma(data->data, from + qp->rx_offset, bytes);
    qp->rx_offset += bytes;
    data->last = qp->rx_offset == packet->total;
    if (data->last)
        done(qp, packet);
    fv_ring_put(&peer->rsp, data);
    fv_bell(peer);
    return 1;
}

int fv_request_step(struct fv_qp *qp)
{
    const struct fv_packet *packet = fv_ring_peek(&qp->wire->req, qp->wire->req_data, FV_REQ_RING);
    if (!packet)
        return 0;
    if (fv.silent || !atomic_load(&qp->wire->link_up) || atomic_load(&qp->wire->lost) & FV_LOST_IN)
        return -1;
    int receives =
        qp->base.state == IBV_QPS_RTR || qp->base.state == IBV_QPS_RTS || fv.tick < qp->lingers;
    int is_ud = qp->base.qp_type == IBV_QPT_UD;
    if (!receives ||
        (is_ud ? packet->qkey != qp->attr.qkey : packet->src_qpn != qp->attr.dest_qp_num)) {
        fv.counters[FV_STALE]++;
        done(qp, packet);
        return 1;
    }
    if (!qp->rx_seen) {
        qp->rx_seen = 1;
        qp->rx_gate = fv_ready(qp);
        qp->rx_offset = 0;
        qp->rx_rnr = 0;
        cut(qp, packet);
    }
    if (qp->rx_gate > fv.tick)
        return -1;
    if (qp->rx_dropping && !packet->first)
        return drop(qp, packet);
    qp->rx_dropping = 0;
    struct fv_wire *peer = qp->base.qp_type == IBV_QPT_RC ? requester(qp) : NULL;
    if (peer && !fv_ring_room(&peer->rsp, peer->rsp_data, FV_RSP_RING, 0))
        return -1;
    if (wants_recv(packet) && qp->rq_used == qp->rq_posted)
        return not_ready(qp, packet);
    if (packet->opcode == IBV_WR_RDMA_READ)
        return read_step(qp, packet);
    return packet->opcode == IBV_WR_SEND || packet->opcode == IBV_WR_SEND_WITH_IMM
               ? send_step(qp, packet)
               : write_step(qp, packet);
}
