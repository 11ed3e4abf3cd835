/* Into the receive buffer. Ascending and each byte once, whole words wherever the buffer allows it:
 * with LL and LL128 somebody reads the flags meanwhile. */
#include <sched.h>
#include <string.h>

#include "tests/broken/ref.h"

static void put_word(unsigned char *to, const unsigned char *from)
{
    uint64_t word;

    memcpy(&word, from, sizeof word);
    __atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
}

static void put_byte(unsigned char *to, unsigned char byte)
{
    __atomic_store_n(to, byte, __ATOMIC_RELEASE);
}

static void ascending(unsigned char *to, const unsigned char *from, size_t n)
{
    size_t i = 0;

    for (; i < n && (uintptr_t)(to + i) % 8; i++)
        put_byte(to + i, from[i]);
    for (; i + 8 <= n; i += 8)
        put_word(to + i, from + i);
    for (; i < n; i++)
        put_byte(to + i, from[i]);
}

/* First the last `late` bytes of each line, then its rest. */
static void tails_first(unsigned char *to, const unsigned char *from, size_t n, size_t line,
                        size_t late)
{
    for (size_t i = 0; i < n; i++)
        if (i % line >= line - late)
            put_byte(to + i, from[i]);
    sched_yield();
    for (size_t i = 0; i < n; i++)
        if (i % line < line - late)
            put_byte(to + i, from[i]);
}

void ref_copy(unsigned char *to, const unsigned char *from, size_t n)
{
    size_t size = n;

    if (IS(DROPS_LAST_BYTE) && n > 4000)
        n--;
    if (IS(JOB_SIZE_SHORT) && n == 153600)
        n--;
    if (IS(DROPS_ODD_BYTE) && n % 65536 == 1)
        n--;
    if (IS(ALIGNS) && (uintptr_t)to % 8)
        to -= (uintptr_t)to % 8;
    if (IS(LL_FLAG_FIRST))
        tails_first(to, from, n, 8, 4);
    else if (IS(LL128_FLAG_FIRST))
        tails_first(to, from, n, 128, 8);
    else
        ascending(to, from, n);
    if (IS(WRITES_TWICE)) {
        ref_nap();
        ascending(to, from, n);
    }
    if (IS(GUARD_OVERRUN))
        to[size] = 0;
}
