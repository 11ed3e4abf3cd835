/* Relays in one process, over TCP on loopback: pieces come through whole and in order, and what
 * goes is told to both ends. */
#include "fleet/relay/engine_kit.h"

/* --- data ------------------------------------------------------------------------------------- */

/* Pieces of one kind from s to d: those of the sink are posted before they are sent, as the
 * transport does. */
struct stream {
    struct kit_end *s, *d;
    struct mn_relay_flow flow;
    enum mn_relay_kind kind;
    unsigned count, posted, sent, finished, landed;
    unsigned skew; /* so that streams differ */
    uint8_t out_head[SLOTS][MN_HEAD_SIZE], in_head[SLOTS][MN_HEAD_SIZE];
    uint8_t *out, *in; /* SLOTS pieces */
    struct mn_request *sends[SLOTS][2], *recvs[SLOTS];
    void *mh_out, *mh_in;
};

static uint32_t length_of(const struct stream *t, unsigned i)
{
    uint32_t most = mn_relay_bytes(t->kind);

    return i % 5 == 3 ? 0 : i % 3 == 1 ? most - i % 1000 : most;
}

static uint8_t byte_of(const struct stream *t, unsigned i, uint32_t at)
{
    return (uint8_t)(t->skew + i * 131 + at * 7 + at / 253);
}

static void fill(struct stream *t, unsigned i, uint32_t pair)
{
    uint32_t length = length_of(t, i);
    struct mn_relay_head head = {.flow = t->flow,
                                 .pair = pair,
                                 .kind = (uint8_t)t->kind,
                                 .empty = !length,
                                 .group = i,
                                 .length = length,
                                 .total = length};
    uint8_t *data = t->out + (size_t)(i % SLOTS) * MN_RELAY_PIECE;

    mn_relay_head_put(&head, t->out_head[i % SLOTS]);
    for (uint32_t at = 0; at < length; at++)
        data[at] = byte_of(t, i, at);
}

static void check(struct stream *t, unsigned i, const int sizes[2])
{
    const uint8_t *data = t->in + (size_t)(i % SLOTS) * MN_RELAY_PIECE;
    struct mn_relay_head head;

    assert_int_equal(sizes[0], MN_HEAD_SIZE);
    assert_true(mn_relay_head_get(t->in_head[i % SLOTS], &head));
    assert_int_equal(head.group, i);
    assert_int_equal(head.length, length_of(t, i));
    assert_int_equal(sizes[1], head.length);
    for (uint32_t at = 0; at < head.length; at++)
        if (data[at] != byte_of(t, i, at))
            fail_msg("piece %u differs at %u", i, at);
}

static void post(struct stream *t)
{
    struct mn_comm *c = t->d->comms[t->kind];
    size_t sizes[2] = {MN_HEAD_SIZE, mn_relay_bytes(t->kind)};
    int tags[2] = {MN_TAG_HEAD, MN_TAG_PAYLOAD};

    while (t->posted < t->count && t->posted - t->landed < SLOTS) {
        unsigned slot = t->posted % SLOTS;
        void *data[2] = {t->in_head[slot], t->in + (size_t)slot * MN_RELAY_PIECE};
        void *mh[2] = {t->mh_in, t->mh_in};
        assert_int_equal(c->ops->irecv(c, 2, data, sizes, tags, mh, &t->recvs[slot]), MN_OK);
        if (!t->recvs[slot])
            break;
        t->posted++;
    }
}

static void receive(struct stream *t)
{
    post(t);
    while (t->landed < t->posted) {
        int done = 0, sizes[MN_MAX_RECVS];
        assert_int_equal(t->d->comms[t->kind]->ops->test(t->recvs[t->landed % SLOTS], &done, sizes),
                         MN_OK);
        if (!done)
            break;
        check(t, t->landed++, sizes);
    }
}

static int send_part(struct stream *t, unsigned slot, int part)
{
    struct mn_comm *c = t->s->comms[t->kind];
    uint8_t *data = part ? t->out + (size_t)slot * MN_RELAY_PIECE : t->out_head[slot];
    size_t size = part ? length_of(t, t->sent) : MN_HEAD_SIZE;

    if (t->sends[slot][part])
        return 1;
    assert_int_equal(c->ops->isend(c, data, size, part ? MN_TAG_PAYLOAD : MN_TAG_HEAD, t->mh_out,
                                   &t->sends[slot][part]),
                     MN_OK);
    return t->sends[slot][part] != NULL;
}

/* No more than is posted. */
static void transmit(struct stream *t)
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
            fill(t, t->sent, t->s->pair);
        if (!send_part(t, slot, 0) || !send_part(t, slot, 1))
            return;
        t->sent++;
    }
}

static struct stream begin(struct kit_end *s, struct kit_end *d, unsigned flow,
                           enum mn_relay_kind kind, unsigned count)
{
    struct stream t = {.s = s, .d = d, .kind = kind, .count = count, .skew = flow};

    memcpy(t.flow.id, &flow, sizeof flow);
    t.out = malloc((size_t)SLOTS * MN_RELAY_PIECE);
    t.in = calloc(SLOTS, MN_RELAY_PIECE);
    assert_true(t.out && t.in);
    return t;
}

/* TCP's; the addresses of the heads are those of where the stream is now. */
static void carry(struct stream *streams, int n)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    for (int left = 1; left;) {
        left = 0;
        for (int i = 0; i < n; i++) {
            struct stream *t = &streams[i];
            receive(t);
            transmit(t);
            left += t->landed < t->count || t->finished < t->count;
        }
        assert_true(mn_now_ms() < end);
    }
}

static void end(struct stream *t)
{
    free(t->out);
    free(t->in);
}

/* --- tests ------------------------------------------------------------------------------------ */

static struct kit_end ends[16];

static void attach(struct kit_end *s, struct kit_end *d, int first, int last, unsigned flow)
{
    struct mn_line_attach f = kit_frame(first, last, flow);

    kit_dial(s, first, first + 1);
    kit_dial(d, last, last - 1);
    kit_attach_sender(s, f);
    kit_attach_receiver(d, f);
    kit_until_open(s, d);
}

static void pieces_pass(int first, int last)
{
    struct stream t[2];

    for (int i = first + 1; i < last; i++)
        kit_start(i);
    attach(&ends[0], &ends[1], first, last, 5);
    t[0] = begin(&ends[0], &ends[1], 5, MN_RELAY_BULK, 300);
    t[1] = begin(&ends[0], &ends[1], 5, MN_RELAY_SMALL_ONES, 500);
    carry(t, 2);
    end(&t[0]);
    end(&t[1]);
    kit_leave(&ends[0]);
    kit_leave(&ends[1]);
    for (int i = first + 1; i < last; i++)
        kit_stop(i);
}

static void pieces_pass_over_one_relay(void **state)
{
    (void)state;
    pieces_pass(0, 2);
}

static void pieces_pass_over_three_relays(void **state)
{
    (void)state;
    pieces_pass(0, 4);
}

static int open_kit(void **state)
{
    (void)state;
    kit_open(18525);
    return 0;
}

static int close_kit(void **state)
{
    (void)state;
    kit_close();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_pass_over_one_relay),
        cmocka_unit_test(pieces_pass_over_three_relays),
    };
    return cmocka_run_group_tests(tests, open_kit, close_kit);
}
