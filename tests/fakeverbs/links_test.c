/* Links of the double that go and come back: between two devices, each with its own port. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fakeverbs/pair.h"

#include <errno.h>
#include <poll.h>

#include "tests/fakeverbs/fakeverbs.h"

#define SIZE 4096

static struct pair p;

static int begin(void **state)
{
    struct pair_options options = pair_defaults;
    (void)state;
    options.device_b = 1;
    fakeverbs_set("seed=1,timeout=500");
    pair_make(&p, &options);
    memset(p.a.memory, 0x22, SIZE);
    return 0;
}

static int end(void **state)
{
    (void)state;
    fakeverbs_set("delay=0,linger=0,portmute=0,link=fv0:up,link=fv1:up,lost=fv0:none,"
                  "lost=fv1:none,timeout=2000");
    pair_free(&p);
    return 0;
}

static void put(uint64_t wr_id)
{
    struct ibv_sge sge = pair_sge(&p.a, 0, SIZE);
    struct ibv_send_wr wr = pair_write_imm(&p, &sge, 0, htobe32(9));
    wr.wr_id = wr_id;
    assert_int_equal(pair_post(&p.a, &wr), 0);
}

static int fails(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static int events(const struct pair_end *from)
{
    struct pollfd fd = {.fd = from->context->async_fd, .events = POLLIN};
    struct ibv_async_event event;
    int n = 0;
    for (; poll(&fd, 1, 0) == 1; n++) {
        assert_int_equal(ibv_get_async_event(from->context, &event), 0);
        ibv_ack_async_event(&event);
    }
    return n;
}

/* The data is there, and is known there, though the sender must think that it is not. */
static void lost_answers_end_the_sender_alone(void **state)
{
    (void)state;
    fakeverbs_set("lost=fv1:out");
    pair_post_recv(&p.b, 1);
    put(5);
    struct ibv_wc wc = pair_wait(&p.b);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_memory_equal(p.a.memory, p.b.memory, SIZE);
    wc = pair_wait(&p.a);
    assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(events(&p.a) + events(&p.b), 0);
}

static void answers_that_come_in_time_are_late_only(void **state)
{
    struct ibv_wc wc;
    (void)state;
    fakeverbs_set("lost=fv0:in");
    pair_post_recv(&p.b, 1);
    put(5);
    assert_int_equal(pair_wait(&p.b).status, IBV_WC_SUCCESS);
    for (int i = 0; i < 100; i++)
        assert_int_equal(ibv_poll_cq(p.a.cq, 1, &wc), 0);
    fakeverbs_set("lost=fv0:none");
    assert_int_equal(pair_wait(&p.a).status, IBV_WC_SUCCESS);
}

/* Of packets that are under way when a link is lost, how many land after their sender has ended. */
static int lands_late(int closed)
{
    int landed = 0;
    for (int polls = 0; polls < 60; polls++) {
        struct ibv_wc wc;
        fakeverbs_set("delay=30");
        pair_post_recv(&p.b, 1);
        put(5);
        for (int i = 0; i < polls; i++)
            assert_int_equal(ibv_poll_cq(p.a.cq, 0, &wc), 0);
        fakeverbs_set("lost=fv1:both");
        int is_lost = pair_wait(&p.a).status == IBV_WC_RETRY_EXC_ERR && !p.b.memory[0];
        if (closed)
            assert_int_equal(fails(p.b.qp), 0);
        fakeverbs_set("lost=fv1:none,delay=0");
        for (int i = 0; i < 100; i++)
            if (ibv_poll_cq(p.b.cq, 1, &wc) == 1 && is_lost)
                landed += wc.status == IBV_WC_SUCCESS && p.b.memory[0] == 0x22;
        end(NULL);
        begin(NULL);
    }
    return landed;
}

/* ... unless the receiver has closed its end. */
static void packets_come_later_than_their_sender_lives(void **state)
{
    (void)state;
    assert_in_range(lands_late(0), 1, 60);
    assert_int_equal(lands_late(1), 0);
}

static void a_port_goes_at_one_end(void **state)
{
    (void)state;
    fakeverbs_set("link=fv1:down");
    assert_int_equal(events(&p.a), 0);
    assert_int_equal(events(&p.b), 1);
    put(5);
    assert_int_equal(pair_wait(&p.a).status, IBV_WC_RETRY_EXC_ERR);
    fakeverbs_set("portmute=1,link=fv1:up");
    assert_int_equal(events(&p.b), 0);
    struct ibv_port_attr port;
    assert_int_equal(ibv_query_port(p.b.context, 1, &port), 0);
    assert_int_equal(port.state, IBV_PORT_ACTIVE);
}

/* modify_qp has returned, and yet a write lands and completes. Then come the flushed ones. */
static void what_is_under_way_lands_after_the_error_state(void **state)
{
    int landed = 0;
    (void)state;
    for (int i = 0; i < 60 && !landed; i++) {
        fakeverbs_set("delay=20,linger=200");
        pair_post_recv(&p.b, 1);
        pair_post_recv(&p.b, 2);
        put(5);
        for (int k = 0; k < i; k++) {
            struct ibv_wc wc;
            assert_int_equal(ibv_poll_cq(p.a.cq, 0, &wc), 0);
        }
        int before = p.b.memory[0] == 0x22;
        assert_int_equal(fails(p.b.qp), 0);
        struct ibv_wc first = pair_wait(&p.b), second = pair_wait(&p.b);
        assert_int_equal(second.status, IBV_WC_WR_FLUSH_ERR);
        landed = !before && first.status == IBV_WC_SUCCESS;
        if (first.status == IBV_WC_SUCCESS)
            assert_memory_equal(p.a.memory, p.b.memory, SIZE);
        else
            assert_int_equal(p.b.memory[SIZE - 1], 0);
        end(NULL);
        begin(NULL);
    }
    assert_true(landed);
}

static void receives_may_not_be_flushed(void **state)
{
    struct ibv_wc wc;
    (void)state;
    fakeverbs_set("noflush=1");
    pair_post_recv(&p.b, 1);
    assert_int_equal(fails(p.b.qp), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(ibv_poll_cq(p.b.cq, 1, &wc), 0);
    fakeverbs_set("noflush=0");
}

static void the_nth_call_of_a_verb_fails(void **state)
{
    struct ibv_sge sge = pair_sge(&p.a, 0, 8);
    struct ibv_send_wr wr = pair_write_imm(&p, &sge, 0, 0);
    (void)state;
    fakeverbs_set("fail=post_send:2,fail=modify_qp:1,fail=create_cq:1");
    pair_post_recv(&p.b, 1);
    assert_int_equal(pair_post(&p.a, &wr), 0);
    assert_int_equal(pair_post(&p.a, &wr), ENOMEM);
    assert_int_equal(fails(p.a.qp), ENOMEM);
    assert_int_equal(p.a.qp->state, IBV_QPS_RTS);
    assert_null(ibv_create_cq(p.a.context, 4, NULL, NULL, 0));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(fails(p.a.qp), 0);
    fakeverbs_set("fail=create_qp:1,fail=post_recv:1");
    struct ibv_recv_wr recv = {.wr_id = 1}, *bad = NULL;
    assert_int_equal(ibv_post_recv(p.b.qp, &recv, &bad), ENOMEM);
    assert_ptr_equal(bad, &recv);
    struct ibv_qp_init_attr attr = {.send_cq = p.a.cq,
                                    .recv_cq = p.a.cq,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {1, 1, 1, 1, 0}};
    assert_null(ibv_create_qp(p.a.pd, &attr));
    assert_int_equal(errno, ENOMEM);
    struct ibv_qp *qp = ibv_create_qp(p.a.pd, &attr);
    assert_non_null(qp);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

int main(void)
{
    setenv("FAKEVERBS", "dev=fv0:lo:127.0.0.1,dev=fv1:lo:127.0.0.2", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lost_answers_end_the_sender_alone, begin, end),
        cmocka_unit_test_setup_teardown(answers_that_come_in_time_are_late_only, begin, end),
        cmocka_unit_test_setup_teardown(packets_come_later_than_their_sender_lives, begin, end),
        cmocka_unit_test_setup_teardown(a_port_goes_at_one_end, begin, end),
        cmocka_unit_test_setup_teardown(what_is_under_way_lands_after_the_error_state, begin, end),
        cmocka_unit_test_setup_teardown(receives_may_not_be_flushed, begin, end),
        cmocka_unit_test_setup_teardown(the_nth_call_of_a_verb_fails, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
