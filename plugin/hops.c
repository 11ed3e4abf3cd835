#include "plugin/hops.h"

#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/errqueue.h>

#include "plugin/conn.h"

#define FIRST_PORT 33434 /* traceroute's: nobody listens there, and firewalls know them */
#define AGAIN_MS   1100
#define KNOWN_MS   60000
#define WAYS       32

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct way {
    struct mn_addr to; /* family 0: free */
    struct mn_addr via;
    int ifindex;
    int fd; /* -1: none */
    uint64_t born_ms, asked_ms;
    struct mn_hop hops[MN_HOPS_MAX];
} ways[WAYS];

static void close_socket(struct way *way)
{
    if (way->to.family && way->fd >= 0)
        close(way->fd);
    way->fd = -1;
}

static struct way *find(const struct mn_addr *to)
{
    for (int i = 0; i < WAYS; i++)
        if (ways[i].to.family && mn_addr_equal(&ways[i].to, to))
            return &ways[i];
    return NULL;
}

static int is_same_way(const struct way *way, const struct mn_addr *via, int ifindex)
{
    return way->ifindex == ifindex &&
           (via->family || way->via.family ? mn_addr_equal(&way->via, via) : 1);
}

static struct way *find_or_make(const struct mn_addr *to, const struct mn_addr *via, int ifindex,
                                uint64_t now)
{
    struct way *way = find(to);

    if (way && now - way->born_ms < KNOWN_MS && is_same_way(way, via, ifindex))
        return way;
    for (int i = 0; i < WAYS && !way; i++)
        if (!ways[i].to.family)
            way = &ways[i];
    for (int i = 0; i < WAYS && !way; i++)
        if (i == WAYS - 1 || now - ways[i].born_ms >= KNOWN_MS)
            way = &ways[i];
    close_socket(way);
    *way = (struct way){.to = *to, .via = *via, .ifindex = ifindex, .fd = -1, .born_ms = now};
    return way;
}

/* The number of the hop to which it belongs is in the port; anything else is not ours. */
static void note(struct way *way, int port, const struct sock_extended_err *e)
{
    int hop = port - FIRST_PORT, is_6 = e->ee_origin == SO_EE_ORIGIN_ICMP6;
    struct mn_hop said = {.kind = MN_HOP_SILENT};

    if (hop < 0 || hop >= MN_HOPS_MAX || (e->ee_origin != SO_EE_ORIGIN_ICMP && !is_6) ||
        mn_addr_from_sockaddr(SO_EE_OFFENDER(e), &said.at) < 0)
        return;
    said.at.prefix = -1;
    int unreachable = e->ee_type == (is_6 ? ICMP6_DST_UNREACH : ICMP_UNREACH);
    if (e->ee_type == (is_6 ? ICMP6_TIME_EXCEEDED : ICMP_TIME_EXCEEDED))
        said.kind = MN_HOP_PASSES;
    else if (mn_addr_equal(&said.at, &way->to))
        said.kind = MN_HOP_ARRIVED;
    else if (unreachable)
        said.kind = MN_HOP_REFUSES;
    said.forbidden =
        is_6 ? e->ee_code == ICMP6_DST_UNREACH_ADMIN
             : e->ee_code == ICMP_UNREACH_NET_PROHIB || e->ee_code == ICMP_UNREACH_HOST_PROHIB ||
                   e->ee_code == ICMP_UNREACH_FILTER_PROHIB || e->ee_code == ICMP_UNREACH_PORT;
    if (said.kind != MN_HOP_SILENT)
        way->hops[hop] = said;
}

static void hear(struct way *way)
{
    for (int i = 0; way->fd >= 0 && i < 8 * MN_HOPS_MAX; i++) {
        struct sockaddr_storage at;
        struct mn_addr to;
        char byte;
        _Alignas(struct cmsghdr) char control[512];
        struct iovec iov = {&byte, 1};
        struct msghdr msg = {.msg_name = &at,
                             .msg_namelen = sizeof at,
                             .msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
        if (recvmsg(way->fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
            return;
        int port = mn_addr_from_sockaddr((struct sockaddr *)&at, &to);
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
            if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
                (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR))
                note(way, port, (const struct sock_extended_err *)CMSG_DATA(c));
    }
}

static void open_socket(struct way *way)
{
    int is_6 = way->to.family == AF_INET6, one = 1;

    way->fd = socket(way->to.family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (way->fd >= 0 && setsockopt(way->fd, is_6 ? IPPROTO_IPV6 : IPPROTO_IP,
                                   is_6 ? IPV6_RECVERR : IP_RECVERR, &one, sizeof one)) {
        close(way->fd);
        way->fd = -1;
    }
}

static void send_one(struct way *way, int hop)
{
    int is_6 = way->to.family == AF_INET6, limit = hop + 1;
    struct sockaddr_storage ss;
    socklen_t len = mn_addr_sockaddr(&way->to, (uint16_t)(FIRST_PORT + hop), 0, &ss);

    if (setsockopt(way->fd, is_6 ? IPPROTO_IPV6 : IPPROTO_IP, is_6 ? IPV6_UNICAST_HOPS : IP_TTL,
                   &limit, sizeof limit) == 0)
        /* An earlier one's error is told here once, instead of sending. */
        for (int i = 0; i < 3; i++)
            if (sendto(way->fd, "", 1, MSG_NOSIGNAL, (struct sockaddr *)&ss, len) >= 0)
                return;
}

void mn_hops_ask(const struct mn_addr *to, const struct mn_addr *via, int ifindex)
{
    uint64_t now = mn_now_ms();

    pthread_mutex_lock(&lock);
    struct way *way = find_or_make(to, via, ifindex, now);
    hear(way);
    if (!way->asked_ms || now - way->asked_ms >= AGAIN_MS) {
        way->asked_ms = now;
        if (way->fd < 0)
            open_socket(way);
        for (int hop = 0; way->fd >= 0 && hop < MN_HOPS_MAX; hop++) {
            if (way->hops[hop].kind == MN_HOP_ARRIVED)
                break;
            if (way->hops[hop].kind == MN_HOP_SILENT)
                send_one(way, hop);
        }
        hear(way);
    }
    pthread_mutex_unlock(&lock);
}

int mn_hops_heard(const struct mn_addr *to, struct mn_hop hops[MN_HOPS_MAX])
{
    int known = 0;

    memset(hops, 0, MN_HOPS_MAX * sizeof *hops);
    pthread_mutex_lock(&lock);
    struct way *way = find(to);
    if (way) {
        hear(way);
        memcpy(hops, way->hops, sizeof way->hops);
    }
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < MN_HOPS_MAX; i++) {
        if (hops[i].kind != MN_HOP_SILENT)
            known = i + 1;
        if (hops[i].kind == MN_HOP_ARRIVED)
            break;
    }
    return known;
}

void mn_hops_rest(const struct mn_addr *to)
{
    pthread_mutex_lock(&lock);
    struct way *way = find(to);
    if (way) {
        hear(way);
        close_socket(way);
    }
    pthread_mutex_unlock(&lock);
}
