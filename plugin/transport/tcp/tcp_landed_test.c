/* What a sender has given away though its socket breaks, and what a receiver says of what has come:
 * also when neither is called any more. */
#include "plugin/transport/tcp/tcp_failover_kit.h"

enum { SMALL = 128 };

/* Done at once, and its buffer is its owner's again. */
static void send_small(const struct ends *e, uint32_t value)
{
    memset(e->from, (int)value, SMALL);
    assert_true(is_done(send_bytes(e, SMALL, 5)));
    memset(e->from, 0, SMALL);
}

/* What is done is in nobody's hands but ours: its socket goes before the peer has read it. */
static void small_messages_that_are_done_arrive(void **state)
{
    struct ends e;

    (void)state;
    open_ends(&e, 0);
    for (uint32_t i = 0; i < 20; i++)
        send_small(&e, i + 1);
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
        assert_int_equal(size, SMALL);
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

/* ... or waits elsewhere for what the receiver makes of them: only the receiver is called. */
static void small_messages_that_are_done_arrive_without_a_call(void **state)
{
    struct ends e;

    (void)state;
    open_ends(&e, 0);
    be_patient(&e);
    for (uint32_t i = 0; i < SLOTS; i++)
        send_small(&e, i + 1);
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
    void *request = send_bytes(&e, SMALL, 5);
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
    struct ends e;

    (void)state;
    for (int broken = 1; broken <= 4; broken += 3) {
        pthread_t closing;
        void *failed = NULL;
        open_ends(&e, 0);
        for (uint32_t i = 0; i < SLOTS; i++)
            send_small(&e, i + 1);
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
            assert_int_equal(size, SMALL);
            assert_int_equal(e.to[(size_t)i * (MOST + CANARY)], i + 1);
        }
        pthread_join(closing, &failed);
        assert_null(failed);
        assert_int_equal(mn_net_close_recv(e.recv), 0);
        free_ends(&e);
    }
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

/* All sockets but the one that carries the next message are broken, and then the peer is gone: its
 * end is behind that message. */
static void who_dies_behind_a_message_without_a_receive_is_missed(void **state)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    int done = 0, failed = 0;
    struct ends e;

    (void)state;
    open_ends(&e, 0);
    void *sent = send_bytes(&e, 1 << 20, 5), *next = send_bytes(&e, 300000, 5);
    for (int i = 0; i < 100; i++)
        assert_false(is_done(sent) || is_done(next));
    for (int i = 0; i < sender(&e)->n_all; i++)
        if (&sender(&e)->lanes[i] != sender(&e)->first)
            break_socket(&receiver(&e)->lanes[i]);
    assert_int_equal(shutdown(sender(&e)->first->fd, SHUT_WR), 0);
    void *wanted = post(&e, 0, 5);
    for (; !failed; assert_true(mn_now_ms() < end)) {
        failed = mn_net_test(wanted, &done, NULL);
        assert_false(done);
    }
    assert_int_equal(atomic_load(&receiver(&e)->error), MN_ERR_PEER_DEAD);
    assert_int_equal(mn_net_close_recv(e.recv), 0);
    atomic_store(&sender(&e)->error, MN_ERR_PEER_DEAD); /* which it is */
    assert_int_equal(mn_net_close_send(e.send), 0);
    free_ends(&e);
}

/* Its beginning was on a socket that is lost, and behind what nobody reads no end is to be seen. */
static void who_dies_behind_a_part_without_its_beginning_is_missed(void **state)
{
    static struct {
        struct tcp_frame frame;
        uint8_t bytes[65536];
    } part = {.frame = {.magic = TCP_MAGIC,
                        .type = TCP_MORE,
                        .tag = 5,
                        .size = 2 * sizeof part.bytes,
                        .offset = sizeof part.bytes,
                        .length = sizeof part.bytes}};
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct ends e;
    int result = 0, done = 0, lane = 0;

    (void)state;
    open_ends(&e, 0);
    lane = sender(&e)->first == &sender(&e)->lanes[0];
    void *posted = post(&e, 0, 5);
    assert_int_equal(send(sender(&e)->lanes[lane].fd, &part, sizeof part, 0), sizeof part);
    while (!receiver(&e)->lanes[lane].rx_parked) {
        assert_false(is_done(posted));
        assert_true(mn_now_ms() < end);
    }
    for (int i = 0; i < sender(&e)->n_all; i++)
        break_socket(&sender(&e)->lanes[i]);
    for (; !result; result = mn_net_test(posted, &done, NULL))
        assert_true(!done && mn_now_ms() < end);
    assert_int_equal(result, ncclRemoteError);
    close_ends(&e);
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

static uint64_t control_of(struct tcp_comm *comm)
{
    mn_attend_enter(&comm->attended);
    uint64_t attempt = comm->lanes[comm->n_lanes].attempt;
    mn_attend_exit(&comm->attended);
    return attempt;
}

/* The sender would say what is next on one that nobody hears. */
static void a_control_socket_alone_is_taken_back_without_a_call(void **state)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct ends e;

    (void)state;
    open_ends(&e, 0);
    tcp_attend_join(receiver(&e));
    uint64_t before = control_of(sender(&e));
    break_socket(&sender(&e)->lanes[sender(&e)->n_lanes]);
    while (control_of(sender(&e)) == before) {
        assert_int_equal(tcp_attend(sender(&e)), 0);
        nap();
        assert_true(mn_now_ms() < end);
    }
    while (control_of(receiver(&e)) != control_of(sender(&e))) {
        nanosleep(&(struct timespec){0, 100000000}, NULL);
        assert_true(mn_now_ms() < end);
    }
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
    free_ends(&e);
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
    free_ends(&e);
}

static char said[1024];

static void keep(enum mn_log_level level, const char *file, int line, const char *msg)
{
    (void)file, (void)line;
    if (level <= MN_LOG_WARN)
        snprintf(said, sizeof said, "%s", msg);
}

/* Behind what nobody has read no socket ends. */
static void who_closes_does_not_wait_for_a_sender_that_has_closed(void **state)
{
    struct ends e;

    (void)state;
    open_ends(&e, 0);
    (void)send_bytes(&e, TCP_EAGER_MAX + 1, 5);
    arrives(post(&e, 0, 5));
    assert_true(is_done(send_bytes(&e, 8, 5)));
    assert_true(is_done(send_bytes(&e, 8, 5)));
    arrives(post(&e, 1, 5));
    assert_int_equal(mn_net_close_send(e.send), 0);
    uint64_t end = mn_now_ms() + 1000; /* its control socket is let go */
    while (mn_now_ms() < end)
        assert_int_equal(tcp_attend(receiver(&e)), 0);
    said[0] = 0;
    mn_log_set_sink(keep);
    assert_int_equal(mn_net_close_recv(e.recv), 0);
    mn_log_set_sink(NULL);
    assert_null(strstr(said, "closed while"));
    free_ends(&e);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_messages_that_are_done_arrive),
        cmocka_unit_test(small_messages_that_are_done_arrive_without_a_call),
        cmocka_unit_test(small_messages_that_are_done_arrive_after_close),
        cmocka_unit_test(what_has_come_before_is_acknowledged_at_once),
        cmocka_unit_test(what_a_fence_has_read_is_acknowledged_at_once),
        cmocka_unit_test(what_is_sent_again_comes_though_later_messages_are_in_front),
        cmocka_unit_test(who_dies_behind_a_message_without_a_receive_is_missed),
        cmocka_unit_test(who_dies_behind_a_part_without_its_beginning_is_missed),
        cmocka_unit_test(who_has_all_says_so_again_without_a_call),
        cmocka_unit_test(a_control_socket_alone_is_taken_back_without_a_call),
        cmocka_unit_test(who_has_all_says_so_as_he_closes),
        cmocka_unit_test(what_has_come_is_there_though_its_sender_has_gone),
        cmocka_unit_test(who_closes_does_not_wait_for_a_sender_that_has_closed),
        cmocka_unit_test(what_is_not_all_sent_has_not_landed),
        cmocka_unit_test(what_is_to_be_sent_again_has_not_landed),
        cmocka_unit_test(an_answer_may_be_from_before_the_log),
        cmocka_unit_test(what_is_under_way_was_not_read),
    };

    use_loopback();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
