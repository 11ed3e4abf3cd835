#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/listen.h"
#include "plugin/transport.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define MAX_PENDING         8   /* candidates of one listener; the oldest unproven makes room */
#define MAX_PENDING_PROCESS 256 /* of all listeners together */
#define MAX_ARRIVALS        16  /* sockets of one listener whose first frame is not read yet */
#define BIND_TRIES          64
#define BACKLOG             64

/* A socket whose first frame is not read yet: HELLO makes it a candidate, LANE joins it to one. */
struct arrival {
    struct mn_chan chan;
    uint64_t deadline_ms;
};

struct mn_listener {
    const struct mn_config *config;
    const struct mn_device *device;
    uint8_t nonce[MN_NONCE_SIZE];
    int fds[MN_MAX_LOCALS];
    int n_fds;
    struct arrival *arrivals[MAX_ARRIVALS];
    struct mn_conn *pending[MAX_PENDING];
};

static atomic_int pending_total;

void mn_side_self(const struct mn_config *config, const struct mn_device *device,
                  struct mn_side *side)
{
    memset(side, 0, sizeof *side);
    mn_strlcpy(side->node, config->node, sizeof side->node);
    side->node_id = config->node_id;
    side->kind = config->settings.transport;
    side->allow_tcp = config->settings.allow_tcp;
    side->sockets_per_link = config->settings.sockets_per_link;
    side->qps_per_link = config->settings.qps_per_link;
    memcpy(side->locals, device->locals, sizeof side->locals);
    side->n_locals = device->n_locals;
}

static enum mn_err listen_at(const struct mn_local *local, uint16_t port, int *fd,
                             struct mn_diag *diag)
{
    struct sockaddr_storage ss;
    socklen_t len = mn_addr_sockaddr(&local->addr, port, local->ifindex, &ss);
    char text[MN_ADDR_TEXT];
    int one = 1;

    *fd = socket(local->addr.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return mn_fail_errno(diag, "opening a socket (see ulimit -n)");
    (void)setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
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

static void close_fds(struct mn_listener *l)
{
    while (l->n_fds)
        close(l->fds[--l->n_fds]);
}

/* One port on all addresses: the first address picks it, the others must have it free too. */
static enum mn_err bind_all(struct mn_listener *l, uint16_t *port, struct mn_diag *diag)
{
    const struct mn_settings *s = &l->config->settings;

    for (int attempt = 0; attempt < (s->port_base ? s->port_count : BIND_TRIES); attempt++) {
        enum mn_err err = MN_OK;
        *port = s->port_base ? (uint16_t)(s->port_base + attempt) : 0;
        for (int i = 0; i < l->device->n_locals && !err; i++) {
            err = listen_at(&l->device->locals[i], *port, &l->fds[i], diag);
            if (!err) {
                l->n_fds = i + 1;
                *port = port_of(l->fds[0]);
            }
        }
        if (!err)
            return MN_OK;
        close_fds(l);
        if (err != MN_ERR_EXISTS)
            return err;
    }
    return mn_fail(diag, MN_ERR_SYS,
                   "no TCP port is free on all %d addresses of %s (plugin."
                   "port_base %d, port_count %d)",
                   l->device->n_locals, l->device->name, s->port_base, s->port_count);
}

static void tell_gids(const struct mn_config *config, const struct mn_device *device,
                      struct mn_handle *handle)
{
    struct mn_side self;

    mn_side_self(config, device, &self);
    for (int i = 0; mn_transports[i]; i++)
        mn_transports[i]->offer(&self);
    for (int i = 0; i < self.n_locals; i++)
        handle->locals[i].gid_index =
            self.rdma[i].state == MN_RDMA_READY ? self.rdma[i].gid_index : -1;
}

enum mn_err mn_listener_open(const struct mn_config *config, const struct mn_device *device,
                             void *handle, struct mn_listener **listener, struct mn_diag *diag)
{
    struct mn_handle h = {.node_id = config->node_id, .instance = (uint32_t)getpid()};
    struct mn_listener *l = calloc(1, sizeof *l);

    if (!l)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for a listener");
    l->config = config;
    l->device = device;
    enum mn_err err = mn_random(l->nonce, sizeof l->nonce, diag);
    if (!err)
        err = bind_all(l, &h.port, diag);
    if (err) {
        free(l);
        return err;
    }
    memcpy(h.nonce, l->nonce, sizeof h.nonce);
    memcpy(h.locals, device->locals, sizeof h.locals);
    h.n_locals = device->n_locals;
    tell_gids(config, device, &h);
    mn_handle_write(&h, config->cluster_key, handle);
    *listener = l;
    return MN_OK;
}

static void drop_arrival(struct mn_listener *l, int slot)
{
    mn_chan_close(&l->arrivals[slot]->chan);
    free(l->arrivals[slot]);
    l->arrivals[slot] = NULL;
    atomic_fetch_sub(&pending_total, 1);
}

static void drop_pending(struct mn_listener *l, int slot)
{
    mn_conn_close(l->pending[slot]);
    l->pending[slot] = NULL;
}

/* A free place among the arrivals; when all are taken the oldest goes, so that sockets which say
 * nothing cannot keep others out. */
static int arrival_slot(struct mn_listener *l)
{
    int oldest = 0;

    for (int i = 0; i < MAX_ARRIVALS; i++) {
        if (!l->arrivals[i])
            return i;
        if (l->arrivals[i]->deadline_ms < l->arrivals[oldest]->deadline_ms)
            oldest = i;
    }
    drop_arrival(l, oldest);
    return oldest;
}

static void take_arrivals(struct mn_listener *l)
{
    for (int i = 0; i < l->n_fds; i++) {
        for (int n = 0; n < MAX_ARRIVALS / 2; n++) {
            if (atomic_load(&pending_total) >= MAX_PENDING_PROCESS)
                return;
            int fd = accept4(l->fds[i], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (fd < 0)
                break;
            struct arrival *a = calloc(1, sizeof *a);
            if (!a) {
                close(fd);
                return;
            }
            mn_chan_init(&a->chan, fd);
            a->deadline_ms = mn_now_ms() + l->config->settings.handshake_ms;
            l->arrivals[arrival_slot(l)] = a;
            atomic_fetch_add(&pending_total, 1);
        }
    }
}

/* A free place among the candidates, making one by dropping the oldest that has proved nothing. */
static int pending_slot(struct mn_listener *l)
{
    int oldest = -1;

    for (int i = 0; i < MAX_PENDING; i++) {
        if (!l->pending[i])
            return i;
        if (l->pending[i]->state <= MN_CONN_PROOF &&
            (oldest < 0 || l->pending[i]->started_ms < l->pending[oldest]->started_ms))
            oldest = i;
    }
    if (oldest >= 0)
        drop_pending(l, oldest);
    return oldest;
}

static enum mn_err promote(struct mn_listener *l, struct arrival *a)
{
    int slot = pending_slot(l);
    struct mn_conn *conn = slot < 0 ? NULL : calloc(1, sizeof *conn);
    struct mn_diag why;

    if (!conn)
        return MN_ERR_NOMEM;
    conn->config = l->config;
    conn->chan = a->chan;
    conn->state = MN_CONN_HELLO;
    conn->started_ms = mn_now_ms();
    conn->deadline_ms = conn->started_ms + l->config->settings.handshake_ms;
    conn->traffic_class = -1;
    snprintf(conn->peer_text, sizeof conn->peer_text, "a connecting process");
    mn_side_self(l->config, l->device, &conn->side[0]);
    mn_conn_key(conn, l->nonce);
    if (mn_random(conn->random[0], sizeof conn->random[0], &why) ||
        mn_random(&conn->id, sizeof conn->id, &why)) {
        free(conn);
        return MN_ERR_SYS;
    }
    l->pending[slot] = conn;
    return MN_OK;
}

static void join_lane(struct mn_listener *l, struct arrival *a, const uint8_t *payload, size_t len)
{
    uint64_t id = mn_lane_frame_id(payload, len);

    for (int i = 0; i < MAX_PENDING; i++) {
        struct mn_conn *conn = l->pending[i];
        if (conn && conn->id == id && !mn_conn_attach(conn, a->chan.fd, payload, len)) {
            a->chan.fd = -1;
            return;
        }
    }
}

/* The first frame says what a socket is for. HELLO is left in the buffer for the handshake. */
static void sort_arrivals(struct mn_listener *l)
{
    for (int i = 0; i < MAX_ARRIVALS; i++) {
        struct arrival *a = l->arrivals[i];
        enum mn_frame type;
        uint8_t *payload;
        size_t len;
        if (!a)
            continue;
        enum mn_err err = mn_chan_get(&a->chan, &type, &payload, &len, NULL);
        if (err == MN_ERR_AGAIN && mn_now_ms() <= a->deadline_ms)
            continue;
        if (!err && type == MN_FRAME_HELLO) {
            a->chan.rx_len = len + (size_t)(payload - a->chan.rx);
            if (!promote(l, a))
                a->chan.fd = -1;
        } else if (!err && type == MN_FRAME_LANE) {
            join_lane(l, a, payload, len);
        }
        drop_arrival(l, i);
    }
}

enum mn_err mn_listener_step(struct mn_listener *l, struct mn_conn **conn, struct mn_diag *diag)
{
    take_arrivals(l);
    sort_arrivals(l);
    for (int i = 0; i < MAX_PENDING; i++) {
        if (!l->pending[i])
            continue;
        enum mn_err err = mn_conn_step(l->pending[i], diag);
        if (!err) {
            *conn = l->pending[i];
            l->pending[i] = NULL;
            return MN_OK;
        }
        if (err != MN_ERR_AGAIN) {
            if (l->pending[i]->state > MN_CONN_PROOF)
                MN_WARN("accept: peer %s: %s", l->pending[i]->peer_text, diag->text);
            else
                MN_INFO("dropped %s: %s", l->pending[i]->peer_text, diag->text);
            drop_pending(l, i);
        }
    }
    return MN_ERR_AGAIN;
}

void mn_listener_close(struct mn_listener *l)
{
    for (int i = 0; i < MAX_ARRIVALS; i++)
        if (l->arrivals[i])
            drop_arrival(l, i);
    for (int i = 0; i < MAX_PENDING; i++)
        if (l->pending[i])
            drop_pending(l, i);
    close_fds(l);
    free(l);
}
