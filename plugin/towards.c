#include "plugin/towards.h"

#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef RTM_F_FIB_MATCH
#define RTM_F_FIB_MATCH 0x2000 /* Linux 4.13 */
#endif

struct answer {
    struct nlmsghdr head;
    struct rtmsg route;
    uint8_t rest[1024];
};

static int size_of(int family)
{
    return family == AF_INET6 ? 16 : 4;
}

/* The kernel answers within sendto(): there is nothing to wait for. */
static int ask(int fd, const struct mn_addr *to, unsigned flags, struct answer *answer)
{
    struct {
        struct nlmsghdr head;
        struct rtmsg route;
        struct rtattr attr;
        uint8_t dst[16];
    } question = {.head = {.nlmsg_type = RTM_GETROUTE, .nlmsg_flags = NLM_F_REQUEST}};
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    int size = size_of(to->family);

    question.route.rtm_family = (unsigned char)to->family;
    question.route.rtm_dst_len = (unsigned char)(8 * size);
    question.route.rtm_flags = flags;
    question.attr.rta_type = RTA_DST;
    question.attr.rta_len = (unsigned short)RTA_LENGTH(size);
    memcpy(question.dst, to->bytes, (size_t)size);
    question.head.nlmsg_len =
        (unsigned)(NLMSG_LENGTH(sizeof question.route) + RTA_SPACE((unsigned)size));
    if (sendto(fd, &question, question.head.nlmsg_len, 0, (struct sockaddr *)&kernel,
               sizeof kernel) < 0)
        return 0;
    ssize_t got = recv(fd, answer, sizeof *answer, MSG_DONTWAIT);
    return got >= (ssize_t)NLMSG_LENGTH(sizeof answer->route) &&
           answer->head.nlmsg_type == RTM_NEWROUTE && answer->head.nlmsg_len <= (size_t)got &&
           answer->head.nlmsg_len >= NLMSG_LENGTH(sizeof answer->route) &&
           answer->route.rtm_family == to->family;
}

static void copy_addr(const struct rtattr *attr, size_t skip, int family, struct mn_addr *addr)
{
    size_t size = (size_t)size_of(family);

    if (RTA_PAYLOAD(attr) < skip + size || (family != AF_INET && family != AF_INET6))
        return;
    memset(addr, 0, sizeof *addr);
    addr->family = family;
    addr->prefix = -1;
    memcpy(addr->bytes, (const uint8_t *)RTA_DATA(attr) + skip, size);
}

static void read_answer(struct answer *answer, struct mn_towards *way)
{
    int family = answer->route.rtm_family;
    /* Below 0 behind the last attribute, where that is not padded. */
    int left = (int)(answer->head.nlmsg_len - NLMSG_LENGTH(sizeof answer->route));

    memset(way, 0, sizeof *way);
    for (struct rtattr *attr = RTM_RTA(&answer->route); RTA_OK(attr, left);
         attr = RTA_NEXT(attr, left)) {
        uint16_t via_family;
        if (attr->rta_type == RTA_OIF && RTA_PAYLOAD(attr) >= sizeof way->ifindex)
            memcpy(&way->ifindex, RTA_DATA(attr), sizeof way->ifindex);
        else if (attr->rta_type == RTA_GATEWAY)
            copy_addr(attr, 0, family, &way->via);
        else if (attr->rta_type == RTA_PREFSRC)
            copy_addr(attr, 0, family, &way->from);
        else if (attr->rta_type == RTA_VIA && RTA_PAYLOAD(attr) >= sizeof via_family) {
            /* IPv4 over a router that is known by an IPv6 address. */
            memcpy(&via_family, RTA_DATA(attr), sizeof via_family);
            copy_addr(attr, sizeof via_family, via_family, &way->via);
        }
    }
}

int mn_towards(const struct mn_addr *to, struct mn_towards *way)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    struct answer answer;
    int found = fd >= 0 && ask(fd, to, 0, &answer) && answer.route.rtm_type == RTN_UNICAST;

    if (found) {
        read_answer(&answer, way);
        way->prefix = answer.route.rtm_dst_len;
        /* The entry of the table instead of what follows from it for this address. */
        if (ask(fd, to, RTM_F_FIB_MATCH, &answer))
            way->prefix = answer.route.rtm_dst_len;
    }
    if (fd >= 0)
        close(fd);
    return found && way->from.family && way->ifindex;
}
