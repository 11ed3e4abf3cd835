#include "topo/address_place.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

/* The next size addresses that nobody uses, from at on; at is a multiple of size, last ends one. */
static int next_free(const struct mn_ranges *used, mn_wide at, mn_wide size, mn_wide last,
                     mn_wide *start)
{
    while (at <= last && last - at >= size - 1) {
        const struct mn_range *hit = mn_ranges_hit(used, at, at + (size - 1));
        if (!hit) {
            *start = at;
            return 1;
        }
        if (hit->last >= last)
            return 0;
        at = hit->last - hit->last % size + size;
    }
    return 0;
}

static int by_home(const void *x, const void *y)
{
    const struct mn_place *a = *(struct mn_place *const *)x, *b = *(struct mn_place *const *)y;

    if (a->home != b->home)
        return a->home < b->home ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* Beside the other half, if there is room. What was found is added to used. */
static void at_home(struct mn_place *places, size_t count, const struct mn_place_rules *r,
                    struct mn_ranges *used)
{
    struct mn_place **order = mn_zalloc((count + 1) * sizeof *order);
    struct mn_ranges found = {.items = NULL};
    mn_wide at = 0;
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        if (places[i].has_home)
            order[n++] = &places[i];
    if (n)
        qsort(order, n, sizeof *order, by_home);
    for (size_t i = 0; i < n; i++) {
        struct mn_place *p = order[i];
        if (!i || order[i - 1]->home != p->home)
            at = p->home;
        p->found = next_free(used, at, r->size, p->home + (r->block - 1), &p->start);
        if (!p->found)
            continue;
        at = p->start + r->size;
        mn_ranges_add(&found, (struct mn_range){p->start, p->start + (r->size - 1)});
    }
    for (size_t i = 0; i < found.count; i++)
        mn_ranges_add(used, found.items[i]);
    mn_ranges_sort(used);
    mn_ranges_free(&found);
    free(order);
}

/* A block for each two nodes. 0: there is no room, and nothing was found. */
static int in_blocks(struct mn_place *places, size_t count, const struct mn_place_rules *r,
                     const struct mn_ranges *used)
{
    mn_wide at = r->pool.first, block = 0, next = 0;
    const struct mn_place *last = NULL;
    int fits = 1;
    char *mine = mn_zalloc(count + 1);

    for (size_t i = 0; i < count && fits; i++) {
        struct mn_place *p = &places[i];
        if (p->found)
            continue;
        if (!last || last->group != p->group) {
            fits = next_free(used, at, r->block, r->pool.last, &block);
            next = block;
            at = block + r->block;
        }
        fits = fits && next - block < r->block;
        p->start = next;
        p->found = mine[i] = (char)fits;
        next += r->size;
        last = p;
    }
    for (size_t i = 0; i < count && !fits; i++)
        if (mine[i])
            places[i].found = 0;
    free(mine);
    return fits;
}

static void anywhere(struct mn_place *places, size_t count, const struct mn_place_rules *r,
                     const struct mn_ranges *used)
{
    mn_wide at = r->pool.first;

    for (size_t i = 0; i < count; i++) {
        if (places[i].found)
            continue;
        if (!next_free(used, at, r->size, r->pool.last, &places[i].start))
            return;
        places[i].found = 1;
        at = places[i].start + r->size;
    }
}

size_t mn_place_all(struct mn_place *places, size_t count, const struct mn_place_rules *rules)
{
    struct mn_ranges used = {.items = NULL};
    size_t found = 0;

    for (size_t i = 0; i < rules->used->count; i++)
        mn_ranges_add(&used, rules->used->items[i]);
    mn_ranges_sort(&used);
    at_home(places, count, rules, &used);
    if (!in_blocks(places, count, rules, &used))
        anywhere(places, count, rules, &used);
    for (size_t i = 0; i < count; i++)
        found += (size_t)places[i].found;
    mn_ranges_free(&used);
    return found;
}
