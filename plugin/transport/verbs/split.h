/* Which queue pairs carry a message. */
#ifndef MN_VERBS_SPLIT_H
#define MN_VERBS_SPLIT_H

#include <stdint.h>

#define VERBS_QPS        16 /* of one connection */
#define VERBS_STRIPE_MIN (64u << 10)

/* A way out: bytes posted and not yet completed, and its speed in any unit; 0 = not to be used,
 * which one at least may. */
struct verbs_way {
    uint64_t outstanding;
    uint32_t weight;
};

struct verbs_part {
    uint32_t way, offset, length;
};

/* Divides size bytes so that the ways run dry together: each gets what brings its (outstanding +
 * length) / weight to the common level. Parts are multiples of 128 bytes except the last, at least
 * VERBS_STRIPE_MIN unless there is only one, and cover the message without gap or overlap, in
 * order. Ties begin at way first. n is 1 .. VERBS_QPS. Returns the number of parts, at least 1;
 * max_parts bounds it. */
int verbs_split(const struct verbs_way *ways, int n, int first, uint32_t size, int max_parts,
                struct verbs_part parts[VERBS_QPS]);

#endif
