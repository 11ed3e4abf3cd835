/* listen, connect, accept. */
#include <pthread.h>
#include <string.h>

#include "tests/broken/second/drive/drive.h"

static void transfer(struct net *n)
{
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    transfer_bytes(n, &p, 1 << 20);
    close_pair(n, &p);
}

static void handle_size(struct net *n)
{
    unsigned char handle[128];
    void *comm;

    start(n);
    memset(handle, 0xee, sizeof handle);
    must(net_listen(n, n->ctx, 0, handle, &comm), "listen");
    for (size_t i = NCCL_NET_HANDLE_MAXSIZE_V4; i < sizeof handle; i++)
        expect_int(handle[i], 0xee, "behind the handle");
}

static void handle_reused(struct net *n)
{
    static struct pair p; /* one buffer */
    void *first;

    start(n);
    make_pair(n, n->ctx, &p);
    first = p.send;
    make_pair(n, n->ctx, &p);
    if (p.send == first)
        broken("connect returns the comm of the former connection");
    transfer_bytes(n, &p, 1000);
}

static void half_open(struct net *n)
{
    enum { MANY = 40 };
    static struct pair p[MANY];

    start(n);
    for (int i = 0; i < MANY; i++)
        listen_for(n, n->ctx, &p[i]);
    for (int i = 0; i < MANY; i++)
        must(net_connect(n, n->ctx, 0, p[i].handle, &p[i].send), "connect");
    for (int i = 0; i < MANY; i++)
        meet(n, n->ctx, &p[i]);
}

static void *connect_often(void *net)
{
    struct net *n = net;
    struct pair p;

    for (int i = 0; i < 400; i++) {
        listen_for(n, n->ctx, &p);
        meet(n, n->ctx, &p);
        must(net_close_listen(n, p.listen), "closeListen");
        must(net_close_send(n, p.send), "closeSend");
        must(net_close_recv(n, p.recv), "closeRecv");
    }
    return NULL;
}

static void connect_threads(struct net *n)
{
    pthread_t threads[4];

    start(n);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, connect_often, n);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

/* Until an error comes; a comm that comes with it is closed, as NCCL does. */
static void connect_to_nobody(struct net *n)
{
    const double until = now_s() + patience;
    ncclResult_t result = ncclSuccess;
    struct pair p;

    listen_for(n, n->ctx, &p);
    must(net_close_listen(n, p.listen), "closeListen");
    while (result == ncclSuccess && !p.send) {
        result = net_connect(n, n->ctx, 0, p.handle, &p.send);
        if (is_over(until))
            broken("connect to nobody goes on for good");
    }
    if (p.send)
        must(net_close_send(n, p.send), "closeSend");
}

static void connect_gone(struct net *n)
{
    start(n);
    connect_to_nobody(n);
    connect_to_nobody(n);
}

static void connect_gone_leak(struct net *n)
{
    int before;

    start(n);
    connect_to_nobody(n);
    before = count_fds();
    for (int i = 0; i < 20; i++)
        connect_to_nobody(n);
    expect_int(count_fds(), before, "descriptors");
}

static void accept_early(struct net *n)
{
    struct pair p;

    start(n);
    listen_for(n, n->ctx, &p);
    for (int i = 0; i < 5000; i++)
        must(net_accept(n, p.listen, &p.recv), "accept before the peer connects");
    meet(n, n->ctx, &p);
}

static void accept_half(struct net *n)
{
    struct pair p;

    start(n);
    listen_for(n, n->ctx, &p);
    must(net_connect(n, n->ctx, 0, p.handle, &p.send), "connect");
    must(net_accept(n, p.listen, &p.recv), "accept"); /* returns, or the watcher sees it */
    meet(n, n->ctx, &p);
}

static void accept_closed(struct net *n)
{
    const double until = now_s() + patience;
    int sizes[8] = {0};
    struct pair p;
    void *recv;

    start(n);
    listen_for(n, n->ctx, &p);
    while (!p.send && now_s() < until)
        must(net_connect(n, n->ctx, 0, p.handle, &p.send), "connect");
    if (!p.send)
        broken("connect waits for accept");
    must(net_reg(n, p.send, sbuf, ARENA, &p.smr), "regMr");
    finish(n, send_at(n, &p, 0, 1000, 1), sizes);
    must(net_close_send(n, p.send), "closeSend");
    while (!p.recv && now_s() < until)
        must(net_accept(n, p.listen, &p.recv), "accept");
    if (!p.recv)
        broken("accept never sees a peer that closed meanwhile");
    must(net_reg(n, p.recv, rbuf, ARENA, &p.rmr), "regMr");
    recv = recv_at(n, &p, 0, 1000, 1);
    finish(n, recv, sizes);
    expect_bytes(0, 0, 1000, "sent before the close");
}

static void device_null(struct net *n)
{
    null_device_handles = 1;
    transfer(n);
}

static void connect_first(struct net *n)
{
    struct pair p;

    start(n);
    listen_for(n, n->ctx, &p);
    must(net_connect(n, n->ctx, 0, p.handle, &p.send), "connect"); /* returns, or the watcher … */
    must(net_accept(n, p.listen, &p.recv), "accept");
}

static void listen_reused(struct net *n)
{
    struct pair one, other;
    void *a, *b;
    int sizes[8] = {0};

    start(n);
    make_pair(n, n->ctx, &one);
    make_pair(n, n->ctx, &other);
    a = recv_at(n, &one, 0, 1000, 1);
    b = recv_at(n, &other, 5000, 1000, 1);
    finish_both(n, send_at(n, &one, 0, 100, 1), a, sizes);
    expect_int(sizes[0], 100, "size on the first comm");
    finish_both(n, send_at(n, &other, 5000, 200, 1), b, sizes);
    expect_int(sizes[0], 200, "size on the second comm");
    expect_bytes(0, 0, 100, "first comm");
    expect_bytes(5000, 5000, 200, "second comm");
}

static void never_accepted(struct net *n)
{
    struct pair p;
    int before;

    start(n);
    before = count_fds();
    for (int i = 0; i < 10; i++) {
        listen_for(n, n->ctx, &p);
        must(net_close_listen(n, p.listen), "closeListen");
    }
    expect_int(count_fds(), before, "descriptors");
}

const struct scenario of_connect[] = {
    {"transfer", transfer},
    {"handle_dirty", transfer}, /* listen_for dirties each */
    {"handle_size", handle_size},
    {"handle_reused", handle_reused},
    {"half_open", half_open},
    {"connect_threads", connect_threads},
    {"connect_gone", connect_gone},
    {"connect_gone_leak", connect_gone_leak},
    {"accept_early", accept_early},
    {"accept_half", accept_half},
    {"accept_closed", accept_closed},
    {"device_null", device_null},
    {"connect_first", connect_first},
    {"listen_reused", listen_reused},
    {"never_accepted", never_accepted},
    {NULL, NULL},
};
