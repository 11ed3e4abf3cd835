#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/conn.h"

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

static void set_int(int fd, int level, int option, int value)
{
    /* Best effort: a kernel without the option still moves the bytes. */
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

void mn_socket_tune(int fd, unsigned silence_ms)
{
    /* Keepalive finds a silent link when nothing is on its way, the user timeout when something is.
     * With both set the kernel gives up at the first probe past the user timeout, so the timeout is
     * a probe interval short of the bound (Linux tcp_timer.c, tcp_keepalive_timer). */
    int idle = (int)(silence_ms / 4000), interval = (int)(silence_ms / 8000);

    idle = idle < 1 ? 1 : idle;
    interval = interval < 1 ? 1 : interval;
    set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle);
    set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval);
    set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, 8);
    set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)silence_ms - interval * 1000);
}

enum mn_err mn_dial(const struct mn_local *local, const struct mn_addr *remote, uint16_t port,
                    int traffic_class, int *fd, struct mn_diag *diag)
{
    struct sockaddr_storage ss;
    char text[MN_ADDR_TEXT];
    int family = remote->family == AF_INET6 ? AF_INET6 : AF_INET;
    struct mn_addr bare = *remote;

    bare.prefix = -1;
    *fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return mn_fail_errno(diag, "opening a socket (see ulimit -n)");
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
            enum mn_err err =
                mn_fail_errno(diag, "binding to %s on %s",
                              mn_addr_format(&local->addr, text, sizeof text), local->netdev);
            close(*fd);
            *fd = -1;
            return err;
        }
    }
    socklen_t len = mn_addr_sockaddr(remote, port, local ? local->ifindex : 0, &ss);
    if (connect(*fd, (struct sockaddr *)&ss, len) && errno != EINPROGRESS) {
        enum mn_err err = mn_fail_errno(diag, "connecting to %s port %u",
                                        mn_addr_format(&bare, text, sizeof text), port);
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
        return mn_fail_errno(diag, "connecting");
    }
    if (!getpeername(fd, (struct sockaddr *)&ss, &len))
        return MN_OK;
    if (errno == ENOTCONN)
        return MN_ERR_AGAIN;
    return mn_fail_errno(diag, "connecting");
}
