#include "fleet/relay/quota.h"

#include "fleet/relay/engine.h"

size_t mn_quota_more(size_t free, size_t node, size_t user)
{
    /* node + room <= MN_QUOTA_NODE * (free - room), and with more the same of user and room. */
    size_t room =
        MN_QUOTA_NODE * free > node ? (MN_QUOTA_NODE * free - node) / (MN_QUOTA_NODE + 1) : 0;

    return MN_QUOTA_USER * room > user ? (MN_QUOTA_USER * room - user) / (MN_QUOTA_USER + 1) : 0;
}

size_t relayd_quota_bytes(const struct relayd_line *line, size_t *has)
{
    const struct mn_relay *relay = line->relay;
    size_t node = 0, user = 0;

    /* Those of ways that have ended count until they are given back. */
    for (const struct relayd_hop *hop = relay->hops; hop; hop = hop->next) {
        size_t bytes = (size_t)hop->run.count * hop->run.units_each * MN_POOL_UNIT;
        if (!hop->run.edge || hop->owner.node != line->who.node)
            continue;
        node += bytes;
        user += hop->owner.uid == line->who.uid ? bytes : 0;
    }
    *has = user;
    return mn_quota_more(mn_pool_edge_bytes(&relay->pool), node, user);
}

static int is_process_of(const struct relayd_line *line, const struct relayd_line *other, int user)
{
    return line && line->up && !line->ended && line->who.kind == MN_LINE_PROCESS &&
           line->who.node == other->who.node && (!user || line->who.uid == other->who.uid);
}

const char *relayd_quota_attach(const struct relayd_line *line)
{
    unsigned n = 0;

    if (line->who.kind != MN_LINE_PROCESS)
        return NULL;
    for (const struct relayd_way *way = line->relay->ways; way; way = way->next)
        for (int side = 0; side < RELAYD_SIDES; side++)
            n += !way->ended && is_process_of(way->line[side], line, 1);
    return n < MN_QUOTA_USER_WAYS ? NULL : "as many flows from one user as may be";
}

const char *relayd_quota_new_way(const struct relayd_line *line, uint32_t node)
{
    const struct mn_relay *relay = line->relay;
    unsigned n = 0;

    if (relay->flows.count >= MN_QUOTA_WAYS)
        return "as many flows as may be";
    for (const struct relayd_way *way = relay->ways; way; way = way->next)
        n += !way->ended && way->node == node;
    return n < MN_QUOTA_NODE_WAYS ? NULL : "as many flows from one node as may be";
}

const char *relayd_quota_line(const struct relayd_line *line)
{
    unsigned node = 0, user = 0;

    if (line->who.kind != MN_LINE_PROCESS)
        return NULL;
    for (const struct relayd_line *l = line->relay->lines; l; l = l->next) {
        node += is_process_of(l, line, 0);
        user += is_process_of(l, line, 1);
    }
    if (user > MN_QUOTA_USER_LINES)
        return "from one user";
    return node > MN_QUOTA_NODE_LINES ? "from one node" : NULL;
}
