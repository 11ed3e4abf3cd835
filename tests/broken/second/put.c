/* Into a receive's buffer, which somebody may read meanwhile: LL and LL128 poll for flags in it.
 * Each byte once and ascending, aligned words whole, and each store after the one before it: so the
 * end of a line of 128 bytes is its last. Neither recv() nor memcpy() keeps such an order. */
#include <string.h>

#include "tests/broken/second/alt.h"

#define WORD sizeof(uint64_t)

static int is_aligned(const char *at)
{
    return (uintptr_t)at % WORD == 0;
}

void alt_put(char *to, const char *from, size_t n)
{
    uint64_t word;

    while (n > 0) {
        size_t step = is_aligned(to) && n >= WORD ? WORD : 1;
        memcpy(&word, from, step);
        if (step == WORD)
            __atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
        else
            __atomic_store_n(to, *from, __ATOMIC_RELEASE);
        to += step;
        from += step;
        n -= step;
    }
}

/* What comm->ordered holds goes to its place; the beginning of a word waits for the rest of it,
 * unless the message ends there. */
void alt_put_ordered(struct alt_comm *comm, size_t have)
{
    int whole = comm->moved + have == comm->header.size;
    size_t rest = whole ? 0 : (uintptr_t)(comm->target + comm->moved + have) % WORD;

    if (rest > have)
        rest = have;
    alt_put(comm->target + comm->moved, comm->ordered, have - rest);
    memmove(comm->ordered, comm->ordered + (have - rest), rest);
    comm->moved += have - rest;
    comm->held = rest;
}
