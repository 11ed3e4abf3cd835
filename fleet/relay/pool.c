#include "fleet/relay/pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum mn_err mn_pool_open(size_t bytes, struct mn_pool *pool, struct mn_diag *diag)
{
    memset(pool, 0, sizeof *pool);
    pool->units = (uint32_t)(bytes / (MN_POOL_UNIT + MN_HEAD_SIZE));
    pool->size = (size_t)pool->units * (MN_POOL_UNIT + MN_HEAD_SIZE);
    pool->taken = calloc(pool->units ? pool->units : 1, 1);
    void *map = pool->taken ? mmap(NULL, pool->size, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)
                            : MAP_FAILED;
    if (map == MAP_FAILED) {
        free(pool->taken);
        pool->taken = NULL;
        return mn_fail(diag, MN_ERR_NOMEM,
                       "relay.buffers: no %zu MiB of memory for what is passed on; set fewer",
                       bytes >> 20);
    }
    pool->base = map;
    pool->heads = pool->base + (size_t)pool->units * MN_POOL_UNIT;
    pool->locked = !mlock(map, pool->size);
    return MN_OK;
}

void mn_pool_close(struct mn_pool *pool)
{
    if (pool->base)
        munmap(pool->base, pool->size);
    free(pool->taken);
    memset(pool, 0, sizeof *pool);
}

int mn_pool_take(struct mn_pool *pool, enum mn_relay_kind kind, uint32_t count, int edge,
                 struct mn_pool_run *run)
{
    uint32_t each = mn_relay_bytes(kind) / MN_POOL_UNIT, want = each * count, seen = 0;
    uint32_t end = edge ? pool->units / 2 : pool->units;

    if (!count)
        return 0;
    for (uint32_t i = 0; i < end; i++) {
        uint32_t at = edge ? i : end - 1 - i;
        seen = pool->taken[at] ? 0 : seen + 1;
        if (seen < want)
            continue;
        *run = (struct mn_pool_run){edge ? at + 1 - want : at, count, each, edge};
        memset(pool->taken + run->first, 1, want);
        pool->used += want;
        return 1;
    }
    return 0;
}

size_t mn_pool_edge_bytes(const struct mn_pool *pool)
{
    size_t units = 0;

    for (uint32_t i = 0; i < pool->units / 2; i++)
        units += !pool->taken[i];
    return units * MN_POOL_UNIT;
}

void mn_pool_give(struct mn_pool *pool, struct mn_pool_run *run)
{
    uint32_t had = run->count * run->units_each;

    memset(pool->taken + run->first, 0, had);
    pool->used -= had;
    memset(run, 0, sizeof *run);
}
