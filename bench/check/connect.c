/* listen, connect, accept and the 128-byte handle. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/check/kit.h"
#include "bench/check/remote.h"
#include "bench/host.h"

#define IDLE_CALLS   200  /* of accept or connect with nobody at the other end */
#define EARLY_CALLS  5000 /* of accept, long before a peer is there */
#define MANY         48
#define HANDLE_GUARD 64

/* A call that sleeps gives up the CPU every time; one that only meets a lock now and then does not.
 */
static void judge_sleeps(struct mn_check *check, const char *call, int calls, long sleeps)
{
    if (sleeps >= calls * 3 / 4)
        mn_check_fail(check, "%s slept in %ld of %d calls: it must return at once", call, sleeps,
                      calls);
}

static void check_handle(struct mn_check *check)
{
    unsigned char area[HANDLE_GUARD + MN_KIT_HANDLE + HANDLE_GUARD];
    void *listen = NULL;
    size_t size;

    mn_check_init(check);
    size = check->raw.version->handle_size;
    for (int shift = 0; shift < 8; shift++) {
        unsigned char *handle = area + HANDLE_GUARD + shift - 7;
        memset(area, 0xa5, sizeof area);
        listen = NULL;
        mn_check_step(check, "listen with a handle at address %% 8 = %d",
                      (int)((uintptr_t)handle % 8));
        mn_check_ok(check, "listen", mn_raw_listen(&check->raw, 0, handle, &listen));
        for (unsigned char *p = area; p < area + sizeof area; p++)
            if (*p != 0xa5 && (p < handle || p >= handle + size))
                mn_check_fail(check, "listen wrote byte %td of the handle, it has bytes 0 to %zu",
                              p - handle, size - 1);
        mn_check_ok(check, "closeListen", mn_raw_close_listen(&check->raw, listen));
    }
}

static void check_handle_stale(struct mn_check *check)
{
    struct mn_pair pair = {.dev = 0};

    mn_check_init(check);
    for (int poison = 0; poison < 256; poison += 85) {
        pair = (struct mn_pair){.dev = 0};
        memset(pair.handle, poison, sizeof pair.handle);
        mn_check_step(check, "listen into a handle full of 0x%02x", (unsigned)poison);
        mn_check_ok(check, "listen", mn_raw_listen(&check->raw, 0, pair.handle, &pair.listen));
        mn_kit_finish(check, &pair);
        mn_kit_pass(check, &pair, 100, 100, 1);
    }
}

static void check_handle_copy(struct mn_check *check)
{
    unsigned char *first = malloc(MN_KIT_HANDLE);
    struct mn_pair pair = {.dev = 0};

    if (!first)
        mn_check_skip(check, "no memory");
    mn_check_init(check);
    mn_check_step(check, "listen, copy of the handle, connect with the copy");
    mn_check_ok(check, "listen", mn_raw_listen(&check->raw, 0, first, &pair.listen));
    memcpy(pair.handle, first, sizeof pair.handle);
    memset(first, 0, MN_KIT_HANDLE);
    mn_kit_finish(check, &pair);
    mn_kit_pass(check, &pair, 100, 100, 2);
}

static void check_accept_returns(struct mn_check *check)
{
    struct mn_pair pair;
    long sleeps;

    mn_check_init(check);
    mn_kit_listen(check, 0, &pair);
    mn_check_step(check, "accept with no peer");
    sleeps = mn_check_sleeps();
    for (int i = 0; i < IDLE_CALLS; i++)
        mn_kit_try_accept(check, &pair);
    judge_sleeps(check, "accept with no peer", IDLE_CALLS, mn_check_sleeps() - sleeps);
}

static void check_accept_null(struct mn_check *check)
{
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_listen(check, 0, &pair);
    mn_check_step(check, "accept with no peer");
    for (int i = 0; i < IDLE_CALLS; i++) {
        mn_kit_try_accept(check, &pair);
        if (pair.recv)
            mn_check_fail(check, "accept call %d returned a comm although nobody connected", i + 1);
    }
}

/* Of the thread that connects. */
static long sleeps_of_connect(struct mn_check *check)
{
    return check->raw.remote ? mn_remote_count(check->raw.remote, MN_REMOTE_SLEEPS)
                             : mn_check_sleeps();
}

static void check_connect_returns(struct mn_check *check)
{
    struct mn_pair pair;
    long sleeps;
    int calls = 0;

    mn_check_init(check);
    mn_kit_listen(check, 0, &pair);
    mn_check_step(check, "connect while accept is not called");
    sleeps = sleeps_of_connect(check);
    while (calls < IDLE_CALLS && !pair.send) {
        mn_kit_try_connect(check, &pair);
        calls++;
    }
    sleeps = sleeps_of_connect(check) - sleeps;
    if (calls >= 4)
        judge_sleeps(check, "connect without accept", calls, sleeps);
    mn_kit_finish(check, &pair);
}

static void check_connect_first(struct mn_check *check)
{
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_listen(check, 0, &pair);
    mn_check_step(check, "%d calls of connect before the first accept", IDLE_CALLS);
    for (int i = 0; i < IDLE_CALLS; i++)
        mn_kit_try_connect(check, &pair);
    mn_kit_finish(check, &pair);
    mn_kit_pass(check, &pair, 1000, 1000, 3);
}

static void check_accept_first(struct mn_check *check)
{
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_listen(check, 0, &pair);
    mn_check_step(check, "%d calls of accept before the first connect", EARLY_CALLS);
    for (int i = 0; i < EARLY_CALLS; i++)
        mn_kit_try_accept(check, &pair);
    mn_kit_finish(check, &pair);
    mn_kit_pass(check, &pair, 1000, 1000, 4);
}

static void check_self(struct mn_check *check)
{
    struct mn_pair pair;

    mn_check_init(check);
    for (int dev = 0; dev < check->n_dev; dev++) {
        mn_kit_listen(check, dev, &pair);
        mn_kit_finish(check, &pair);
        mn_kit_pass(check, &pair, 5000, 5000, 5);
    }
}

static void check_many(struct mn_check *check)
{
    static struct mn_pair pairs[MANY];
    int left = MANY;

    mn_check_init(check);
    for (int i = 0; i < MANY; i++)
        mn_kit_listen(check, 0, &pairs[i]);
    mn_check_step(check, "%d connects interleaved, then accepts in reverse", MANY);
    for (int i = 0; i < MANY; i++)
        mn_kit_try_connect(check, &pairs[i]);
    while (left) {
        left = 0;
        for (int i = MANY - 1; i >= 0; i--) {
            mn_kit_try_accept(check, &pairs[i]);
            mn_kit_try_connect(check, &pairs[i]);
            left += !pairs[i].send || !pairs[i].recv;
        }
        if (left && mn_check_expired(check))
            mn_check_fail(check, "%d of %d connections did not come up", left, MANY);
        mn_check_pause(check);
    }
    for (int i = 0; i < MANY; i++)
        mn_kit_pass(check, &pairs[i], 64, 64, 100u + (unsigned)i);
}

static void check_listen_close(struct mn_check *check)
{
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_listen(check, 0, &pair);
    mn_check_step(check, "accept until ready, then closeListen at once");
    while (!pair.recv) {
        mn_kit_try_connect(check, &pair);
        mn_kit_try_accept(check, &pair);
        if (mn_check_expired(check))
            mn_check_fail(check, "accept never returned a comm");
        mn_check_pause(check);
    }
    mn_check_ok(check, "closeListen", mn_raw_close_listen(&check->raw, pair.listen));
    while (!pair.send) {
        mn_kit_try_connect(check, &pair);
        if (mn_check_expired(check))
            mn_check_fail(check, "connect never became ready after closeListen");
        mn_check_pause(check);
    }
    mn_kit_pass(check, &pair, 70000, 80000, 6);
}

static void check_unused(struct mn_check *check)
{
    mn_check_init(check);
    for (int i = 0; i < 16; i++) {
        struct mn_pair pair;
        mn_kit_listen(check, 0, &pair);
        if (i % 2 && check->raw.version->version >= 5) /* before, accept waits */
            mn_kit_try_accept(check, &pair);
        mn_check_step(check, "closeListen of an unused listen comm");
        mn_check_ok(check, "closeListen", mn_raw_close_listen(&check->raw, pair.listen));
    }
}

static void check_device_handle(struct mn_check *check)
{
    /* RCCL passes the address of a 4-byte object here: neither read nor written. */
    uint64_t area[3] = {0xa5a5a5a5a5a5a5a5u, 0xa5a5a5a5a5a5a5a5u, 0xa5a5a5a5a5a5a5a5u};
    void **slot = (void **)(void *)&area[1];
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_listen(check, 0, &pair);
    mn_check_step(check, "connect and accept with a device handle argument that is not theirs");
    while (!pair.send || !pair.recv) {
        if (!pair.send)
            mn_check_ok(check, "connect",
                        mn_raw_connect(&check->raw, 0, pair.handle, &pair.send, slot));
        if (!pair.recv)
            mn_check_ok(check, "accept", mn_raw_accept(&check->raw, pair.listen, &pair.recv, slot));
        for (int i = 0; i < 3; i++)
            if (area[i] != 0xa5a5a5a5a5a5a5a5u)
                mn_check_fail(check, "the device handle argument was written through");
        if (mn_check_expired(check))
            mn_check_fail(check, "not connected");
        mn_check_pause(check);
    }
    mn_kit_listen(check, 0, &pair);
    mn_check_step(check, "connect and accept with a NULL device handle argument");
    while (!pair.send || !pair.recv) {
        if (!pair.send)
            mn_check_ok(check, "connect",
                        mn_raw_connect(&check->raw, 0, pair.handle, &pair.send, NULL));
        if (!pair.recv)
            mn_check_ok(check, "accept", mn_raw_accept(&check->raw, pair.listen, &pair.recv, NULL));
        if (mn_check_expired(check))
            mn_check_fail(check, "not connected");
        mn_check_pause(check);
    }
}

static void check_bad_handle(struct mn_check *check)
{
    uint32_t random = 2463534242u;
    struct mn_pair good;

    mn_check_init(check);
    mn_kit_listen(check, 0, &good);
    for (int round = 0; round < 32; round++) {
        unsigned char handle[MN_KIT_HANDLE];
        void *comm = NULL;
        int result = 0;
        for (size_t i = 0; i < sizeof handle; i++) {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            handle[i] = round == 0 ? 0 : round == 1 ? 0xff : (unsigned char)random;
        }
        if (round >= 16) /* a real one, damaged */
            memcpy(handle + 8, good.handle + 8, sizeof handle - 8);
        mn_check_step(check, "connect with a damaged handle, form %d", round);
        for (int i = 0; i < 20 && !result && !comm; i++)
            result = mn_raw_connect(&check->raw, 0, handle, &comm, NULL);
        if (!result && comm)
            mn_check_fail(check, "connect with a damaged handle (form %d) returned a comm", round);
    }
    mn_kit_finish(check, &good);
    mn_kit_pass(check, &good, 100, 100, 7);
}

/* Before v5 one call each is all NCCL makes, and all connects come before the first accept. */
static void check_blocking(struct mn_check *check)
{
    enum { N = 4 };
    struct mn_pair pairs[N];

    mn_check_init(check);
    for (int i = 0; i < N; i++) {
        mn_kit_listen(check, 0, &pairs[i]);
        mn_check_step(check, "connect %d of %d, none accepted", i + 1, N);
        mn_kit_try_connect(check, &pairs[i]);
        if (!pairs[i].send)
            mn_check_fail(check, "connect returned success and no comm; before v5 it must wait");
    }
    for (int i = N - 1; i >= 0; i--) {
        mn_check_step(check, "accept of connection %d", i + 1);
        mn_kit_try_accept(check, &pairs[i]);
        if (!pairs[i].recv)
            mn_check_fail(check, "accept returned success and no comm; before v5 it must wait");
        mn_kit_pass(check, &pairs[i], 3000, 3000, (unsigned)i);
    }
}

struct acceptor {
    struct mn_check *check;
    struct mn_pair *pair;
};

static void *accept_alone(void *arg)
{
    struct acceptor *a = arg;

    mn_kit_try_accept(a->check, a->pair);
    return NULL;
}

/* accept is called long before anyone connects. */
static void check_accept_waits(struct mn_check *check)
{
    struct mn_pair receiver, sender;
    struct acceptor acceptor = {check, &receiver};
    pthread_t thread;

    mn_check_init(check);
    mn_kit_listen(check, 0, &receiver);
    sender = receiver;
    mn_check_step(check, "accept on a thread, connect a moment later");
    if (pthread_create(&thread, NULL, accept_alone, &acceptor) != 0)
        mn_check_skip(check, "no second thread can be started");
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    mn_kit_try_connect(check, &sender);
    pthread_join(thread, NULL);
    if (!receiver.recv)
        mn_check_fail(check, "accept returned success and no comm; before v5 it must wait");
    receiver.send = sender.send;
    mn_kit_pass(check, &receiver, 3000, 3000, 1);
}

static void check_config_null(struct mn_check *check)
{
    struct mn_pair pair;

    mn_check_init(check);
    mn_kit_listen(check, 0, &pair);
    mn_check_step(check, "connect without a configuration");
    while (!pair.send || !pair.recv) {
        if (!pair.send)
            mn_check_ok(check, "connect",
                        (int)check->raw.slots.connect_v10(0, NULL, pair.handle, &pair.send, NULL));
        mn_kit_try_accept(check, &pair);
        if (mn_check_expired(check))
            mn_check_fail(check, "not connected");
        mn_check_pause(check);
    }
    mn_kit_pass(check, &pair, 3000, 3000, 1);
}

static const struct mn_check_rule rules[] = {
    {"connect.self", "connecting to oneself on one thread works",
     "the GPU-direct probe calls connect and accept in turn on one thread", check_self,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 plugin/net.cc, ncclGpuGdrSupport: connect and accept in turn on one "
                 "thread until both are there",
     .breaks = "The probe for GPU-direct hangs while the communicator starts.",
     .flags = MN_CHECK_FIRST, .here = "both ends are called on one thread"},
    {"connect.handle", "listen keeps to the bytes of the handle, wherever they lie",
     "the handle is 128 bytes inside a message, 64 before v5, with no alignment", check_handle,
     .profile = "nccl-2.27",
     .evidence =
         "NCCL 2.27 transport/net.cc, recvSetup: the handle lies inside the message to the peer",
     .breaks = "The handles of other ranks are overwritten.", .here = "it has one end only"},
    {"connect.handle_stale", "old content of the handle buffer is ignored",
     "the buffer given to listen is not zeroed", check_handle_stale, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxySetup: listen writes into a response buffer "
                 "that nobody cleared",
     .breaks = "Connections fail now and then, by what the buffer held before.",
     .flags = MN_CHECK_ENDS},
    {"connect.handle_copy", "a handle works from a copy",
     "NCCL sends the handle to the peer as plain bytes", check_handle_copy, .profile = "nccl-2.27",
     .evidence =
         "NCCL 2.27 transport.cc, ncclTransportP2pSetup: handles cross the bootstrap as bytes",
     .breaks = "No two ranks can connect.", .flags = MN_CHECK_ENDS},
    {"connect.accept_returns", "accept with no peer returns at once",
     "since v5 accept must not block; NULL means call again", check_accept_returns,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, proxyProgressAsync: one thread tries all connections of a "
                 "communicator in turn",
     .breaks = "Setting up many connections takes minutes, or hangs.", .since = 5,
     .here = "it has one end only"},
    {"connect.accept_null", "accept gives no comm before a peer is there",
     "a non-NULL comm is used at once", check_accept_null, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyConnect: takes a comm that is not NULL for "
                 "a connection and registers on it",
     .breaks = "A rank sends to nobody.", .since = 5, .here = "it has one end only"},
    {"connect.connect_returns", "connect without accept returns at once",
     "since v5 connect must not block; NULL means call again", check_connect_returns,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, proxyProgressAsync: one thread tries all connections of a "
                 "communicator in turn",
     .breaks = "Two ranks that connect to each other wait for each other for ever.", .since = 5,
     .flags = MN_CHECK_ENDS},
    {"connect.connect_first", "connect may be called long before accept",
     "both sides poll on their own; nothing orders them", check_connect_first,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, proxyProgressAsync: each rank calls at its own time, nothing "
                 "orders the two ends",
     .breaks = "Ranks that start at different times cannot connect.", .flags = MN_CHECK_ENDS},
    {"connect.accept_first", "accept may be called long before connect",
     "both sides poll on their own; nothing orders them", check_accept_first,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, proxyProgressAsync: each rank calls at its own time, nothing "
                 "orders the two ends",
     .breaks = "Ranks that start at different times cannot connect.", .since = 5,
     .flags = MN_CHECK_ENDS},
    {"connect.many", "many half-open connections at once find their own peers",
     "dozens of connects are interleaved on one thread, one connect for each listen", check_many,
     .profile = "nccl-2.27",
     .evidence =
         "NCCL 2.27 transport.cc, ncclTransportP2pSetup: all channels of a peer connect at once",
     .breaks = "Data of one channel arrives in another.", .flags = MN_CHECK_ENDS},
    {"connect.listen_close", "the connection outlives its listen comm",
     "closeListen follows right after accept succeeded", check_listen_close, .profile = "nccl-2.27",
     .evidence =
         "NCCL 2.27 transport/net.cc, recvProxyConnect: closeListen right after accept gave a comm",
     .breaks = "Connections break right after they were made.", .flags = MN_CHECK_ENDS},
    {"connect.unused_listen", "a listen comm nobody connected to can be closed",
     "with shared connections some listen comms are never used", check_unused,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyConnect: with a shared comm that is there "
                 "already, closes the listen comm unused",
     .breaks = "Jobs with shared connections crash or leak while they start.",
     .here = "it has one end only"},
    {"connect.device_handle", "the device handle argument is left alone",
     "it may be NULL, and RCCL passes the address of a 4-byte object", check_device_handle,
     .profile = "rccl-7",
     .evidence = "RCCL of ROCm 7 transport/net.cc, sendProxyConnect: passes the address of a "
                 "4-byte object on its stack",
     .breaks = "The stack of RCCL is corrupted.", .since = 7, .flags = MN_CHECK_ENDS},
    {"connect.bad_handle", "a damaged handle gives an error or nothing, never a crash",
     "a handle crosses the network; connect may report an error or stay at NULL", check_bad_handle,
     .grade = MN_CHECK_SHOULD,
     .evidence = "ncclNet API (connect): NCCL passes what listen wrote, and its own Socket may "
                 "give a comm for a damaged handle; a job of two builds meets one",
     .breaks = "A node with another version, or a broken message, takes the others down.",
     .since = 5, .flags = MN_CHECK_ENDS},
    {"connect.blocking", "connect completes before accept is called, and both give a comm",
     "before v5 each is called once and may wait; every sender connects before any peer accepts",
     check_blocking, .profile = "nccl-2.8",
     .evidence = "NCCL 2.11 transport/net.cc, netSendConnect: connects once, before any rank calls "
                 "netRecvConnect",
     .breaks = "Every rank waits in connect for ever.", .until = 4, .flags = MN_CHECK_ENDS},
    {"connect.accept_waits", "accept waits for its peer",
     "before v5 accept is called once, and gives a comm when it returns", check_accept_waits,
     .profile = "nccl-2.8",
     .evidence =
         "NCCL 2.11 transport/net.cc, netRecvConnect: accepts once, and registers on what it gave",
     .breaks = "The receiver uses a comm that is not there.", .until = 4, .flags = MN_CHECK_ENDS},
    {"connect.config_null", "connect works without a configuration",
     "config is NULL in the GPU-direct probe and in the bootstrap", check_config_null,
     .profile = "nccl-2.26",
     .evidence = "NCCL 2.26 bootstrap.cc, netRingConnect: connects with NULL for the "
                 "configuration; so does ncclGpuGdrSupport",
     .breaks = "The job crashes before it has a topology.", .since = 10, .until = 10,
     .here = "it calls connect in its own way"},
};

MN_CHECK_FAMILY_TWICE(mn_check_connect_family, "connect", "listen, connect and accept", rules);
