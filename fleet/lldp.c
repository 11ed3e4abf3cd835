#include "fleet/lldp.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/clean.h"

enum { END, CHASSIS, PORT, TTL, DESCRIPTION, SYSTEM, CAPABILITIES = 7 };

/* System capabilities: repeater, bridge, router, and the components of VLAN bridges and relays. */
#define PASSES_ON (1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 9 | 1 << 10)

/* Kinds of identifiers that are no text; they are numbered apart for chassis and port. */
struct kinds {
    int mac, address;
};
static const struct kinds of_chassis = {4, 5}, of_port = {3, 4};

static void take_text(char *to, size_t room, const uint8_t *from, size_t len)
{
    size_t n = len < room ? len : room - 1;

    memcpy(to, from, n);
    to[n] = 0;
    mn_clean(to);
}

/* The first byte is the kind of identifier. */
static int take_id(char *to, size_t room, const struct kinds *kinds, const uint8_t *v, size_t len)
{
    if (len < 2)
        return 0;
    if (v[0] == kinds->mac) {
        if (len != 7)
            return 0;
        snprintf(to, room, "%02x:%02x:%02x:%02x:%02x:%02x", v[1], v[2], v[3], v[4], v[5], v[6]);
    } else if (v[0] == kinds->address) {
        int family = v[1] == 1 && len == 6 ? AF_INET : v[1] == 2 && len == 18 ? AF_INET6 : 0;
        if (!family || !inet_ntop(family, v + 2, to, (socklen_t)room))
            to[0] = 0;
    } else {
        take_text(to, room, v + 1, len - 1);
    }
    return 1;
}

static enum mn_err take(struct mn_lldp *lldp, int type, const uint8_t *v, size_t len,
                        struct mn_diag *diag)
{
    int good = 1;

    switch (type) {
    case CHASSIS:
        good = take_id(lldp->chassis, sizeof lldp->chassis, &of_chassis, v, len);
        break;
    case PORT:
        good = take_id(lldp->port, sizeof lldp->port, &of_port, v, len);
        break;
    case TTL:
        good = len >= 2;
        if (good)
            lldp->ttl = v[0] << 8 | v[1];
        break;
    case DESCRIPTION:
        take_text(lldp->described, sizeof lldp->described, v, len);
        break;
    case SYSTEM:
        take_text(lldp->system, sizeof lldp->system, v, len);
        break;
    case CAPABILITIES: /* those it has, then those in use */
        if (len == 4)
            lldp->bridges = (v[2] << 8 | v[3]) & PASSES_ON ? MN_BRIDGES_YES : MN_BRIDGES_NO;
        break;
    default:
        break;
    }
    return good ? MN_OK
                : mn_fail(diag, MN_ERR_PROTO, "LLDP: element %d of %zu bytes is none", type, len);
}

enum mn_err mn_lldp_parse(const uint8_t *data, size_t len, struct mn_lldp *lldp,
                          struct mn_diag *diag)
{
    enum mn_err err = MN_OK;
    size_t at = 0;

    memset(lldp, 0, sizeof *lldp);
    for (int n = 1; !err; n++) {
        if (len - at < 2)
            return n > TTL ? MN_OK : mn_fail(diag, MN_ERR_PROTO, "LLDP: cut off");
        int type = data[at] >> 1;
        size_t size = (size_t)(data[at] & 1) << 8 | data[at + 1];
        at += 2;
        if (size > len - at)
            return mn_fail(diag, MN_ERR_PROTO, "LLDP: an element of %zu bytes where %zu are left",
                           size, len - at);
        /* The three that must be there come first, in their order, and once. */
        if (n <= TTL ? type != n : type >= CHASSIS && type <= TTL)
            return mn_fail(diag, MN_ERR_PROTO, "LLDP: element %d in place %d", type, n);
        if (type == END)
            return MN_OK;
        err = take(lldp, type, data + at, size, diag);
        at += size;
    }
    return err;
}

static uint8_t *put(uint8_t *p, int type, int kind, const void *value, size_t len)
{
    size_t size = len + (kind ? 1 : 0);

    *p++ = (uint8_t)(type << 1 | (size >> 8 & 1));
    *p++ = (uint8_t)size;
    if (kind)
        *p++ = (uint8_t)kind;
    if (len)
        memcpy(p, value, len);
    return p + len;
}

size_t mn_lldp_write(const uint8_t mac[6], const char *netdev, const char *system, int ttl,
                     uint8_t *buf)
{
    const uint8_t seconds[2] = {(uint8_t)(ttl >> 8), (uint8_t)ttl};
    uint8_t *p = put(buf, CHASSIS, of_chassis.mac, mac, 6);

    p = put(p, PORT, 5, netdev, strnlen(netdev, 255)); /* 5: a name of an interface */
    p = put(p, TTL, 0, seconds, sizeof seconds);
    if (ttl)
        p = put(p, SYSTEM, 0, system, strnlen(system, 200));
    p = put(p, END, 0, NULL, 0);
    return (size_t)(p - buf);
}
