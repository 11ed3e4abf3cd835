/* Connections: every order of listen, connect, accept and close; spoiled handles. */
#include "tests/drivers/conformance/kit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "plugin/abi/nccl_abi.h"

#define ENOUGH 300 /* polls that see a half-open connection through its states */

static void half_open(struct kit *kit)
{
    enum { MANY = 50 };
    static struct pair pairs[MANY];
    uint64_t end = kit_now_ms() + KIT_PATIENCE_S * 1000;
    int left = MANY;

    for (int i = 0; i < MANY; i++)
        pair_listen(kit, &pairs[i]);
    for (int i = 0; i < MANY; i++)
        kit_ok(kit, "connect", mn_plugin_connect(kit->plugin, 0, pairs[i].handle, &pairs[i].send));
    while (left) {
        left = 0;
        for (int i = MANY - 1; i >= 0; i--)
            left += !pair_poll(kit, &pairs[i]);
        if (kit_now_ms() > end)
            kit_fail(kit, "%d of %d not connected", left, MANY);
    }
    for (int i = 0; i < MANY; i++)
        pair_pass(kit, &pairs[i], (size_t)i * 10);
    for (int i = 0; i < MANY; i++)
        pair_close(kit, &pairs[i]);
}

static void connect_first(struct kit *kit)
{
    struct pair pair;

    pair_listen(kit, &pair);
    for (int i = 0; i < ENOUGH && !pair.send; i++)
        kit_ok(kit, "connect", mn_plugin_connect(kit->plugin, 0, pair.handle, &pair.send));
    pair_finish(kit, &pair);
    pair_pass(kit, &pair, 1000);
    pair_close(kit, &pair);
}

static void accept_first(struct kit *kit)
{
    struct pair pair;

    pair_listen(kit, &pair);
    for (int i = 0; i < 10 * ENOUGH; i++) {
        kit_ok(kit, "accept", mn_plugin_accept(kit->plugin, pair.listen, &pair.recv));
        if (pair.recv)
            kit_fail(kit, "accept returned a comm and nobody connected");
    }
    pair_finish(kit, &pair);
    pair_pass(kit, &pair, 1000);
    pair_close(kit, &pair);
}

/* The peer comes to accept later than one handshake may take (with MESHNET_HANDSHAKE=1s). */
static void accept_late(struct kit *kit)
{
    uint64_t end = kit_now_ms() + 2500;
    struct pair pair;

    pair_listen(kit, &pair);
    while (kit_now_ms() < end && !pair.send)
        kit_ok(kit, "connect", mn_plugin_connect(kit->plugin, 0, pair.handle, &pair.send));
    pair_finish(kit, &pair);
    pair_pass(kit, &pair, 1000);
    pair_close(kit, &pair);
}

/* One listener, several connections, each its own. */
static void one_listener(struct kit *kit)
{
    struct pair pairs[4];

    pair_listen(kit, &pairs[0]);
    for (int i = 0; i < 4; i++) {
        if (i) {
            struct pair fresh = {.listen = pairs[i - 1].listen};
            memcpy(fresh.handle, pairs[0].handle, sizeof fresh.handle);
            pairs[i - 1].listen = NULL;
            pairs[i] = fresh;
        }
        pair_finish(kit, &pairs[i]);
    }
    for (int i = 0; i < 4; i++)
        pair_pass(kit, &pairs[i], 5000);
    for (int i = 0; i < 4; i++)
        pair_close(kit, &pairs[i]);
}

/* A handle with one byte flipped ends in an error, in no comm, or (a byte the plugin does not use)
 * in a comm that works. The listener lives on. */
static void spoiled_handle(struct kit *kit)
{
    struct pair good;
    int refused = 0;

    /* One given up while it blocks may still take the place of the next. */
    kit_needs(kit, 5, "connect that can be given up");
    pair_listen(kit, &good);
    for (int at = 0; at < MN_HANDLE_SIZE; at++) {
        struct pair bad = {.listen = good.listen};
        int result = ncclSuccess;
        memcpy(bad.handle, good.handle, sizeof bad.handle);
        bad.handle[at] = (char)~bad.handle[at];
        for (int i = 0; i < ENOUGH && !result && !bad.send; i++) {
            result = mn_plugin_connect(kit->plugin, 0, bad.handle, &bad.send);
            if (!bad.recv)
                kit_ok(kit, "accept, the handle's byte flipped",
                       mn_plugin_accept(kit->plugin, bad.listen, &bad.recv));
        }
        refused += !bad.send;
        if (bad.send && !result) {
            pair_finish(kit, &bad);
            pair_pass(kit, &bad, 100);
        }
        bad.listen = NULL;
        pair_close(kit, &bad);
    }
    if (!refused)
        kit_fail(kit, "no flipped byte of the handle mattered");
    pair_finish(kit, &good);
    pair_pass(kit, &good, 1000);
    pair_close(kit, &good);
}

static void close_half_open(struct kit *kit)
{
    for (int polls = 0; polls < 30; polls++) {
        struct pair pair;
        pair_listen(kit, &pair);
        for (int i = 0; i < polls && !pair_poll(kit, &pair); i++)
            ;
        pair_close(kit, &pair);
    }
    struct pair pair;
    pair_open(kit, &pair);
    pair_pass(kit, &pair, 1000);
    pair_close(kit, &pair);
}

/* Bit 0: a send is under way, bit 1: a receive is, bit 2: the receiver closes first. */
static void close_in_flight(struct kit *kit)
{
    enum { SIZE = 16 << 20 };

    for (int state = 0; state < 8; state++) {
        struct pair pair;
        struct buf from, to;
        struct req sent, got;
        const int tag = state;
        pair_open(kit, &pair);
        buf_new(kit, pair.send, SIZE, 0, &from);
        buf_new(kit, pair.recv, SIZE, 0, &to);
        if (state & 1)
            req_send(kit, &pair, &from, SIZE, tag, &sent);
        if (state & 2)
            req_recv(kit, &pair, 1, &to, &tag, &got);
        for (int i = 0; i < 5; i++)
            req_poll(kit);
        req_drop_all(kit);
        buf_free(kit, &from);
        buf_free(kit, &to);
        if (state & 4) {
            kit_ok(kit, "closeRecv", mn_plugin_close_recv(kit->plugin, pair.recv));
            pair.recv = NULL;
        }
        pair_close(kit, &pair);
    }
}

/* Bytes of a send reported done arrive although its comm is closed at once. */
static void close_after_send(struct kit *kit)
{
    static const size_t sizes[] = {0, 8, 4096, 16384};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct pair pair;
        struct buf from, to;
        struct req sent, got;
        const int tag = 1;
        pair_open(kit, &pair);
        buf_new(kit, pair.send, sizes[i], 0, &from);
        buf_new(kit, pair.recv, sizes[i], 0, &to);
        buf_fill(&from, sizes[i], i);
        req_recv(kit, &pair, 1, &to, &tag, &got);
        req_send(kit, &pair, &from, sizes[i], tag, &sent);
        req_wait(kit, &sent);
        buf_free(kit, &from);
        kit_ok(kit, "closeSend", mn_plugin_close_send(kit->plugin, pair.send));
        pair.send = NULL;
        req_wait(kit, &got);
        buf_expect(kit, &to, sizes[i], i);
        buf_free(kit, &to);
        pair_close(kit, &pair);
    }
}

/* The class that NCCL gives to one end only is that of both: announcements go back by it. */
static void traffic_class(struct kit *kit)
{
    enum { CLASS = 184 };
    kit_needs(kit, 10, "a traffic class");
    /* From v11 on a communicator has it, in v10 a connection. */
    int apart = mn_plugin_info(kit->plugin)->version > 10;
    struct mn_plugin *from = apart ? mn_plugin_context(kit->plugin) : kit->plugin;
    uint64_t all = kit_fakeverbs("rtr"), ours = kit_fakeverbs("class.184");
    uint64_t end = kit_now_ms() + KIT_PATIENCE_S * 1000;
    struct pair pair;

    mn_plugin_set_config(from, 1, CLASS);
    if (apart)
        kit_ok(kit, "init", mn_plugin_init(from));
    pair_listen(kit, &pair);
    while ((!pair.send || !pair.recv) && kit_now_ms() < end) {
        if (!pair.send)
            kit_ok(kit, "connect", mn_plugin_connect(from, 0, pair.handle, &pair.send));
        if (!pair.recv)
            kit_ok(kit, "accept", mn_plugin_accept(kit->plugin, pair.listen, &pair.recv));
    }
    mn_plugin_set_config(from, 0, NCCL_NET_TRAFFIC_CLASS_UNDEF);
    all = kit_fakeverbs("rtr") - all;
    ours = kit_fakeverbs("class.184") - ours;
    if (!pair.send || !pair.recv)
        kit_fail(kit, "not connected within %d s", KIT_PATIENCE_S);
    if (kit_fakeverbs("qps") && (!all || ours != all))
        kit_fail(kit, "%d of %d queue pairs have the traffic class", (int)ours, (int)all);
    pair_pass(kit, &pair, 1000);
    pair_close(kit, &pair);
    if (apart)
        mn_plugin_close(from);
}

/* Resets every connection of this process. */
static void reset_sockets(void)
{
    static const struct sockaddr none = {.sa_family = AF_UNSPEC};
    struct sockaddr_storage peer;

    for (int fd = 3; fd < 1024; fd++) {
        socklen_t len = sizeof peer;
        if (!getpeername(fd, (struct sockaddr *)&peer, &len) &&
            (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
            connect(fd, &none, sizeof none);
    }
}

/* What carries the data over sockets ends in an error; over RDMA it goes on without them. */
static void reset(struct kit *kit)
{
    struct pair pair;
    struct buf to;
    struct req got;
    const int tag = 1;

    pair_open(kit, &pair);
    pair_pass(kit, &pair, 1000);
    reset_sockets();
    if (getenv("FAKEVERBS")) {
        for (int i = 0; i < 20; i++)
            pair_pass(kit, &pair, 10000);
        pair_close(kit, &pair);
        return;
    }
    buf_new(kit, pair.recv, 1000, 0, &to);
    kit->tolerant = 1;
    if (req_try_recv(kit, &pair, 1, &to, &tag, &got)) {
        req_wait(kit, &got);
        if (!got.result)
            kit_fail(kit, "a receive was done though its connection was reset");
    }
    kit->tolerant = 0;
    buf_free(kit, &to);
    pair_close(kit, &pair);
}

const struct kit_case kit_connect_cases[] = {
    {"half-open", half_open},
    {"connect-first", connect_first},
    {"accept-first", accept_first},
    {"accept-late", accept_late},
    {"one-listener", one_listener},
    {"spoiled-handle", spoiled_handle},
    {"close-half-open", close_half_open},
    {"close-in-flight", close_in_flight},
    {"close-after-send", close_after_send},
    {"traffic-class", traffic_class},
    {"reset", reset},
    {NULL, NULL},
};
