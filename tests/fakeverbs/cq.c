/* Completion queues. */
#include "tests/fakeverbs/fv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int comp_vector)
{
    fv_control(FV_CREATE_CQ);
    fv_lock();
    int err = fv_fails(FV_FAIL_CREATE_CQ);
    int bad = cqe < 1 || cqe > fv.config.max_cqe || comp_vector != 0;
    fv_unlock();
    if (err) {
        errno = err;
        return NULL;
    }
    if (bad || (channel && channel->context != context)) {
        errno = EINVAL;
        return NULL;
    }
    struct fv_cq *cq = calloc(1, sizeof *cq);
    struct fv_cqe *ring = calloc((size_t)cqe, sizeof *ring);
    if (!cq || !ring) {
        free(cq);
        free(ring);
        errno = ENOMEM;
        return NULL;
    }
    cq->ring = ring;
    cq->base.context = context;
    cq->base.cq_context = cq_context;
    cq->base.cqe = cqe;
    cq->base.channel = channel;
    fv_lock();
    if (channel)
        channel->refcnt++;
    fv_context_of(context)->children++;
    fv.live_cqs++;
    fv_unlock();
    return &cq->base;
}

int ibv_destroy_cq(struct ibv_cq *base)
{
    struct fv_cq *cq = (struct fv_cq *)base;
    fv_control(FV_DESTROY);
    fv_lock();
    int busy = cq->qps > 0;
    if (!busy) {
        fv_event_settle(fv_context_of(base->context), cq, &cq->unacked, "ibv_destroy_cq");
        fv_channel_drop(cq);
        fv_context_of(base->context)->children--;
        fv.live_cqs--;
    }
    fv_unlock();
    if (busy)
        return EBUSY;
    free(cq->ring);
    free(cq);
    return 0;
}

/* An overrun queue loses completions, so all its queue pairs are beyond saving. */
static void overrun(struct fv_cq *cq)
{
    cq->overrun = 1;
    fv_event_put(fv_context_of(cq->base.context),
                 (struct ibv_async_event){.element.cq = &cq->base, .event_type = IBV_EVENT_CQ_ERR});
    for (int i = 0; i < fv.live_qps; i++) {
        struct fv_qp *qp = fv.live[i];
        if (qp->base.send_cq == &cq->base || qp->base.recv_cq == &cq->base) {
            fv_event_qp(qp, IBV_EVENT_QP_FATAL);
            fv_qp_error(qp);
        }
    }
}

void fv_cq_put(struct fv_cq *cq, struct fv_qp *qp, const struct ibv_wc *wc, int is_send,
               uint64_t index, int solicited)
{
    if (wc->status == IBV_WC_WR_FLUSH_ERR)
        fv.counters[FV_FLUSHES]++;
    else if (wc->status != IBV_WC_SUCCESS)
        fv.counters[FV_ERRORS]++;
    if (cq->overrun)
        return;
    if (cq->tail - cq->head == (uint64_t)cq->base.cqe) {
        overrun(cq);
        return;
    }
    struct fv_cqe *cqe = &cq->ring[cq->tail++ % (uint64_t)cq->base.cqe];
    cqe->wc = *wc;
    cqe->serial = qp->serial;
    cqe->index = index;
    cqe->slot = qp->slot;
    cqe->is_send = is_send;
    /* Some devices leave completions of a destroyed queue pair behind, others remove them. */
    cqe->orphan = fv.config.reorder && fv_below(&qp->rng, 2);
    cqe->wc.qp_num = qp->base.qp_num;
    fv_channel_notify(cq, solicited || wc->status != IBV_WC_SUCCESS);
    if (wc->status == IBV_WC_SUCCESS)
        return;
    /* Of a failed completion only wr_id, status, qp_num and vendor_err mean anything. */
    memset(&cqe->wc.opcode, 0x5a, sizeof cqe->wc.opcode);
    cqe->wc.byte_len = cqe->wc.imm_data = 0x5a5a5a5a;
    cqe->wc.wc_flags = 0x5a;
}

/* 1 when it was for a caller to see. */
static int take(struct fv_cq *cq, struct ibv_wc *wc)
{
    const struct fv_cqe *cqe = &cq->ring[cq->head++ % (uint64_t)cq->base.cqe];
    struct fv_qp *qp = fv.qps[cqe->slot];
    if (qp && qp->serial == cqe->serial) {
        uint64_t *freed = cqe->is_send ? &qp->sq_freed : &qp->rq_freed;
        *freed = cqe->index + 1;
    } else if (!cqe->orphan) {
        return 0;
    }
    *wc = cqe->wc;
    return 1;
}

int fv_poll_cq(struct ibv_cq *base, int n, struct ibv_wc *wc)
{
    struct fv_cq *cq = (struct fv_cq *)base;
    fv_lock();
    fv.counters[FV_POLLS]++;
    fv_run();
    if (fv.config.slowcq && n > 0)
        n = (int)fv_below(&fv.rng, 2);
    int got = 0;
    while (got < n && cq->head < cq->tail)
        got += take(cq, &wc[got]);
    fv_unlock();
    return got;
}
