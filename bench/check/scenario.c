/* The call sequences of a communicator's life, as the releases make them. What a release adds comes
 * with the ABI version driven and with the profile. */
#include <pthread.h>
#include <string.h>

#include "bench/check/stream.h"
#include "bench/check/scenario.h"
#include "bench/check/trace.h"
#include "bench/host.h"

#define MIB      ((size_t)1 << 20)
#define RANKS    4
#define CHANNELS 6
#define TREE     7
#define STEPS    64
#define SLOT     20000
#define ABORTS   4

/* The first device is probed for GPU-direct before the topology is built: both ends on one thread,
 * device handles NULL, the receiving comm closed first and the listen comm last. */
static void check_probe(struct mn_check *check)
{
    _Alignas(16) unsigned char props[MN_RAW_PROPS_MAX];
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_listen(check, 0, &pair);
    mn_check_step(check, "connect and accept in turn, device handles NULL");
    while (!pair.send || !pair.recv) {
        if (!pair.send)
            mn_check_ok(check, "connect",
                        mn_raw_connect(&check->raw, 0, pair.handle, &pair.send, NULL));
        if (!pair.recv)
            mn_check_ok(check, "accept", mn_raw_accept(&check->raw, pair.listen, &pair.recv, NULL));
        if (mn_check_expired(check))
            mn_check_fail(check, "no connection to oneself");
    }
    for (int side = 0; side < 2; side++) {
        struct mn_buf buf;
        mn_kit_buf(check, side ? pair.recv : pair.send, 2 * MIB, 0, &buf);
        mn_kit_free(check, &buf);
    }
    mn_check_step(check, "closeRecv, closeSend, closeListen");
    mn_check_ok(check, "closeRecv", mn_raw_close_recv(&check->raw, pair.recv));
    mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, pair.send));
    mn_check_ok(check, "closeListen", mn_raw_close_listen(&check->raw, pair.listen));
    for (int dev = 0; dev < check->n_dev; dev++)
        mn_check_ok(check, "getProperties", mn_raw_properties(&check->raw, dev, props));
    mn_check_step(check, "a connection after the probe");
    mn_kit_connect(check, &pair);
    mn_kit_pass(check, &pair, 5000, 5000, 1);
}

struct ring {
    struct mn_pair pairs[RANKS]; /* pair i: rank i sends, rank i + 1 receives */
    struct mn_buf out[RANKS], in[RANKS];
};

static void connect_ring(struct mn_check *check, struct ring *ring)
{
    int left = RANKS;

    for (int i = 0; i < RANKS; i++)
        mn_kit_listen(check, 0, &ring->pairs[i]);
    mn_check_step(check, "every rank connects to its next and accepts its last");
    while (left) {
        left = 0;
        for (int i = 0; i < RANKS; i++) {
            mn_kit_try_connect(check, &ring->pairs[i]);
            mn_kit_try_accept(check, &ring->pairs[(i + RANKS - 1) % RANKS]);
        }
        for (int i = 0; i < RANKS; i++)
            left += !ring->pairs[i].send || !ring->pairs[i].recv;
        if (left && mn_check_expired(check))
            mn_check_fail(check, "%d of %d ranks are not connected", left, RANKS);
        mn_check_pause(check);
    }
    for (int i = 0; i < RANKS; i++)
        mn_check_ok(check, "closeListen", mn_raw_close_listen(&check->raw, ring->pairs[i].listen));
}

/* One step of an all-gather: the tag is the step, sizes is NULL, as are the profiler's handles. */
static void gather_step(struct mn_check *check, struct ring *ring, int step)
{
    const size_t size = 256;
    struct mn_req reqs[2][RANKS];
    int done[2][RANKS] = {{0}}, left = 2 * RANKS;

    for (int i = 0; i < RANKS; i++) {
        mn_kit_fill(&ring->out[i], size, (unsigned)(step * RANKS + i));
        mn_kit_irecv(check, ring->pairs[i].recv, &ring->in[i], size, step, &reqs[0][i]);
        mn_kit_isend(check, ring->pairs[i].send, &ring->out[i], size, step, &reqs[1][i]);
    }
    mn_check_step(check, "test with sizes NULL, step %d of the bootstrap", step);
    while (left) {
        left = 0;
        for (int i = 0; i < 2 * RANKS; i++) {
            int *flag = &done[i / RANKS][i % RANKS];
            if (!*flag)
                mn_check_ok(check, "test",
                            mn_raw_test(&check->raw, reqs[i / RANKS][i % RANKS].request, flag,
                                        NULL));
            left += !*flag;
        }
        if (left && mn_check_expired(check))
            mn_check_fail(check, "%d of %d requests of bootstrap step %d not done", left, 2 * RANKS,
                          step);
        mn_check_pause(check);
    }
    for (int i = 0; i < RANKS; i++)
        mn_kit_expect(check, &ring->in[i], size, (unsigned)(step * RANKS + i), "bootstrap");
}

static void check_bootstrap(struct mn_check *check)
{
    struct ring ring;

    mn_check_init(check);
    connect_ring(check, &ring);
    for (int i = 0; i < RANKS; i++) {
        mn_kit_buf(check, ring.pairs[i].send, 256, 0, &ring.out[i]);
        mn_kit_buf(check, ring.pairs[i].recv, 256, 0, &ring.in[i]);
    }
    for (int step = 0; step < 3 * (RANKS - 1); step++)
        gather_step(check, &ring, step);
    for (int i = 0; i < RANKS; i++) {
        mn_kit_free(check, &ring.out[i]);
        mn_kit_free(check, &ring.in[i]);
        mn_kit_close(check, &ring.pairs[i]);
    }
}

static int finish_once(struct mn_check *check, struct mn_pair *pair)
{
    if (pair->send && !pair->listen)
        return 1;
    mn_kit_try_connect(check, pair);
    if (pair->recv)
        return 0;
    mn_kit_try_accept(check, pair);
    if (pair->recv) { /* as NCCL does: at once, while other connections are half open */
        mn_check_ok(check, "closeListen", mn_raw_close_listen(&check->raw, pair->listen));
        pair->listen = NULL;
    }
    return 0;
}

static void check_setup(struct mn_check *check)
{
    static const size_t protocols[] = {256 * 1024, 600 * 1024, 4 * MIB}; /* LL, LL128, Simple */
    _Alignas(16) unsigned char props[MN_RAW_PROPS_MAX];
    static struct mn_pair pairs[2 * CHANNELS];
    int left = 1;

    mn_check_init(check);
    for (int i = 0; i < 2 * CHANNELS; i++) {
        mn_check_ok(check, "getProperties",
                    mn_raw_properties(&check->raw, i % check->n_dev, props));
        mn_kit_listen(check, 0, &pairs[i]);
    }
    mn_check_step(check, "%d channels, both directions, properties read between calls", CHANNELS);
    while (left) {
        left = 0;
        for (int i = 0; i < 2 * CHANNELS; i++) {
            left += !finish_once(check, &pairs[i]);
            mn_check_ok(check, "getProperties", mn_raw_properties(&check->raw, 0, props));
        }
        if (left && mn_check_expired(check))
            mn_check_fail(check, "%d of %d connections did not come up", left, 2 * CHANNELS);
        mn_check_pause(check);
    }
    for (int i = 0; i < 2 * CHANNELS; i++) {
        struct mn_buf bufs[2][3];
        for (int p = 0; p < 3; p++) {
            mn_kit_buf(check, pairs[i].send, protocols[p], 0, &bufs[0][p]);
            mn_kit_buf(check, pairs[i].recv, protocols[p], 0, &bufs[1][p]);
        }
        mn_kit_pass(check, &pairs[i], 30000, 65536, (unsigned)i);
        for (int p = 0; p < 6; p++)
            mn_kit_free(check, &bufs[p % 2][p / 2]);
        mn_kit_close(check, &pairs[i]);
    }
}

struct rank {
    struct mn_check *check;
    struct mn_stream flows[2];
};

static void *run_rank(void *arg)
{
    struct rank *rank = arg;

    mn_stream_run(rank->check, rank->flows, 2);
    return NULL;
}

/* Every rank with a progress thread of its own, two channels each. */
static void check_ring(struct mn_check *check)
{
    static struct rank ranks[RANKS];
    pthread_t threads[RANKS];

    mn_check_init(check);
    for (int i = 0; i < RANKS; i++)
        for (int channel = 0; channel < 2; channel++) {
            struct mn_stream *flow = &ranks[i].flows[channel];
            ranks[i].check = check;
            mn_kit_connect(check, &flow->pair);
            mn_stream_begin(check, flow, SLOT << channel, STEPS,
                            1000u * (unsigned)(2 * i + channel));
        }
    for (int i = 0; i < RANKS; i++)
        if (pthread_create(&threads[i], NULL, run_rank, &ranks[i]) != 0)
            mn_check_skip(check, "no further thread can be started");
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < RANKS; i++)
        for (int channel = 0; channel < 2; channel++)
            mn_stream_end(check, &ranks[i].flows[channel]);
}

/* Edge i joins node i + 1 and its parent i / 2. Up goes what both children brought, down what the
 * parent brought: no edge moves a step before those it waits for did. */
static unsigned ready_up(const struct mn_stream *up, int edge)
{
    unsigned ready = up[edge].steps;

    for (int child = 2 * (edge + 1); child < 2 * (edge + 1) + 2 && child < TREE - 1; child++)
        if (up[child].received < ready)
            ready = up[child].received;
    return ready;
}

static unsigned ready_down(const struct mn_stream *up, const struct mn_stream *down, int edge)
{
    unsigned ready = up[0].received < up[1].received ? up[0].received : up[1].received;

    return edge < 2 ? ready : down[edge / 2 - 1].received;
}

static void check_tree(struct mn_check *check)
{
    static struct mn_stream up[TREE - 1], down[TREE - 1];
    int left = 1;

    mn_check_init(check);
    for (int i = 0; i < TREE - 1; i++) {
        mn_kit_connect(check, &up[i].pair);
        mn_kit_connect(check, &down[i].pair);
        mn_stream_begin(check, &up[i], SLOT, STEPS, 500u * (unsigned)i);
        mn_stream_begin(check, &down[i], SLOT, STEPS, 500u * (unsigned)i + 250);
    }
    mn_check_step(check, "%d steps up and down a tree of %d nodes", STEPS, TREE);
    while (left) {
        left = 0;
        for (int i = 0; i < TREE - 1; i++) {
            mn_stream_progress(check, &up[i], ready_up(up, i));
            mn_stream_progress(check, &down[i], ready_down(up, down, i));
            left += !mn_stream_done(&up[i]) + !mn_stream_done(&down[i]);
        }
        if (left && mn_check_expired(check))
            mn_check_fail(check, "the tree stands still: %d of %d directions not through", left,
                          2 * (TREE - 1));
        mn_check_pause(check);
    }
    for (int i = 0; i < TREE - 1; i++) {
        mn_stream_end(check, &up[i]);
        mn_stream_end(check, &down[i]);
    }
}

/* One communicator ends, receivers long before senders, while another goes on. */
static void check_destroy(struct mn_check *check)
{
    static struct mn_stream ends[RANKS], stays[2];

    mn_check_init(check);
    for (int i = 0; i < RANKS; i++) {
        mn_kit_connect(check, &ends[i].pair);
        mn_stream_begin(check, &ends[i], SLOT, STEPS / 4, 100u * (unsigned)i);
    }
    for (int i = 0; i < 2; i++) {
        mn_kit_connect(check, &stays[i].pair);
        mn_stream_begin(check, &stays[i], SLOT, STEPS, 5000u * (unsigned)(i + 1));
    }
    mn_stream_run(check, ends, RANKS);
    for (unsigned turn = 0; turn < 12; turn++)
        for (int i = 0; i < 2; i++)
            mn_stream_progress(check, &stays[i], STEPS);
    mn_check_step(check, "a communicator ends beside one with requests in flight");
    for (int i = 0; i < RANKS; i++) {
        mn_kit_free(check, &ends[i].in);
        mn_check_ok(check, "closeRecv", mn_raw_close_recv(&check->raw, ends[i].pair.recv));
    }
    for (unsigned turn = 0; turn < 12; turn++)
        for (int i = 0; i < 2; i++)
            mn_stream_progress(check, &stays[i], STEPS);
    for (int i = 0; i < RANKS; i++) {
        mn_kit_free(check, &ends[i].out);
        mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, ends[i].pair.send));
    }
    mn_stream_run(check, stays, 2);
    for (int i = 0; i < 2; i++)
        mn_stream_end(check, &stays[i]);
}

/* Steps in flight, some connections half open and never closed; the next communicator starts. */
static void check_abort(struct mn_check *check)
{
    static struct mn_stream flows[ABORTS][2];
    struct mn_pair half[2];

    mn_check_init(check);
    for (int round = 0; round < ABORTS; round++) {
        for (int i = 0; i < 2; i++) {
            struct mn_stream *flow = &flows[round][i];
            mn_kit_connect(check, &flow->pair);
            mn_stream_begin(check, flow, SLOT, STEPS, (unsigned)(100 * round + i));
            for (int turn = 0; turn < 40; turn++)
                mn_stream_progress(check, flow, STEPS);
        }
        mn_kit_listen(check, 0, &half[0]);
        mn_kit_listen(check, 0, &half[1]);
        if (check->raw.version->version >= 5) { /* before, connect and accept block */
            mn_kit_try_connect(check, &half[0]);
            mn_kit_try_accept(check, &half[1]);
        }
        mn_check_step(check, "abort %d of %d: deregMr and close with steps in flight", round + 1,
                      ABORTS);
        for (int i = 0; i < 2; i++)
            mn_stream_end(check, &flows[round][i]);
    }
    mn_kit_connect(check, &flows[0][0].pair);
    mn_stream_begin(check, &flows[0][0], SLOT, STEPS, 9000);
    mn_stream_run(check, &flows[0][0], 1);
    mn_stream_end(check, &flows[0][0]);
}

static void preset(struct mn_check *check, const char *call, int result, struct mn_req *req)
{
    mn_check_ok(check, call, result);
    if (req->request == (void *)(uintptr_t)1)
        mn_check_fail(check, "%s returned success and left 0x1 in *request", call);
    req->done = req->result = 0;
}

/* RCCL: a 4-byte object where the device handle belongs, *request preset on both sides, as many
 * sizes as it has channels. */
static void check_rccl(struct mn_check *check)
{
    struct {
        uint32_t before, channel, after[2];
    } slot = {0xa5a5a5a5u, 7, {0xa5a5a5a5u, 0xa5a5a5a5u}};
    void **theirs = (void **)(void *)&slot.channel;
    struct mn_req send = {.request = NULL}, recv = {.request = NULL};
    int sizes[128] = {0}, tag = 0;
    const size_t size = 3000;
    struct mn_buf out, in;
    struct mn_pair pair;
    void *data, *mhandle;

    mn_check_init(check);
    mn_kit_listen(check, 0, &pair);
    mn_check_step(check, "connect and accept with a 4-byte object for the device handle");
    while (!pair.send || !pair.recv) {
        if (!pair.send)
            mn_check_ok(check, "connect",
                        mn_raw_connect(&check->raw, 0, pair.handle, &pair.send, theirs));
        if (!pair.recv)
            mn_check_ok(check, "accept",
                        mn_raw_accept(&check->raw, pair.listen, &pair.recv, theirs));
        if (mn_check_expired(check))
            mn_check_fail(check, "not connected");
        mn_check_pause(check);
    }
    if (slot.before != 0xa5a5a5a5u || slot.channel != 7 || slot.after[0] != 0xa5a5a5a5u)
        mn_check_fail(check, "the object in place of the device handle was written");
    mn_kit_buf(check, pair.send, size, 0, &out);
    mn_kit_buf(check, pair.recv, size, 0, &in);
    mn_kit_fill(&out, size, 1);
    data = in.data;
    mhandle = in.mhandle;
    mn_check_step(check, "irecv and isend with 0x1 in *request until posted");
    while (!recv.request || !send.request) {
        struct mn_req *req = recv.request ? &send : &recv;
        req->request = (void *)(uintptr_t)1;
        if (req == &recv)
            preset(check, "irecv",
                   mn_raw_irecv(&check->raw, pair.recv, 1, &data, &size, &tag, &mhandle,
                                &recv.request),
                   &recv);
        else
            preset(check, "isend",
                   mn_raw_isend(&check->raw, pair.send, out.data, size, 0, out.mhandle,
                                &send.request),
                   &send);
        if (mn_check_expired(check))
            mn_check_fail(check, "requests stay NULL");
    }
    while (!recv.done) {
        mn_check_ok(check, "test", mn_raw_test(&check->raw, recv.request, &recv.done, sizes));
        mn_kit_test(check, &send);
        if (mn_check_expired(check))
            mn_check_fail(check, "the receive is never done");
        mn_check_pause(check);
    }
    mn_kit_expect(check, &in, size, 1, "RCCL's way to post");
}

static const struct mn_check_rule rules[] = {
    {"scenario.probe", "the GPU-direct probe runs through",
     "listen, connect and accept on one thread, 2 MiB registered on each end, closeRecv, "
     "closeSend, closeListen",
     check_probe, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 plugin/net.cc, ncclGpuGdrSupport: an error of any of these calls fails "
                 "the communicator",
     .breaks = "A communicator fails before it has a topology.", .since = 5},
    {"scenario.bootstrap", "the bootstrap runs over the plugin",
     "a ring of small messages, the step as tag, NULL for sizes and for the profiler's handles",
     check_bootstrap, .profile = "nccl-2.23",
     .evidence = "NCCL 2.23 bootstrap.cc, netRingAllGather: with NCCL_OOB_NET_ENABLE=1 the first "
                 "exchange of all ranks",
     .breaks = "Jobs with NCCL_OOB_NET_ENABLE=1 do not start.", .since = 5},
    {"scenario.setup", "transports of many channels are set up and torn down",
     "properties are read between the calls of half-open connections; each has its three buffers",
     check_setup, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport.cc, ncclTransportP2pSetup: every channel to every peer, "
                 "between calls of getProperties",
     .breaks = "A communicator with many channels hangs while it connects.", .since = 5},
    {"scenario.mesh", "every pair of nodes connects, as NCCL connects them",
     "rings, then both trees, then PAT, then all pairs for send and receive: 3 to 6 ranks, two "
     "channels, one thread that goes round",
     mn_check_mesh, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 init.cc, initTransportsRank: rings, trees and PAT are connected with "
                 "NCCL_RUNTIME_CONNECT=0 whatever NCCL_ALGO says; transport.cc, "
                 "ncclTransportP2pSetup: all of a kind at once",
     .breaks = "A communicator of more than two nodes hangs or fails while it connects.",
     .since = 5},
    {"scenario.ring", "rings run with eight steps in flight on every rank",
     "a slot is filled again as soon as its step was done", check_ring, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyProgress: NCCL_STEPS steps in flight, a "
                 "slot is filled again when its step is done",
     .breaks = "Reductions give wrong sums or hang."},
    {"scenario.tree", "trees run up and down at once",
     "steps of one connection wait for those of others; one thread drives them all", check_tree,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, progressOps: one thread drives connections up and down the "
                 "tree, which wait for each other",
     .breaks = "Tree reductions hang with more than a few nodes."},
    {"scenario.destroy", "a communicator ends beside another that runs",
     "receivers deregister and close long before senders, or long after", check_destroy,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyFree and sendProxyFree: deregMr and close "
                 "of one communicator while another runs",
     .breaks = "Destroying one communicator breaks another."},
    {"scenario.abort", "after an abort the next communicator starts",
     "memory is deregistered and comms are closed with steps in flight; half-open ones are left",
     check_abort, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 init.cc, ncclCommAbort: stops its threads and frees everything with "
                 "steps in flight",
     .breaks = "A job that recovers from errors has to be started again."},
    {"scenario.rccl", "RCCL's way to connect and post works",
     "the device handle argument is the address of a 4-byte object; *request holds 0x1 for isend "
     "and irecv; test gets 128 sizes",
     check_rccl, .profile = "rccl-7",
     .evidence = "RCCL of ROCm 7 transport/net.cc, sendProxyProgress: writes 0x1 into the slot "
                 "before isend too; recvProxyProgress: 128 sizes",
     .breaks = "Jobs on AMD GPUs crash or hang.", .since = 9},
    {"scenario.trace", "recorded traffic is carried again, every byte right",
     "the messages of a job, with its sizes, tags, order and number of requests at once",
     mn_check_trace, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyProgress and recvProxyProgress, or whatever "
                 "release was recorded: its calls, one by one",
     .breaks = "The job that was recorded fails with this plugin.", .since = 5},
};

MN_CHECK_FAMILY(mn_check_scenario_family, "scenario", "call sequences of NCCL and RCCL", rules);
