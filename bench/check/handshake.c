/* Connections that come up in any order, from anywhere, or not at all. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "bench/check/kit.h"
#include "bench/check/peer.h"
#include "bench/host.h"

#define CALLS 200
#define MANY  32

/* The handle of a listen comm that is no more. */
static void check_closed_listen(struct mn_check *check)
{
    struct mn_pair gone, next;
    int result = 0;

    mn_check_init(check);
    mn_kit_listen(check, 0, &gone);
    mn_check_ok(check, "closeListen", mn_raw_close_listen(&check->raw, gone.listen));
    mn_kit_listen(check, 0, &next); /* perhaps in the same place */
    mn_check_step(check, "connect with the handle of a closed listen comm");
    for (int i = 0; i < CALLS && !result && !gone.send; i++) {
        result = mn_raw_connect(&check->raw, 0, gone.handle, &gone.send, NULL);
        mn_kit_try_accept(check, &next);
        sched_yield();
    }
    if (!result && gone.send)
        mn_check_fail(check, "connect gave a comm although its listen comm is closed");
    if (next.recv)
        mn_check_fail(check, "a connection meant for a closed listen comm went to another one");
    mn_kit_finish(check, &next);
    mn_kit_pass(check, &next, 3000, 3000, 1);
    mn_check_note(check, "connect: %s", result ? mn_nccl_result_name(result) : "not yet, for ever");
}

/* The peer never accepts and closes its listen comm: what connect gave, if anything, is of no use
 * and says so. */
static void check_never_accepted(struct mn_check *check)
{
    struct mn_req send = {.done = 1};
    struct mn_pair pair;
    struct mn_buf out;
    int result = 0;

    mn_check_init(check);
    mn_kit_listen(check, 0, &pair);
    mn_check_step(check, "connect, never accepted");
    for (int i = 0; i < CALLS && !pair.send; i++)
        mn_kit_try_connect(check, &pair);
    mn_check_step(check, "closeListen, never accepted");
    mn_check_ok(check, "closeListen", mn_raw_close_listen(&check->raw, pair.listen));
    for (int i = 0; i < CALLS && !pair.send && !result; i++)
        result = mn_raw_connect(&check->raw, 0, pair.handle, &pair.send, NULL);
    if (!pair.send || result)
        return;
    mn_kit_buf(check, pair.send, 60000, 0, &out);
    mn_check_step(check, "isend on a connection nobody accepted, until an error is reported");
    while (!result) {
        if (send.done) {
            send = (struct mn_req){.request = NULL};
            result = mn_raw_isend(&check->raw, pair.send, out.data, out.size, 0, out.mhandle,
                                  &send.request);
            send.done = !result && !send.request;
        } else {
            mn_kit_poll(check, &send);
            result = send.result;
        }
        if (mn_check_expired(check))
            mn_check_fail(check, "nobody accepted, the listen comm is closed, and the sender saw "
                                 "no error within the limit");
        mn_check_pause(check);
    }
    mn_check_note(check, "the sender got %s", mn_nccl_result_name(result));
    mn_check_ok(check, "closeSend", mn_raw_close_send(&check->raw, pair.send));
}

static void shuffle(struct mn_check *check, int *order, int n)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int k = (int)mn_check_below(check, (uint64_t)i + 1), kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
}

/* One after the other in an order of chance; the others are half open and not called meanwhile. */
static void check_order(struct mn_check *check)
{
    static struct mn_pair pairs[MANY];
    int order[MANY];

    mn_check_init(check);
    shuffle(check, order, MANY);
    for (int i = 0; i < MANY; i++)
        mn_kit_listen(check, 0, &pairs[i]);
    for (int i = 0; i < MANY; i++)
        mn_kit_try_connect(check, &pairs[i]);
    for (int i = 0; i < MANY; i++) {
        struct mn_pair *pair = &pairs[order[i]];
        mn_kit_finish(check, pair);
        mn_check_ok(check, "closeListen", mn_raw_close_listen(&check->raw, pair->listen));
        mn_kit_pass(check, pair, 64, 64, (unsigned)order[i]);
    }
}

/* Any end of any connection is called next. */
static void check_interleaved(struct mn_check *check)
{
    static struct mn_pair pairs[MANY];
    int left = MANY;

    mn_check_init(check);
    for (int i = 0; i < MANY; i++)
        mn_kit_listen(check, 0, &pairs[i]);
    mn_check_step(check, "%d connections, one call of one end at a time", MANY);
    for (unsigned long calls = 1; left; calls++) {
        uint64_t choice = mn_check_below(check, 2 * MANY);
        struct mn_pair *pair = &pairs[choice / 2];
        int was = pair->send && pair->recv;
        if (choice % 2)
            mn_kit_try_accept(check, pair);
        else
            mn_kit_try_connect(check, pair);
        left -= !was && pair->send && pair->recv;
        if (left && mn_check_expired(check))
            mn_check_fail(check, "%d of %d connections not up after %lu calls", left, MANY, calls);
        if (calls % 64 == 0)
            mn_check_pause(check);
    }
    for (int i = 0; i < MANY; i++)
        mn_kit_pass(check, &pairs[i], 64, 64, (unsigned)i);
}

/* The same number on another node is another device: nothing says that both ends use one. */
static void check_devices(struct mn_check *check)
{
    enum { MOST = 4 };
    int n_from, n_to;

    mn_check_init(check);
    n_from = check->n_dev_there < MOST ? check->n_dev_there : MOST;
    n_to = check->n_dev < MOST ? check->n_dev : MOST;
    if (n_from < 2 && n_to < 2)
        mn_check_skip(check, "there is one device");
    for (int from = 0; from < n_from; from++)
        for (int to = 0; to < n_to; to++) {
            struct mn_pair pair;
            mn_kit_listen(check, to, &pair);
            pair.dev = from;
            mn_check_step(check, "listen on device %d, connect from device %d", to, from);
            mn_kit_finish(check, &pair);
            mn_kit_pass(check, &pair, 5000, 5000, (unsigned)(MOST * from + to));
            mn_kit_close(check, &pair);
        }
}

static void echo(struct mn_check *check, int fd)
{
    struct mn_pair in, out;
    struct mn_buf from, to;
    struct mn_req recv, send, *first = &recv, *last = &send;

    mn_check_init(check);
    mn_peer_accept(check, fd, &in);
    mn_peer_connect(check, fd, &out);
    mn_kit_buf(check, in.recv, 100000, 0, &from);
    mn_kit_buf(check, out.send, 100000, 0, &to);
    for (unsigned i = 0; i < 4; i++) {
        mn_kit_irecv(check, in.recv, &from, 100000, 0, &recv);
        mn_kit_wait(check, &first, 1);
        memcpy(to.data, from.data, (size_t)recv.sizes[0]);
        mn_kit_isend(check, out.send, &to, (size_t)recv.sizes[0], 0, &send);
        mn_kit_wait(check, &last, 1);
    }
    mn_peer_tell(check, fd, "e", 1);
    mn_peer_hear(check, fd, &(char){0}, 1); /* so that nothing ends before all has arrived */
}

/* Two processes of one host, a connection each way. */
static void check_processes(struct mn_check *check)
{
    struct mn_pair out, in;
    struct mn_buf from, to;
    struct mn_peer peer;
    char word;

    mn_peer_start(check, echo, &peer);
    mn_check_init(check);
    mn_peer_connect(check, peer.fd, &out);
    mn_peer_accept(check, peer.fd, &in);
    mn_kit_buf(check, out.send, 100000, 0, &from);
    for (unsigned i = 0; i < 4; i++) {
        const size_t size = 25000 * i;
        struct mn_req recv, send;
        mn_kit_buf(check, in.recv, 100000, 0, &to);
        mn_kit_fill(&from, size, i);
        mn_kit_irecv(check, in.recv, &to, 100000, 0, &recv);
        mn_kit_isend(check, out.send, &from, size, 0, &send);
        mn_kit_wait2(check, &send, &recv);
        mn_kit_expect(check, &to, size, i, "there and back between two processes");
        mn_kit_free(check, &to);
    }
    mn_peer_hear(check, peer.fd, &word, 1);
    mn_peer_tell(check, peer.fd, "e", 1);
}

static const struct mn_check_rule rules[] = {
    {"handshake.processes", "two processes connect and exchange messages",
     "ranks are processes; the handle travels between them as plain bytes", check_processes,
     .profile = "nccl-2.27",
     .evidence =
         "NCCL 2.27 transport/net.cc, sendProxyConnect: the handle came from another process",
     .breaks = "Only ranks of one process can talk.", .flags = MN_CHECK_PEER},
    {"handshake.order", "half-open connections come up in any order",
     "each connection is finished on its own; none needs calls for another", check_order,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, proxyProgressAsync: connections are tried in the order their "
                 "requests came in",
     .breaks = "Communicators with many peers hang while they connect.",
     .flags = MN_CHECK_RANDOM | MN_CHECK_ENDS},
    {"handshake.interleaved", "connect and accept calls interleave by chance",
     "every end is polled on its own, any number of times", check_interleaved,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 proxy.cc, proxyProgressAsync: each end is tried again until it is "
                 "there, at any pace",
     .breaks = "Communicators with many peers hang while they connect.",
     .flags = MN_CHECK_RANDOM | MN_CHECK_ENDS, .since = 5},
    {"handshake.closed_listen", "a handle whose listen comm was closed gives no comm",
     "connect reports an error or stays at NULL; no other listen comm gets the connection",
     check_closed_listen, .grade = MN_CHECK_SHOULD,
     .evidence = "ncclNet API (connect, closeListen): NCCL's own Socket waits for ever; NCCL "
                 "connects to what is open",
     .breaks = "A rank that restarts is taken for its predecessor.", .since = 5,
     .flags = MN_CHECK_ENDS},
    {"handshake.never_accepted", "a connection that nobody accepts ends in an error",
     "once the listen comm is closed no data can arrive: isend or test reports it",
     check_never_accepted, .grade = MN_CHECK_SHOULD,
     .evidence = "ncclNet API (closeListen): NCCL accepts what was connected, unless a rank gives "
                 "up; then the others wait",
     .breaks = "A job whose peer gave up hangs.", .since = 5, .flags = MN_CHECK_ENDS},
    {"handshake.devices", "the two ends may use devices of different numbers",
     "dev of connect is the local device; the peer listens on whichever is near its GPU",
     check_devices, .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL 2.27 graph/paths.cc, ncclTopoGetNetDev: each rank takes the device near its "
                 "GPU; some fabrics have no path between rails",
     .breaks = "Nodes whose NICs are numbered differently cannot connect.", .flags = MN_CHECK_ENDS},
};

MN_CHECK_FAMILY(mn_check_handshake_family, "handshake", "connections in any order", rules);
