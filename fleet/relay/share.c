#include "fleet/relay/share.h"

#include <stddef.h>

static void append(struct mn_share *share, struct mn_share_turn *turn)
{
    turn->next = NULL;
    if (share->last)
        share->last->next = turn;
    else
        share->first = turn;
    share->last = turn;
}

static void pop(struct mn_share *share)
{
    share->first = share->first->next;
    if (!share->first)
        share->last = NULL;
}

static void rotate(struct mn_share *share)
{
    struct mn_share_turn *turn = share->first;

    pop(share);
    append(share, turn);
}

void mn_share_wait(struct mn_share *share, struct mn_share_turn *turn, uint32_t cost)
{
    if (turn->queued)
        return;
    turn->queued = 1;
    turn->cost = cost;
    turn->credit = 0;
    share->queued++;
    append(share, turn);
}

static int may(const struct mn_share *share, const struct mn_share_turn *turn)
{
    uint32_t free = share->cap - share->used;

    return share->used < share->cap && (!turn->used || turn->used < free);
}

struct mn_share_turn *mn_share_next(struct mn_share *share)
{
    if (share->used >= share->cap)
        return NULL;
    for (uint32_t i = 0; i < share->queued; i++, rotate(share)) {
        struct mn_share_turn *turn = share->first;
        if (!may(share, turn))
            continue;
        if (turn->credit < turn->cost)
            turn->credit += MN_SHARE_QUANTUM;
        return turn;
    }
    return NULL;
}

void mn_share_sent(struct mn_share *share, struct mn_share_turn *turn, uint32_t next_cost)
{
    share->used++;
    turn->used++;
    turn->credit -= turn->cost;
    turn->cost = next_cost;
    if (!next_cost)
        mn_share_leave(share, turn);
    else if (turn->credit < next_cost && share->first == turn)
        rotate(share);
}

void mn_share_drained(struct mn_share *share, struct mn_share_turn *turn, uint32_t count)
{
    share->used -= count < share->used ? count : share->used;
    if (turn)
        turn->used -= count < turn->used ? count : turn->used;
}

void mn_share_leave(struct mn_share *share, struct mn_share_turn *turn)
{
    struct mn_share_turn *before = NULL;

    if (!turn->queued)
        return;
    for (struct mn_share_turn *t = share->first; t && t != turn; t = t->next)
        before = t;
    if (before ? before->next != turn : share->first != turn)
        return; /* of another trunk, which has gone */
    if (before)
        before->next = turn->next;
    else
        share->first = turn->next;
    if (share->last == turn)
        share->last = before;
    share->queued--;
    turn->next = NULL;
    turn->queued = 0;
    turn->cost = turn->credit = 0;
}
