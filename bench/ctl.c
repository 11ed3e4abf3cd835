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
#include <time.h>
#include <unistd.h>

#include "bench/ctl.h"
#include "topo/base/alloc.h"

static uint64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

enum mn_err mn_ctl_listen(const struct mn_addr *addr, uint16_t port, int *fd, struct mn_diag *diag)
{
    struct sockaddr_storage ss;
    socklen_t len = mn_addr_sockaddr(addr, port, 0, &ss);
    char text[MN_ADDR_TEXT];
    int one = 1;

    *fd = socket(addr->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return mn_fail_errno(diag, "opening a socket");
    (void)setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(*fd, (struct sockaddr *)&ss, len) || listen(*fd, 16)) {
        enum mn_err err = mn_fail_errno(diag, "listening at %s port %u",
                                        mn_addr_format(addr, text, sizeof text), port);
        close(*fd);
        *fd = -1;
        return err;
    }
    return MN_OK;
}

/* Waits for events until the deadline. */
static enum mn_err wait_for(struct mn_ctl *ctl, short events, uint64_t deadline, const char *what,
                            struct mn_diag *diag)
{
    for (;;) {
        struct pollfd p = {.fd = ctl->fd, .events = events};
        uint64_t now = now_ms();
        int n = now < deadline ? poll(&p, 1, (int)(deadline - now)) : 0;
        if (n > 0)
            return MN_OK;
        if (n == 0)
            return mn_fail(diag, MN_ERR_TIMEOUT, "%s: no answer in time while %s", ctl->peer, what);
        if (errno != EINTR)
            return mn_fail_errno(diag, "%s: poll", ctl->peer);
    }
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
        return mn_fail_errno(diag, "%s", ctl->peer);
    enum mn_err err = wait_for(ctl, POLLOUT, deadline, "connecting", diag);
    if (!err && !getsockopt(ctl->fd, SOL_SOCKET, SO_ERROR, &error, &len) && error) {
        errno = error;
        err = mn_fail_errno(diag, "%s: is meshnet serve running there?", ctl->peer);
    }
    return err;
}

enum mn_err mn_ctl_connect(const char *host, uint16_t port, unsigned timeout_ms, struct mn_ctl *ctl,
                           struct mn_diag *diag)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list;
    uint64_t deadline = now_ms() + timeout_ms;
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

void mn_ctl_close(struct mn_ctl *ctl)
{
    if (ctl->fd >= 0)
        close(ctl->fd);
    ctl->fd = -1;
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

static enum mn_err write_all(struct mn_ctl *ctl, const void *data, size_t len, struct mn_diag *diag)
{
    uint64_t deadline = now_ms() + 10000;
    const char *at = data;

    while (len) {
        ssize_t n = send(ctl->fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            enum mn_err err = wait_for(ctl, POLLOUT, deadline, "sending", diag);
            if (err)
                return err;
        } else if (n < 0 && errno != EINTR) {
            mn_fail_errno(diag, "%s: the control connection broke", ctl->peer);
            return mn_fail(diag, MN_ERR_PEER_DEAD, "%s", diag->text);
        } else if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
    return MN_OK;
}

static enum mn_err read_all(struct mn_ctl *ctl, void *data, size_t len, uint64_t deadline,
                            struct mn_diag *diag)
{
    char *at = data;

    while (len) {
        ssize_t n = recv(ctl->fd, at, len, MSG_DONTWAIT);
        if (n == 0)
            return mn_fail(diag, MN_ERR_PEER_DEAD, "%s: closed the control connection", ctl->peer);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            enum mn_err err = wait_for(ctl, POLLIN, deadline, "waiting for its message", diag);
            if (err)
                return err;
        } else if (n < 0 && errno != EINTR) {
            mn_fail_errno(diag, "%s: the control connection broke", ctl->peer);
            return mn_fail(diag, MN_ERR_PEER_DEAD, "%s", diag->text);
        } else if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
    return MN_OK;
}

/* HELLO both ways is 8 bytes of magic and 16 random ones; then each side's proof. */
#define MAGIC "MNCTL\0\0\1"

static void proof(const uint8_t token[MN_KEY_SIZE], const uint8_t random[2][16], int server,
                  uint8_t mac[MN_MAC_SIZE])
{
    uint8_t text[1 + 32];

    text[0] = server ? 's' : 'c';
    memcpy(text + 1, random, 32);
    mn_mac128(token, text, sizeof text, mac);
}

enum mn_err mn_ctl_authenticate(struct mn_ctl *ctl, int server, const uint8_t token[MN_KEY_SIZE],
                                unsigned timeout_ms, struct mn_diag *diag)
{
    uint64_t deadline = now_ms() + timeout_ms;
    uint8_t random[2][16], hello[24] = MAGIC, theirs[24];
    uint8_t mac[MN_MAC_SIZE], got[MN_MAC_SIZE];
    int one = 1;
    enum mn_err err = mn_random(random[server], 16, diag);

    /* Both ends of a measurement start by a message: one that is held back counts as theirs. */
    (void)setsockopt(ctl->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    memcpy(hello + 8, random[server], 16);
    if (!err)
        err = write_all(ctl, hello, sizeof hello, diag);
    if (!err)
        err = read_all(ctl, theirs, sizeof theirs, deadline, diag);
    if (err)
        return err;
    if (!memcmp(theirs, MN_CTL_BUSY, 8))
        return mn_fail(diag, MN_ERR_FAILED,
                       "%s: is busy with another client; try again later, or start "
                       "it with --clients 2",
                       ctl->peer);
    if (memcmp(theirs, MAGIC, 8) != 0)
        return mn_fail(diag, MN_ERR_PROTO, "%s: does not speak this meshnet's control protocol",
                       ctl->peer);
    memcpy(random[!server], theirs + 8, 16);
    /* The client proves first: a stranger learns nothing from the server. */
    proof(token, random, server, mac);
    if (!server)
        err = write_all(ctl, mac, sizeof mac, diag);
    if (!err)
        err = read_all(ctl, got, sizeof got, deadline, diag);
    if (err == MN_ERR_PEER_DEAD)
        return mn_fail(diag, MN_ERR_AUTH,
                       "%s: refused this token; give both sides the same --token-file", ctl->peer);
    if (err)
        return err;
    uint8_t want[MN_MAC_SIZE];
    proof(token, random, !server, want);
    if (!mn_mac_equal(want, got, sizeof want))
        return mn_fail(diag, MN_ERR_AUTH,
                       "%s: has another token; give both sides the same --token-file", ctl->peer);
    return server ? write_all(ctl, mac, sizeof mac, diag) : MN_OK;
}

enum mn_err mn_ctl_send(struct mn_ctl *ctl, cJSON *message, struct mn_diag *diag)
{
    char *text = cJSON_PrintUnformatted(message);
    size_t len = text ? strlen(text) : 0;
    enum mn_err err;

    cJSON_Delete(message);
    if (!len || len > MN_CTL_FRAME_MAX) {
        err = mn_fail(diag, MN_ERR_INTERNAL, "control message of %zu bytes", len);
    } else {
        /* In one piece: a second packet would wait for the acknowledgement of the first. */
        uint8_t *frame = mn_zalloc(4 + len);
        for (int i = 0; i < 3; i++)
            frame[i] = (uint8_t)(len >> 8 * i);
        memcpy(frame + 4, text, len);
        err = write_all(ctl, frame, 4 + len, diag);
        free(frame);
    }
    free(text);
    return err;
}

enum mn_err mn_ctl_receive(struct mn_ctl *ctl, unsigned timeout_ms, cJSON **message,
                           struct mn_diag *diag)
{
    uint64_t deadline = now_ms() + timeout_ms;
    uint8_t header[4];

    *message = NULL;
    enum mn_err err = read_all(ctl, header, sizeof header, deadline, diag);
    if (err)
        return err;
    size_t len = header[0] | (size_t)header[1] << 8 | (size_t)header[2] << 16;
    if (!len || len > MN_CTL_FRAME_MAX || header[3])
        return mn_fail(diag, MN_ERR_PROTO, "%s: control message of %zu bytes", ctl->peer, len);
    char *text = mn_zalloc(len + 1);
    err = read_all(ctl, text, len, deadline, diag);
    if (!err && !(*message = cJSON_Parse(text)))
        err = mn_fail(diag, MN_ERR_PROTO, "%s: control message is not JSON", ctl->peer);
    free(text);
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(*message, "error");
    if (!err && cJSON_IsString(error)) {
        err = mn_fail(diag, MN_ERR_FAILED, "%s: %.800s", ctl->peer, error->valuestring);
        cJSON_Delete(*message);
        *message = NULL;
    }
    return err;
}

int mn_ctl_gone(const struct mn_ctl *ctl)
{
    char byte;
    ssize_t n = recv(ctl->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

enum mn_err mn_ctl_number(const cJSON *message, const char *key, double min, double max,
                          double *value, struct mn_diag *diag)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(message, key);

    if (!cJSON_IsNumber(item) || !(item->valuedouble >= min && item->valuedouble <= max))
        return mn_fail(diag, MN_ERR_PROTO, "control message: '%s' is missing or out of range", key);
    *value = item->valuedouble;
    return MN_OK;
}
