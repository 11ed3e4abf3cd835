/* Whether something that is done and undone again and again leaves memory behind. */
#ifndef MN_CHECK_LEAK_H
#define MN_CHECK_LEAK_H

#include "bench/check/rule.h"

struct mn_leak {
    struct mn_check *check;
    void (*cycle)(void *ctx); /* does and undoes it once */
    void *ctx;
    int cycles; /* in a part; there are four */
    size_t (*measure)(void);
    size_t least;            /* bytes a cycle that are a leak */
    const char *what, *unit; /* "memory in use", "connection" */
};

#define MN_LEAK_LEAST 16 /* a smaller loss cannot be told from the allocator's own */

/* For measure. In use by all threads, mapped pieces included. */
size_t mn_leak_heap(void);
size_t mn_leak_mapped(void);

/* Fails when memory grows with every part alike. */
void mn_leak_judge(const struct mn_leak *leak);

#endif
