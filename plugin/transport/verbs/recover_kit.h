/* Two ends of a connection over RDMA in one thread, on the libibverbs double, which ctest puts
 * before the library (LD_LIBRARY_PATH): made without the core's handshake, with as many links as a
 * test wants. For tests. */
#ifndef MN_VERBS_RECOVER_KIT_H
#define MN_VERBS_RECOVER_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/transport/verbs/verbs.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"
#include "topo/base/pattern_kit.h"

#ifndef KIT_SIZE
#define KIT_SIZE (1 << 18)
#endif
enum { KIT_LINKS = 3, KIT_WINDOW = 8, KIT_TAG = 7 };

static uint64_t (*kit_counter)(const char *name);
static void (*kit_set)(const char *settings);
static char kit_warnings[65536]; /* with the lock: the thread of events warns, too */
static pthread_mutex_t kit_lock = PTHREAD_MUTEX_INITIALIZER;

/* A wire between the two, and what they move: message k of each end is a pattern of k. */
struct kit {
    struct mn_config config;
    struct mn_conn conns[2]; /* [1] the connector's, which sends */
    struct mn_comm *send, *recv;
    void *send_mr, *recv_mr;
    uint8_t *from, *to; /* KIT_WINDOW messages of KIT_SIZE */
    struct mn_request *sends[KIT_WINDOW], *recvs[KIT_WINDOW];
    unsigned sent, received, n_sends, n_recvs; /* done; asked for */
    unsigned filled, cleared, messages;
    unsigned window; /* messages under way, KIT_WINDOW at most */
    size_t size;     /* of every message; 0 = all sizes */
    uint64_t seed;
};

static inline void kit_keep_warning(enum mn_log_level level, const char *file, int line,
                                    const char *text)
{
    (void)file, (void)line;
    pthread_mutex_lock(&kit_lock);
    size_t used = strlen(kit_warnings);
    if (level <= MN_LOG_WARN && used < sizeof kit_warnings - 1)
        snprintf(kit_warnings + used, sizeof kit_warnings - used, "%s\n", text);
    if (getenv("KIT_SHOW"))
        fprintf(stderr, "%llu %s\n", (unsigned long long)mn_now_ms(), text);
    pthread_mutex_unlock(&kit_lock);
}

static inline unsigned kit_count(const char *words)
{
    unsigned n = 0;

    pthread_mutex_lock(&kit_lock);
    for (const char *at = kit_warnings; (at = strstr(at, words)); at++)
        n++;
    pthread_mutex_unlock(&kit_lock);
    return n;
}

static inline void kit_find_double(void)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);
    void *symbols[] = {library ? dlsym(library, "fakeverbs_counter") : NULL,
                       library ? dlsym(library, "fakeverbs_set") : NULL};

    memcpy(&kit_counter, &symbols[0], sizeof kit_counter);
    memcpy(&kit_set, &symbols[1], sizeof kit_set);
}

static inline void kit_name_ends(struct kit *kit, int links)
{
    for (int c = 0; c < 2; c++)
        for (int s = 0; s < 2; s++) {
            struct mn_conn *conn = &kit->conns[c];
            struct mn_side *side = &conn->side[s];
            side->n_locals = links;
            side->kind = MN_TRANSPORT_VERBS;
            for (int i = 0; i < links; i++) {
                struct mn_local *local = &side->locals[i];
                char text[MN_ADDR_TEXT];
                snprintf(text, sizeof text, "127.0.0.%d", i + 1);
                *local = (struct mn_local){.nic = (uint8_t)i, .gid_index = -1, .ifindex = 1};
                local->addr.family = AF_INET;
                local->addr.prefix = 8;
                (void)inet_pton(AF_INET, text, local->addr.bytes);
                snprintf(local->netdev, sizeof local->netdev, "lo");
                snprintf(local->rdma_device, sizeof local->rdma_device, "fv%d", i);
                local->rdma_port = 1;
                conn->plan.pairs[i] = (struct mn_pair){(uint8_t)i, (uint8_t)i};
                conn->plan.weights[i] = 1000;
            }
            verbs_explain(side); /* as the ports are now */
            conn->plan.n_pairs = links;
            conn->plan.kind = MN_TRANSPORT_VERBS;
        }
}

static inline void kit_connect(struct kit *kit)
{
    uint8_t setup[2][MN_FRAME_MAX];
    size_t len[2];
    struct mn_diag diag = {.text = ""};

    for (int c = 1; c >= 0; c--) {
        struct mn_bytes out = {setup[c], setup[c] + sizeof setup[c], 0};
        if (verbs_begin(&kit->conns[c], &out, &diag))
            fail_msg("%s", diag.text);
        len[c] = (size_t)(out.at - setup[c]);
    }
    for (int c = 0; c < 2; c++) {
        struct mn_bytes in = {setup[!c], setup[!c] + len[!c], 0};
        assert_int_equal(verbs_peer(&kit->conns[c], &in, &diag), MN_OK);
    }
    for (int c = 0; c < 2; c++) {
        enum mn_err err;
        while ((err = verbs_step(&kit->conns[c], &diag)) == MN_ERR_AGAIN)
            usleep(100);
        assert_int_equal(err, MN_OK);
        assert_int_equal(mn_transport_verbs.open(&kit->conns[c], c ? &kit->send : &kit->recv,
                                                 &diag),
                         MN_OK);
    }
    /* Tests look inside, and want nobody to answer for a receiver that they do not call. */
    verbs_attend_leave((struct verbs_comm *)kit->recv);
}

/* Sets FAKEVERBS once a process, and skips without the double. silence_ms: all times follow it. */
static inline void kit_open(struct kit *kit, int links, int lanes, unsigned silence_ms,
                            uint64_t seed)
{
    int pair[2];

    if (!kit_set)
        skip();
    memset(kit, 0, sizeof *kit);
    kit->seed = seed;
    kit->window = KIT_WINDOW;
    pthread_mutex_lock(&kit_lock);
    kit_warnings[0] = 0;
    pthread_mutex_unlock(&kit_lock);
    mn_log_set_sink(kit_keep_warning);
    alarm(300);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    mn_settings_default(&kit->config.settings);
    kit->config.settings.rdma_silence_ms = silence_ms;
    for (int c = 0; c < 2; c++) {
        kit->conns[c].connector = c;
        kit->conns[c].config = &kit->config;
        kit->conns[c].traffic_class = -1;
        kit->conns[c].plan.lanes_per_pair = lanes;
        kit->conns[c].lanes[0].fd = pair[c];
        snprintf(kit->conns[c].peer_text, sizeof kit->conns[c].peer_text, c ? "b" : "a");
    }
    kit_name_ends(kit, links);
    kit_connect(kit);
    kit->from = calloc(KIT_WINDOW, KIT_SIZE);
    kit->to = calloc(KIT_WINDOW, KIT_SIZE);
    assert_true(kit->from && kit->to);
    assert_int_equal(mn_transport_verbs.reg_mr(kit->send, kit->from, (size_t)KIT_WINDOW * KIT_SIZE,
                                               NCCL_PTR_HOST, &kit->send_mr),
                     MN_OK);
    assert_int_equal(mn_transport_verbs.reg_mr(kit->recv, kit->to, (size_t)KIT_WINDOW * KIT_SIZE,
                                               NCCL_PTR_HOST, &kit->recv_mr),
                     MN_OK);
}

static inline void kit_close(struct kit *kit)
{
    mn_transport_verbs.dereg_mr(kit->send, kit->send_mr);
    mn_transport_verbs.dereg_mr(kit->recv, kit->recv_mr);
    mn_transport_verbs.close(kit->send);
    mn_transport_verbs.close(kit->recv);
    mn_transport_verbs.settle(&kit->config);
    free(kit->from);
    free(kit->to);
    assert_int_equal(kit_counter("qps"), 0);
    alarm(0);
}

static inline unsigned kit_seed(unsigned message)
{
    return message * 31 + 1;
}

static inline size_t kit_size(const struct kit *kit, unsigned message)
{
    uint64_t hash = (message + kit->seed) * 0x9e3779b97f4a7c15u;

    if (kit->size)
        return kit->size;
    /* Small ones and large ones: half fit into one part. */
    return (size_t)((hash >> 20) % (hash >> 60 & 1 ? KIT_SIZE : 4096)) + 1;
}

static inline enum mn_err kit_post_recv(struct kit *kit)
{
    unsigned r = kit->n_recvs % KIT_WINDOW;
    void *to = kit->to + (size_t)r * KIT_SIZE;
    size_t room = KIT_SIZE;
    int tag = KIT_TAG;

    if (kit->n_recvs - kit->received == KIT_WINDOW || kit->n_recvs >= kit->messages)
        return MN_OK;
    if (kit->cleared == kit->n_recvs) {
        memset(to, 0, KIT_SIZE);
        kit->cleared++;
    }
    enum mn_err err =
        mn_transport_verbs.irecv(kit->recv, 1, &to, &room, &tag, &kit->recv_mr, &kit->recvs[r]);
    kit->n_recvs += kit->recvs[r] != NULL;
    return err;
}

static inline enum mn_err kit_post_send(struct kit *kit)
{
    unsigned s = kit->n_sends % KIT_WINDOW;
    uint8_t *from = kit->from + (size_t)s * KIT_SIZE;
    size_t size = kit_size(kit, kit->n_sends);

    if (kit->n_sends - kit->sent == kit->window || kit->n_sends >= kit->messages)
        return MN_OK;
    if (kit->filled == kit->n_sends) {
        mn_pattern_fill(from, size, kit_seed(kit->n_sends));
        kit->filled++;
    }
    enum mn_err err =
        mn_transport_verbs.isend(kit->send, from, size, KIT_TAG, kit->send_mr, &kit->sends[s]);
    kit->n_sends += kit->sends[s] != NULL;
    return err;
}

/* As many as there is room for. */
static inline enum mn_err kit_post(struct kit *kit)
{
    enum mn_err err = kit_post_recv(kit);
    return err ? err : kit_post_send(kit);
}

static inline void kit_check(const struct kit *kit, int size)
{
    const uint8_t *at = kit->to + (size_t)(kit->received % KIT_WINDOW) * KIT_SIZE;

    assert_int_equal(size, kit_size(kit, kit->received));
    size_t n = (size_t)size, wrong = mn_pattern_differs(at, n, kit_seed(kit->received));
    if (wrong < n)
        fail_msg("message %u: byte %zu of %d is wrong", kit->received, wrong, size);
    if (!mn_pattern_is_plain(at + n, KIT_SIZE - n, 0))
        fail_msg("message %u: something is behind its %d bytes", kit->received, size);
}

/* What is done is checked: whole, not a byte more. */
static inline enum mn_err kit_test_recv(struct kit *kit)
{
    int done = 0, size = 0;
    enum mn_err err = MN_OK;

    if (kit->received != kit->n_recvs)
        err = mn_transport_verbs.test(kit->recvs[kit->received % KIT_WINDOW], &done, &size);
    if (!err && done) {
        kit_check(kit, size);
        kit->received++;
    }
    return err;
}

/* A buffer that was given back is spoiled. */
static inline enum mn_err kit_test_send(struct kit *kit)
{
    unsigned s = kit->sent % KIT_WINDOW;
    int done = 0;
    enum mn_err err = MN_OK;

    if (kit->sent != kit->n_sends)
        err = mn_transport_verbs.test(kit->sends[s], &done, NULL);
    if (!err && done) {
        memset(kit->from + (size_t)s * KIT_SIZE, 0xee, kit_size(kit, kit->sent));
        kit->sent++;
    }
    return err;
}

static inline enum mn_err kit_test(struct kit *kit)
{
    enum mn_err err = kit_test_recv(kit);
    return err ? err : kit_test_send(kit);
}

/* One end is called, the other's process makes no call. */
static inline void kit_receiver_alone(struct kit *kit)
{
    assert_int_equal(kit_post_recv(kit), MN_OK);
    assert_int_equal(kit_test_recv(kit), MN_OK);
}

static inline void kit_sender_alone(struct kit *kit)
{
    assert_int_equal(kit_post_send(kit), MN_OK);
    assert_int_equal(kit_test_send(kit), MN_OK);
}

static inline struct verbs_comm *kit_sender(const struct kit *kit)
{
    return (struct verbs_comm *)kit->send;
}

static inline struct verbs_comm *kit_receiver(const struct kit *kit)
{
    return (struct verbs_comm *)kit->recv;
}

static inline enum mn_err kit_step(struct kit *kit)
{
    enum mn_err err = kit_post(kit);
    return err ? err : kit_test(kit);
}

/* Until so many messages in all are through, both ways: sent and received. */
static inline enum mn_err kit_move(struct kit *kit, unsigned messages)
{
    enum mn_err err = MN_OK;

    kit->messages = messages;
    while (!err && (kit->sent < messages || kit->received < messages))
        err = kit_step(kit);
    return err;
}

#endif
