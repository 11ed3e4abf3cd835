/* The flow's beginning and end: what SETUP carries, and the comm that is made of it.
 *
 *   connector   version 1 | flow 16 | ways 1 | {Mb/s 4 | nodes 1 | node 2 each}   ->
 *                                  <-  version 1 | of neighbours: 2 handles       acceptor
 *
 * Neighbours' own cable is way 0 and not among those (direct.c). Both attach; each is ready once it
 * has a way that is open. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/conn_impl.h"
#include "plugin/transport/relay/flow.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define SETUP_VERSION 3
#define CLOSE_MS      10000   /* for a way, at most; a relay that starts anew has one in some 4 s */
#define CLOSE_NAP     1000000 /* ns */
#define VAIN_MS       60000

/* --- made and freed --------------------------------------------------------------------------- */

static void release(struct relay_comm *comm)
{
    for (int i = 0; i < comm->n_ways; i++)
        relay_way_end(comm, &comm->ways[i]);
    relay_direct_close(comm);
    while (comm->mems)
        (void)relay_dereg_mr(&comm->base, comm->mems);
    pthread_mutex_destroy(&comm->memory);
    pthread_mutex_destroy(&comm->busy);
    free(comm->heads);
    free(comm);
}

static struct relay_comm *make(const struct mn_conn *conn, struct mn_diag *diag)
{
    const size_t n = (size_t)MN_RELAY_WAYS * MN_RELAY_KINDS * RELAY_POSTED;
    struct relay_comm *comm = calloc(1, sizeof *comm);

    if (comm && !(comm->heads = aligned_alloc(4096, n * MN_HEAD_SIZE))) {
        free(comm);
        comm = NULL;
    }
    if (!comm) {
        mn_fail(diag, MN_ERR_NOMEM, "no memory for a connection to %s", conn->peer_text);
        return NULL;
    }
    memset(comm->heads, 0, n * MN_HEAD_SIZE);
    comm->base = (struct mn_comm){.ops = &mn_transport_relay, .is_send = conn->connector};
    comm->config = conn->config;
    mn_strlcpy(comm->peer, conn->peer_text, sizeof comm->peer);
    pthread_mutex_init(&comm->memory, NULL);
    pthread_mutex_init(&comm->busy, NULL);
    comm->heads_mem = (struct relay_mem){.data = comm->heads,
                                         .size = n * MN_HEAD_SIZE,
                                         .type = NCCL_PTR_HOST,
                                         .fd = -1};
    comm->talk.next = 1;
    comm->talk_way = -1;
    for (int i = 0; i < MN_RELAY_WAYS; i++) {
        comm->ways[i].number = (uint8_t)i;
        for (int kind = 0; kind < MN_RELAY_KINDS; kind++)
            comm->ways[i].hops[kind].heads =
                comm->heads + (i * MN_RELAY_KINDS + kind) * RELAY_POSTED;
    }
    return comm;
}

/* --- the handshake ---------------------------------------------------------------------------- */

static enum mn_err find_ways(struct relay_comm *comm, const struct mn_conn *conn,
                             struct mn_diag *diag)
{
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    struct mn_relay_way ways[MN_RELAY_WAYS];
    uint32_t weights[MN_RELAY_WAYS];
    int first = comm->n_ways, most = mn_reach_ways(&conn->config->settings);

    pthread_mutex_lock(&one_at_a_time);
    most = most < MN_RELAY_WAYS - first ? most : MN_RELAY_WAYS - first;
    int n = mn_relay_ways(&conn->config->relay->mesh, conn->side[1].relay_node,
                          conn->side[0].relay_node, most, ways, weights);
    pthread_mutex_unlock(&one_at_a_time);
    comm->n_ways += n;
    if (comm->n_ways < 1)
        return mn_fail(diag, MN_ERR_CONFIG, "the mesh file has no way of at most %d relays to %s",
                       MN_RELAY_MAX, conn->peer_text);
    for (int i = 0; i < n; i++) {
        comm->ways[first + i].nodes = ways[i];
        comm->ways[first + i].weight = weights[i] ? weights[i] : 1;
    }
    return MN_OK;
}

static void put_flow(const struct relay_comm *comm, struct mn_bytes *out)
{
    mn_put(out, SETUP_VERSION, 1);
    mn_put_raw(out, comm->flow.id, sizeof comm->flow.id);
    int first = comm->direct.detour != MN_DETOUR_OFF;

    mn_put(out, (uint64_t)(comm->n_ways - first), 1);
    for (int i = first; i < comm->n_ways; i++) {
        const struct relay_way *way = &comm->ways[i];
        mn_put(out, way->weight, 4);
        mn_put(out, (uint64_t)way->nodes.n, 1);
        for (int k = 0; k < way->nodes.n; k++)
            mn_put(out, way->nodes.nodes[k], 2);
    }
}

static enum mn_err relay_begin(struct mn_conn *conn, struct mn_bytes *out, struct mn_diag *diag)
{
    struct relay_comm *comm;
    enum mn_err err;

    if (!conn->config->relay)
        return mn_fail(diag, MN_ERR_INTERNAL, "the relay without a mesh file");
    comm = make(conn, diag);
    if (!comm)
        return MN_ERR_NOMEM;
    conn->setup = comm;
    if (!conn->connector) {
        mn_put(out, SETUP_VERSION, 1);
        return relay_direct_begin(comm, conn, out, diag);
    }
    err = relay_direct_begin(comm, conn, out, diag);
    if (!err)
        err = mn_random(&comm->flow, sizeof comm->flow, diag);
    if (!err)
        err = find_ways(comm, conn, diag);
    if (!err)
        put_flow(comm, out);
    return err;
}

static int get_way(const struct mn_conn *conn, struct mn_bytes *in, struct relay_way *way)
{
    way->weight = (uint32_t)mn_get(in, 4);
    way->nodes.n = (int)mn_get(in, 1);
    if (in->bad || way->nodes.n < 3 || way->nodes.n > MN_RELAY_NODES || !way->weight)
        return 0;
    for (int k = 0; k < way->nodes.n; k++)
        way->nodes.nodes[k] = (uint16_t)mn_get(in, 2);
    return !in->bad && mn_relay_way_holds(&conn->config->relay->mesh, &way->nodes) &&
           way->nodes.nodes[0] == conn->side[1].relay_node &&
           way->nodes.nodes[way->nodes.n - 1] == conn->config->relay->node;
}

static enum mn_err relay_peer(struct mn_conn *conn, struct mn_bytes *in, struct mn_diag *diag)
{
    struct relay_comm *comm = conn->setup;
    unsigned version = (unsigned)mn_get(in, 1);
    int good = !in->bad && comm;

    if (good && version != SETUP_VERSION)
        return mn_fail(diag, MN_ERR_PROTO, "SETUP of the relay's version %u, expected %d", version,
                       SETUP_VERSION);
    if (good && !conn->connector) {
        mn_get_raw(in, comm->flow.id, sizeof comm->flow.id);
        int first = comm->n_ways, n = (int)mn_get(in, 1);
        good = !in->bad && n + first >= 1 && n + first <= MN_RELAY_WAYS;
        for (int i = 0; i < n && good; i++)
            good = get_way(conn, in, &comm->ways[first + i]);
        comm->n_ways += good ? n : 0;
    } else if (good && comm->direct.detour) {
        enum mn_err err = relay_direct_peer(comm, in, diag);
        if (err)
            return err;
        good = !in->bad;
    }
    if (!good || in->at != in->end)
        return mn_fail(diag, MN_ERR_PROTO,
                       "SETUP frame with ways that the mesh file does not have");
    return MN_OK;
}

/* A relayd that is there but let nobody in, because many come, is tried again. */
static int is_hopeless(const struct relay_way *way)
{
    return way->state == RELAY_IS_REFUSED || (way->state == RELAY_RESTS && way->why.code &&
                                              (!way->tries || way->tries >= RELAY_TRIES));
}

/* No way is or will be open: what the first of them says. */
static enum mn_err relay_refused(const struct relay_comm *comm, struct mn_diag *diag)
{
    char through[256];

    for (int i = 0; i < comm->n_ways; i++)
        if (!is_hopeless(&comm->ways[i]))
            return MN_ERR_AGAIN;
    return mn_fail(diag, MN_ERR_LINK_DEAD, "through %s: %s",
                   relay_way_text(comm, &comm->ways[0], through, sizeof through),
                   comm->ways[0].why.text);
}

static enum mn_err relay_step(struct mn_conn *conn, struct mn_diag *diag)
{
    struct relay_comm *comm = conn->setup;
    uint64_t now = mn_now_ms();

    comm->moved = 0;
    for (int i = 0; i < comm->n_ways; i++) {
        struct relay_way *way = &comm->ways[i];
        if (!is_hopeless(way))
            relay_way_step(comm, way, now);
    }
    if (comm->moved)
        mn_conn_progress(conn);
    relay_talk_flush(comm);
    if (relay_error(comm))
        return mn_fail(diag, (enum mn_err)relay_error(comm), "the relay's flow has failed");
    return relay_ways_open(comm) ? MN_OK : relay_refused(comm, diag);
}

static void relay_cancel(struct mn_conn *conn)
{
    release(conn->setup);
    conn->setup = NULL;
}

static void relay_answer(struct mn_conn *conn, struct mn_bytes *out)
{
    (void)conn, (void)out;
}

static void relay_offer(struct mn_side *self)
{
    (void)self;
}

/* --- the comm --------------------------------------------------------------------------------- */

/* Nothing of the flow but its direct way needs the handshake's connection. */
static enum mn_err relay_open(struct mn_conn *conn, struct mn_comm **out, struct mn_diag *diag)
{
    struct relay_comm *comm = conn->setup;

    (void)diag;
    mn_strlcpy(comm->peer, conn->peer_text, sizeof comm->peer);
    for (int i = 0; i < conn->n_lanes; i++) {
        if (!i && comm->direct.detour)
            relay_direct_open(comm, conn, conn->lanes[i].fd);
        else
            close(conn->lanes[i].fd);
    }
    *out = &comm->base;
    comm->born_ms = mn_now_ms();
    relay_idle_join(comm);
    return MN_OK;
}

/* What is not acknowledged goes over every way: of the last DONE nobody is left to say it again
 * when the relay that has it goes. What comes twice is known by its number. */
static void say_for_the_last_time(struct relay_comm *comm)
{
    relay_talk_flush(comm);
    for (int i = 0; i < comm->n_ways; i++) {
        if (i == comm->talk_way || comm->ways[i].state != RELAY_IS_OPEN || !comm->ways[i].line)
            continue;
        comm->talk_way = i;
        relay_talk_again(&comm->talk);
        relay_talk_flush(comm);
    }
}

/* All that was posted has come, and no way is open at both ends to say so: the sender waits for
 * that. */
static int owes_word(const struct relay_comm *comm)
{
    int under_way = 0, ways = 0;

    for (int i = 0; i < comm->n_ways; i++)
        ways += relay_way_works(&comm->ways[i]) && comm->ways[i].peer_pair == comm->ways[i].pair;
    for (int i = 0; i < RELAY_GROUPS; i++)
        under_way |= comm->groups[i].used && comm->groups[i].left;
    return !comm->base.is_send && !under_way && !relay_talk_is_heard(&comm->talk) && !ways &&
           !comm->ended_ms && !relay_error(comm);
}

/* The next to close after one that waited in vain does not. */
static void wait_for_way(struct relay_comm *comm)
{
    static _Atomic uint64_t in_vain_ms;
    unsigned silence = comm->config->settings.silence_ms;
    unsigned bound = silence < CLOSE_MS ? silence : CLOSE_MS;
    uint64_t began = mn_now_ms(), vain = atomic_load(&in_vain_ms);

    if (vain && began - vain < VAIN_MS)
        bound = 0;
    while (owes_word(comm) && mn_now_ms() - began < bound) {
        (void)relay_progress(comm);
        nanosleep(&(struct timespec){.tv_nsec = CLOSE_NAP}, NULL);
    }
    if (!owes_word(comm))
        return;
    atomic_store(&in_vain_ms, mn_now_ms());
    MN_WARN("receive from peer %s: closed without a way, after waiting %u ms for one: the sender "
            "may not hear that all has been received",
            comm->peer, bound);
}

static void relay_close(struct mn_comm *base)
{
    struct relay_comm *comm = (struct relay_comm *)base;

    relay_idle_leave(comm);
    wait_for_way(comm);
    say_for_the_last_time(comm);
    relay_ways_sum(comm);
    release(comm);
}

static struct relay_comm *enter(struct mn_comm *base)
{
    struct relay_comm *comm = (struct relay_comm *)base;

    pthread_mutex_lock(&comm->busy);
    comm->calls++;
    return comm;
}

static enum mn_err leave(struct relay_comm *comm, enum mn_err err)
{
    pthread_mutex_unlock(&comm->busy);
    return err;
}

static enum mn_err call_isend(struct mn_comm *base, void *data, size_t size, int tag, void *mhandle,
                              struct mn_request **request)
{
    struct relay_comm *comm = enter(base);

    return leave(comm, relay_isend(base, data, size, tag, mhandle, request));
}

static enum mn_err call_irecv(struct mn_comm *base, int n, void **data, const size_t *sizes,
                              const int *tags, void **mhandles, struct mn_request **request)
{
    struct relay_comm *comm = enter(base);

    return leave(comm, relay_irecv(base, n, data, sizes, tags, mhandles, request));
}

static enum mn_err call_flush(struct mn_comm *base, void *data, void *mhandle,
                              struct mn_request **request)
{
    struct relay_comm *comm = enter(base);

    return leave(comm, relay_flush(base, data, mhandle, request));
}

static enum mn_err test(struct relay_comm *comm, struct mn_request *request, int *done, int *sizes)
{
    struct relay_group *group = (struct relay_group *)request;

    if (comm->base.is_send)
        return relay_send_test(comm, (struct relay_send *)request, done, sizes);
    if (group->is_flush)
        return relay_flush_test(comm, (struct relay_flush *)request, done);
    return relay_recv_test(comm, group, done, sizes);
}

static enum mn_err call_test(struct mn_request *request, int *done, int *sizes)
{
    struct relay_comm *comm = enter(request->comm);

    return leave(comm, test(comm, request, done, sizes));
}

static void relay_pointers(struct mn_config *config)
{
    mn_transport_tcp.pointers(config);
}

static int relay_descriptors(struct mn_comm *base, struct mn_wake *wakes, int max)
{
    (void)base, (void)wakes, (void)max;
    return 0;
}

/* Who sleeps is a relay, whose comms are hops. */
static enum mn_err relay_arm(struct mn_comm *base)
{
    (void)base;
    return MN_ERR_UNSUPPORTED;
}

static void relay_settle(const struct mn_config *config)
{
    (void)config;
}

static int relay_settled(const struct mn_config *config)
{
    (void)config;
    return 1;
}

static void relay_quit(void)
{
}

const struct mn_transport mn_transport_relay = {
    .name = "relay",
    .kind = MN_TRANSPORT_RELAY,
    .keeps_control = 1,
    .pointers = relay_pointers,
    .offer = relay_offer,
    .explain = relay_offer,
    .begin = relay_begin,
    .answer = relay_answer,
    .peer = relay_peer,
    .step = relay_step,
    .cancel = relay_cancel,
    .open = relay_open,
    .close = relay_close,
    .reg_mr = relay_reg_mr,
    .dereg_mr = relay_dereg_mr,
    .reg_dmabuf = relay_reg_dmabuf,
    .isend = call_isend,
    .irecv = call_irecv,
    .flush = call_flush,
    .test = call_test,
    .descriptors = relay_descriptors,
    .arm = relay_arm,
    .settle = relay_settle,
    .settled = relay_settled,
    .quit = relay_quit,
};
