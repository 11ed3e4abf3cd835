/* Little-endian fields at any alignment, with a cursor that cannot leave its buffer. */
#ifndef MN_BYTES_H
#define MN_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct mn_bytes {
    uint8_t *at, *end;
    int bad; /* set by the first access past the end; all later ones fail too */
};

static inline int mn_bytes_take(struct mn_bytes *b, size_t n)
{
    if (b->bad || (size_t)(b->end - b->at) < n) {
        b->bad = 1;
        return 0;
    }
    b->at += n;
    return 1;
}

static inline void mn_put(struct mn_bytes *b, uint64_t value, size_t n)
{
    if (mn_bytes_take(b, n))
        for (size_t i = 0; i < n; i++)
            b->at[(ptrdiff_t)i - (ptrdiff_t)n] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t mn_get(struct mn_bytes *b, size_t n)
{
    uint64_t value = 0;
    if (mn_bytes_take(b, n))
        for (size_t i = 0; i < n; i++)
            value |= (uint64_t)b->at[(ptrdiff_t)i - (ptrdiff_t)n] << (8 * i);
    return value;
}

static inline void mn_put_raw(struct mn_bytes *b, const void *data, size_t n)
{
    if (n && mn_bytes_take(b, n))
        memcpy(b->at - n, data, n);
}

static inline void mn_get_raw(struct mn_bytes *b, void *data, size_t n)
{
    if (!n)
        return;
    if (mn_bytes_take(b, n))
        memcpy(data, b->at - n, n);
    else
        memset(data, 0, n);
}

#endif
