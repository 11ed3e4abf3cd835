/* Inputs of collectives whose results are known exactly, in whatever order they are reduced. */
#ifndef MN_PATTERN_H
#define MN_PATTERN_H

#include "bench/coll/algorithm.h"

struct mn_pattern {
    enum mn_collective collective;
    const struct mn_coll_job *job;
    int type, op;
};

void mn_pattern_fill(const struct mn_pattern *pattern, void *in);
/* How many elements of this rank's output are not what they must be. */
uint64_t mn_pattern_wrong(const struct mn_pattern *pattern, const void *out);

#endif
