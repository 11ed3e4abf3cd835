/* isend, irecv, test. */
#include <string.h>

#include "tests/broken/second/drive/drive.h"

#define LARGE ((size_t)8 << 20)

static void send_reuse(struct net *n)
{
    const double until = now_s() + patience;
    int sizes[8], sent = 0, got = 0;
    struct pair p;
    void *send, *recv;

    start(n);
    make_pair(n, n->ctx, &p);
    recv = recv_at(n, &p, 0, LARGE, 1);
    send = send_at(n, &p, LARGE, LARGE, 1);
    while (!got) {
        if (!sent && is_done(n, send, sizes)) {
            sent = 1;
            memcpy(sbuf, sbuf + LARGE, LARGE); /* as it was */
            memset(sbuf + LARGE, 0xdd, LARGE);
        }
        got = is_done(n, recv, sizes);
        if (is_over(until))
            broken("a receive is not done");
    }
    expect_bytes(0, 0, LARGE, "the buffer was used again after done");
}

static void send_alone(struct net *n)
{
    int size;
    struct pair p;
    void *recv;

    start(n);
    make_pair(n, n->ctx, &p);
    recv = recv_at(n, &p, 0, 100, 1);
    finish(n, send_at(n, &p, 0, 16, 1), &size);
    finish(n, recv, &size);
}

static void long_sizes(struct net *n)
{
    int size;
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    for (int i = 1; i <= 800; i++) {
        void *recv = recv_at(n, &p, 0, 1000, 1);
        finish_both(n, send_at(n, &p, 0, (size_t)i, 1), recv, &size);
        expect_int(size, i, "size");
    }
}

static void backpressure(struct net *n)
{
    enum { MOST = 1024, SIZE = 65536 };
    void *sends[MOST], *request, *recv;
    int many = 0, size, sent = 0;
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    while (many < MOST) {
        request = NULL;
        must(net_isend(n, p.send, sbuf, SIZE, 1, p.smr, &request), "isend");
        if (!request)
            break;
        sends[many++] = request;
    }
    for (int i = 0; i < many; i++) {
        recv = recv_at(n, &p, 0, SIZE, 1);
        for (int got = 0; !got;) {
            while (sent < many && is_done(n, sends[sent], &size))
                sent++;
            got = is_done(n, recv, &size);
        }
        expect_int(size, SIZE, "size");
    }
    while (sent < many)
        finish(n, sends[sent++], &size);
    recv = recv_at(n, &p, 0, SIZE, 1);
    finish_both(n, send_at(n, &p, 0, 7, 1), recv, &size);
    expect_int(size, 7, "size of the message after a refused one");
}

static void recv_full(struct net *n)
{
    struct pair p;
    void *first, *data = rbuf, *request;
    size_t room = 100;

    start(n);
    make_pair(n, n->ctx, &p);
    first = recv_at(n, &p, 0, 100, 1);
    for (int i = 0; i < 1000; i++) {
        request = first; /* what the slot held before */
        must(net_irecv(n, p.recv, 1, &data, &room, &(int){1}, &p.rmr, &request), "irecv");
        if (!request)
            return;
        if (request == first)
            broken("irecv leaves an old request in the slot");
    }
}

static void zero_busy(struct net *n)
{
    int size = -1, done = 0;
    const double until = now_s() + patience;
    struct pair p;
    void *large, *none, *first, *second;

    start(n);
    make_pair(n, n->ctx, &p);
    large = send_at(n, &p, 0, LARGE, 1);
    none = send_at(n, &p, 0, 0, 1);
    first = recv_at(n, &p, 0, LARGE, 1);
    second = recv_at(n, &p, 0, LARGE, 1);
    finish_both(n, large, first, &size);
    expect_int(size, (int)LARGE, "size");
    finish(n, none, &(int){0});
    while (!done) {
        done = is_done(n, second, &size);
        if (is_over(until))
            broken("a message of no bytes does not arrive");
    }
    expect_int(size, 0, "size");
}

static void recv_twice(struct net *n)
{
    const double until = now_s() + patience;
    int sizes[8], sent = 0, got = 0, seen = 0;
    struct pair p;
    void *send, *recv;

    start(n);
    make_pair(n, n->ctx, &p);
    memset(rbuf, 0, LARGE);
    recv = recv_at(n, &p, 0, LARGE, 1);
    send = send_at(n, &p, 0, LARGE, 1);
    while (!got) {
        sent = sent || is_done(n, send, sizes);
        got = is_done(n, recv, sizes);
        if (!seen && rbuf[100] == sbuf[100]) { /* as LL does, which reads it before done */
            seen = 1;
            rbuf[100] = (unsigned char)~sbuf[100];
        }
        if (is_over(until))
            broken("a receive is not done");
    }
    if (rbuf[100] == sbuf[100])
        broken("a byte was written a second time");
}

static void recv_tail(struct net *n)
{
    struct pair p;
    void *recv;

    start(n);
    make_pair(n, n->ctx, &p);
    memset(rbuf, 0xcc, 4096);
    recv = recv_at(n, &p, 0, 4096, 1);
    finish_both(n, send_at(n, &p, 0, 101, 1), recv, NULL);
    for (size_t i = 101; i < 4096; i++)
        expect_int(rbuf[i], 0xcc, "behind the message");
}

static void done_written(struct net *n)
{
    int size;
    struct pair p;
    void *first, *second;

    start(n);
    make_pair(n, n->ctx, &p);
    first = recv_at(n, &p, 0, 100, 1);
    second = recv_at(n, &p, 100, 100, 1);
    is_done(n, first, &size);
    is_done(n, second, &size);
}

static void sizes_null(struct net *n)
{
    struct pair p;
    void *recv;

    start(n);
    make_pair(n, n->ctx, &p);
    recv = recv_at(n, &p, 0, 100, 1);
    finish(n, send_at(n, &p, 0, 100, 1), NULL);
    finish(n, recv, NULL);
}

static void turns(struct net *n)
{
    struct pair quiet, busy;
    void *recv;
    int size;

    start(n);
    make_pair(n, n->ctx, &quiet);
    make_pair(n, n->ctx, &busy);
    recv_at(n, &quiet, 5000, 100, 1);
    recv = recv_at(n, &busy, 0, 100, 1);
    finish_both(n, send_at(n, &busy, 0, 100, 1), recv, &size);
}

static void test_blocks(struct net *n)
{
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    transfer_bytes(n, &p, LARGE); /* on one thread */
}

static void recycle(struct net *n)
{
    void *recv, *first, *second;
    struct pair p;
    int size;

    start(n);
    make_pair(n, n->ctx, &p);
    recv = recv_at(n, &p, 0, 100, 1);
    first = send_at(n, &p, 0, 10, 1);
    second = send_at(n, &p, 0, 20, 1);
    if (first == second)
        broken("two requests under way are the same");
    finish(n, first, &size);
    expect_int(size, 10, "size of the first");
    finish(n, second, &size);
    expect_int(size, 20, "size of the second");
    finish(n, recv, &size);
}

static void wakeup(struct net *n)
{
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    for (int i = 0; i < 1000; i++)
        transfer_bytes(n, &p, 100);
}

static void flush(struct net *n)
{
    void *request = NULL, *recv;
    struct pair p;
    int size;

    start(n);
    make_pair(n, n->ctx, &p);
    transfer_bytes(n, &p, 1000);
    (void)net_flush(n, p.recv, rbuf, 1000, p.rmr, &request); /* an error is an answer */
    recv = recv_at(n, &p, 0, 1000, 0);
    finish_both(n, send_at(n, &p, 0, 500, 0), recv, &size);
    expect_int(size, 500, "size after a flush");
}

const struct scenario of_transfer[] = {
    {"send_reuse", send_reuse},
    {"send_alone", send_alone},
    {"long_sizes", long_sizes},
    {"backpressure", backpressure},
    {"recv_full", recv_full},
    {"zero_busy", zero_busy},
    {"recv_twice", recv_twice},
    {"recv_tail", recv_tail},
    {"done_written", done_written},
    {"sizes_null", sizes_null},
    {"turns", turns},
    {"test_blocks", test_blocks},
    {"recycle", recycle},
    {"wakeup", wakeup},
    {"flush", flush},
    {NULL, NULL},
};
