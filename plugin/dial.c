#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/conn.h"
#include "plugin/reach.h"

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif
#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* Linux 6.15 */
#endif
#define KEEP_S     4    /* between probes of a control connection */
#define RTO_MAX_MS 2000 /* a link that comes back is in use again so soon */

static void set_int(int fd, int level, int option, int value)
{
    /* Best effort: a kernel without the option still moves the bytes. */
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

void mn_socket_bind_ahead(int fd, int family)
{
    if (family == AF_INET6)
        set_int(fd, IPPROTO_IPV6, IPV6_FREEBIND, 1);
    else
        set_int(fd, IPPROTO_IP, IP_FREEBIND, 1);
}

void mn_socket_tune(int fd, unsigned silence_ms)
{
    /* Keepalive finds a silent link when nothing is on its way, the user timeout when something is.
     * With both set the kernel gives up at the first probe past the user timeout, so the timeout is
     * a probe interval short of the bound (Linux tcp_timer.c, tcp_keepalive_timer). Before Linux
     * 6.15 the pauses between retransmissions double, up to 2 min: after an outage it may take as
     * long again until the link is tried. */
    int interval = (int)(silence_ms / 12000);

    interval = interval < 1 ? 1 : interval;
    set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, interval);
    set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval);
    set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, 12);
    set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)silence_ms - interval * 1000);
    set_int(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, RTO_MAX_MS);
}

void mn_socket_keep(int fd)
{
    set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_S);
    set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_S);
    set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, 127); /* the most there is */
    set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
    set_int(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, RTO_MAX_MS);
}

static int read_info(int fd, struct tcp_info *info)
{
    socklen_t len = sizeof *info;

    return !getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len);
}

int mn_socket_is_silent(int fd)
{
    struct tcp_info info;

    return read_info(fd, &info) && info.tcpi_last_ack_recv > (2 * KEEP_S + 1) * 1000;
}

int mn_socket_has_ended(int fd)
{
    struct tcp_info info;

    return read_info(fd, &info) && info.tcpi_state == TCP_CLOSE_WAIT;
}

void mn_socket_reset(int fd)
{
    struct linger at_once = {.l_onoff = 1};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}

/* Without the option a closed socket's retransmissions end after the eighth, and as soon as their
 * pauses are RTO_MAX_MS long (Linux tcp_timer.c, tcp_orphan_retries). */
void mn_socket_last_words(int fd, unsigned ms)
{
    set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)ms);
}

/* What errno says of a connect(). */
static enum mn_err not_connected(struct mn_diag *diag)
{
    if (errno == ECONNREFUSED)
        return mn_fail(
            diag, MN_ERR_PEER_DEAD,
            "connection refused: nobody listens there any more; the log of the peer says "
            "why it ended, unless a firewall rejects the port");
    char text[160];
    return mn_fail(diag, MN_ERR_LINK_DEAD, "%s", mn_reach_error(errno, text, sizeof text));
}

enum mn_err mn_dial(const struct mn_local *local, const struct mn_addr *remote, uint16_t port,
                    int traffic_class, int *fd, struct mn_diag *diag)
{
    struct sockaddr_storage ss;
    char text[MN_ADDR_TEXT];
    int family = remote->family == AF_INET6 ? AF_INET6 : AF_INET;

    *fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return mn_fail_errno(diag, "opening a socket (see ulimit -n)");
    /* The connection is complete for the peer's kernel when the first frame is there, or a fifth of
     * a second later: the peer then never sees it silent, as it sees strangers. */
    set_int(*fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, 1);
    if (traffic_class >= 0)
        set_int(*fd, family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP,
                family == AF_INET6 ? IPV6_TCLASS : IP_TOS, traffic_class);
    if (local) {
        socklen_t len = mn_addr_sockaddr(&local->addr, 0, local->ifindex, &ss);
        set_int(*fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
        /* Two cables in one subnet: the routing table knows one, the device binding both. */
        if (!mn_addr_equal(&local->addr, remote))
            (void)setsockopt(*fd, SOL_SOCKET, SO_BINDTODEVICE, local->netdev,
                             (socklen_t)strlen(local->netdev));
        if (bind(*fd, (struct sockaddr *)&ss, len)) {
            int error = errno;
            close(*fd);
            *fd = -1;
            return mn_fail(diag, MN_ERR_LINK_DEAD, "binding to %s on %s: %s",
                           mn_addr_format(&local->addr, text, sizeof text), local->netdev,
                           strerror(error));
        }
    }
    socklen_t len = mn_addr_sockaddr(remote, port, local ? local->ifindex : 0, &ss);
    if (connect(*fd, (struct sockaddr *)&ss, len) && errno != EINPROGRESS) {
        enum mn_err err = not_connected(diag);
        close(*fd);
        *fd = -1;
        return err;
    }
    return MN_OK;
}

enum mn_err mn_dial_done(int fd, struct mn_diag *diag)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof ss;
    int error = 0;
    socklen_t error_len = sizeof error;

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len))
        return mn_fail_errno(diag, "asking for a connection's state");
    if (error) {
        errno = error;
        return not_connected(diag);
    }
    if (!getpeername(fd, (struct sockaddr *)&ss, &len))
        return MN_OK;
    if (errno == ENOTCONN)
        return MN_ERR_AGAIN;
    return mn_fail_errno(diag, "connecting");
}
