/* Sockets that break under load, on loopback: all that was sent arrives once, whatever breaks, and
 * they come back. Both ends in one thread; what is random comes from a seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/context.h"
#include "plugin/transport/tcp/tcp_failover.h"
#include "topo/base/log.h"
#include "topo/base/pattern_kit.h"

#define PATIENCE_MS 60000 /* the bound of every wait */
#define SLOTS       16
#define MOST        (5u << 18)
#define CANARY      64

struct ends {
    struct mn_net *net;
    void *send, *recv;
    void *send_mr, *recv_mr;
    uint8_t *from, *to; /* SLOTS of MOST + CANARY */
    void *out[SLOTS], *in[SLOTS];
    size_t size[SLOTS];
    uint32_t n_sent, n_received, n_posted, n_done;
};

static uint32_t seed;

static uint32_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

static void nap(void)
{
    nanosleep(&(struct timespec){0, 50000}, NULL);
}

static size_t size_of(uint32_t message)
{
    static const size_t sizes[] = {0,     1,      8,      127,    4096,    16384,
                                   16385, 65535,  65536,  65537,  300000,  1 << 20,
                                   8,     200000, 131072, 700000, 1234567, MOST};
    uint32_t x = message * 2654435761u;

    return sizes[(x >> 8) % (sizeof sizes / sizeof *sizes)];
}

static unsigned seed_of(uint32_t message)
{
    return message * 31;
}

static struct tcp_comm *sender(const struct ends *e)
{
    return (struct tcp_comm *)e->send;
}

static struct tcp_comm *receiver(const struct ends *e)
{
    return (struct tcp_comm *)e->recv;
}

/* All sockets may be out for longer than a link may be silent where the machine is busy. */
static void be_patient(const struct ends *e)
{
    sender(e)->silence_ms = receiver(e)->silence_ms = PATIENCE_MS;
}

static void open_ends(struct ends *e, int pushes)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    uint8_t handle[MN_HANDLE_SIZE];
    void *listener;

    memset(e, 0, sizeof *e);
    assert_int_equal(mn_net_open(NULL, -1, &e->net), 0);
    e->net->config.settings.silence_ms = 3000;
    e->net->config.settings.sockets_per_link = 4;
    e->net->config.settings.transport = MN_TRANSPORT_TCP;
    e->net->config.pushes = pushes;
    assert_int_equal(mn_net_listen(e->net, 0, handle, &listener), 0);
    while (!e->send || !e->recv) {
        if (!e->send)
            assert_int_equal(mn_net_connect(e->net, 0, -1, handle, &e->send), 0);
        if (!e->recv)
            assert_int_equal(mn_net_accept(listener, &e->recv), 0);
        nap();
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(mn_net_close_listen(listener), 0);
    e->from = malloc((size_t)SLOTS * MOST);
    e->to = malloc((size_t)SLOTS * (MOST + CANARY));
    assert_true(e->from && e->to);
    assert_int_equal(mn_net_reg_mr(e->send, e->from, (size_t)SLOTS * MOST, NCCL_PTR_HOST,
                                   &e->send_mr),
                     0);
    assert_int_equal(mn_net_reg_mr(e->recv, e->to, (size_t)SLOTS * (MOST + CANARY), NCCL_PTR_HOST,
                                   &e->recv_mr),
                     0);
    assert_non_null(sender(e)->failover);
    assert_non_null(receiver(e)->failover);
    /* Tests look inside, and do what nobody else may do meanwhile. */
    mn_attend_leave(&sender(e)->attended);
    mn_attend_leave(&receiver(e)->attended);
}

/* A sender would wait for what its receiver, who is not called, makes of its last words. */
static void close_ends(struct ends *e)
{
    assert_int_equal(mn_net_close_recv(e->recv), 0);
    assert_int_equal(mn_net_close_send(e->send), 0);
    assert_int_equal(mn_net_finalize(e->net), 0);
    free(e->from);
    free(e->to);
}

static void send_one(struct ends *e)
{
    uint32_t slot = e->n_sent % SLOTS;
    size_t size = size_of(e->n_sent);
    uint8_t *data = e->from + (size_t)slot * MOST;

    if (e->out[slot])
        return;
    mn_pattern_fill(data, size, seed_of(e->n_sent));
    assert_int_equal(mn_net_isend(e->send, data, size, 5, e->send_mr, &e->out[slot]), 0);
    e->n_sent += e->out[slot] != NULL;
}

/* A buffer that was given back is its owner's: what is sent later must not come from it. */
static void test_sends(struct ends *e)
{
    for (int i = 0; i < SLOTS; i++) {
        int done = 0;
        if (!e->out[i])
            continue;
        assert_int_equal(mn_net_test(e->out[i], &done, NULL), 0);
        if (done) {
            e->out[i] = NULL;
            memset(e->from + (size_t)i * MOST, 0xee, 65536);
        }
    }
}

static void post_one(struct ends *e)
{
    uint32_t slot = e->n_posted % SLOTS;
    void *data = e->to + (size_t)slot * (MOST + CANARY);
    size_t size = MOST;
    int tag = 5;

    if (e->in[slot] || e->n_posted - e->n_received >= SLOTS)
        return;
    memset(data, 0xaa, MOST + CANARY);
    assert_int_equal(mn_net_irecv(e->recv, 1, &data, &size, &tag, &e->recv_mr, &e->in[slot]), 0);
    e->n_posted += e->in[slot] != NULL;
}

static void check(const struct ends *e, uint32_t message, int size)
{
    const uint8_t *data = e->to + (size_t)(message % SLOTS) * (MOST + CANARY);
    size_t n = (size_t)size;

    assert_int_equal(size, size_of(message));
    assert_int_equal(mn_pattern_differs(data, n, seed_of(message)), n);
    assert_true(mn_pattern_is_plain(data + n, MOST + CANARY - n, 0xaa));
}

static void test_receives(struct ends *e)
{
    uint32_t slot = e->n_received % SLOTS;
    int done = 0, size = -1;

    if (e->n_received == e->n_posted)
        return;
    assert_int_equal(mn_net_test(e->in[slot], &done, &size), 0);
    if (!done)
        return;
    check(e, e->n_received, size);
    e->in[slot] = NULL;
    e->n_received++;
}

static void turn(struct ends *e, uint32_t messages)
{
    if (e->n_sent < messages && draw() % 4)
        send_one(e);
    test_sends(e);
    if (e->n_posted < messages && draw() % 3)
        post_one(e);
    test_receives(e);
}

static void pass_until(struct ends *e, uint32_t messages)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    while (e->n_received < messages) {
        turn(e, messages);
        assert_true(mn_now_ms() < end);
    }
}

/* What a firewall does that forgets a connection: a reset each way. */
static void break_socket(const struct tcp_lane *lane)
{
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    struct linger at_once = {.l_onoff = 1};

    if (lane->fd < 0)
        return;
    (void)setsockopt(lane->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    (void)connect(lane->fd, &none, sizeof none);
}

static int lanes_up(const struct tcp_comm *comm)
{
    int n = 0;

    for (int i = 0; i < comm->n_all; i++)
        n += !comm->lanes[i].off;
    return n;
}

/* Of the data sockets one stays, and the control socket: all others may go at a time. */
static void break_at_random(struct ends *e)
{
    struct tcp_comm *comm = draw() % 2 ? sender(e) : receiver(e);
    int n = 0;

    for (int i = 0; i < comm->n_lanes; i++)
        n += !sender(e)->lanes[i].off && !receiver(e)->lanes[i].off;
    if (n > 1)
        break_socket(&comm->lanes[draw() % (unsigned)comm->n_lanes]);
}

static struct tcp_link_sum sum_of(const struct tcp_comm *comm)
{
    struct tcp_link_sum sum = {0};

    for (int i = 0; i < comm->failover->n_links; i++) {
        sum.gone += comm->failover->links[i].sum.gone;
        sum.back += comm->failover->links[i].sum.back;
        sum.again += comm->failover->links[i].sum.again;
    }
    return sum;
}

static void all_arrives_though_sockets_break(void **state)
{
    struct ends e;

    (void)state;
    seed = 4711;
    open_ends(&e, 0);
    be_patient(&e);
    for (int i = 0; i < 40; i++) {
        pass_until(&e, e.n_received + draw() % 30);
        if (draw() % 3)
            send_one(&e);
        break_at_random(&e);
    }
    pass_until(&e, e.n_sent);
    assert_true(sum_of(sender(&e)).gone > 0);
    assert_true(sum_of(sender(&e)).again > 0);
    close_ends(&e);
}

static void each_socket_may_break_and_comes_back(void **state)
{
    struct ends e;

    (void)state;
    seed = 99;
    open_ends(&e, 0);
    int all = sender(&e)->n_all;
    for (int i = 0; i < 2 * all; i++) {
        struct tcp_comm *comm = i < all ? sender(&e) : receiver(&e);
        uint64_t end = mn_now_ms() + PATIENCE_MS;
        sender(&e)->failover->links[0].back_ms = 0; /* not for flapping */
        pass_until(&e, e.n_received + 5);
        break_socket(&comm->lanes[i % all]);
        do {
            pass_until(&e, e.n_received + 1);
            assert_true(mn_now_ms() < end);
        } while (sum_of(sender(&e)).back <= (unsigned)i);
        while (lanes_up(sender(&e)) < all || lanes_up(receiver(&e)) < all) {
            pass_until(&e, e.n_received + 1);
            assert_true(mn_now_ms() < end);
        }
    }
    assert_int_equal(sum_of(sender(&e)).gone, 2 * all);
    close_ends(&e);
}

static void *send_bytes(const struct ends *e, size_t size, int tag)
{
    void *request = NULL;

    assert_int_equal(mn_net_isend(e->send, e->from, size, tag, e->send_mr, &request), 0);
    assert_non_null(request);
    return request;
}

static void *post(struct ends *e, int slot, int tag)
{
    void *data = e->to + (size_t)slot * (MOST + CANARY), *request = NULL;
    size_t size = MOST;

    assert_int_equal(mn_net_irecv(e->recv, 1, &data, &size, &tag, &e->recv_mr, &request), 0);
    assert_non_null(request);
    return request;
}

static int is_done(void *request)
{
    int done = 0;

    assert_int_equal(mn_net_test(request, &done, NULL), 0);
    return done;
}

/* What is done is in nobody's hands but ours: its socket goes before the peer has read it. */
static void small_messages_that_are_done_arrive(void **state)
{
    static uint8_t data[128];
    struct ends e;

    (void)state;
    open_ends(&e, 0);
    for (uint32_t i = 0; i < 20; i++) {
        void *request = NULL;
        int done = 0;
        memset(data, (int)(i + 1), sizeof data);
        assert_int_equal(mn_net_isend(e.send, data, sizeof data, 5, e.send_mr, &request), 0);
        assert_non_null(request);
        assert_int_equal(mn_net_test(request, &done, NULL), 0);
        assert_true(done);
    }
    memset(data, 0, sizeof data);
    break_socket(sender(&e)->first);
    for (uint32_t i = 0; i < 20; i++) {
        uint64_t end = mn_now_ms() + PATIENCE_MS;
        int size = -1, done = 0;
        while (e.n_posted == i)
            post_one(&e);
        while (!done) {
            void *request = NULL;
            assert_int_equal(mn_net_test(e.in[i % SLOTS], &done, &size), 0);
            /* Its owner has more to send. */
            assert_int_equal(mn_net_isend(e.send, e.from, 70000, 6, e.send_mr, &request), 0);
            assert_int_equal(tcp_idle(sender(&e)), 0);
            assert_true(mn_now_ms() < end);
        }
        assert_int_equal(size, sizeof data);
        assert_int_equal(e.to[(size_t)(i % SLOTS) * (MOST + CANARY)], i + 1);
        e.in[i % SLOTS] = NULL;
        e.n_received++;
    }
    close_ends(&e);
}

static int is_delivered(const struct ends *e)
{
    mn_attend_enter(&sender(e)->attended);
    int delivered = sender(e)->failover->delivered;
    mn_attend_exit(&sender(e)->attended);
    return delivered;
}

static void arrives(void *posted)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    while (!is_done(posted))
        assert_true(mn_now_ms() < end);
}

/* ... or waits elsewhere for what the receiver makes of them: only the receiver is called. */
static void small_messages_that_are_done_arrive_without_a_call(void **state)
{
    static uint8_t data[128];
    struct ends e;

    (void)state;
    open_ends(&e, 0);
    be_patient(&e);
    for (uint32_t i = 0; i < SLOTS; i++) {
        void *request = send_bytes(&e, sizeof data, 5);
        assert_true(is_done(request));
    }
    break_socket(sender(&e)->first);
    assert_false(sender(&e)->attended.joined);
    tcp_attend_join(sender(&e));
    assert_true(sender(&e)->attended.joined);
    for (uint32_t i = 0; i < SLOTS; i++)
        arrives(post(&e, (int)i, 5));
    /* It has looked at nothing to deliver for so long that it is to be woken. */
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    while (!is_delivered(&e)) { /* which is a call */
        nanosleep(&(struct timespec){0, 200000000}, NULL);
        assert_true(mn_now_ms() < end);
    }
    nanosleep(&(struct timespec){1, 500000000}, NULL);
    void *request = send_bytes(&e, sizeof data, 5);
    mn_attend_enter(&sender(&e)->attended);
    break_socket(sender(&e)->first);
    mn_attend_exit(&sender(&e)->attended);
    assert_true(is_done(request));
    arrives(post(&e, 0, 5));
    close_ends(&e);
}

static void *close_sender(void *send)
{
    return mn_net_close_send(send) ? send : NULL;
}

/* Its owner has no more to send, and closes while they are in no socket. */
static void small_messages_that_are_done_arrive_after_close(void **state)
{
    static uint8_t data[128];
    struct ends e;

    (void)state;
    for (int broken = 1; broken <= 4; broken += 3) {
        pthread_t closing;
        void *failed = NULL;
        open_ends(&e, 0);
        for (uint32_t i = 0; i < SLOTS; i++) {
            void *request = NULL;
            int done = 0;
            memset(data, (int)(i + 1), sizeof data);
            assert_int_equal(mn_net_isend(e.send, data, sizeof data, 5, e.send_mr, &request), 0);
            assert_non_null(request);
            assert_int_equal(mn_net_test(request, &done, NULL), 0);
            assert_true(done);
        }
        for (int i = 0; i < broken; i++)
            break_socket(&sender(&e)->lanes[i]);
        be_patient(&e);
        assert_int_equal(pthread_create(&closing, NULL, close_sender, e.send), 0);
        for (uint32_t i = 0; i < SLOTS; i++)
            post_one(&e);
        for (uint32_t i = 0; i < SLOTS; i++) {
            uint64_t end = mn_now_ms() + PATIENCE_MS;
            int size = -1, done = 0;
            while (!done) {
                assert_int_equal(mn_net_test(e.in[i], &done, &size), 0);
                assert_true(mn_now_ms() < end);
            }
            assert_int_equal(size, sizeof data);
            assert_int_equal(e.to[(size_t)i * (MOST + CANARY)], i + 1);
        }
        pthread_join(closing, &failed);
        assert_null(failed);
        assert_int_equal(mn_net_close_recv(e.recv), 0);
        assert_int_equal(mn_net_finalize(e.net), 0);
        free(e.from);
        free(e.to);
    }
}

/* What recovery itself moved is looked at before its owner sleeps. */
static void who_is_fenced_does_not_go_to_sleep(void **state)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct ends e;

    (void)state;
    seed = 77;
    open_ends(&e, 0);
    pass_until(&e, 20);
    post_one(&e);
    struct tcp_lane *lane = &receiver(&e)->lanes[1];
    tcp_give_up(sender(&e), &sender(&e)->lanes[1], mn_now_ms(), "the test");
    assert_int_equal(tcp_control(sender(&e)), 0);
    while (lane->state != TCP_DOWN) {
        enum mn_err err = tcp_arm(&receiver(&e)->base);
        assert_int_equal(err, lane->state == TCP_DOWN ? MN_ERR_AGAIN : err);
        assert_true(err == MN_OK || err == MN_ERR_AGAIN);
        assert_true(mn_now_ms() < end);
    }
    close_ends(&e);
}

/* The receiver's owner calls nothing any more. */
static void sender_hears_of_it(void *sent)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    while (!is_done(sent)) {
        nap();
        assert_true(mn_now_ms() < end);
    }
}

/* What was read aside lands as its receive is posted. */
static void what_has_come_before_is_acknowledged_at_once(void **state)
{
    const size_t size = 200000;
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct ends e;

    (void)state;
    open_ends(&e, 0);
    void *wanted = post(&e, 0, 6), *sent = send_bytes(&e, size, 5);
    while (receiver(&e)->messages[0].got < size) {
        assert_false(is_done(wanted));
        assert_false(is_done(sent));
        assert_true(mn_now_ms() < end);
    }
    void *last = send_bytes(&e, 8, 6);
    while (!is_done(wanted))
        assert_true(mn_now_ms() < end);
    assert_true(is_done(last));
    assert_false(is_done(sent));
    assert_true(is_done(post(&e, 1, 5)));
    sender_hears_of_it(sent);
    close_ends(&e);
}

/* No other call has read it. */
static void what_a_fence_has_read_is_acknowledged_at_once(void **state)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct ends e;

    (void)state;
    open_ends(&e, 0);
    void *wanted = post(&e, 0, 5), *sent = send_bytes(&e, TCP_EAGER_MAX + 1, 5);
    tcp_give_up(sender(&e), sender(&e)->first, mn_now_ms(), "the test");
    assert_int_equal(tcp_control(sender(&e)), 0);
    while (receiver(&e)->lanes[0].state != TCP_DOWN) {
        assert_int_equal(tcp_control(receiver(&e)), 0);
        assert_true(mn_now_ms() < end);
    }
    assert_true(is_done(wanted));
    sender_hears_of_it(sent);
    close_ends(&e);
}

/* One message has come, and the socket that says so goes before the sender has heard it. */
static void *lose_the_word(struct ends *e)
{
    void *wanted = post(e, 0, 5), *sent = send_bytes(e, TCP_EAGER_MAX + 1, 5);

    be_patient(e);
    arrives(wanted);
    break_socket(sender(e)->first);
    assert_false(sender(e)->sends[0].landed);
    return sent;
}

/* Its receive is the only one that is posted, as by an owner who has room for so many, and the
 * socket that carries what it lacks has carried the next messages before. */
static void what_is_sent_again_comes_though_later_messages_are_in_front(void **state)
{
    enum { BEFORE = 2 };
    struct ends e;

    (void)state;
    for (int lane = 0; lane < 4; lane++) {
        uint64_t end = mn_now_ms() + PATIENCE_MS;
        int came = 0;
        open_ends(&e, 0);
        be_patient(&e);
        void *sent = send_bytes(&e, 1 << 20, 5);
        for (int i = 0; i < BEFORE; i++)
            (void)send_bytes(&e, 300000, 5);
        for (int i = 0; i < 100; i++)
            assert_false(is_done(sent));
        break_socket(&sender(&e)->lanes[lane]);
        void *wanted = post(&e, 0, 5);
        for (int out = 0; !came || !out; assert_true(mn_now_ms() < end)) {
            came = came || is_done(wanted);
            out = out || is_done(sent);
        }
        for (int i = 0; i < BEFORE; i++)
            arrives(post(&e, 1 + i, 5));
        close_ends(&e);
    }
}

static void who_has_all_says_so_again_without_a_call(void **state)
{
    struct ends e;

    (void)state;
    open_ends(&e, 0);
    void *sent = lose_the_word(&e);
    tcp_attend_join(receiver(&e));
    assert_true(receiver(&e)->attended.joined);
    sender_hears_of_it(sent);
    /* Twice: its new sockets wake it, too. */
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    while (lanes_up(sender(&e)) < sender(&e)->n_all) {
        assert_int_equal(tcp_attend(sender(&e)), 0);
        nap();
        assert_true(mn_now_ms() < end);
    }
    sent = send_bytes(&e, TCP_EAGER_MAX + 1, 5);
    arrives(post(&e, 1, 5));
    mn_attend_enter(&receiver(&e)->attended);
    break_socket(sender(&e)->first);
    break_socket(&sender(&e)->lanes[sender(&e)->n_lanes]);
    mn_attend_exit(&receiver(&e)->attended);
    sender_hears_of_it(sent);
    close_ends(&e);
}

static void who_has_all_says_so_as_he_closes(void **state)
{
    struct ends e;

    (void)state;
    open_ends(&e, 0);
    void *sent = lose_the_word(&e);
    assert_int_equal(mn_net_close_recv(e.recv), 0);
    sender_hears_of_it(sent);
    assert_int_equal(mn_net_close_send(e.send), 0);
    assert_int_equal(mn_net_finalize(e.net), 0);
    free(e.from);
    free(e.to);
}

/* Read along with another message, it is in no socket any more when its receive is posted. */
static void what_has_come_is_there_though_its_sender_has_gone(void **state)
{
    struct ends e;

    (void)state;
    open_ends(&e, 0);
    void *first = send_bytes(&e, 8, 5), *second = send_bytes(&e, 8, 5);
    assert_true(is_done(first));
    assert_true(is_done(second));
    tcp_attend_join(receiver(&e));
    arrives(post(&e, 0, 5));
    assert_int_equal(mn_net_close_send(e.send), 0);
    nanosleep(&(struct timespec){0, 300000000}, NULL); /* it looks in between */
    arrives(post(&e, 1, 5));
    assert_int_equal(mn_net_close_recv(e.recv), 0);
    assert_int_equal(mn_net_finalize(e.net), 0);
    free(e.from);
    free(e.to);
}

static char said[1024];

static void keep(enum mn_log_level level, const char *file, int line, const char *msg)
{
    (void)file, (void)line;
    if (level <= MN_LOG_WARN)
        snprintf(said, sizeof said, "%s", msg);
}

static void acknowledge(const struct ends *e, uint32_t before, uint64_t bits)
{
    struct tcp_frame frame = {.magic = TCP_MAGIC, .type = TCP_ACK, .seq = before};

    memcpy(&frame.tag, &bits, sizeof bits);
    assert_int_equal(send(receiver(e)->lanes[sender(e)->first - sender(e)->lanes].fd, &frame,
                          sizeof frame, 0),
                     sizeof frame);
}

static void is_refused(const struct ends *e, void *sent)
{
    char who[TCP_WHO];
    int done = 0;

    mn_log_set_sink(keep);
    assert_int_not_equal(mn_net_test(sent, &done, NULL), 0);
    mn_log_set_sink(NULL);
    assert_false(done);
    assert_int_equal(atomic_load(&sender(e)->error), MN_ERR_PROTO);
    assert_non_null(strstr(said, tcp_name(sender(e), sender(e)->first, who)));
    assert_non_null(strstr(said, "acknowledgement of a message"));
}

/* The first is more than sockets take; the second has nothing, and waits behind it. */
static void what_is_not_all_sent_has_not_landed(void **state)
{
    static const struct {
        uint32_t before;
        uint64_t bits;
    } wrong[] = {{1, 0}, {2, 0}, {3, 0}, {UINT32_MAX, 0}, {1u << 31, 0},
                 {0, 1}, {0, 2}, {0, 4}, {0, 1ull << 63}};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ends e;
        open_ends(&e, 0);
        void *sent = send_bytes(&e, (size_t)SLOTS * MOST, 5);
        (void)send_bytes(&e, 0, 5);
        assert_true(sender(&e)->sends[0].sent < sender(&e)->sends[0].size);
        assert_non_null(sender(&e)->first->tx);
        acknowledge(&e, wrong[i].before, wrong[i].bits);
        is_refused(&e, sent);
        close_ends(&e);
    }
}

/* By the socket that was given up it has not come; no other has taken it yet. */
static void what_is_to_be_sent_again_has_not_landed(void **state)
{
    (void)state;
    for (uint32_t size = 0; size <= TCP_EAGER_MAX + 1; size += TCP_EAGER_MAX + 1) {
        uint64_t end = mn_now_ms() + PATIENCE_MS;
        struct ends e;
        open_ends(&e, 0);
        void *sent = send_bytes(&e, size, 5);
        struct tcp_comm *s = sender(&e);
        tcp_give_up(s, s->first, mn_now_ms(), "the test");
        s->lanes[0].state = TCP_DOWN;
        assert_true(tcp_log_again(s, &s->lanes[0], 0));
        assert_int_equal(s->n_todo, 1);
        acknowledge(&e, 1, 0);
        mn_log_set_sink(keep);
        /* Looks at what has come before it sends anything. */
        while (!atomic_load(&s->error)) {
            void *request;
            (void)mn_net_isend(e.send, e.from, TCP_EAGER_MAX + 1, 5, e.send_mr, &request);
            assert_null(request);
            assert_true(mn_now_ms() < end);
        }
        is_refused(&e, sent);
        close_ends(&e);
    }
}

/* What has landed in another way is in the log no more, though its socket has not delivered it. */
static void an_answer_may_be_from_before_the_log(void **state)
{
    struct ends e;

    (void)state;
    open_ends(&e, 0);
    struct tcp_lane *lane = &sender(&e)->lanes[1];
    tcp_log(lane, TCP_FIRST, 0, 0, 0);
    lane->log_base += TCP_FRAME_SIZE;
    assert_true(tcp_log_again(sender(&e), lane, 0));
    assert_false(sender(&e)->n_todo);
    close_ends(&e);
}

/* Of a frame under way nobody has read more than was written. */
static void what_is_under_way_was_not_read(void **state)
{
    struct ends e;

    (void)state;
    open_ends(&e, 0);
    (void)send_bytes(&e, (size_t)SLOTS * MOST, 5);
    struct tcp_comm *s = sender(&e);
    struct tcp_lane *lane = s->first;
    assert_non_null(lane->tx);
    assert_false(tcp_log_got(lane, lane->log_tail));
    assert_true(tcp_log_got(lane, lane->log_tail - 1));
    uint64_t written = lane->log_base + TCP_FRAME_SIZE + lane->tx_frame.length - lane->tx_left;
    tcp_give_up(s, lane, mn_now_ms(), "the test");
    uint32_t sent = s->sends[0].sent;
    assert_false(tcp_log_again(s, lane, written + 1));
    assert_true(tcp_log_again(s, lane, written - 1));
    assert_int_equal(s->sends[0].sent, sent - 1);
    close_ends(&e);
}

/* Their numbers wrap; without a fault nothing is taken for recovery. */
static void many_messages_are_no_recovery(void **state)
{
    const uint32_t far = (1u << 31) - 16;
    struct ends e;

    (void)state;
    seed = 5;
    open_ends(&e, 0);
    struct tcp_comm *s = sender(&e), *r = receiver(&e);
    s->seq_next = s->seq_acked = s->seq_header = s->seq_take = far;
    r->seq_known = r->seq_unmatched = r->seq_landed = far;
    for (uint32_t n = 8; n <= 40; n += 8) {
        pass_until(&e, n);
        assert_false(tcp_is_recovering(r));
    }
    assert_true((int32_t)r->seq_known < 0);
    close_ends(&e);
}

/* What was said on the old one may not have been heard. */
static void a_new_control_socket_hears_it_all_again(void **state)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct ends e;

    (void)state;
    seed = 6;
    open_ends(&e, 0);
    pass_until(&e, 20);
    struct tcp_comm *s = sender(&e), *r = receiver(&e);
    struct tcp_lane *control = &r->lanes[r->n_lanes];
    r->lanes[1].asked = 1; /* and said, on a socket that loses it */
    tcp_give_up(s, &s->lanes[s->n_lanes], mn_now_ms(), "the test");
    while (!mn_reopen_is_done(control->reopen)) {
        assert_int_equal(tcp_look(s), 0);
        nap();
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(control->state, TCP_UP);
    assert_int_equal(tcp_take_back(r, control), 0);
    assert_ptr_equal(r->failover->control, control);
    assert_true(r->lanes[1].say & TCP_SAY_REQUEST);
    while (!s->lanes[1].turn) {
        pass_until(&e, e.n_received + 1);
        assert_true(mn_now_ms() < end);
    }
    pass_until(&e, e.n_sent);
    close_ends(&e);
}

/* One of two sockets is back, and goes again: it is not dialled at once for ever. */
static void a_socket_that_does_not_hold_waits_longer(void **state)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct ends e;

    (void)state;
    seed = 8;
    open_ends(&e, 0);
    pass_until(&e, 20);
    struct tcp_comm *s = sender(&e);
    struct tcp_link *link = &s->failover->links[0];
    struct mn_reopen *way_back = s->lanes[2].reopen;
    s->lanes[2].reopen = NULL; /* it stays away */
    tcp_give_up(s, &s->lanes[1], mn_now_ms(), "the test");
    tcp_give_up(s, &s->lanes[2], mn_now_ms(), "the test");
    unsigned hold = link->hold_ms;
    while (s->lanes[1].state != TCP_UP) {
        pass_until(&e, e.n_received + 1);
        assert_true(mn_now_ms() < end);
    }
    assert_true(link->gone);
    nap();
    while (mn_now_ms() == link->up_ms)
        nap();
    tcp_give_up(s, &s->lanes[1], mn_now_ms(), "the test");
    assert_int_equal(link->hold_ms, 2 * hold);
    assert_true(link->fell_ms > link->gone_ms);
    s->lanes[2].reopen = way_back;
    while (link->gone) {
        pass_until(&e, e.n_received + 1);
        assert_true(mn_now_ms() < end);
    }
    pass_until(&e, e.n_sent);
    close_ends(&e);
}

/* Half a frame on a control socket: the next are said on another, the rest of it follows all the
 * same. */
static void half_a_control_frame_is_finished(void **state)
{
    struct ends e;

    (void)state;
    seed = 9;
    open_ends(&e, 0);
    pass_until(&e, 20);
    struct tcp_comm *s = sender(&e);
    struct tcp_lane *control = &s->lanes[s->n_lanes];
    control->tx_frame = (struct tcp_frame){.magic = TCP_MAGIC, .type = TCP_JOIN, .tag = 0};
    assert_int_equal(send(control->fd, &control->tx_frame, 20, MSG_NOSIGNAL), 20);
    control->tx_header_left = TCP_FRAME_SIZE - 20;
    s->failover->control = NULL;
    assert_int_equal(tcp_control(s), 0);
    assert_int_equal(control->tx_header_left, 0);
    s->failover->control = control;
    pass_until(&e, e.n_sent + 5);
    assert_int_equal(atomic_load(&receiver(&e)->error), 0);
    close_ends(&e);
}

/* No socket for data is left, and the peer's process calls nothing for longer than a link may be
 * silent: its host answers all the while. */
static void who_calls_nothing_is_not_dead(void **state)
{
    struct ends e;

    (void)state;
    seed = 31;
    open_ends(&e, 0);
    pass_until(&e, 20);
    while (!e.out[e.n_sent % SLOTS])
        send_one(&e);
    for (int i = 0; i < sender(&e)->n_lanes; i++)
        break_socket(&sender(&e)->lanes[i]);
    uint64_t end = mn_now_ms() + 2 * (uint64_t)sender(&e)->silence_ms;
    while (mn_now_ms() < end) {
        assert_int_equal(tcp_look(sender(&e)), 0);
        test_sends(&e);
        nap();
    }
    assert_int_equal(lanes_up(sender(&e)), sender(&e)->n_all - sender(&e)->n_lanes);
    assert_true(sender(&e)->failover->n_waiting > 0);
    pass_until(&e, e.n_sent);
    close_ends(&e);
}

static void a_thread_that_sends_goes_on_too(void **state)
{
    struct ends e;

    (void)state;
    seed = 17;
    open_ends(&e, 1);
    for (int i = 0; i < 10; i++) {
        pass_until(&e, e.n_received + 20);
        break_socket(&receiver(&e)->lanes[i % (receiver(&e)->n_lanes - 1)]);
    }
    pass_until(&e, e.n_sent);
    close_ends(&e);
}

/* A process that has ended is not taken for a socket that broke. */
static void the_end_of_the_peer_is_told(void **state)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct ends e;
    int err = 0;

    (void)state;
    seed = 3;
    open_ends(&e, 0);
    pass_until(&e, 20);
    post_one(&e);
    assert_int_equal(mn_net_close_send(e.send), 0);
    while (!err) {
        int done = 0;
        err = mn_net_test(e.in[e.n_received % SLOTS], &done, NULL);
        assert_false(done);
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(atomic_load(&receiver(&e)->error), MN_ERR_PEER_DEAD);
    assert_int_equal(sum_of(receiver(&e)).gone, 0);
    assert_int_equal(mn_net_close_recv(e.recv), 0);
    assert_int_equal(mn_net_finalize(e.net), 0);
    free(e.from);
    free(e.to);
}

/* Control frames are nobody's word: each of these ends the connection, and touches nothing. */
static void bad_control_frames_are_refused(void **state)
{
    static const struct tcp_frame bad[] = {
        {.magic = 1, .type = TCP_SYNC},
        {.magic = TCP_MAGIC, .type = TCP_SYNC, .seq = 1000},
        {.magic = TCP_MAGIC, .type = TCP_SYNC, .size = 1},
        {.magic = TCP_MAGIC, .type = TCP_SYNC, .offset = 100000},
        {.magic = TCP_MAGIC, .type = TCP_SYNC, .tag = 77},
        {.magic = TCP_MAGIC, .type = TCP_SYNC, .tag = -2},
        {.magic = TCP_MAGIC, .type = TCP_ANSWER},
        {.magic = TCP_MAGIC, .type = TCP_FIRST},
        {.magic = TCP_MAGIC, .type = 99},
        {.magic = TCP_MAGIC, .type = TCP_JOIN, .zero = 1},
        {.magic = TCP_MAGIC, .type = TCP_JOIN, .flags = 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t end = mn_now_ms() + PATIENCE_MS;
        struct ends e;
        int err = 0;
        open_ends(&e, 0);
        assert_int_equal(send(sender(&e)->lanes[sender(&e)->n_lanes].fd, &bad[i], sizeof *bad, 0),
                         sizeof *bad);
        post_one(&e);
        while (!err) {
            int done = 0;
            err = mn_net_test(e.in[0], &done, NULL);
            assert_true(mn_now_ms() < end);
        }
        assert_int_equal(atomic_load(&receiver(&e)->error), MN_ERR_PROTO);
        close_ends(&e);
    }
}

static uint32_t pick(void)
{
    static const uint32_t some[] = {0,   1,   2,    3,     5,          127,
                                    128, 129, 4096, 65536, UINT32_MAX, 1u << 31};

    return draw() % 4 ? some[draw() % (sizeof some / sizeof *some)] : draw();
}

/* A frame, or a part of one, of nobody, to either end. */
static void say_something(struct ends *e)
{
    struct tcp_comm *comm = draw() % 2 ? sender(e) : receiver(e);
    const struct tcp_lane *lane = &comm->lanes[draw() % (unsigned)comm->n_all];
    struct tcp_frame frame = {
        .magic = draw() % 50 ? TCP_MAGIC : draw(),
        .type = (uint8_t)(draw() % (TCP_JOIN + 2)),
        .flags = draw() % 4 ? 0 : (uint8_t)draw(),
        .zero = draw() % 50 ? 0 : 1,
        .seq = draw() % 2 ? receiver(e)->seq_known : pick(),
        .tag = draw() % 2 ? (int32_t)(draw() % 6) : (int32_t)pick(),
        .size = pick(),
        .offset = pick(),
        .length = pick(),
        .spare = pick(),
    };

    if (lane->fd >= 0)
        (void)send(lane->fd, &frame, draw() % 8 ? sizeof frame : draw() % sizeof frame,
                   MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Whatever it makes of it, each end goes on or fails, and writes to no buffer beyond its size. */
static void frames_of_nobody_do_no_harm(void **state)
{
    (void)state;
    for (uint32_t round = 1; round <= 150; round++) {
        struct ends e;
        int err = 0;
        seed = round * 2654435761u;
        open_ends(&e, 0);
        for (int i = 0; i < 200 && !err; i++) {
            void *request = NULL;
            int done = 0;
            if (draw() % 4 == 0)
                say_something(&e);
            if (i % 8 == 0 && i / 8 < SLOTS) {
                void *data = e.to + (size_t)(i / 8) * (MOST + CANARY);
                size_t size = MOST;
                int tag = (int)(draw() % 3) + 4;
                memset(e.to + (size_t)(i / 8) * (MOST + CANARY) + MOST, 0xaa, CANARY);
                err |= mn_net_irecv(e.recv, 1, &data, &size, &tag, &e.recv_mr, &e.in[i / 8]);
                err |= mn_net_isend(e.send, e.from, size_of(draw()), 5, e.send_mr, &request);
            }
            if (e.in[0] && !err)
                err |= mn_net_test(e.in[0], &done, NULL);
            e.in[0] = done ? NULL : e.in[0];
            if (request && !err)
                err |= mn_net_test(request, &done, NULL);
            (void)tcp_idle(sender(&e));
            (void)tcp_idle(receiver(&e));
        }
        for (int i = 0; i < SLOTS; i++)
            for (int k = 0; e.in[i] && k < CANARY; k++)
                assert_int_equal(e.to[(size_t)i * (MOST + CANARY) + MOST + (size_t)k], 0xaa);
        close_ends(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_arrives_though_sockets_break),
        cmocka_unit_test(each_socket_may_break_and_comes_back),
        cmocka_unit_test(small_messages_that_are_done_arrive),
        cmocka_unit_test(small_messages_that_are_done_arrive_without_a_call),
        cmocka_unit_test(small_messages_that_are_done_arrive_after_close),
        cmocka_unit_test(who_is_fenced_does_not_go_to_sleep),
        cmocka_unit_test(what_has_come_before_is_acknowledged_at_once),
        cmocka_unit_test(what_a_fence_has_read_is_acknowledged_at_once),
        cmocka_unit_test(what_is_sent_again_comes_though_later_messages_are_in_front),
        cmocka_unit_test(who_has_all_says_so_again_without_a_call),
        cmocka_unit_test(who_has_all_says_so_as_he_closes),
        cmocka_unit_test(what_has_come_is_there_though_its_sender_has_gone),
        cmocka_unit_test(what_is_not_all_sent_has_not_landed),
        cmocka_unit_test(what_is_to_be_sent_again_has_not_landed),
        cmocka_unit_test(an_answer_may_be_from_before_the_log),
        cmocka_unit_test(what_is_under_way_was_not_read),
        cmocka_unit_test(many_messages_are_no_recovery),
        cmocka_unit_test(a_new_control_socket_hears_it_all_again),
        cmocka_unit_test(a_socket_that_does_not_hold_waits_longer),
        cmocka_unit_test(half_a_control_frame_is_finished),
        cmocka_unit_test(who_calls_nothing_is_not_dead),
        cmocka_unit_test(a_thread_that_sends_goes_on_too),
        cmocka_unit_test(the_end_of_the_peer_is_told),
        cmocka_unit_test(bad_control_frames_are_refused),
        cmocka_unit_test(frames_of_nobody_do_no_harm),
    };

    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_SOCKET_FAMILY", "AF_INET", 1);
    unsetenv("MESHNET_CONFIG");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
