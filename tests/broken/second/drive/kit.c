/* What the scenarios are made of. */
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/broken/second/drive/drive.h"

double patience = 10;
unsigned char sbuf[ARENA], rbuf[ARENA];

void broken(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(stderr);
    _Exit(1);
}

double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

void nap_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

int is_over(double until)
{
    static int asked;

    if (++asked % 256 == 0)
        nap_ms(1);
    return now_s() > until;
}

int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

void must(ncclResult_t result, const char *what)
{
    if (result != ncclSuccess)
        broken("%s: result %d", what, (int)result);
}

void listen_for(struct net *n, void *ctx, struct pair *p)
{
    memset(p, 0, sizeof *p);
    memset(p->handle, 0xff, sizeof p->handle); /* nobody clears it */
    must(net_listen(n, ctx, 0, p->handle, &p->listen), "listen");
    if (!p->listen)
        broken("listen: no comm");
}

void meet(struct net *n, void *ctx, struct pair *p)
{
    const double until = now_s() + patience;

    while (!p->send || !p->recv) {
        if (!p->send)
            must(net_connect(n, ctx, 0, p->handle, &p->send), "connect");
        if (n->version == 4 && !p->send)
            broken("connect of v4: no comm");
        if (!p->recv)
            must(net_accept(n, p->listen, &p->recv), "accept");
        if (is_over(until))
            broken("%s does not come to an end", p->send ? "accept" : "connect");
    }
}

void register_both(struct net *n, struct pair *p)
{
    static int filled;

    for (size_t i = 0; !filled && i < ARENA; i++)
        sbuf[i] = (unsigned char)(i * 7 + i / 251 + 1);
    filled = 1;
    must(net_reg(n, p->send, sbuf, ARENA, &p->smr), "regMr");
    must(net_reg(n, p->recv, rbuf, ARENA, &p->rmr), "regMr");
}

void make_pair(struct net *n, void *ctx, struct pair *p)
{
    listen_for(n, ctx, p);
    meet(n, ctx, p);
    must(net_close_listen(n, p->listen), "closeListen");
    register_both(n, p);
}

void close_pair(struct net *n, struct pair *p)
{
    must(net_dereg(n, p->send, p->smr), "deregMr");
    must(net_dereg(n, p->recv, p->rmr), "deregMr");
    must(net_close_send(n, p->send), "closeSend");
    must(net_close_recv(n, p->recv), "closeRecv");
}

void *send_at(struct net *n, struct pair *p, size_t at, size_t size, int tag)
{
    const double until = now_s() + patience;
    void *request = NULL;

    while (!request) {
        must(net_isend(n, p->send, sbuf + at, size, tag, p->smr, &request), "isend");
        if (is_over(until))
            broken("isend: \"not now\" for good");
    }
    return request;
}

void *recv_group(struct net *n, struct pair *p, size_t at, size_t room, int k, const int *tags)
{
    void *data[8], *mrs[8], *request = NULL;
    size_t rooms[8];

    for (int i = 0; i < k; i++) {
        data[i] = rbuf + at + (size_t)i * room;
        rooms[i] = room;
        mrs[i] = p->rmr;
    }
    must(net_irecv(n, p->recv, k, data, rooms, tags, mrs, &request), "irecv");
    if (!request)
        broken("irecv: no request");
    return request;
}

void *recv_at(struct net *n, struct pair *p, size_t at, size_t room, int tag)
{
    return recv_group(n, p, at, room, 1, &tag);
}

int is_done(struct net *n, void *request, int *sizes)
{
    int done = -1;

    must(net_test(n, request, &done, sizes), "test");
    if (done != 0 && done != 1)
        broken("test: done was not written");
    return done;
}

void finish(struct net *n, void *request, int *sizes)
{
    const double until = now_s() + patience;

    while (!is_done(n, request, sizes))
        if (is_over(until))
            broken("a request is not done");
}

void finish_both(struct net *n, void *send, void *recv, int *sizes)
{
    const double until = now_s() + patience;
    int sent = 0, got = 0, size[8] = {0};

    while (!sent || !got) {
        sent = sent || is_done(n, send, size);
        got = got || is_done(n, recv, sizes ? sizes : size);
        if (is_over(until))
            broken("a %s is not done", sent ? "receive" : "send");
    }
}

void expect_bytes(size_t from, size_t to, size_t size, const char *what)
{
    for (size_t i = 0; i < size; i++)
        if (sbuf[from + i] != rbuf[to + i])
            broken("%s: byte %zu of %zu is %02x, was sent as %02x", what, i, size, rbuf[to + i],
                   sbuf[from + i]);
}

void expect_int(int is, int should, const char *what)
{
    if (is != should)
        broken("%s: %d instead of %d", what, is, should);
}

void transfer_bytes(struct net *n, struct pair *p, size_t size)
{
    int sizes[8] = {0};
    void *recv, *send;

    memset(rbuf, 0, size);
    recv = recv_at(n, p, 0, size, 1);
    send = send_at(n, p, 0, size, 1);
    finish_both(n, send, recv, sizes);
    expect_int(sizes[0], (int)size, "size");
    expect_bytes(0, 0, size, "transfer");
}
