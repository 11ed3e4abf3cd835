/* Copying into memory that somebody reads meanwhile. */
#ifndef MN_COPY_H
#define MN_COPY_H

#include <stddef.h>
#include <stdint.h>

/* With NCCL's LL and LL128 protocols the GPU polls a receive buffer while it is being written: LL's
 * 8-byte words must come whole, and of each aligned 128-byte line the last 8 bytes last (they are
 * the flag); nothing may be written twice, since the reader may already have used it again. So:
 * ascending, each byte once, the end of a line with release. memcpy() promises none of it, and
 * glibc's writes the end of a block first. */
static inline void mn_copy_visible(void *to, const void *from, size_t n)
{
    typedef uint64_t word __attribute__((aligned(1), may_alias));
    typedef uint64_t pair __attribute__((vector_size(16), aligned(1), may_alias));
    uint8_t *t = to;
    const uint8_t *f = from;

#define PUT(type)                                                                                  \
    do {                                                                                           \
        *(volatile type *)t = *(const type *)f;                                                    \
        t += sizeof(type), f += sizeof(type), n -= sizeof(type);                                   \
    } while (0)
#define PUT_LAST                                                                                   \
    do {                                                                                           \
        __atomic_store_n((uint64_t *)(void *)t, *(const word *)f, __ATOMIC_RELEASE);               \
        t += 8, f += 8, n -= 8;                                                                    \
    } while (0)
    while (n && (uintptr_t)t % 8)
        PUT(uint8_t);
    while (n >= 8) {
        if ((uintptr_t)t % 128 == 120) {
            PUT_LAST;
        } else if ((uintptr_t)t % 128 == 0 && n >= 128) {
            PUT(pair);
            PUT(pair);
            PUT(pair);
            PUT(pair);
            PUT(pair);
            PUT(pair);
            PUT(pair);
            PUT(word);
            PUT_LAST;
        } else {
            PUT(word);
        }
    }
    while (n)
        PUT(uint8_t);
#undef PUT
#undef PUT_LAST
}

#endif
