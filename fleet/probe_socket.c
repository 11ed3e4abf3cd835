/* The sockets of a port. Each is bound to its NIC and gone with its descriptor: what it has joined
 * at the NIC, too. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet/probe_impl.h"
#include "topo/base/alloc.h"

#define ETHERTYPE_PROBE 0x88b5 /* IEEE 802: for local experiments */
#define ETHERTYPE_LLDP  0x88cc
#define IP_AND_UDP      48
#define HOPS            255 /* a router would have taken one */

/* ff02::4d4e:5042: of this link alone. */
static const struct in6_addr group = {
    {{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x4d, 0x4e, 0x50, 0x42}}};
/* Locally administered multicast, which bridges pass on; LLDP's, which they do not. */
static const uint8_t probe_group[6] = {0x03, 0x4d, 0x4e, 0x50, 0x42, 0x01};
static const uint8_t lldp_group[6] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e};

static int set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value);
}

static struct sockaddr_in6 group_at(const struct mn_probe_port *port)
{
    return (struct sockaddr_in6){
        .sin6_family = AF_INET6,
        .sin6_port = htons(MN_PROBE_PORT),
        .sin6_addr = group,
        .sin6_scope_id = (uint32_t)port->ifindex,
    };
}

/* Frames of the largest MTU take a multiple of their size of the receive buffer. */
static void make_room(int fd)
{
    if (set(fd, SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20))
        (void)set(fd, SOL_SOCKET, SO_RCVBUF, 8 << 20);
}

/* A scope in the address binds it to the NIC, without a privilege. */
static int open_ipv6(const struct mn_probe_port *port)
{
    const struct ipv6_mreq join = {group, (unsigned)port->ifindex};
    const struct sockaddr_in6 at = group_at(port);
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP);

    if (fd < 0)
        return -1;
    if (set(fd, SOL_SOCKET, SO_REUSEADDR, 1) || set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) ||
        bind(fd, (const struct sockaddr *)&at, sizeof at) ||
        setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &join, sizeof join) ||
        set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, port->ifindex) ||
        set(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, HOPS) ||
        set(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0) ||
        set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1) || set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) ||
        set(fd, IPPROTO_IPV6, IPV6_DONTFRAG, 1) ||
        set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE)) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    make_room(fd);
    return fd;
}

static int open_packet(const struct mn_probe_port *port, uint16_t ethertype, const uint8_t mac[6])
{
    const struct sockaddr_ll at = {
        .sll_family = AF_PACKET,
        .sll_protocol = htons(ethertype),
        .sll_ifindex = port->ifindex,
    };
    struct packet_mreq join = {
        .mr_ifindex = port->ifindex,
        .mr_type = PACKET_MR_MULTICAST,
        .mr_alen = 6,
    };
    /* Without a protocol it hears nothing before it is bound to its NIC. */
    int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    memcpy(join.mr_address, mac, 6);
    if (bind(fd, (const struct sockaddr *)&at, sizeof at) ||
        setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &join, sizeof join)) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    make_room(fd);
    return fd;
}

void mn_probe_open(struct mn_probe_port *port)
{
    char ipv6[64] = "";

    port->opened = 1;
    port->fds[MN_SURVEY_IPV6] = open_ipv6(port);
    if (port->fds[MN_SURVEY_IPV6] < 0)
        snprintf(ipv6, sizeof ipv6, "no IPv6: %s", strerror(errno));
    errno = 0;
    if (port->kind != MN_NIC_INFINIBAND) {
        port->fds[MN_SURVEY_RAW] = open_packet(port, ETHERTYPE_PROBE, probe_group);
        port->fds[MN_SURVEY_LLDP] = open_packet(port, ETHERTYPE_LLDP, lldp_group);
    }
    int denied = errno == EPERM || errno == EACCES;
    snprintf(port->nic->why, sizeof port->nic->why, "%s%s%s", ipv6, *ipv6 && errno ? "; " : "",
             denied  ? "no raw Ethernet, no LLDP: CAP_NET_RAW is needed"
             : errno ? strerror(errno)
                     : "");
    if (port->fds[MN_SURVEY_LLDP] >= 0)
        port->nic->probed |= 1 << MN_SURVEY_LLDP;
}

void mn_probe_close(struct mn_probe_port *port)
{
    for (int way = 0; way < MN_PROBE_WAYS; way++) {
        if (port->fds[way] >= 0)
            close(port->fds[way]);
        port->fds[way] = -1;
    }
}

int mn_probe_send(struct mn_probe_port *port, enum mn_survey_way way, const uint8_t *data,
                  size_t len)
{
    const struct sockaddr_in6 to = group_at(port);
    struct sockaddr_ll frame = {
        .sll_family = AF_PACKET,
        .sll_protocol = htons(way == MN_SURVEY_LLDP ? ETHERTYPE_LLDP : ETHERTYPE_PROBE),
        .sll_ifindex = port->ifindex,
        .sll_halen = 6,
    };
    ssize_t sent;

    if (port->fds[way] < 0)
        return 0;
    memcpy(frame.sll_addr, way == MN_SURVEY_LLDP ? lldp_group : probe_group, 6);
    sent = way == MN_SURVEY_IPV6 ? sendto(port->fds[way], data, len, MSG_NOSIGNAL,
                                          (const struct sockaddr *)&to, sizeof to)
                                 : sendto(port->fds[way], data, len, MSG_NOSIGNAL,
                                          (const struct sockaddr *)&frame, sizeof frame);
    if (sent == (ssize_t)len)
        port->nic->probed |= 1 << way;
    else if (way == MN_SURVEY_IPV6)
        port->refused = errno;
    return sent == (ssize_t)len;
}

/* 1 when it came from this link, at this NIC. */
static int is_near(struct msghdr *msg, const struct mn_probe_port *port)
{
    const struct sockaddr_in6 *from = msg->msg_name;
    int hops = 0, here = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != IPPROTO_IPV6)
            continue;
        if (c->cmsg_type == IPV6_HOPLIMIT) {
            memcpy(&hops, CMSG_DATA(c), sizeof hops);
        } else if (c->cmsg_type == IPV6_PKTINFO) {
            struct in6_pktinfo info;
            memcpy(&info, CMSG_DATA(c), sizeof info);
            here = (int)info.ipi6_ifindex == port->ifindex;
        }
    }
    return here && hops == HOPS && msg->msg_namelen >= sizeof *from &&
           from->sin6_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&from->sin6_addr);
}

/* The MAC that most make their fe80:: address of. */
static void mac_of(const struct sockaddr_in6 *from, uint8_t mac[6])
{
    const uint8_t *a = from->sin6_addr.s6_addr;

    if (a[11] != 0xff || a[12] != 0xfe)
        return;
    const uint8_t found[6] = {a[8] ^ 2, a[9], a[10], a[13], a[14], a[15]};
    memcpy(mac, found, sizeof found);
}

size_t mn_probe_receive(struct mn_probe_port *port, enum mn_survey_way way, uint8_t *buf, int *mtu,
                        uint8_t mac[6])
{
    union {
        struct cmsghdr align;
        char bytes[256];
    } control;
    union {
        struct sockaddr_in6 in6;
        struct sockaddr_ll ll;
    } from;

    for (int passed = 0; passed < 64; passed++) {
        struct iovec iov = {buf, MN_PROBE_FRAME_MAX};
        struct msghdr msg = {.msg_name = &from,
                             .msg_namelen = sizeof from,
                             .msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
        ssize_t len = recvmsg(port->fds[way], &msg, MSG_DONTWAIT);
        if (len < 0 && (errno == EINTR || errno == ENETDOWN || errno == ENETUNREACH))
            continue;
        if (len < 0)
            return 0;
        memset(mac, 0, 6);
        *mtu = (int)len + (way == MN_SURVEY_IPV6 ? IP_AND_UDP : 0);
        if (msg.msg_flags & MSG_TRUNC || !len)
            continue;
        if (way == MN_SURVEY_IPV6) {
            if (!is_near(&msg, port))
                continue;
            mac_of(&from.in6, mac);
            return (size_t)len;
        }
        if (from.ll.sll_ifindex != port->ifindex || from.ll.sll_pkttype == PACKET_OUTGOING)
            continue;
        memcpy(mac, from.ll.sll_addr, from.ll.sll_halen == 6 ? 6 : 0);
        return (size_t)len;
    }
    return 0;
}
