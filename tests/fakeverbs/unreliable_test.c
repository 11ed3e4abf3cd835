/* Unreliable connections and datagrams of the double. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <infiniband/verbs.h>

#include "tests/fakeverbs/fakeverbs.h"

#define MEMORY (256u << 10)
#define QKEY   0x1234
#define ALL    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* Two queue pairs of one process, memory[0] of the first. */
struct two {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq[2];
    struct ibv_qp *qp[2];
    struct ibv_mr *mr[2];
    struct ibv_ah *ah;
    uint8_t *memory[2];
};

static int to_rts(struct two *t, int i, enum ibv_qp_type type, union ibv_gid gid)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
                            .port_num = 1,
                            .qkey = QKEY,
                            .qp_access_flags = ALL};
    int ud = type == IBV_QPT_UD;
    int err = ibv_modify_qp(t->qp[i], &a,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
    a = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = t->qp[!i]->qp_num,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = 3}},
    };
    err = err ? err
              : ibv_modify_qp(t->qp[i], &a,
                              IBV_QP_STATE | (ud ? 0
                                                 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                                       IBV_QP_RQ_PSN));
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS};
    return err ? err : ibv_modify_qp(t->qp[i], &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

static void make(struct two *t, enum ibv_qp_type type)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    union ibv_gid gid;

    t->context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    t->pd = ibv_alloc_pd(t->context);
    assert_int_equal(ibv_query_gid(t->context, 1, 3, &gid), 0);
    for (int i = 0; i < 2; i++) {
        t->cq[i] = ibv_create_cq(t->context, 64, NULL, NULL, 0);
        struct ibv_qp_init_attr attr = {
            .send_cq = t->cq[i],
            .recv_cq = t->cq[i],
            .qp_type = type,
            .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
        };
        t->qp[i] = ibv_create_qp(t->pd, &attr);
        assert_non_null(t->qp[i]);
        t->memory[i] = calloc(1, MEMORY);
        t->mr[i] = ibv_reg_mr(t->pd, t->memory[i], MEMORY, ALL);
        assert_non_null(t->mr[i]);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(to_rts(t, i, type, gid), 0);
    struct ibv_ah_attr to = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = 3}};
    t->ah = ibv_create_ah(t->pd, &to);
    assert_non_null(t->ah);
}

static void end(struct two *t)
{
    assert_int_equal(ibv_dealloc_pd(t->pd), EBUSY);
    assert_int_equal(ibv_destroy_ah(t->ah), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ibv_destroy_qp(t->qp[i]), 0);
        assert_int_equal(ibv_dereg_mr(t->mr[i]), 0);
        assert_int_equal(ibv_destroy_cq(t->cq[i]), 0);
        free(t->memory[i]);
    }
    assert_int_equal(ibv_dealloc_pd(t->pd), 0);
    assert_int_equal(ibv_close_device(t->context), 0);
}

/* Posts one signaled request of the first's memory; its errno. */
static int post(struct two *t, enum ibv_wr_opcode opcode, uint32_t length, uint32_t qkey)
{
    struct ibv_sge sge = {(uintptr_t)t->memory[0], length, t->mr[0]->lkey};
    struct ibv_send_wr wr = {.wr_id = length,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED,
                             .imm_data = 77},
                       *bad;

    if (t->qp[0]->qp_type == IBV_QPT_UD) {
        wr.wr.ud.ah = t->ah;
        wr.wr.ud.remote_qpn = t->qp[1]->qp_num;
        wr.wr.ud.remote_qkey = qkey;
    } else {
        wr.wr.rdma.remote_addr = (uintptr_t)t->memory[1];
        wr.wr.rdma.rkey = t->mr[1]->rkey;
    }
    return ibv_post_send(t->qp[0], &wr, &bad);
}

static void post_recv(struct two *t, uint32_t length)
{
    struct ibv_sge sge = {(uintptr_t)t->memory[1], length, t->mr[1]->lkey};
    struct ibv_recv_wr wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1}, *bad;

    assert_int_equal(ibv_post_recv(t->qp[1], &wr, &bad), 0);
}

/* The next completion of a side; wr_id ~0 when there is none. */
static struct ibv_wc next(struct two *t, int i)
{
    struct ibv_wc wc;

    for (int n = 0; n < 1000; n++)
        if (ibv_poll_cq(t->cq[i], 1, &wc) == 1)
            return wc;
    return (struct ibv_wc){.wr_id = ~0ull};
}

static void sent(struct two *t)
{
    struct ibv_wc wc = next(t, 0);
    assert_int_not_equal(wc.wr_id, ~0ull);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void uc_carries_writes_and_sends(void **state)
{
    struct two t;

    (void)state;
    make(&t, IBV_QPT_UC);
    memset(t.memory[0], 9, MEMORY);
    post_recv(&t, 0);
    assert_int_equal(post(&t, IBV_WR_RDMA_WRITE_WITH_IMM, MEMORY, 0), 0);
    sent(&t);
    struct ibv_wc wc = next(&t, 1);
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(wc.imm_data, 77);
    assert_memory_equal(t.memory[0], t.memory[1], MEMORY);
    memset(t.memory[0], 8, MEMORY);
    post_recv(&t, MEMORY);
    assert_int_equal(post(&t, IBV_WR_SEND, MEMORY, 0), 0);
    sent(&t);
    wc = next(&t, 1);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.byte_len, MEMORY);
    assert_memory_equal(t.memory[0], t.memory[1], MEMORY);
    assert_int_equal(post(&t, IBV_WR_RDMA_READ, 8, 0), EINVAL);
    end(&t);
}

/* All of a message, however many packets it has; the next one arrives. */
static void uc_loses_what_finds_no_receive(void **state)
{
    struct two t;

    (void)state;
    make(&t, IBV_QPT_UC);
    assert_int_equal(post(&t, IBV_WR_SEND, MEMORY, 0), 0);
    sent(&t);
    assert_int_equal(next(&t, 1).wr_id, ~0ull);
    post_recv(&t, MEMORY);
    assert_int_equal(post(&t, IBV_WR_SEND, 64, 0), 0);
    sent(&t);
    assert_int_equal(next(&t, 1).byte_len, 64);
    assert_int_equal(next(&t, 1).wr_id, ~0ull);
    end(&t);
}

static void uc_loses_what_may_not_be_written(void **state)
{
    struct two t;

    (void)state;
    make(&t, IBV_QPT_UC);
    t.mr[1]->rkey ^= 1;
    assert_int_equal(post(&t, IBV_WR_RDMA_WRITE, 64, 0), 0);
    sent(&t);
    t.mr[1]->rkey ^= 1;
    memset(t.memory[0], 3, 64);
    assert_int_equal(post(&t, IBV_WR_RDMA_WRITE, 64, 0), 0);
    sent(&t);
    next(&t, 1);
    assert_memory_equal(t.memory[0], t.memory[1], 64);
    end(&t);
}

static void ud_has_forty_bytes_before_the_data(void **state)
{
    struct two t;

    (void)state;
    make(&t, IBV_QPT_UD);
    memset(t.memory[0], 6, 4096);
    post_recv(&t, 40 + 4096);
    assert_int_equal(post(&t, IBV_WR_SEND_WITH_IMM, 4096, QKEY), 0);
    sent(&t);
    struct ibv_wc wc = next(&t, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, 40 + 4096);
    assert_int_equal(wc.src_qp, t.qp[0]->qp_num);
    assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
    assert_memory_equal(t.memory[0], t.memory[1] + 40, 4096);
    assert_int_equal(post(&t, IBV_WR_RDMA_WRITE, 8, QKEY), EINVAL);
    /* A receive without room for the forty bytes is too short. */
    post_recv(&t, 64);
    assert_int_equal(post(&t, IBV_WR_SEND, 64, QKEY), 0);
    sent(&t);
    assert_int_equal(next(&t, 1).status, IBV_WC_LOC_LEN_ERR);
    end(&t);
}

static void ud_has_a_key_and_an_mtu(void **state)
{
    struct two t;

    (void)state;
    make(&t, IBV_QPT_UD);
    post_recv(&t, 8192);
    assert_int_equal(post(&t, IBV_WR_SEND, 8, QKEY + 1), 0);
    sent(&t);
    assert_int_equal(next(&t, 1).wr_id, ~0ull);
    assert_int_equal(post(&t, IBV_WR_SEND, 4097, QKEY), 0);
    assert_int_equal(next(&t, 0).status, IBV_WC_LOC_LEN_ERR);
    end(&t);
}

static void every_nth_message_is_lost(void **state)
{
    static const enum ibv_qp_type types[] = {IBV_QPT_UC, IBV_QPT_UD};
    struct two t;

    (void)state;
    for (int k = 0; k < 2; k++) {
        int arrived = 0;
        make(&t, types[k]);
        fakeverbs_set("lose=4");
        for (int i = 0; i < 8; i++) {
            post_recv(&t, 4096);
            assert_int_equal(post(&t, IBV_WR_SEND, 8, QKEY), 0);
            sent(&t);
        }
        while (next(&t, 1).wr_id != ~0ull)
            arrived++;
        assert_int_equal(arrived, 6);
        fakeverbs_set("lose=0");
        end(&t);
    }
}

static void each_type_has_its_attributes(void **state)
{
    struct two t;
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};

    (void)state;
    make(&t, IBV_QPT_UD);
    assert_int_equal(ibv_modify_qp(t.qp[0], &a, IBV_QP_STATE), 0);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1};
    assert_int_equal(ibv_modify_qp(t.qp[0], &a,
                                   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                       IBV_QP_ACCESS_FLAGS),
                     EINVAL);
    end(&t);
    make(&t, IBV_QPT_UC);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET};
    assert_int_equal(ibv_modify_qp(t.qp[0], &a, IBV_QP_STATE), 0);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1};
    assert_int_equal(ibv_modify_qp(t.qp[0], &a,
                                   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                     EINVAL);
    end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uc_carries_writes_and_sends),
        cmocka_unit_test(uc_loses_what_finds_no_receive),
        cmocka_unit_test(uc_loses_what_may_not_be_written),
        cmocka_unit_test(ud_has_forty_bytes_before_the_data),
        cmocka_unit_test(ud_has_a_key_and_an_mtu),
        cmocka_unit_test(every_nth_message_is_lost),
        cmocka_unit_test(each_type_has_its_attributes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
