/* What the engine's tests have in common: a line of nodes whose cables are addresses of loopback,
 * a relay in a thread of its own for each that is wanted, and ends that attach as the transport
 * does. Lines go from address to address; data goes over one address that all have, since loopback
 * is a cable from an address to itself. So relays are given the sockets that they listen at. */
#ifndef MN_RELAY_ENGINE_KIT_H
#define MN_RELAY_ENGINE_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fleet/relay/daemon.h"
#include "plugin/abi/nccl_abi.h"
#include "plugin/relay/hop.h"
#include "plugin/relay/line_impl.h"
#include "plugin/relay/way.h"
#include "topo/base/alloc.h"
#include "topo/mesh_file.h"

#define PATIENCE_MS 30000
/* Long enough for a busy machine under ThreadSanitizer; a test that waits for it defines less. */
#ifndef KIT_SILENCE_MS
#define KIT_SILENCE_MS 20000
#endif
#ifndef NODES
#define NODES 5
#endif
#define SLOTS 16 /* pieces that the receiver has posted */

struct kit_relay {
    struct mn_relay_plan plan;
    struct mn_relay *relay;
    pthread_t thread;
    int stop, fds[2], n_fds;
    char socket[64];
    enum mn_err err;
};

/* One end of a way. */
struct kit_end {
    int node, peer; /* own, and the relay's that it attaches to */
    struct mn_line *line;
    struct mn_hop *hops[MN_RELAY_KINDS];
    struct mn_comm *comms[MN_RELAY_KINDS];
    int attached;
    uint32_t pair;
    struct mn_line_gone gone; /* why 0: not */
    struct mn_line_talk talk; /* len 0: none */
    struct mn_diag diag;
};

static struct mn_relay_own own[NODES];
static struct mn_config configs[NODES];
static struct kit_relay relays[NODES];

static inline void kit_nap(void)
{
    nanosleep(&(struct timespec){0, 200000}, NULL);
}

/* Whether the double of libibverbs is there, and is to be used: the program runs twice. */
static inline int kit_on_verbs(void)
{
    return getenv("FAKEVERBS") != NULL;
}

/* The same tests once more, on RDMA. doubles: the folder of the double. */
static inline int kit_again(char **argv, const char *doubles)
{
    char devices[128];

    if (kit_on_verbs())
        return 0;
    snprintf(devices, sizeof devices, "seed=1,strict=0,dev=fv0:lo:127.%d.%d.200",
             20 + getpid() / 251 % 200, getpid() % 251);
    setenv("FAKEVERBS", devices, 1);
    setenv("LD_LIBRARY_PATH", doubles, 1);
    execv("/proc/self/exe", argv);
    return 1;
}

/* A test that defines KIT_RING has a cable from the last node to the first, too. */
#ifdef KIT_RING
#define kit_has(node, end) ((void)(node), (void)(end), 1)
#else
#define kit_has(node, end) ((end) ? (node) > 0 : (node) < NODES - 1)
#endif
#define kit_cable(node, end) ((end) ? ((node) + NODES - 1) % NODES : (node))

/* Cable i joins node i (its .1) and node i + 1 (its .2). */
static inline void kit_address(int cable, int end, char text[32])
{
    snprintf(text, 32, "127.%d.%d.%d/30", 20 + getpid() / 251 % 200, getpid() % 251,
             4 * cable + 1 + end);
}

static inline void kit_local(struct mn_device *device, const char *text)
{
    struct mn_local *local = &device->locals[device->n_locals];

    assert_int_equal(mn_addr_parse(text, &local->addr, NULL), MN_OK);
    strcpy(local->netdev, "lo");
    local->ifindex = if_nametoindex("lo");
    local->nic = (uint8_t)device->n_locals;
    local->gid_index = -1;
    local->rdma_port = 1;
    if (!device->n_locals++ && kit_on_verbs())
        strcpy(local->rdma_device, "fv0");
    local->speed_mbps = 10000;
}

static inline void kit_locals(struct mn_device *device, int node)
{
    char text[32];

    snprintf(text, sizeof text, "127.%d.%d.200/24", 20 + getpid() / 251 % 200, getpid() % 251);
    kit_local(device, text);
    for (int end = 0; end < 2; end++)
        if (kit_has(node, end)) {
            kit_address(kit_cable(node, end), end, text);
            kit_local(device, text);
        }
}

static inline int kit_listen(int cable, int end, unsigned port)
{
    struct sockaddr_storage ss;
    struct mn_addr addr;
    char text[32];
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    kit_address(cable, end, text);
    assert_int_equal(mn_addr_parse(text, &addr, NULL), MN_OK);
    socklen_t len = mn_addr_sockaddr(&addr, (uint16_t)port, 0, &ss);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&ss, len), 0);
    assert_int_equal(listen(fd, 64), 0);
    return fd;
}

static inline void kit_mesh(struct mn_mesh *mesh)
{
    char yaml[4096] = "version: 1\nnodes:\n", a[32], b[32];
    struct mn_diag diag = {.text = ""};
    size_t n = strlen(yaml);

    for (int i = 0; i < NODES; i++) {
        n += (size_t)snprintf(yaml + n, sizeof yaml - n, "  - name: n%d\n    nics:\n", i);
        kit_address(kit_cable(i, 1), 1, a);
        kit_address(i, 0, b);
        if (kit_has(i, 1))
            n += (size_t)snprintf(yaml + n, sizeof yaml - n,
                                  "      - {netdev: l%d, addresses: [%s], speed: 10000}\n", i, a);
        if (kit_has(i, 0))
            n += (size_t)snprintf(yaml + n, sizeof yaml - n,
                                  "      - {netdev: r%d, addresses: [%s], speed: 10000}\n", i, b);
    }
    if (mn_mesh_parse("kit", yaml, n, mesh, &diag))
        fail_msg("%s", diag.text);
}

/* What a test that failed has left. */
static inline void kit_sweep(void)
{
    for (int i = 0; i < NODES; i++)
        if (relays[i].socket[0])
            unlink(relays[i].socket);
}

static inline void kit_open(unsigned port)
{
    static int sweeps;

    if (!sweeps++)
        atexit(kit_sweep);
    for (int i = 0; i < NODES; i++) {
        struct mn_config *c = &configs[i];
        memset(c, 0, sizeof *c);
        kit_mesh(&own[i].mesh);
        own[i].node = i;
        own[i].digest = 77;
        c->relay = &own[i];
        mn_settings_default(&c->settings);
        c->settings.allow_tcp = MN_TCP_ALLOWED;
        c->settings.transport = kit_on_verbs() ? MN_TRANSPORT_VERBS : MN_TRANSPORT_TCP;
        c->settings.relay_port = (int)port;
        c->settings.relay_buffers = 64u << 20;
        c->settings.relay_silence_ms = KIT_SILENCE_MS;
        snprintf(c->node, sizeof c->node, "n%d", i);
        c->node_id = 1;
        c->pointers = NCCL_PTR_HOST;
        c->has_key = 1;
        memset(c->cluster_key, 7, sizeof c->cluster_key);
        c->n_devices = 1;
        strcpy(c->devices[0].name, "mesh");
        kit_locals(&c->devices[0], i);
    }
}

static inline void kit_close(void)
{
    for (int i = 0; i < NODES; i++)
        mn_mesh_free(&own[i].mesh);
}

static inline void *kit_run(void *arg)
{
    struct kit_relay *r = arg;
    struct mn_diag diag = {.text = ""};

    r->err = mn_relay_run(r->relay, r->stop, &diag);
    if (r->err)
        fprintf(stderr, "relay: %s\n", diag.text);
    return NULL;
}

static inline void kit_stop(int node)
{
    struct kit_relay *r = &relays[node];
    uint64_t one = 1;

    if (!r->relay)
        return;
    assert_int_equal(write(r->stop, &one, sizeof one), sizeof one);
    pthread_join(r->thread, NULL);
    mn_relay_close(r->relay);
    close(r->stop);
    memset(r, 0, sizeof *r);
}

static inline void kit_start(int node)
{
    struct kit_relay *r = &relays[node];
    struct mn_diag diag = {.text = ""};

    kit_stop(node); /* of a test that failed */
    memset(r, 0, sizeof *r);
    for (int end = 1; end >= 0; end--) {
        if (!kit_has(node, end))
            continue;
        int fd = kit_listen(kit_cable(node, end), end, (unsigned)configs[node].settings.relay_port);
        assert_int_equal(fcntl(fd, F_SETFL, 0), 0); /* as systemd hands them over */
        r->fds[r->n_fds++] = fd;
    }
    snprintf(r->socket, sizeof r->socket, "/tmp/relay-kit-%d-%d", getpid(), node);
    r->plan = (struct mn_relay_plan){.socket = r->socket, .fds = r->fds, .n_fds = r->n_fds};
    if (mn_relay_open(&configs[node], &r->plan, &r->relay, &diag))
        fail_msg("%s", diag.text);
    r->stop = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(pthread_create(&r->thread, NULL, kit_run, r), 0);
}

/* The relay's state, to be freed. One that is busy with others is asked again. */
static inline cJSON *kit_state(int node)
{
    struct mn_diag diag = {.text = ""};
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    char *text;
    enum mn_err err;

    while ((err = mn_relay_ask_state(relays[node].socket, &text, &diag)))
        if (err != MN_ERR_TIMEOUT || mn_now_ms() >= end)
            fail_msg("%s", diag.text);
    cJSON *state = cJSON_Parse(text);
    free(text);
    return state;
}

/* A figure of it: buffers.in_use, counts.refused. */
static inline double kit_figure(int node, const char *object, const char *key)
{
    cJSON *state = kit_state(node);
    const cJSON *figure = cJSON_GetObjectItem(cJSON_GetObjectItem(state, object), key);

    assert_true(cJSON_IsNumber(figure));
    double value = figure->valuedouble;
    cJSON_Delete(state);
    return value;
}

/* The state is asked for at most so often (MN_LOCAL_FRESH_S). */
static inline void kit_until_figure(int node, const char *object, const char *key, double value)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    while (kit_figure(node, object, key) != value) {
        if (mn_now_ms() >= end)
            fail_msg("%s %s is %g, not %g", object, key, kit_figure(node, object, key), value);
        nanosleep(&(struct timespec){0, 50000000}, NULL);
    }
}

/* --- ends ------------------------------------------------------------------------------------- */

static inline void kit_on(struct kit_end *e, enum mn_line_frame type, const uint8_t *p, size_t len)
{
    struct mn_line_attached attached;
    struct mn_line_opened opened;

    switch (type) {
    case MN_LINE_ATTACHED:
        assert_true(mn_line_attached_get(p, len, &attached));
        for (int k = 0; k < MN_RELAY_KINDS; k++)
            if (mn_hop_dial(&configs[e->node], configs[e->node].devices, mn_line_key(e->line),
                            attached.handles[k], &e->hops[k], &e->diag))
                fail_msg("%s", e->diag.text);
        e->attached = 1;
        break;
    case MN_LINE_OPENED:
        assert_true(mn_line_opened_get(p, len, &opened));
        e->pair = opened.pair;
        break;
    case MN_LINE_GONE:
        assert_true(mn_line_gone_get(p, len, &e->gone));
        break;
    case MN_LINE_TALK:
        assert_true(mn_line_talk_get(p, len, &e->talk));
        break;
    default:
        fail_msg("frame of type %d", type);
    }
}

/* One step of all it has; returns whether data can go. */
static inline int kit_step(struct kit_end *e)
{
    enum mn_line_frame type;
    uint8_t *payload;
    size_t len;
    int ready = e->pair != 0;

    enum mn_err err = mn_line_step(e->line, &e->diag);
    while (!err && !mn_line_get(e->line, &type, &payload, &len))
        kit_on(e, type, payload, len);
    for (int k = 0; k < MN_RELAY_KINDS; k++) {
        if (e->hops[k] && !e->comms[k]) {
            err = mn_hop_step(e->hops[k], &e->comms[k], &e->diag);
            if (err && err != MN_ERR_AGAIN && !e->gone.why)
                fail_msg("%s", e->diag.text);
            e->comms[k] = err ? NULL : e->comms[k];
        }
        ready = ready && e->comms[k];
    }
    return ready;
}

/* As another user, or as a relay: who has the key says so. Returns why it is not let in. */
static inline enum mn_err kit_try_as(struct kit_end *e, int node, int relay, enum mn_line_kind kind,
                                     uint32_t uid)
{
    struct mn_relay_door doors[4];
    struct mn_line_dial dial = {.config = &configs[node],
                                .kind = kind,
                                .node = node,
                                .relay_node = relay,
                                .relay_name = configs[relay].node,
                                .doors = doors,
                                .port = (uint16_t)configs[node].settings.relay_port};
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    enum mn_err err;

    memset(e, 0, sizeof *e);
    e->node = node;
    e->peer = relay;
    dial.n_doors = mn_relay_doors(&own[node].mesh, node, relay, doors, 4);
    assert_int_equal(dial.n_doors, 1);
    assert_int_equal(mn_line_dial(&dial, &e->line, &e->diag), MN_OK);
    e->line->hello.uid = uid;
    while ((err = mn_line_step(e->line, &e->diag)) == MN_ERR_AGAIN) {
        assert_true(mn_now_ms() < end);
        kit_nap();
    }
    return err;
}

static inline void kit_dial_as(struct kit_end *e, int node, int relay, enum mn_line_kind kind,
                               uint32_t uid)
{
    if (kit_try_as(e, node, relay, kind, uid))
        fail_msg("%s", e->diag.text);
}

static inline void kit_dial(struct kit_end *e, int node, int relay)
{
    kit_dial_as(e, node, relay, MN_LINE_PROCESS, geteuid());
}

/* A flow from node first over all between to node last, in either direction. */
static inline struct mn_line_attach kit_frame(int first, int last, unsigned flow)
{
    struct mn_line_attach f = {.way = 0, .role = MN_RELAY_SENDER, .at = 1, .mesh = 77};

    memcpy(f.flow.id, &flow, sizeof flow);
    int on = last > first ? 1 : -1;
    for (int i = first; i != last + on; i += on)
        f.nodes.nodes[f.nodes.n++] = (uint16_t)i;
    f.instance = 1;
    return f;
}

static inline void kit_put(struct kit_end *e, const struct mn_line_attach *f)
{
    uint8_t payload[MN_LINE_MAX];
    size_t len = mn_line_attach_put(f, payload);

    assert_true(len > 0);
    assert_int_equal(mn_line_put(e->line, MN_LINE_ATTACH, payload, len), MN_OK);
}

static inline void kit_attach_sender(struct kit_end *e, struct mn_line_attach f)
{
    kit_put(e, &f);
}

static inline void kit_attach_receiver(struct kit_end *e, struct mn_line_attach f)
{
    f.role = MN_RELAY_RECEIVER;
    f.at = (uint8_t)(f.nodes.n - 2);
    for (int k = 0; k < MN_RELAY_KINDS; k++)
        if (mn_hop_listen(&configs[e->node], configs[e->node].devices, mn_line_key(e->line),
                          f.handles[k], &e->hops[k], &e->diag))
            fail_msg("%s", e->diag.text);
    kit_put(e, &f);
}

static inline void kit_until_open(struct kit_end *s, struct kit_end *d)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    for (int ready = 0; ready != 3; kit_nap()) {
        ready = kit_step(s) | kit_step(d) << 1;
        if (s->gone.why || d->gone.why)
            fail_msg("gone: %s%s", s->gone.text, d->gone.text);
        assert_true(mn_now_ms() < end);
    }
    assert_int_equal(s->pair, d->pair);
}

/* ATTACHED or GONE has come. */
static inline void kit_until_answered(struct kit_end *e)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    while (!e->attached && !e->gone.why) {
        (void)kit_step(e);
        assert_true(mn_now_ms() < end);
        kit_nap();
    }
}

static inline void kit_until_gone(struct kit_end *e, enum mn_gone why)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    while (!e->gone.why) {
        (void)kit_step(e);
        assert_true(mn_now_ms() < end);
        kit_nap();
    }
    if (e->gone.why != why)
        fail_msg("gone for reason %d: %s", e->gone.why, e->gone.text);
}

/* One process sends, another receives: a flow over all nodes between. */
static inline void kit_attach(struct kit_end *s, struct kit_end *d, int first, int last,
                              unsigned flow)
{
    struct mn_line_attach f = kit_frame(first, last, flow);

    int on = last > first ? 1 : -1;

    kit_dial(s, first, first + on);
    kit_dial(d, last, last - on);
    kit_attach_sender(s, f);
    kit_attach_receiver(d, f);
    kit_until_open(s, d);
}

/* The same over the lines that they have. */
static inline void kit_attach_anew(struct kit_end *s, struct kit_end *d, int first, int last,
                                   unsigned flow, uint32_t instance)
{
    struct mn_line_attach f = kit_frame(first, last, flow);

    f.instance = instance;
    kit_attach_sender(s, f);
    kit_attach_receiver(d, f);
    kit_until_open(s, d);
}

/* The data connections only, as after GONE. */
static inline void kit_let_go(struct kit_end *e)
{
    for (int k = 0; k < MN_RELAY_KINDS; k++) {
        mn_hop_close(e->hops[k]);
        e->hops[k] = NULL;
        e->comms[k] = NULL;
    }
    e->pair = 0;
    e->gone.why = 0;
    e->attached = 0;
}

static inline void kit_leave(struct kit_end *e)
{
    kit_let_go(e);
    mn_line_close(e->line);
    e->line = NULL;
}

#endif
