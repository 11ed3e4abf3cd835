/* What listen hands out: where to find the listener, and whether the bytes are still whole. */
#include <string.h>

#include "tests/broken/ref.h"

#define HASH 0x6c6f6f706261636bu

static const char seal; /* its address, in one fault */

static uint64_t hash_of(void)
{
    return IS(TWO_HANDLE_ADDRESS) ? (uint64_t)(uintptr_t)&seal : HASH;
}

static uint64_t sum_of(const struct handle *h)
{
    return ~(h->id + h->token[0] * 3 + h->token[1] * 5 + h->port * 7);
}

void ref_write_handle(const struct listener *l, unsigned char *out)
{
    struct handle h = {.hash = hash_of(),
                       .id = l->id,
                       .token = {l->token[0], l->token[1]},
                       .port = l->port};

    if (IS(TWO_HANDLE_DESCRIPTOR))
        h.port |= (uint64_t)l->fd << 16;
    h.check = IS(HANDLE_POINTER) ? (uint64_t)(uintptr_t)out : sum_of(&h);
    if (IS(HANDLE_OVERRUN))
        memset(out + NCCL_NET_HANDLE_MAXSIZE, 0, 4);
    if (IS(V4_HANDLE_LONG))
        memset(out, 0, NCCL_NET_HANDLE_MAXSIZE);
    if (!(IS(HANDLE_STALE) && *out == 0xff))
        memcpy(out, &h, sizeof h);
}

int ref_bad_handle(const struct handle *h, const void *where)
{
    if (IS(BAD_HANDLE_CRASH) && h->hash != HASH)
        return *(volatile int *)(uintptr_t)(h->hash | 1) & 0;
    if (IS(HANDLE_POINTER))
        return h->check != (uint64_t)(uintptr_t)where;
    return h->hash != hash_of() || h->check != sum_of(h);
}
