#include "fleet/relay/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet/relay/engine.h"
#include "topo/base/log.h"

#define BACKLOG 4096

static void fill_state(void *ctx, struct mn_out *out)
{
    mn_relay_state(ctx, out);
}

/* --- listening -------------------------------------------------------------------------------- */

static enum mn_err listen_at(struct mn_relay *relay, const struct mn_local *local,
                             struct mn_diag *diag)
{
    uint16_t port = (uint16_t)relay->config.settings.relay_port;
    struct sockaddr_storage ss;
    socklen_t len = mn_addr_sockaddr(&local->addr, port, local->ifindex, &ss);
    char text[MN_ADDR_TEXT];
    int one = 1, fd;

    fd = socket(local->addr.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return mn_fail_errno(diag, "opening a socket (see ulimit -n)");
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    mn_socket_bind_ahead(fd, local->addr.family);
    if (bind(fd, (struct sockaddr *)&ss, len) || listen(fd, BACKLOG)) {
        int in_use = errno == EADDRINUSE;
        enum mn_err err =
            mn_fail_errno(diag, "listening at %s port %u on %s%s",
                          mn_addr_format(&local->addr, text, sizeof text), port, local->netdev,
                          in_use ? " (another meshnet relayd? relay.port says which port)" : "");
        close(fd);
        return err;
    }
    relay->fds[relay->n_fds++] = fd;
    return MN_OK;
}

static enum mn_err watch_listeners(struct mn_relay *relay, struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (int i = 0; i < relay->n_fds && !err; i++)
        err = relayd_watch(relay, relay->fds[i], EPOLLIN, &relay->listening, diag);
    return err;
}

/* One that waits in accept() would hold up the whole relay: systemd hands over such. */
static enum mn_err adopt(struct mn_relay *relay, int fd, struct mn_diag *diag)
{
    int listens = 0, flags = fcntl(fd, F_GETFL);
    socklen_t len = sizeof listens;

    if (flags < 0 || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) ||
        fcntl(fd, F_SETFL, flags | O_NONBLOCK))
        return mn_fail_errno(diag, "descriptor %d, which was handed over", fd);
    if (!listens)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "descriptor %d, which was handed over, does not listen: ListenStream= makes "
                       "one that does",
                       fd);
    relay->fds[relay->n_fds++] = fd;
    return MN_OK;
}

/* has: of which families there is one. */
static enum mn_err place(struct mn_relay *relay, int fd, int has[2], struct mn_diag *diag)
{
    int domain = 0;
    socklen_t len = sizeof domain;

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len))
        return mn_fail_errno(diag, "descriptor %d, which was handed over", fd);
    int inet = domain == AF_INET || domain == AF_INET6;
    has[domain == AF_INET6] |= inet;
    if (inet && relay->n_fds < RELAYD_FDS)
        return adopt(relay, fd, diag);
    if (domain != AF_UNIX || relay->local_fd >= 0)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "descriptor %d, which was handed over, is none of at most %d TCP "
                       "sockets and a local one",
                       fd, RELAYD_FDS);
    relay->local_fd = fd;
    return MN_OK;
}

static enum mn_err take_fds(struct mn_relay *relay, int has[2], struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (int i = 0; i < relay->plan->n_fds; i++) {
        err = err ? err : place(relay, relay->plan->fds[i], has, diag);
        if (err)
            close(relay->plan->fds[i]);
    }
    return err;
}

static enum mn_err open_doors(struct mn_relay *relay, const int has[2], struct mn_diag *diag)
{
    const struct mn_device *device = &relay->config.devices[0];
    enum mn_err err = MN_OK;

    for (int i = 0; i < device->n_locals && !err; i++)
        if (!has[device->locals[i].addr.family == AF_INET6])
            err = listen_at(relay, &device->locals[i], diag);
    if (!err)
        err = watch_listeners(relay, diag);
    if (err || (relay->local_fd < 0 && !*relay->plan->socket))
        return err;
    const struct mn_local_plan local = {.path = relay->plan->socket,
                                        .fd = relay->local_fd,
                                        .cluster_key = relay->config.cluster_key,
                                        .node = (uint32_t)relay->self,
                                        .users = relay->plan->users,
                                        .n_users = relay->plan->n_users,
                                        .anyone = relay->plan->anyone,
                                        .state = fill_state,
                                        .ctx = relay};
    relay->local_fd = -1;
    err = mn_relay_local_open(&local, &relay->local, diag);
    if (!err)
        err = relayd_watch(relay, mn_relay_local_fd(relay->local), EPOLLIN, &relay->at_local, diag);
    return err;
}

/* --- life ------------------------------------------------------------------------------------- */

static enum mn_err check(const struct mn_config *config, struct mn_diag *diag)
{
    if (!config->has_key)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "the relay needs a cluster key, by which neighbours know each other: "
                       "plugin.key_file in the mesh file, or MESHNET_KEY_FILE");
    if (!config->relay)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "the relay needs a mesh file that has this node, for the ways between the "
                       "others; see meshnet discover");
    if (!config->n_devices || !config->devices[0].n_locals)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "node %s has no cable with an address: there is nothing to relay",
                       config->node);
    return MN_OK;
}

/* Each flow has some sockets; what a shell gives is for less. */
static void take_descriptors(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files))
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

static enum mn_err open_all(struct mn_relay *relay, struct mn_diag *diag)
{
    int has[2] = {0, 0};
    /* First of all: what was handed over belongs to the relay, also on errors. */
    enum mn_err err = take_fds(relay, has, diag);

    if (!err)
        err = check(&relay->config, diag);
    if (!err)
        err = mn_random(&relay->flows.salt, sizeof relay->flows.salt, diag);
    if (!err)
        err = mn_pool_open(relay->config.settings.relay_buffers, &relay->pool, diag);
    relay->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!err && relay->epoll < 0)
        err = mn_fail_errno(diag, "opening an epoll instance");
    if (!err)
        err = open_doors(relay, has, diag);
    return err;
}

enum mn_err mn_relay_open(const struct mn_config *config, const struct mn_relay_plan *plan,
                          struct mn_relay **out, struct mn_diag *diag)
{
    struct mn_relay *relay = calloc(1, sizeof *relay);

    if (!relay)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for the relay");
    relay->config = *config;
    relay->config.sleeps = relay->config.unpolled = 1;
    relay->bulk = relay->config;
    relay->bulk.pushes = 1;
    relay->plan = plan;
    if (config->relay) {
        relay->mesh = &config->relay->mesh;
        relay->self = config->relay->node;
        relay->digest = config->relay->digest;
    }
    relay->listening.what = RELAYD_LISTENER;
    relay->at_local.what = RELAYD_LOCAL;
    relay->at_stop.what = RELAYD_STOP;
    relay->epoll = relay->local_fd = -1;
    relay->born_ms = relay->now_ms = mn_now_ms();
    take_descriptors();
    mn_arrivals_open(&relay->arrivals);
    enum mn_err err = open_all(relay, diag);
    if (err) {
        mn_relay_close(relay);
        return err;
    }
    MN_INFO("relay of node %s: port %d at %d addresses, %zu MiB of buffers and no more%s",
            config->node, config->settings.relay_port, relay->n_fds, relay->pool.size >> 20,
            relay->pool.locked ? "" : ", not locked into memory (ulimit -l)");
    *out = relay;
    return MN_OK;
}

void mn_relay_close(struct mn_relay *relay)
{
    if (!relay)
        return;
    for (struct relayd_line *line = relay->lines; line; line = line->next)
        relayd_line_fail(line, "the relay is ended");
    relayd_reap(relay);
    mn_relay_local_close(relay->local);
    mn_arrivals_close(&relay->arrivals);
    for (int i = 0; i < relay->n_fds; i++)
        close(relay->fds[i]);
    if (relay->local_fd >= 0)
        close(relay->local_fd);
    if (relay->epoll >= 0)
        close(relay->epoll);
    mn_pool_close(&relay->pool);
    mn_wipe(relay->config.cluster_key, sizeof relay->config.cluster_key);
    mn_wipe(relay->bulk.cluster_key, sizeof relay->bulk.cluster_key);
    free(relay);
}
