/* Flows of the relay's transport, both ends in this process, over relays of engine_kit.h. */
#ifndef MN_RELAY_TRANSPORT_KIT_H
#define MN_RELAY_TRANSPORT_KIT_H

#include "fleet/relay/engine_kit.h"
#include "plugin/transport/relay/flow.h"
#include "topo/base/pattern_kit.h"

#define LARGEST (5u << 20)
#define WINDOW  8

/* [1]: who sends. */
struct flow {
    struct mn_conn *conn[2];
    struct mn_comm *comm[2];
    enum mn_err err[2];
    struct mn_diag diag[2];
};

static inline void flow_begin(struct flow *f, int from, int to)
{
    uint8_t text[2][MN_FRAME_MAX / 2];
    struct mn_bytes out[2];

    memset(f, 0, sizeof *f);
    for (int side = 1; side >= 0; side--) {
        struct mn_conn *conn = f->conn[side] = calloc(1, sizeof *conn);
        conn->connector = side;
        conn->config = &configs[side ? from : to];
        conn->transport = &mn_transport_relay;
        conn->side[1].relay_node = from;
        conn->side[0].relay_node = to;
        snprintf(conn->peer_text, sizeof conn->peer_text, "n%d", side ? to : from);
        out[side] = (struct mn_bytes){text[side], text[side] + sizeof text[side], 0};
        if (mn_transport_relay.begin(conn, &out[side], &f->diag[side]))
            fail_msg("%s", f->diag[side].text);
        f->err[side] = MN_ERR_AGAIN;
    }
    for (int side = 0; side < 2; side++) {
        struct mn_bytes in = {text[!side], out[!side].at, 0};
        if (mn_transport_relay.peer(f->conn[side], &in, &f->diag[side]))
            fail_msg("%s", f->diag[side].text);
    }
}

/* Until both have a verdict. */
static inline void flow_step(struct flow *f)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    for (; f->err[0] == MN_ERR_AGAIN || f->err[1] == MN_ERR_AGAIN; kit_nap()) {
        for (int side = 0; side < 2; side++)
            if (f->err[side] == MN_ERR_AGAIN)
                f->err[side] = mn_transport_relay.step(f->conn[side], &f->diag[side]);
        if (mn_now_ms() > end)
            fail_msg("the flow is not set up");
    }
}

static inline void flow_open(struct flow *f, int from, int to)
{
    flow_begin(f, from, to);
    flow_step(f);
    for (int side = 0; side < 2; side++) {
        if (f->err[side])
            fail_msg("%s", f->diag[side].text);
        assert_int_equal(mn_transport_relay.open(f->conn[side], &f->comm[side], NULL), MN_OK);
        f->conn[side]->setup = NULL;
    }
}

static inline void flow_close(struct flow *f)
{
    for (int side = 1; side >= 0; side--) {
        if (f->comm[side])
            mn_transport_relay.close(f->comm[side]);
        else if (f->conn[side]->setup)
            mn_transport_relay.cancel(f->conn[side]);
        f->comm[side] = NULL;
        free(f->conn[side]);
    }
}

static inline struct relay_comm *inside(const struct flow *f, int side)
{
    return (struct relay_comm *)f->comm[side];
}

/* As its calls do. */
static inline void flow_progress(const struct flow *f, int side)
{
    struct relay_comm *comm = inside(f, side);

    pthread_mutex_lock(&comm->busy);
    (void)relay_progress(comm);
    comm->calls++;
    pthread_mutex_unlock(&comm->busy);
}

static inline int flow_ways(const struct flow *f, int side)
{
    struct relay_comm *comm = inside(f, side);

    pthread_mutex_lock(&comm->busy);
    int n = relay_ways_open(comm);
    pthread_mutex_unlock(&comm->busy);
    return n;
}

/* A stream of messages whose bytes and sizes come from their numbers. */
struct stream {
    struct flow *flow;
    unsigned count, posted, sent, received, completed, seed;
    size_t most;
    uint8_t *in[WINDOW], *out[WINDOW];
    struct mn_request *recvs[WINDOW], *sends[WINDOW];
    void *mh_in[WINDOW], *mh_out[WINDOW];
    enum mn_err err[2];
};

static inline size_t stream_size(const struct stream *t, unsigned i)
{
    static const size_t sizes[] = {1,      0,      64u << 10, (64u << 10) + 1, 4096,
                                   300000, 262144, 262145,    LARGEST,         3u << 20};
    size_t size = sizes[(i + t->seed) % (sizeof sizes / sizeof *sizes)];

    return size < t->most ? size : t->most;
}

static inline unsigned stream_seed(const struct stream *t, unsigned i)
{
    return t->seed + i * 131;
}

static inline void stream_begin(struct stream *t, struct flow *flow, unsigned count, size_t most)
{
    memset(t, 0, sizeof *t);
    t->flow = flow;
    t->count = count;
    t->most = most;
    for (int i = 0; i < WINDOW; i++) {
        t->in[i] = malloc(most + 1);
        t->out[i] = malloc(most + 1);
        assert_int_equal(mn_transport_relay.reg_mr(flow->comm[0], t->in[i], most + 1, NCCL_PTR_HOST,
                                                   &t->mh_in[i]),
                         MN_OK);
        assert_int_equal(mn_transport_relay.reg_mr(flow->comm[1], t->out[i], most + 1,
                                                   NCCL_PTR_HOST, &t->mh_out[i]),
                         MN_OK);
    }
}

static inline void stream_end(struct stream *t)
{
    for (int i = 0; i < WINDOW; i++) {
        if (t->flow->comm[0])
            assert_int_equal(mn_transport_relay.dereg_mr(t->flow->comm[0], t->mh_in[i]), MN_OK);
        if (t->flow->comm[1])
            assert_int_equal(mn_transport_relay.dereg_mr(t->flow->comm[1], t->mh_out[i]), MN_OK);
        free(t->in[i]);
        free(t->out[i]);
    }
}

/* The posted size: what a receiver does not know beforehand is the true one. */
static inline size_t stream_room(const struct stream *t, unsigned i)
{
    size_t size = stream_size(t, i);

    return i % 3 == 2 && size < t->most ? t->most : size;
}

static inline void stream_check(const struct stream *t, unsigned i, int size)
{
    const uint8_t *in = t->in[i % WINDOW];

    assert_int_equal(size, stream_size(t, i));
    size_t at = mn_pattern_differs(in, (size_t)size, stream_seed(t, i));
    if (at < (size_t)size)
        fail_msg("message %u of %d bytes: byte %zu is wrong", i, size, at);
}

static inline void stream_receive(struct stream *t)
{
    struct mn_comm *comm = t->flow->comm[0];

    while (!t->err[0] && t->posted < t->count && t->posted < t->received + WINDOW) {
        unsigned i = t->posted % WINDOW;
        size_t size = stream_room(t, t->posted);
        int tag = (int)t->posted;
        void *data = t->in[i];
        memset(data, 0x5a, size < 4096 ? size : 4096);
        t->err[0] =
            mn_transport_relay.irecv(comm, 1, &data, &size, &tag, &t->mh_in[i], &t->recvs[i]);
        if (t->err[0] || !t->recvs[i])
            return;
        t->posted++;
    }
    while (!t->err[0] && t->received < t->posted) {
        unsigned i = t->received % WINDOW;
        int done = 0, size = -1;
        t->err[0] = mn_transport_relay.test(t->recvs[i], &done, &size);
        if (!done)
            return;
        stream_check(t, t->received, size);
        t->received++;
    }
}

static inline void stream_send(struct stream *t)
{
    struct mn_comm *comm = t->flow->comm[1];

    while (!t->err[1] && t->sent < t->count && t->sent < t->completed + WINDOW) {
        unsigned i = t->sent % WINDOW;
        size_t size = stream_size(t, t->sent);
        mn_pattern_fill(t->out[i], size, stream_seed(t, t->sent));
        t->err[1] = mn_transport_relay.isend(comm, t->out[i], size, (int)t->sent, t->mh_out[i],
                                             &t->sends[i]);
        if (t->err[1] || !t->sends[i])
            break;
        t->sent++;
    }
    while (!t->err[1] && t->completed < t->sent) {
        unsigned i = t->completed % WINDOW;
        int done = 0, size = -1;
        t->err[1] = mn_transport_relay.test(t->sends[i], &done, &size);
        if (!done)
            return;
        assert_int_equal(size, stream_size(t, t->completed));
        memset(t->out[i], 0xa5, (size_t)size); /* it is the user's again */
        t->completed++;
    }
}

/* Until so many have been received and their sends are complete, or something failed. */
static inline void stream_until(struct stream *t, unsigned count)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    while ((t->received < count || t->completed < count) && !t->err[0] && !t->err[1]) {
        stream_receive(t);
        stream_send(t);
        if (mn_now_ms() > end)
            fail_msg("%u of %u received, %u complete", t->received, count, t->completed);
    }
}

static inline void stream_all(struct stream *t)
{
    stream_until(t, t->count);
    assert_int_equal(t->err[0], MN_OK);
    assert_int_equal(t->err[1], MN_OK);
}

#endif
