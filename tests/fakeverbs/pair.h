/* Two connected queue pairs with a memory region each, for tests of the double. */
#ifndef FAKEVERBS_PAIR_H
#define FAKEVERBS_PAIR_H

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#define PAIR_MEMORY (1u << 20)

struct pair_options {
    uint32_t send_wr, recv_wr, inline_data, sge;
    int cqe, access, device_b; /* b is on that device */
    uint8_t rnr_retry, retry_cnt;
};

static const struct pair_options pair_defaults = {
    .send_wr = 16,
    .recv_wr = 16,
    .inline_data = 64,
    .sge = 4,
    .cqe = 64,
    .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
    .rnr_retry = 7,
    .retry_cnt = 7,
};

struct pair_end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *memory;
};

struct pair {
    struct pair_end a, b;
    struct ibv_mr far; /* of b in another process */
};

static void end_make(struct pair_end *end, const struct pair_options *o, int device)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    assert_non_null(list);
    assert_non_null(list[device]);
    end->context = ibv_open_device(list[device]);
    assert_non_null(end->context);
    ibv_free_device_list(list);
    end->pd = ibv_alloc_pd(end->context);
    assert_non_null(end->pd);
    end->cq = ibv_create_cq(end->context, o->cqe, NULL, NULL, 0);
    assert_non_null(end->cq);
    struct ibv_qp_init_attr attr = {
        .send_cq = end->cq,
        .recv_cq = end->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = o->send_wr,
                .max_recv_wr = o->recv_wr,
                .max_send_sge = o->sge,
                .max_recv_sge = o->sge,
                .max_inline_data = o->inline_data},
    };
    end->qp = ibv_create_qp(end->pd, &attr);
    assert_non_null(end->qp);
    end->memory = calloc(1, PAIR_MEMORY);
    assert_non_null(end->memory);
    end->mr = ibv_reg_mr(end->pd, end->memory, PAIR_MEMORY, o->access);
    assert_non_null(end->mr);
}

static int end_init(struct pair_end *end, const struct pair_options *o)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = (unsigned int)o->access};
    return ibv_modify_qp(end->qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int end_rtr(struct pair_end *end, uint32_t dest_qpn, union ibv_gid dgid)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = dest_qpn,
        .rq_psn = 5,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = dgid, .sgid_index = 3}},
    };
    return ibv_modify_qp(end->qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int end_rts(struct pair_end *end, const struct pair_options *o)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .timeout = 14,
                               .retry_cnt = o->retry_cnt,
                               .rnr_retry = o->rnr_retry,
                               .sq_psn = 5,
                               .max_rd_atomic = 1};
    return ibv_modify_qp(end->qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void pair_make(struct pair *p, const struct pair_options *o)
{
    struct pair_end *ends[] = {&p->a, &p->b};
    union ibv_gid gids[2];
    for (int i = 0; i < 2; i++) {
        end_make(ends[i], o, i ? o->device_b : 0);
        assert_int_equal(ibv_query_gid(ends[i]->context, 1, 3, &gids[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(end_init(ends[i], o), 0);
        assert_int_equal(end_rtr(ends[i], ends[!i]->qp->qp_num, gids[!i]), 0);
        assert_int_equal(end_rts(ends[i], o), 0);
    }
}

static void end_free(struct pair_end *end)
{
    if (end->qp)
        assert_int_equal(ibv_destroy_qp(end->qp), 0);
    assert_int_equal(ibv_dereg_mr(end->mr), 0);
    assert_int_equal(ibv_destroy_cq(end->cq), 0);
    assert_int_equal(ibv_dealloc_pd(end->pd), 0);
    assert_int_equal(ibv_close_device(end->context), 0);
    free(end->memory);
}

static void pair_free(struct pair *p)
{
    end_free(&p->a);
    end_free(&p->b);
}

static inline struct ibv_sge pair_sge(const struct pair_end *end, size_t offset, uint32_t length)
{
    return (struct ibv_sge){(uintptr_t)end->memory + offset, length, end->mr->lkey};
}

/* A signaled WRITE_WITH_IMM from a into b's memory. */
static inline struct ibv_send_wr pair_write_imm(const struct pair *p, struct ibv_sge *sge,
                                                size_t offset, uint32_t imm)
{
    return (struct ibv_send_wr){
        .wr_id = 1000 + offset,
        .sg_list = sge,
        .num_sge = sge ? 1 : 0,
        .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
        .send_flags = IBV_SEND_SIGNALED,
        .imm_data = imm,
        .wr.rdma = {.remote_addr = (uintptr_t)p->b.memory + offset, .rkey = p->b.mr->rkey},
    };
}

static inline int pair_post(struct pair_end *end, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    return ibv_post_send(end->qp, wr, &bad);
}

static inline void pair_post_recv(struct pair_end *end, uint64_t wr_id)
{
    struct ibv_recv_wr wr = {.wr_id = wr_id}, *bad;
    assert_int_equal(ibv_post_recv(end->qp, &wr, &bad), 0);
}

/* The next completion; fails the test when none comes. */
static inline struct ibv_wc pair_wait(struct pair_end *end)
{
    struct ibv_wc wc;
    for (int i = 0; i < 100000; i++)
        if (ibv_poll_cq(end->cq, 1, &wc) == 1)
            return wc;
    fail_msg("no completion came");
    return wc;
}

#endif
