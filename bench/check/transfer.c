/* Bytes, sizes and registration over one connection. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "bench/check/kit.h"
#include "bench/check/transfer.h"
#include "bench/host.h"

#define MIB          ((size_t)1 << 20)
#define IDLE_TESTS   400
#define ORDER_DEPTH  8
#define ORDER_ROUNDS 64
#define REG_ROUNDS   50

static void check_sizes(struct mn_check *check)
{
    static const size_t sizes[] = {0, 1, 7, 8, 4095, 4096, 4097, MIB, 16 * MIB};
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        mn_kit_pass(check, &pair, sizes[i], sizes[i], 10u + (unsigned)i);
}

static void check_unaligned(struct mn_check *check)
{
    static const size_t offsets[][2] = {{1, 0}, {0, 1}, {3, 5}, {7, 2}, {63, 33}};
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        const size_t size = i % 2 ? 4097 : 100003;
        struct mn_buf out, in;
        struct mn_req send, recv;
        mn_kit_buf(check, pair.send, size, offsets[i][0], &out);
        mn_kit_buf(check, pair.recv, size, offsets[i][1], &in);
        mn_kit_fill(&out, size, 20u + (unsigned)i);
        mn_kit_irecv(check, pair.recv, &in, size, 0, &recv);
        mn_kit_isend(check, pair.send, &out, size, 0, &send);
        mn_kit_wait2(check, &recv, &send);
        mn_kit_expect(check, &in, size, 20u + (unsigned)i, "unaligned addresses");
    }
}

static void check_guards(struct mn_check *check)
{
    static const size_t sizes[] = {0, 1, 3, 8, 1000, 4096, 65537};
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct mn_buf out, in;
        struct mn_req send, recv;
        mn_kit_buf(check, pair.send, sizes[i], 0, &out);
        mn_kit_buf(check, pair.recv, sizes[i], 0, &in);
        mn_kit_fill(&out, sizes[i], 1);
        mn_kit_irecv(check, pair.recv, &in, sizes[i], 0, &recv);
        mn_kit_isend(check, pair.send, &out, sizes[i], 0, &send);
        mn_kit_wait2(check, &recv, &send);
        mn_kit_untouched(check, &in, sizes[i], "around the receive buffer");
    }
}

static void check_true_size(struct mn_check *check)
{
    static const size_t sizes[] = {0, 1, 5000, 65536};
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        mn_kit_pass(check, &pair, sizes[i], 2 * sizes[i] + 4096, 30u + (unsigned)i);
}

static void check_too_long(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf out, in;
    struct mn_req send, recv;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, 8192, 0, &out);
    mn_kit_buf(check, pair.recv, 1000, 0, &in);
    mn_kit_fill(&out, 8192, 1);
    mn_kit_irecv(check, pair.recv, &in, 1000, 0, &recv);
    mn_check_step(check, "isend of 8192 bytes to a receive of 1000");
    for (;;) {
        send.request = NULL;
        send.result =
            mn_raw_isend(&check->raw, pair.send, out.data, 8192, 0, out.mhandle, &send.request);
        if (send.result || send.request)
            break;
        if (mn_check_expired(check))
            mn_check_fail(check, "isend kept returning a NULL request");
        mn_check_pause(check);
    }
    send.done = 0;
    mn_check_step(check, "test until an end reports the error");
    while (!recv.result && !send.result) {
        mn_kit_poll(check, &recv);
        if (send.request && !send.result)
            mn_kit_poll(check, &send);
        if (recv.done)
            mn_check_fail(check, "a receive of 1000 bytes completed with %d for a message of 8192",
                          recv.sizes[0]);
        if (mn_check_expired(check))
            mn_check_fail(check, "neither end reports an error, the receive stays open");
        mn_check_pause(check);
    }
    mn_kit_untouched(check, &in, in.size, "behind a receive that was too short");
    mn_check_note(check, "the %s got %s", recv.result ? "receiver" : "sender",
                  mn_nccl_result_name(recv.result ? recv.result : send.result));
}

/* The message before is still on its way when the empty one is sent. */
static void zero_behind(struct mn_check *check, struct mn_pair *pair)
{
    struct mn_buf out, in;
    struct mn_req sends[2], recvs[2], *all[] = {&sends[0], &recvs[0], &sends[1], &recvs[1]};

    mn_kit_buf(check, pair->send, 16 * MIB, 0, &out);
    mn_kit_buf(check, pair->recv, 16 * MIB, 0, &in);
    for (int i = 0; i < 2; i++)
        mn_kit_irecv(check, pair->recv, &in, in.size, 0, &recvs[i]);
    mn_kit_isend(check, pair->send, &out, out.size, 0, &sends[0]);
    mn_kit_isend(check, pair->send, &out, 0, 0, &sends[1]);
    mn_kit_wait(check, all, 4);
    if ((size_t)recvs[0].sizes[0] != out.size || recvs[1].sizes[0] != 0)
        mn_check_fail(check, "%d and %d bytes reported, sent were %zu and 0", recvs[0].sizes[0],
                      recvs[1].sizes[0], out.size);
}

static void check_zero(struct mn_check *check)
{
    static const size_t sizes[] = {100, 0, 0, 200, 0, 1};
    const size_t n = sizeof sizes / sizeof *sizes;
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    for (size_t i = 0; i < n; i++) {
        struct mn_buf out, in;
        struct mn_req send, recv;
        mn_kit_buf(check, pair.send, 256, 0, &out);
        mn_kit_buf(check, pair.recv, 256, 0, &in);
        mn_kit_fill(&out, sizes[i], 40u + (unsigned)i);
        if (!mn_kit_isend_early(check, &pair, &out, sizes[i], &in, &send, &recv))
            mn_kit_irecv(check, pair.recv, &in, 256, 0, &recv);
        mn_kit_wait2(check, &recv, &send);
        if ((size_t)recv.sizes[0] != sizes[i])
            mn_check_fail(check, "message %zu: %d bytes reported, sent were %zu", i, recv.sizes[0],
                          sizes[i]);
        mn_kit_expect(check, &in, sizes[i], 40u + (unsigned)i, "between empty messages");
    }
    zero_behind(check, &pair);
}

static void check_subrange(struct mn_check *check)
{
    const size_t total = 65536, part = 5000;
    struct mn_pair pair;
    struct mn_buf out, in;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, total, 0, &out);
    mn_kit_buf(check, pair.recv, total, 0, &in);
    for (size_t at = 1000; at + part < total; at += 20000) {
        struct mn_buf from = out, to = in;
        struct mn_req send, recv;
        from.data = out.data + at;
        to.data = in.data + at / 2;
        mn_kit_fill(&from, part, (unsigned)at);
        mn_kit_irecv(check, pair.recv, &to, part, 0, &recv);
        mn_kit_isend(check, pair.send, &from, part, 0, &send);
        mn_kit_wait2(check, &recv, &send);
        to.size = part;
        to.base = to.data; /* the guards of the whole buffer are not those of the part */
        to.room = part;
        mn_kit_expect(check, &to, part, (unsigned)at, "in the middle of a registration");
    }
}

static void check_order(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf out[ORDER_DEPTH], in[ORDER_DEPTH];

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    for (int i = 0; i < ORDER_DEPTH; i++) {
        mn_kit_buf(check, pair.send, 4096, 0, &out[i]);
        mn_kit_buf(check, pair.recv, 4096, 0, &in[i]);
    }
    for (unsigned round = 0; round < ORDER_ROUNDS; round++) {
        struct mn_req reqs[2 * ORDER_DEPTH], *all[2 * ORDER_DEPTH];
        for (int i = 0; i < ORDER_DEPTH; i++) {
            const unsigned seed = round * ORDER_DEPTH + (unsigned)i;
            mn_kit_fill(&out[i], 1000 + seed, seed);
            mn_kit_irecv(check, pair.recv, &in[i], 4096, 0, &reqs[i]);
            all[i] = &reqs[i];
        }
        for (int i = 0; i < ORDER_DEPTH; i++) {
            mn_kit_isend_polling(check, pair.send, &out[i],
                                 1000 + round * ORDER_DEPTH + (unsigned)i, &reqs[ORDER_DEPTH + i],
                                 reqs, ORDER_DEPTH);
            all[ORDER_DEPTH + i] = &reqs[ORDER_DEPTH + i];
        }
        mn_kit_wait(check, all, 2 * ORDER_DEPTH);
        for (int i = 0; i < ORDER_DEPTH; i++) {
            const unsigned seed = round * ORDER_DEPTH + (unsigned)i;
            if (reqs[i].sizes[0] != (int)(1000 + seed))
                mn_check_fail(check, "receive %u got %d bytes, message %u has %u", seed,
                              reqs[i].sizes[0], seed, 1000 + seed);
            mn_kit_expect(check, &in[i], 1000 + seed, seed, "messages in order");
            memset(in[i].data, 0x3c, in[i].size);
        }
    }
}

static void check_early_send(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf out, in;
    struct mn_req send, recv;
    int posted = 0;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, 300000, 0, &out);
    mn_kit_buf(check, pair.recv, 300000, 0, &in);
    mn_kit_fill(&out, 300000, 50);
    mn_check_step(check, "isend and its test long before the receive is posted");
    for (int i = 0; i < IDLE_TESTS; i++) {
        if (!posted)
            posted = mn_kit_try_isend(check, pair.send, &out, 300000, 0, &send);
        else
            mn_kit_test(check, &send);
    }
    mn_kit_irecv(check, pair.recv, &in, 300000, 0, &recv);
    if (!posted)
        mn_kit_isend(check, pair.send, &out, 300000, 0, &send);
    mn_kit_wait2(check, &recv, &send);
    mn_kit_expect(check, &in, 300000, 50, "sent before the receive was posted");
}

struct registrar {
    struct mn_check *check;
    void *comm;
    unsigned char *data;
    int result;
    atomic_int stop;
};

static void *register_loop(void *arg)
{
    struct registrar *r = arg;

    while (!atomic_load(&r->stop) && !r->result) {
        void *a = NULL, *b = NULL;
        r->result = mn_raw_reg(&r->check->raw, r->comm, r->data, 65536, &a);
        if (r->result)
            break;
        r->result = mn_raw_reg(&r->check->raw, r->comm, r->data + 4096, 8192, &b);
        if (!r->result)
            r->result = mn_raw_dereg(&r->check->raw, r->comm, b);
        if (!r->result)
            r->result = mn_raw_dereg(&r->check->raw, r->comm, a);
    }
    return NULL;
}

/* Registers and deregisters with requests certainly out: threads alone may miss them. */
static void register_between(struct mn_check *check, struct mn_pair *pair, unsigned char *area)
{
    struct mn_buf out, in;
    struct mn_req send, recv;

    mn_kit_buf(check, pair->send, 100000, 0, &out);
    mn_kit_buf(check, pair->recv, 100000, 0, &in);
    mn_kit_irecv(check, pair->recv, &in, 100000, 0, &recv);
    mn_kit_isend(check, pair->send, &out, 100000, 0, &send);
    for (int i = 0; i < 2; i++) {
        void *comm = i ? pair->recv : pair->send, *mh = NULL;
        int result = mn_raw_reg(&check->raw, comm, area, 65536, &mh);
        if (!result)
            result = mn_raw_dereg(&check->raw, comm, mh);
        if (result)
            mn_check_fail(check, "regMr or deregMr with a request out returned %s",
                          mn_nccl_result_name(result));
    }
    mn_kit_wait2(check, &recv, &send);
}

static void check_register(struct mn_check *check)
{
    static unsigned char area[2][65536];
    struct registrar sides[2];
    pthread_t threads[2];
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    register_between(check, &pair, area[0]);
    for (int i = 0; i < 2; i++) {
        sides[i] =
            (struct registrar){.check = check, .comm = i ? pair.recv : pair.send, .data = area[i]};
        if (pthread_create(&threads[i], NULL, register_loop, &sides[i]) != 0)
            mn_check_skip(check, "no second thread can be started");
    }
    for (unsigned i = 0; i < REG_ROUNDS; i++) {
        mn_kit_pass(check, &pair, 100000, 100000, i);
        sched_yield();
    }
    for (int i = 0; i < 2; i++) {
        atomic_store(&sides[i].stop, 1);
        pthread_join(threads[i], NULL);
        if (sides[i].result)
            mn_check_fail(check, "regMr or deregMr during a transfer returned %s",
                          mn_nccl_result_name(sides[i].result));
    }
}

static const struct mn_check_rule rules[] = {
    {"transfer.sizes", "messages of every size arrive whole",
     "0 bytes to many MiB; what is sent is what is received", check_sizes, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyProgress: sends whatever the GPU cut, from "
                 "0 bytes to the slot's size",
     .breaks = "The last bytes of a gradient are wrong and nothing reports it.",
     .flags = MN_CHECK_ENDS | MN_CHECK_FIRST},
    {"transfer.unaligned", "addresses need no alignment",
     "sends and receives start anywhere in a registration", check_unaligned, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyProgress: registered user buffers are sent "
                 "from where they are",
     .breaks = "Results are wrong for tensors that do not start on a round address.",
     .flags = MN_CHECK_ENDS},
    {"transfer.guards", "not a byte outside the receive buffer is written",
     "neighbouring steps of the same buffer are in flight", check_guards, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: the next slot of the same buffer "
                 "is in use",
     .breaks = "A neighbouring step is damaged and nothing reports it.", .flags = MN_CHECK_ENDS},
    {"transfer.true_size", "a larger receive reports the true length",
     "the receiver posts the capacity; test gives the bytes received as an int per buffer",
     check_true_size, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: posts the slot's size, and "
                 "flushes or not by the size that test gives",
     .breaks = "Receives with a size known only to the sender hand on garbage.",
     .flags = MN_CHECK_ENDS},
    {"transfer.too_long", "a message longer than the receive is an error, not an overrun",
     "a longer send is a protocol error; the Socket transport reports it", check_too_long,
     .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL 2.27 never sends more than was posted. Its own Socket reports "
                 "ncclInvalidUsage, its IB cuts the message and says nothing",
     .breaks = "A mistake of the program corrupts memory instead of stopping it.",
     .flags = MN_CHECK_ENDS},
    {"transfer.zero", "empty messages are messages",
     "zero bytes are matched, completed and reported as 0", check_zero, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyProgress: an empty step is sent, and its "
                 "request tested as any other",
     .breaks = "Collectives with an empty part hang.", .flags = MN_CHECK_ENDS},
    {"transfer.subrange", "any part of a registration may be used",
     "one mhandle serves every step inside the buffer", check_subrange, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyProgress: one mhandle for all eight slots "
                 "of a buffer",
     .breaks = "Every step of a collective moves the first one's data.", .flags = MN_CHECK_ENDS},
    {"transfer.order", "messages keep their order",
     "the n-th send meets the n-th receive of a connection", check_order, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: the n-th receive is taken for the "
                 "n-th step",
     .breaks = "Results are wrong and nothing reports it.", .flags = MN_CHECK_ENDS},
    {"transfer.early_send", "a send may come long before its receive",
     "rendezvous is normal: nothing orders isend and irecv", check_early_send,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, ncclProxyProgress: each rank posts at its own time, nothing "
                 "orders the two ends",
     .breaks = "Ranks that run ahead of others fail.", .flags = MN_CHECK_ENDS},
    {"transfer.register", "memory is registered while data moves",
     "regMr runs on the service thread beside isend and test on the same comm", check_register,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyRegBuffer: runs on the service thread while "
                 "the progress thread sends on the comm",
     .breaks = "Registering user buffers crashes or fails jobs that already run.",
     .flags = MN_CHECK_ENDS},
    {"transfer.done", "test writes done every time", "done is not initialised by the caller",
     mn_transfer_done, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyProgress: reads done after test, and never "
                 "set it before",
     .breaks = "Requests complete by what happens to lie on the stack.", .flags = MN_CHECK_ENDS},
    {"transfer.sizes_null", "test works without a place for sizes",
     "the bootstrap and flushes pass NULL", mn_transfer_sizes_null, .profile = "nccl-2.27",
     .evidence =
         "NCCL 2.27 transport/net.cc, recvProxyProgress: tests a flush with NULL for the sizes",
     .breaks = "The bootstrap, or a flush, crashes.", .flags = MN_CHECK_ENDS},
    {"transfer.reuse", "a completed send leaves its buffer alone",
     "the GPU overwrites the buffer as soon as done is 1", mn_transfer_reuse,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyProgress: tells the GPU that the slot is "
                 "free as soon as test says done",
     .breaks = "Results are wrong and nothing reports it.", .flags = MN_CHECK_ENDS},
    {"transfer.test_returns", "test returns at once",
     "the progress thread polls every request of a communicator in turn", mn_transfer_test_returns,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, progressOps: one thread tests the requests of all "
                 "connections in turn",
     .breaks = "One slow connection holds up all others of the GPU.", .flags = MN_CHECK_ENDS},
};

MN_CHECK_FAMILY(mn_check_transfer_family, "transfer", "transfer integrity", rules);
