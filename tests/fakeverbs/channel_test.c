/* Completion channels of the double: events as a device makes them, and sleepers that are woken
 * though nobody polls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fakeverbs/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fakeverbs/fakeverbs.h"

#define PATIENCE_MS 20000

/* A pair whose ends have channels. */
struct sleepers {
    struct pair p;
    struct ibv_comp_channel *a, *b;
};

static struct ibv_comp_channel *end_sleeps(struct pair_end *end)
{
    struct ibv_comp_channel *channel = ibv_create_comp_channel(end->context);
    assert_non_null(channel);
    assert_int_equal(ibv_destroy_qp(end->qp), 0);
    assert_int_equal(ibv_destroy_cq(end->cq), 0);
    end->cq = ibv_create_cq(end->context, 64, end, channel, 0);
    assert_non_null(end->cq);
    struct ibv_qp_init_attr attr = {
        .send_cq = end->cq,
        .recv_cq = end->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
    };
    end->qp = ibv_create_qp(end->pd, &attr);
    assert_non_null(end->qp);
    assert_int_equal(end_init(end, &pair_defaults), 0);
    return channel;
}

static void make(struct sleepers *s)
{
    union ibv_gid gid;
    end_make(&s->p.a, &pair_defaults, 0);
    end_make(&s->p.b, &pair_defaults, 0);
    s->a = end_sleeps(&s->p.a);
    s->b = end_sleeps(&s->p.b);
    assert_int_equal(ibv_query_gid(s->p.a.context, 1, 3, &gid), 0);
    assert_int_equal(end_rtr(&s->p.a, s->p.b.qp->qp_num, gid), 0);
    assert_int_equal(end_rtr(&s->p.b, s->p.a.qp->qp_num, gid), 0);
    assert_int_equal(end_rts(&s->p.a, &pair_defaults), 0);
    assert_int_equal(end_rts(&s->p.b, &pair_defaults), 0);
}

/* Queue pair and queue first; then the channel, then the device. */
static void end_wakes_up(struct pair_end *end, struct ibv_comp_channel *channel)
{
    assert_int_equal(ibv_destroy_comp_channel(channel), EBUSY);
    assert_int_equal(ibv_destroy_qp(end->qp), 0);
    assert_int_equal(ibv_destroy_cq(end->cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
    end->qp = NULL;
    end->cq = ibv_create_cq(end->context, 1, NULL, NULL, 0);
    end_free(end);
}

static void unmake(struct sleepers *s)
{
    end_wakes_up(&s->p.a, s->a);
    end_wakes_up(&s->p.b, s->b);
    assert_int_equal(fakeverbs_counter("channels"), 0);
}

static int is_ready(const struct ibv_comp_channel *channel, int ms)
{
    return poll(&(struct pollfd){.fd = channel->fd, .events = POLLIN}, 1, ms);
}

static void take_event(struct pair_end *end, struct ibv_comp_channel *channel)
{
    struct ibv_cq *cq = NULL;
    void *context = NULL;
    assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
    assert_ptr_equal(cq, end->cq);
    assert_ptr_equal(context, end);
    ibv_ack_cq_events(cq, 1);
}

/* A message of 8 bytes from a to b. */
static void put(struct sleepers *s, unsigned int flags)
{
    struct ibv_sge sge = pair_sge(&s->p.a, 0, 8);
    struct ibv_send_wr wr = pair_write_imm(&s->p, &sge, 0, 1);
    wr.send_flags = flags;
    pair_post_recv(&s->p.b, 1);
    assert_int_equal(pair_post(&s->p.a, &wr), 0);
}

static void the_first_completion_after_arming_makes_an_event(void **state)
{
    (void)state;
    struct sleepers s;
    make(&s);
    put(&s, 0);
    assert_int_equal(pair_wait(&s.p.b).status, IBV_WC_SUCCESS);
    assert_int_equal(is_ready(s.b, 0), 0);
    assert_int_equal(ibv_req_notify_cq(s.p.b.cq, 0), 0);
    put(&s, 0);
    put(&s, 0);
    assert_int_equal(is_ready(s.b, PATIENCE_MS), 1);
    take_event(&s.p.b, s.b);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pair_wait(&s.p.b).status, IBV_WC_SUCCESS);
    assert_int_equal(is_ready(s.b, 0), 0);
    unmake(&s);
}

static void what_completed_before_arming_makes_none(void **state)
{
    (void)state;
    struct sleepers s;
    make(&s);
    put(&s, 0);
    while (memcmp(s.p.b.memory, s.p.a.memory, 8) != 0)
        ;
    struct ibv_wc wc;
    assert_int_equal(ibv_poll_cq(s.p.b.cq, 0, &wc), 0);
    assert_int_equal(ibv_req_notify_cq(s.p.b.cq, 0), 0);
    assert_int_equal(is_ready(s.b, 50), 0);
    assert_int_equal(pair_wait(&s.p.b).status, IBV_WC_SUCCESS);
    unmake(&s);
}

static void solicited_ones_only_if_so_armed(void **state)
{
    (void)state;
    struct sleepers s;
    make(&s);
    assert_int_equal(ibv_req_notify_cq(s.p.b.cq, 1), 0);
    put(&s, 0);
    assert_int_equal(pair_wait(&s.p.b).status, IBV_WC_SUCCESS);
    assert_int_equal(is_ready(s.b, 0), 0);
    put(&s, IBV_SEND_SOLICITED);
    assert_int_equal(pair_wait(&s.p.b).status, IBV_WC_SUCCESS);
    assert_int_equal(is_ready(s.b, 0), 1);
    take_event(&s.p.b, s.b);
    /* What failed is as if solicited; and who asks for all gets all, though he asked for less. */
    assert_int_equal(ibv_req_notify_cq(s.p.b.cq, 1), 0);
    pair_post_recv(&s.p.b, 1);
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    assert_int_equal(ibv_modify_qp(s.p.b.qp, &error, IBV_QP_STATE), 0);
    assert_int_equal(pair_wait(&s.p.b).status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(is_ready(s.b, 0), 1);
    take_event(&s.p.b, s.b);
    unmake(&s);
}

static void asking_for_all_is_not_taken_back(void **state)
{
    (void)state;
    struct sleepers s;
    make(&s);
    assert_int_equal(ibv_req_notify_cq(s.p.b.cq, 0), 0);
    assert_int_equal(ibv_req_notify_cq(s.p.b.cq, 1), 0);
    put(&s, 0);
    assert_int_equal(pair_wait(&s.p.b).status, IBV_WC_SUCCESS);
    assert_int_equal(is_ready(s.b, 0), 1);
    /* An event that nobody takes goes with its queue. */
    unmake(&s);
}

/* However late things move: nobody calls verbs while they do. */
static void sleepers_are_woken(void **state)
{
    (void)state;
    struct sleepers s;
    struct ibv_wc wc;
    fakeverbs_set("delay=200,reorder=1");
    make(&s);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(ibv_req_notify_cq(s.p.a.cq, 0), 0);
        assert_int_equal(ibv_req_notify_cq(s.p.b.cq, 0), 0);
        put(&s, IBV_SEND_SIGNALED);
        assert_int_equal(is_ready(s.a, PATIENCE_MS), 1);
        assert_int_equal(is_ready(s.b, PATIENCE_MS), 1);
        take_event(&s.p.a, s.a);
        take_event(&s.p.b, s.b);
        assert_int_equal(ibv_poll_cq(s.p.a.cq, 1, &wc), 1);
        assert_int_equal(ibv_poll_cq(s.p.b.cq, 1, &wc), 1);
    }
    unmake(&s);
    fakeverbs_set("delay=0,reorder=0");
}

static void a_queue_without_channel_cannot_be_armed(void **state)
{
    (void)state;
    struct pair p;
    pair_make(&p, &pair_defaults);
    assert_int_equal(ibv_req_notify_cq(p.a.cq, 0), EINVAL);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(p.a.context);
    assert_null(ibv_create_cq(p.b.context, 1, NULL, channel, 0));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    struct ibv_cq *cq;
    void *context;
    assert_int_equal(ibv_get_cq_event(channel, &cq, &context), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
    pair_free(&p);
}

/* --- in programs of their own --- */

static void role_unacknowledged(void)
{
    struct sleepers s;
    struct ibv_cq *cq;
    void *context;
    make(&s);
    assert_int_equal(ibv_req_notify_cq(s.p.b.cq, 0), 0);
    put(&s, 0);
    assert_int_equal(ibv_get_cq_event(s.b, &cq, &context), 0);
    unmake(&s);
}

static void role_twice(void)
{
    struct sleepers s;
    make(&s);
    ibv_ack_cq_events(s.p.b.cq, 1);
}

static void role_leak(void)
{
    struct sleepers s;
    make(&s);
}

struct meeting {
    uint32_t qpn, rkey;
    uint64_t addr;
};

static void meet(struct pair *p)
{
    struct meeting mine = {p->a.qp->qp_num, p->a.mr->rkey, (uintptr_t)p->a.memory}, theirs;
    union ibv_gid gid;
    char c = 0;
    assert_int_equal(write(0, &mine, sizeof mine), sizeof mine);
    assert_int_equal(recv(0, &theirs, sizeof theirs, MSG_WAITALL), sizeof theirs);
    assert_int_equal(ibv_query_gid(p->a.context, 1, 3, &gid), 0);
    assert_int_equal(end_rtr(&p->a, theirs.qpn, gid), 0);
    assert_int_equal(end_rts(&p->a, &pair_defaults), 0);
    p->far.rkey = theirs.rkey;
    p->b.memory = (uint8_t *)(uintptr_t)theirs.addr;
    p->b.mr = &p->far;
    assert_int_equal(write(0, &c, 1), 1);
    assert_int_equal(read(0, &c, 1), 1);
}

static void take_events(struct ibv_comp_channel *channel)
{
    struct ibv_cq *cq;
    void *context;
    while (ibv_get_cq_event(channel, &cq, &context) == 0)
        ibv_ack_cq_events(cq, 1);
}

/* Throws a ball back and forth with another process; each sleeps until it has it. */
static void role_player(void)
{
    struct pair p;
    char first;
    end_make(&p.a, &pair_defaults, 0);
    struct ibv_comp_channel *channel = end_sleeps(&p.a);
    assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    for (int i = 0; i < 4; i++)
        pair_post_recv(&p.a, 1);
    meet(&p);
    assert_int_equal(read(0, &first, 1), 1);
    struct ibv_sge sge = pair_sge(&p.a, 0, 8);
    struct ibv_send_wr wr = pair_write_imm(&p, &sge, 0, 1);
    if (first == '1')
        assert_int_equal(pair_post(&p.a, &wr), 0);
    for (int i = 0; i < 500; i++) {
        struct ibv_wc wc = {.opcode = IBV_WC_RDMA_WRITE};
        while (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
            assert_int_equal(ibv_req_notify_cq(p.a.cq, 0), 0);
            if (ibv_poll_cq(p.a.cq, 1, &wc) == 0)
                assert_int_equal(is_ready(channel, PATIENCE_MS), 1);
            else
                assert_int_equal(wc.status, IBV_WC_SUCCESS);
            take_events(channel);
        }
        pair_post_recv(&p.a, 1);
        if (first == '0' || i < 499)
            assert_int_equal(pair_post(&p.a, &wr), 0);
    }
    /* Whose ball is still in the air must be there for it. */
    assert_int_equal(write(0, &first, 1), 1);
    assert_int_equal(read(0, &first, 1), 1);
    _exit(0);
}

static const struct {
    const char *name;
    void (*run)(void);
} roles[] = {{"unacknowledged", role_unacknowledged},
             {"twice", role_twice},
             {"leak", role_leak},
             {"player", role_player}};

static pid_t start_role(const char *name, const char *settings, int fd)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("FAKEVERBS", settings, 1);
        if (fd >= 0)
            dup2(fd, 0);
        execl("/proc/self/exe", "channel_test", name, (char *)NULL);
        _exit(127);
    }
    return child;
}

static void misuse_aborts(void **state)
{
    (void)state;
    const char *rows[][2] = {{"unacknowledged", ""}, {"twice", ""}, {"leak", "leaks=1"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pid_t child = start_role(rows[i][0], rows[i][1], -1);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

static void sleepers_in_two_processes_are_woken(void **state)
{
    (void)state;
    char path[] = "/tmp/fakeverbs.XXXXXX", settings[64];
    int file = mkstemp(path), wire[2][2];
    pid_t children[2];
    assert_true(file >= 0);
    close(file);
    snprintf(settings, sizeof settings, "shm=%s", path);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wire[i]), 0);
        children[i] = start_role("player", settings, wire[i][1]);
        close(wire[i][1]);
    }
    /* What one says is for the other; then one begins. */
    struct meeting meetings[2];
    char c[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(recv(wire[i][0], &meetings[i], sizeof *meetings, MSG_WAITALL),
                         sizeof *meetings);
    for (int i = 0; i < 2; i++)
        assert_int_equal(write(wire[i][0], &meetings[!i], sizeof *meetings), sizeof *meetings);
    for (int i = 0; i < 2; i++)
        assert_int_equal(read(wire[i][0], &c[i], 1), 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(write(wire[i][0], &c[i], 1), 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(write(wire[i][0], i ? "1" : "0", 1), 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(read(wire[i][0], &c[i], 1), 1);
    for (int i = 0; i < 2; i++) {
        int status;
        assert_int_equal(write(wire[i][0], &c[i], 1), 1);
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        close(wire[i][0]);
    }
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
        cmocka_unit_test(the_first_completion_after_arming_makes_an_event),
        cmocka_unit_test(what_completed_before_arming_makes_none),
        cmocka_unit_test(solicited_ones_only_if_so_armed),
        cmocka_unit_test(asking_for_all_is_not_taken_back),
        cmocka_unit_test(sleepers_are_woken),
        cmocka_unit_test(a_queue_without_channel_cannot_be_armed),
        cmocka_unit_test(misuse_aborts),
        cmocka_unit_test(sleepers_in_two_processes_are_woken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
