/* Pieces that are carried over relays, and looked at byte for byte. */
#ifndef MN_RELAY_ENGINE_STREAM_H
#define MN_RELAY_ENGINE_STREAM_H

#include "fleet/relay/engine_kit.h"
#include "plugin/context.h"
#include "topo/base/pattern_kit.h"

/* Pieces of one kind from s to d: those of the sink are posted before they are sent, as the
 * transport does. */
struct stream {
    struct kit_end *s, *d;
    struct mn_relay_flow flow;
    enum mn_relay_kind kind;
    unsigned count, posted, sent, finished, landed;
    unsigned skew;     /* so that streams differ */
    uint8_t *out, *in; /* SLOTS pieces, and behind them as many headers */
    struct mn_comm *comm_out, *comm_in;
    struct mn_request *sends[SLOTS][2], *recvs[SLOTS];
    void *mh_out, *mh_in;
};

#define STREAM_BYTES ((size_t)SLOTS * (MN_RELAY_PIECE + MN_HEAD_SIZE))

static inline uint8_t *stream_head(uint8_t *memory, unsigned slot)
{
    return memory + (size_t)SLOTS * MN_RELAY_PIECE + (size_t)slot * MN_HEAD_SIZE;
}

static inline uint32_t stream_length_of(const struct stream *t, unsigned i)
{
    uint32_t most = mn_relay_bytes(t->kind);

    return i % 5 == 3 ? 0 : i % 3 == 1 ? most - i % 1000 : most;
}

static inline unsigned stream_seed(const struct stream *t, unsigned i)
{
    return t->skew + i * 131;
}

static inline void stream_fill(struct stream *t, unsigned i, uint32_t pair)
{
    uint32_t length = stream_length_of(t, i);
    struct mn_relay_head head = {.flow = t->flow,
                                 .pair = pair,
                                 .kind = (uint8_t)t->kind,
                                 .empty = !length,
                                 .group = i,
                                 .length = length,
                                 .total = length};
    uint8_t *data = t->out + (size_t)(i % SLOTS) * MN_RELAY_PIECE;

    mn_relay_head_put(&head, stream_head(t->out, i % SLOTS));
    mn_pattern_fill(data, length, stream_seed(t, i));
}

static inline void stream_check(struct stream *t, unsigned i, const int sizes[2])
{
    const uint8_t *data = t->in + (size_t)(i % SLOTS) * MN_RELAY_PIECE;
    struct mn_relay_head head;

    assert_int_equal(sizes[0], MN_HEAD_SIZE);
    assert_true(mn_relay_head_get(stream_head(t->in, i % SLOTS), &head));
    assert_int_equal(head.group, i);
    assert_int_equal(head.length, stream_length_of(t, i));
    assert_int_equal(sizes[1], head.length);
    size_t at = mn_pattern_differs(data, head.length, stream_seed(t, i));
    if (at < head.length)
        fail_msg("piece %u differs at %zu", i, at);
}

static inline void stream_post(struct stream *t)
{
    struct mn_comm *c = t->d->comms[t->kind];
    size_t sizes[2] = {MN_HEAD_SIZE, mn_relay_bytes(t->kind)};
    int tags[2] = {MN_TAG_HEAD, MN_TAG_PAYLOAD};

    while (t->posted < t->count && t->posted - t->landed < SLOTS) {
        unsigned slot = t->posted % SLOTS;
        void *data[2] = {stream_head(t->in, slot), t->in + (size_t)slot * MN_RELAY_PIECE};
        void *mh[2] = {t->mh_in, t->mh_in};
        assert_int_equal(c->ops->irecv(c, 2, data, sizes, tags, mh, &t->recvs[slot]), MN_OK);
        if (!t->recvs[slot])
            break;
        t->posted++;
    }
}

static inline void stream_receive(struct stream *t)
{
    stream_post(t);
    while (t->landed < t->posted) {
        int done = 0, sizes[MN_MAX_RECVS];
        assert_int_equal(t->d->comms[t->kind]->ops->test(t->recvs[t->landed % SLOTS], &done, sizes),
                         MN_OK);
        if (!done)
            break;
        stream_check(t, t->landed++, sizes);
    }
}

static inline int stream_send_part(struct stream *t, unsigned slot, int part)
{
    struct mn_comm *c = t->s->comms[t->kind];
    uint8_t *data = part ? t->out + (size_t)slot * MN_RELAY_PIECE : stream_head(t->out, slot);
    size_t size = part ? stream_length_of(t, t->sent) : MN_HEAD_SIZE;

    if (t->sends[slot][part])
        return 1;
    assert_int_equal(c->ops->isend(c, data, size, part ? MN_TAG_PAYLOAD : MN_TAG_HEAD, t->mh_out,
                                   &t->sends[slot][part]),
                     MN_OK);
    return t->sends[slot][part] != NULL;
}

/* No more than is posted. */
static inline void stream_transmit(struct stream *t)
{
    while (t->finished < t->sent) {
        unsigned slot = t->finished % SLOTS;
        for (int part = 0; part < 2; part++) {
            int done = 1;
            if (t->sends[slot][part])
                assert_int_equal(t->s->comms[t->kind]->ops->test(t->sends[slot][part], &done, NULL),
                                 MN_OK);
            if (!done)
                return;
            t->sends[slot][part] = NULL;
        }
        t->finished++;
    }
    while (t->sent < t->posted && t->sent - t->finished < SLOTS) {
        unsigned slot = t->sent % SLOTS;
        if (!t->sends[slot][0])
            stream_fill(t, t->sent, t->s->pair);
        if (!stream_send_part(t, slot, 0) || !stream_send_part(t, slot, 1))
            return;
        t->sent++;
    }
}

/* Given back with the connection, if that goes first. */
static inline void stream_register(struct mn_comm *comm, uint8_t *memory, void **mhandle)
{
    assert_int_equal(comm->ops->reg_mr(comm, memory, STREAM_BYTES, NCCL_PTR_HOST, mhandle), MN_OK);
    assert_int_equal(mn_comm_note(comm, *mhandle), MN_OK);
}

static inline void stream_deregister(struct mn_comm *comm, struct mn_comm *now, void *mhandle)
{
    if (comm != now)
        return;
    mn_comm_forget(comm, mhandle);
    assert_int_equal(comm->ops->dereg_mr(comm, mhandle), MN_OK);
}

static inline struct stream stream_begin(struct kit_end *s, struct kit_end *d, unsigned flow,
                                         enum mn_relay_kind kind, unsigned count)
{
    struct stream t = {.s = s, .d = d, .kind = kind, .count = count, .skew = flow};

    memcpy(t.flow.id, &flow, sizeof flow);
    t.out = calloc(1, STREAM_BYTES);
    t.in = calloc(1, STREAM_BYTES);
    assert_true(t.out && t.in);
    t.comm_out = s->comms[kind];
    t.comm_in = d->comms[kind];
    stream_register(t.comm_out, t.out, &t.mh_out);
    stream_register(t.comm_in, t.in, &t.mh_in);
    return t;
}

static inline void stream_carry(struct stream *streams, int n)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    for (int left = 1; left;) {
        left = 0;
        for (int i = 0; i < n; i++) {
            struct stream *t = &streams[i];
            stream_receive(t);
            stream_transmit(t);
            left += t->landed < t->count || t->finished < t->count;
        }
        assert_true(mn_now_ms() < end);
    }
}

static inline void stream_end(struct stream *t)
{
    stream_deregister(t->comm_out, t->s->comms[t->kind], t->mh_out);
    stream_deregister(t->comm_in, t->d->comms[t->kind], t->mh_in);
    free(t->out);
    free(t->in);
}

/* So many of each kind, beside each other. */
static inline void stream_both(struct kit_end *from, struct kit_end *to, unsigned flow,
                               unsigned pieces)
{
    struct stream t[2] = {stream_begin(from, to, flow, MN_RELAY_BULK, pieces),
                          stream_begin(from, to, flow, MN_RELAY_SMALL_ONES, pieces)};

    stream_carry(t, 2);
    stream_end(&t[0]);
    stream_end(&t[1]);
}

#endif
