#include <stdio.h>
#include <string.h>

#include "plugin/plan.h"

/* One thread serves all sockets of a connection, and NCCL opens a connection for each channel: a
 * second socket on the same cable cost more than it gave (64 KiB messages over veth: a fifth less).
 * Queue pairs alike: messages in flight hide the gaps between completions. */
#define LANES_AUTO 1

static int shares(const struct mn_side *c, const struct mn_side *a, int i, int j)
{
    const struct mn_addr *x = &c->locals[i].addr, *y = &a->locals[j].addr;

    if (c->node_id == a->node_id)
        return mn_addr_equal(x, y);
    return !mn_addr_equal(x, y) && !mn_addr_is_loopback(x) && !mn_addr_is_loopback(y) &&
           (mn_addr_share_subnet(x, y) || mn_routed_join(c->routes, x, y) ||
            mn_routed_join(a->routes, y, x));
}

static long pair_speed(const struct mn_side *c, const struct mn_side *a, struct mn_pair pair)
{
    long x = c->locals[pair.connector].speed_mbps, y = a->locals[pair.acceptor].speed_mbps;
    return !x || (y && y < x) ? y : x;
}

static void drop_slow(const struct mn_side *c, const struct mn_side *a, struct mn_pair *pairs,
                      int *count)
{
    int kept = 0;
    long best = 0;

    for (int k = 0; k < *count; k++)
        if (pair_speed(c, a, pairs[k]) > best)
            best = pair_speed(c, a, pairs[k]);
    for (int k = 0; k < *count; k++) {
        long speed = pair_speed(c, a, pairs[k]);
        if (!speed || speed * 2 >= best)
            pairs[kept++] = pairs[k];
    }
    *count = kept;
}

int mn_pairs_find(const struct mn_side *c, const struct mn_side *a,
                  struct mn_pair pairs[MN_MAX_LOCALS])
{
    uint8_t used_c[256] = {0}, used_a[256] = {0};
    int count = 0;

    for (int i = 0; i < c->n_locals; i++) {
        for (int j = 0; j < a->n_locals && count < MN_MAX_LOCALS; j++) {
            uint8_t *uc = &used_c[c->locals[i].nic], *ua = &used_a[a->locals[j].nic];
            if (*uc || *ua || !shares(c, a, i, j))
                continue;
            *uc = *ua = 1;
            pairs[count++] = (struct mn_pair){(uint8_t)i, (uint8_t)j};
        }
    }
    drop_slow(c, a, pairs, &count);
    for (int k = 1; k < count; k++) /* insertion sort: stable, at most eight */
        for (int m = k; m && pair_speed(c, a, pairs[m]) > pair_speed(c, a, pairs[m - 1]); m--) {
            struct mn_pair swap = pairs[m];
            pairs[m] = pairs[m - 1];
            pairs[m - 1] = swap;
        }
    return count;
}

/* --- what carries the data ---------------------------------------------------------------------
 */

static int is_ready(const struct mn_rdma_end *x, const struct mn_rdma_end *y)
{
    return x->state == MN_RDMA_READY && y->state == MN_RDMA_READY &&
           x->infiniband == y->infiniband && (x->infiniband || x->gid_type == y->gid_type);
}

/* Why a pair has no RDMA in common. */
static void explain_no_rdma(const struct mn_side *c, const struct mn_side *a,
                            const struct mn_plan *plan, char *text, size_t size)
{
    const struct mn_side *broken = c->rdma_text[0] ? c : a;

    const struct mn_rdma_end *x = &c->rdma[plan->pairs[0].connector];
    const struct mn_rdma_end *y = &a->rdma[plan->pairs[0].acceptor];
    if (broken->rdma_text[0])
        snprintf(text, size, "on %s: %s", broken->node, broken->rdma_text);
    else if (x->state == MN_RDMA_NONE || y->state == MN_RDMA_NONE)
        snprintf(text, size, "%s has no RDMA device on %s",
                 x->state == MN_RDMA_NONE ? c->node : a->node,
                 x->state == MN_RDMA_NONE ? c->locals[plan->pairs[0].connector].netdev
                                          : a->locals[plan->pairs[0].acceptor].netdev);
    else
        snprintf(text, size, "%s uses %s GIDs, %s uses %s GIDs", c->node,
                 mn_gid_type_name((enum mn_gid_type)x->gid_type), a->node,
                 mn_gid_type_name((enum mn_gid_type)y->gid_type));
}

static int has_rdma(const struct mn_side *side)
{
    for (int i = 0; i < side->n_locals; i++)
        if (side->rdma[i].state != MN_RDMA_NONE)
            return 1;
    return 0;
}

int mn_plan_reaches_far(const struct mn_side *side)
{
    return !mn_reach_barred_by(side->reach, side->kind, side->allow_tcp);
}

int mn_plan_may_relay(const struct mn_side *side)
{
    return side->relay >= MN_RELAY_LATELY;
}

int mn_plan_only_relay(const struct mn_side sides[2])
{
    return sides[0].reach == MN_REACH_RELAY || sides[1].reach == MN_REACH_RELAY;
}

/* One that failed lately is tried again where nothing else is allowed. */
static int takes_relay(const struct mn_side *c, const struct mn_side *a)
{
    int wanted = c->reach == MN_REACH_RELAY || a->reach == MN_REACH_RELAY;
    enum mn_relay_able least = c->relay < a->relay ? c->relay : a->relay;

    return least >= (wanted ? MN_RELAY_LATELY : MN_RELAY_ABLE) && c->mesh && c->mesh == a->mesh &&
           c->relay_node != a->relay_node;
}

char *mn_plan_why_no_relay(const struct mn_side *c, const struct mn_side *a, char *text,
                           size_t size)
{
    static const char *const causes[] =
        {[MN_RELAY_OFF] = "it is not to be had: it takes a mesh file in which they are three nodes "
                          "or more, and transport.reach auto or relay",
         [MN_RELAY_KEYLESS] = "there is no cluster key (plugin.key_file), and no meshnet relayd at "
                              "relay.socket",
         [MN_RELAY_LATELY] = "it failed less than a minute ago"};
    const struct mn_side *worst = a->relay < c->relay ? a : c;

    text[0] = 0;
    if (takes_relay(c, a))
        return text;
    if (worst->relay != MN_RELAY_ABLE)
        snprintf(text, size, "on %s %s", worst->node, causes[worst->relay]);
    else if (c->mesh != a->mesh)
        snprintf(text, size, "%s and %s go by different mesh files (meshnet push)", c->node,
                 a->node);
    else
        snprintf(text, size, "both are node %s of the mesh file", c->node);
    return text;
}

/* The relay; without it nothing but TCP gets there, and no cable's RDMA is passed over by it. */
static enum mn_err choose_far(const struct mn_side *c, const struct mn_side *a,
                              struct mn_plan *plan, struct mn_diag *diag)
{
    const struct mn_side *against = mn_plan_reaches_far(c) ? a : c;
    char why[256];

    plan->kind = MN_TRANSPORT_RELAY;
    if (takes_relay(c, a))
        return MN_OK;
    plan->kind = MN_TRANSPORT_TCP;
    if (c->reach == MN_REACH_RELAY || a->reach == MN_REACH_RELAY)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "no cable joins %s and %s, and on %s transport.reach: relay takes no other "
                       "way than meshnet relayd, but %s",
                       c->node, a->node, c->reach == MN_REACH_RELAY ? c->node : a->node,
                       mn_plan_why_no_relay(c, a, why, sizeof why));
    if (mn_plan_reaches_far(against))
        return MN_OK;
    return mn_fail(diag, MN_ERR_CONFIG,
                   "no cable joins %s and %s, and on %s the setting %s forbids another way",
                   c->node, a->node, against->node,
                   mn_reach_barred_by(against->reach, against->kind, against->allow_tcp));
}

static int tcp_possible(const struct mn_side *side)
{
    return side->kind == MN_TRANSPORT_TCP ||
           (side->kind == MN_TRANSPORT_AUTO &&
            (side->allow_tcp == MN_TCP_ALLOWED ||
             (side->allow_tcp == MN_TCP_AUTO && !has_rdma(side))));
}

/* Its table, or when that is not told because nothing of it is broken, what is used of it. */
static const char *gids_of(const struct mn_side *side, char *text, size_t size)
{
    size_t used = 0;

    if (side->rdma_table[0])
        return side->rdma_table;
    for (int i = 0; i < side->n_locals && used < size; i++) {
        const struct mn_rdma_end *end = &side->rdma[i];
        struct mn_addr addr = side->locals[i].addr;
        char name[MN_ADDR_TEXT];
        addr.prefix = -1;
        if (end->state == MN_RDMA_READY)
            used += (size_t)snprintf(text + used, size - used, "  %s port %u gid %u  %s %s  %s\n",
                                     end->device, end->port, end->gid_index,
                                     mn_addr_format(&addr, name, sizeof name),
                                     mn_gid_type_name((enum mn_gid_type)end->gid_type),
                                     side->locals[i].netdev);
    }
    char *last = used >= size ? strrchr(text, '\n') : NULL;
    if (last)
        last[1] = 0; /* whole lines */
    return used ? text : "  none\n";
}

static enum mn_err choose_kind(const struct mn_side *c, const struct mn_side *a,
                               struct mn_plan *plan, struct mn_diag *diag)
{
    char why[MN_TABLE_TEXT + 80], ours[MN_TABLE_TEXT], theirs[MN_TABLE_TEXT];
    int kept = 0;

    if (!plan->n_pairs)
        return choose_far(c, a, plan, diag);
    plan->kind = MN_TRANSPORT_TCP;
    if (c->kind == MN_TRANSPORT_TCP && a->kind == MN_TRANSPORT_TCP)
        return MN_OK;
    if (c->kind == MN_TRANSPORT_TCP || a->kind == MN_TRANSPORT_TCP) {
        if (c->kind != MN_TRANSPORT_VERBS && a->kind != MN_TRANSPORT_VERBS)
            return MN_OK;
        return mn_fail(diag, MN_ERR_CONFIG,
                       "transport.kind is tcp on %s and verbs on %s: use the same mesh file",
                       c->kind == MN_TRANSPORT_TCP ? c->node : a->node,
                       c->kind == MN_TRANSPORT_TCP ? a->node : c->node);
    }
    for (int i = 0; i < plan->n_pairs; i++)
        if (is_ready(&c->rdma[plan->pairs[i].connector], &a->rdma[plan->pairs[i].acceptor]))
            plan->pairs[kept++] = plan->pairs[i];
    if (kept) {
        plan->n_pairs = kept;
        plan->kind = MN_TRANSPORT_VERBS;
        return MN_OK;
    }
    if (!has_rdma(c) && !has_rdma(a) && tcp_possible(c) && tcp_possible(a))
        return MN_OK; /* nothing that could have been used is left unused */
    explain_no_rdma(c, a, plan, why, sizeof why);
    if (tcp_possible(c) && tcp_possible(a)) {
        snprintf(plan->why_tcp, sizeof plan->why_tcp, "%.127s", why);
        plan->rdma_failed = has_rdma(c) && has_rdma(a);
        return MN_OK;
    }
    mn_fail(diag, MN_ERR_CONFIG,
            "no RDMA between %s and %s: %s. TCP is used when transport.allow_tcp is true "
            "(MESHNET_ALLOW_TCP=true) on both",
            c->node, a->node, why);
    if (diag && (has_rdma(c) || has_rdma(a))) {
        size_t used = strlen(diag->text);
        snprintf(diag->text + used, sizeof diag->text - used, ". GIDs of %s:\n%sGIDs of %s:\n%s",
                 c->node, gids_of(c, ours, sizeof ours), a->node,
                 gids_of(a, theirs, sizeof theirs));
    }
    return MN_ERR_CONFIG;
}

/* A NIC's speed, or its part of the port that its group shares, counting the NICs in the plan. */
static long share_of_port(const struct mn_side *side, const uint8_t *ends, int n, int i)
{
    const struct mn_local *l = &side->locals[ends[i]];
    long capacity = 0, total = 0;

    if (!l->group)
        return l->speed_mbps;
    for (int k = 0; k < n; k++) {
        const struct mn_local *other = &side->locals[ends[k]];
        if (other->group != l->group)
            continue;
        total += other->speed_mbps;
        capacity = other->speed_mbps > capacity ? other->speed_mbps : capacity;
    }
    return total ? l->speed_mbps * capacity / total : 0;
}

static void weigh(const struct mn_side *c, const struct mn_side *a, struct mn_plan *plan)
{
    uint8_t mine[MN_MAX_LOCALS], theirs[MN_MAX_LOCALS];
    int unknown = 0;

    for (int i = 0; i < plan->n_pairs; i++) {
        mine[i] = plan->pairs[i].connector;
        theirs[i] = plan->pairs[i].acceptor;
    }
    for (int i = 0; i < plan->n_pairs; i++) {
        long x = share_of_port(c, mine, plan->n_pairs, i);
        long y = share_of_port(a, theirs, plan->n_pairs, i);
        long least = !x || (y && y < x) ? y : x;
        plan->weights[i] = (uint32_t)least;
        unknown |= least <= 0;
    }
    for (int i = 0; unknown && i < plan->n_pairs; i++)
        plan->weights[i] = 1000;
}

/* What both want. */
static enum mn_detour detours(const struct mn_side *c, const struct mn_side *a)
{
    enum mn_detour least = c->detour < a->detour ? c->detour : a->detour;

    return c->node_id != a->node_id && takes_relay(c, a) ? least : MN_DETOUR_OFF;
}

enum mn_err mn_plan_make(const struct mn_side *c, const struct mn_side *a, struct mn_pair control,
                         struct mn_plan *plan, struct mn_diag *diag)
{
    struct mn_pair found[MN_MAX_LOCALS];

    memset(plan, 0, sizeof *plan);
    plan->lanes_per_pair = 1;
    if (control.connector != MN_ROUTED)
        plan->pairs[plan->n_pairs++] = control;
    int count = plan->n_pairs && c->node_id != a->node_id ? mn_pairs_find(c, a, found) : 0;
    for (int k = 0; k < count && plan->n_pairs < MN_MAX_LOCALS; k++)
        if (c->locals[found[k].connector].nic != c->locals[control.connector].nic &&
            a->locals[found[k].acceptor].nic != a->locals[control.acceptor].nic)
            plan->pairs[plan->n_pairs++] = found[k];
    enum mn_err err = choose_kind(c, a, plan, diag);
    if (err || !plan->n_pairs)
        return err;
    weigh(c, a, plan);
    plan->detour = detours(c, a);
    if (plan->detour) {
        plan->kind = MN_TRANSPORT_RELAY;
        return MN_OK;
    }
    int verbs = plan->kind == MN_TRANSPORT_VERBS;
    int x = verbs ? c->qps_per_link : c->sockets_per_link;
    int y = verbs ? a->qps_per_link : a->sockets_per_link;
    x = x ? x : LANES_AUTO;
    y = y ? y : LANES_AUTO;
    plan->lanes_per_pair = x < y ? x : y;
    return MN_OK;
}
