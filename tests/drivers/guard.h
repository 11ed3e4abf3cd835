/* Memory that nobody may write, for drivers that look whether somebody did. */
#ifndef MN_DRIVERS_GUARD_H
#define MN_DRIVERS_GUARD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GUARD  64   /* bytes before and after a buffer */
#define POISON 0xdb /* nobody receives into this */
#define STALE  0x99 /* a sender's memory after its send */

/* Where the first byte that is not value lies; size: nowhere. */
static inline size_t not_all(const uint8_t *data, size_t size, uint8_t value)
{
    if (size == 0 || (data[0] == value && !memcmp(data, data + 1, size - 1)))
        return size;
    size_t at = 0;
    while (data[at] == value)
        at++;
    return at;
}

#endif
