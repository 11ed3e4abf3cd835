/* Every size and address, and what done stands for: the data is there, all of it, and stays. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "bench/check/stream.h"
#include "bench/check/kit.h"

#define MIB         ((size_t)1 << 20)
#define MAXIMUM     ((size_t)1 << 30) /* NCCL_MAX_NET_SIZE */
#define PATIENCE_NS 6000000000u
#define GLIMPSE_NS  100000000u
#define ALIAS       MN_KIT_ALIAS
#define TOP_CLASS   22
#define PLACES      4096
#define COMMS       8
#define IDLE_TESTS  400
#define SCRIBBLE    0x77

static void move(struct mn_check *check, struct mn_pair *pair, struct mn_buf *out,
                 struct mn_buf *in, size_t size, unsigned seed, const char *what)
{
    struct mn_req send, recv;

    mn_kit_fill(out, size, seed);
    mn_kit_irecv(check, pair->recv, in, in->size, 0, &recv);
    mn_kit_isend(check, pair->send, out, size, 0, &send);
    mn_kit_wait2(check, &recv, &send);
    if (recv.sizes[0] < 0 || (size_t)recv.sizes[0] != size)
        mn_check_fail(check, "%s: %d bytes reported, sent were %zu", what, recv.sizes[0], size);
    mn_kit_expect(check, in, size, seed, what);
}

/* Around each power of two, at addresses the seed chooses. */
static void check_classes(struct mn_check *check)
{
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    for (unsigned i = 0; i <= TOP_CLASS; i++)
        for (unsigned k = 0; k < 3; k++) {
            const size_t size = ((size_t)1 << i) - 1 + k;
            struct mn_buf out, in;
            mn_kit_buf(check, pair.send, size, mn_check_below(check, PLACES), &out);
            mn_kit_buf(check, pair.recv, size, mn_check_below(check, PLACES), &in);
            move(check, &pair, &out, &in, size, 3 * i + k, "a size beside a power of two");
            mn_kit_free(check, &out);
            mn_kit_free(check, &in);
        }
}

/* Receives larger than their messages, several in flight, sizes and addresses by chance. */
static void check_random(struct mn_check *check)
{
    enum { DEPTH = 4, TURNS = 24 };
    struct mn_buf out[DEPTH], in[DEPTH];
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        struct mn_req reqs[2 * DEPTH], *all[2 * DEPTH];
        size_t sizes[DEPTH];
        for (unsigned i = 0; i < DEPTH; i++) {
            sizes[i] = mn_check_below(check, (uint64_t)2 << mn_check_below(check, 18));
            mn_kit_buf(check, pair.send, sizes[i], mn_check_below(check, PLACES), &out[i]);
            mn_kit_buf(check, pair.recv, sizes[i] + mn_check_below(check, 2 * PLACES),
                       mn_check_below(check, PLACES), &in[i]);
            mn_kit_fill(&out[i], sizes[i], turn * DEPTH + i);
            mn_kit_irecv(check, pair.recv, &in[i], in[i].size, 0, &reqs[i]);
            all[i] = &reqs[i];
            all[DEPTH + i] = &reqs[DEPTH + i];
        }
        for (unsigned i = 0; i < DEPTH; i++)
            mn_kit_isend_polling(check, pair.send, &out[i], sizes[i], &reqs[DEPTH + i], reqs,
                                 DEPTH);
        mn_kit_wait(check, all, 2 * DEPTH);
        for (unsigned i = 0; i < DEPTH; i++) {
            if ((size_t)reqs[i].sizes[0] != sizes[i])
                mn_check_fail(check, "%d bytes reported, sent were %zu", reqs[i].sizes[0],
                              sizes[i]);
            mn_kit_expect(check, &in[i], sizes[i], turn * DEPTH + i, "sizes by chance");
            mn_kit_free(check, &out[i]);
            mn_kit_free(check, &in[i]);
        }
    }
}

/* size bytes of addresses over ALIAS bytes of memory. */
static void map_alias(struct mn_check *check, void *comm, size_t size, struct mn_buf *buf)
{
    unsigned char *at = mn_kit_alias(size);

    if (!at)
        mn_check_skip(check, "no addresses for %zu bytes", size);
    *buf = (struct mn_buf){.data = at, .size = ALIAS, .room = ALIAS, .base = at, .comm = comm};
    mn_check_step(check, "regMr of %zu bytes", size);
    if (mn_raw_reg(&check->raw, comm, at, size, &buf->mhandle) != 0)
        mn_check_skip(check, "%zu bytes cannot be registered here", size);
}

/* 0: no longer than until. */
static int move_alias(struct mn_check *check, struct mn_pair *pair, struct mn_buf *out,
                      struct mn_buf *in, size_t size, uint64_t until)
{
    struct mn_req send, recv;

    mn_kit_irecv(check, pair->recv, in, size, 0, &recv);
    mn_kit_isend(check, pair->send, out, size, 0, &send);
    mn_check_step(check, "test of a message of %zu bytes", size);
    while (!mn_kit_test(check, &recv) || !mn_kit_test(check, &send)) {
        mn_kit_test(check, &send);
        if (mn_check_now_ns() >= until)
            return 0;
        sched_yield(); /* long, and it may move in test alone */
    }
    if (recv.sizes[0] < 0 || (size_t)recv.sizes[0] != size)
        mn_check_fail(check, "%d bytes reported, sent were %zu", recv.sizes[0], size);
    return 1;
}

/* When to stop waiting: a slow link is no defect, and a sixty-fourth has shown whether it is one.
 * Where twice its pace were too slow still, all that is found is a message refused at once. */
static uint64_t patience(const struct mn_check *check, uint64_t sixty_fourth, int *slow)
{
    const uint64_t now = mn_check_now_ns(), whole = sixty_fourth * 64;
    const uint64_t most = whole / 2 > PATIENCE_NS ? GLIMPSE_NS : PATIENCE_NS;

    *slow = whole * 4 > PATIENCE_NS;
    return *slow && now + most < check->deadline_ns ? now + most : check->deadline_ns;
}

static void check_maximum(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf out, in;
    uint64_t start, until;
    int slow;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    map_alias(check, pair.send, MAXIMUM, &out);
    map_alias(check, pair.recv, MAXIMUM, &in);
    mn_kit_fill(&out, ALIAS, 1);
    start = mn_check_now_ns();
    if (!move_alias(check, &pair, &out, &in, MAXIMUM / 64, check->deadline_ns))
        mn_check_fail(check, "16 MiB never arrived");
    until = patience(check, mn_check_now_ns() - start, &slow);
    if (move_alias(check, &pair, &out, &in, MAXIMUM, until))
        mn_kit_expect(check, &in, ALIAS, 1, "a message of 1 GiB");
    else if (slow)
        mn_check_skip(check, "1 GiB takes too long on this link");
    else
        mn_check_fail(check, "1 GiB never arrived, though 16 MiB did at once");
}

/* Looked at the moment test says done, before any other call. */
static void check_done_whole(struct mn_check *check)
{
    const size_t size = 4 * MIB;
    struct mn_pair pair;
    struct mn_buf out, in;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, size, 0, &out);
    mn_kit_buf(check, pair.recv, size, 0, &in);
    for (unsigned i = 0; i < 6; i++) {
        struct mn_req send, recv;
        mn_kit_fill(&out, size, i);
        mn_kit_irecv(check, pair.recv, &in, size, 0, &recv);
        mn_kit_isend(check, pair.send, &out, size, 0, &send);
        mn_check_step(check, "test until the receive is done");
        while (!mn_kit_test(check, &recv)) {
            mn_kit_test(check, &send);
            if (mn_check_expired(check))
                mn_check_fail(check, "the receive is never done");
        }
        mn_kit_expect(check, &in, size, i, "right after done");
        memset(in.data, SCRIBBLE, size);
        mn_kit_wait2(check, &recv, &send);
    }
}

/* What the reader does with a completed receive stays done, whatever follows. */
static void check_late_write(struct mn_check *check)
{
    enum { N = 8, SIZE = 30000 };
    struct mn_buf out, in[N];
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, SIZE, 0, &out);
    for (unsigned i = 0; i < N; i++) {
        mn_kit_buf(check, pair.recv, SIZE, 0, &in[i]);
        move(check, &pair, &out, &in[i], SIZE, i, "a message");
        memset(in[i].data, SCRIBBLE, SIZE);
    }
    for (unsigned i = 0; i < IDLE_TESTS; i++)
        sched_yield();
    mn_check_step(check, "%d receives are done, their buffers in use", N);
    for (unsigned i = 0; i < N; i++)
        for (size_t at = 0; at < SIZE; at++)
            if (in[i].data[at] != SCRIBBLE)
                mn_check_fail(check, "byte %zu of receive %u was written after done", at, i);
}

/* Nothing is called for the sender after its sends were done. */
static void check_silent(struct mn_check *check)
{
    static const size_t sizes[] = {1, 4096, 3 * MIB};

    mn_check_init(check);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct mn_req send, recv, *last = &recv;
        struct mn_buf out, in;
        struct mn_pair pair;
        mn_kit_connect(check, &pair);
        mn_kit_buf(check, pair.send, sizes[i], 0, &out);
        mn_kit_buf(check, pair.recv, sizes[i], 0, &in);
        mn_kit_fill(&out, sizes[i], (unsigned)i);
        mn_kit_irecv(check, pair.recv, &in, sizes[i], 0, &recv);
        mn_kit_isend(check, pair.send, &out, sizes[i], 0, &send);
        mn_check_step(check, "test until the send is done");
        while (!mn_kit_test(check, &send)) {
            mn_kit_test(check, &recv);
            if (mn_check_expired(check))
                mn_check_fail(check, "the send of %zu bytes is never done", sizes[i]);
            mn_check_pause(check);
        }
        memset(out.data, SCRIBBLE, sizes[i]);
        mn_kit_wait(check, &last, 1);
        mn_kit_expect(check, &in, sizes[i], (unsigned)i, "the sender fell silent after done");
    }
}

/* Everybody has steps in flight all the time: when the fastest is through, nobody may be at the
 * start. */
static void check_fair(struct mn_check *check)
{
    static struct mn_stream flows[COMMS];
    unsigned steps = 400, most = 0;

    mn_check_init(check);
    if (check->raw.remote) /* where the bytes of each step go as text */
        steps = 100;
    for (int i = 0; i < COMMS; i++) {
        mn_kit_connect(check, &flows[i].pair);
        mn_stream_begin(check, &flows[i], 16384, steps, 1000u * (unsigned)i);
    }
    mn_check_step(check, "%d connections with %d steps in flight each, polled in turn", COMMS,
                  MN_STREAM_STEPS);
    while (most < steps) {
        for (int i = 0; i < COMMS; i++) {
            mn_stream_progress(check, &flows[i], steps);
            most = flows[i].received > most ? flows[i].received : most;
        }
        if (mn_check_expired(check))
            mn_check_fail(check, "the fastest of %d connections received %u of %u steps", COMMS,
                          most, steps);
        mn_check_pause(check);
    }
    for (int i = 0; i < COMMS; i++)
        if (flows[i].received < steps / 20)
            mn_check_fail(check, "connection %d received %u steps while another received %u", i,
                          flows[i].received, steps);
    mn_stream_run(check, flows, COMMS);
}

static const struct mn_check_rule rules[] = {
    {"deliver.classes", "messages beside every power of two, anywhere in memory",
     "sizes and addresses are whatever the collective cuts", check_classes, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyProgress: sends from and to addresses and "
                 "sizes that the collective cut",
     .breaks = "One tensor shape in a thousand gives wrong results.",
     .flags = MN_CHECK_RANDOM | MN_CHECK_ENDS},
    {"deliver.random", "messages of any size into larger receives, several in flight",
     "the receiver posts its capacity, the sender the true length", check_random,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: posts capacities, with several "
                 "steps in flight",
     .breaks = "One tensor shape in a thousand gives wrong results.",
     .flags = MN_CHECK_RANDOM | MN_CHECK_ENDS},
    {"deliver.maximum", "a message of exactly 1 GiB is one message",
     "registered buffers are sent in pieces of up to NCCL_MAX_NET_SIZE, 1 GiB; test reports an int",
     check_maximum, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyProgress: registered buffers are sent in "
                 "pieces of NCCL_MAX_NET_SIZE, 1 GiB",
     .breaks = "Sends of large user buffers fail or lose their end.",
     .flags = MN_CHECK_ALONE | MN_CHECK_SLOW | MN_CHECK_ENDS},
    {"deliver.done_whole", "at done every byte is there",
     "the GPU is told as soon as test reports done; nothing else is awaited", check_done_whole,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: moves the GPU's tail as soon as "
                 "test says done",
     .breaks = "Reductions read what the last step left in the buffer.", .flags = MN_CHECK_ENDS},
    {"deliver.late_write", "after done the buffer belongs to the caller",
     "the slot is read and used again as soon as test reported done", check_late_write,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: the GPU uses the slot again as "
                 "soon as test says done",
     .breaks = "Results change after they were computed.", .flags = MN_CHECK_ENDS},
    {"deliver.silent", "what was sent arrives without another call for the sender",
     "a completed send is forgotten by its thread, which may have nothing else to do for long",
     check_silent, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, ncclProxyGetPostedOps: the progress thread sleeps when no "
                 "operation is left, after the last send is done",
     .breaks = "The last step of a collective hangs until the next one starts.",
     .flags = MN_CHECK_ENDS},
    {"deliver.fair", "no connection starves beside others",
     "all connections of a communicator have steps in flight and wait for each other", check_fair,
     .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL 2.27 proxy.cc, progressOps polls all in turn: a ring goes at the pace of "
                 "its slowest connection, and is right",
     .breaks = "A ring goes at the pace of its unluckiest connection.", .flags = MN_CHECK_ENDS},
};

MN_CHECK_FAMILY(mn_check_deliver_family, "deliver", "sizes, completion and delivery", rules);
