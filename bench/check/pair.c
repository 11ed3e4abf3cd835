/* Connections and requests as NCCL drives them, every wait bounded. */
#include <string.h>

#include "bench/check/kit.h"
#include "bench/host.h"

void mn_kit_listen(struct mn_check *check, int dev, struct mn_pair *pair)
{
    *pair = (struct mn_pair){.dev = dev};
    mn_check_step(check, "listen on device %d", dev);
    mn_check_ok(check, "listen", mn_raw_listen(&check->raw, dev, pair->handle, &pair->listen));
    if (!pair->listen)
        mn_check_fail(check, "listen returned success and no comm");
}

void mn_kit_try_connect(struct mn_check *check, struct mn_pair *pair)
{
    struct mn_kit_slot slot;

    if (pair->send)
        return;
    mn_check_ok(check, "connect",
                mn_raw_connect(&check->raw, pair->dev, pair->handle, &pair->send,
                               mn_kit_slot(check, &slot)));
    mn_kit_slot_kept(check, &slot, "connect");
}

void mn_kit_try_accept(struct mn_check *check, struct mn_pair *pair)
{
    struct mn_kit_slot slot;

    if (pair->recv)
        return;
    mn_check_ok(check, "accept",
                mn_raw_accept(&check->raw, pair->listen, &pair->recv, mn_kit_slot(check, &slot)));
    mn_kit_slot_kept(check, &slot, "accept");
}

void mn_kit_finish(struct mn_check *check, struct mn_pair *pair)
{
    mn_check_step(check, "connect and accept in turn");
    for (unsigned long calls = 1;; calls++) {
        mn_kit_try_connect(check, pair);
        mn_kit_try_accept(check, pair);
        if (pair->send && pair->recv)
            return;
        if (mn_check_expired(check))
            mn_check_fail(check,
                          "not connected after %lu calls each: send comm %s, receive comm %s",
                          calls, pair->send ? "ready" : "NULL", pair->recv ? "ready" : "NULL");
        mn_check_pause(check);
    }
}

void mn_kit_connect(struct mn_check *check, struct mn_pair *pair)
{
    mn_kit_listen(check, 0, pair);
    mn_kit_finish(check, pair);
    mn_check_step(check, "closeListen");
    mn_check_ok(check, "closeListen", mn_raw_close_listen(&check->raw, pair->listen));
    pair->listen = NULL;
}

void mn_kit_close(struct mn_check *check, struct mn_pair *pair)
{
    mn_check_step(check, "closeSend");
    mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, pair->send));
    mn_check_step(check, "closeRecv");
    mn_check_ok(check, "closeRecv", mn_raw_close_recv(&check->raw, pair->recv));
    pair->send = pair->recv = NULL;
}

static int posted(struct mn_check *check, const char *call, int result, const void *old,
                  struct mn_req *req)
{
    mn_check_ok(check, call, result);
    if (req->request == old)
        mn_check_fail(check, "%s returned success and left *request at %p as it was", call, old);
    req->done = 0;
    req->result = 0;
    memset(req->sizes, 0, sizeof req->sizes);
    return req->request != NULL;
}

int mn_kit_try_isend(struct mn_check *check, void *comm, struct mn_buf *buf, size_t size, int tag,
                     struct mn_req *req)
{
    void *old = mn_kit_old_request(check, 0);

    req->request = old;
    return posted(check, "isend",
                  mn_raw_isend(&check->raw, comm, buf->data, size, tag, buf->mhandle,
                               &req->request),
                  old, req);
}

int mn_kit_try_irecv(struct mn_check *check, void *comm, int n, struct mn_buf **bufs,
                     const size_t *sizes, const int *tags, struct mn_req *req)
{
    void *data[MN_RAW_MAX_RECVS], *mhandles[MN_RAW_MAX_RECVS];
    int own_tags[MN_RAW_MAX_RECVS];
    void *old = mn_kit_old_request(check, n);

    for (int i = 0; i < n; i++) {
        data[i] = bufs[i]->data;
        mhandles[i] = bufs[i]->mhandle;
        own_tags[i] = tags[i];
    }
    req->request = old;
    return posted(check, "irecv",
                  mn_raw_irecv(&check->raw, comm, n, data, sizes, own_tags, mhandles,
                               &req->request),
                  old, req);
}

static void again(struct mn_check *check, const char *call)
{
    if (mn_check_expired(check))
        mn_check_fail(check, "%s kept returning a NULL request, nothing else was in flight", call);
    mn_check_pause(check);
}

void mn_kit_isend(struct mn_check *check, void *comm, struct mn_buf *buf, size_t size, int tag,
                  struct mn_req *req)
{
    mn_check_step(check, "isend of %zu bytes, tag %d", size, tag);
    while (!mn_kit_try_isend(check, comm, buf, size, tag, req))
        again(check, "isend");
}

void mn_kit_isend_again(struct mn_check *check, struct mn_req *recvs, int n)
{
    for (int i = 0; i < n; i++)
        mn_kit_test(check, &recvs[i]);
    again(check, "isend");
}

void mn_kit_isend_polling(struct mn_check *check, void *comm, struct mn_buf *buf, size_t size,
                          struct mn_req *req, struct mn_req *recvs, int n)
{
    mn_check_step(check, "isend of %zu bytes, the receives tested", size);
    while (!mn_kit_try_isend(check, comm, buf, size, 0, req))
        mn_kit_isend_again(check, recvs, n);
}

int mn_kit_isend_early(struct mn_check *check, struct mn_pair *pair, struct mn_buf *out,
                       size_t size, struct mn_buf *in, struct mn_req *send, struct mn_req *recv)
{
    mn_check_step(check, "isend of %zu bytes before the receive is posted", size);
    if (mn_kit_try_isend(check, pair->send, out, size, 0, send))
        return 0;
    mn_kit_irecv(check, pair->recv, in, in->size, 0, recv);
    mn_kit_isend(check, pair->send, out, size, 0, send);
    return 1;
}

void mn_kit_irecv_group(struct mn_check *check, void *comm, int n, struct mn_buf **bufs,
                        const size_t *sizes, const int *tags, struct mn_req *req)
{
    mn_check_step(check, "irecv of %d buffer%s, first %zu bytes, tag %d", n, n == 1 ? "" : "s",
                  sizes[0], tags[0]);
    while (!mn_kit_try_irecv(check, comm, n, bufs, sizes, tags, req))
        again(check, "irecv");
}

void mn_kit_irecv(struct mn_check *check, void *comm, struct mn_buf *buf, size_t size, int tag,
                  struct mn_req *req)
{
    mn_kit_irecv_group(check, comm, 1, &buf, &size, &tag, req);
}

int mn_kit_poll(struct mn_check *check, struct mn_req *req)
{
    int done = 0x5a5a;

    if (req->done || req->result)
        return req->done;
    req->result = mn_raw_test(&check->raw, req->request, &done, req->sizes);
    if (req->result)
        return 0;
    if (done != 0 && done != 1)
        mn_check_fail(check,
                      "test returned success and left done at 0x%x; NCCL does not "
                      "initialise it",
                      (unsigned)done);
    req->done = done;
    return done;
}

int mn_kit_test(struct mn_check *check, struct mn_req *req)
{
    int done = mn_kit_poll(check, req);

    mn_check_ok(check, "test", req->result);
    return done;
}

void mn_kit_wait(struct mn_check *check, struct mn_req *const *reqs, size_t n)
{
    size_t left = n;

    mn_check_step(check, "test of %zu request%s until done", n, n == 1 ? "" : "s");
    for (unsigned long rounds = 1; left; rounds++) {
        left = 0;
        for (size_t i = 0; i < n; i++)
            left += !mn_kit_test(check, reqs[i]);
        if (left && mn_check_expired(check))
            mn_check_fail(check, "%zu of %zu requests not done after %lu tests each", left, n,
                          rounds);
        if (left)
            mn_check_pause(check);
    }
}

void mn_kit_wait2(struct mn_check *check, struct mn_req *a, struct mn_req *b)
{
    struct mn_req *const both[] = {a, b};

    mn_kit_wait(check, both, 2);
}

void mn_kit_pass(struct mn_check *check, struct mn_pair *pair, size_t size, size_t capacity,
                 unsigned seed)
{
    struct mn_buf out, in;
    struct mn_req send, recv;

    mn_kit_buf(check, pair->send, size, 0, &out);
    mn_kit_buf(check, pair->recv, capacity, 0, &in);
    mn_kit_fill(&out, size, seed);
    mn_kit_irecv(check, pair->recv, &in, capacity, 0, &recv);
    mn_kit_isend(check, pair->send, &out, size, 0, &send);
    mn_kit_wait2(check, &recv, &send);
    if (recv.sizes[0] < 0 || (size_t)recv.sizes[0] != size)
        mn_check_fail(check, "test reported %d bytes received, sent were %zu into a buffer of %zu",
                      recv.sizes[0], size, capacity);
    mn_kit_expect(check, &in, size, seed, "after the receive");
    mn_kit_free(check, &out);
    mn_kit_free(check, &in);
}
