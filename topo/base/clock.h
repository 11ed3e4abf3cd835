/* The clock that waits and measurements go by. */
#ifndef MN_BASE_CLOCK_H
#define MN_BASE_CLOCK_H

#include <time.h>

/* CLOCK_MONOTONIC. */
static inline double mn_seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

#endif
