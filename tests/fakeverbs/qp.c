/* Queue pairs: making them, their states, and what a state change may and must say. */
#include "tests/fakeverbs/fv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int caps_ok(const struct ibv_qp_cap *cap)
{
    return cap->max_send_wr >= 1 && (long)cap->max_send_wr <= fv.config.max_qp_wr &&
           (long)cap->max_recv_wr <= fv.config.max_qp_wr &&
           (long)cap->max_send_sge <= fv.config.max_sge &&
           (long)cap->max_recv_sge <= fv.config.max_sge &&
           (long)cap->max_inline_data <= fv.config.max_inline;
}

/* A free wire, claimed: other processes look for one, too. */
static int claim(struct fv_qp *qp)
{
    struct fv_arena *arena = fv.arena;
    for (int tried = 0; tried < FV_SLOTS; tried++) {
        uint32_t slot = atomic_fetch_add(&arena->cursor, 1) & (FV_SLOTS - 1);
        struct fv_wire *wire = &arena->wires[slot];
        uint32_t number = (uint32_t)(1 + fv_below(&qp->rng, (1 << 12) - 2)) * FV_SLOTS + slot,
                 none = 0;
        if (!atomic_compare_exchange_strong(&wire->qpn, &none, number))
            continue;
        fv_ring_clear(&wire->req);
        fv_ring_clear(&wire->rsp);
        atomic_store(&wire->putting, 0);
        atomic_store(&wire->owner, 1 + fv.proc_slot);
        atomic_store(&wire->state, IBV_QPS_RESET);
        atomic_store(&wire->link_up, (uint32_t)qp->device->port_up);
        atomic_store(&wire->lost, qp->device->config->lost);
        qp->wire = wire;
        qp->slot = slot;
        qp->base.qp_num = number;
        fv.qps[slot] = qp;
        return 0;
    }
    return ENOMEM;
}

static void release(struct fv_qp *qp)
{
    free(qp->sq);
    free(qp->rq);
    free(qp->sges);
    free(qp->inline_data);
    free(qp);
}

static int make_queues(struct fv_qp *qp)
{
    const struct ibv_qp_cap *cap = &qp->cap;
    size_t n_send = cap->max_send_wr, n_recv = cap->max_recv_wr;
    qp->sq = calloc(n_send, sizeof *qp->sq);
    qp->rq = calloc(n_recv + 1, sizeof *qp->rq);
    qp->sges =
        calloc(n_send * cap->max_send_sge + n_recv * cap->max_recv_sge + 1, sizeof *qp->sges);
    qp->inline_data = malloc(n_send * cap->max_inline_data + 1);
    if (!qp->sq || !qp->rq || !qp->sges || !qp->inline_data)
        return -1;
    struct ibv_sge *sge = qp->sges;
    for (size_t i = 0; i < n_send; i++, sge += cap->max_send_sge)
        qp->sq[i].sge = sge;
    for (size_t i = 0; i < n_recv; i++, sge += cap->max_recv_sge)
        qp->rq[i].sge = sge;
    return 0;
}

static int make(struct fv_qp *qp, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct fv_cq *send_cq = (struct fv_cq *)attr->send_cq, *recv_cq = (struct fv_cq *)attr->recv_cq;
    if ((attr->qp_type != IBV_QPT_RC && attr->qp_type != IBV_QPT_UC &&
         attr->qp_type != IBV_QPT_UD) ||
        attr->srq)
        return EOPNOTSUPP;
    if (!send_cq || !recv_cq || !caps_ok(&attr->cap))
        return EINVAL;
    if (fv.live_qps >= fv.config.max_qp)
        return ENOMEM;
    if (fv.config.inline_every && attr->cap.max_inline_data &&
        (long)((fv.qps_made + 1) % (uint64_t)fv.config.inline_every))
        return EINVAL;
    fv.qps_made++;
    qp->cap = attr->cap;
    qp->device = fv_context_of(pd->context)->device;
    qp->rng = fv_split(&fv.rng);
    if (make_queues(qp) != 0 || claim(qp) != 0)
        return ENOMEM;
    qp->serial = ++fv.serial;
    qp->sig_all = attr->sq_sig_all;
    qp->base.context = pd->context;
    qp->base.qp_context = attr->qp_context;
    qp->base.pd = pd;
    qp->base.send_cq = attr->send_cq;
    qp->base.recv_cq = attr->recv_cq;
    qp->base.state = IBV_QPS_RESET;
    qp->base.qp_type = attr->qp_type;
    qp->wire->type = attr->qp_type;
    send_cq->qps++;
    recv_cq->qps++;
    ((struct fv_pd *)pd)->children++;
    qp->live = fv.live_qps;
    fv.live[fv.live_qps++] = qp;
    return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    fv_control(FV_CREATE_QP);
    struct fv_qp *qp = calloc(1, sizeof *qp);
    if (!qp)
        return NULL;
    fv_lock();
    int err = fv_fails(FV_FAIL_CREATE_QP);
    if (!err)
        err = make(qp, pd, attr);
    fv_unlock();
    if (err == 0)
        return &qp->base;
    release(qp);
    errno = err;
    return NULL;
}

int ibv_destroy_qp(struct ibv_qp *base)
{
    struct fv_qp *qp = (struct fv_qp *)base;
    fv_control(FV_DESTROY);
    fv_lock();
    fv_event_settle(fv_context_of(base->context), qp, &qp->unacked, "ibv_destroy_qp");
    fv_deactivate(qp);
    fv.qps[qp->slot] = NULL;
    fv_wire_free(qp->wire);
    ((struct fv_cq *)base->send_cq)->qps--;
    ((struct fv_cq *)base->recv_cq)->qps--;
    ((struct fv_pd *)base->pd)->children--;
    struct fv_qp *last = fv.live[--fv.live_qps];
    fv.live[qp->live] = last;
    last->live = qp->live;
    fv_unlock();
    release(qp);
    return 0;
}

/* --- states --- */

struct move {
    enum ibv_qp_state from, to;
    int required, optional;
};

static const struct move reliable[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {0},
};

static const struct move unreliable[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
     IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
    {0},
};

static const struct move datagrams[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
    {IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {0},
};

static int allowed(const struct fv_qp *qp, enum ibv_qp_state to, int mask)
{
    enum ibv_qp_state from = qp->base.state;
    const struct move *moves = qp->base.qp_type == IBV_QPT_RC   ? reliable
                               : qp->base.qp_type == IBV_QPT_UC ? unreliable
                                                                : datagrams;
    mask &= ~IBV_QP_STATE;
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
        return mask == 0;
    for (size_t i = 0; moves[i].to; i++)
        if (moves[i].from == from && moves[i].to == to)
            return (mask & moves[i].required) == moves[i].required &&
                   (mask & ~(moves[i].required | moves[i].optional)) == 0;
    return 0;
}

static int values_ok(const struct fv_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    if (((mask & IBV_QP_PORT) && attr->port_num != 1) ||
        ((mask & IBV_QP_PKEY_INDEX) && attr->pkey_index != 0) ||
        ((mask & IBV_QP_MIN_RNR_TIMER) && attr->min_rnr_timer > 31) ||
        ((mask & IBV_QP_TIMEOUT) && attr->timeout > 31) ||
        ((mask & IBV_QP_RETRY_CNT) && attr->retry_cnt > 7) ||
        ((mask & IBV_QP_RNR_RETRY) && attr->rnr_retry > 7) ||
        ((mask & IBV_QP_DEST_QPN) && attr->dest_qp_num >> 24) ||
        ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != qp->base.state) ||
        ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > fv.config.max_rd_atomic) ||
        ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && attr->max_dest_rd_atomic > fv.config.max_rd_atomic))
        return 0;
    if ((mask & IBV_QP_PATH_MTU) &&
        (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > IBV_MTU_4096 ||
         128 << attr->path_mtu > fv.config.mtu))
        return 0;
    return 1;
}

/* The address of RTR. It is resolved by the caller's thread, without the lock. */
static int set_path(struct fv_qp *qp, const struct ibv_ah_attr *ah)
{
    union ibv_gid gid;
    int type;
    fv_gid_used(qp->device, 1);
    int global = ah->is_global || !fv.config.infiniband;
    union ibv_gid to = ah->grh.dgid;
    if ((!ah->is_global && fv.config.infiniband != 1) || ah->port_num != 1 ||
        ah->grh.sgid_index >= FV_GIDS ||
        fv_gid_at(qp->device, global ? ah->grh.sgid_index : 0, &gid, &type) != 0)
        return EINVAL;
    if (fv.config.infiniband && (ah->dlid < 1 || ah->dlid > fv.config.n_devices))
        return EINVAL;
    if (!global)
        fv_gid_at(&fv.devices[ah->dlid - 1], 0, &to, &type);
    if (!fv_gid_known(&to))
        return ETIMEDOUT;
    if (fv.config.rtr_silent) {
        fv.config.rtr_silent--;
        return ETIMEDOUT;
    }
    qp->wire->sgid = gid;
    qp->wire->gid_type = (uint32_t)type;
    qp->wire->dgid = to;
    return 0;
}

#define TAKE(bit, member)                                                                          \
    if (mask & (bit))                                                                              \
    qp->attr.member = attr->member

static void take_values(struct fv_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    TAKE(IBV_QP_PKEY_INDEX, pkey_index);
    TAKE(IBV_QP_PORT, port_num);
    TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
    TAKE(IBV_QP_AV, ah_attr);
    TAKE(IBV_QP_PATH_MTU, path_mtu);
    TAKE(IBV_QP_DEST_QPN, dest_qp_num);
    TAKE(IBV_QP_RQ_PSN, rq_psn);
    TAKE(IBV_QP_SQ_PSN, sq_psn);
    TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
    TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
    TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
    TAKE(IBV_QP_TIMEOUT, timeout);
    TAKE(IBV_QP_RETRY_CNT, retry_cnt);
    TAKE(IBV_QP_RNR_RETRY, rnr_retry);
    TAKE(IBV_QP_QKEY, qkey);
    qp->wire->qkey = qp->attr.qkey;
    qp->wire->dest_qpn = qp->attr.dest_qp_num;
    qp->wire->rq_psn = qp->attr.rq_psn & 0xffffff;
    qp->wire->sq_psn = qp->attr.sq_psn & 0xffffff;
    qp->wire->path_mtu = qp->attr.path_mtu;
}

void fv_qp_state(struct fv_qp *qp, enum ibv_qp_state state)
{
    qp->base.state = state;
    atomic_store(&qp->wire->state, state);
}

static void reset(struct fv_qp *qp)
{
    qp->sq_freed = qp->sq_released = qp->sq_acked = qp->sq_sent = qp->sq_posted;
    qp->rq_freed = qp->rq_released = qp->rq_used = qp->rq_posted;
    qp->reads = qp->rx_seen = qp->rx_dropping = qp->rx_denied = 0;
    qp->lingers = 0;
    qp->serial = ++fv.serial; /* completions of before mean nothing any more */
    memset(&qp->attr, 0, sizeof qp->attr);
    qp->ece = 0;
    fv_qp_state(qp, IBV_QPS_RESET);
}

static int modify(struct fv_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : qp->base.state;
    if (!allowed(qp, to, mask) || !values_ok(qp, attr, mask))
        return EINVAL;
    if (to == IBV_QPS_RESET) {
        reset(qp);
        return 0;
    }
    if (to == IBV_QPS_ERR) {
        if (qp->base.state != IBV_QPS_ERR && fv.config.linger)
            qp->lingers = fv.tick + 1 + fv_below(&qp->rng, (uint64_t)fv.config.linger);
        fv_qp_error(qp);
        return 0;
    }
    if (mask & IBV_QP_AV) {
        int err = set_path(qp, &attr->ah_attr);
        if (err)
            return err;
        fv.counters[FV_RTR]++;
        fv.classes[attr->ah_attr.grh.traffic_class]++;
        fv.levels[attr->ah_attr.sl & 15]++;
        qp->ece &= (uint32_t)fv.config.ece;
        fv.eces[qp->ece & 31]++;
    }
    if (mask & IBV_QP_TIMEOUT)
        fv.timeouts[attr->timeout]++;
    if (mask & IBV_QP_RETRY_CNT)
        fv.retries[attr->retry_cnt & 7]++;
    take_values(qp, attr, mask);
    fv_qp_state(qp, to);
    return 0;
}

/* In slices: the time may be changed while somebody waits. */
static void resolve(void)
{
    for (uint64_t since = fv_now(), left = 1; left;) {
        fv_lock();
        uint64_t until = since + (uint64_t)fv.config.drop_rtr * 1000000, now = fv_now();
        fv_unlock();
        left = until > now ? until - now : 0;
        if (left)
            nanosleep(&(struct timespec){0, left < 10000000 ? (long)left : 10000000}, NULL);
    }
}

#define VENDOR 0xfa4e

/* What the device has; from RTR on what both ends agreed upon. */
int ibv_query_ece(struct ibv_qp *base, struct ibv_ece *ece)
{
    fv_lock();
    int none = !fv.config.ece;
    int agreed = base->state == IBV_QPS_RTR || base->state == IBV_QPS_RTS;
    *ece =
        (struct ibv_ece){.vendor_id = VENDOR,
                         .options = agreed ? ((struct fv_qp *)base)->ece : (uint32_t)fv.config.ece};
    fv_unlock();
    return none ? EOPNOTSUPP : 0;
}

int ibv_set_ece(struct ibv_qp *base, struct ibv_ece *ece)
{
    fv_lock();
    int err = !fv.config.ece ? EOPNOTSUPP
              : base->state != IBV_QPS_INIT || ece->vendor_id != VENDOR || ece->comp_mask ? EINVAL
                                                                                          : 0;
    if (!err)
        ((struct fv_qp *)base)->ece = ece->options;
    fv_unlock();
    return err;
}

int ibv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
    fv_control(FV_MODIFY_QP);
    if (mask & IBV_QP_AV)
        resolve();
    fv_lock();
    int err = fv_fails(FV_FAIL_MODIFY_QP);
    if (!err && mask & IBV_QP_AV)
        err = fv_fails(FV_FAIL_RTR);
    if (!err)
        err = modify((struct fv_qp *)base, attr, mask);
    fv_run();
    fv_unlock();
    return err;
}

int ibv_query_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init)
{
    (void)mask; /* all of it, always */
    struct fv_qp *qp = (struct fv_qp *)base;
    fv_lock();
    *attr = qp->attr;
    attr->qp_state = attr->cur_qp_state = base->state;
    attr->cap = qp->cap;
    memset(init, 0, sizeof *init);
    init->qp_context = base->qp_context;
    init->send_cq = base->send_cq;
    init->recv_cq = base->recv_cq;
    init->cap = qp->cap;
    init->qp_type = base->qp_type;
    init->sq_sig_all = qp->sig_all;
    fv_unlock();
    return 0;
}

void fv_qp_error(struct fv_qp *qp)
{
    if (qp->base.state == IBV_QPS_ERR)
        return;
    fv_qp_state(qp, IBV_QPS_ERR);
    for (; qp->sq_acked < qp->sq_posted; qp->sq_acked++) {
        struct fv_swqe *w = &qp->sq[qp->sq_acked % qp->cap.max_send_wr];
        w->status = IBV_WC_WR_FLUSH_ERR;
        w->ready = fv_ready(qp);
    }
    qp->sq_sent = qp->sq_posted;
    qp->reads = 0;
    if (!qp->lingers)
        fv_qp_flush_receives(qp);
    fv_activate(qp);
}

void fv_qp_flush_receives(struct fv_qp *qp)
{
    for (; qp->rq_used < qp->rq_posted && !fv.config.noflush; qp->rq_used++) {
        struct fv_rwqe *w = &qp->rq[qp->rq_used % qp->cap.max_recv_wr];
        w->wc = (struct ibv_wc){.wr_id = w->wr_id, .status = IBV_WC_WR_FLUSH_ERR};
        w->ready = fv_ready(qp);
    }
    qp->lingers = qp->rx_seen = 0;
}
