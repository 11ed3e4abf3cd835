/* The double itself: that it does what a device does, and refuses what a device refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fakeverbs/pair.h"

#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fakeverbs/fakeverbs.h"
#include "tests/fakeverbs/fv.h"

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

static void put(struct pair *p, uint64_t wr_id, size_t offset, uint32_t length, int flags)
{
    struct ibv_sge sge = pair_sge(&p->a, offset, length);
    struct ibv_send_wr wr = pair_write_imm(p, &sge, offset, htobe32((uint32_t)wr_id));
    wr.wr_id = wr_id;
    wr.send_flags = (unsigned int)flags;
    assert_int_equal(pair_post(&p->a, &wr), 0);
}

static void fill(uint8_t *memory, size_t length)
{
    for (size_t i = 0; i < length; i++)
        memory[i] = (uint8_t)(i * 7 + (i >> 8));
}

static void polls(struct pair *p, int n)
{
    struct ibv_wc wc;
    for (int i = 0; i < n; i++)
        assert_int_equal(ibv_poll_cq(p->b.cq, 1, &wc), 0);
}

static void order_is_kept_on_a_queue_pair(void **state)
{
    (void)state;
    fakeverbs_set("delay=30,reorder=1");
    struct pair p;
    pair_make(&p, &pair_defaults);
    for (uint64_t i = 0; i < 16; i++)
        pair_post_recv(&p.b, 500 + i);
    for (uint64_t i = 0; i < 16; i++)
        put(&p, i, i * 512, 512, IBV_SEND_SIGNALED);
    for (uint64_t i = 0; i < 16; i++) {
        struct ibv_wc wc = pair_wait(&p.b);
        assert_int_equal(wc.wr_id, 500 + i);
        assert_int_equal(be32toh(wc.imm_data), i);
    }
    for (uint64_t i = 0; i < 16; i++)
        assert_int_equal(pair_wait(&p.a).wr_id, i);
    pair_free(&p);
    fakeverbs_set("delay=0,reorder=0");
}

static void long_message_arrives_whole(void **state)
{
    (void)state;
    fakeverbs_set("delay=3,reorder=1");
    struct pair p;
    pair_make(&p, &pair_defaults);
    fill(p.a.memory, PAIR_MEMORY);
    pair_post_recv(&p.b, 1);
    put(&p, 1, 0, PAIR_MEMORY, IBV_SEND_SIGNALED);
    struct ibv_wc wc = pair_wait(&p.b);
    assert_int_equal(wc.byte_len, PAIR_MEMORY);
    assert_memory_equal(p.a.memory, p.b.memory, PAIR_MEMORY);
    pair_free(&p);
    fakeverbs_set("delay=0,reorder=0");
}

/* A reader that does not wait for the completion may find the end before the beginning. */
static void writes_land_in_any_order(void **state)
{
    (void)state;
    fakeverbs_set("reorder=1,steps=1");
    int end_first = 0;
    for (int i = 0; i < 100; i++) {
        struct pair p;
        struct ibv_wc wc;
        pair_make(&p, &pair_defaults);
        memset(p.a.memory, 1, 64);
        pair_post_recv(&p.b, 1);
        put(&p, 1, 0, 64, 0);
        while (ibv_poll_cq(p.b.cq, 1, &wc) == 0)
            end_first |= p.b.memory[63] && !p.b.memory[0];
        assert_memory_equal(p.a.memory, p.b.memory, 64);
        pair_free(&p);
    }
    assert_true(end_first);
    fakeverbs_set("reorder=0,steps=64");
}

static void without_receive_it_waits_and_counts(void **state)
{
    (void)state;
    struct pair p;
    pair_make(&p, &pair_defaults);
    uint64_t before = fakeverbs_counter("rnr");
    put(&p, 1, 0, 8, IBV_SEND_SIGNALED);
    polls(&p, 1000);
    assert_true(fakeverbs_counter("rnr") > before);
    pair_post_recv(&p.b, 9);
    assert_int_equal(pair_wait(&p.b).wr_id, 9);
    assert_int_equal(pair_wait(&p.a).status, IBV_WC_SUCCESS);
    pair_free(&p);
}

static void without_the_receive_that_was_refused_it_waits(void **state)
{
    (void)state;
    struct pair p;
    pair_make(&p, &pair_defaults);
    uint64_t before = fakeverbs_counter("rnr");
    fakeverbs_set("fail=post_recv:1");
    struct ibv_recv_wr wr = {.wr_id = 8}, *bad = NULL;
    assert_int_not_equal(ibv_post_recv(p.b.qp, &wr, &bad), 0);
    put(&p, 1, 0, 8, IBV_SEND_SIGNALED);
    polls(&p, 1000);
    assert_int_equal(fakeverbs_counter("rnr"), before);
    pair_post_recv(&p.b, 9);
    assert_int_equal(pair_wait(&p.b).wr_id, 9);
    assert_int_equal(pair_wait(&p.a).status, IBV_WC_SUCCESS);
    pair_free(&p);
}

static void without_receive_it_gives_up(void **state)
{
    (void)state;
    struct pair_options o = pair_defaults;
    struct pair p;
    o.rnr_retry = 2;
    pair_make(&p, &o);
    put(&p, 1, 0, 8, IBV_SEND_SIGNALED);
    put(&p, 2, 0, 8, 0);
    assert_int_equal(pair_wait(&p.a).status, IBV_WC_RNR_RETRY_EXC_ERR);
    struct ibv_wc wc = pair_wait(&p.a);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(wc.wr_id, 2);
    pair_free(&p);
}

static void error_state_flushes_both_queues(void **state)
{
    (void)state;
    struct pair p;
    pair_make(&p, &pair_defaults);
    pair_post_recv(&p.a, 50);
    put(&p, 1, 0, 8, 0); /* not signaled: flushed all the same */
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    assert_int_equal(ibv_modify_qp(p.a.qp, &attr, IBV_QP_STATE), 0);
    put(&p, 2, 0, 8, 0);
    pair_post_recv(&p.a, 51);
    uint64_t seen = 0;
    for (int i = 0; i < 4; i++) {
        struct ibv_wc wc = pair_wait(&p.a);
        assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
        seen |= 1ull << wc.wr_id;
    }
    assert_int_equal(seen, 1ull << 1 | 1ull << 2 | 1ull << 50 | 1ull << 51);
    pair_free(&p);
}

/* The status of one operation, and of the event at the other end (-1: none). */
static enum ibv_wc_status outcome(const struct pair_options *o, struct ibv_send_wr *change,
                                  struct ibv_sge *sge, int *event)
{
    struct pair p;
    pair_make(&p, o);
    for (uint64_t i = 0; i < 2; i++)
        pair_post_recv(&p.b, i);
    struct ibv_sge mine = pair_sge(&p.a, 0, 64);
    mine.addr += sge->addr;
    mine.length += sge->length;
    mine.lkey += sge->lkey;
    struct ibv_send_wr wr = pair_write_imm(&p, &mine, 0, 0);
    wr.opcode = change->opcode;
    wr.wr.rdma.remote_addr += change->wr.rdma.remote_addr;
    wr.wr.rdma.rkey ^= change->wr.rdma.rkey;
    assert_int_equal(pair_post(&p.a, &wr), 0);
    enum ibv_wc_status status = pair_wait(&p.a).status;
    *event = -1;
    struct pollfd fd = {.fd = p.b.context->async_fd, .events = POLLIN};
    if (poll(&fd, 1, 0) == 1) {
        struct ibv_async_event e;
        assert_int_equal(ibv_get_async_event(p.b.context, &e), 0);
        assert_ptr_equal(e.element.qp, p.b.qp);
        *event = (int)e.event_type;
        ibv_ack_async_event(&e);
    }
    pair_free(&p);
    return status;
}

static void keys_bounds_and_access_are_checked(void **state)
{
    (void)state;
    const int all = pair_defaults.access,
              no_write = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    const int no_read = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    const struct {
        enum ibv_wr_opcode opcode;
        int access;
        struct ibv_sge sge; /* added to what is right */
        uint64_t addr;
        uint32_t rkey;
        enum ibv_wc_status status;
        int event;
    } rows[] = {
        {IBV_WR_RDMA_WRITE, all, {0}, 0, 0, IBV_WC_SUCCESS, -1},
        {IBV_WR_RDMA_READ, all, {0}, 0, 0, IBV_WC_SUCCESS, -1},
        {IBV_WR_RDMA_WRITE, all, {.lkey = 256}, 0, 0, IBV_WC_LOC_PROT_ERR, -1},
        {IBV_WR_RDMA_WRITE, all, {.lkey = 1u << 31}, 0, 0, IBV_WC_LOC_PROT_ERR, -1},
        {IBV_WR_RDMA_WRITE, all, {.addr = PAIR_MEMORY - 63}, 0, 0, IBV_WC_LOC_PROT_ERR, -1},
        {IBV_WR_RDMA_WRITE, all, {.addr = -1ull}, 0, 0, IBV_WC_LOC_PROT_ERR, -1},
        {IBV_WR_RDMA_WRITE, all, {0}, PAIR_MEMORY - 64, 0, IBV_WC_SUCCESS, -1},
        {IBV_WR_RDMA_WRITE,
         all,
         {0},
         PAIR_MEMORY - 63,
         0,
         IBV_WC_REM_ACCESS_ERR,
         IBV_EVENT_QP_ACCESS_ERR},
        {IBV_WR_RDMA_WRITE, all, {0}, -1ull, 0, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR},
        {IBV_WR_RDMA_WRITE, all, {0}, 0, 1, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR},
        {IBV_WR_RDMA_WRITE, all, {0}, 0, 1u << 31, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR},
        {IBV_WR_RDMA_WRITE, no_write, {0}, 0, 0, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR},
        {IBV_WR_RDMA_READ, no_read, {0}, 0, 0, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR},
        {IBV_WR_SEND, all, {0}, 0, 0, IBV_WC_REM_INV_REQ_ERR, -1}, /* the receive has no room */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pair_options o = pair_defaults;
        o.access = rows[i].access;
        struct ibv_send_wr change = {.opcode = rows[i].opcode};
        change.wr.rdma.remote_addr = rows[i].addr;
        change.wr.rdma.rkey = rows[i].rkey;
        struct ibv_sge sge = rows[i].sge;
        int event;
        enum ibv_wc_status status = outcome(&o, &change, &sge, &event);
        if (status != rows[i].status || event != rows[i].event)
            fail_msg("row %zu: status %s, event %d", i, ibv_wc_status_str(status), event);
    }
}

static void inline_data_is_taken_at_once(void **state)
{
    (void)state;
    struct pair p;
    pair_make(&p, &pair_defaults);
    fakeverbs_set("link=fv0:down"); /* nothing leaves yet */
    memset(p.a.memory, 5, 64);
    pair_post_recv(&p.b, 1);
    put(&p, 1, 0, 64, IBV_SEND_INLINE);
    memset(p.a.memory, 6, 64);
    struct ibv_sge sge = pair_sge(&p.a, 0, 65);
    struct ibv_send_wr wr = pair_write_imm(&p, &sge, 0, 0);
    wr.send_flags = IBV_SEND_INLINE;
    assert_int_equal(pair_post(&p.a, &wr), EINVAL);
    fakeverbs_set("link=fv0:up");
    assert_int_equal(pair_wait(&p.b).status, IBV_WC_SUCCESS);
    assert_int_equal(p.b.memory[0], 5);
    assert_int_equal(p.b.memory[63], 5);
    pair_free(&p);
}

static void send_queue_frees_by_polled_completions_only(void **state)
{
    (void)state;
    struct pair p;
    pair_make(&p, &pair_defaults);
    struct ibv_send_wr wr = pair_write_imm(&p, NULL, 0, 0);
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = 0;
    for (int i = 0; i < 15; i++)
        assert_int_equal(pair_post(&p.a, &wr), 0);
    wr.send_flags = IBV_SEND_SIGNALED;
    assert_int_equal(pair_post(&p.a, &wr), 0);
    polls(&p, 100); /* all carried out, and yet */
    assert_int_equal(pair_post(&p.a, &wr), ENOMEM);
    assert_int_equal(pair_wait(&p.a).status, IBV_WC_SUCCESS);
    for (int i = 0; i < 16; i++)
        assert_int_equal(pair_post(&p.a, &wr), 0);
    assert_int_equal(pair_post(&p.a, &wr), ENOMEM);
    pair_free(&p);
}

static void receive_queue_has_its_depth(void **state)
{
    (void)state;
    struct pair p;
    pair_make(&p, &pair_defaults);
    for (uint64_t i = 0; i < 16; i++)
        pair_post_recv(&p.a, i);
    struct ibv_recv_wr wr = {0}, *bad = NULL;
    assert_int_equal(ibv_post_recv(p.a.qp, &wr, &bad), ENOMEM);
    assert_ptr_equal(bad, &wr);
    pair_free(&p);
}

static void completion_queue_overruns(void **state)
{
    (void)state;
    struct pair_options o = pair_defaults;
    struct pair p;
    struct ibv_async_event e;
    o.cqe = 4;
    pair_make(&p, &o);
    struct ibv_send_wr wr = pair_write_imm(&p, NULL, 0, 0);
    wr.opcode = IBV_WR_RDMA_WRITE;
    for (int i = 0; i < 5; i++)
        assert_int_equal(pair_post(&p.a, &wr), 0);
    polls(&p, 100);
    assert_int_equal(ibv_get_async_event(p.a.context, &e), 0);
    assert_int_equal(e.event_type, IBV_EVENT_CQ_ERR);
    assert_ptr_equal(e.element.cq, p.a.cq);
    ibv_ack_async_event(&e);
    assert_int_equal(ibv_get_async_event(p.a.context, &e), 0);
    assert_int_equal(e.event_type, IBV_EVENT_QP_FATAL);
    ibv_ack_async_event(&e);
    assert_int_equal(p.a.qp->state, IBV_QPS_ERR);
    pair_free(&p);
}

static void send_scatters_into_the_receive(void **state)
{
    (void)state;
    struct pair p;
    pair_make(&p, &pair_defaults);
    fill(p.a.memory, 100);
    struct ibv_sge to[] = {pair_sge(&p.b, 0, 30), pair_sge(&p.b, 1000, 80)};
    struct ibv_recv_wr recv = {.wr_id = 3, .sg_list = to, .num_sge = 2}, *bad;
    assert_int_equal(ibv_post_recv(p.b.qp, &recv, &bad), 0);
    struct ibv_sge from[] = {pair_sge(&p.a, 0, 60), pair_sge(&p.a, 60, 40)};
    struct ibv_send_wr wr = pair_write_imm(&p, from, 0, 7);
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.num_sge = 2;
    assert_int_equal(pair_post(&p.a, &wr), 0);
    struct ibv_wc wc = pair_wait(&p.b);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.byte_len, 100);
    assert_int_equal(wc.imm_data, 7);
    assert_memory_equal(p.b.memory, p.a.memory, 30);
    assert_memory_equal(p.b.memory + 1000, p.a.memory + 30, 70);
    pair_free(&p);
}

static void states_and_attributes_are_insisted_on(void **state)
{
    (void)state;
    struct pair p;
    pair_make(&p, &pair_defaults);
    assert_int_equal(end_init(&p.a, &pair_defaults), EINVAL); /* from RTS */
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    assert_int_equal(ibv_modify_qp(p.a.qp, &attr, IBV_QP_STATE), 0);
    struct ibv_send_wr wr = pair_write_imm(&p, NULL, 0, 0);
    struct ibv_recv_wr recv = {0}, *bad;
    assert_int_equal(pair_post(&p.a, &wr), EINVAL);
    assert_int_equal(ibv_post_recv(p.a.qp, &recv, &bad), EINVAL);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1};
    assert_int_equal(ibv_modify_qp(p.a.qp, &attr, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
    assert_int_equal(end_init(&p.a, &pair_defaults), 0);
    union ibv_gid nobody = {.raw = {0xfe, 0x80, [15] = 9}}, gid;
    assert_int_equal(end_rtr(&p.a, p.b.qp->qp_num, nobody), ETIMEDOUT);
    assert_int_equal(ibv_query_gid(p.a.context, 1, 3, &gid), 0);
    fakeverbs_set("rtr_silent=1");
    assert_int_equal(end_rtr(&p.a, p.b.qp->qp_num, gid), ETIMEDOUT);
    assert_int_equal(end_rtr(&p.a, p.b.qp->qp_num, gid), 0);
    assert_int_equal(pair_post(&p.a, &wr), EINVAL);
    assert_int_equal(end_rts(&p.a, &pair_defaults), 0);
    pair_free(&p);
}

static void an_unknown_peer_is_retried_out(void **state)
{
    (void)state;
    struct pair p;
    pair_make(&p, &pair_defaults);
    assert_int_equal(ibv_destroy_qp(p.b.qp), 0);
    p.b.qp = NULL;
    put(&p, 4, 0, 8, IBV_SEND_SIGNALED);
    struct ibv_wc wc = pair_wait(&p.a);
    assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(wc.wr_id, 4);
    assert_int_equal(p.a.qp->state, IBV_QPS_ERR);
    pair_free(&p);
}

static void a_port_goes_down_and_comes_back(void **state)
{
    (void)state;
    struct pair p;
    struct ibv_async_event e;
    struct ibv_port_attr port;
    pair_make(&p, &pair_defaults);
    fakeverbs_set("link=fv0:down");
    assert_int_equal(ibv_get_async_event(p.a.context, &e), 0);
    assert_int_equal(e.event_type, IBV_EVENT_PORT_ERR);
    assert_int_equal(e.element.port_num, 1);
    ibv_ack_async_event(&e);
    assert_int_equal(ibv_query_port(p.a.context, 1, &port), 0);
    assert_int_equal(port.state, IBV_PORT_DOWN);
    pair_post_recv(&p.b, 1);
    put(&p, 1, 0, 8, IBV_SEND_SIGNALED);
    polls(&p, 200);
    fakeverbs_set("link=fv0:up");
    assert_int_equal(pair_wait(&p.a).status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_get_async_event(p.a.context, &e), 0);
    assert_int_equal(e.event_type, IBV_EVENT_PORT_ACTIVE);
    ibv_ack_async_event(&e);
    fakeverbs_set("link=fv0:down");
    put(&p, 2, 0, 8, IBV_SEND_SIGNALED);
    assert_int_equal(pair_wait(&p.a).status, IBV_WC_RETRY_EXC_ERR);
    pair_free(&p);
    fakeverbs_set("link=fv0:up");
}

static void the_nth_operation_fails(void **state)
{
    (void)state;
    char settings[64];
    struct pair p;
    pair_make(&p, &pair_defaults);
    snprintf(settings, sizeof settings, "error=%llu",
             (unsigned long long)fakeverbs_counter("ops") + 2);
    fakeverbs_set(settings);
    for (uint64_t i = 0; i < 3; i++) {
        pair_post_recv(&p.b, i);
        put(&p, i, 0, 8, IBV_SEND_SIGNALED);
    }
    assert_int_equal(pair_wait(&p.a).status, IBV_WC_SUCCESS);
    enum ibv_wc_status second = pair_wait(&p.a).status;
    assert_true(second != IBV_WC_SUCCESS && second != IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(pair_wait(&p.a).status, IBV_WC_WR_FLUSH_ERR);
    pair_free(&p);
    fakeverbs_set("error=0");
}

static void gid_table_has_holes_and_shifts(void **state)
{
    (void)state;
    struct pair p;
    struct ibv_gid_entry entries[64];
    static const uint8_t v4[16] = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1};
    pair_make(&p, &pair_defaults);
    assert_int_equal(ibv_query_gid_table(p.a.context, entries, 64, 0), 5);
    assert_int_equal(entries[0].gid_index, 0);
    assert_int_equal(entries[0].gid_type, IBV_GID_TYPE_ROCE_V2);
    assert_int_equal(entries[1].gid_index, 1);
    assert_int_equal(entries[1].gid_type, IBV_GID_TYPE_ROCE_V1);
    assert_int_equal(entries[2].gid_index, 3);
    assert_int_equal(entries[2].gid_type, IBV_GID_TYPE_ROCE_V2);
    assert_int_equal(entries[2].ndev_ifindex, if_nametoindex("lo"));
    assert_memory_equal(entries[2].gid.raw, v4, 16);
    fakeverbs_set("gidshift=1");
    assert_int_equal(ibv_query_gid_table(p.a.context, entries, 64, 0), 5);
    assert_int_equal(entries[2].gid_index, 4);
    fakeverbs_set("gidshift=0");
    pair_free(&p);
}

static void what_is_in_use_is_not_destroyed(void **state)
{
    (void)state;
    struct pair p;
    pair_make(&p, &pair_defaults);
    assert_int_equal(ibv_destroy_cq(p.a.cq), EBUSY);
    assert_int_equal(ibv_dealloc_pd(p.a.pd), EBUSY);
    pair_free(&p);
    assert_int_equal(fakeverbs_counter("qps"), 0);
    assert_int_equal(fakeverbs_counter("mrs"), 0);
}

/* What four queue pairs' completions look like in time. */
static uint64_t trace(const char *settings)
{
    enum { PAIRS = 4, EACH = 8 };
    struct pair p[PAIRS];
    uint64_t hash = 14695981039346656037u;
    fakeverbs_set(settings);
    for (int i = 0; i < PAIRS; i++) {
        pair_make(&p[i], &pair_defaults);
        for (uint64_t k = 0; k < EACH; k++)
            pair_post_recv(&p[i].b, k);
    }
    for (uint64_t k = 0; k < EACH; k++)
        for (int i = 0; i < PAIRS; i++)
            put(&p[i], k, 64 * k, 64, IBV_SEND_SIGNALED);
    for (int n = 0, done = 0; done < PAIRS * EACH * 2; n++) {
        assert_true(n < 100000);
        for (int i = 0; i < PAIRS * 2; i++) {
            struct ibv_wc wc;
            if (ibv_poll_cq(i % 2 ? p[i / 2].a.cq : p[i / 2].b.cq, 1, &wc) == 1) {
                hash = (hash ^ (uint64_t)(n * PAIRS * 2 + i)) * 1099511628211u;
                done++;
            }
        }
    }
    for (int i = 0; i < PAIRS; i++)
        pair_free(&p[i]);
    return hash;
}

static void a_seed_replays(void **state)
{
    (void)state;
    uint64_t one = trace("seed=1,delay=20,reorder=1"), two = trace("seed=2");
    assert_true(one != two);
    assert_true(one == trace("seed=1"));
    assert_true(two == trace("seed=2"));
    fakeverbs_set("delay=0,reorder=0");
}

/* --- in programs of their own --- */

static void role_dereg(void)
{
    struct pair p;
    pair_make(&p, &pair_defaults);
    put(&p, 1, 0, 8, 0); /* waits for a receive */
    ibv_dereg_mr(p.a.mr);
}

static void role_leak(void)
{
    struct pair p;
    pair_make(&p, &pair_defaults);
}

struct meeting {
    uint32_t qpn, rkey;
    uint64_t addr;
};

/* Connects an end with one in another process. */
static void meet(struct pair *p, int fd)
{
    struct meeting mine = {p->a.qp->qp_num, p->a.mr->rkey, (uintptr_t)p->a.memory}, theirs;
    union ibv_gid gid;
    assert_int_equal(write(fd, &mine, sizeof mine), sizeof mine);
    assert_int_equal(recv(fd, &theirs, sizeof theirs, MSG_WAITALL), sizeof theirs);
    assert_int_equal(ibv_query_gid(p->a.context, 1, 3, &gid), 0);
    assert_int_equal(end_rtr(&p->a, theirs.qpn, gid), 0);
    assert_int_equal(end_rts(&p->a, &pair_defaults), 0);
    p->b.memory = (uint8_t *)(uintptr_t)theirs.addr;
    p->far.rkey = theirs.rkey;
    p->b.mr = &p->far;
    char c = 0;
    assert_int_equal(write(fd, &c, 1), 1);
    assert_int_equal(read(fd, &c, 1), 1);
}

static struct ibv_wc wait_long(struct pair_end *end)
{
    struct ibv_wc wc;
    for (int i = 0; i < 20000; i++) {
        for (int k = 0; k < 100; k++)
            if (ibv_poll_cq(end->cq, 1, &wc) == 1)
                return wc;
        usleep(1000);
    }
    fail_msg("no completion came");
    return wc;
}

/* Passive: looks at memory only, until the other end's write is there; then answers. */
static void role_target(void)
{
    struct pair p;
    end_make(&p.a, &pair_defaults, 0);
    assert_int_equal(end_init(&p.a, &pair_defaults), 0);
    for (uint64_t i = 0; i < 4; i++)
        pair_post_recv(&p.a, i);
    meet(&p, 0);
    const volatile uint8_t *flag = p.a.memory + 100000;
    for (int i = 0; i < 20000 && !*flag; i++)
        usleep(1000);
    assert_int_equal(*flag, 7);
    struct ibv_wc wc = wait_long(&p.a);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, 100001);
    put(&p, 1, 0, 100001, IBV_SEND_SIGNALED);
    assert_int_equal(wait_long(&p.a).status, IBV_WC_SUCCESS);
    pause();
}

static void role_writer(void)
{
    struct pair p;
    end_make(&p.a, &pair_defaults, 0);
    assert_int_equal(end_init(&p.a, &pair_defaults), 0);
    pair_post_recv(&p.a, 0);
    meet(&p, 0);
    fill(p.a.memory, 100000);
    p.a.memory[100000] = 7;
    put(&p, 2, 0, 100001, 0);
    struct ibv_wc wc = wait_long(&p.a);
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(be32toh(wc.imm_data), 1);
    /* The peer's process dies with work on its way to it. */
    char c = 'k';
    assert_int_equal(write(1, &c, 1), 1);
    assert_int_equal(read(1, &c, 1), 1);
    put(&p, 3, 0, 8, IBV_SEND_SIGNALED);
    wc = wait_long(&p.a);
    assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(wc.wr_id, 3);
    end_free(&p.a);
}

static const struct {
    const char *name;
    void (*run)(void);
} roles[] = {{"dereg", role_dereg},
             {"leak", role_leak},
             {"target", role_target},
             {"writer", role_writer}};

static pid_t start_role(const char *name, const char *settings, int fd0, int fd1)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("FAKEVERBS", settings, 1);
        if (fd0 >= 0)
            dup2(fd0, 0);
        if (fd1 >= 0)
            dup2(fd1, 1);
        execl("/proc/self/exe", "fakeverbs_test", name, (char *)NULL);
        _exit(127);
    }
    return child;
}

static int end_of(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void misuse_aborts(void **state)
{
    (void)state;
    const char *rows[][2] = {{"dereg", ""}, {"leak", "leaks=1"}, {"leak", "no_such_key=1"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status = end_of(start_role(rows[i][0], rows[i][1], -1, -1));
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
    int status = end_of(start_role("dereg", "strict=0", -1, -1));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    status = end_of(start_role("leak", "help", -1, -1));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void processes_share_a_fabric(void **state)
{
    (void)state;
    char path[] = "/tmp/fakeverbs.XXXXXX", settings[64];
    int file = mkstemp(path), wire[2], control[2];
    assert_true(file >= 0);
    close(file);
    snprintf(settings, sizeof settings, "shm=%s", path);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wire), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control), 0);
    pid_t target = start_role("target", settings, wire[0], -1);
    pid_t writer = start_role("writer", settings, wire[1], control[1]);
    close(wire[0]);
    close(wire[1]);
    close(control[1]);
    char c;
    ssize_t got = read(control[0], &c, 1);
    unlink(path);
    kill(target, SIGKILL);
    end_of(target);
    assert_int_equal(got, 1);
    assert_int_equal(write(control[0], &c, 1), 1);
    int status = end_of(writer);
    close(control[0]);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A process that comes clears what another left in its place. What a third has claimed at that
 * moment and not yet made its own is not of it. */
static void what_is_being_claimed_is_nobodys(void **state)
{
    (void)state;
    char path[] = "/tmp/fakeverbs.XXXXXX", settings[64];
    int file = mkstemp(path);
    assert_true(file >= 0);
    snprintf(settings, sizeof settings, "shm=%s", path);
    for (int turn = 0; turn < 2; turn++)
        assert_int_equal(end_of(start_role("leak", settings, -1, -1)), 0);
    struct fv_arena *arena = mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_ptr_not_equal(arena, MAP_FAILED);
    uint32_t free_ones[FV_SLOTS], n = 0;
    for (uint32_t i = 0; i < FV_SLOTS; i++)
        if (!atomic_load(&arena->wires[i].qpn) && i % 2)
            atomic_store(&arena->wires[free_ones[n++] = i].qpn, FV_SLOTS + i);
    assert_true(n > FV_SLOTS / 4);
    assert_int_equal(end_of(start_role("leak", settings, -1, -1)), 0);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(atomic_load(&arena->wires[free_ones[i]].qpn), FV_SLOTS + free_ones[i]);
    munmap(arena, sizeof *arena);
    close(file);
    unlink(path);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof roles / sizeof *roles; i++) {
        if (strcmp(roles[i].name, argv[1]) == 0) {
            roles[i].run();
            return 0;
        }
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_with_imm_arrives),
        cmocka_unit_test(order_is_kept_on_a_queue_pair),
        cmocka_unit_test(long_message_arrives_whole),
        cmocka_unit_test(writes_land_in_any_order),
        cmocka_unit_test(without_receive_it_waits_and_counts),
        cmocka_unit_test(without_the_receive_that_was_refused_it_waits),
        cmocka_unit_test(without_receive_it_gives_up),
        cmocka_unit_test(error_state_flushes_both_queues),
        cmocka_unit_test(keys_bounds_and_access_are_checked),
        cmocka_unit_test(inline_data_is_taken_at_once),
        cmocka_unit_test(send_queue_frees_by_polled_completions_only),
        cmocka_unit_test(receive_queue_has_its_depth),
        cmocka_unit_test(completion_queue_overruns),
        cmocka_unit_test(send_scatters_into_the_receive),
        cmocka_unit_test(states_and_attributes_are_insisted_on),
        cmocka_unit_test(an_unknown_peer_is_retried_out),
        cmocka_unit_test(a_port_goes_down_and_comes_back),
        cmocka_unit_test(the_nth_operation_fails),
        cmocka_unit_test(gid_table_has_holes_and_shifts),
        cmocka_unit_test(what_is_in_use_is_not_destroyed),
        cmocka_unit_test(a_seed_replays),
        cmocka_unit_test(misuse_aborts),
        cmocka_unit_test(processes_share_a_fabric),
        cmocka_unit_test(what_is_being_claimed_is_nobodys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
