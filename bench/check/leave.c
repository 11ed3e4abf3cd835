/* Ends that go at odd moments: before the other has read, before it accepted, before it is there,
 * and one communicator beside another. */
#include <sched.h>
#include <time.h>

#include "bench/check/kit.h"
#include "bench/host.h"

#define CYCLES     40
#define WARM_UP    8
#define CALLS      200
#define IDLE_TESTS 400
#define PIECE      65536
#define PIECES     64

static int is_sent(struct mn_check *check, struct mn_req *send)
{
    for (int i = 0; i < IDLE_TESTS && !mn_kit_test(check, send); i++)
        sched_yield();
    return send->done;
}

/* As many messages as can be done with nobody reading: those arrive, however many they are. */
static void check_backlog(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf out, in;
    struct mn_req send;
    int complete = 0;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, PIECE, 0, &out);
    mn_kit_buf(check, pair.recv, PIECE, 0, &in);
    mn_kit_fill(&out, PIECE, 3);
    mn_check_step(check, "isend of %d bytes, until one is not done without a receive", PIECE);
    while (complete < PIECES && mn_kit_try_isend(check, pair.send, &out, PIECE, 0, &send) &&
           is_sent(check, &send))
        complete++;
    mn_check_step(check, "closeSend after %d sends were done", complete);
    mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, pair.send));
    for (int i = 0; i < complete; i++) {
        struct mn_req recv, *one = &recv;
        mn_kit_irecv(check, pair.recv, &in, PIECE, 0, &recv);
        mn_kit_wait(check, &one, 1);
        mn_kit_expect(check, &in, PIECE, 3, "done before its comm was closed");
    }
    mn_check_note(check, "%d messages were on their way", complete);
}

/* The receiver goes with a message unread; the sender's close is none of its business. */
static void check_unread(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf out;
    struct mn_req send;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.send, 1000, 0, &out);
    mn_check_step(check, "isend that nobody receives");
    if (mn_kit_try_isend(check, pair.send, &out, 1000, 0, &send))
        is_sent(check, &send);
    mn_check_ok(check, "closeRecv", mn_raw_close_recv(&check->raw, pair.recv));
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* for the news to travel */
    mn_check_step(check, "closeSend after the receiver closed");
    mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, pair.send));
}

/* A receive is under way, and a listen comm was never used. */
static void end_early(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf in;
    struct mn_req recv;

    mn_kit_listen(check, 0, &pair);
    mn_check_ok(check, "closeListen", mn_raw_close_listen(&check->raw, pair.listen));
    mn_kit_connect(check, &pair);
    mn_kit_buf(check, pair.recv, 1000, 0, &in);
    mn_kit_irecv(check, pair.recv, &in, 1000, 0, &recv);
    mn_kit_free(check, &in);
    mn_kit_close(check, &pair);
}

static void check_descriptors(struct mn_check *check)
{
    int before, now;

    mn_check_init(check);
    for (int i = 0; i < WARM_UP; i++)
        end_early(check);
    before = mn_check_count_fds();
    for (int i = 0; i < CYCLES; i++)
        end_early(check);
    while ((now = mn_check_count_fds()) >= before + CYCLES / 2) {
        if (mn_check_expired(check))
            mn_check_fail(check, "%d descriptors before %d connections that ended early, %d after",
                          before, CYCLES, now);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

/* 1: refused; 0: the plugin waits, as v4 may in the call, or found out later. A comm that comes
 * with the error is closed, as NCCL does. */
static int connect_to_nobody(struct mn_check *check)
{
    struct mn_pair pair;
    int result = 0;

    mn_kit_listen(check, 0, &pair);
    mn_check_ok(check, "closeListen", mn_raw_close_listen(&check->raw, pair.listen));
    mn_check_step(check, "connect after closeListen");
    for (int i = 0; i < CALLS && !result && !pair.send; i++) {
        result = mn_raw_connect(&check->raw, 0, pair.handle, &pair.send, NULL);
        sched_yield();
    }
    if (pair.send) {
        mn_check_step(check, "closeSend of the comm that connect gave%s",
                      result ? " with an error" : "");
        mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, pair.send));
    }
    return result != 0;
}

static void check_refused(struct mn_check *check)
{
    struct mn_pair pair;

    mn_check_init(check);
    for (int i = 0; i < 4; i++)
        if (!connect_to_nobody(check))
            mn_check_note(check, "connect to nobody is no error");
    mn_kit_connect(check, &pair);
    mn_kit_pass(check, &pair, 3000, 3000, 1);
    mn_kit_close(check, &pair);
}

static void check_refused_descriptors(struct mn_check *check)
{
    int before, now;

    mn_check_init(check);
    if (!connect_to_nobody(check)) {
        mn_check_note(check, "connect to nobody is no error");
        return;
    }
    before = mn_check_count_fds();
    for (int i = 0; i < CYCLES; i++)
        connect_to_nobody(check);
    while ((now = mn_check_count_fds()) >= before + CYCLES / 2) {
        if (mn_check_expired(check))
            mn_check_fail(check, "%d descriptors before %d connects were refused, %d after", before,
                          CYCLES, now);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

/* Where connect and send need no accept, the sender may be gone before it. */
static void check_before_accept(struct mn_check *check)
{
    struct mn_pair pair;
    struct mn_buf out, in;
    struct mn_req send, recv, *one = &recv;

    mn_check_init(check);
    mn_kit_listen(check, 0, &pair);
    mn_check_step(check, "connect, send and close before the first accept");
    for (int i = 0; i < CALLS && !pair.send; i++)
        mn_kit_try_connect(check, &pair);
    if (!pair.send) {
        mn_check_note(check, "connect waits for accept");
        return;
    }
    mn_kit_buf(check, pair.send, 1000, 0, &out);
    mn_kit_fill(&out, 1000, 4);
    if (!mn_kit_try_isend(check, pair.send, &out, 1000, 0, &send) || !is_sent(check, &send)) {
        mn_check_note(check, "no send is done before accept");
        return;
    }
    mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, pair.send));
    mn_check_step(check, "accept of a peer that sent and closed");
    while (!pair.recv) {
        mn_kit_try_accept(check, &pair);
        if (!pair.recv && mn_check_expired(check))
            mn_check_fail(check, "a send was done, and accept never gives a comm to receive it");
        mn_check_pause(check);
    }
    mn_kit_buf(check, pair.recv, 1000, 0, &in);
    mn_kit_irecv(check, pair.recv, &in, 1000, 0, &recv);
    mn_kit_wait(check, &one, 1);
    mn_kit_expect(check, &in, 1000, 4, "sent before accept");
}

static void check_same_id(struct mn_check *check)
{
    struct mn_check one, other;
    struct mn_pair ends, stays;

    mn_check_init(check);
    one = mn_kit_communicator(check, 7);
    other = mn_kit_communicator(check, 7);
    mn_kit_connect(&one, &ends);
    mn_kit_connect(&other, &stays);
    mn_kit_pass(&one, &ends, 2000, 2000, 1);
    mn_kit_close(&one, &ends);
    mn_kit_finalize(&one);
    mn_kit_pass(&other, &stays, 2000, 2000, 2);
    mn_kit_close(&other, &stays);
    mn_kit_finalize(&other);
}

/* What the first closed may have its number, or its place, again in the second. */
static void check_reuse(struct mn_check *check)
{
    mn_check_init(check);
    for (unsigned i = 0; i < 3; i++) {
        struct mn_check ends = mn_kit_communicator(check, 2 + 2 * i), stays;
        struct mn_pair old, pair;
        mn_kit_connect(&ends, &old);
        mn_kit_pass(&ends, &old, 2000, 2000, i);
        mn_kit_close(&ends, &old);
        stays = mn_kit_communicator(check, 3 + 2 * i);
        mn_kit_connect(&stays, &pair);
        mn_kit_finalize(&ends);
        mn_kit_pass(&stays, &pair, 2000, 2000, i);
        mn_kit_close(&stays, &pair);
        mn_kit_finalize(&stays);
    }
}

/* A communicator starts while a connection of the first is half there. */
static void check_init_half(struct mn_check *check)
{
    struct mn_check second;
    struct mn_pair pair;

    mn_check_init(check);
    for (int calls = 1; calls <= 3; calls++) {
        mn_kit_listen(check, 0, &pair);
        for (int i = 0; i < calls; i++)
            mn_kit_try_connect(check, &pair);
        second = mn_kit_communicator(check, 2 + (unsigned)calls);
        mn_check_step(check, "a connection goes on after the init of another communicator");
        mn_kit_finish(check, &pair);
        mn_kit_pass(check, &pair, 2000, 2000, 1);
        mn_kit_finalize(&second);
        mn_kit_pass(check, &pair, 2000, 2000, 2);
    }
}

static const struct mn_check_rule rules[] = {
    {"leave.backlog", "all that was sent arrives, also after closeSend",
     "delivery of completed sends depends on no further call, however many are unread",
     check_backlog, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyFree: closes the comm when its last send is "
                 "done, whatever the receiver has read by then",
     .breaks = "The last steps of the last collective are missing at slow ranks."},
    {"leave.unread", "a sender closes after its receiver, without an error",
     "both ends close in any order, possibly with messages unread", check_unread,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyFree: an error of closeSend ends the "
                 "destruction of the communicator",
     .breaks = "Destroying a communicator fails and leaves memory and connections behind."},
    {"leave.descriptors", "what ends early leaves no descriptor behind",
     "a receive may be under way when its comm closes, a listen comm never used", check_descriptors,
     .grade = MN_CHECK_SHOULD,
     .evidence = "Users of services that abort and go on: NCCL closes each listen comm and each "
                 "comm, also with requests in flight",
     .breaks = "A service that survives aborts runs out of descriptors."},
    {"leave.refused", "a comm that comes with an error can be closed",
     "connect to a peer that went reports an error or waits; NCCL closes a comm that was set",
     check_refused, .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxyFree: closes the send comm if it is set, "
                 "also after its connect failed",
     .breaks = "A job whose peer is gone crashes instead of saying so.", .since = 5},
    {"leave.refused_descriptors", "a connect that is refused leaves no descriptor behind",
     "with the error all is over: there is no comm to close", check_refused_descriptors,
     .grade = MN_CHECK_SHOULD,
     .evidence = "Users of services that try again: nobody closes what connect did not give out",
     .breaks = "A service that tries again until its peer is there runs out of descriptors.",
     .since = 5},
    {"leave.before_accept", "who sent and closed before accept is accepted all the same",
     "completed sends reach the peer; the ends close independently", check_before_accept,
     .grade = MN_CHECK_SHOULD,
     .evidence = "Users of short jobs: nothing in the API says that a sender outlives the "
                 "receiver's accept, though NCCL's handshakes make it so today",
     .breaks = "A rank that is quick to end leaves another that waits for ever."},
    {"leave.same_id", "communicators of one commId are two",
     "commId is a hash: equal on all ranks of a communicator, of which two may be in one process",
     check_same_id, .profile = "nccl-2.28",
     .evidence = "NCCL 2.28 plugin/net.cc, ncclNetInit: hands on the hash of the communicator, the "
                 "same for every rank of it in one process",
     .breaks = "Destroying one rank's communicator breaks that of another in the process.",
     .since = 11},
    {"leave.reuse", "finalize touches nothing that was closed before",
     "what was closed may be another communicator's by then", check_reuse, .profile = "nccl-2.28",
     .evidence = "NCCL 2.28 plugin/net.cc, ncclNetFinalize: is called for one communicator while "
                 "others of the process connect and transfer",
     .breaks = "Destroying one communicator breaks another.", .since = 11},
    {"leave.init_half", "init leaves connections alone that are half there",
     "init is called for each communicator, while others of the process connect", check_init_half,
     .profile = "nccl-2.28",
     .evidence = "NCCL 2.28 plugin/net.cc, ncclNetInit: is called for each communicator, while "
                 "service threads of others connect",
     .breaks = "Communicators that start at the same time never come up.", .since = 11},
};

MN_CHECK_FAMILY(mn_check_leave_family, "leave", "ends that go at odd moments", rules);
