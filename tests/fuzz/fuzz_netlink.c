/* What the kernel answers by netlink, whatever it is: libnl's sockets, and our own, read the input
 * in place of the kernel's messages. What is read of links, addresses, routes and neighbours is
 * within its bounds, and what cannot be read has a reason. */
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fleet/apply.h"
#include "fleet/apply_kernel.h"
#include "plugin/towards.h"
#include "tests/fuzz/fuzz_kit.h"
#include "topo/nic_read.h"

#define LARGEST 16384

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fuzz_input in;

/* A datagram that waits to be read, as an answer to the last question. */
static struct {
    _Alignas(8) uint8_t bytes[LARGEST];
    size_t len; /* 0: none */
    uint32_t seq, port;
} answer;

/* What libnl 3.7 does not stand is made into what it skips: a way of no length among several, or a
 * last one without its padding, in which it goes round for ever; a router shorter than its family,
 * of which it copies -1 bytes; and what only a kind of link has, which it does not check. */
static void spare_router(struct rtattr *attr)
{
    if ((attr->rta_type & NLA_TYPE_MASK) == RTA_VIA && RTA_PAYLOAD(attr) < sizeof(struct rtvia))
        attr->rta_type = RTA_UNSPEC;
}

static void spare_ways(struct rtattr *attr)
{
    struct rtnexthop *way = RTA_DATA(attr);

    for (int rest = (int)RTA_PAYLOAD(attr); rest >= (int)sizeof *way;) {
        if (way->rtnh_len < sizeof *way)
            way->rtnh_len = sizeof *way;
        if (way->rtnh_len > rest)
            return;
        if (RTNH_ALIGN(way->rtnh_len) > rest)
            way->rtnh_len = (unsigned short)(rest & ~(RTNH_ALIGNTO - 1));
        int left = way->rtnh_len - (int)RTNH_LENGTH(0);
        for (struct rtattr *of = RTNH_DATA(way); RTA_OK(of, left); of = RTA_NEXT(of, left))
            spare_router(of);
        rest -= RTNH_ALIGN(way->rtnh_len);
        way = RTNH_NEXT(way);
    }
}

static void spare_kind(struct rtattr *info)
{
    int left = (int)RTA_PAYLOAD(info);

    for (struct rtattr *attr = RTA_DATA(info); RTA_OK(attr, left); attr = RTA_NEXT(attr, left))
        if ((attr->rta_type & NLA_TYPE_MASK) != IFLA_INFO_KIND)
            attr->rta_type = IFLA_INFO_UNSPEC;
}

static void spare_link(struct rtattr *attr)
{
    static const uint64_t taken = 1ull << IFLA_ADDRESS | 1ull << IFLA_IFNAME | 1ull << IFLA_MTU |
                                  1ull << IFLA_LINK | 1ull << IFLA_MASTER | 1ull << IFLA_CARRIER |
                                  1ull << IFLA_LINKINFO | 1ull << IFLA_LINK_NETNSID;
    unsigned type = attr->rta_type & NLA_TYPE_MASK;

    if (type == IFLA_LINKINFO)
        spare_kind(attr);
    if (type >= 64 || !(taken >> type & 1))
        attr->rta_type = IFLA_UNSPEC;
}

/* It reads questions, too, and what has gone. */
static void spare_libnl(struct nlmsghdr *head)
{
    int type = head->nlmsg_type, route = type >= RTM_NEWROUTE && type <= RTM_GETROUTE;
    size_t body = NLMSG_LENGTH(route ? sizeof(struct rtmsg) : sizeof(struct ifinfomsg));

    if ((!route && (type < RTM_NEWLINK || type > RTM_GETLINK)) || head->nlmsg_len < body)
        return;
    int left = (int)(head->nlmsg_len - body);
    for (struct rtattr *attr = (struct rtattr *)((uint8_t *)head + body); RTA_OK(attr, left);
         attr = RTA_NEXT(attr, left)) {
        if (!route)
            spare_link(attr);
        else if ((attr->rta_type & NLA_TYPE_MASK) == RTA_MULTIPATH)
            spare_ways(attr);
        else
            spare_router(attr);
    }
}

/* Whoever asks looks at these two of each message, and takes no other answer. */
static void address(void)
{
    for (size_t at = 0; at + sizeof(struct nlmsghdr) <= answer.len;) {
        struct nlmsghdr head;
        memcpy(&head, answer.bytes + at, sizeof head);
        head.nlmsg_seq = answer.seq;
        head.nlmsg_pid = answer.port;
        memcpy(answer.bytes + at, &head, sizeof head);
        if (head.nlmsg_len < sizeof head || head.nlmsg_len > answer.len - at)
            return;
        spare_libnl((struct nlmsghdr *)(answer.bytes + at));
        at += NLMSG_ALIGN(head.nlmsg_len);
    }
}

static void next_answer(void)
{
    struct nlmsghdr done = {.nlmsg_len = sizeof done + 4,
                            .nlmsg_type = NLMSG_DONE,
                            .nlmsg_flags = NLM_F_MULTI};

    if (answer.len)
        return;
    answer.len = fuzz_take_raw(&in, answer.bytes, (size_t)fuzz_take(&in, 2) % LARGEST);
    if (!answer.len) {
        memset(answer.bytes, 0, sizeof done + 4);
        memcpy(answer.bytes, &done, sizeof done);
        answer.len = sizeof done + 4;
    }
    address();
}

/* In place of the C library's, which libnl calls as well. */
#define OURS __attribute__((visibility("default")))

OURS ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    struct nlmsghdr head;

    (void)fd, (void)flags;
    if (msg->msg_iovlen < 1 || msg->msg_iov[0].iov_len < sizeof head)
        abort();
    memcpy(&head, msg->msg_iov[0].iov_base, sizeof head);
    answer.seq = head.nlmsg_seq;
    answer.port = head.nlmsg_pid;
    answer.len = 0;
    return (ssize_t)msg->msg_iov[0].iov_len;
}

OURS ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

    (void)fd;
    next_answer();
    size_t room = msg->msg_iov[0].iov_len, n = answer.len < room ? answer.len : room;
    size_t whole = answer.len;
    if (n)
        memcpy(msg->msg_iov[0].iov_base, answer.bytes, n);
    if (msg->msg_name && msg->msg_namelen >= sizeof kernel) {
        memcpy(msg->msg_name, &kernel, sizeof kernel);
        msg->msg_namelen = sizeof kernel;
    }
    msg->msg_controllen = 0;
    msg->msg_flags = whole > room ? MSG_TRUNC : 0;
    if (!(flags & MSG_PEEK))
        answer.len = 0;
    return (ssize_t)(flags & MSG_TRUNC ? whole : n);
}

OURS ssize_t sendto(int fd, const void *bytes, size_t size, int flags, const struct sockaddr *to,
                    socklen_t len)
{
    struct iovec iov = {(void *)(uintptr_t)bytes, size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    (void)to, (void)len;
    return sendmsg(fd, &msg, flags);
}

OURS ssize_t recv(int fd, void *bytes, size_t size, int flags)
{
    struct iovec iov = {bytes, size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    return recvmsg(fd, &msg, flags);
}

/* --- what is read ------------------------------------------------------------------------------
 */

static void check_addr(const struct mn_addr *addr)
{
    char text[MN_ADDR_TEXT];

    if (addr->family != AF_INET && addr->family != AF_INET6)
        abort();
    (void)mn_addr_format(addr, text, sizeof text);
}

static void read_host(void)
{
    struct mn_diag diag = {.text = ""};
    struct mn_host host;

    memset(&host, 0, sizeof host);
    enum mn_err err = mn_host_read_netlink(&host, &diag);
    if (err && !diag.text[0])
        abort();
    for (size_t i = 0; i < host.n_nics; i++) {
        const struct mn_nic *nic = &host.nics[i];
        if (strnlen(nic->netdev, sizeof nic->netdev) == sizeof nic->netdev ||
            strnlen(nic->master, sizeof nic->master) == sizeof nic->master)
            abort();
        for (size_t k = 0; k < nic->n_addrs; k++)
            check_addr(&nic->addrs[k]);
    }
    if (!err && mn_host_around(NULL, &host, &diag) && !diag.text[0])
        abort();
    mn_host_free(&host);
}

static void read_destinations(void)
{
    struct mn_diag diag = {.text = ""};
    struct mn_destination *list;
    size_t count;

    if (mn_host_destinations(&list, &count, &diag) && (!diag.text[0] || list || count))
        abort();
    for (size_t i = 0; i < count; i++)
        check_addr(&list[i].to);
    free(list);
}

static void read_way(void)
{
    struct mn_addr to = {.family = fuzz_take(&in, 1) & 1 ? AF_INET6 : AF_INET, .prefix = -1};
    struct mn_towards way;

    to.bytes[0] = 10;
    if (!mn_towards(&to, &way))
        return;
    if (!way.ifindex)
        abort();
    check_addr(&way.from);
    if (way.via.family)
        check_addr(&way.via);
}

static void take_route(const char *nic, int ifindex, const char *text, void *context)
{
    (void)nic, (void)ifindex, (void)context;
    if (!*text)
        abort();
}

static void take_odd_route(int ifindex, const char *text, const char *why, void *context)
{
    (void)ifindex, (void)context;
    if (!*text || !*why)
        abort();
}

static void read_kernel(void)
{
    struct mn_diag diag = {.text = ""};
    struct mn_kernel *kernel = NULL;

    if (mn_kernel_open(&kernel, &diag)) {
        if (!diag.text[0] || kernel)
            abort();
        return;
    }
    for (int ifindex = 0; ifindex < 4; ifindex++) {
        char **texts = NULL;
        size_t n = mn_kernel_addresses(kernel, ifindex, &texts);
        mn_texts_free(texts, n);
    }
    mn_kernel_each_route(kernel, take_route, NULL);
    if (mn_kernel_each_odd_route(kernel, take_odd_route, NULL, &diag) && !diag.text[0])
        abort();
    mn_kernel_close(kernel);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(void) = {read_host, read_destinations, read_way, read_kernel};

    in = (struct fuzz_input){data, data + size};
    answer.len = 0;
    readers[fuzz_take(&in, 1) % (sizeof readers / sizeof *readers)]();
    return 0;
}
