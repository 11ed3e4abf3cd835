/* Whose piece goes next over a trunk, and who has to wait for room: arithmetic alone.
 *
 * A trunk has `cap` buffers at the next relay. A flow may have another there while it has fewer
 * than are free, and one in any case: so one whose pieces stay leaves room for others. Those that
 * may take turns by bytes (deficit round robin); who has to wait loses nothing of its part. */
#ifndef MN_RELAY_SHARE_H
#define MN_RELAY_SHARE_H

#include <stdint.h>

/* A flow's part in one trunk; all zero: nothing waits, nothing is there. */
struct mn_share_turn {
    struct mn_share_turn *next;
    uint32_t cost; /* of the oldest piece that waits, 0 = none does */
    uint32_t used; /* pieces at the next relay */
    uint32_t credit;
    uint8_t queued;
};

struct mn_share {
    struct mn_share_turn *first, *last;
    uint32_t cap, used;
    uint32_t queued;
};

/* Added at each turn; no piece costs more. */
#define MN_SHARE_QUANTUM ((256u << 10) + 64)

/* The turn has a piece that waits; of one that is queued already nothing changes. */
void mn_share_wait(struct mn_share *share, struct mn_share_turn *turn, uint32_t cost);
/* Who may send its oldest piece now, the same until it is sent or leaves; NULL: nobody. */
struct mn_share_turn *mn_share_next(struct mn_share *share);
/* It was sent. next_cost: of the next that waits, 0 = none. */
void mn_share_sent(struct mn_share *share, struct mn_share_turn *turn, uint32_t next_cost);
/* So many buffers are free again at the next relay. turn NULL: of a flow that has left. */
void mn_share_drained(struct mn_share *share, struct mn_share_turn *turn, uint32_t count);
/* What it has at the next relay stays counted until it is drained. */
void mn_share_leave(struct mn_share *share, struct mn_share_turn *turn);

#endif
