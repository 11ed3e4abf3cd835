/* Posting work: what a device refuses at once. Keys and bounds it looks at later. */
#include "tests/fakeverbs/fv.h"

#include <errno.h>
#include <string.h>

static int opcode_ok(enum ibv_qp_type type, enum ibv_wr_opcode opcode)
{
    if (type == IBV_QPT_UD)
        return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
    if (type == IBV_QPT_UC && opcode == IBV_WR_RDMA_READ)
        return 0;
    return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
           opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_READ;
}

static int post_one_send(struct fv_qp *qp, const struct ibv_send_wr *wr)
{
    const unsigned int known =
        IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_FENCE | IBV_SEND_SOLICITED;
    if (qp->base.state != IBV_QPS_RTS && qp->base.state != IBV_QPS_ERR)
        return EINVAL;
    if (!opcode_ok(qp->base.qp_type, wr->opcode) || (wr->send_flags & ~known) || wr->num_sge < 0 ||
        wr->num_sge > (int)qp->cap.max_send_sge)
        return EINVAL;
    if (qp->sq_posted - qp->sq_freed == qp->cap.max_send_wr)
        return ENOMEM;
    uint64_t length = 0;
    for (int i = 0; i < wr->num_sge; i++)
        length += wr->sg_list[i].length;
    int is_inline = (wr->send_flags & IBV_SEND_INLINE) != 0;
    if (qp->base.qp_type == IBV_QPT_UD && (!wr->wr.ud.ah || wr->wr.ud.ah->pd != qp->base.pd))
        return EINVAL;
    if (is_inline && (length > qp->cap.max_inline_data || wr->opcode == IBV_WR_RDMA_READ))
        return EINVAL;
    struct fv_swqe *w = &qp->sq[qp->sq_posted % qp->cap.max_send_wr];
    *w = (struct fv_swqe){
        .wr_id = wr->wr_id,
        .length = length,
        .ready = fv_ready(qp), /* to be sent: the data is read no earlier */
        .addr = wr->wr.rdma.remote_addr,
        .opcode = wr->opcode,
        .status = IBV_WC_SUCCESS,
        .flags = wr->send_flags | (qp->sig_all ? IBV_SEND_SIGNALED : 0),
        .imm = wr->imm_data,
        .rkey = wr->wr.rdma.rkey,
        .n_sge = wr->num_sge,
        .sge = w->sge,
    };
    if (qp->base.qp_type == IBV_QPT_UD) {
        w->dest_qpn = wr->wr.ud.remote_qpn;
        w->qkey = wr->wr.ud.remote_qkey;
        w->dgid = ((const struct fv_ah *)wr->wr.ud.ah)->dgid;
    }
    if (is_inline) {
        uint8_t *to = qp->inline_data +
                      (size_t)(qp->sq_posted % qp->cap.max_send_wr) * qp->cap.max_inline_data;
        for (int i = 0; i < wr->num_sge; i++) {
            memcpy(to, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
            to += wr->sg_list[i].length;
        }
    } else if (wr->num_sge > 0) {
        memcpy(w->sge, wr->sg_list, (size_t)wr->num_sge * sizeof *w->sge);
    }
    qp->sq_posted++;
    if (qp->base.state == IBV_QPS_ERR) {
        w->status = IBV_WC_WR_FLUSH_ERR;
        w->ready = fv_ready(qp);
        qp->sq_acked = qp->sq_sent = qp->sq_posted;
    }
    return 0;
}

int fv_post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fv_qp *qp = (struct fv_qp *)base;
    fv_lock();
    int err = fv_fails(FV_FAIL_POST_SEND);
    if (err)
        *bad = wr;
    for (; wr && err == 0; wr = err ? wr : wr->next) {
        err = post_one_send(qp, wr);
        if (err)
            *bad = wr;
    }
    fv_activate(qp);
    fv_run();
    fv_unlock();
    return err;
}

static int post_one_recv(struct fv_qp *qp, const struct ibv_recv_wr *wr)
{
    if (qp->base.state == IBV_QPS_RESET || wr->num_sge < 0 ||
        wr->num_sge > (int)qp->cap.max_recv_sge)
        return EINVAL;
    if (qp->rq_posted - qp->rq_freed == qp->cap.max_recv_wr)
        return ENOMEM;
    struct fv_rwqe *w = &qp->rq[qp->rq_posted % qp->cap.max_recv_wr];
    *w = (struct fv_rwqe){.wr_id = wr->wr_id, .n_sge = wr->num_sge, .sge = w->sge};
    if (wr->num_sge > 0)
        memcpy(w->sge, wr->sg_list, (size_t)wr->num_sge * sizeof *w->sge);
    qp->rq_posted++;
    for (int i = 0; i < w->n_sge; i++)
        if (w->sge[i].length > 0)
            qp->rq_memory = qp->rq_posted;
    if (qp->base.state == IBV_QPS_ERR && !qp->lingers && !fv.config.noflush) {
        w->wc = (struct ibv_wc){.wr_id = w->wr_id, .status = IBV_WC_WR_FLUSH_ERR};
        w->ready = fv_ready(qp);
        qp->rq_used = qp->rq_posted;
    }
    return 0;
}

int fv_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fv_qp *qp = (struct fv_qp *)base;
    fv_lock();
    int err = fv_fails(FV_FAIL_POST_RECV);
    if (err) {
        *bad = wr;
        qp->rx_denied = 1;
    }
    for (; wr && err == 0; wr = err ? wr : wr->next) {
        err = post_one_recv(qp, wr);
        if (err)
            *bad = wr;
    }
    fv_activate(qp);
    fv_run();
    fv_unlock();
    return err;
}
