/* The memory of a relay: one mapping, made at once, from which runs of equal buffers are cut. Each
 * 64 KiB have a header of MN_HEAD_SIZE bytes beside them, in the same mapping. */
#ifndef MN_RELAY_POOL_H
#define MN_RELAY_POOL_H

#include "plugin/relay/frame.h"
#include "topo/base/err.h"

#define MN_POOL_UNIT MN_RELAY_SMALL

struct mn_pool {
    uint8_t *base, *heads;
    size_t size; /* of the mapping, no more than was asked for */
    uint32_t units, used;
    uint8_t *taken; /* by unit */
    int locked;     /* the kernel keeps it in memory */
};

/* Buffers of units_each, one behind the other; count 0: none. */
struct mn_pool_run {
    uint32_t first, count, units_each;
    int edge;
};

enum mn_err mn_pool_open(size_t bytes, struct mn_pool *pool, struct mn_diag *diag);
void mn_pool_close(struct mn_pool *pool);
/* 0: there is no run of that many. Edges are cut from the lower half alone, trunks from the upper
 * end on, so that edges which come and go leave trunks half of it in one. */
int mn_pool_take(struct mn_pool *pool, enum mn_relay_kind kind, uint32_t count, int edge,
                 struct mn_pool_run *run);
/* What edges may still have: trunks that are many are there, too. */
size_t mn_pool_edge_bytes(const struct mn_pool *pool);
void mn_pool_give(struct mn_pool *pool, struct mn_pool_run *run);

static inline uint8_t *mn_pool_data(const struct mn_pool *pool, const struct mn_pool_run *run,
                                    uint32_t i)
{
    return pool->base + (size_t)(run->first + i * run->units_each) * MN_POOL_UNIT;
}
static inline uint8_t *mn_pool_head(const struct mn_pool *pool, const struct mn_pool_run *run,
                                    uint32_t i)
{
    return pool->heads + (size_t)(run->first + i * run->units_each) * MN_HEAD_SIZE;
}

#endif
