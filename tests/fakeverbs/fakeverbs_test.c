/* The double itself: that it does what a device does, and refuses what a device refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fakeverbs/pair.h"

#include <errno.h>
#include <string.h>

#include "tests/fakeverbs/fakeverbs.h"

static void write_with_imm_arrives(void **state)
{
    (void)state;
    struct pair p;
    pair_make(&p, &pair_defaults);
    memset(p.a.memory, 0x11, 4096);
    pair_post_recv(&p.b, 77);
    struct ibv_sge sge = pair_sge(&p.a, 0, 4096);
    struct ibv_send_wr wr = pair_write_imm(&p, &sge, 100, htobe32(0xabcdef01));
    assert_int_equal(pair_post(&p.a, &wr), 0);
    struct ibv_wc wc = pair_wait(&p.b);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(wc.wr_id, 77);
    assert_int_equal(wc.byte_len, 4096);
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
    assert_int_equal(be32toh(wc.imm_data), 0xabcdef01);
    assert_int_equal(wc.qp_num, p.b.qp->qp_num);
    assert_memory_equal(p.b.memory + 100, p.a.memory, 4096);
    assert_int_equal(p.b.memory[99], 0);
    assert_int_equal(p.b.memory[100 + 4096], 0);
    wc = pair_wait(&p.a);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
    assert_int_equal(wc.wr_id, wr.wr_id);
    pair_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_with_imm_arrives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
