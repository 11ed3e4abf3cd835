/* Rings that share the work: each lane goes its own way round with its own part of the data. */
#ifndef MN_LANE_H
#define MN_LANE_H

#include "bench/coll/flow.h"

struct mn_lane {
    const int *ranks; /* in the ring's order; NULL = all, in theirs */
    int n, place;     /* how many; where this rank is among them */
    int way;          /* 1: data goes to the next place, -1: to the one before */
    size_t start;     /* bytes into the buffer */
    size_t count;     /* elements: of all slices together, or of each when they have a stride */
    size_t stride;    /* bytes from slice to slice; 0 = the elements are dealt evenly */
    size_t staging;   /* where in tmp its two slices of staging begin; set by mn_lanes_stage */
};

/* Lays the lanes' staging behind each other from byte base of tmp on. */
void mn_lanes_stage(const struct mn_coll_job *job, struct mn_lane *lanes, int n, size_t base);
/* Sums what everybody has in the buffer, tmp or output, in its place. All lanes have as many
 * ranks. */
void mn_lanes_allreduce(struct mn_flow *f, const struct mn_coll_job *job,
                        const struct mn_lane *lanes, int n, enum mn_step_buffer buffer);

#endif
