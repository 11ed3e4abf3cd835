/* Asking them: UDP to the discard port, which the kernel there answers that nobody listens, and
 * ICMP echo, which many firewalls let in where they do not the other. */
#include <time.h> /* linux/errqueue.h wants it */

#include <linux/errqueue.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet/apply_far.h"
#include "topo/base/clock.h"

#define DISCARD_PORT 9
#define AGAIN_MS     1000 /* between two questions to one that is silent */
#define TRACE_MS     1000 /* for one round of how far packets get, of two */
#define TRACE_HOPS   16
#define TRACED       8 /* in a round: kernels answer few such packets a second */

/* Sockets, of IPv4 and IPv6. */
struct asker {
    const struct mn_mesh *mesh;
    struct mn_far_check *checks;
    size_t n;
    int udp[2], icmp[2]; /* -1: cannot be had */
    int plain[2]; /* its icmp is a user's: the kernel sets who asks, and hands on no header */
};

static int is_six(const struct mn_addr *addr)
{
    return addr->family == AF_INET6;
}

static void open_sockets(struct asker *a)
{
    int one = 1;
    struct icmp6_filter echoes;

    for (int six = 0; six < 2; six++) {
        int family = six ? AF_INET6 : AF_INET, flags = SOCK_CLOEXEC | SOCK_NONBLOCK;
        a->udp[six] = socket(family, SOCK_DGRAM | flags, 0);
        if (a->udp[six] >= 0)
            (void)setsockopt(a->udp[six], six ? IPPROTO_IPV6 : IPPROTO_IP,
                             six ? IPV6_RECVERR : IP_RECVERR, &one, sizeof one);
        int protocol = six ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
        a->icmp[six] = socket(family, SOCK_RAW | flags, protocol);
        a->plain[six] = a->icmp[six] < 0;
        if (a->plain[six]) /* of those in net.ipv4.ping_group_range */
            a->icmp[six] = socket(family, SOCK_DGRAM | flags, protocol);
    }
    ICMP6_FILTER_SETBLOCKALL(&echoes);
    ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &echoes);
    if (a->icmp[1] >= 0 && !a->plain[1])
        (void)setsockopt(a->icmp[1], IPPROTO_ICMPV6, ICMP6_FILTER, &echoes, sizeof echoes);
}

static void close_sockets(struct asker *a)
{
    for (int six = 0; six < 2; six++) {
        if (a->udp[six] >= 0)
            close(a->udp[six]);
        if (a->icmp[six] >= 0)
            close(a->icmp[six]);
    }
}

/* --- questions -------------------------------------------------------------------------------- */

static void send_udp(const struct asker *a, const struct mn_far_check *c)
{
    struct sockaddr_storage to;
    socklen_t size = mn_addr_sockaddr(&c->far, DISCARD_PORT, 0, &to);
    int fd = a->udp[is_six(&c->far)];

    /* The first call may bring the error of a packet before. */
    if (sendto(fd, "", 0, MSG_NOSIGNAL, (struct sockaddr *)&to, size) < 0)
        (void)!sendto(fd, "", 0, MSG_NOSIGNAL, (struct sockaddr *)&to, size);
}

static uint16_t sum_of(const uint8_t *bytes, size_t size)
{
    unsigned sum = 0;

    for (size_t i = 0; i + 1 < size; i += 2)
        sum += (unsigned)bytes[i] << 8 | bytes[i + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t) ~(sum + (sum >> 16));
}

/* An echo's eight bytes: type, code, checksum, whose it is, which one it is. */
static void send_icmp(const struct asker *a, size_t i)
{
    const struct mn_far_check *c = &a->checks[i];
    int six = is_six(&c->far);
    unsigned id = (unsigned)getpid();
    uint8_t echo[8] = {six ? ICMP6_ECHO_REQUEST : ICMP_ECHO,
                       0,
                       0,
                       0,
                       (uint8_t)(id >> 8),
                       (uint8_t)id,
                       (uint8_t)(i >> 8),
                       (uint8_t)i};
    struct sockaddr_storage to;
    socklen_t size = mn_addr_sockaddr(&c->far, 0, 0, &to);
    uint16_t sum = sum_of(echo, sizeof echo); /* of IPv6 the kernel puts its own there */

    echo[2] = (uint8_t)(sum >> 8);
    echo[3] = (uint8_t)sum;
    if (a->icmp[six] >= 0)
        (void)!sendto(a->icmp[six], echo, sizeof echo, MSG_NOSIGNAL, (struct sockaddr *)&to, size);
}

/* --- answers ---------------------------------------------------------------------------------- */

static struct mn_far_check *check_of(const struct asker *a, const struct mn_addr *far)
{
    for (size_t i = 0; i < a->n; i++)
        if (mn_addr_equal(&a->checks[i].far, far))
            return &a->checks[i];
    return NULL;
}

static int has_addr(const struct mn_mesh_node *node, const struct mn_addr *addr)
{
    for (size_t i = 0; i < node->n_nics; i++)
        for (size_t k = 0; k < node->nics[i].n_addrs; k++)
            if (mn_addr_equal(&node->nics[i].addrs[k], addr))
                return 1;
    return 0;
}

/* An ICMP error that a packet to c met with, from the node that has the address. */
static void take_error(const struct asker *a, struct mn_far_check *c,
                       const struct sock_extended_err *e, const struct mn_addr *from)
{
    int six = e->ee_origin == SO_EE_ORIGIN_ICMP6;
    int late = six ? e->ee_type == ICMP6_TIME_EXCEEDED : e->ee_type == ICMP_TIME_EXCEEDED;

    /* Whatever it says of the port, it was got to. */
    if (!late && has_addr(&a->mesh->nodes[c->node], from))
        c->answer = MN_FAR_ANSWERS;
    for (size_t i = 0; i < c->n_path && c->answer != MN_FAR_ANSWERS; i++) {
        if (!has_addr(&a->mesh->nodes[c->path[i]], from))
            continue;
        c->got = c->got > i + 1 ? c->got : i + 1;
        if (!late) {
            c->answer = MN_FAR_REFUSED;
            c->by = c->path[i];
        }
    }
}

static void read_errors(const struct asker *a, int fd)
{
    struct sockaddr_storage to;
    char space[512];

    for (;;) {
        struct msghdr msg = {.msg_name = &to,
                             .msg_namelen = sizeof to,
                             .msg_control = space,
                             .msg_controllen = sizeof space};
        struct mn_addr far, from;
        if (recvmsg(fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
            return;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
            const struct sock_extended_err *e = (const void *)CMSG_DATA(c);
            if (!((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
                  (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR)) ||
                (e->ee_origin != SO_EE_ORIGIN_ICMP && e->ee_origin != SO_EE_ORIGIN_ICMP6) ||
                mn_addr_from_sockaddr((struct sockaddr *)&to, &far) < 0 ||
                mn_addr_from_sockaddr(SO_EE_OFFENDER(e), &from) < 0)
                continue;
            struct mn_far_check *check = check_of(a, &far);
            if (check)
                take_error(a, check, e, &from);
        }
    }
}

static void read_echoes(const struct asker *a, int six)
{
    uint8_t packet[256];
    struct sockaddr_storage from;
    struct mn_addr addr;
    unsigned id = (unsigned)getpid() & 0xffff;

    for (;;) {
        socklen_t size = sizeof from;
        ssize_t n = recvfrom(a->icmp[six], packet, sizeof packet, MSG_DONTWAIT,
                             (struct sockaddr *)&from, &size);
        if (n < 0)
            return;
        const uint8_t *echo = packet;
        size_t head = !six && !a->plain[six] && n ? (size_t)(packet[0] & 15) * 4 : 0;
        if ((size_t)n < head + 8)
            continue;
        echo += head;
        struct mn_far_check *c =
            mn_addr_from_sockaddr((struct sockaddr *)&from, &addr) < 0 ? NULL : check_of(a, &addr);
        if (c && echo[0] == (six ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY) &&
            (a->plain[six] || ((unsigned)echo[4] << 8 | echo[5]) == id))
            c->answer = MN_FAR_ANSWERS;
    }
}

static void listen_until(const struct asker *a, double when)
{
    struct pollfd p[] = {{.fd = a->udp[0]},
                         {.fd = a->udp[1]},
                         {.fd = a->icmp[0], .events = POLLIN},
                         {.fd = a->icmp[1], .events = POLLIN}};
    double left = when - mn_seconds();

    if (poll(p, 4, left > 0 ? (int)(left * 1e3) + 1 : 0) <= 0)
        return;
    for (int six = 0; six < 2; six++) {
        if (p[six].revents)
            read_errors(a, a->udp[six]);
        if (p[2 + six].revents)
            read_echoes(a, six);
    }
}

static size_t not_answered(const struct asker *a)
{
    size_t n = 0;

    for (size_t i = 0; i < a->n; i++)
        n += a->checks[i].answer != MN_FAR_ANSWERS;
    return n;
}

static void ask_until(const struct asker *a, double deadline)
{
    double again = 0;

    while (not_answered(a) && mn_seconds() < deadline) {
        if (mn_seconds() >= again) {
            for (size_t i = 0; i < a->n; i++)
                if (a->checks[i].answer != MN_FAR_ANSWERS) {
                    send_udp(a, &a->checks[i]);
                    send_icmp(a, i);
                }
            again = mn_seconds() + AGAIN_MS / 1e3;
        }
        listen_until(a, again < deadline ? again : deadline);
    }
}

/* --- how far ---------------------------------------------------------------------------------- */

static void set_hops(const struct asker *a, int six, int hops)
{
    (void)setsockopt(a->udp[six], six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_UNICAST_HOPS : IP_TTL,
                     &hops, sizeof hops);
}

/* A node that is to pass on a packet which may go no further says so, before it asks its firewall.
 */
static void trace(const struct asker *a)
{
    for (int round = 0; round < 2; round++) {
        double until = mn_seconds() + TRACE_MS / 1e3;
        size_t picked[TRACED], traced = mn_far_to_trace(a->checks, a->n, TRACED, picked);
        for (size_t i = 0; i < traced; i++) {
            struct mn_far_check *c = &a->checks[picked[i]];
            c->traced = 1;
            for (int h = (int)c->got + 1; h <= (int)c->n_path && h <= TRACE_HOPS; h++) {
                set_hops(a, is_six(&c->far), h);
                send_udp(a, c);
            }
        }
        while (traced && mn_seconds() < until)
            listen_until(a, until);
    }
    mn_far_share(a->checks, a->n);
}

enum mn_err mn_far_checks_ask(const struct mn_mesh *mesh, struct mn_far_check *checks, size_t n,
                              unsigned ms, struct mn_diag *diag)
{
    struct asker a = {.mesh = mesh, .checks = checks, .n = n};
    double deadline = mn_seconds() + ms / 1e3;

    if (!n)
        return MN_OK;
    open_sockets(&a);
    if (a.udp[0] < 0 && a.udp[1] < 0) {
        enum mn_err err = mn_fail_errno(diag, "a socket to ask nodes behind neighbours with");
        close_sockets(&a);
        return err;
    }
    ask_until(&a, deadline);
    trace(&a);
    close_sockets(&a);
    return MN_OK;
}
