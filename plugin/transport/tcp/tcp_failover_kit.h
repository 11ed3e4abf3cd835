/* Both ends of a connection over TCP's sockets on loopback, in one thread, whose sockets a test
 * breaks; what is random comes from a seed. For tests. */
#ifndef MN_TCP_FAILOVER_KIT_H
#define MN_TCP_FAILOVER_KIT_H

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
    uint32_t n_sent, n_received, n_posted;
};

static uint32_t seed;

static inline uint32_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

static inline void nap(void)
{
    nanosleep(&(struct timespec){0, 50000}, NULL);
}

static inline size_t size_of(uint32_t message)
{
    static const size_t sizes[] = {0,     1,      8,      127,    4096,    16384,
                                   16385, 65535,  65536,  65537,  300000,  1 << 20,
                                   8,     200000, 131072, 700000, 1234567, MOST};
    uint32_t x = message * 2654435761u;

    return sizes[(x >> 8) % (sizeof sizes / sizeof *sizes)];
}

static inline unsigned seed_of(uint32_t message)
{
    return message * 31;
}

static inline struct tcp_comm *sender(const struct ends *e)
{
    return (struct tcp_comm *)e->send;
}

static inline struct tcp_comm *receiver(const struct ends *e)
{
    return (struct tcp_comm *)e->recv;
}

/* All sockets may be out for longer than a link may be silent where the machine is busy. */
static inline void be_patient(const struct ends *e)
{
    sender(e)->silence_ms = receiver(e)->silence_ms = PATIENCE_MS;
}

static inline void open_ends(struct ends *e, int pushes)
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

/* When both are closed. */
static inline void free_ends(const struct ends *e)
{
    assert_int_equal(mn_net_finalize(e->net), 0);
    free(e->from);
    free(e->to);
}

/* A sender would wait for what its receiver, who is not called, makes of its last words. */
static inline void close_ends(struct ends *e)
{
    assert_int_equal(mn_net_close_recv(e->recv), 0);
    assert_int_equal(mn_net_close_send(e->send), 0);
    free_ends(e);
}

static inline void send_one(struct ends *e)
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
static inline void test_sends(struct ends *e)
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

static inline void post_one(struct ends *e)
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

static inline void check(const struct ends *e, uint32_t message, int size)
{
    const uint8_t *data = e->to + (size_t)(message % SLOTS) * (MOST + CANARY);
    size_t n = (size_t)size;

    assert_int_equal(size, size_of(message));
    assert_int_equal(mn_pattern_differs(data, n, seed_of(message)), n);
    assert_true(mn_pattern_is_plain(data + n, MOST + CANARY - n, 0xaa));
}

static inline void test_receives(struct ends *e)
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

static inline void turn(struct ends *e, uint32_t messages)
{
    if (e->n_sent < messages && draw() % 4)
        send_one(e);
    test_sends(e);
    if (e->n_posted < messages && draw() % 3)
        post_one(e);
    test_receives(e);
}

static inline void pass_until(struct ends *e, uint32_t messages)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    while (e->n_received < messages) {
        turn(e, messages);
        assert_true(mn_now_ms() < end);
    }
}

/* What a firewall does that forgets a connection: a reset each way. */
static inline void break_socket(const struct tcp_lane *lane)
{
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    struct linger at_once = {.l_onoff = 1};

    if (lane->fd < 0)
        return;
    (void)setsockopt(lane->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    (void)connect(lane->fd, &none, sizeof none);
}

static inline int lanes_up(const struct tcp_comm *comm)
{
    int n = 0;

    for (int i = 0; i < comm->n_all; i++)
        n += !comm->lanes[i].off;
    return n;
}

static inline struct tcp_link_sum sum_of(const struct tcp_comm *comm)
{
    struct tcp_link_sum sum = {0};

    for (int i = 0; i < comm->failover->n_links; i++) {
        sum.gone += comm->failover->links[i].sum.gone;
        sum.back += comm->failover->links[i].sum.back;
        sum.again += comm->failover->links[i].sum.again;
    }
    return sum;
}

static inline void *send_bytes(const struct ends *e, size_t size, int tag)
{
    void *request = NULL;

    assert_int_equal(mn_net_isend(e->send, e->from, size, tag, e->send_mr, &request), 0);
    assert_non_null(request);
    return request;
}

static inline void *post(struct ends *e, int slot, int tag)
{
    void *data = e->to + (size_t)slot * (MOST + CANARY), *request = NULL;
    size_t size = MOST;

    assert_int_equal(mn_net_irecv(e->recv, 1, &data, &size, &tag, &e->recv_mr, &request), 0);
    assert_non_null(request);
    return request;
}

static inline int is_done(void *request)
{
    int done = 0;

    assert_int_equal(mn_net_test(request, &done, NULL), 0);
    return done;
}

static inline void arrives(void *posted)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    while (!is_done(posted))
        assert_true(mn_now_ms() < end);
}

/* Before the tests. */
static inline void use_loopback(void)
{
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_SOCKET_FAMILY", "AF_INET", 1);
    unsetenv("MESHNET_CONFIG");
}

#endif
