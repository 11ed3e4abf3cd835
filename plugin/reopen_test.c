/* Control connections that come back: who is let in, by what he says; and whole connections whose
 * control connection is cut, on the libibverbs double, which ctest puts before the library
 * (LD_LIBRARY_PATH). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/context.h"
#include "plugin/reopen_impl.h"
#include "plugin/tasks_kit.h"
#include "topo/base/log.h"

#define PATIENCE_MS 20000 /* the bound of every wait */
#define MANY        64

static void (*set)(const char *settings);

static void find_double(void)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);
    void *symbol = library ? dlsym(library, "fakeverbs_set") : NULL;

    memcpy(&set, &symbol, sizeof set);
}

/* Lines come from the thread, too. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char lines[1 << 20];

static void keep_line(enum mn_log_level level, const char *file, int line, const char *text)
{
    (void)level, (void)file, (void)line;
    pthread_mutex_lock(&log_lock);
    size_t used = strlen(lines);
    snprintf(lines + used, sizeof lines - used, "%s\n", text);
    pthread_mutex_unlock(&log_lock);
}

static void forget_lines(void)
{
    pthread_mutex_lock(&log_lock);
    lines[0] = 0;
    pthread_mutex_unlock(&log_lock);
}

/* How often it was said. */
static int said(const char *text)
{
    int n = 0;

    pthread_mutex_lock(&log_lock);
    for (const char *at = lines; (at = strstr(at, text)); at++)
        n++;
    pthread_mutex_unlock(&log_lock);
    return n;
}

static void nap(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* --- who is let in ---------------------------------------------------------------------------- */

static struct mn_config config;

static struct mn_conn *conn_of(int connector, uint64_t id, uint8_t secret)
{
    static struct mn_conn conn;

    memset(&conn, 0, sizeof conn);
    mn_settings_default(&config.settings);
    conn.config = &config;
    conn.connector = connector;
    conn.id = id;
    conn.control.connector = MN_ROUTED;
    memset(conn.session, secret, sizeof conn.session);
    snprintf(conn.peer_text, sizeof conn.peer_text, "peer");
    return &conn;
}

/* What the door makes of one who says this; he hears *answer, or nothing. */
static enum mn_verdict knock(const uint8_t *payload, size_t len, enum mn_frame type,
                             uint8_t answer[MN_RETURN_SIZE])
{
    unsigned long strangers = 0;
    struct mn_chan chan;
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    mn_chan_init(&chan, pair[1]);
    assert_int_equal(mn_chan_put(&chan, type, payload, len), MN_OK);
    assert_int_equal(mn_chan_flush(&chan, NULL), MN_OK);
    enum mn_verdict verdict = mn_reopen_judge(&strangers, pair[0]);
    if (verdict == MN_ARRIVAL_TAKEN) {
        uint8_t *got;
        size_t got_len;
        assert_int_equal(mn_chan_get(&chan, &type, &got, &got_len, NULL), MN_OK);
        assert_true(type == MN_FRAME_RETURN && got_len == MN_RETURN_SIZE);
        memcpy(answer, got, got_len);
    } else {
        assert_int_equal(strangers, verdict == MN_ARRIVAL_STRANGER);
        close(pair[0]);
    }
    mn_chan_close(&chan);
    return verdict;
}

static enum mn_verdict ask(const uint8_t frame[MN_RETURN_SIZE])
{
    uint8_t answer[MN_RETURN_SIZE];

    return knock(frame, MN_RETURN_SIZE, MN_FRAME_RETURN, answer);
}

static void only_the_peer_of_a_living_connection_is_let_in(void **state)
{
    struct mn_reopen *ours = mn_reopen_new(conn_of(0, 7, 1), 9),
                     *theirs = mn_reopen_new(conn_of(1, 7, 1), 9),
                     *other = mn_reopen_new(conn_of(1, 7, 2), 9),
                     *elsewhere = mn_reopen_new(conn_of(1, 7 + 256, 1), 9);
    uint8_t first[MN_RETURN_SIZE], frame[MN_RETURN_SIZE], answer[MN_RETURN_SIZE];
    uint64_t attempt;

    (void)state;
    mn_return_write(theirs, 1, 3, first);
    /* Anything changed. */
    for (size_t i = 0; i < sizeof first; i++) {
        memcpy(frame, first, sizeof first);
        frame[i] ^= 1;
        assert_int_equal(ask(frame), MN_ARRIVAL_STRANGER);
    }
    for (size_t len = 0; len < sizeof first; len++)
        assert_int_equal(knock(first, len, MN_FRAME_RETURN, answer), MN_ARRIVAL_STRANGER);
    assert_int_equal(knock(first, sizeof first, MN_FRAME_HELLO, answer), MN_ARRIVAL_STRANGER);
    assert_int_equal(knock(first, sizeof first, MN_FRAME_LANE, answer), MN_ARRIVAL_STRANGER);
    /* Another key; another connection of the same bucket; what the acceptor itself would say. */
    mn_return_write(other, 1, 3, frame);
    assert_int_equal(ask(frame), MN_ARRIVAL_STRANGER);
    mn_return_write(elsewhere, 1, 3, frame);
    assert_int_equal(ask(frame), MN_ARRIVAL_STRANGER);
    mn_return_write(theirs, 0, 3, frame);
    assert_int_equal(ask(frame), MN_ARRIVAL_STRANGER);
    assert_false(mn_reopen_is_done(ours));

    assert_int_equal(knock(first, sizeof first, MN_FRAME_RETURN, answer), MN_ARRIVAL_TAKEN);
    assert_true(mn_return_check(theirs, 0, answer, sizeof answer, &attempt) && attempt == 3);
    assert_false(mn_return_check(theirs, 1, answer, sizeof answer, &attempt));
    /* Repeated, and an older one. */
    assert_int_equal(ask(first), MN_ARRIVAL_STRANGER);
    mn_return_write(theirs, 1, 2, frame);
    assert_int_equal(ask(frame), MN_ARRIVAL_STRANGER);
    /* A newer one takes the place of what the comm has not taken. */
    int before = mn_descriptors();
    mn_return_write(theirs, 1, 4, frame);
    assert_int_equal(ask(frame), MN_ARRIVAL_TAKEN);
    assert_int_equal(mn_descriptors(), before);
    int fd = mn_reopen_take(ours);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(mn_reopen_take(ours), -1);
    /* A comm that is gone. */
    mn_reopen_free(ours);
    mn_return_write(theirs, 1, 5, frame);
    assert_int_equal(ask(frame), MN_ARRIVAL_STRANGER);
    mn_reopen_free(theirs);
    mn_reopen_free(other);
    mn_reopen_free(elsewhere);
}

/* An attempt that is given up while the peer may yet let it in: what it then has must read as lost,
 * and not as the end of the process. */
static void an_attempt_given_up_ends_in_a_reset(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_len = sizeof at;
    struct mn_conn *conn = conn_of(1, 7, 1);
    uint64_t end = mn_now_ms() + PATIENCE_MS, now;
    uint8_t byte;

    (void)state;
    int door = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), fd = -1;
    assert_int_equal(bind(door, (struct sockaddr *)&at, at_len) | listen(door, 4), 0);
    assert_int_equal(getsockname(door, (struct sockaddr *)&at, &at_len), 0);
    assert_int_equal(mn_addr_parse("127.0.0.1", &conn->side[0].locals[0].addr, NULL), MN_OK);
    struct mn_reopen *r = mn_reopen_new(conn, ntohs(at.sin_port));
    r->lost = 1;
    do {
        mn_reopen_dial(r, mn_now_ms());
        fd = fd < 0 ? accept4(door, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC) : fd;
        assert_true(mn_now_ms() < end);
        nap();
    } while (fd < 0 || recv(fd, &byte, 1, 0) != 1);
    now = mn_now_ms() + r->patience_ms + 1;
    mn_reopen_dial(r, now);
    assert_true(r->lost && !r->chan);
    while (recv(fd, &byte, 1, 0) > 0 || errno == EAGAIN) {
        assert_true(mn_now_ms() < end);
        nap();
        errno = 0;
    }
    assert_int_equal(errno, ECONNRESET);
    close(fd);
    close(door);
    r->lost = 0;
    mn_reopen_free(r);
}

/* --- whole connections ------------------------------------------------------------------------ */

struct ends {
    char handle[MN_HANDLE_SIZE];
    void *listener, *send, *recv, *send_mr, *recv_mr, *sent, *received;
    int send_result, recv_result;
    char from[64], to[64];
};

static struct mn_net *open_net(void)
{
    struct mn_net *net = NULL;

    assert_int_equal(mn_net_open(NULL, -1, &net), ncclSuccess);
    mn_log_set_sink(keep_line);
    forget_lines();
    return net;
}

/* As NCCL does: the listener goes as soon as accept has given a comm. */
static void join(struct mn_net *net, struct ends *e)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    memset(e, 0, sizeof *e);
    assert_int_equal(mn_net_listen(net, 0, e->handle, &e->listener), ncclSuccess);
    while (!(e->send && e->recv)) {
        if (!e->send)
            assert_int_equal(mn_net_connect(net, 0, -1, e->handle, &e->send), ncclSuccess);
        if (!e->recv)
            assert_int_equal(mn_net_accept(e->listener, &e->recv), ncclSuccess);
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(mn_net_close_listen(e->listener), ncclSuccess);
    assert_int_equal(mn_net_reg_mr(e->send, e->from, sizeof e->from, NCCL_PTR_HOST, &e->send_mr),
                     ncclSuccess);
    assert_int_equal(mn_net_reg_mr(e->recv, e->to, sizeof e->to, NCCL_PTR_HOST, &e->recv_mr),
                     ncclSuccess);
}

static void post_recv(struct ends *e, size_t size)
{
    void *at = e->to;
    int tag = 1;

    assert_int_equal(mn_net_irecv(e->recv, 1, &at, &size, &tag, &e->recv_mr, &e->received), 0);
    assert_non_null(e->received);
}

static void try_send(struct ends *e, int tag)
{
    if (!e->sent && !e->send_result)
        e->send_result = mn_net_isend(e->send, e->from, sizeof e->from, tag, e->send_mr, &e->sent);
}

/* Both ends wait for something: the sender for a receive of another tag, that never comes. */
static void wait_at(struct ends *e)
{
    int done = 0;

    try_send(e, 2);
    if (e->received && !e->recv_result)
        e->recv_result = mn_net_test(e->received, &done, NULL);
    assert_false(done);
}

static void transfer(struct ends *e)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    int sent = 0, received = 0;

    memset(e->to, 0, sizeof e->to);
    memset(e->from, (int)(end % 200) + 1, sizeof e->from);
    if (!e->received)
        post_recv(e, sizeof e->to);
    while (!(sent && received)) {
        try_send(e, 1);
        if (e->sent && !sent)
            assert_int_equal(mn_net_test(e->sent, &sent, NULL), ncclSuccess);
        if (!received)
            assert_int_equal(mn_net_test(e->received, &received, NULL), ncclSuccess);
        assert_int_equal(e->send_result, ncclSuccess);
        assert_true(mn_now_ms() < end);
    }
    e->sent = e->received = NULL;
    assert_memory_equal(e->from, e->to, sizeof e->to);
}

static uint16_t port_of(int fd, int of_peer)
{
    struct sockaddr_in in = {.sin_family = AF_UNSPEC};
    socklen_t len = sizeof in;
    int error = of_peer ? getpeername(fd, (struct sockaddr *)&in, &len)
                        : getsockname(fd, (struct sockaddr *)&in, &len);

    return !error && in.sin_family == AF_INET ? ntohs(in.sin_port) : 0;
}

static int is_listening(int fd)
{
    int yes = 0;
    socklen_t len = sizeof yes;

    return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &len) && yes;
}

/* Resets the connections of this process, but for those to a port, by one of their two ends, which
 * are both here. Returns how many. */
static int cut(int end, uint16_t spared)
{
    static const struct sockaddr none = {.sa_family = AF_UNSPEC};
    int n = 0;

    for (int fd = 3; fd < 1024; fd++) {
        uint16_t here = port_of(fd, 0), there = port_of(fd, 1);
        int other = 0;
        if (!here || !there || (spared && (here == spared || there == spared)))
            continue;
        for (int k = 3; k < 1024 && !other; k++)
            other = k != fd && port_of(k, 0) == there && port_of(k, 1) == here ? k : 0;
        if (!other || (end ? fd > other : fd < other))
            continue;
        assert_int_equal(connect(fd, &none, sizeof none), 0);
        n++;
    }
    return n;
}

#define LOST "the control connection is lost"
#define BACK "the control connection was opened again"

/* Both ends of n connections have what they lost, or never noticed that they had. */
static void until_back(struct ends *ends, int n, int times)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    while (said(BACK) < 2 * n * times) {
        for (int i = 0; i < n; i++) {
            wait_at(&ends[i]);
            assert_int_equal(ends[i].send_result, ncclSuccess);
            assert_int_equal(ends[i].recv_result, ncclSuccess);
        }
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(said(BACK), 2 * n * times);
}

static void needs_double(void)
{
    if (!set)
        skip();
}

/* Cut at either end, again and again; then what it is for works: the receiver closes, and the
 * sender, whose queue pair would not tell him, hears of it. */
static void a_control_connection_that_is_cut_comes_back(void **state)
{
    struct mn_net *net;
    struct ends e;

    (void)state;
    needs_double();
    net = open_net();
    join(net, &e);
    transfer(&e);
    for (int times = 1; times <= 4; times++) {
        assert_int_equal(cut(times % 2, 0), 1);
        post_recv(&e, sizeof e.to);
        until_back(&e, 1, times);
        assert_true(said(LOST) >= times);
        transfer(&e);
    }
    assert_true(said("; it is being opened again") >= 4);
    assert_int_equal(mn_net_close_recv(e.recv), ncclSuccess);
    for (uint64_t end = mn_now_ms() + PATIENCE_MS; !e.send_result && mn_now_ms() < end;)
        try_send(&e, 1);
    assert_int_equal(e.send_result, ncclRemoteError);
    assert_int_equal(said("the peer has closed the connection"), 1);
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
}

/* The sender meets a receive that is too short, and the receiver hears of it. */
static void both_fail(struct ends *e)
{
    int done;

    for (uint64_t end = mn_now_ms() + PATIENCE_MS; !e->send_result && mn_now_ms() < end;)
        try_send(e, 1);
    assert_int_equal(e->send_result, ncclInvalidUsage);
    for (uint64_t end = mn_now_ms() + PATIENCE_MS; !e->recv_result && mn_now_ms() < end;)
        e->recv_result = mn_net_test(e->received, &done, NULL);
    assert_int_equal(e->recv_result, ncclInvalidUsage);
    assert_int_equal(said("the peer gave up: message with tag 1 has 64 bytes"), 1);
}

/* Why the sender gives up reaches the receiver by the new connection; also when there is none yet,
 * as the comm that has failed does not look for one. by: who has cut it. */
static void a_failure_is_told_by_the_new_connection(void **state)
{
    (void)state;
    needs_double();
    for (int by = 0; by < 2; by++)
        for (int early = 0; early < 2; early++) {
            struct mn_net *net = open_net();
            struct ends e;
            join(net, &e);
            transfer(&e);
            post_recv(&e, 8); /* with tag 1; the sender waits for tag 2 */
            for (int i = 0; i < 100; i++) {
                wait_at(&e);
                nap();
            }
            assert_int_equal(cut(by, 0), 1);
            if (!early)
                until_back(&e, 1, 1);
            both_fail(&e);
            assert_int_equal(mn_net_finalize(net), ncclSuccess);
        }
}

/* Who has failed and has nothing to say does not come back, nor is he come back to. */
static void nothing_comes_back_to_who_has_failed(void **state)
{
    struct mn_reopen *ours = mn_reopen_new(conn_of(0, 7, 1), 9),
                     *theirs = mn_reopen_new(conn_of(1, 7, 1), 9);
    uint8_t frame[MN_RETURN_SIZE];

    (void)state;
    mn_return_write(theirs, 1, 3, frame);
    mn_reopen_fail(ours, 0, NULL, 0);
    assert_int_equal(ask(frame), MN_ARRIVAL_STRANGER);
    assert_true(mn_reopen_lost(theirs));
    assert_true(theirs->lost);
    mn_reopen_fail(theirs, 0, NULL, 0);
    assert_false(theirs->lost);
    (void)mn_reopen_lost(theirs);
    assert_false(theirs->lost);
    mn_reopen_free(ours);
    mn_reopen_free(theirs);
    mn_reopen_quit();
}

static void many_are_cut_at_once(void **state)
{
    static struct ends ends[MANY];
    struct mn_net *net;

    (void)state;
    needs_double();
    net = open_net();
    for (int i = 0; i < MANY; i++) {
        join(net, &ends[i]);
        post_recv(&ends[i], sizeof ends[i].to);
    }
    assert_int_equal(cut(0, 0), MANY);
    until_back(ends, MANY, 1);
    for (int i = 0; i < MANY; i++)
        transfer(&ends[i]);
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
}

/* Whatever is under way when an end closes. */
static void closing_at_any_point_leaves_nothing(void **state)
{
    int fds = mn_descriptors();
    struct mn_net *net;
    struct ends e;

    (void)state;
    needs_double();
    for (int point = 0; point < 30; point++) {
        net = open_net();
        join(net, &e);
        transfer(&e);
        assert_int_equal(cut(point % 2, 0), 1);
        post_recv(&e, sizeof e.to);
        for (uint64_t end = mn_now_ms() + (unsigned)point * 5; mn_now_ms() < end;)
            wait_at(&e);
        if (point % 3 == 1)
            assert_int_equal(mn_net_close_send(e.send), ncclSuccess);
        if (point % 3 == 2)
            assert_int_equal(mn_net_close_recv(e.recv), ncclSuccess);
        assert_int_equal(mn_net_finalize(net), ncclSuccess);
    }
    assert_int_equal(mn_tasks_left("mn-"), 0);
    assert_int_equal(mn_descriptors(), fds);
}

/* --- at the door ------------------------------------------------------------------------------ */

/* The port that listens while no listener is open; 0: none does. */
static uint16_t door(void)
{
    uint16_t port = 0;

    for (int fd = 3; fd < 1024 && !port; fd++)
        port = is_listening(fd) ? port_of(fd, 0) : 0;
    return port;
}

static int reach(uint16_t port, const void *bytes, size_t len)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
    return fd;
}

/* Strangers with RETURNs of their own, halves of them, and more of those than there are places: who
 * is cut comes back all the same; the strangers are let go. */
static void strangers_at_the_door_keep_nobody_out(void **state)
{
    enum { STRANGERS = 300 };
    uint8_t frame[8 + MN_RETURN_SIZE] = {'M', 'S', 'F', '1', MN_FRAME_RETURN, 0, MN_RETURN_SIZE, 0};
    int strangers[STRANGERS], left = 0;
    struct mn_net *net;
    struct ends e;
    char byte;

    (void)state;
    needs_double();
    net = open_net();
    assert_int_equal(door(), 0);
    join(net, &e);
    transfer(&e);
    uint16_t port = door();
    assert_int_not_equal(port, 0);
    for (int i = 0; i < STRANGERS; i++) {
        frame[8 + i % MN_RETURN_SIZE]++;
        strangers[i] = reach(port, frame, i % 3 ? 5 + (size_t)i % 30 : sizeof frame);
    }
    int before = mn_descriptors();
    post_recv(&e, sizeof e.to);
    assert_int_equal(cut(1, port), 1);
    until_back(&e, 1, 1);
    transfer(&e);
    assert_true(mn_descriptors() <= before + MN_MAX_WAITING);
    assert_true(said("connections so far to the door") > 0);
    /* 64 halves wait at most; the others and all that were whole are closed. */
    for (int i = 0; i < STRANGERS; i++)
        left += recv(strangers[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
    assert_true(left <= MN_MAX_WAITING);
    for (int i = 0; i < STRANGERS; i++)
        close(strangers[i]);
    assert_int_equal(mn_net_close_send(e.send), ncclSuccess);
    assert_int_equal(mn_net_close_recv(e.recv), ncclSuccess);
    assert_int_equal(door(), 0);
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_peer_of_a_living_connection_is_let_in),
        cmocka_unit_test(an_attempt_given_up_ends_in_a_reset),
        cmocka_unit_test(a_control_connection_that_is_cut_comes_back),
        cmocka_unit_test(a_failure_is_told_by_the_new_connection),
        cmocka_unit_test(nothing_comes_back_to_who_has_failed),
        cmocka_unit_test(many_are_cut_at_once),
        cmocka_unit_test(closing_at_any_point_leaves_nothing),
        cmocka_unit_test(strangers_at_the_door_keep_nobody_out),
    };

    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_SOCKET_FAMILY", "AF_INET", 1);
    setenv("MESHNET_ALLOW_TCP", "false", 1);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    unsetenv("MESHNET_CONFIG");
    find_double();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
