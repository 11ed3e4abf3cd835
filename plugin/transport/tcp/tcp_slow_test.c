/* A link that carries less than was agreed gets what it can carry, and is named once. What sockets
 * take, and what the kernel says of them, is the test's; so is the clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plugin/transport/tcp/tcp_failover.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"
#include "topo/base/pattern_kit.h"

#define DATA    4 /* two sockets a link */
#define ALL     (DATA + 2)
#define LINKS   2
#define LOOKS   20 /* a second of them */
#define LOOK_MS 50
#define MESSAGE (1u << 20)
#define WINDOW  4
#define ROUNDS  100000 /* the bound of every wait */
#define MB      1000000ull

static struct mn_config config;
static struct tcp_comm *s, *r;
static uint8_t from[MESSAGE], to[WINDOW][MESSAGE];
static int named;
static char said[1024];

/* Of a link. room: what its sockets take before they are full; -1: whatever comes. */
static struct {
    uint64_t rate;
    int idle, limited;
    long room;
    uint64_t carried;
} links[LINKS];

static int link_of(int fd)
{
    for (int i = 0; s && i < DATA; i++)
        if (s->lanes[i].fd == fd)
            return s->lanes[i].way;
    return -1;
}

/* In place of libc's. */
int getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
    int link = level == IPPROTO_TCP && option == TCP_INFO ? link_of(fd) : -1;
    struct tcp_info info = {.tcpi_state = 1};

    if (level != IPPROTO_TCP || option != TCP_INFO)
        return (int)syscall(SYS_getsockopt, fd, level, option, value, len);
    if (link >= 0) {
        info.tcpi_unacked = !links[link].idle;
        info.tcpi_delivery_rate_app_limited = links[link].limited & 1;
        info.tcpi_delivery_rate = links[link].rate / (DATA / LINKS);
    }
    *len = *len < sizeof info ? *len : sizeof info;
    memcpy(value, &info, *len);
    return 0;
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    int link = link_of(fd);
    struct msghdr own = *msg;
    struct iovec iov[3];
    size_t left = link >= 0 && links[link].room >= 0 ? (size_t)links[link].room : SIZE_MAX;

    assert_true(msg->msg_iovlen <= 3);
    if (!left) {
        errno = EAGAIN;
        return -1;
    }
    own.msg_iov = iov;
    for (size_t i = 0; i < msg->msg_iovlen; i++) {
        iov[i] = msg->msg_iov[i];
        iov[i].iov_len = iov[i].iov_len < left ? iov[i].iov_len : left;
        left -= iov[i].iov_len;
    }
    ssize_t n = syscall(SYS_sendmsg, fd, &own, flags);
    if (n > 0 && link >= 0) {
        links[link].carried += (uint64_t)n;
        links[link].room -= links[link].room >= 0 ? n : 0;
    }
    return n;
}

ssize_t send(int fd, const void *data, size_t n, int flags)
{
    struct iovec iov = {(void *)(uintptr_t)data, n};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    return sendmsg(fd, &msg, flags);
}

static void keep(enum mn_log_level level, const char *file, int line, const char *msg)
{
    (void)file, (void)line;
    if (level > MN_LOG_WARN)
        return;
    named++;
    mn_strlcpy(said, msg, sizeof said);
}

/* --- both ends -------------------------------------------------------------------------------- */

static struct tcp_comm *open_end(int sender, const uint32_t weights[LINKS], int fds[ALL][2])
{
    static struct mn_conn conn;
    struct mn_comm *comm = NULL;

    memset(&conn, 0, sizeof conn);
    conn.config = &config;
    conn.connector = sender;
    conn.failover = 1;
    conn.n_lanes = ALL;
    conn.plan.n_pairs = LINKS;
    for (int i = 0; i < LINKS; i++) {
        conn.plan.pairs[i] = (struct mn_pair){(uint8_t)i, (uint8_t)i};
        conn.plan.weights[i] = weights[i];
        for (int end = 0; end < 2; end++) {
            struct mn_local *local = &conn.side[end].locals[i];
            mn_strlcpy(local->netdev, "lo", sizeof local->netdev);
            assert_int_equal(mn_addr_parse(i ? "127.0.0.2" : "127.0.0.1", &local->addr, NULL), 0);
        }
    }
    for (int i = 0; i < ALL; i++)
        conn.lanes[i] =
            (struct mn_lane){.fd = fds[i][sender], .pair = i % LINKS, .control = i >= DATA};
    assert_int_equal(tcp_open(&conn, &comm, NULL), MN_OK);
    mn_attend_leave(&((struct tcp_comm *)comm)->attended);
    return (struct tcp_comm *)comm;
}

static void open_ends(uint32_t weight, uint32_t other)
{
    const uint32_t weights[LINKS] = {weight, other};
    int fds[ALL][2];

    memset(links, 0, sizeof links);
    links[0].room = links[1].room = -1;
    named = 0;
    mn_settings_default(&config.settings);
    mn_log_set_sink(keep);
    for (int i = 0; i < ALL; i++)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds[i]),
                         0);
    s = open_end(1, weights, fds);
    r = open_end(0, weights, fds);
}

static void close_ends(void)
{
    mn_transport_tcp.close(&r->base);
    mn_transport_tcp.close(&s->base);
    s = r = NULL;
    mn_log_set_sink(NULL);
}

/* --- who is named ----------------------------------------------------------------------------- */

static void look(int times)
{
    for (int i = 0; i < times; i++)
        assert_int_equal(tcp_links_look(s, s->failover->look_ms + LOOK_MS), MN_OK);
}

static void rates(uint64_t first, uint64_t second)
{
    links[0].rate = first;
    links[1].rate = second;
}

static void a_slow_link_is_named_once(void **state)
{
    char who[TCP_WHO];

    (void)state;
    open_ends(10000, 10000);
    rates(1000 * MB, 100 * MB);
    look(LOOKS - 1);
    assert_int_equal(named, 0);
    look(1);
    assert_int_equal(named, 1);
    assert_ptr_equal(strstr(said, tcp_name(s, &s->lanes[1], who)), said);
    assert_non_null(strstr(said, "(127.0.0.2 to 127.0.0.2): slow: "));
    assert_non_null(strstr(said, ": slow: it takes 100.0 MB/s, where lo takes 1000.0;"));
    look(5 * LOOKS);
    rates(1000 * MB, 1000 * MB);
    look(LOOKS);
    rates(1000 * MB, 50 * MB);
    look(5 * LOOKS);
    assert_int_equal(named, 1);
    rates(50 * MB, 1000 * MB); /* the other is another */
    look(LOOKS);
    assert_int_equal(named, 2);
    assert_ptr_equal(strstr(said, tcp_name(s, &s->lanes[0], who)), said);
    close_ends();
}

static void who_is_slow_for_a_moment_is_not_named(void **state)
{
    (void)state;
    open_ends(10000, 10000);
    for (int i = 0; i < 5; i++) {
        rates(1000 * MB, 100 * MB);
        look(LOOKS - 1);
        rates(1000 * MB, 900 * MB);
        look(1);
    }
    rates(1000 * MB, 250 * MB); /* a quarter, and no less */
    look(2 * LOOKS);
    assert_int_equal(named, 0);
    close_ends();
}

/* A link is slow beside what was agreed, and if it has something to carry. */
static void who_has_less_to_carry_is_not_slow(void **state)
{
    (void)state;
    open_ends(10000, 1000);
    rates(1000 * MB, 100 * MB);
    look(2 * LOOKS);
    assert_int_equal(named, 0);
    rates(1000 * MB, 20 * MB);
    links[1].idle = 1;
    look(2 * LOOKS);
    links[1].idle = 0;
    links[1].limited = 1;
    look(2 * LOOKS);
    assert_int_equal(named, 0);
    links[1].limited = 0;
    look(LOOKS);
    assert_int_equal(named, 1);
    close_ends();
}

/* --- who carries what ------------------------------------------------------------------------- */

/* Rounds that it took, in each of which the links have as much room. */
static int move(int messages, long first, long second)
{
    struct mn_request *out[WINDOW] = {NULL}, *in[WINDOW] = {NULL};
    int sent = 0, posted = 0, left = 2 * messages, rounds = 0;

    links[0].carried = links[1].carried = 0;
    for (; left; rounds++) {
        assert_true(rounds < ROUNDS);
        links[0].room = first;
        links[1].room = second;
        for (int i = 0; i < WINDOW; i++) {
            void *data = to[i];
            size_t size = MESSAGE;
            int tag = 0, done = 0;
            if (!in[i] && posted < messages) {
                memset(data, 0xaa, size);
                assert_int_equal(tcp_irecv(&r->base, 1, &data, &size, &tag, NULL, &in[i]), MN_OK);
                posted += in[i] != NULL;
            }
            if (!out[i] && sent < messages) {
                assert_int_equal(tcp_isend(&s->base, from, size, tag, NULL, &out[i]), MN_OK);
                sent += out[i] != NULL;
            }
            if (out[i])
                assert_int_equal(tcp_send_test(s, (struct tcp_send *)out[i], &done, NULL), MN_OK);
            out[i] = done ? NULL : out[i];
            left -= done;
            done = 0;
            if (in[i])
                assert_int_equal(tcp_recv_test(r, (struct tcp_group *)in[i], &done, NULL), MN_OK);
            if (done)
                assert_memory_equal(to[i], from, MESSAGE);
            in[i] = done ? NULL : in[i];
            left -= done;
        }
    }
    return rounds;
}

static double part(int link)
{
    return (double)links[link].carried / (double)(links[0].carried + links[1].carried);
}

/* Not the first link: its first socket introduces every message, with data. */
static void a_slow_link_gets_what_it_can_carry(void **state)
{
    static const struct {
        long first, second;
    } rooms[] = {{60000, 60000}, {60000, 6000}, {60000, 600}, {60000, 60000}};
    enum { MESSAGES = 40 };

    (void)state;
    open_ends(10000, 10000);
    mn_pattern_fill(from, sizeof from, 1);
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        long both = rooms[i].first + rooms[i].second;
        int rounds = move(MESSAGES, rooms[i].first, rooms[i].second);
        double fair = (double)rooms[i].second / (double)both;
        /* Nobody waits for who is slow but for its last parts. */
        if (part(1) < 0.6 * fair || part(1) > 1.4 * fair ||
            (double)rounds * (double)both > 1.5 * MESSAGES * MESSAGE)
            fail_msg("%ld beside %ld: carries %.4f instead of %.4f, in %d rounds", rooms[i].second,
                     rooms[i].first, part(1), fair, rounds);
    }
    close_ends();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_link_is_named_once),
        cmocka_unit_test(who_is_slow_for_a_moment_is_not_named),
        cmocka_unit_test(who_has_less_to_carry_is_not_slow),
        cmocka_unit_test(a_slow_link_gets_what_it_can_carry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
