#include "fleet/nft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 16 /* chains that call each other; the kernel's limit */

/* A match: it holds, it does not, or that is not known here. */
enum answer { NO, YES, UNKNOWN };

struct judge {
    const cJSON *rules;         /* the list "nftables" */
    const char *family, *table; /* of the base chain */
    const struct mn_nft_packet *packet;
    int unsure; /* a rule before may have accepted it */
};

enum outcome { GOES_ON, ACCEPTED, DROPPED, RETURNED };

static const char *text_of(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));

    return text ? text : "";
}

static enum answer either(enum answer a, enum answer b)
{
    return a == YES || b == YES ? YES : a == UNKNOWN || b == UNKNOWN ? UNKNOWN : NO;
}

/* --- matches ---------------------------------------------------------------------------------- */

static enum answer same_name(const char *name, const char *pattern)
{
    size_t len = strlen(pattern);

    if (len && pattern[len - 1] == '*')
        return name && !strncmp(name, pattern, len - 1) ? YES : NO;
    return name && !strcmp(name, pattern) ? YES : NO;
}

static enum answer name_is(const void *ctx, const cJSON *right)
{
    return cJSON_IsString(right) ? same_name(ctx, right->valuestring) : UNKNOWN;
}

static enum answer port_is(const void *ctx, const cJSON *right)
{
    const cJSON *range = cJSON_GetObjectItemCaseSensitive(right, "range");
    int port = *(const int *)ctx;

    if (cJSON_IsNumber(right))
        return right->valueint == port ? YES : NO;
    if (cJSON_GetArraySize(range) == 2)
        return cJSON_GetArrayItem(range, 0)->valueint <= port &&
                       port <= cJSON_GetArrayItem(range, 1)->valueint
                   ? YES
                   : NO;
    return UNKNOWN;
}

static enum answer addr_is(const void *ctx, const cJSON *right)
{
    const cJSON *prefix = cJSON_GetObjectItemCaseSensitive(right, "prefix");
    const cJSON *len = cJSON_GetObjectItemCaseSensitive(prefix, "len");
    const struct mn_addr *addr = ctx;
    struct mn_addr net, own = *addr;

    if (cJSON_IsString(right) && !mn_addr_parse(right->valuestring, &net, NULL))
        return mn_addr_equal(addr, &net) ? YES : NO;
    if (!prefix || !cJSON_IsNumber(len) || mn_addr_parse(text_of(prefix, "addr"), &net, NULL))
        return UNKNOWN;
    net.prefix = own.prefix = len->valueint;
    if (net.prefix < 0 || net.prefix > (net.family == AF_INET ? 32 : 128))
        return UNKNOWN;
    return mn_addr_share_subnet(&net, &own) ? YES : NO;
}

static enum answer state_is(const void *ctx, const cJSON *right)
{
    return name_is(ctx, right);
}

static const cJSON *named_set(const struct judge *j, const char *name)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, j->rules)
    {
        const cJSON *set = cJSON_GetObjectItemCaseSensitive(item, "set");
        if (set && !strcmp(text_of(set, "name"), name) &&
            !strcmp(text_of(set, "family"), j->family) && !strcmp(text_of(set, "table"), j->table))
            return set;
    }
    return NULL;
}

typedef enum answer is_fn(const void *ctx, const cJSON *right);

/* One value, a list, a set in place or one by its name. */
static enum answer is_any(const struct judge *j, const cJSON *right, is_fn *is, const void *ctx)
{
    const cJSON *list =
        cJSON_IsArray(right) ? right : cJSON_GetObjectItemCaseSensitive(right, "set");
    enum answer found = NO;
    const cJSON *item;

    if (cJSON_IsString(right) && right->valuestring[0] == '@') {
        const cJSON *set = named_set(j, right->valuestring + 1);
        if (!set)
            return UNKNOWN;
        list = cJSON_GetObjectItemCaseSensitive(set, "elem");
        if (!list)
            return NO;
    }
    if (!cJSON_IsArray(list))
        return is(ctx, right);
    cJSON_ArrayForEach(item, list) found = either(found, is(ctx, item));
    return found;
}

static enum answer meta_is(const struct judge *j, const char *key, const cJSON *right)
{
    const struct mn_nft_packet *p = j->packet;

    if (!strcmp(key, "iifname") || !strcmp(key, "iif"))
        return is_any(j, right, name_is, p->in);
    if (!strcmp(key, "oifname") || !strcmp(key, "oif"))
        return is_any(j, right, name_is, p->out);
    if (!strcmp(key, "l4proto"))
        return is_any(j, right, name_is, p->protocol);
    if (!strcmp(key, "nfproto"))
        return is_any(j, right, name_is, p->to.family == AF_INET ? "ipv4" : "ipv6");
    return UNKNOWN;
}

static enum answer payload_is(const struct judge *j, const cJSON *payload, const cJSON *right)
{
    const struct mn_nft_packet *p = j->packet;
    const char *protocol = text_of(payload, "protocol"), *field = text_of(payload, "field");
    const char *own = p->to.family == AF_INET ? "ip" : "ip6";

    if (!strcmp(protocol, "ip") || !strcmp(protocol, "ip6")) {
        if (strcmp(protocol, own) != 0)
            return NO;
        if (!strcmp(field, "saddr") || !strcmp(field, "daddr"))
            return is_any(j, right, addr_is, *field == 's' ? &p->from : &p->to);
        if (!strcmp(field, "protocol") || !strcmp(field, "nexthdr"))
            return is_any(j, right, name_is, p->protocol);
        return UNKNOWN;
    }
    if (!strcmp(protocol, "th") || !strcmp(protocol, p->protocol))
        return !strcmp(field, "dport") ? is_any(j, right, port_is, &p->port) : UNKNOWN;
    return !strcmp(protocol, "tcp") || !strcmp(protocol, "udp") || !strncmp(protocol, "icmp", 4)
               ? NO
               : UNKNOWN;
}

/* nft asks for the protocol first, whatever the operator: of another one neither == nor != holds.
 */
static int is_of_another(const struct judge *j, const cJSON *payload)
{
    const struct mn_nft_packet *p = j->packet;
    const char *protocol = text_of(payload, "protocol");

    if (!strcmp(protocol, "ip") || !strcmp(protocol, "ip6"))
        return strcmp(protocol, p->to.family == AF_INET ? "ip" : "ip6") != 0;
    return (!strcmp(protocol, "tcp") || !strcmp(protocol, "udp") ||
            !strncmp(protocol, "icmp", 4)) &&
           strcmp(protocol, p->protocol) != 0;
}

static enum answer match(const struct judge *j, const cJSON *m)
{
    const cJSON *left = cJSON_GetObjectItemCaseSensitive(m, "left");
    const cJSON *right = cJSON_GetObjectItemCaseSensitive(m, "right");
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(left, "meta");
    const cJSON *payload = cJSON_GetObjectItemCaseSensitive(left, "payload");
    const char *op = text_of(m, "op");
    enum answer found = UNKNOWN;

    if (payload && is_of_another(j, payload))
        return NO;
    if (meta)
        found = meta_is(j, text_of(meta, "key"), right);
    else if (payload)
        found = payload_is(j, payload, right);
    else if (!strcmp(text_of(cJSON_GetObjectItemCaseSensitive(left, "ct"), "key"), "state"))
        found = is_any(j, right, state_is, "new");
    if (!strcmp(op, "!="))
        return found == UNKNOWN ? UNKNOWN : found == YES ? NO : YES;
    return !strcmp(op, "==") || !strcmp(op, "in") ? found : UNKNOWN;
}

/* --- chains ----------------------------------------------------------------------------------- */

static enum outcome walk(struct judge *j, const char *chain, int depth, int sure);

/* What ends a rule, where all before it holds, for sure or perhaps. */
static enum outcome verdict(struct judge *j, const char *key, const cJSON *value, int depth,
                            int sure)
{
    int jumps = !strcmp(key, "jump") || !strcmp(key, "goto");

    if (!strcmp(key, "accept") || !strcmp(key, "queue") || !strcmp(key, "return")) {
        j->unsure |= !sure || *key == 'q';
        return !sure ? GOES_ON : *key == 'r' ? RETURNED : ACCEPTED;
    }
    if (!strcmp(key, "drop") || !strcmp(key, "reject"))
        return sure ? DROPPED : GOES_ON;
    if (!jumps)
        return GOES_ON;
    enum outcome end = walk(j, text_of(value, "target"), depth + 1, sure);
    if (end == ACCEPTED || end == DROPPED)
        return end;
    return *key == 'g' && sure ? RETURNED : GOES_ON;
}

/* Statements that neither match nor decide. */
static int is_idle(const char *key)
{
    static const char *const idle[] = {"counter", "log", "comment", "mangle", "notrack"};

    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (!strcmp(key, idle[i]))
            return 1;
    return 0;
}

static enum outcome follow(struct judge *j, const cJSON *rule, int depth, int sure)
{
    const cJSON *statement;

    cJSON_ArrayForEach(statement, cJSON_GetObjectItemCaseSensitive(rule, "expr"))
    {
        const cJSON *at = statement->child;
        static const char *const ends[] = {"accept", "drop", "reject", "return",
                                           "queue",  "jump", "goto"};
        if (!at || !at->string || is_idle(at->string))
            continue;
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
            if (!strcmp(at->string, ends[i]))
                return verdict(j, at->string, at, depth, sure);
        enum answer holds = !strcmp(at->string, "match") ? match(j, at) : UNKNOWN;
        if (holds == NO)
            return GOES_ON;
        sure &= holds == YES;
        /* What it does to the packet is not known: a verdict map, an address changed, a target of
         * iptables; after a match of iptables comes more. */
        if (holds == UNKNOWN && !statement->next)
            j->unsure = 1;
    }
    return GOES_ON;
}

static enum outcome walk(struct judge *j, const char *chain, int depth, int sure)
{
    const cJSON *item;

    if (depth > DEPTH)
        return GOES_ON;
    cJSON_ArrayForEach(item, j->rules)
    {
        const cJSON *rule = cJSON_GetObjectItemCaseSensitive(item, "rule");
        if (!rule || strcmp(text_of(rule, "chain"), chain) != 0 ||
            strcmp(text_of(rule, "family"), j->family) != 0 ||
            strcmp(text_of(rule, "table"), j->table) != 0)
            continue;
        enum outcome end = follow(j, rule, depth, sure);
        if (end != GOES_ON)
            return end;
    }
    return GOES_ON;
}

static int is_for(const cJSON *chain, const char *netdev)
{
    const cJSON *dev = cJSON_GetObjectItemCaseSensitive(chain, "dev"), *item;

    if (!dev)
        return 1;
    if (cJSON_IsString(dev))
        return netdev && !strcmp(dev->valuestring, netdev);
    cJSON_ArrayForEach(item, dev) if (cJSON_IsString(item) && netdev &&
                                      !strcmp(item->valuestring, netdev)) return 1;
    return 0;
}

static int sees(const cJSON *chain, const struct mn_nft_packet *p)
{
    const char *family = text_of(chain, "family"), *hook = text_of(chain, "hook");

    if (strcmp(text_of(chain, "type"), "filter") != 0 ||
        !strcmp(family, p->to.family == AF_INET ? "ip6" : "ip") || !strcmp(family, "bridge") ||
        !strcmp(family, "arp"))
        return 0;
    if (!strcmp(hook, "ingress"))
        return p->in && is_for(chain, p->in);
    if (!strcmp(hook, "egress"))
        return p->out && is_for(chain, p->out);
    if (!strcmp(hook, "prerouting"))
        return p->in != NULL;
    if (!strcmp(hook, "postrouting"))
        return p->out != NULL;
    return !strcmp(hook, !p->out ? "input" : !p->in ? "output" : "forward");
}

enum mn_nft_verdict mn_nft_judge(const cJSON *ruleset, const struct mn_nft_packet *packet,
                                 char *where, size_t size)
{
    struct judge j = {.rules = cJSON_GetObjectItemCaseSensitive(ruleset, "nftables"),
                      .packet = packet};
    enum mn_nft_verdict worst = MN_NFT_PASSES;
    const cJSON *item;

    cJSON_ArrayForEach(item, j.rules)
    {
        const cJSON *chain = cJSON_GetObjectItemCaseSensitive(item, "chain");
        if (!chain || !sees(chain, packet))
            continue;
        j.family = text_of(chain, "family");
        j.table = text_of(chain, "table");
        j.unsure = 0;
        enum outcome end = walk(&j, text_of(chain, "name"), 0, 1);
        if (end == ACCEPTED || (end != DROPPED && strcmp(text_of(chain, "policy"), "drop") != 0))
            continue;
        enum mn_nft_verdict found = j.unsure ? MN_NFT_MAY_DROP : MN_NFT_DROPS;
        if (found <= worst)
            continue;
        worst = found;
        snprintf(where, size, "%schain %.60s of table %.10s %.60s",
                 end == DROPPED ? "" : "the policy of ", text_of(chain, "name"), j.family, j.table);
    }
    return worst;
}
