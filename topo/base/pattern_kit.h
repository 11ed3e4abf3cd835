/* Bytes that tests send and look for, made of a seed and of their place. ThreadSanitizer looks at
 * every access, which makes a loop over bytes twenty times slower: pieces are made behind its back
 * in memory of the caller's own, and what threads share is touched by memcpy() and memcmp() alone,
 * which it sees as a whole. */
#ifndef MN_PATTERN_KIT_H
#define MN_PATTERN_KIT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MN_PATTERN_PIECE 4096

__attribute__((unused, noinline, no_sanitize("thread"))) static void
mn_pattern_make(uint8_t *piece, size_t n, unsigned seed, size_t from)
{
    for (size_t i = 0, at = from; i < n; i++, at++)
        piece[i] = (uint8_t)(seed + at * 7 + at / 253 + at / 65537);
}

static inline void mn_pattern_fill(void *data, size_t size, unsigned seed)
{
    uint8_t piece[MN_PATTERN_PIECE];

    for (size_t at = 0, n; at < size; at += n) {
        n = size - at < sizeof piece ? size - at : sizeof piece;
        mn_pattern_make(piece, n, seed, at);
        memcpy((uint8_t *)data + at, piece, n);
    }
}

/* The place of the first byte that is another; size when there is none. */
static inline size_t mn_pattern_differs(const void *data, size_t size, unsigned seed)
{
    uint8_t piece[MN_PATTERN_PIECE];

    for (size_t at = 0, n; at < size; at += n) {
        const uint8_t *bytes = (const uint8_t *)data + at;
        n = size - at < sizeof piece ? size - at : sizeof piece;
        mn_pattern_make(piece, n, seed, at);
        if (memcmp(bytes, piece, n) != 0)
            for (size_t i = 0; i < n; i++)
                if (bytes[i] != piece[i])
                    return at + i;
    }
    return size;
}

/* Whether all of them are that byte. */
static inline int mn_pattern_is_plain(const void *data, size_t size, uint8_t byte)
{
    const uint8_t *bytes = data;

    return !size || (bytes[0] == byte && memcmp(bytes, bytes + 1, size - 1) == 0);
}

#endif
