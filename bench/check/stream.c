#include "bench/check/stream.h"

#include <string.h>

#define SCRIBBLE 0xee

void mn_stream_begin(struct mn_check *check, struct mn_stream *flow, size_t slot, unsigned steps,
                     unsigned seed)
{
    flow->slot = slot;
    flow->steps = steps;
    flow->seed = seed;
    flow->posted = flow->received = flow->offered = flow->sent = 0;
    mn_kit_buf(check, flow->pair.send, slot * MN_STREAM_STEPS, 0, &flow->out);
    mn_kit_buf(check, flow->pair.recv, slot * MN_STREAM_STEPS, 0, &flow->in);
}

/* The part of buf that step uses; the guards of the whole are not around it. */
static struct mn_buf slot_of(const struct mn_stream *flow, const struct mn_buf *buf, unsigned step)
{
    struct mn_buf part = *buf;

    part.data = part.base = buf->data + step % MN_STREAM_STEPS * flow->slot;
    part.size = part.room = flow->slot;
    return part;
}

/* Steps differ in length, the first and the last are whole. */
static size_t length_of(const struct mn_stream *flow, unsigned step)
{
    return flow->slot - step * 997 % (flow->slot / 2);
}

static int post_recv(struct mn_check *check, struct mn_stream *flow)
{
    struct mn_buf part = slot_of(flow, &flow->in, flow->posted), *bufs = &part;
    const int tag = 0;

    return mn_kit_try_irecv(check, flow->pair.recv, 1, &bufs, &flow->slot, &tag,
                            &flow->recvs[flow->posted % MN_STREAM_STEPS]);
}

static int post_send(struct mn_check *check, struct mn_stream *flow)
{
    struct mn_buf part = slot_of(flow, &flow->out, flow->offered);
    const size_t length = length_of(flow, flow->offered);

    mn_kit_fill(&part, length, flow->seed + flow->offered);
    return mn_kit_try_isend(check, flow->pair.send, &part, length, 0,
                            &flow->sends[flow->offered % MN_STREAM_STEPS]);
}

static void take(struct mn_check *check, struct mn_stream *flow)
{
    const struct mn_req *recv = &flow->recvs[flow->received % MN_STREAM_STEPS];
    struct mn_buf part = slot_of(flow, &flow->in, flow->received);
    const size_t length = length_of(flow, flow->received);

    if (recv->sizes[0] != (int)length)
        mn_check_fail(check, "step %u: %d bytes reported, sent were %zu", flow->received,
                      recv->sizes[0], length);
    part.size = part.room = length;
    mn_kit_expect(check, &part, length, flow->seed + flow->received, "a step in its slot");
    memset(part.data, SCRIBBLE, length);
}

void mn_stream_progress(struct mn_check *check, struct mn_stream *flow, unsigned ready)
{
    if (flow->posted < flow->steps && flow->posted < flow->received + MN_STREAM_STEPS)
        flow->posted += (unsigned)post_recv(check, flow);
    if (flow->offered < ready && flow->offered < flow->steps &&
        flow->offered < flow->sent + MN_STREAM_STEPS)
        flow->offered += (unsigned)post_send(check, flow);
    if (flow->received < flow->posted &&
        mn_kit_test(check, &flow->recvs[flow->received % MN_STREAM_STEPS])) {
        take(check, flow);
        flow->received++;
    }
    if (flow->sent < flow->offered &&
        mn_kit_test(check, &flow->sends[flow->sent % MN_STREAM_STEPS])) {
        struct mn_buf part = slot_of(flow, &flow->out, flow->sent);
        memset(part.data, SCRIBBLE, flow->slot);
        flow->sent++;
    }
}

int mn_stream_done(const struct mn_stream *flow)
{
    return flow->received == flow->steps && flow->sent == flow->steps;
}

void mn_stream_run(struct mn_check *check, struct mn_stream *flows, int n)
{
    int left = n;

    mn_check_step(check, "%u steps on each of %d connections, %d in flight", flows->steps, n,
                  MN_STREAM_STEPS);
    while (left) {
        left = 0;
        for (int i = 0; i < n; i++) {
            mn_stream_progress(check, &flows[i], flows[i].steps);
            left += !mn_stream_done(&flows[i]);
        }
        if (left && mn_check_expired(check))
            mn_check_fail(check, "%d of %d connections did not get through their %u steps", left, n,
                          flows->steps);
        if (left)
            mn_check_pause(check);
    }
}

void mn_stream_end(struct mn_check *check, struct mn_stream *flow)
{
    mn_kit_free(check, &flow->out);
    mn_kit_free(check, &flow->in);
    mn_kit_close(check, &flow->pair);
}
