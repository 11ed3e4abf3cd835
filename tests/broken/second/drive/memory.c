/* Registrations. */
#include <string.h>
#include <sys/mman.h>

#include "tests/broken/second/drive/drive.h"

static void reg_grows(struct net *n)
{
    void *small, *large, *send, *recv;
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    must(net_dereg(n, p.send, p.smr), "deregMr");
    must(net_reg(n, p.send, sbuf, 4096, &small), "regMr");
    must(net_reg(n, p.send, sbuf, 65536, &large), "regMr");
    p.smr = large;
    recv = recv_at(n, &p, 0, 65536, 1);
    send = send_at(n, &p, 0, 65536, 1);
    finish_both(n, send, recv, NULL);
    must(net_dereg(n, p.send, small), "deregMr");
    must(net_dereg(n, p.send, large), "deregMr");
}

static void reg_twice(struct net *n)
{
    struct pair p;
    void *again;

    start(n);
    make_pair(n, n->ctx, &p);
    must(net_reg(n, p.send, sbuf, ARENA, &again), "regMr");
    must(net_dereg(n, p.send, p.smr), "deregMr");
    p.smr = again;
    transfer_bytes(n, &p, 1000);
    close_pair(n, &p);
}

static void reg_cycles(struct net *n)
{
    struct pair p;
    void *mr;

    start(n);
    make_pair(n, n->ctx, &p);
    for (int i = 0; i < 1000; i++) {
        must(net_reg(n, p.send, sbuf, 4096, &mr), "regMr");
        must(net_dereg(n, p.send, mr), "deregMr");
    }
}

static void reg_subrange(struct net *n)
{
    void *send, *recv;
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    must(net_dereg(n, p.send, p.smr), "deregMr");
    must(net_reg(n, p.send, sbuf, 4096, &p.smr), "regMr");
    recv = recv_at(n, &p, 0, 2048, 1);
    send = send_at(n, &p, 2048, 2048, 1);
    finish_both(n, send, recv, NULL);
    expect_bytes(2048, 0, 2048, "the end of the registration");
}

static void reg_touches(struct net *n)
{
    struct pair p;
    void *mr;

    start(n);
    make_pair(n, n->ctx, &p);
    memset(rbuf, 0x77, 1 << 20);
    must(net_reg(n, p.recv, rbuf, 1 << 20, &mr), "regMr");
    for (size_t i = 0; i < 1 << 20; i++)
        expect_int(rbuf[i], 0x77, "a byte of the buffer");
}

static void reg_large(struct net *n)
{
    const size_t size = (size_t)3 << 30, at = (size_t)5 << 29;
    unsigned char *large = mmap(NULL, size, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *mr, *send = NULL, *recv;
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    must(net_reg(n, p.send, large, size, &mr), "regMr");
    memset(large + at, 0x42, 4096);
    recv = recv_at(n, &p, 0, 4096, 1);
    must(net_isend(n, p.send, large + at, 4096, 1, mr, &send), "isend far in");
    finish_both(n, send, recv, NULL);
    expect_int(rbuf[4095], 0x42, "a byte from far in");
    must(net_dereg(n, p.send, mr), "deregMr");
}

static void dereg_busy(struct net *n)
{
    struct pair p;

    start(n);
    make_pair(n, n->ctx, &p);
    recv_at(n, &p, 0, 1000, 1);
    must(net_dereg(n, p.recv, p.rmr), "deregMr"); /* returns, or the watcher sees it */
}

static void dereg_written(struct net *n)
{
    int size, done = 0;
    struct pair p;
    double until;
    void *send;

    start(n);
    make_pair(n, n->ctx, &p);
    recv_at(n, &p, 0, 1000, 1);
    must(net_dereg(n, p.recv, p.rmr), "deregMr");
    memset(rbuf, 0x33, 1000);
    send = send_at(n, &p, 0, 1000, 1);
    until = now_s() + 2; /* it has come by then */
    while (rbuf[0] == 0x33 && !is_over(until))
        if (!done && net_test(n, send, &done, &size) != ncclSuccess)
            done = 1;
    for (size_t i = 0; i < 1000; i++)
        expect_int(rbuf[i], 0x33, "memory that was deregistered");
}

const struct scenario of_memory[] = {
    {"reg_grows", reg_grows},       {"reg_twice", reg_twice},         {"reg_cycles", reg_cycles},
    {"reg_subrange", reg_subrange}, {"reg_touches", reg_touches},     {"reg_large", reg_large},
    {"dereg_busy", dereg_busy},     {"dereg_written", dereg_written}, {NULL, NULL},
};
