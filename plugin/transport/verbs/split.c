#include "plugin/transport/verbs/split.h"

#define ALIGN 128u /* NCCL's LL128 lines stay whole */

/* The way on which size bytes are done first, of those that have a weight. */
static uint32_t best_way(const struct verbs_way *ways, int n, int first, uint32_t size)
{
    uint32_t best = (uint32_t)(first % n);

    for (int i = 1; i < n; i++) {
        uint32_t way = (uint32_t)((first + i) % n);
        if (!ways[way].weight)
            continue;
        if (!ways[best].weight || (ways[way].outstanding + size) * ways[best].weight <
                                      (ways[best].outstanding + size) * ways[way].weight)
            best = way;
    }
    return best;
}

/* What each of the chosen ways gets; returns the index into chosen of the one with the least,
 * *least its bytes, which may be negative: it has more to do already than the level allows. */
static int fill(const struct verbs_way *ways, const uint32_t *chosen, int n, uint32_t size,
                int64_t *lengths, int64_t *least)
{
    uint64_t total = size, weight = 0;
    int lowest = 0;

    for (int i = 0; i < n; i++) {
        total += ways[chosen[i]].outstanding;
        weight += ways[chosen[i]].weight;
    }
    for (int i = 0; i < n; i++) {
        const struct verbs_way *way = &ways[chosen[i]];
        lengths[i] = (int64_t)(total * way->weight / weight) - (int64_t)way->outstanding;
        if (lengths[i] < lengths[lowest])
            lowest = i;
    }
    *least = lengths[lowest];
    return lowest;
}

int verbs_split(const struct verbs_way *ways, int n, int first, uint32_t size, int max_parts,
                struct verbs_part parts[VERBS_QPS])
{
    uint32_t chosen[VERBS_QPS];
    int64_t lengths[VERBS_QPS], least;
    int kept = n;

    parts[0] = (struct verbs_part){0, 0, size};
    if (n == 1)
        return 1;
    for (int i = 0; i < n; i++)
        chosen[i] = (uint32_t)((first + i) % n);
    /* Drops the way with the least until every part is worth its cost: at most n - 1 rounds. */
    while (kept > 1 && size >= 2 * VERBS_STRIPE_MIN) {
        int lowest = fill(ways, chosen, kept, size, lengths, &least);
        if (least >= VERBS_STRIPE_MIN && kept <= max_parts)
            break;
        for (kept--; lowest < kept; lowest++)
            chosen[lowest] = chosen[lowest + 1];
    }
    if (kept == 1 || size < 2 * VERBS_STRIPE_MIN) {
        parts[0].way = best_way(ways, n, first, size);
        return 1;
    }
    uint32_t at = 0;
    for (int i = 0; i < kept; i++) {
        uint32_t length = (uint32_t)lengths[i] & ~(ALIGN - 1);
        parts[i] = (struct verbs_part){chosen[i], at, i == kept - 1 ? size - at : length};
        at += length;
    }
    return kept;
}
