/* What may go wrong below the plugin, by a transport double that injects faults; without faults all
 * must go well. Whatever happens: no call hangs, nothing that is reported done is wrong, an error
 * at one end reaches the other, and the next connection works. */
#include "tests/drivers/conformance/kit.h"

#include <stdlib.h>
#include <string.h>

#include "plugin/abi/nccl_abi.h"

#define ROUNDS   12
#define MESSAGES 24
#define FLIGHT   8
#define LARGEST  (300u << 10)

/* 1 when connected; a refusal is a possible outcome, waiting for ever is none. */
static int connect_pair(struct kit *kit, struct pair *pair)
{
    uint64_t end = kit_now_ms() + KIT_PATIENCE_S * 1000;
    int result = ncclSuccess;

    pair_listen(kit, pair);
    while (!result && !(pair->send && pair->recv)) {
        if (!pair->send)
            result = mn_plugin_connect(kit->plugin, 0, pair->handle, &pair->send);
        if (!result && !pair->recv)
            result = mn_plugin_accept(kit->plugin, pair->listen, &pair->recv);
        if (kit_now_ms() > end)
            kit_fail(kit, "neither connected nor refused within %d s", KIT_PATIENCE_S);
    }
    return !result;
}

static int buffers(struct kit *kit, struct pair *pair, struct buf *from, struct buf *to)
{
    memset(from, 0, FLIGHT * sizeof *from);
    memset(to, 0, FLIGHT * sizeof *to);
    for (int i = 0; i < FLIGHT; i++) {
        if (!buf_try_new(kit, pair->send, LARGEST, 1, &from[i]) ||
            !buf_try_new(kit, pair->recv, LARGEST, 2, &to[i]))
            return 0;
    }
    return 1;
}

static void free_all(struct kit *kit, struct buf *bufs)
{
    for (int i = 0; i < FLIGHT; i++)
        if (bufs[i].base)
            buf_free(kit, &bufs[i]);
}

/* Whoever failed is closed first, as NCCL does; the other end must come to an end by itself. */
static void close_end(struct kit *kit, struct pair *pair, int sender, struct buf *bufs)
{
    free_all(kit, bufs);
    kit_ok(kit, "close",
           sender ? mn_plugin_close_send(kit->plugin, pair->send)
                  : mn_plugin_close_recv(kit->plugin, pair->recv));
    *(sender ? &pair->send : &pair->recv) = NULL;
}

/* Keeps the requests of one end only. */
static void keep_end(struct kit *kit, const struct req *reqs)
{
    int kept = 0;

    kit->n_waiting = 0;
    for (int i = 0; i < kit->n_live; i++)
        if (kit->live[i] >= reqs && kit->live[i] < reqs + FLIGHT)
            kit->live[kept++] = kit->live[i];
    kit->n_live = kept;
}

static int exchange(struct kit *kit, struct pair *pair, struct buf *from, struct buf *to)
{
    static struct req sent[FLIGHT], got[FLIGHT];
    size_t sizes[FLIGHT];
    uint64_t key = kit_random(kit);
    const int tag = 5;

    memset(sent, 0, sizeof sent);
    memset(got, 0, sizeof got);
    for (int i = 0; i < FLIGHT; i++) {
        sizes[i] = kit_random(kit) % 4 ? kit_random(kit) % 5000 : kit_random(kit) % LARGEST;
        buf_fill(&from[i], sizes[i], key + (uint64_t)i);
        buf_clear(&to[i]);
        req_recv(kit, pair, 1, &to[i], &tag, &got[i]);
        req_send(kit, pair, &from[i], sizes[i], tag, &sent[i]);
    }
    int failed = 0, sender = 0;
    for (int i = 0; i < FLIGHT && !failed; i++)
        while (!failed && !(sent[i].done && got[i].done)) {
            req_wait(kit, sent[i].done ? &got[i] : &sent[i]);
            for (int k = 0; k < FLIGHT; k++) {
                sender |= sent[k].result != 0;
                failed |= sent[k].result || got[k].result;
            }
        }
    if (failed && sender) {
        close_end(kit, pair, 1, from);
        keep_end(kit, got);
        for (int i = 0; i < FLIGHT; i++)
            req_wait(kit, &got[i]);
    }
    for (int i = 0; i < FLIGHT; i++) {
        if (!got[i].done)
            continue;
        if ((size_t)got[i].sizes[0] != sizes[i])
            kit_fail(kit, "message of %zu bytes, %d reported", sizes[i], got[i].sizes[0]);
        buf_expect(kit, &to[i], sizes[i], key + (uint64_t)i);
    }
    if (failed && !sender) {
        close_end(kit, pair, 0, to);
        keep_end(kit, sent);
        for (int i = 0; i < FLIGHT; i++)
            if (sent[i].request)
                req_wait(kit, &sent[i]);
    }
    req_drop_all(kit);
    return !failed;
}

static void storm(struct kit *kit)
{
    int whole = 0;

    for (int round = 0; round < ROUNDS; round++) {
        struct buf from[FLIGHT], to[FLIGHT];
        struct pair pair;
        if (!connect_pair(kit, &pair)) {
            pair_close(kit, &pair);
            continue;
        }
        int good = buffers(kit, &pair, from, to);
        kit->tolerant = 1;
        for (int i = 0; i < MESSAGES / FLIGHT && good; i++)
            good = exchange(kit, &pair, from, to);
        kit->tolerant = 0;
        whole += good;
        free_all(kit, from);
        free_all(kit, to);
        pair_close(kit, &pair);
    }
    if (!whole)
        kit_fail(kit, "not one of %d connections went well", ROUNDS);
}

const struct kit_case kit_fault_cases[] = {
    {"storm", storm},
    {NULL, NULL},
};
