/* How often a measurement is repeated: until its mean is known well enough, or the time is up. The
 * caller measures and says what came out; nothing here looks at a clock. */
#ifndef MN_REPEAT_H
#define MN_REPEAT_H

#include <stddef.h>

#define MN_REPEAT_LEAST   10 /* repetitions, where time allows */
#define MN_REPEAT_MOST    1000
#define MN_REPEAT_WARMUPS 5 /* repetitions of warm-up at most */

struct mn_repeat_plan {
    unsigned duration_ms; /* for all repetitions together, at least */
    unsigned most_ms;     /* and at most, but for a repetition that alone takes longer */
    double precision;     /* percent: ends when the 95 % confidence interval is +- so small */
};

/* What repetitions say together. */
struct mn_spread {
    size_t repetitions;
    double ci95;     /* see mn_stats_ci95: NaN of a single repetition */
    double median;   /* of the repetitions' values */
    size_t outliers; /* of what the caller says, counted and not left out */
    int steady;      /* when measuring began; -1 = warm-up was not looked at */
};

struct mn_repeat {
    struct mn_repeat_plan plan;
    float *values; /* one a repetition */
    size_t n;
    double seconds, last; /* of all repetitions, of the last */
};

void mn_repeat_add(struct mn_repeat *repeat, double value, double seconds);
int mn_repeat_wants_more(const struct mn_repeat *repeat);
/* Seconds one repetition is to last. */
double mn_repeat_each(const struct mn_repeat_plan *plan);
/* Sorts the values; outliers are of the values themselves. */
struct mn_spread mn_repeat_spread(struct mn_repeat *repeat);
void mn_repeat_free(struct mn_repeat *repeat);

/* Warm-up: seconds of equal pieces of work, as they come; 1 when the last two differ by less than a
 * tenth. */
int mn_repeat_is_steady(double before, double now);

#endif
