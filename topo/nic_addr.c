/* Addresses with their prefix length. Nothing here touches the host. */
#include "topo/nic.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int addr_bits(const struct mn_addr *addr)
{
    return addr->family == AF_INET ? 32 : addr->family == AF_INET6 ? 128 : 0;
}

/* No prefix, or one that cannot be, means the address alone. */
static int effective_prefix(const struct mn_addr *addr)
{
    int bits = addr_bits(addr);
    return addr->prefix < 0 || addr->prefix > bits ? bits : addr->prefix;
}

static int same_prefix(const uint8_t *a, const uint8_t *b, int bits)
{
    int whole = bits / 8, rest = bits % 8;
    if (memcmp(a, b, (size_t)whole) != 0)
        return 0;
    return rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0;
}

char *mn_addr_format(const struct mn_addr *addr, char *buf, size_t size)
{
    char text[INET6_ADDRSTRLEN];
    if (addr_bits(addr) == 0 || !inet_ntop(addr->family, addr->bytes, text, sizeof text))
        snprintf(buf, size, "-");
    else if (addr->prefix < 0)
        snprintf(buf, size, "%s", text);
    else
        snprintf(buf, size, "%s/%d", text, addr->prefix);
    return buf;
}

/* Digits only: strtol would take "+24" and " 24". -1 when it is no number of at most max. */
static int parse_prefix(const char *text, int max)
{
    int value = 0;
    size_t len = strlen(text);
    if (len == 0 || len > 3)
        return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        value = value * 10 + (*text - '0');
    }
    return value <= max ? value : -1;
}

enum mn_err mn_addr_parse(const char *text, struct mn_addr *addr, struct mn_diag *diag)
{
    memset(addr, 0, sizeof *addr);
    addr->prefix = -1;
    const char *slash = strchr(text, '/');
    size_t len = slash ? (size_t)(slash - text) : strlen(text);
    char host[INET6_ADDRSTRLEN];
    if (len < sizeof host) {
        memcpy(host, text, len);
        host[len] = '\0';
        if (inet_pton(AF_INET, host, addr->bytes) == 1)
            addr->family = AF_INET;
        else if (inet_pton(AF_INET6, host, addr->bytes) == 1)
            addr->family = AF_INET6;
    }
    if (addr->family == 0)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "\"%.100s\" is not an address; expected one like 10.0.1.1/24 or fd00::1/64",
                       text);
    if (!slash)
        return MN_OK;
    addr->prefix = parse_prefix(slash + 1, addr_bits(addr));
    if (addr->prefix < 0)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "\"%.100s\" has the prefix length \"%.20s\"; expected 0 to %d", text,
                       slash + 1, addr_bits(addr));
    return MN_OK;
}

int mn_addr_equal(const struct mn_addr *a, const struct mn_addr *b)
{
    return a->family == b->family && addr_bits(a) > 0 &&
           same_prefix(a->bytes, b->bytes, addr_bits(a));
}

int mn_addr_share_subnet(const struct mn_addr *a, const struct mn_addr *b)
{
    if (a->family != b->family || addr_bits(a) == 0)
        return 0;
    /* Each inside the other's subnet = equal up to the longer of both prefixes. */
    int pa = effective_prefix(a), pb = effective_prefix(b);
    return same_prefix(a->bytes, b->bytes, pa > pb ? pa : pb);
}

struct mn_addr mn_addr_network(const struct mn_addr *addr)
{
    struct mn_addr net = *addr;
    int prefix = effective_prefix(addr);
    for (int bit = prefix; bit < addr_bits(addr); bit++)
        net.bytes[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
    return net;
}

int mn_addr_is_loopback(const struct mn_addr *addr)
{
    static const uint8_t v6[16] = {[15] = 1};
    return addr->family == AF_INET ? addr->bytes[0] == 127
                                   : addr->family == AF_INET6 && memcmp(addr->bytes, v6, 16) == 0;
}

int mn_addr_is_link_local(const struct mn_addr *addr)
{
    return addr->family == AF_INET6 && addr->bytes[0] == 0xfe && (addr->bytes[1] & 0xc0) == 0x80;
}

int mn_addr_is_nobodys(const struct mn_addr *addr)
{
    if (addr->family == AF_INET6)
        return mn_addr_is_link_local(addr) || addr->bytes[0] == 0xff || mn_addr_is_loopback(addr);
    return mn_addr_is_loopback(addr) || addr->bytes[0] >= 224 || addr->bytes[0] == 0;
}

int mn_addr_is_self_assigned(const struct mn_addr *addr)
{
    return addr->family == AF_INET && addr->bytes[0] == 169 && addr->bytes[1] == 254;
}

socklen_t mn_addr_sockaddr(const struct mn_addr *addr, uint16_t port, uint32_t scope,
                           struct sockaddr_storage *ss)
{
    memset(ss, 0, sizeof *ss);
    if (addr->family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        memcpy(&in6->sin6_addr, addr->bytes, 16);
        in6->sin6_scope_id = mn_addr_is_link_local(addr) ? scope : 0;
        return sizeof *in6;
    }
    struct sockaddr_in *in = (struct sockaddr_in *)ss;
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    memcpy(&in->sin_addr, addr->bytes, 4);
    return sizeof *in;
}

int mn_addr_from_sockaddr(const struct sockaddr *sa, struct mn_addr *addr)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)sa;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)sa;

    *addr = (struct mn_addr){.family = AF_INET, .prefix = -1};
    if (sa->sa_family == AF_INET) {
        memcpy(addr->bytes, &in->sin_addr, 4);
        return ntohs(in->sin_port);
    }
    if (sa->sa_family != AF_INET6) {
        addr->family = 0;
        return -1;
    }
    if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
        memcpy(addr->bytes, in6->sin6_addr.s6_addr + 12, 4);
    } else {
        addr->family = AF_INET6;
        memcpy(addr->bytes, &in6->sin6_addr, 16);
    }
    return ntohs(in6->sin6_port);
}

const struct ifaddrs *mn_addr_here(const struct ifaddrs *all, const struct mn_addr *addr)
{
    struct mn_addr is;

    for (; all; all = all->ifa_next)
        if (all->ifa_addr && all->ifa_flags & IFF_UP &&
            mn_addr_from_sockaddr(all->ifa_addr, &is) >= 0 && mn_addr_equal(&is, addr))
            return all;
    return NULL;
}
