/* A stream has no pieces: what is sent arrives right wherever it is cut as it is read, and a byte
 * at a time; so does what is said of sockets, and what one that is given up has carried in part. */
#include "plugin/transport/tcp/tcp_failover_kit.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plugin/reopen_impl.h"

#define FDS     1024
#define FOREVER INT32_MAX

/* What this thread reads of a socket: up to the cut; then so many reads find nothing. */
static _Thread_local struct {
    int fd; /* -1 = none */
    size_t at, cut;
    int empty;
} tap = {.fd = -1};
/* Every other read finds nothing, the others a byte. */
static _Thread_local int bytewise;
static _Thread_local uint8_t had[FDS];

static size_t may_read(int fd, size_t n, int flags)
{
    if (flags & MSG_PEEK)
        return n;
    if (fd == tap.fd && tap.at == tap.cut && tap.empty) {
        tap.empty--;
        return 0;
    }
    if (bytewise && fd < FDS)
        return had[fd] ^= 1;
    return fd == tap.fd && tap.at < tap.cut && tap.cut - tap.at < n ? tap.cut - tap.at : n;
}

static ssize_t has_read(int fd, ssize_t n, int flags)
{
    if (fd == tap.fd && n > 0 && !(flags & MSG_PEEK))
        tap.at += (size_t)n;
    return n;
}

static ssize_t nothing(void)
{
    errno = EAGAIN;
    return -1;
}

/* In place of libc's. */
ssize_t recv(int fd, void *buf, size_t n, int flags)
{
    size_t may = may_read(fd, n, flags);

    return n && !may ? nothing()
                     : has_read(fd, syscall(SYS_recvfrom, fd, buf, may, flags, NULL, NULL), flags);
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    struct msghdr own = *msg;
    struct iovec iov[2];
    size_t n = 0;

    if (fd != tap.fd && !bytewise)
        return syscall(SYS_recvmsg, fd, msg, flags);
    assert_true(msg->msg_iovlen <= 2);
    for (size_t i = 0; i < msg->msg_iovlen; i++)
        n += msg->msg_iov[i].iov_len;
    size_t may = may_read(fd, n, flags);
    if (n && !may)
        return nothing();
    own.msg_iov = iov;
    for (size_t i = 0; i < msg->msg_iovlen; i++) {
        iov[i] = msg->msg_iov[i];
        iov[i].iov_len = may < iov[i].iov_len ? may : iov[i].iov_len;
        may -= iov[i].iov_len;
    }
    return has_read(fd, syscall(SYS_recvmsg, fd, &own, flags), flags);
}

static void cut_at(int fd, size_t cut, int empty)
{
    tap.fd = fd;
    tap.at = 0;
    tap.cut = cut;
    tap.empty = empty;
}

/* --- messages --------------------------------------------------------------------------------- */

#define TAG  5
#define LAST 6 /* the last message's, where the others are read aside */
#define HELD 7 /* one's that is received last: until then it is not all that has landed */

struct messages {
    int n, aside;
    size_t sizes[8];
};

static const struct messages small = {5, 0, {8, 0, 1, 300, 5000}}, aside = {4, 1, {700, 0, 90, 8}},
                             large = {4, 0, {8, TCP_EAGER_MAX + 1, 0, 40}},
                             striped = {2, 0, {TCP_STRIPE_MIN * 3 / 2, 8}};

static uint8_t *source(const struct ends *e, int i)
{
    return e->from + (size_t)i * MOST;
}

static uint8_t *target(const struct ends *e, int i)
{
    return e->to + (size_t)i * (MOST + CANARY);
}

/* Sockets go and return by the hundred: of all else that is said there is nothing. */
static void keep(enum mn_log_level level, const char *file, int line, const char *msg)
{
    (void)file, (void)line;
    if (level <= MN_LOG_WARN && !strstr(msg, ": out: ") && !strstr(msg, ": is back after "))
        fprintf(stderr, "%s\n", msg);
}

static void open_filled(struct ends *e)
{
    open_ends(e, 0);
    mn_log_set_sink(keep);
    be_patient(e);
    for (int i = 0; i < 8; i++)
        mn_pattern_fill(source(e, i), MOST, seed_of((uint32_t)i + 1));
}

static void begin(struct ends *e, const struct messages *m)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    for (int k = 0; k < m->n; k++) {
        int i = m->aside ? (k + m->n - 1) % m->n : k;
        memset(target(e, i), 0xaa, m->sizes[i] + CANARY);
        e->in[i] = post(e, i, m->aside && i == m->n - 1 ? LAST : TAG);
    }
    for (int i = 0; i < m->n; i++)
        while (!e->out[i]) {
            assert_int_equal(mn_net_isend(e->send, source(e, i), m->sizes[i],
                                          m->aside && i == m->n - 1 ? LAST : TAG, e->send_mr,
                                          &e->out[i]),
                             0);
            assert_true(mn_now_ms() < end);
        }
}

static void is_right(const struct ends *e, const struct messages *m, int i, int size)
{
    const uint8_t *data = target(e, i);

    if (size != (int)m->sizes[i] || memcmp(data, source(e, i), (size_t)size) != 0 ||
        !mn_pattern_is_plain(data + size, CANARY, 0xaa))
        fail_msg("cut at byte %zu: message %d of %zu bytes has come wrong, with %d", tap.cut, i,
                 m->sizes[i], size);
}

/* Each is called once; whether there is more to wait for. */
static int is_under_way(struct ends *e, const struct messages *m)
{
    int left = 0;

    for (int i = 0; i < m->n; i++) {
        int done = 0, size = -1;
        if (e->in[i])
            assert_int_equal(mn_net_test(e->in[i], &done, &size), 0);
        if (done) {
            is_right(e, m, i, size);
            e->in[i] = NULL;
        }
        if (e->out[i] && is_done(e->out[i]))
            e->out[i] = NULL;
        left |= e->in[i] || e->out[i];
    }
    return left;
}

static void all_arrives(struct ends *e, const struct messages *m)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    while (is_under_way(e, m))
        if (mn_now_ms() >= end)
            fail_msg("cut at byte %zu: it does not arrive", tap.cut);
}

static void pass(struct ends *e, const struct messages *m)
{
    begin(e, m);
    all_arrives(e, m);
}

/* Before others that are passed, and after them. */
static void *send_held(struct ends *e)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    void *held = NULL;

    for (; !held; assert_true(mn_now_ms() < end))
        assert_int_equal(mn_net_isend(e->send, source(e, 0), 0, HELD, e->send_mr, &held), 0);
    return held;
}

static void take_held(struct ends *e, void *held)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    void *posted = post(e, 0, HELD);
    int done = 0;

    for (; !done; assert_true(mn_now_ms() < end))
        assert_int_equal(mn_net_test(posted, &done, NULL), 0);
    while (!is_done(held))
        assert_true(mn_now_ms() < end);
}

/* --- data ------------------------------------------------------------------------------------- */

static size_t stream_of(const struct messages *m)
{
    size_t n = 0;

    for (int i = 0; i < m->n; i++)
        n += TCP_FRAME_SIZE + m->sizes[i];
    return n;
}

static void data_may_be_cut_at_every_byte(void **state)
{
    static const struct messages *const all[] = {&small, &aside, &large};
    struct ends e;

    (void)state;
    open_filled(&e);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t cut = 1, n = stream_of(all[i]); cut < n; cut++) {
            cut_at(receiver(&e)->lanes[0].fd, cut, 1);
            pass(&e, all[i]);
            assert_int_equal(tap.at, n);
            assert_false(tap.empty);
        }
    cut_at(-1, 0, 0);
    close_ends(&e);
}

/* A sender's parts are of 64 KiB or more: these are as it would write them, in any order. */
static void parts_may_be_cut_at_every_byte(void **state)
{
    enum { LANES = 3 };
    static const struct messages m = {1, 0, {2000}};
    static const uint32_t offsets[LANES + 1] = {0, 700, 1600, 2000};
    struct ends e;

    (void)state;
    open_filled(&e);
    for (int cut_lane = 0; cut_lane < LANES; cut_lane++) {
        size_t n = TCP_FRAME_SIZE + offsets[cut_lane + 1] - offsets[cut_lane];
        for (size_t cut = 1; cut < n; cut++) {
            uint64_t end = mn_now_ms() + PATIENCE_MS;
            memset(target(&e, 0), 0xaa, m.sizes[0] + CANARY);
            cut_at(receiver(&e)->lanes[cut_lane].fd, cut, 2);
            void *posted = post(&e, 0, TAG);
            for (int k = 0; k < LANES; k++) {
                int lane = (k + (int)cut) % LANES;
                uint32_t length = offsets[lane + 1] - offsets[lane];
                struct tcp_frame frame = {.magic = TCP_MAGIC,
                                          .type = lane ? TCP_MORE : TCP_FIRST,
                                          .seq = receiver(&e)->seq_known,
                                          .tag = TAG,
                                          .size = (uint32_t)m.sizes[0],
                                          .offset = offsets[lane],
                                          .length = length};
                int fd = sender(&e)->lanes[lane].fd;
                assert_int_equal(send(fd, &frame, sizeof frame, MSG_MORE), sizeof frame);
                assert_int_equal(send(fd, source(&e, 0) + offsets[lane], length, 0), length);
            }
            int done = 0, size = -1;
            for (; !done; assert_true(mn_now_ms() < end))
                assert_int_equal(mn_net_test(posted, &done, &size), 0);
            is_right(&e, &m, 0, size);
            assert_int_equal(tap.at, n);
        }
    }
    cut_at(-1, 0, 0);
    atomic_store(&sender(&e)->error, MN_ERR_PEER_DEAD); /* it has sent nothing of all that */
    close_ends(&e);
}

/* Inside of a part one place is as another: every byte at its ends, where headers and what is read
 * along with them are. */
static void striped_data_may_be_cut(void **state)
{
    enum { NEAR = TCP_STAGE + 2 * TCP_FRAME_SIZE, END = 2 * TCP_FRAME_SIZE + 8, STEP = 509 };
    struct ends e;

    (void)state;
    open_filled(&e);
    for (int turn = 0; turn < 2; turn++) /* first lane to take a part: the second brings it early */
        for (int lane = 0; lane < 3; lane++)
            for (size_t cut = 1, n = cut + 1; cut < n;
                 cut += cut < NEAR || cut + STEP + END > n ? 1 : STEP) {
                receiver(&e)->polled_max = cut % 2 ? 0 : TCP_POLLED_MAX;
                sender(&e)->turn = turn;
                cut_at(receiver(&e)->lanes[lane].fd, cut, 1);
                pass(&e, &striped);
                n = tap.at;
            }
    cut_at(-1, 0, 0);
    close_ends(&e);
}

/* --- what comes back, and what is said -------------------------------------------------------- */

static void acknowledgements_may_be_cut_at_every_byte(void **state)
{
    static const struct messages many = {8, 0, {0, 1, 0, 1, 0, 1, 0, TCP_EAGER_MAX + 1}};
    struct ends e;

    (void)state;
    open_filled(&e);
    for (size_t cut = 1; cut < 4 * TCP_FRAME_SIZE; cut++) {
        cut_at(sender(&e)->first->fd, cut, 1);
        /* GOT, too: where not all has landed, and after so many messages. */
        void *held = cut % 2 ? send_held(&e) : NULL;
        for (int i = 0; i < 4; i++)
            pass(&e, &many);
        assert_false(tap.empty);
        if (held)
            take_held(&e, held);
    }
    cut_at(-1, 0, 0);
    close_ends(&e);
}

/* As if it had been dialled. */
static void bring_back(struct ends *e, int lane)
{
    struct tcp_comm *both[2] = {sender(e), receiver(e)};
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    for (int i = 1; i >= 0; i--) {
        both[i]->lanes[lane].reopen->attempt++;
        mn_reopen_give(both[i]->lanes[lane].reopen, fds[i]);
    }
    sender(e)->lanes[lane].dialled = 1;
    sender(e)->failover->links[0].hold_ms = 0;
}

/* The sender's way: SYNC, ANSWER, JOIN. */
static void lose_and_return(struct ends *e, int lane)
{
    struct tcp_comm *s = sender(e), *r = receiver(e);
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    for (; s->lanes[lane].state != TCP_DOWN; assert_true(mn_now_ms() < end)) {
        assert_int_equal(tcp_control(r), 0);
        assert_int_equal(tcp_control(s), 0);
    }
    if (tap.empty >= FOREVER / 2) /* the socket's number may be another's next */
        cut_at(-1, tap.cut, 0);
    bring_back(e, lane);
    for (; s->lanes[lane].off || r->lanes[lane].off; assert_true(mn_now_ms() < end)) {
        s->failover->look_ms = 0;
        assert_int_equal(tcp_attend(s), 0); /* its messages may be done: nobody else sends again */
        assert_int_equal(tcp_control(r), 0);
    }
}

/* REQUEST and ANSWER one way, SYNC and JOIN the other; what was under way comes by other sockets.
 */
static void words_may_be_cut_at_every_byte(void **state)
{
    (void)state;
    for (int to_sender = 0; to_sender < 2; to_sender++) {
        size_t cut = 1;
        struct ends e;
        open_filled(&e);
        struct tcp_comm *s = sender(&e), *r = receiver(&e);
        for (;; cut++) {
            int lane = (int)(s->first - s->lanes);
            cut_at((to_sender ? s : r)->lanes[s->n_lanes].fd, cut, 1);
            begin(&e, &small);
            r->lanes[lane].asked = 1;
            tcp_say(r, &r->lanes[lane], TCP_SAY_REQUEST);
            lose_and_return(&e, lane);
            all_arrives(&e, &small);
            if (tap.at <= cut)
                break;
        }
        assert_true(cut >= 2 * (size_t)TCP_FRAME_SIZE);
        cut_at(-1, 0, 0);
        close_ends(&e);
    }
}

/* What is beyond the cut is lost with it. */
static void a_socket_may_be_given_up_at_every_byte(void **state)
{
    static const struct messages m = {4, 0, {8, 0, 300, 40}};
    struct ends e;

    (void)state;
    open_filled(&e);
    for (size_t cut = 0; cut <= stream_of(&m); cut++) {
        uint64_t end = mn_now_ms() + PATIENCE_MS;
        int lane = (int)(sender(&e)->first - sender(&e)->lanes);
        cut_at(receiver(&e)->lanes[lane].fd, cut, FOREVER);
        begin(&e, &m);
        while (tap.at < cut && is_under_way(&e, &m))
            assert_true(mn_now_ms() < end);
        assert_int_equal(tap.at, cut);
        tcp_give_up(sender(&e), &sender(&e)->lanes[lane], mn_now_ms(), "the test");
        lose_and_return(&e, lane);
        all_arrives(&e, &m);
    }
    assert_true(sum_of(sender(&e)).again > 0);
    cut_at(-1, 0, 0);
    close_ends(&e);
}

/* --- all of it -------------------------------------------------------------------------------- */

static void all_may_come_a_byte_at_a_time(void **state)
{
    static const struct messages *const all[] = {&small, &aside, &large, &striped};
    struct ends e;

    (void)state;
    open_filled(&e);
    bytewise = 1;
    for (int unpolled = 0; unpolled < 2; unpolled++) {
        receiver(&e)->polled_max = unpolled ? 0 : TCP_POLLED_MAX;
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            pass(&e, all[i]);
    }
    /* What has landed is known by that. */
    for (int i = 0; i < 4; i++)
        pass(&e, &small);
    assert_int_equal(sender(&e)->lanes[0].log_head, 0);
    void *held = send_held(&e);
    for (int i = 0; i < 12; i++)
        pass(&e, &small);
    /* Else frames read are heard of: the log is far from full. */
    assert_true(sender(&e)->lanes[0].log_tail < TCP_LOG);
    assert_true(sender(&e)->lanes[0].log_head > 0);
    take_held(&e, held);
    for (int i = 0; i < 3; i++) {
        int lane = (int)(sender(&e)->first - sender(&e)->lanes);
        begin(&e, &large);
        tcp_give_up(sender(&e), &sender(&e)->lanes[lane], mn_now_ms(), "the test");
        lose_and_return(&e, lane);
        all_arrives(&e, &large);
    }
    bytewise = 0;
    close_ends(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_may_be_cut_at_every_byte),
        cmocka_unit_test(parts_may_be_cut_at_every_byte),
        cmocka_unit_test(striped_data_may_be_cut),
        cmocka_unit_test(acknowledgements_may_be_cut_at_every_byte),
        cmocka_unit_test(words_may_be_cut_at_every_byte),
        cmocka_unit_test(a_socket_may_be_given_up_at_every_byte),
        cmocka_unit_test(all_may_come_a_byte_at_a_time),
    };

    use_loopback();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
