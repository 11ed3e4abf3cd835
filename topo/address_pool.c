#include "topo/address_pool.h"

#include "topo/address_range.h"
#include "topo/base/mac.h"

int mn_pool_prefix(int family, int subnet_prefix, size_t subnets)
{
    int prefix = 16;

    if (family == AF_INET6)
        return 48;
    while (prefix > 8 &&
           mn_subnet_size(family, prefix) / mn_subnet_size(family, subnet_prefix) < subnets)
        prefix--;
    return prefix;
}

static int is_free(const struct mn_ranges *taken, const struct mn_addr *net)
{
    struct mn_range range = mn_subnet_range(net);

    return !mn_ranges_hit(taken, range.first, range.last);
}

static int is_private(const struct mn_addr *net)
{
    const uint8_t *b = net->bytes;

    if (net->family == AF_INET6)
        return (b[0] & 0xfe) == 0xfc;
    return b[0] == 10 || (b[0] == 172 && (b[1] & 0xf0) == 16);
}

static int choose_there(int prefix, const struct mn_addr *nets, size_t n_nets,
                        const struct mn_ranges *taken, struct mn_addr *pool)
{
    int found = 0;

    for (size_t i = 0; i < n_nets; i++) {
        struct mn_addr net = nets[i];
        if (net.prefix < prefix || !is_private(&net))
            continue;
        net.prefix = prefix;
        net = mn_addr_network(&net);
        if ((found && mn_addr_number(&net) >= mn_addr_number(pool)) || !is_free(taken, &net))
            continue;
        *pool = net;
        found = 1;
    }
    return found;
}

/* 10.66 and on, then what is below, then 172.16. */
static enum mn_err choose_ipv4(int prefix, const struct mn_ranges *taken, struct mn_addr *pool,
                               struct mn_diag *diag)
{
    static const struct {
        uint32_t first, last;
    } spans[] = {{0x0a420000, 0x0affffff}, {0x0a000000, 0x0a41ffff}, {0xac100000, 0xac1fffff}};
    uint64_t step = (uint64_t)mn_subnet_size(AF_INET, prefix);

    for (size_t s = 0; s < sizeof spans / sizeof *spans; s++)
        for (uint64_t at = (spans[s].first + step - 1) / step * step;
             at + step - 1 <= spans[s].last; at += step) {
            *pool = mn_addr_of_number(AF_INET, prefix, at);
            if (is_free(taken, pool))
                return MN_OK;
        }
    return mn_fail(diag, MN_ERR_CONFIG,
                   "no /%d of 10.0.0.0/8 and 172.16.0.0/12 is free of what the mesh, this host and "
                   "--avoid use: name a range with --pool, or take --ipv6",
                   prefix);
}

static enum mn_err choose_ipv6(int prefix, const struct mn_ranges *taken, struct mn_addr *pool,
                               struct mn_diag *diag)
{
    for (int tries = 0; tries < 64; tries++) {
        *pool = (struct mn_addr){.family = AF_INET6, .prefix = prefix, .bytes = {0xfd}};
        enum mn_err err = mn_random(pool->bytes + 1, 5, diag);
        if (err || is_free(taken, pool))
            return err;
    }
    return mn_fail(diag, MN_ERR_CONFIG,
                   "64 ranges of fd00::/8 at random are all in use: a route covers them; name a "
                   "range with --pool");
}

enum mn_err mn_pool_choose(int family, int prefix, const struct mn_addr *nets, size_t n_nets,
                           const struct mn_takens *taken, struct mn_addr *pool,
                           struct mn_diag *diag)
{
    struct mn_ranges ranges = {.items = NULL};
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < taken->count; i++)
        if (taken->items[i].net.family == family)
            mn_ranges_add(&ranges, mn_subnet_range(&taken->items[i].net));
    mn_ranges_sort(&ranges);
    if (!choose_there(prefix, nets, n_nets, &ranges, pool))
        err = family == AF_INET ? choose_ipv4(prefix, &ranges, pool, diag)
                                : choose_ipv6(prefix, &ranges, pool, diag);
    mn_ranges_free(&ranges);
    return err;
}

const char *mn_pool_reserved(const struct mn_addr *net)
{
    static const struct {
        struct mn_addr net;
        const char *what;
    } rows[] = {
        {{.family = AF_INET, .prefix = 8, .bytes = {127}}, "for loopback"},
        {{.family = AF_INET, .prefix = 4, .bytes = {224}}, "for multicast"},
        {{.family = AF_INET, .prefix = 4, .bytes = {240}}, "reserved"},
        {{.family = AF_INET, .prefix = 8, .bytes = {0}}, "of no network"},
        {{.family = AF_INET, .prefix = 16, .bytes = {169, 254}}, "link-local"},
        {{.family = AF_INET6, .prefix = 8, .bytes = {0xff}}, "for multicast"},
        {{.family = AF_INET6, .prefix = 10, .bytes = {0xfe, 0x80}}, "link-local"},
        {{.family = AF_INET6, .prefix = 8, .bytes = {0}}, "reserved, as ::1 is"},
    };
    struct mn_range range = mn_subnet_range(net);

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_range row = mn_subnet_range(&rows[i].net);

        if (rows[i].net.family == net->family && range.first <= row.last && row.first <= range.last)
            return rows[i].what;
    }
    return NULL;
}
