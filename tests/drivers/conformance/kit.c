#include "tests/drivers/conformance/kit.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plugin/abi/nccl_abi.h"

#define GUARD      64
#define GUARD_BYTE 0xa5
#define PAGE       4096

void kit_fail(struct kit *kit, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(kit->why, sizeof kit->why, fmt, args);
    va_end(args);
    longjmp(kit->out, KIT_FAILED);
}

void kit_needs(struct kit *kit, int version, const char *what)
{
    int driven = mn_plugin_info(kit->plugin)->version;

    if (driven >= version)
        return;
    snprintf(kit->why, sizeof kit->why, "v%d has no %s", driven, what);
    longjmp(kit->out, KIT_SKIPPED);
}

void kit_ok(struct kit *kit, const char *what, int result)
{
    if (result != ncclSuccess)
        kit_fail(kit, "%s: %s", what, mn_nccl_result_name(result));
}

uint64_t kit_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t kit_random(struct kit *kit)
{
    uint64_t x = kit->random += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

int kit_count(const char *directory)
{
    DIR *dir = opendir(directory);
    int n = 0;

    if (!dir)
        return -1;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 3; /* ".", ".." and the directory itself */
}

uint64_t kit_fakeverbs(const char *counter)
{
    void *lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *symbol = lib ? dlsym(lib, "fakeverbs_counter") : NULL;
    uint64_t (*call)(const char *) = NULL;

    memcpy(&call, &symbol, sizeof symbol);
    return call ? call(counter) : 0;
}

void pair_listen(struct kit *kit, struct pair *pair)
{
    memset(pair, 0, sizeof *pair);
    kit_ok(kit, "listen", mn_plugin_listen(kit->plugin, 0, pair->handle, &pair->listen));
    if (!pair->listen)
        kit_fail(kit, "listen: success and no comm");
}

int pair_poll(struct kit *kit, struct pair *pair)
{
    if (!pair->send)
        kit_ok(kit, "connect", mn_plugin_connect(kit->plugin, 0, pair->handle, &pair->send));
    if (!pair->recv)
        kit_ok(kit, "accept", mn_plugin_accept(kit->plugin, pair->listen, &pair->recv));
    return pair->send && pair->recv;
}

void pair_finish(struct kit *kit, struct pair *pair)
{
    uint64_t end = kit_now_ms() + KIT_PATIENCE_S * 1000;

    while (!pair_poll(kit, pair))
        if (kit_now_ms() > end)
            kit_fail(kit, "not connected within %d s: send %s, receive %s", KIT_PATIENCE_S,
                     pair->send ? "ready" : "not", pair->recv ? "ready" : "not");
}

void pair_open(struct kit *kit, struct pair *pair)
{
    pair_listen(kit, pair);
    pair_finish(kit, pair);
    kit_ok(kit, "closeListen", mn_plugin_close_listen(kit->plugin, pair->listen));
    pair->listen = NULL;
}

void pair_close(struct kit *kit, struct pair *pair)
{
    if (pair->send)
        kit_ok(kit, "closeSend", mn_plugin_close_send(kit->plugin, pair->send));
    if (pair->recv)
        kit_ok(kit, "closeRecv", mn_plugin_close_recv(kit->plugin, pair->recv));
    if (pair->listen)
        kit_ok(kit, "closeListen", mn_plugin_close_listen(kit->plugin, pair->listen));
    memset(pair, 0, sizeof *pair);
}

void pair_pass(struct kit *kit, struct pair *pair, size_t size)
{
    struct buf from, to;
    struct req sent, got;
    const int tag = 7;

    buf_new(kit, pair->send, size, 1, &from);
    buf_new(kit, pair->recv, size, 3, &to);
    buf_fill(&from, size, size + 1);
    req_recv(kit, pair, 1, &to, &tag, &got);
    req_send(kit, pair, &from, size, tag, &sent);
    req_wait(kit, &sent);
    req_wait(kit, &got);
    if ((size_t)got.sizes[0] != size)
        kit_fail(kit, "%zu bytes sent, %d reported", size, got.sizes[0]);
    buf_expect(kit, &to, size, size + 1);
    buf_free(kit, &from);
    buf_free(kit, &to);
}

void buf_clear(struct buf *buf)
{
    memset(buf->data - GUARD, GUARD_BYTE, buf->size + 2 * GUARD);
}

int buf_try_new(struct kit *kit, void *comm, size_t size, size_t shift, struct buf *buf)
{
    size_t room = (PAGE + shift + size + 2 * GUARD + PAGE) & ~(size_t)(PAGE - 1);

    *buf = (struct buf){.size = size, .comm = comm, .base = aligned_alloc(PAGE, room)};
    if (!buf->base)
        kit_fail(kit, "no memory for %zu bytes", room);
    buf->data = buf->base + GUARD + shift;
    buf_clear(buf);
    if (!mn_plugin_reg_mr(kit->plugin, comm, buf->data, size ? size : 1, NCCL_PTR_HOST,
                          &buf->mhandle))
        return 1;
    free(buf->base);
    buf->base = NULL;
    return 0;
}

void buf_new(struct kit *kit, void *comm, size_t size, size_t shift, struct buf *buf)
{
    if (!buf_try_new(kit, comm, size, shift, buf))
        kit_fail(kit, "regMr: %zu bytes refused", size);
}

void buf_free(struct kit *kit, struct buf *buf)
{
    kit_ok(kit, "deregMr", mn_plugin_dereg_mr(kit->plugin, buf->comm, buf->mhandle));
    free(buf->base);
    buf->base = NULL;
}

static unsigned char pattern(uint64_t key, size_t at)
{
    uint64_t word = (at / 8 + 1) * 0x9e3779b97f4a7c15u ^ (key + 1) * 0xc2b2ae3d27d4eb4fu;

    return (unsigned char)(word >> (8 + at % 8 * 7));
}

void buf_fill(struct buf *buf, size_t size, uint64_t key)
{
    for (size_t i = 0; i < size; i++)
        buf->data[i] = pattern(key, i);
}

void buf_expect(struct kit *kit, const struct buf *buf, size_t size, uint64_t key)
{
    for (size_t i = 0; i < size; i++)
        if (buf->data[i] != pattern(key, i))
            kit_fail(kit, "byte %zu of %zu is 0x%02x, 0x%02x was sent", i, size, buf->data[i],
                     pattern(key, i));
    for (size_t i = size; i < buf->size + GUARD; i++)
        if (buf->data[i] != GUARD_BYTE)
            kit_fail(kit, "byte %zu after a message of %zu was written", i, size);
    for (size_t i = 1; i <= GUARD; i++)
        if (*(buf->data - i) != GUARD_BYTE)
            kit_fail(kit, "byte %zu before the buffer was written", i);
}

static int posted(struct kit *kit, const char *what, int result, struct req *req)
{
    if (kit->tolerant && result) {
        req->result = result;
        return 1;
    }
    kit_ok(kit, what, result);
    if (!req->request)
        return 0;
    if (kit->n_live == KIT_LIVE)
        kit_fail(kit, "more than %d requests under way", KIT_LIVE);
    kit->live[kit->n_live++] = req;
    return 1;
}

int req_try_send(struct kit *kit, struct pair *pair, struct buf *buf, size_t size, int tag,
                 struct req *req)
{
    memset(req, 0, sizeof *req);
    return posted(kit, "isend",
                  mn_plugin_isend(kit->plugin, pair->send, buf->data, size, tag, buf->mhandle,
                                  &req->request),
                  req);
}

int req_try_recv(struct kit *kit, struct pair *pair, int n, struct buf *bufs, const int *tags,
                 struct req *req)
{
    void *data[MN_HOST_MAX_RECVS], *mhandles[MN_HOST_MAX_RECVS];
    size_t sizes[MN_HOST_MAX_RECVS];
    int own_tags[MN_HOST_MAX_RECVS];

    memset(req, 0, sizeof *req);
    for (int i = 0; i < n; i++) {
        data[i] = bufs[i].data;
        sizes[i] = bufs[i].size;
        mhandles[i] = bufs[i].mhandle;
        own_tags[i] = tags[i];
        req->sizes[i] = -1;
    }
    return posted(kit, "irecv",
                  mn_plugin_irecv(kit->plugin, pair->recv, n, data, sizes, own_tags, mhandles,
                                  &req->request),
                  req);
}

void req_send(struct kit *kit, struct pair *pair, struct buf *buf, size_t size, int tag,
              struct req *req)
{
    int behind = 0;

    for (int i = 0; i < kit->n_waiting; i++)
        behind |= kit->waiting[i]->pair == pair && kit->waiting[i]->tag == tag;
    memset(req, 0, sizeof *req);
    if (!behind && req_try_send(kit, pair, buf, size, tag, req))
        return;
    if (kit->n_waiting == KIT_LIVE)
        kit_fail(kit, "more than %d sends waiting", KIT_LIVE);
    req->pair = pair;
    req->buf = buf;
    req->size = size;
    req->tag = tag;
    kit->waiting[kit->n_waiting++] = req;
}

/* Tries what waits, the oldest first; one that finds no room holds up those behind it. */
static void retry_waiting(struct kit *kit)
{
    int kept = 0;

    for (int i = 0; i < kit->n_waiting; i++) {
        struct req *req = kit->waiting[i], was = *req;
        int behind = 0;
        for (int k = 0; k < kept; k++)
            behind |= kit->waiting[k]->pair == was.pair && kit->waiting[k]->tag == was.tag;
        if (!behind && req_try_send(kit, was.pair, was.buf, was.size, was.tag, req))
            continue;
        *req = was;
        kit->waiting[kept++] = req;
    }
    kit->n_waiting = kept;
}

void req_drop_all(struct kit *kit)
{
    kit->n_live = kit->n_waiting = 0;
}

void req_recv(struct kit *kit, struct pair *pair, int n, struct buf *bufs, const int *tags,
              struct req *req)
{
    uint64_t end = kit_now_ms() + KIT_PATIENCE_S * 1000;

    while (!req_try_recv(kit, pair, n, bufs, tags, req)) {
        req_poll(kit);
        if (kit_now_ms() > end)
            kit_fail(kit, "irecv: no request within %d s", KIT_PATIENCE_S);
    }
}

/* 1 when it has ended. */
static int test_once(struct kit *kit, struct req *req)
{
    req->result = mn_plugin_test(kit->plugin, req->request, &req->done, req->sizes);
    if (!kit->tolerant)
        kit_ok(kit, "test", req->result);
    return req->done || req->result;
}

void req_poll(struct kit *kit)
{
    int kept = 0;

    retry_waiting(kit);
    for (int i = 0; i < kit->n_live; i++)
        if (!test_once(kit, kit->live[i]))
            kit->live[kept++] = kit->live[i];
    kit->n_live = kept;
}

struct req *req_poll_any(struct kit *kit)
{
    if (!kit->n_live)
        return NULL;
    int i = (int)(kit_random(kit) % (uint64_t)kit->n_live);
    struct req *req = kit->live[i];
    if (!test_once(kit, req))
        return NULL;
    kit->live[i] = kit->live[--kit->n_live];
    return req;
}

void req_wait(struct kit *kit, struct req *req)
{
    uint64_t end = kit_now_ms() + KIT_PATIENCE_S * 1000;

    while (!req->done && !req->result) {
        req_poll(kit);
        if (kit_now_ms() > end)
            kit_fail(kit, "a request is not done within %d s", KIT_PATIENCE_S);
    }
}

void req_wait_all(struct kit *kit)
{
    while (kit->n_live || kit->n_waiting)
        req_wait(kit, kit->n_live ? kit->live[0] : kit->waiting[0]);
}
