#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet/ctl_greet.h"
#include "fleet/ctl_impl.h"
#include "plugin/reach.h"
#include "topo/mesh_file.h"

#define BACKLOG  4096 /* the kernel takes its own limit where that is lower */
#define RETRY_MS 20

static enum mn_err listen_at(const struct mn_addr *addr, uint16_t port, int *fd,
                             struct mn_diag *diag)
{
    struct sockaddr_storage ss;
    socklen_t len = mn_addr_sockaddr(addr, port, 0, &ss);
    char text[MN_ADDR_TEXT];
    int one = 1;

    *fd = socket(addr->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return mn_fail_errno(diag, "opening a socket");
    (void)setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(*fd, (struct sockaddr *)&ss, len) || listen(*fd, BACKLOG)) {
        int in_use = errno == EADDRINUSE;
        enum mn_err err = mn_fail_errno(diag, "listening at %s port %u",
                                        mn_addr_format(addr, text, sizeof text), port);
        close(*fd);
        *fd = -1;
        return in_use ? MN_ERR_EXISTS : err;
    }
    return MN_OK;
}

enum mn_err mn_ctl_listen(const struct mn_addr *addr, uint16_t port, int *fd, struct mn_diag *diag)
{
    struct mn_settings s;
    char text[MN_ADDR_TEXT];
    enum mn_err err = MN_OK;

    *fd = -1;
    if (!port && !mn_addr_is_loopback(addr))
        err = mn_settings_in_force(&s, diag);
    if (err)
        return err;
    if (port || mn_addr_is_loopback(addr) || !s.port_range.first)
        return listen_at(addr, port, fd, diag);
    for (int p = s.port_range.first; p <= s.port_range.last; p++) {
        err = listen_at(addr, (uint16_t)p, fd, diag);
        if (err != MN_ERR_EXISTS)
            return err;
    }
    return mn_fail(diag, MN_ERR_SYS,
                   "all ports of plugin.port_range %d-%d are in use at %s; widen it "
                   "(MESHNET_PORT_RANGE), or end what holds its ports: ss -ltnp",
                   s.port_range.first, s.port_range.last, mn_addr_format(addr, text, sizeof text));
}

/* Waits for events until the deadline. */
static enum mn_err wait_for(struct mn_ctl *ctl, short events, uint64_t deadline, const char *what,
                            struct mn_diag *diag)
{
    for (;;) {
        struct pollfd p = {.fd = ctl->fd, .events = events};
        uint64_t now = mn_now_ms();
        int n = now < deadline ? poll(&p, 1, (int)(deadline - now)) : 0;
        if (n > 0)
            return MN_OK;
        if (n == 0)
            return mn_fail(diag, MN_ERR_TIMEOUT, "%s: no answer in time while %s", ctl->peer, what);
        if (errno != EINTR)
            return mn_fail_errno(diag, "%s: poll", ctl->peer);
    }
}

/* error: of connect(), 0 = there was no answer in time. */
static enum mn_err not_connected(const struct mn_ctl *ctl, const struct addrinfo *ai, int error,
                                 struct mn_diag *diag)
{
    char what[160] = "no answer in time while connecting", why[256];
    struct mn_addr remote;
    int port = mn_addr_from_sockaddr(ai->ai_addr, &remote);

    if (error == ECONNREFUSED)
        return mn_fail(diag, MN_ERR_SYS,
                       "%s: connection refused: is meshnet serve running there? Its host answers, "
                       "unless a firewall rejects the port",
                       ctl->peer);
    if (error)
        mn_reach_error(error, what, sizeof what);
    if (error && error != EHOSTUNREACH && error != ETIMEDOUT)
        return mn_fail(diag, MN_ERR_SYS, "%s: %s", ctl->peer, what);
    return mn_fail(diag, error ? MN_ERR_SYS : MN_ERR_TIMEOUT, "%s: %s; %s", ctl->peer, what,
                   mn_reach_why(NULL, &remote, (uint16_t)port, why, sizeof why));
}

static enum mn_err connect_one(const struct addrinfo *ai, uint64_t deadline, struct mn_ctl *ctl,
                               struct mn_diag *diag)
{
    int error = 0;
    socklen_t len = sizeof error;

    ctl->fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (ctl->fd < 0)
        return mn_fail_errno(diag, "opening a socket");
    if (connect(ctl->fd, ai->ai_addr, ai->ai_addrlen) && errno != EINPROGRESS)
        return not_connected(ctl, ai, errno, diag);
    enum mn_err err = wait_for(ctl, POLLOUT, deadline, "connecting", diag);
    if (err == MN_ERR_TIMEOUT)
        return not_connected(ctl, ai, 0, diag);
    if (!err && !getsockopt(ctl->fd, SOL_SOCKET, SO_ERROR, &error, &len) && error)
        err = not_connected(ctl, ai, error, diag);
    return err;
}

enum mn_err mn_ctl_connect(const char *host, uint16_t port, unsigned timeout_ms, struct mn_ctl *ctl,
                           struct mn_diag *diag)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list;
    uint64_t deadline = mn_now_ms() + timeout_ms;
    char service[8];
    enum mn_err err = MN_ERR_NOTFOUND;

    ctl->fd = -1;
    snprintf(service, sizeof service, "%u", port);
    snprintf(ctl->peer, sizeof ctl->peer, "peer %.90s port %u", host, port);
    int rc = getaddrinfo(host, service, &hints, &list);
    if (rc)
        return mn_fail(diag, MN_ERR_NOTFOUND, "%s: %s", ctl->peer, gai_strerror(rc));
    for (const struct addrinfo *ai = list; ai && err; ai = ai->ai_next) {
        mn_ctl_close(ctl);
        err = connect_one(ai, deadline, ctl, diag);
    }
    freeaddrinfo(list);
    if (err)
        mn_ctl_close(ctl);
    return err;
}

void mn_ctl_drop(struct mn_ctl *ctl)
{
    if (ctl->fd >= 0)
        close(ctl->fd);
    ctl->fd = -1;
    mn_wipe(&ctl->in, sizeof ctl->in);
    mn_wipe(&ctl->out, sizeof ctl->out);
}

void mn_ctl_close(struct mn_ctl *ctl)
{
    mn_ctl_finish(ctl);
    mn_ctl_drop(ctl);
}

void mn_ctl_watch(const struct mn_ctl *ctl)
{
    int one = 1, seconds = 2, probes = 3;
    unsigned silence_ms = 8000;

    (void)setsockopt(ctl->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    (void)setsockopt(ctl->fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    (void)setsockopt(ctl->fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    (void)setsockopt(ctl->fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    (void)setsockopt(ctl->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
}

/* After a call that gave errno: waits where it would have blocked. */
static enum mn_err try_again(struct mn_ctl *ctl, short events, uint64_t deadline, const char *what,
                             struct mn_diag *diag)
{
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return wait_for(ctl, events, deadline, what, diag);
    if (errno == EINTR)
        return MN_OK;
    mn_fail_errno(diag, "%s: the control connection broke", ctl->peer);
    return mn_fail(diag, MN_ERR_PEER_DEAD, "%s", diag->text);
}

enum mn_err mn_ctl_write(struct mn_ctl *ctl, const void *data, size_t len, struct mn_diag *diag)
{
    uint64_t deadline = mn_now_ms() + 10000;
    const char *at = data;

    while (len) {
        ssize_t n = send(ctl->fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        enum mn_err err = n < 0 ? try_again(ctl, POLLOUT, deadline, "sending", diag) : MN_OK;
        if (err)
            return err;
        at += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return MN_OK;
}

enum mn_err mn_ctl_read(struct mn_ctl *ctl, void *data, size_t len, uint64_t deadline, size_t *got,
                        struct mn_diag *diag)
{
    size_t none;
    char *at = data;

    got = got ? got : &none;
    for (*got = 0; *got < len;) {
        ssize_t n = recv(ctl->fd, at + *got, len - *got, MSG_DONTWAIT);
        if (n == 0)
            return mn_fail(diag, MN_ERR_PEER_DEAD,
                           "%s: the control connection ended without a word: its process died, or "
                           "something on the way cut it",
                           ctl->peer);
        enum mn_err err =
            n < 0 ? try_again(ctl, POLLIN, deadline, "waiting for its message", diag) : MN_OK;
        if (err)
            return err;
        *got += n > 0 ? (size_t)n : 0;
    }
    return MN_OK;
}

enum mn_err mn_ctl_authenticate(struct mn_ctl *ctl, int server, const uint8_t token[MN_KEY_SIZE],
                                unsigned timeout_ms, struct mn_diag *diag)
{
    uint64_t deadline = mn_now_ms() + timeout_ms;
    struct mn_ctl_greeting greeting;
    enum mn_err err = mn_ctl_greet_begin(ctl, server, &greeting, diag);

    while (!err && (err = mn_ctl_greet(ctl, &greeting, token, diag)) == MN_ERR_AGAIN)
        err = wait_for(ctl, POLLIN, deadline, "greeting", diag);
    return err || !server ? err : mn_ctl_greet_end(ctl, &greeting, token, 1, diag);
}

enum mn_err mn_ctl_reach(const char *host, uint16_t port, const uint8_t token[MN_KEY_SIZE],
                         unsigned timeout_ms, struct mn_ctl *ctl, struct mn_diag *diag)
{
    uint64_t deadline = mn_now_ms() + timeout_ms;

    for (;;) {
        enum mn_err err = mn_ctl_connect(host, port, timeout_ms, ctl, diag);
        if (err)
            return err;
        err = mn_ctl_authenticate(ctl, 0, token, timeout_ms, diag);
        if (!err)
            return MN_OK;
        mn_ctl_close(ctl);
        uint64_t now = mn_now_ms();
        if (err != MN_ERR_PEER_DEAD || now + RETRY_MS >= deadline)
            return err;
        poll(NULL, 0, RETRY_MS);
        timeout_ms = (unsigned)(deadline - now - RETRY_MS);
    }
}
