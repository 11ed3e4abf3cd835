/* Whether packets pass each cable, and how large ones: echo requests from this end, bound to its
 * NIC, never in fragments. The other end's kernel answers, so that nobody has to listen there:
 *   "probes": [{"netdev", "to", "size": bytes of the IP packet, "sent", "answered": of the whole
 *     MTU's size, "small": of small ones, "error": why nothing was sent}]
 * An answer may come in fragments: each end's probes tell of its own direction alone. */
#include <errno.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fleet/doctor_ask.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define ROUNDS  5
#define GAP_MS  100 /* between rounds, while answers come in */
#define LAST_MS 1000
#define SMALL   64 /* bytes of an IP packet */
#define MOST    64 /* cables of a node */
#define LONGEST 65536

struct probe {
    const struct mn_nic *nic;
    struct mn_addr from, to;
    int fd, raw;
    int large, sent, answered[2]; /* small, large */
    uint32_t seen[2];             /* rounds answered, as bits */
    char error[160];
};

static int head_size(const struct probe *p)
{
    return p->to.family == AF_INET ? 20 : 40;
}

static int failed(struct probe *p, const char *what)
{
    char text[64];

    if (!p->error[0])
        snprintf(p->error, sizeof p->error, "%s: %s", what, strerror_r(errno, text, sizeof text));
    return 0;
}

/* A ping socket where users may have one, else a raw one. */
static int open_socket(struct probe *p)
{
    int v6 = p->to.family == AF_INET6, protocol = v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
    int pmtu = v6 ? IPV6_PMTUDISC_PROBE : IP_PMTUDISC_PROBE; /* whole, whatever is remembered */
    struct sockaddr_storage ss;

    p->fd = socket(p->to.family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    p->raw = p->fd < 0;
    if (p->raw)
        p->fd = socket(p->to.family, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    if (p->fd < 0)
        return failed(p, "no right to send echo requests");
    if (setsockopt(p->fd, SOL_SOCKET, SO_BINDTODEVICE, p->nic->netdev,
                   (socklen_t)strlen(p->nic->netdev)))
        return failed(p, "binding to the NIC");
    if (setsockopt(p->fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER,
                   &pmtu, sizeof pmtu))
        return failed(p, "forbidding fragments");
    socklen_t len = mn_addr_sockaddr(&p->from, 0, (uint32_t)p->nic->ifindex, &ss);
    if (bind(p->fd, (struct sockaddr *)&ss, len))
        return failed(p, "binding to the address");
    len = mn_addr_sockaddr(&p->to, 0, (uint32_t)p->nic->ifindex, &ss);
    if (connect(p->fd, (struct sockaddr *)&ss, len))
        return failed(p, "no way there");
    return 1;
}

static uint16_t checksum(const uint8_t *data, size_t len)
{
    uint32_t sum = 0;

    for (size_t i = 0; i + 1 < len; i += 2)
        sum += (uint32_t)data[i] << 8 | data[i + 1];
    if (len & 1)
        sum += (uint32_t)data[len - 1] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

/* IPv4's and IPv6's echo look alike: type, code, checksum, identifier, number. */
static void send_one(struct probe *p, int round, int large)
{
    static uint8_t packet[LONGEST];
    size_t size = (size_t)((large ? p->large : SMALL) - head_size(p));
    uint16_t number = (uint16_t)(round << 1 | large), id = (uint16_t)getpid();

    memset(packet, 0, size);
    packet[0] = p->to.family == AF_INET ? ICMP_ECHO : ICMP6_ECHO_REQUEST;
    packet[4] = (uint8_t)(id >> 8);
    packet[5] = (uint8_t)id;
    packet[6] = (uint8_t)(number >> 8);
    packet[7] = (uint8_t)number;
    if (p->to.family == AF_INET) { /* the kernel does IPv6's, and both of a ping socket */
        uint16_t sum = checksum(packet, size);
        packet[2] = (uint8_t)(sum >> 8);
        packet[3] = (uint8_t)sum;
    }
    /* What is not reached says so here once: no more than no answer. */
    for (int tries = 0; send(p->fd, packet, size, MSG_NOSIGNAL) < 0; tries++)
        if (tries || (errno != ECONNREFUSED && errno != EHOSTUNREACH && errno != ENETUNREACH)) {
            failed(p, "sending");
            break;
        }
}

static void take_answers(struct probe *p)
{
    static uint8_t packet[LONGEST];
    ssize_t n;

    /* After an error that an earlier packet met there may be more. */
    while ((n = recv(p->fd, packet, sizeof packet, MSG_TRUNC)) >= 0 || errno != EAGAIN) {
        if (n < 0 && errno != EINTR && errno != ECONNREFUSED && errno != EHOSTUNREACH &&
            errno != ENETUNREACH && errno != EMSGSIZE)
            break;
        const uint8_t *at = packet;
        /* Raw sockets of IPv4 have the header, and everybody's answers. */
        size_t head = p->raw && p->to.family == AF_INET && n > 0 ? (size_t)(packet[0] & 15) * 4 : 0;
        if (n < (ssize_t)head + 8)
            continue;
        at += head;
        if (at[0] != (p->to.family == AF_INET ? ICMP_ECHOREPLY : ICMP6_ECHO_REPLY) ||
            (p->raw && (at[4] << 8 | at[5]) != (uint16_t)getpid()))
            continue;
        unsigned number = (unsigned)(at[6] << 8 | at[7]), round = number >> 1;
        if (round >= ROUNDS || p->seen[number & 1] >> round & 1)
            continue;
        p->seen[number & 1] |= 1u << round;
        p->answered[number & 1]++;
    }
}

static int is_done(const struct probe *probes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (probes[i].fd >= 0 && !probes[i].error[0] && probes[i].answered[1] < 2)
            return 0;
    return 1;
}

static void listen_for(struct probe *probes, size_t n, int ms)
{
    struct pollfd fds[MOST];
    double end = mn_seconds() + ms / 1000.0;

    for (double left; (left = end - mn_seconds()) > 0 && !is_done(probes, n);) {
        for (size_t i = 0; i < n; i++)
            fds[i] = (struct pollfd){.fd = probes[i].fd, .events = POLLIN};
        if (poll(fds, n, (int)(left * 1000) + 1) <= 0)
            continue;
        for (size_t i = 0; i < n; i++)
            if (fds[i].revents)
                take_answers(&probes[i]);
    }
}

static size_t plan(const struct mn_doctor_look *look, struct probe *probes)
{
    size_t n = 0;

    for (size_t i = 0; look->self >= 0 && i < look->mesh->n_links && n < MOST; i++) {
        const struct mn_mesh_link *link = &look->mesh->links[i];
        for (int end = 0; end < 2 && !mn_link_is_bare(link); end++) {
            const struct mn_mesh_end *far = &link->ends[!end];
            const struct mn_nic *nic = link->ends[end].node == look->self
                                           ? mn_doctor_nic(look, (size_t)link->ends[end].nic)
                                           : NULL;
            const struct mn_mesh_nic *own =
                nic ? &look->mesh->nodes[look->self].nics[link->ends[end].nic] : NULL;
            const struct mn_mesh_nic *theirs = &look->mesh->nodes[far->node].nics[far->nic];
            for (size_t a = 0; own && a < own->n_addrs * theirs->n_addrs; a++) {
                const struct mn_addr *from = &own->addrs[a / theirs->n_addrs];
                const struct mn_addr *to = &theirs->addrs[a % theirs->n_addrs];
                if (!mn_addr_share_subnet(from, to))
                    continue;
                probes[n++] = (struct probe){.nic = nic, .from = *from, .to = *to, .fd = -1};
                break;
            }
        }
    }
    return n;
}

static void report(const struct probe *p, cJSON *list)
{
    cJSON *json = cJSON_CreateObject();
    struct mn_addr to = p->to;
    char text[MN_ADDR_TEXT];

    to.prefix = -1;
    cJSON_AddStringToObject(json, "netdev", p->nic->netdev);
    cJSON_AddStringToObject(json, "to", mn_addr_format(&to, text, sizeof text));
    cJSON_AddNumberToObject(json, "size", p->large);
    cJSON_AddNumberToObject(json, "sent", p->sent);
    cJSON_AddNumberToObject(json, "small", p->answered[0]);
    cJSON_AddNumberToObject(json, "answered", p->answered[1]);
    if (p->error[0])
        cJSON_AddStringToObject(json, "error", p->error);
    cJSON_AddItemToArray(list, json);
}

void mn_doctor_ask_probes(const struct mn_doctor_look *look, cJSON *answer)
{
    struct probe *probes = mn_zalloc((MOST + 2) * sizeof *probes);
    size_t n = plan(look, probes);

    n = n < MOST ? n : MOST;
    for (size_t i = 0; i < n; i++) {
        probes[i].large = probes[i].nic->mtu > SMALL ? probes[i].nic->mtu : SMALL;
        probes[i].large = probes[i].large < LONGEST ? probes[i].large : LONGEST - 1;
        (void)open_socket(&probes[i]);
    }
    for (int round = 0; round < ROUNDS && !is_done(probes, n); round++) {
        for (size_t i = 0; i < n; i++) {
            if (probes[i].error[0] || probes[i].fd < 0)
                continue;
            probes[i].sent++;
            send_one(&probes[i], round, 0);
            send_one(&probes[i], round, 1);
        }
        listen_for(probes, n, round + 1 < ROUNDS ? GAP_MS : LAST_MS);
    }
    cJSON *list = cJSON_AddArrayToObject(answer, "probes");
    for (size_t i = 0; i < n; i++) {
        report(&probes[i], list);
        if (probes[i].fd >= 0)
            close(probes[i].fd);
    }
    free(probes);
}
