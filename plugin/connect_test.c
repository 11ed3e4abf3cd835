/* Connecting when one end comes late, goes away in between, or is not there: over TCP on loopback,
 * both ends in one thread. One attempt may take a second here, and connect() three. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/context.h"
#include "plugin/listen.h"
#include "topo/base/log.h"

#define PATIENCE_MS 20000 /* the bound of every wait */
#define MANY        100

static char warnings[16384];

static void keep_warning(enum mn_log_level level, const char *file, int line, const char *text)
{
    size_t used = strlen(warnings);

    (void)file, (void)line;
    if (level <= MN_LOG_WARN)
        snprintf(warnings + used, sizeof warnings - used, "%s\n", text);
}

static struct mn_net *open_net(void)
{
    struct mn_net *net = NULL;

    assert_int_equal(mn_net_open(NULL, -1, &net), ncclSuccess);
    assert_non_null(net);
    mn_log_set_sink(keep_warning);
    warnings[0] = 0;
    return net;
}

static void nap(unsigned ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

struct pair {
    uint8_t handle[MN_HANDLE_SIZE];
    void *listen, *send, *recv;
};

static struct pair listen_at(struct mn_net *net)
{
    struct pair p = {.listen = NULL};

    assert_int_equal(mn_net_listen(net, 0, p.handle, &p.listen), ncclSuccess);
    return p;
}

static int try_connect(struct mn_net *net, struct pair *p)
{
    return p->send ? ncclSuccess : mn_net_connect(net, 0, -1, p->handle, &p->send);
}

/* As NCCL does: the listener goes as soon as accept has given a comm. */
static void try_accept(struct pair *p)
{
    if (p->recv)
        return;
    assert_int_equal(mn_net_accept(p->listen, &p->recv), ncclSuccess);
    if (!p->recv)
        return;
    assert_int_equal(mn_net_close_listen(p->listen), ncclSuccess);
    p->listen = NULL;
}

static void finish(struct mn_net *net, struct pair *p)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    for (; !(p->send && p->recv); nap(1)) {
        assert_int_equal(try_connect(net, p), ncclSuccess);
        try_accept(p);
        assert_true(mn_now_ms() < end);
    }
}

static void leave(struct pair *p)
{
    assert_int_equal(mn_net_close_send(p->send), ncclSuccess);
    assert_int_equal(mn_net_close_recv(p->recv), ncclSuccess);
    if (p->listen)
        assert_int_equal(mn_net_close_listen(p->listen), ncclSuccess);
}

/* The acceptors come one after the other when the connectors have almost waited for an attempt's
 * time: of some it runs out just when the last frame is under way. */
static void many_connects_whose_accepts_come_late_are_all_connected(void **state)
{
    static struct pair pairs[MANY];
    struct mn_net *net = open_net();
    uint64_t begun = mn_now_ms();
    int left = MANY;

    (void)state;
    for (int i = 0; i < MANY; i++)
        pairs[i] = listen_at(net);
    while (left) {
        left = 0;
        for (int i = 0; i < MANY; i++)
            assert_int_equal(try_connect(net, &pairs[i]), ncclSuccess);
        for (int i = 0; i < MANY && mn_now_ms() - begun > 880u + (unsigned)i; i++)
            try_accept(&pairs[i]);
        for (int i = 0; i < MANY; i++)
            left += !pairs[i].send || !pairs[i].recv;
        assert_true(mn_now_ms() - begun < PATIENCE_MS);
        nap(20);
    }
    for (int i = 0; i < MANY; i++)
        leave(&pairs[i]);
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
}

/* This thread waits for what is to be read: as one that the kernel puts aside at each look, so that
 * the other end has always answered when it comes back. */
static __thread int slow;
static atomic_int resets; /* that were read */

ssize_t recv(int fd, void *bytes, size_t size, int flags)
{
    ssize_t (*libc_recv)(int, void *, size_t, int);
    void *symbol = dlsym(RTLD_NEXT, "recv");
    ssize_t n;

    memcpy(&libc_recv, &symbol, sizeof symbol);
    while ((n = libc_recv(fd, bytes, size, flags)) < 0 && errno == EAGAIN && slow &&
           poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 300) > 0)
        ;
    resets += n < 0 && errno == ECONNRESET;
    return n;
}

/* Threads of the plugin go on from a nap when they are told to, one nap at a time. */
static atomic_int held, naps;
static sem_t go_on;
static pthread_t main_thread;

int nanosleep(const struct timespec *time, struct timespec *left)
{
    int error;

    atomic_fetch_add(&naps, !pthread_equal(pthread_self(), main_thread));
    if (atomic_load(&held) && !pthread_equal(pthread_self(), main_thread)) {
        while (sem_wait(&go_on) != 0)
            ;
        return 0;
    }
    error = clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
    errno = error ? error : errno;
    return error ? -1 : 0;
}

struct quick {
    struct mn_net *net;
    struct pair pair;
    int result;
};

static void *connect_quickly(void *arg)
{
    struct quick *q = arg;
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    while (!q->pair.send && !q->result && mn_now_ms() < end)
        q->result = try_connect(q->net, &q->pair);
    return NULL;
}

/* All frames are there whenever the acceptor looks: the handshake is over within its first look at
 * the candidate, which accept must hand out all the same. */
static void a_handshake_in_one_look_is_accepted(void **state)
{
    struct mn_net *net = open_net();
    struct quick q = {.net = net, .pair = listen_at(net)};
    struct pair acceptor = q.pair;
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, connect_quickly, &q), 0);
    slow = 1;
    while (!acceptor.recv && mn_now_ms() < end)
        try_accept(&acceptor);
    slow = 0;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(q.result, ncclSuccess);
    assert_non_null(q.pair.send);
    assert_non_null(acceptor.recv);
    acceptor.send = q.pair.send;
    leave(&acceptor);
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
}

/* READY was sent and the listener is closed: what the connector finds is a connection. */
static void a_connector_away_while_its_peer_accepts_finds_the_connection(void **state)
{
    struct mn_net *net = open_net();
    struct pair p = listen_at(net);
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    (void)state;
    while (!p.recv) {
        try_accept(&p);
        if (!p.recv)
            assert_int_equal(try_connect(net, &p), ncclSuccess);
        assert_true(mn_now_ms() < end);
    }
    assert_null(p.send);
    nap(1200);
    assert_int_equal(try_connect(net, &p), ncclSuccess);
    assert_non_null(p.send);
    leave(&p);
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
}

/* The kernel has taken the connection long ago; how long nobody called says nothing. Later than a
 * third of the handshake's time, and than all of it, which a busy machine does not use up unasked.
 */
static void a_second_call_that_comes_late_goes_on(void **state)
{
    setenv("MESHNET_HANDSHAKE", "4s", 1);
    setenv("MESHNET_CONNECT", "20s", 1);
    struct mn_net *net = open_net();

    (void)state;
    setenv("MESHNET_HANDSHAKE", "1s", 1);
    setenv("MESHNET_CONNECT", "3s", 1);
    for (unsigned away = 1600; away <= 4800; away += 3200) {
        struct pair p = listen_at(net);
        assert_int_equal(try_connect(net, &p), ncclSuccess);
        nap(away);
        finish(net, &p);
        leave(&p);
    }
    assert_string_equal(warnings, "");
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
}

/* Rank 3 of a ring waits for rank 0, which loads its model, and looks at nobody: rank 2 has its
 * handle and its host's answer. */
static void who_waits_for_another_that_is_late_is_waited_for(void **state)
{
    struct mn_net *net = open_net();
    struct pair p = listen_at(net);
    uint64_t begun = mn_now_ms();

    (void)state;
    for (; mn_now_ms() - begun < 8000; nap(5))
        assert_int_equal(try_connect(net, &p), ncclSuccess);
    assert_null(p.send);
    assert_non_null(strstr(warnings, " has not accepted within 3 s"));
    finish(net, &p);
    leave(&p);
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
}

/* What ended meanwhile is dialled anew, though connect has passed. */
static void time_without_a_call_is_no_part_of_connect(void **state)
{
    struct mn_net *net = open_net();
    struct pair p = listen_at(net);
    uint64_t back;
    int result = ncclSuccess;

    (void)state;
    assert_int_equal(try_connect(net, &p), ncclSuccess);
    assert_int_equal(mn_net_close_listen(p.listen), ncclSuccess);
    nap(3500);
    back = mn_now_ms();
    for (; !result; nap(5)) {
        result = try_connect(net, &p);
        assert_true(mn_now_ms() - back < PATIENCE_MS);
    }
    assert_true(mn_now_ms() - back > 2000);
    assert_non_null(strstr(warnings, "Not connected within 3 s"));
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
}

static void want_of_descriptors_for_a_moment_ends_nothing(void **state)
{
    struct mn_net *net = open_net();
    struct pair p = listen_at(net);
    struct rlimit limit, none;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (int i = 0; i < 20; i++, nap(10))
        assert_int_equal(try_connect(net, &p), ncclSuccess);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_non_null(strstr(warnings, "ulimit -n"));
    finish(net, &p);
    leave(&p);
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
}

/* Tries again for as long as connect says, then tells the cause and the peer. */
static void a_listener_that_is_gone_is_tried_until_connect_has_passed(void **state)
{
    struct mn_net *net = open_net();
    struct pair p = listen_at(net);
    uint64_t begun = mn_now_ms();
    int result = ncclSuccess, calls = 0;

    (void)state;
    assert_int_equal(mn_net_close_listen(p.listen), ncclSuccess);
    for (; !result; calls++, nap(5)) {
        result = try_connect(net, &p);
        assert_null(p.send);
        assert_true(mn_now_ms() - begun < PATIENCE_MS);
    }
    assert_true(mn_now_ms() - begun > 3000);
    assert_int_equal(result, ncclRemoteError);
    assert_non_null(strstr(warnings, "connection refused"));
    assert_non_null(strstr(warnings, "Not connected within 3 s"));
    assert_non_null(strstr(warnings, "peer 127.0.0.1 port "));
    assert_non_null(strstr(warnings, " over lo: "));
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
}

/* What the peer has said with proof, or both find in the plan, is no better at a second attempt. */
static void a_refusal_is_final_at_once(void **state)
{
    setenv("MESHNET_ALLOW_TCP", "false", 1);
    struct mn_net *net = open_net();
    struct pair p = listen_at(net);
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    int result = ncclSuccess;

    (void)state;
    unsetenv("MESHNET_ALLOW_TCP");
    for (; !result; nap(1)) {
        result = try_connect(net, &p);
        try_accept(&p);
        assert_null(p.send);
        assert_null(p.recv);
        assert_true(mn_now_ms() < end);
    }
    assert_null(strstr(warnings, "trying"));
    assert_non_null(strstr(warnings, "connect: peer 127.0.0.1 port "));
    assert_int_equal(mn_net_close_listen(p.listen), ncclSuccess);
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
}

/* --- strangers with frames -------------------------------------------------------------------- */

static int reach(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static uint16_t port_of(const struct pair *p)
{
    struct mn_handle h;

    assert_int_equal(mn_handle_read(p->handle, NULL, &h, NULL), MN_OK);
    return h.port;
}

/* The HELLO that a connector says to the listener, taken from the wire. */
static size_t overhear(struct mn_net *net, const struct pair *to, uint8_t *frame, size_t size)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pair p = *to;
    struct mn_handle h;
    socklen_t len = sizeof here;
    void *comm = NULL;

    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &len), 0);
    assert_int_equal(mn_handle_read(p.handle, NULL, &h, NULL), MN_OK);
    h.port = ntohs(here.sin_port);
    mn_handle_write(&h, NULL, p.handle);
    for (int i = 0; i < 20; i++, nap(1))
        assert_int_equal(mn_net_connect(net, 0, -1, p.handle, &comm), ncclSuccess);
    int taken = accept(fd, NULL, NULL);
    assert_true(taken >= 0);
    ssize_t n = recv(taken, frame, size, 0);
    assert_true(n > 0);
    close(taken);
    close(fd);
    return (size_t)n;
}

/* What the listener answers to a first frame: its bytes, 0 when it hangs up, -1 when it waits. */
static long answer(struct pair *p, int fd, const uint8_t *frame, size_t len, uint8_t *said)
{
    assert_int_equal(send(fd, frame, len, MSG_NOSIGNAL), len);
    for (int i = 0; i < 20; i++, nap(1))
        try_accept(p);
    assert_null(p->recv);
    if (!poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0))
        return -1;
    ssize_t n = recv(fd, said, 64, 0);
    return n < 0 ? 0 : n;
}

static void only_who_has_the_handle_is_answered(void **state)
{
    struct mn_net *net = open_net();
    struct pair p = listen_at(net);
    uint8_t hello[64], wrong[64], said[64];
    size_t len = overhear(net, &p, hello, sizeof hello);

    (void)state;
    assert_int_equal(len, 8 + MN_HELLO_SIZE);
    for (size_t i = 0; i < len; i++) {
        int fd = reach(port_of(&p));
        memcpy(wrong, hello, len);
        wrong[i] ^= 1;
        long n = answer(&p, fd, wrong, len, said);
        /* Another length or version: told ours, so that the other end can explain. */
        if (i == 6 || i == 8)
            assert_true(n == 25 && said[4] == MN_FRAME_HELLO && said[8] == MN_PROTOCOL_VERSION);
        else
            assert_int_equal(n, 0);
        close(fd);
    }
    /* One that was overheard is good once at a time. */
    int first = reach(port_of(&p)), again = reach(port_of(&p));
    assert_int_equal(answer(&p, first, hello, len, said), 25);
    assert_int_equal(answer(&p, again, hello, len, said), 0);
    finish(net, &p);
    close(first);
    close(again);
    leave(&p);
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
}

static int free_port(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
    close(fd);
    return ntohs(in.sin_port);
}

static void listeners_keep_to_the_range_of_ports(void **state)
{
    struct pair first = {.listen = NULL}, second = {.listen = NULL};
    struct mn_handle handle;
    char range[32], said[96];
    struct mn_net *net;
    int port;

    (void)state;
    /* A port that was free may be somebody else's by now: then with another one. */
    for (int i = 0;; i++) {
        port = free_port();
        snprintf(range, sizeof range, "%d-%d", port, port);
        setenv("MESHNET_PORT_RANGE", range, 1);
        net = open_net();
        if (!mn_net_listen(net, 0, first.handle, &first.listen) || i == 20)
            break;
        assert_int_equal(mn_net_finalize(net), ncclSuccess);
    }
    unsetenv("MESHNET_PORT_RANGE");
    assert_non_null(first.listen);
    assert_int_equal(mn_handle_read(first.handle, NULL, &handle, NULL), MN_OK);
    assert_int_equal(handle.port, port);
    warnings[0] = 0;
    assert_int_not_equal(mn_net_listen(net, 0, second.handle, &second.listen), ncclSuccess);
    snprintf(said, sizeof said, "all ports of plugin.port_range %s are in use", range);
    assert_non_null(strstr(warnings, said));
    assert_int_equal(mn_net_close_listen(first.listen), ncclSuccess);
    assert_int_equal(mn_net_listen(net, 0, second.handle, &second.listen), ncclSuccess);
    assert_int_equal(mn_net_close_listen(second.listen), ncclSuccess);
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
}

/* As when a cable is out and the network's configuration takes its address away. */
static void an_address_that_is_gone_is_listened_at_all_the_same(void **state)
{
    const struct mn_ports any = {0, 0};
    struct mn_local locals[3] = {{.netdev = "lo"}, {.netdev = "lo"}, {.netdev = "lo"}};
    uint16_t port;
    int fds[3];

    (void)state;
    assert_int_equal(mn_addr_parse("127.0.0.1/8", &locals[0].addr, NULL), MN_OK);
    assert_int_equal(mn_addr_parse("198.51.100.7/24", &locals[1].addr, NULL), MN_OK);
    assert_int_equal(mn_addr_parse("2001:db8::7/64", &locals[2].addr, NULL), MN_OK);
    assert_int_equal(mn_listen_all(&any, "mesh0", locals, 3, fds, &port, NULL), MN_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(close(fds[i]), 0);
}

/* v4's comm is there before its handshake is through: closed when the acceptor has said READY and
 * nobody has read it. Over RDMA a reset in place of the connection's end is taken for a firewall's.
 */
static void an_early_end_that_closes_is_no_reset(void **state)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    struct pair p = {.listen = NULL};
    void *mhandle, *request = NULL;
    int done = 0, before, tag = 0;
    char data[64];
    const size_t size = sizeof data;
    void *to = data;

    (void)state;
    assert_int_equal(mn_net_init(NULL), ncclSuccess);
    assert_int_equal(sem_init(&go_on, 0, 0), 0);
    assert_int_equal(mn_net_listen_short(0, p.handle, &p.listen), ncclSuccess);
    held = 1;
    before = naps;
    assert_int_equal(mn_net_connect_early(0, p.handle, &p.send), ncclSuccess);
    while (!p.recv) {
        while (naps == before && mn_now_ms() < end)
            nap(1);
        before = naps;
        try_accept(&p);
        if (!p.recv)
            sem_post(&go_on);
        assert_true(mn_now_ms() < end);
        nap(1);
    }
    assert_int_equal(mn_net_close_send(p.send), ncclSuccess);
    held = 0;
    sem_post(&go_on);
    assert_int_equal(mn_net_reg_mr(p.recv, data, size, NCCL_PTR_HOST, &mhandle), ncclSuccess);
    resets = 0;
    while (!mn_net_irecv(p.recv, 1, &to, &size, &tag, &mhandle, &request) && !request)
        assert_true(mn_now_ms() < end);
    while (request && !mn_net_test(request, &done, NULL)) {
        assert_int_equal(done, 0);
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(resets, 0);
    assert_int_equal(mn_net_dereg_mr(p.recv, mhandle), ncclSuccess);
    assert_int_equal(mn_net_close_recv(p.recv), ncclSuccess);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listeners_keep_to_the_range_of_ports),
        cmocka_unit_test(many_connects_whose_accepts_come_late_are_all_connected),
        cmocka_unit_test(a_connector_away_while_its_peer_accepts_finds_the_connection),
        cmocka_unit_test(a_handshake_in_one_look_is_accepted),
        cmocka_unit_test(a_second_call_that_comes_late_goes_on),
        cmocka_unit_test(who_waits_for_another_that_is_late_is_waited_for),
        cmocka_unit_test(time_without_a_call_is_no_part_of_connect),
        cmocka_unit_test(want_of_descriptors_for_a_moment_ends_nothing),
        cmocka_unit_test(an_address_that_is_gone_is_listened_at_all_the_same),
        cmocka_unit_test(a_listener_that_is_gone_is_tried_until_connect_has_passed),
        cmocka_unit_test(a_refusal_is_final_at_once),
        cmocka_unit_test(only_who_has_the_handle_is_answered),
        cmocka_unit_test(an_early_end_that_closes_is_no_reset),
    };

    main_thread = pthread_self();
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_SOCKET_FAMILY", "AF_INET", 1);
    setenv("MESHNET_HANDSHAKE", "1s", 1);
    setenv("MESHNET_CONNECT", "3s", 1);
    unsetenv("MESHNET_CONFIG");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
