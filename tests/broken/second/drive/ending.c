/* Death, close, finalize, contexts, threads. */
#include <dlfcn.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "tests/broken/second/drive/drive.h"

#define LARGE ((size_t)8 << 20)

/* An error must come; done is broken. */
static void expect_error(struct net *n, void *request, const char *what)
{
    const double until = now_s() + patience;
    int done = 0, sizes[8];

    while (net_test(n, request, &done, sizes) == ncclSuccess) {
        if (done)
            broken("%s is done", what);
        if (is_over(until))
            broken("%s waits for good", what);
    }
}

static void peer_closes(struct net *n)
{
    const double until = now_s() + patience;
    void *request;
    struct pair p;
    int done, size;

    start(n);
    make_pair(n, n->ctx, &p);
    must(net_close_recv(n, p.recv), "closeRecv");
    for (;;) {
        request = NULL;
        if (net_isend(n, p.send, sbuf, 1000, 1, p.smr, &request) != ncclSuccess)
            break;
        if (request && net_test(n, request, &done, &size) != ncclSuccess)
            break;
        if (is_over(until))
            broken("sends to nobody go on for good");
        nap_ms(1);
    }
    must(net_close_send(n, p.send), "closeSend");
}

static void peer_closes_full(struct net *n)
{
    struct pair p;
    void *send;

    start(n);
    make_pair(n, n->ctx, &p);
    send = send_at(n, &p, 0, LARGE, 1);
    must(net_close_recv(n, p.recv), "closeRecv");
    expect_error(n, send, "a send to nobody");
}

static void peer_ends(struct net *n)
{
    struct pair p;
    void *recv;

    start(n);
    make_pair(n, n->ctx, &p);
    recv = recv_at(n, &p, 0, 1000, 1);
    must(net_close_send(n, p.send), "closeSend");
    expect_error(n, recv, "a receive from nobody");
}

static void peer_ends_midway(struct net *n)
{
    int size;
    struct pair p;
    void *recv, *send;

    start(n);
    make_pair(n, n->ctx, &p);
    recv = recv_at(n, &p, 0, ARENA, 1);
    send = send_at(n, &p, 0, ARENA, 1);
    if (is_done(n, send, &size) || is_done(n, recv, &size))
        broken("too fast");
    must(net_close_send(n, p.send), "closeSend with a send under way");
    expect_error(n, recv, "a message that breaks off");
}

static void close_delivers(struct net *n)
{
    enum { SIZE = 65536, MOST = 100 };
    int complete = 0, size, done = 1;
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    while (done && complete < MOST) {
        void *send = send_at(n, &p, 0, SIZE, 1);
        done = 0;
        for (int i = 0; i < 50 && !done; i++)
            done = is_done(n, send, &size);
        complete += done;
    }
    must(net_close_send(n, p.send), "closeSend");
    for (int i = 0; i < complete; i++) {
        finish(n, recv_at(n, &p, 0, SIZE, 1), &size);
        expect_int(size, SIZE, "size of what was sent before the close");
    }
}

static void close_alone(struct net *n)
{
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    must(net_close_send(n, p.send), "closeSend"); /* returns, or the watcher sees it */
}

static void close_busy(struct net *n)
{
    struct pair p;
    int before;

    start(n);
    before = count_fds();
    make_pair(n, n->ctx, &p);
    recv_at(n, &p, 0, 1000, 1);
    must(net_dereg(n, p.recv, p.rmr), "deregMr");
    must(net_close_recv(n, p.recv), "closeRecv with a receive under way");
    must(net_close_send(n, p.send), "closeSend");
    expect_int(count_fds(), before, "descriptors");
}

static void close_second(struct net *n)
{
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    finish(n, send_at(n, &p, 0, 1000, 1), &(int){0}); /* nobody reads it */
    must(net_close_recv(n, p.recv), "closeRecv");
    nap_ms(50);
    must(net_close_send(n, p.send), "closeSend after the peer's");
}

static void two_contexts(struct net *n, uint64_t one_id, uint64_t other_id)
{
    void *one, *other;
    struct pair p, q;

    must(net_init(n, &one, one_id), "init");
    must(net_init(n, &other, other_id), "init");
    make_pair(n, one, &p);
    make_pair(n, other, &q);
    transfer_bytes(n, &p, 1000);
    close_pair(n, &p);
    must(net_finalize(n, one), "finalize");
    transfer_bytes(n, &q, 1000);
    close_pair(n, &q);
    must(net_finalize(n, other), "finalize");
}

static void contexts(struct net *n)
{
    two_contexts(n, 1, 2);
}

static void contexts_same_id(struct net *n)
{
    two_contexts(n, 5, 5);
}

static void contexts_fd(struct net *n)
{
    void *one, *other;
    struct pair p, q;

    must(net_init(n, &one, 1), "init");
    make_pair(n, one, &p);
    close_pair(n, &p);
    must(net_init(n, &other, 2), "init");
    make_pair(n, other, &q);
    must(net_finalize(n, one), "finalize");
    transfer_bytes(n, &q, 1000);
}

static void finalize_half(struct net *n)
{
    int before = count_fds();
    struct pair p;

    start(n);
    listen_for(n, n->ctx, &p);
    must(net_connect(n, n->ctx, 0, p.handle, &p.send), "connect");
    must(net_finalize(n, n->ctx), "finalize");
    expect_int(count_fds(), before, "descriptors");
}

static void contexts_cycle(struct net *n)
{
    void *ctx;

    for (int i = 0; i < 200; i++) {
        must(net_init(n, &ctx, (uint64_t)i), "init");
        must(net_finalize(n, ctx), "finalize");
    }
}

static void unload(struct net *n)
{
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    close_pair(n, &p);
    must(net_finalize(n, n->ctx), "finalize");
    dlclose(n->lib);
    nap_ms(500);
}

/* This thread wakes as often as it can: others that do nearly so are restless, however busy the
 * machine is. */
static void idle(struct net *n)
{
    struct rusage all[2], own[2];
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    transfer_bytes(n, &p, 1000);
    getrusage(RUSAGE_SELF, &all[0]);
    getrusage(RUSAGE_THREAD, &own[0]);
    for (int i = 0; i < 3000; i++)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    getrusage(RUSAGE_SELF, &all[1]);
    getrusage(RUSAGE_THREAD, &own[1]);
    const long mine = own[1].ru_nvcsw - own[0].ru_nvcsw;
    const long others = all[1].ru_nvcsw - all[0].ru_nvcsw - mine;
    if (others > mine / 10)
        broken("its threads wake %ld times while this one does %ld times", others, mine);
}

const struct scenario of_ending[] = {
    {"peer_closes", peer_closes},
    {"peer_closes_full", peer_closes_full},
    {"peer_ends", peer_ends},
    {"peer_ends_midway", peer_ends_midway},
    {"close_delivers", close_delivers},
    {"close_alone", close_alone},
    {"close_busy", close_busy},
    {"close_second", close_second},
    {"contexts", contexts},
    {"contexts_same_id", contexts_same_id},
    {"contexts_fd", contexts_fd},
    {"finalize_half", finalize_half},
    {"contexts_cycle", contexts_cycle},
    {"unload", unload},
    {"idle", idle},
    {NULL, NULL},
};
