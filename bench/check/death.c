/* The peer is another process, and it dies: an error within the limit, never a success. */
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "bench/check/death.h"
#include "bench/host.h"

#define SIZE       MN_DEATH_SIZE
#define LONG_SIZE  ((size_t)4 << 20)
#define IDLE_TESTS 400
#define QUIET_MS   300
#define DEATHS     5

enum { GO = 'g' };

void mn_death_hold(struct mn_check *check)
{
    while (!mn_check_expired(check))
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

void mn_death_say(struct mn_check *check, int fd)
{
    mn_peer_tell(check, fd, &(char){GO}, 1);
}

void mn_death_await(struct mn_check *check, int fd)
{
    char word;

    mn_peer_hear(check, fd, &word, 1);
}

void mn_death_receive_one(struct mn_check *check, struct mn_pair *pair, unsigned seed)
{
    struct mn_buf in;
    struct mn_req recv, *all = &recv;

    mn_kit_buf(check, pair->recv, SIZE, 0, &in);
    mn_kit_irecv(check, pair->recv, &in, SIZE, 0, &recv);
    mn_kit_wait(check, &all, 1);
    mn_kit_expect(check, &in, SIZE, seed, "a message from another process");
    mn_kit_free(check, &in);
}

void mn_death_send_one(struct mn_check *check, struct mn_pair *pair, unsigned seed)
{
    struct mn_buf out;
    struct mn_req send, *all = &send;

    mn_kit_buf(check, pair->send, SIZE, 0, &out);
    mn_kit_fill(&out, SIZE, seed);
    mn_kit_isend(check, pair->send, &out, SIZE, 0, &send);
    mn_kit_wait(check, &all, 1);
    mn_kit_free(check, &out);
}

/* Sends one message and then nothing. */
static void silent_sender(struct mn_check *check, int fd)
{
    struct mn_pair pair;

    mn_check_init(check);
    mn_peer_connect(check, fd, &pair);
    mn_death_send_one(check, &pair, 1);
    mn_death_say(check, fd);
    mn_death_hold(check);
}

static void silent_receiver(struct mn_check *check, int fd)
{
    struct mn_pair pair;

    mn_check_init(check);
    mn_peer_accept(check, fd, &pair);
    mn_death_receive_one(check, &pair, 1);
    mn_death_say(check, fd);
    mn_death_hold(check);
}

static void await_error(struct mn_check *check, struct mn_req *req, const char *what)
{
    mn_check_step(check, "%s: test until it reports an error", what);
    while (!req->result) {
        if (mn_kit_poll(check, req))
            mn_check_fail(check, "%s: the request completed without an error", what);
        if (mn_check_expired(check))
            mn_check_fail(check, "%s: no error within the limit, the request stays open", what);
        mn_check_pause(check);
    }
    mn_check_note(check, "%s: %s", what, mn_nccl_result_name(req->result));
}

static void begin_receiving(struct mn_check *check, struct mn_peer *peer, struct mn_pair *pair,
                            struct mn_buf *in, struct mn_req *recv)
{
    mn_peer_start(check, silent_sender, peer);
    mn_check_init(check);
    mn_peer_accept(check, peer->fd, pair);
    mn_death_receive_one(check, pair, 1);
    mn_death_await(check, peer->fd);
    mn_kit_buf(check, pair->recv, SIZE, 0, in);
    mn_kit_irecv(check, pair->recv, in, SIZE, 0, recv);
}

static void check_sender_killed(struct mn_check *check)
{
    struct mn_peer peer;
    struct mn_pair pair;
    struct mn_buf in;
    struct mn_req recv;

    begin_receiving(check, &peer, &pair, &in, &recv);
    for (int i = 0; i < IDLE_TESTS; i++)
        mn_kit_test(check, &recv);
    mn_peer_kill(check, &peer);
    await_error(check, &recv, "the sender's process was killed, a receive is pending");
    mn_check_step(check, "closeRecv after the peer's death");
    mn_check_ok(check, "closeRecv", mn_raw_close_recv(&check->raw, pair.recv));
}

/* Sends until an error comes, whatever the plugin takes ahead of the receiver. */
static void send_until_error(struct mn_check *check, struct mn_pair *pair, const char *what)
{
    struct mn_buf out;
    struct mn_req send = {.done = 1};
    int result = 0;

    mn_kit_buf(check, pair->send, SIZE, 0, &out);
    mn_check_step(check, "%s: isend and test until an error is reported", what);
    while (!result) {
        if (send.done) {
            send = (struct mn_req){.request = NULL};
            result = mn_raw_isend(&check->raw, pair->send, out.data, SIZE, 0, out.mhandle,
                                  &send.request);
            send.done = !result && !send.request;
        } else {
            mn_kit_poll(check, &send);
            result = send.result;
        }
        if (mn_check_expired(check))
            mn_check_fail(check, "%s: the sender saw no error within the limit", what);
        mn_check_pause(check);
    }
    mn_check_note(check, "%s: %s", what, mn_nccl_result_name(result));
}

static void check_receiver_killed(struct mn_check *check)
{
    struct mn_peer peer;
    struct mn_pair pair;

    mn_peer_start(check, silent_receiver, &peer);
    mn_check_init(check);
    mn_peer_connect(check, peer.fd, &pair);
    mn_death_send_one(check, &pair, 1);
    mn_death_await(check, peer.fd);
    mn_peer_kill(check, &peer);
    send_until_error(check, &pair, "the receiver's process was killed");
    mn_check_step(check, "closeSend after the peer's death");
    mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, pair.send));
}

static void check_sender_stopped(struct mn_check *check)
{
    struct mn_peer peer;
    struct mn_pair pair;
    struct mn_buf in;
    struct mn_req recv;
    uint64_t until;

    begin_receiving(check, &peer, &pair, &in, &recv);
    mn_peer_signal(check, &peer, SIGSTOP);
    until = mn_check_now_ns() + QUIET_MS * 1000000u;
    mn_check_step(check, "test of a receive whose sender's process is stopped");
    for (unsigned i = 0; i < 5000 || mn_check_now_ns() < until; i++) {
        if (recv.result || mn_check_expired(check))
            break;
        if (mn_kit_poll(check, &recv))
            mn_check_fail(check, "a receive completed although its sender is stopped");
        sched_yield();
    }
    mn_kit_untouched(check, &in, 0, "the sender is stopped");
    mn_peer_kill(check, &peer);
    await_error(check, &recv, "the sender's process was stopped, then killed");
    mn_check_step(check, "closeRecv after the peer's death");
    mn_check_ok(check, "closeRecv", mn_raw_close_recv(&check->raw, pair.recv));
}

static void check_receiver_stopped(struct mn_check *check)
{
    struct mn_peer peer;
    struct mn_pair pair;
    struct mn_buf out;
    struct mn_req send = {.request = NULL};

    mn_peer_start(check, silent_receiver, &peer);
    mn_check_init(check);
    mn_peer_connect(check, peer.fd, &pair);
    mn_death_send_one(check, &pair, 1);
    mn_death_await(check, peer.fd);
    mn_peer_signal(check, &peer, SIGSTOP);
    mn_kit_buf(check, pair.send, SIZE, 0, &out);
    mn_check_step(check, "isend and test, the receiver's process is stopped");
    for (int i = 0; i < IDLE_TESTS && !send.result; i++) {
        if (send.done || !send.request)
            mn_kit_try_isend(check, pair.send, &out, SIZE, 0, &send);
        if (send.request)
            mn_kit_poll(check, &send);
    }
    mn_peer_kill(check, &peer);
    send_until_error(check, &pair, "the receiver's process was stopped, then killed");
    mn_check_step(check, "closeSend after the peer's death");
    mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, pair.send));
}

/* A stream of long messages that only death ends. */
static void streaming_sender(struct mn_check *check, int fd)
{
    struct mn_pair pair;
    struct mn_buf out[2];
    struct mn_req sends[2] = {{.request = NULL}, {.request = NULL}};

    mn_check_init(check);
    mn_peer_connect(check, fd, &pair);
    for (int i = 0; i < 2; i++) {
        mn_kit_buf(check, pair.send, LONG_SIZE, 0, &out[i]);
        mn_kit_fill(&out[i], LONG_SIZE, (unsigned)i);
    }
    for (unsigned n = 0; !mn_check_expired(check); n++) {
        struct mn_req *send = &sends[n % 2];
        while (send->request && !mn_kit_test(check, send) && !mn_check_expired(check))
            mn_check_pause(check);
        while (!mn_kit_try_isend(check, pair.send, &out[n % 2], LONG_SIZE, 0, send) &&
               !mn_check_expired(check))
            mn_check_pause(check);
    }
}

/* One long receive; 0 = the sender's death ended it. Kills the sender in its middle on request. */
static int receive_long(struct mn_check *check, struct mn_pair *pair, struct mn_buf *in,
                        struct mn_peer *killed, int dead, unsigned seed)
{
    struct mn_req recv = {.request = NULL};
    void *data = in->data, *mhandle = in->mhandle;
    const size_t size = LONG_SIZE;
    int tag = 0, result = 0;

    while (!result && !recv.request) {
        result =
            mn_raw_irecv(&check->raw, pair->recv, 1, &data, &size, &tag, &mhandle, &recv.request);
        if (result && !dead)
            mn_check_ok(check, "irecv", result);
        if (!result && !recv.request && mn_check_expired(check))
            mn_check_fail(check, "irecv kept returning a NULL request");
    }
    for (uint64_t i = killed ? mn_check_below(check, 60) : 0; i > 0 && !recv.done; i--)
        mn_kit_poll(check, &recv);
    if (killed)
        mn_peer_kill(check, killed);
    mn_check_step(check, "test of a long receive, the sender killed %s",
                  dead || killed ? "before" : "later");
    while (!result && !recv.done) {
        mn_kit_poll(check, &recv);
        result = recv.result;
        if (result && !dead && !killed)
            mn_check_ok(check, "test", result);
        if (mn_check_expired(check))
            mn_check_fail(check, dead || killed ? "the sender was killed amid a message: no error "
                                                  "within the limit"
                                                : "a long message never arrived");
        mn_check_pause(check);
    }
    if (result)
        return 0;
    if (recv.sizes[0] != (int)LONG_SIZE)
        mn_check_fail(check, "the sender was killed amid a message: done with %d of %zu bytes",
                      recv.sizes[0], LONG_SIZE);
    mn_kit_expect(check, in, LONG_SIZE, seed, "the sender was killed amid a message");
    return 1;
}

/* Several deaths, each at another moment of the stream; all processes are there before the plugin
 * is loaded. */
static void check_mid_message(struct mn_check *check)
{
    struct mn_peer peers[DEATHS];

    for (int i = 0; i < DEATHS; i++)
        mn_peer_start(check, streaming_sender, &peers[i]);
    mn_check_init(check);
    for (int i = 0; i < DEATHS; i++) {
        const unsigned whole = (unsigned)mn_check_below(check, 4);
        struct mn_pair pair;
        struct mn_buf in;
        mn_peer_accept(check, peers[i].fd, &pair);
        mn_kit_buf(check, pair.recv, LONG_SIZE, 0, &in);
        for (unsigned n = 0; n < whole; n++)
            receive_long(check, &pair, &in, NULL, 0, n % 2);
        for (unsigned n = whole;; n++)
            if (!receive_long(check, &pair, &in, n == whole ? &peers[i] : NULL, n > whole, n % 2))
                break;
        mn_check_ok(check, "deregMr", mn_raw_dereg(&check->raw, pair.recv, in.mhandle));
        mn_check_ok(check, "closeRecv", mn_raw_close_recv(&check->raw, pair.recv));
    }
}

static void check_survivor(struct mn_check *check)
{
    struct mn_pair pair, other, after;
    struct mn_peer peer;
    struct mn_buf in;
    struct mn_req recv;

    begin_receiving(check, &peer, &pair, &in, &recv);
    mn_kit_connect(check, &other); /* there before, unconcerned */
    mn_kit_pass(check, &other, 5000, 5000, 2);
    mn_peer_kill(check, &peer);
    await_error(check, &recv, "the sender's process was killed");
    mn_check_step(check, "another connection after the peer's death");
    mn_kit_pass(check, &other, 5000, 5000, 3);
    mn_check_ok(check, "deregMr", mn_raw_dereg(&check->raw, pair.recv, in.mhandle));
    mn_check_ok(check, "closeRecv", mn_raw_close_recv(&check->raw, pair.recv));
    mn_kit_connect(check, &after);
    mn_kit_pass(check, &after, 5000, 5000, 4);
    mn_kit_close(check, &other);
    mn_kit_close(check, &after);
}

static const struct mn_check_rule rules[] = {
    {"death.sender_killed", "a receiver whose sender's process was killed gets an error",
     "test reports an error, best ncclRemoteError; never done, and not silence for ever",
     check_sender_killed, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, ncclProxyProgress: only an error of test ends a step that "
                 "never comes; else the job hangs",
     .breaks = "A job of which one process died hangs until somebody looks.",
     .flags = MN_CHECK_PEER},
    {"death.receiver_killed", "a sender whose receiver's process was killed gets an error",
     "isend or test reports an error, best ncclRemoteError, sooner or later", check_receiver_killed,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, ncclProxyProgress: only an error of isend or test ends a "
                 "step that never comes; else the job hangs",
     .breaks = "A job of which one process died hangs until somebody looks.",
     .flags = MN_CHECK_PEER},
    {"death.sender_stopped", "a stopped sender is no message, and its death an error",
     "while nothing was sent a receive is neither done nor written to", check_sender_stopped,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: hands on what test says is done, "
                 "and waits for the rest as long as it takes",
     .breaks = "A rank in a debugger, or swapped out, corrupts the job.", .flags = MN_CHECK_PEER},
    {"death.receiver_stopped", "a stopped receiver is waited for, and its death an error",
     "requests stay open or complete into buffers of the transport; after the death an error comes",
     check_receiver_stopped, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyProgress: waits for a slow peer as long as "
                 "it takes; only an error ends the step",
     .breaks = "A job of which one process died hangs until somebody looks.",
     .flags = MN_CHECK_PEER},
    {"death.mid_message", "a message cut off by the sender's death is not done",
     "a receive completes with the whole message or ends in an error", check_mid_message,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, recvProxyProgress: hands on the whole slot when test "
                 "says done",
     .breaks = "A checkpoint or a last sum is written from half a buffer.",
     .flags = MN_CHECK_RANDOM | MN_CHECK_PEER},
    {"death.survivor", "who outlives a peer can close, and go on with others",
     "communicators are independent; a job shrinks to the ranks that are left", check_survivor,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 init.cc, ncclCommShrink: closes connections to the dead and goes on "
                 "with the others",
     .breaks = "Elastic jobs restart whole instead of going on.", .flags = MN_CHECK_PEER},
    {"death.sender_vanished", "a receiver whose sender's machine vanished gets an error",
     "no packet comes any more, no end of a connection either: test reports an error in the end",
     mn_death_sender_vanished, .grade = MN_CHECK_SHOULD,
     .evidence = "ncclNet API (test): a job hangs until somebody looks. NCCL's own Socket waits "
                 "for a silent peer for ever",
     .breaks = "A job that lost a machine hangs until somebody looks.",
     .flags = MN_CHECK_PEER | MN_CHECK_PATIENT},
    {"death.receiver_vanished", "a sender whose receiver's machine vanished gets an error",
     "nothing is acknowledged any more: isend or test reports an error in the end",
     mn_death_receiver_vanished, .grade = MN_CHECK_SHOULD,
     .evidence = "ncclNet API (isend, test): a job hangs until somebody looks. NCCL's own Socket "
                 "waits as long as the kernel does",
     .breaks = "A job that lost a machine hangs until somebody looks.",
     .flags = MN_CHECK_PEER | MN_CHECK_PATIENT},
};

MN_CHECK_FAMILY(mn_check_death_family, "death", "death of the peer's process", rules);
