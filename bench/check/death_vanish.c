/* The peer's machine is gone: no packet comes from it, no reset and no end of a stream. Shown
 * without privileges and without a second machine: every Internet socket of this process is given a
 * filter that drops all that arrives, acknowledgements too, and the other process is stopped. */
#include <dirent.h>
#include <linux/filter.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "bench/check/death.h"
#include "bench/host.h"

#define QUIET_MS 500
#define NAP_MS   5
#define AGAIN    12 /* tests between two looks for new sockets */

/* How many sockets hear nothing now. */
static int deafen(void)
{
    struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog program = {.len = 1, .filter = &drop};
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    int deaf = 0;

    while (dir && (entry = readdir(dir))) {
        int fd = atoi(entry->d_name), domain = 0;
        socklen_t size = sizeof domain;
        if (entry->d_name[0] == '.' || getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) ||
            (domain != AF_INET && domain != AF_INET6))
            continue;
        deaf += setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
    }
    if (dir)
        closedir(dir);
    return deaf;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = NAP_MS * 1000000}, NULL);
}

/* A connection each way; sends once more on command. */
static void other(struct mn_check *check, int fd)
{
    struct mn_pair in, out;

    mn_check_init(check);
    mn_peer_accept(check, fd, &in);
    mn_peer_connect(check, fd, &out);
    mn_death_receive_one(check, &in, 1);
    mn_death_send_one(check, &out, 2);
    mn_death_say(check, fd);
    mn_death_await(check, fd);
    mn_death_send_one(check, &out, 3);
    mn_death_hold(check);
}

/* Both connections are used, a receive is pending, and then nothing is heard of the peer. */
static void vanish(struct mn_check *check, struct mn_pair *out, struct mn_pair *in,
                   struct mn_req *recv)
{
    static struct mn_buf buf;
    struct mn_peer peer;
    uint64_t until;
    int deaf;

    mn_peer_start(check, other, &peer);
    mn_check_init(check);
    mn_peer_connect(check, peer.fd, out);
    mn_peer_accept(check, peer.fd, in);
    mn_death_send_one(check, out, 1);
    mn_death_receive_one(check, in, 2);
    mn_death_await(check, peer.fd);
    mn_kit_buf(check, in->recv, MN_DEATH_SIZE, 0, &buf);
    mn_kit_irecv(check, in->recv, &buf, MN_DEATH_SIZE, 0, recv);
    mn_kit_test(check, recv);
    mn_check_step(check, "dropping every packet that arrives");
    deaf = deafen();
    if (!deaf)
        mn_check_skip(check, "the plugin has no Internet socket to make deaf: take the other "
                             "machine from the network while meshnet bench runs");
    mn_death_say(check, peer.fd);
    until = mn_check_now_ns() + QUIET_MS * 1000000u;
    while (!recv->result && mn_check_now_ns() < until) {
        if (mn_kit_poll(check, recv))
            mn_check_skip(check,
                          "messages arrive although all %d Internet sockets are deaf: they "
                          "come by another way, on which this rule cannot cut them off",
                          deaf);
        nap();
    }
    mn_peer_signal(check, &peer, SIGSTOP);
}

void mn_death_sender_vanished(struct mn_check *check)
{
    struct mn_pair out, in;
    struct mn_req recv;
    uint64_t start = mn_check_now_ns();

    vanish(check, &out, &in, &recv);
    mn_check_step(check, "the sender's machine vanished: test until it reports an error");
    for (unsigned n = 0; !recv.result; n++) {
        if (mn_kit_poll(check, &recv))
            mn_check_fail(check, "the sender's machine vanished: the receive completed");
        if (mn_check_expired(check))
            mn_check_fail(check, "the sender's machine vanished: no error within %g s",
                          (double)(mn_check_now_ns() - start) / 1e9);
        if (n % AGAIN == 0)
            deafen();
        nap();
    }
    mn_check_note(check, "%s", mn_nccl_result_name(recv.result));
    mn_check_step(check, "closeRecv, the peer's machine is gone");
    mn_check_ok(check, "closeRecv", mn_raw_close_recv(&check->raw, in.recv));
}

void mn_death_receiver_vanished(struct mn_check *check)
{
    struct mn_req recv, send = {.done = 1};
    struct mn_pair out, in;
    struct mn_buf buf;
    uint64_t start = mn_check_now_ns();
    int result = 0;

    vanish(check, &out, &in, &recv);
    mn_kit_buf(check, out.send, MN_DEATH_SIZE, 0, &buf);
    mn_check_step(check, "the receiver's machine vanished: isend and test until an error");
    for (unsigned n = 0; !result; n++) {
        if (send.done) {
            send = (struct mn_req){.request = NULL};
            result = mn_raw_isend(&check->raw, out.send, buf.data, MN_DEATH_SIZE, 0, buf.mhandle,
                                  &send.request);
            send.done = !result && !send.request;
        } else {
            mn_kit_poll(check, &send);
            result = send.result;
        }
        if (mn_check_expired(check))
            mn_check_fail(check, "the receiver's machine vanished: no error within %g s",
                          (double)(mn_check_now_ns() - start) / 1e9);
        if (n % AGAIN == 0)
            deafen();
        nap();
    }
    mn_check_note(check, "%s", mn_nccl_result_name(result));
    mn_check_step(check, "closeSend, the peer's machine is gone");
    mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, out.send));
}
