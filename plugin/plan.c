#include <string.h>

#include "plugin/plan.h"

/* One thread serves all sockets of a connection, and NCCL opens a connection for each channel: a
 * second socket on the same cable cost more than it gave (64 KiB messages over veth: a fifth less).
 */
#define LANES_AUTO 1

static int shares(const struct mn_side *c, const struct mn_side *a, int i, int j)
{
    const struct mn_addr *x = &c->locals[i].addr, *y = &a->locals[j].addr;

    if (c->node_id == a->node_id)
        return mn_addr_equal(x, y);
    return !mn_addr_equal(x, y) && !mn_addr_is_loopback(x) && !mn_addr_is_loopback(y) &&
           mn_addr_share_subnet(x, y);
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

void mn_plan_make(const struct mn_side *c, const struct mn_side *a, struct mn_pair control,
                  struct mn_plan *plan)
{
    struct mn_pair found[MN_MAX_LOCALS];
    int sc = c->sockets_per_link, sa = a->sockets_per_link;

    memset(plan, 0, sizeof *plan);
    plan->lanes_per_pair = 1;
    if (control.connector == MN_ROUTED)
        return;
    plan->pairs[plan->n_pairs++] = control;
    int same_host = c->node_id == a->node_id;
    sc = sc ? sc : LANES_AUTO;
    sa = sa ? sa : LANES_AUTO;
    plan->lanes_per_pair = sc < sa ? sc : sa;
    if (same_host)
        return;
    int count = mn_pairs_find(c, a, found);
    for (int k = 0; k < count && plan->n_pairs < MN_MAX_LOCALS; k++)
        if (c->locals[found[k].connector].nic != c->locals[control.connector].nic &&
            a->locals[found[k].acceptor].nic != a->locals[control.acceptor].nic)
            plan->pairs[plan->n_pairs++] = found[k];
}
