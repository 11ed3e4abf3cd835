#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/arrive.h"
#include "plugin/far.h"
#include "plugin/listen.h"
#include "plugin/reopen.h"
#include "plugin/transport.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define MAX_PENDING 16 /* candidates of one listener, who have said HELLO with the right MAC */
#define SPARED_MS   300
#define BIND_TRIES  64
#define BACKLOG     4096
#define FIRST_MAX   64 /* no first frame is larger */

struct mn_listener {
    const struct mn_config *config;
    struct mn_device device;
    uint8_t nonce[MN_NONCE_SIZE], key[MN_KEY_SIZE];
    int fds[MN_MAX_LOCALS + MN_MAX_FAR];
    int n_fds;
    uint16_t door; /* of the process, held open; 0 = none */
    struct mn_arrivals arrivals;
    struct {
        struct mn_conn *conn;
        uint64_t born_ms;
    } pending[MAX_PENDING];
    unsigned long strangers;
};

void mn_side_self(const struct mn_config *config, const struct mn_device *device,
                  struct mn_side *side)
{
    memset(side, 0, sizeof *side);
    mn_strlcpy(side->node, config->node, sizeof side->node);
    side->node_id = config->node_id;
    side->kind = config->settings.transport;
    side->allow_tcp = config->settings.allow_tcp;
    side->reach = config->settings.reach;
    side->detour = config->settings.detour;
    side->sockets_per_link = config->settings.sockets_per_link;
    /* A hop of the relay is given up, and the message goes another way. */
    side->failover = config->settings.failover && !config->hop;
    side->qps_per_link = config->settings.qps_per_link;
    memcpy(side->locals, device->locals, sizeof side->locals);
    side->n_locals = device->n_locals;
    side->routes = &config->routes;
    side->mesh = config->mesh.digest.hash;
    side->relay_node = config->relay ? config->relay->node : 0;
}

int mn_locals_all(const struct mn_config *config, const struct mn_device *device,
                  struct mn_local locals[MN_MAX_LOCALS])
{
    int n = device->n_locals;

    memcpy(locals, device->locals, sizeof device->locals);
    for (int d = 0; d < config->n_devices && config->n_devices > 1; d++) {
        const struct mn_device *other = &config->devices[d];
        for (int i = 0; i < other->n_locals; i++) {
            int at = other == device ? i : n, twice = 0;
            for (int k = 0; k < n && other != device; k++)
                twice |= mn_addr_equal(&locals[k].addr, &other->locals[i].addr);
            if (twice || at == MN_MAX_LOCALS)
                continue;
            locals[at] = other->locals[i];
            locals[at].nic = (uint8_t)(d * MN_MAX_LOCALS + other->locals[i].nic);
            n += other != device;
        }
    }
    return n;
}

static enum mn_err listen_at(const struct mn_local *local, uint16_t port, int *fd,
                             struct mn_diag *diag)
{
    struct sockaddr_storage ss;
    socklen_t len = mn_addr_sockaddr(&local->addr, port, local->ifindex, &ss);
    char text[MN_ADDR_TEXT];
    int one = 1, silent_s = 5;

    *fd = socket(local->addr.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return mn_fail_errno(diag, "opening a socket (see ulimit -n)");
    (void)setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    mn_socket_bind_ahead(*fd, local->addr.family);
    (void)setsockopt(*fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &silent_s, sizeof silent_s);
    if (bind(*fd, (struct sockaddr *)&ss, len) || listen(*fd, BACKLOG)) {
        enum mn_err err = errno == EADDRINUSE
                              ? MN_ERR_EXISTS
                              : mn_fail_errno(diag, "listening at %s port %u on %s",
                                              mn_addr_format(&local->addr, text, sizeof text), port,
                                              local->netdev);
        close(*fd);
        *fd = -1;
        return err;
    }
    return MN_OK;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof ss;

    if (getsockname(fd, (struct sockaddr *)&ss, &len))
        return 0;
    return ntohs(ss.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&ss)->sin6_port
                                          : ((struct sockaddr_in *)&ss)->sin_port);
}

static void close_fds(const int *fds, int n)
{
    while (n)
        close(fds[--n]);
}

static enum mn_err no_port(const struct mn_ports *range, const char *whose, int n,
                           struct mn_diag *diag)
{
    if (!range->first)
        return mn_fail(diag, MN_ERR_SYS, "no TCP port is free on all %d addresses of %s", n, whose);
    return mn_fail(diag, MN_ERR_SYS,
                   "all ports of plugin.port_range %d-%d are in use at the addresses of %s: a "
                   "listener takes one until its connection is accepted, a process with RDMA one "
                   "more; widen the range (MESHNET_PORT_RANGE), or end what holds its ports: "
                   "ss -ltnp",
                   range->first, range->last, whose);
}

/* The first address picks the port, the others must have it free too. The ports of a range are
 * tried from a random one on: other processes take theirs from it, too. */
enum mn_err mn_listen_all(const struct mn_ports *range, const char *whose,
                          const struct mn_local *locals, int n, int *fds, uint16_t *port,
                          struct mn_diag *diag)
{
    unsigned count = range->first ? (unsigned)(range->last - range->first + 1) : BIND_TRIES, from;
    enum mn_err err = mn_random(&from, sizeof from, diag);

    if (err)
        return err;
    for (unsigned attempt = 0; attempt < count; attempt++) {
        int opened = 0;
        err = MN_OK;
        *port =
            range->first ? (uint16_t)(range->first + (int)((from % count + attempt) % count)) : 0;
        for (; opened < n && !err; opened += !err) {
            err = listen_at(&locals[opened], *port, &fds[opened], diag);
            if (!err)
                *port = port_of(fds[0]);
        }
        if (!err)
            return MN_OK;
        close_fds(fds, opened);
        if (err != MN_ERR_EXISTS)
            return err;
    }
    return no_port(range, whose, n, diag);
}

/* Returns whether RDMA may carry a connection of this listener. */
static int tell_gids(const struct mn_config *config, const struct mn_device *device,
                     struct mn_handle *handle)
{
    struct mn_side self;
    int rdma = 0;

    mn_side_self(config, device, &self);
    for (int i = 0; mn_transports[i]; i++)
        mn_transports[i]->offer(&self);
    for (int i = 0; i < self.n_locals; i++) {
        handle->locals[i].gid_index =
            self.rdma[i].state == MN_RDMA_READY ? self.rdma[i].gid_index : -1;
        rdma |= self.rdma[i].state != MN_RDMA_NONE;
    }
    return rdma;
}

enum mn_err mn_listener_open(const struct mn_config *config, const struct mn_device *device,
                             void *handle, struct mn_listener **listener, struct mn_diag *diag)
{
    struct mn_handle h = {.node_id = config->node_id, .instance = (uint32_t)getpid()};
    struct mn_listener *l = calloc(1, sizeof *l);

    if (!l)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for a listener");
    l->config = config;
    int own = device->n_locals;
    l->device = *device;
    l->device.n_locals = mn_locals_all(config, device, l->device.locals);
    device = &l->device;
    struct mn_local at[MN_MAX_LOCALS + MN_MAX_FAR];
    memcpy(at, device->locals, (size_t)device->n_locals * sizeof *at);
    h.n_far = mn_far_now(config, h.far);
    memcpy(at + device->n_locals, h.far, (size_t)h.n_far * sizeof *at);
    enum mn_err err = mn_random(l->nonce, sizeof l->nonce, diag);
    if (!err)
        err = mn_listen_all(&config->settings.port_range, device->name, at,
                            device->n_locals + h.n_far, l->fds, &h.port, diag);
    if (err && h.n_far) {
        /* A lease that has ended keeps no neighbour out. */
        MN_INFO("not listening for nodes without a cable: %s", diag->text);
        h.n_far = 0;
        err = mn_listen_all(&config->settings.port_range, device->name, at, device->n_locals,
                            l->fds, &h.port, diag);
    }
    if (err) {
        free(l);
        return err;
    }
    l->n_fds = device->n_locals + h.n_far;
    mn_arrivals_open(&l->arrivals);
    mn_conn_key(config, l->nonce, l->key);
    memcpy(h.nonce, l->nonce, sizeof h.nonce);
    memcpy(h.locals, device->locals, sizeof h.locals);
    for (int i = own; i < device->n_locals; i++)
        h.locals[i].spare = 1; /* behind what is for nodes without a cable */
    h.n_locals = device->n_locals;
    if (tell_gids(config, device, &h) || config->settings.detour ||
        (config->settings.failover && !config->hop))
        l->door = mn_reopen_hold_door(config);
    mn_handle_write(&h, mn_config_key(config), handle);
    *listener = l;
    return MN_OK;
}

static void drop_pending(struct mn_listener *l, int slot)
{
    mn_conn_close(l->pending[slot].conn);
    l->pending[slot].conn = NULL;
}

/* A free place among the candidates, made by dropping one that has not proved itself though it had
 * the time, if there is one. Only who can read the wire fills them: with old HELLOs. */
static int pending_slot(struct mn_listener *l)
{
    uint64_t now = mn_now_ms();
    int slot = -1, slow = 0;

    for (int i = 0; i < MAX_PENDING; i++) {
        const struct mn_conn *conn = l->pending[i].conn;
        if (!conn)
            return i;
        int is_slow = now - l->pending[i].born_ms > SPARED_MS;
        if (conn->state > MN_CONN_PROOF || is_slow < slow)
            continue;
        uint8_t lot = 0;
        (void)mn_random(&lot, sizeof lot, NULL);
        if (slot < 0 || is_slow > slow || lot < 128)
            slot = i;
        slow = is_slow;
    }
    if (slot >= 0)
        drop_pending(l, slot);
    return slot;
}

/* MN_ERR_AGAIN: it goes on; else *diag says why it ended, or it is *ready, and its place is free.
 */
static enum mn_err step_pending(struct mn_listener *l, int slot, struct mn_conn **ready,
                                struct mn_diag *diag)
{
    struct mn_conn *conn = l->pending[slot].conn;
    enum mn_err err = mn_conn_step(conn, diag);

    if (err == MN_ERR_AGAIN)
        return err;
    if (!err) {
        *ready = conn;
        l->pending[slot].conn = NULL;
        return err;
    }
    if (conn->relay_failed && !mn_plan_only_relay(conn->side))
        MN_INFO("accept: peer %s: no relay: %s; other ways are taken for a minute", conn->peer_text,
                diag->text);
    else if (conn->state > MN_CONN_PROOF)
        MN_WARN("accept: peer %s: %s", conn->peer_text, diag->text);
    else
        MN_INFO("dropped %s: %s", conn->peer_text, diag->text);
    drop_pending(l, slot);
    return err;
}

/* A socket whose HELLO, with the connector's random, is good and still to be read. */
static enum mn_verdict add_candidate(struct mn_listener *l, int fd, const uint8_t random[16])
{
    struct mn_conn *conn, *through = NULL;
    struct mn_diag why;

    for (int i = 0; i < MAX_PENDING; i++)
        if (l->pending[i].conn && !memcmp(l->pending[i].conn->random[1], random, 16))
            return MN_ARRIVAL_STRANGER;
    int slot = pending_slot(l);
    if (slot < 0 || !(conn = calloc(1, sizeof *conn)))
        return MN_ARRIVAL_STRANGER;
    if (mn_random(conn->random[0], sizeof conn->random[0], &why) ||
        mn_random(&conn->id, sizeof conn->id, &why)) {
        free(conn);
        return MN_ARRIVAL_STRANGER;
    }
    mn_chan_init(&conn->chan, fd);
    conn->config = l->config;
    conn->state = MN_CONN_HELLO;
    conn->stepped_ms = mn_now_ms();
    conn->traffic_class = -1;
    conn->door = l->door;
    snprintf(conn->peer_text, sizeof conn->peer_text, "a connecting process");
    mn_side_self(l->config, &l->device, &conn->side[0]);
    memcpy(conn->key, l->key, sizeof conn->key);
    l->pending[slot].conn = conn;
    l->pending[slot].born_ms = conn->stepped_ms;
    /* Reads HELLO: who has gone again goes at once. Beside a quick connector it may be through
     * already; the listener's step finds it so. */
    if (!step_pending(l, slot, &through, &why))
        l->pending[slot].conn = through;
    return MN_ARRIVAL_TAKEN;
}

/* Whose LANE frame names a candidate and has its MAC: the frame is read, what follows is data. */
static enum mn_verdict join_lane(struct mn_listener *l, int fd, const uint8_t *payload, size_t len)
{
    uint8_t frame[8 + MN_LANE_SIZE];
    uint64_t id = mn_lane_frame_id(payload, len);

    for (int i = 0; i < MAX_PENDING; i++) {
        struct mn_conn *conn = l->pending[i].conn;
        if (conn && conn->id == id && !mn_conn_attach(conn, fd, payload, len)) {
            (void)recv(fd, frame, sizeof frame, MSG_DONTWAIT);
            return MN_ARRIVAL_TAKEN;
        }
    }
    return MN_ARRIVAL_STRANGER;
}

/* Tells a connector of another version so; what it said is read, or closing would take it back. */
static void say_version(int fd, uint8_t *bytes, size_t size)
{
    struct mn_chan chan;
    uint8_t hello[17];
    size_t len = mn_hello_version(hello);

    mn_chan_init(&chan, fd);
    if (recv(fd, bytes, size, MSG_DONTWAIT) > 0 && !mn_chan_put(&chan, MN_FRAME_HELLO, hello, len))
        (void)mn_chan_flush(&chan, NULL);
}

/* The first frame says what a socket is for. HELLO stays for the handshake to read. */
static enum mn_verdict judge(void *listener, int fd)
{
    struct mn_listener *l = listener;
    uint8_t bytes[FIRST_MAX];
    const uint8_t *payload;
    enum mn_frame type;
    size_t len;
    enum mn_verdict verdict = MN_ARRIVAL_STRANGER;
    enum mn_err err = mn_chan_peek(fd, bytes, sizeof bytes, &type, &payload, &len);

    if (err == MN_ERR_AGAIN)
        return MN_ARRIVAL_WAITS;
    if (!err && type == MN_FRAME_LANE) {
        verdict = join_lane(l, fd, payload, len);
    } else if (!err && type == MN_FRAME_HELLO) {
        err = mn_hello_check(l->key, payload, len, NULL);
        if (!err)
            verdict = add_candidate(l, fd, payload + 1);
        else if (err == MN_ERR_PROTO)
            say_version(fd, bytes, sizeof bytes);
    }
    l->strangers += verdict == MN_ARRIVAL_STRANGER;
    if (verdict == MN_ARRIVAL_STRANGER && !(l->strangers & (l->strangers - 1)))
        MN_INFO("listen: %lu connections so far that were not meant for this listener",
                l->strangers);
    return verdict;
}

enum mn_err mn_listener_step(struct mn_listener *l, struct mn_conn **conn, struct mn_diag *diag)
{
    mn_arrivals_step(&l->arrivals, l->fds, l->n_fds, l->config->settings.handshake_ms, judge, l);
    for (int i = 0; i < MAX_PENDING; i++)
        if (l->pending[i].conn && !step_pending(l, i, conn, diag))
            return MN_OK;
    return MN_ERR_AGAIN;
}

void mn_listener_close(struct mn_listener *l)
{
    mn_arrivals_close(&l->arrivals);
    for (int i = 0; i < MAX_PENDING; i++)
        if (l->pending[i].conn)
            drop_pending(l, i);
    close_fds(l->fds, l->n_fds);
    if (l->door)
        mn_reopen_release_door();
    free(l);
}
