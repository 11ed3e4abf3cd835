/* What tests of hops have in common: two ends of one process, on TCP over loopback, or on RDMA
 * where the double of libibverbs is. */
#ifndef MN_RELAY_HOP_ENDS_H
#define MN_RELAY_HOP_ENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/relay/hop.h"
#include "topo/base/alloc.h"

#define PATIENCE_MS 20000

static const uint8_t key[MN_KEY_SIZE] = "of the line", other_key[MN_KEY_SIZE] = "of another";

/* Loopback is a cable of processes of one node, from an address to itself. */
static inline void make(struct mn_config *config, const char *name)
{
    memset(config, 0, sizeof *config);
    mn_settings_default(&config->settings);
    config->settings.allow_tcp = MN_TCP_ALLOWED;
    config->settings.transport = MN_TRANSPORT_TCP;
    /* Tests wait for both to end, and must not on a busy machine. */
    config->settings.connect_ms = 6000;
    config->settings.handshake_ms = 4000;
    mn_strlcpy(config->node, name, sizeof config->node);
    config->node_id = 1;
    config->pointers = NCCL_PTR_HOST;
    config->n_devices = 1;
    strcpy(config->devices[0].name, "mesh");
    struct mn_local *local = &config->devices[0].locals[0];
    assert_int_equal(mn_addr_parse("127.9.0.1/24", &local->addr, NULL), MN_OK);
    strcpy(local->netdev, "lo");
    local->ifindex = if_nametoindex("lo");
    local->rdma_port = 1;
    local->gid_index = -1;
    local->speed_mbps = 1000;
    config->devices[0].n_locals = 1;
}

static inline void nap(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

struct end {
    struct mn_hop *hop;
    struct mn_comm *comm;
    enum mn_err err;
    struct mn_diag diag;
};

static inline void step(struct end *e)
{
    if (e->hop && e->err == MN_ERR_AGAIN)
        e->err = mn_hop_step(e->hop, &e->comm, &e->diag);
}

static inline void until_both_know(struct end *a, struct end *b)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    a->err = b->err = MN_ERR_AGAIN;
    for (; (a->hop && a->err == MN_ERR_AGAIN) || (b->hop && b->err == MN_ERR_AGAIN); nap()) {
        step(a);
        step(b);
        assert_true(mn_now_ms() < end);
    }
}

static struct mn_config here, there;

static inline int set_up(void **state)
{
    (void)state;
    make(&here, "node-a");
    make(&there, "node-b");
    return 0;
}

/* The double's device is at 127.0.0.1. */
static inline int set_up_rdma(void **state)
{
    (void)set_up(state);
    here.settings.transport = there.settings.transport = MN_TRANSPORT_VERBS;
    here.devices[0].locals[0].addr.bytes[1] = there.devices[0].locals[0].addr.bytes[1] = 0;
    return 0;
}

static inline void join(struct end *receiver, struct end *sender)
{
    uint8_t handle[MN_HANDLE_SIZE];

    assert_int_equal(mn_hop_listen(&here, &here.devices[0], key, handle, &receiver->hop,
                                   &receiver->diag),
                     MN_OK);
    assert_int_equal(mn_hop_dial(&there, &there.devices[0], key, handle, &sender->hop,
                                 &sender->diag),
                     MN_OK);
    until_both_know(receiver, sender);
    if (receiver->err || sender->err)
        fail_msg("%s; %s", receiver->diag.text, sender->diag.text);
}

#define PIECES 24
#define ROOM   70000

/* Pieces as a relay's, of header and payload, several under way: whole, in order, none twice. */
static inline void carry(struct end *receiver, struct end *sender)
{
    static uint8_t out[PIECES][ROOM], in[PIECES][ROOM], heads[2][PIECES][64];
    const struct mn_transport *ops = receiver->comm->ops;
    struct mn_request *recvs[PIECES] = {NULL}, *sends[PIECES][2] = {{NULL}};
    int posted = 0, begun = 0, came = 0, left = 2 * PIECES, tags[2] = {1, 2};
    void *mh[4];

    assert_int_equal(ops->reg_mr(receiver->comm, in, sizeof in, NCCL_PTR_HOST, &mh[0]), 0);
    assert_int_equal(ops->reg_mr(receiver->comm, heads, sizeof heads, NCCL_PTR_HOST, &mh[1]), 0);
    assert_int_equal(ops->reg_mr(sender->comm, out, sizeof out, NCCL_PTR_HOST, &mh[2]), 0);
    assert_int_equal(ops->reg_mr(sender->comm, heads, sizeof heads, NCCL_PTR_HOST, &mh[3]), 0);
    memset(in, 0, sizeof in);
    for (int i = 0; i < PIECES; i++) {
        memset(heads[0][i], 100 + i, 64);
        memset(heads[1][i], 0, 64);
        for (size_t k = 0; k < ROOM; k++)
            out[i][k] = (uint8_t)(k * 31 + (size_t)i * 7);
    }
    for (uint64_t end = mn_now_ms() + PATIENCE_MS; came < PIECES || left;
         assert_true(mn_now_ms() < end)) {
        for (; posted < PIECES && posted < came + 6; posted++) {
            void *data[2] = {heads[1][posted], in[posted]}, *handles[2] = {mh[1], mh[0]};
            size_t sizes[2] = {64, ROOM};
            assert_int_equal(ops->irecv(receiver->comm, 2, data, sizes, tags, handles,
                                        &recvs[posted]),
                             0);
            if (!recvs[posted])
                break;
        }
        for (int part = begun & 1; begun < 2 * PIECES; part = ++begun & 1) {
            int i = begun / 2;
            size_t size = part ? (size_t)i * 3000 : 64; /* of the first there is no payload */
            assert_int_equal(ops->isend(sender->comm, part ? out[i] : heads[0][i], size, tags[part],
                                        mh[part ? 2 : 3], &sends[i][part]),
                             0);
            if (!sends[i][part])
                break;
        }
        for (int i = 0; i < begun; i++) {
            struct mn_request **at = &sends[i / 2][i & 1];
            int done = 0;
            if (*at)
                assert_int_equal(ops->test(*at, &done, NULL), 0);
            if (done)
                *at = NULL;
            left -= done;
        }
        int sizes[MN_MAX_RECVS], done = 0;
        if (came < posted && recvs[came])
            assert_int_equal(ops->test(recvs[came], &done, sizes), 0);
        if (done) {
            assert_int_equal(sizes[0], 64);
            assert_int_equal(sizes[1], came * 3000);
            assert_memory_equal(heads[1][came], heads[0][came], 64);
            assert_memory_equal(in[came], out[came], (size_t)sizes[1]);
            came++;
        }
    }
    for (int i = 0; i < PIECES; i++) /* and nothing behind it */
        for (size_t k = (size_t)i * 3000; k < ROOM; k++)
            assert_int_equal(in[i][k], 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(ops->dereg_mr(i < 2 ? receiver->comm : sender->comm, mh[i]), 0);
}

static inline int descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* What is closed lingers until its peer's end is seen: the next one looks. */
static inline void until_descriptors(int want)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    for (; descriptors() > want; nap()) {
        for (int i = 0; mn_transports[i]; i++)
            (void)mn_transports[i]->settled(&here);
        assert_true(mn_now_ms() < end);
    }
}

#endif
