/* What a long measurement is doing, on standard error. On a terminal: a line, and above it
 * (--follow) the tables of what was measured so far, drawn over those before. Elsewhere a line now
 * and then. */
#ifndef MN_LIVE_H
#define MN_LIVE_H

#include "topo/base/out.h"

struct mn_live {
    /* Prints the tables; NULL = the line alone. */
    void (*print)(struct mn_out *out, const void *ctx);
    const void *ctx;
    int off, drawn; /* lines above the cursor's */
    double said;    /* elsewhere: when */
};

void mn_live_show(struct mn_live *live, size_t step, size_t steps, const char *what);
/* Takes all of it away, so that the results can follow. */
void mn_live_clear(struct mn_live *live);

#endif
