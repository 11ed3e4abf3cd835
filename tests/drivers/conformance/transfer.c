/* Single messages: sizes, order, many at once, errors. */
#include "tests/drivers/conformance/kit.h"

#include <string.h>

static const size_t sizes[] = {0,    1,     7,     8,     127,   128,   129,   4095,     4096,
                               4097, 16383, 16384, 16385, 65535, 65536, 65537, 1u << 20, 16u << 20};
#define N_SIZES (sizeof sizes / sizeof *sizes)

static void every_size(struct kit *kit)
{
    struct pair pair;

    pair_open(kit, &pair);
    for (size_t i = 0; i < N_SIZES; i++)
        pair_pass(kit, &pair, sizes[i]);
    pair_close(kit, &pair);
}

static void send_first(struct kit *kit)
{
    struct pair pair;

    pair_open(kit, &pair);
    for (size_t i = 0; i < N_SIZES; i++) {
        struct buf from, to;
        struct req sent, got;
        const int tag = (int)i;
        buf_new(kit, pair.send, sizes[i], 5, &from);
        buf_new(kit, pair.recv, sizes[i], 2, &to);
        buf_fill(&from, sizes[i], i);
        req_send(kit, &pair, &from, sizes[i], tag, &sent);
        for (int polls = 0; polls < 100; polls++)
            req_poll(kit);
        req_recv(kit, &pair, 1, &to, &tag, &got);
        req_wait_all(kit);
        buf_expect(kit, &to, sizes[i], i);
        buf_free(kit, &from);
        buf_free(kit, &to);
    }
    pair_close(kit, &pair);
}

static void true_size(struct kit *kit)
{
    static const size_t shorter[] = {0, 1, 100, 5000, 70000};
    struct pair pair;

    pair_open(kit, &pair);
    for (size_t i = 0; i < sizeof shorter / sizeof *shorter; i++) {
        struct buf from, to;
        struct req sent, got;
        const int tag = 1;
        buf_new(kit, pair.send, 100000, 0, &from);
        buf_new(kit, pair.recv, 100000, 0, &to);
        buf_fill(&from, 100000, i);
        req_recv(kit, &pair, 1, &to, &tag, &got);
        req_send(kit, &pair, &from, shorter[i], tag, &sent);
        req_wait_all(kit);
        if ((size_t)got.sizes[0] != shorter[i])
            kit_fail(kit, "%zu bytes sent, %d reported", shorter[i], got.sizes[0]);
        buf_expect(kit, &to, shorter[i], i);
        buf_free(kit, &from);
        buf_free(kit, &to);
    }
    pair_close(kit, &pair);
}

static void too_long(struct kit *kit)
{
    static const size_t longer[] = {1, 101, 5000, 1u << 20};

    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++) {
        struct pair pair;
        struct buf from, to;
        struct req sent, got;
        const int tag = 1;
        size_t room = longer[i] > 100 ? 100 : 0;
        pair_open(kit, &pair);
        buf_new(kit, pair.send, longer[i], 0, &from);
        buf_new(kit, pair.recv, room, 0, &to);
        kit->tolerant = 1;
        req_recv(kit, &pair, 1, &to, &tag, &got);
        req_send(kit, &pair, &from, longer[i], tag, &sent);
        req_wait(kit, &got);
        if (!got.result)
            kit_fail(kit, "%zu bytes into a receive of %zu: no error for the receiver", longer[i],
                     room);
        buf_expect(kit, &to, 0, 0);
        /* A small send may be done before the receiver has seen it; the next calls tell. */
        uint64_t end = kit_now_ms() + KIT_PATIENCE_S * 1000;
        int error = 0;
        while (!error) {
            struct req next = {0};
            req_poll(kit);
            error = sent.result;
            if (!error)
                error = mn_plugin_isend(kit->plugin, pair.send, from.data, 1, tag, from.mhandle,
                                        &next.request);
            if (!error && next.request)
                error = mn_plugin_test(kit->plugin, next.request, &next.done, next.sizes);
            if (kit_now_ms() > end)
                kit_fail(kit,
                         "%zu bytes into a receive of %zu: no error for the sender within "
                         "%d s",
                         longer[i], room, KIT_PATIENCE_S);
        }
        req_drop_all(kit);
        kit->tolerant = 0;
        buf_free(kit, &from);
        buf_free(kit, &to);
        pair_close(kit, &pair);
    }
}

static void outstanding(struct kit *kit)
{
    enum { MANY = 256, LEAST = 32, SIZE = 3000 };
    static struct req sent[MANY], got[MANY];
    static struct buf from[MANY], to[MANY];
    struct pair pair;
    int n_sent = 0, n_got = 0;
    const int tag = 3;

    pair_open(kit, &pair);
    for (int i = 0; i < MANY; i++) {
        buf_new(kit, pair.send, SIZE, (size_t)i % 16, &from[i]);
        buf_new(kit, pair.recv, SIZE, (size_t)i % 7, &to[i]);
        buf_fill(&from[i], SIZE, (uint64_t)i);
    }
    while (n_got < MANY && req_try_recv(kit, &pair, 1, &to[n_got], &tag, &got[n_got]))
        n_got++;
    /* Word of the receives may be on its way. */
    for (int polls = 0; polls < 1000; polls++)
        req_poll(kit);
    while (n_sent < n_got && req_try_send(kit, &pair, &from[n_sent], SIZE, tag, &sent[n_sent]))
        n_sent++;
    if (n_got < LEAST || n_sent < LEAST)
        kit_fail(kit, "%d receives and %d sends fit; NCCL posts %d", n_got, n_sent, LEAST);
    for (; n_sent < n_got; n_sent++)
        req_send(kit, &pair, &from[n_sent], SIZE, tag, &sent[n_sent]);
    req_wait_all(kit);
    for (int i = 0; i < n_got; i++)
        buf_expect(kit, &to[i], SIZE, (uint64_t)i);
    for (int i = 0; i < MANY; i++) {
        buf_free(kit, &from[i]);
        buf_free(kit, &to[i]);
    }
    pair_close(kit, &pair);
}

/* Random sizes, several connections, posts and polls in an order the seed decides. */
static void random_order(struct kit *kit)
{
    enum { PAIRS = 4, EACH = 64, MOST = 200000 };
    static struct req sent[PAIRS][EACH], got[PAIRS][EACH];
    static struct buf from[PAIRS][EACH], to[PAIRS][EACH];
    struct pair pairs[PAIRS];
    int n_sent[PAIRS] = {0}, n_got[PAIRS] = {0}, left = 2 * PAIRS * EACH;
    uint64_t end = kit_now_ms() + KIT_PATIENCE_S * 1000;

    for (int p = 0; p < PAIRS; p++) {
        pair_open(kit, &pairs[p]);
        for (int i = 0; i < EACH; i++) {
            size_t size = kit_random(kit) % (1u << kit_random(kit) % 18);
            buf_new(kit, pairs[p].send, size, kit_random(kit) % 64, &from[p][i]);
            buf_new(kit, pairs[p].recv, size + kit_random(kit) % 100, 0, &to[p][i]);
            buf_fill(&from[p][i], size, (uint64_t)(p * EACH + i));
        }
    }
    while (left) {
        int p = (int)(kit_random(kit) % PAIRS), tag = p;
        int *s = &n_sent[p], *g = &n_got[p];
        switch (kit_random(kit) % 3) {
        case 0:
            if (*s < EACH &&
                req_try_send(kit, &pairs[p], &from[p][*s], from[p][*s].size, tag, &sent[p][*s]))
                ++*s, left--;
            break;
        case 1:
            if (*g < EACH && req_try_recv(kit, &pairs[p], 1, &to[p][*g], &tag, &got[p][*g]))
                ++*g, left--;
            break;
        default:
            req_poll(kit);
        }
        if (kit_now_ms() > end)
            kit_fail(kit, "%d posts left after %d s", left, KIT_PATIENCE_S);
    }
    req_wait_all(kit);
    for (int p = 0; p < PAIRS; p++) {
        for (int i = 0; i < EACH; i++) {
            if ((size_t)got[p][i].sizes[0] != from[p][i].size)
                kit_fail(kit, "message %d: %zu bytes sent, %d reported", i, from[p][i].size,
                         got[p][i].sizes[0]);
            buf_expect(kit, &to[p][i], from[p][i].size, (uint64_t)(p * EACH + i));
            buf_free(kit, &from[p][i]);
            buf_free(kit, &to[p][i]);
        }
        pair_close(kit, &pairs[p]);
    }
}

/* More messages than any ring or count of a connection holds. What is done is done: a sent buffer
 * is overwritten at once, a received one checked at once. */
static void long_stream(struct kit *kit)
{
    enum { WINDOW = 64, MESSAGES = 5000, SMALL = 9000, LARGE = 300000 };
    static struct req sent[WINDOW], got[WINDOW];
    static struct buf from[WINDOW], to[WINDOW];
    static size_t lengths[MESSAGES];
    int sending[WINDOW], getting[WINDOW]; /* message number, -1 = free */
    uint64_t end = kit_now_ms() + 4 * KIT_PATIENCE_S * 1000;
    int s = 0, g = 0, left = 2 * MESSAGES;
    const int tag = 3;
    struct pair pair;

    pair_open(kit, &pair);
    for (int i = 0; i < WINDOW; i++) {
        size_t most = i % 16 ? SMALL : LARGE;
        buf_new(kit, pair.send, most, kit_random(kit) % 64, &from[i]);
        buf_new(kit, pair.recv, most, kit_random(kit) % 64, &to[i]);
        sending[i] = getting[i] = -1;
    }
    for (int i = 0; i < MESSAGES; i++)
        lengths[i] = kit_random(kit) % from[i % WINDOW].size;
    while (left) {
        int i = s % WINDOW, k = g % WINDOW;
        struct req *req = NULL;
        switch (kit_random(kit) % 8) {
        case 0:
            if (s == MESSAGES || sending[i] >= 0)
                break;
            buf_fill(&from[i], lengths[s], (uint64_t)s);
            if (req_try_send(kit, &pair, &from[i], lengths[s], tag, &sent[i]))
                sending[i] = s++;
            break;
        case 1:
            if (g == MESSAGES || getting[k] >= 0)
                break;
            buf_clear(&to[k]);
            if (req_try_recv(kit, &pair, 1, &to[k], &tag, &got[k]))
                getting[k] = g++;
            break;
        default:
            req = req_poll_any(kit);
        }
        if (req && req >= sent && req < sent + WINDOW) {
            i = (int)(req - sent);
            memset(from[i].data, 0xee, lengths[sending[i]]);
            sending[i] = -1;
        } else if (req) {
            k = (int)(req - got);
            size_t length = lengths[getting[k]];
            if ((size_t)req->sizes[0] != length)
                kit_fail(kit, "message %d: %zu bytes sent, %d reported", getting[k], length,
                         req->sizes[0]);
            buf_expect(kit, &to[k], length, (uint64_t)getting[k]);
            getting[k] = -1;
        }
        left -= req != NULL;
        if (kit_now_ms() > end)
            kit_fail(kit, "%d of %d requests not done", left, 2 * MESSAGES);
    }
    for (int i = 0; i < WINDOW; i++) {
        buf_free(kit, &from[i]);
        buf_free(kit, &to[i]);
    }
    pair_close(kit, &pair);
}

/* Receives posted again one by one, as NCCL does: the sender has room for all of them though the
 * receiver is not called meanwhile. */
static void window(struct kit *kit)
{
    enum { DEPTH = 8, SIZE = 4096 };
    struct pair pair;
    struct buf from, to[DEPTH];
    struct req sent[DEPTH], got[DEPTH];
    const int tag = 3;
    int posted = 0, count = 0;

    pair_open(kit, &pair);
    buf_new(kit, pair.send, SIZE, 0, &from);
    buf_fill(&from, SIZE, 1);
    for (int i = 0; i < DEPTH; i++) {
        buf_new(kit, pair.recv, SIZE, 0, &to[i]);
        req_recv(kit, &pair, 1, &to[i], &tag, &got[posted++]);
    }
    for (int i = 0; i < 2; i++) {
        req_send(kit, &pair, &from, SIZE, tag, &sent[0]);
        req_wait(kit, &got[i]);
        req_wait(kit, &sent[0]);
        req_recv(kit, &pair, 1, &to[i], &tag, &got[i]);
    }
    const uint64_t deadline = kit_now_ms() + KIT_PATIENCE_S * 1000;
    while (count < DEPTH && kit_now_ms() < deadline)
        count += req_try_send(kit, &pair, &from, SIZE, tag, &sent[count]);
    if (count < DEPTH)
        kit_fail(kit, "%d receives are posted, the sender has room for %d", DEPTH, count);
    req_wait_all(kit);
    for (int i = 0; i < DEPTH; i++) {
        buf_expect(kit, &to[i], SIZE, 1);
        buf_free(kit, &to[i]);
    }
    buf_free(kit, &from);
    pair_close(kit, &pair);
}

const struct kit_case kit_transfer_cases[] = {
    {"every-size", every_size},   {"send-first", send_first},   {"true-size", true_size},
    {"too-long", too_long},       {"outstanding", outstanding}, {"random-order", random_order},
    {"long-stream", long_stream}, {"window", window},           {NULL, NULL},
};
