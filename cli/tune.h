/* What the tuner decides on a mesh, for meshnet tune to show. */
#ifndef MN_TUNE_H
#define MN_TUNE_H

#include "plugin/tuner/tuning.h"
#include "topo/base/out.h"

struct mn_advice_row {
    int function;                      /* ncclFunc_t */
    unsigned long long bytes;          /* 0: of any size, where nothing is predicted */
    int algorithm, protocol, channels; /* algorithm and channels: below 0 and 0: NCCL decides */
    double time_us, busbw;             /* busbw in bytes/s; 0: not predicted */
    double ways_us[MN_TUNING_WAYS];    /* each with its best protocol; 0: not predicted */
};

struct mn_advice {
    const struct mn_tuning *tuning;
    const struct mn_mesh *mesh;
    const char *path;     /* of the mesh file */
    const char *measured; /* file of --predict-from, or NULL */
    struct mn_advice_row *rows;
    size_t n_rows; /* collective by collective, each with the same sizes */
    size_t n_sizes;
};

/* The five in the order in which they are shown, and NCCL's number of each way. */
int mn_advice_function_at(size_t i);
extern const int mn_advice_algorithms[MN_TUNING_WAYS];
const char *mn_advice_function(int function);   /* "all-reduce" */
const char *mn_advice_algorithm(int algorithm); /* "Ring" as in NCCL_ALGO; below 0: NULL */
const char *mn_advice_protocol(int protocol);   /* "LL128" as in NCCL_PROTO; below 0: NULL */

/* Fills what follows function and bytes in a zeroed row: asks as NCCL does, with figures of its own
 * that are all 0. */
void mn_advice_ask(const struct mn_tuning *tuning, struct mn_advice_row *row);

/* For the terminal: of each collective the speed over the size, and what is taken. */
void mn_advice_chart(const struct mn_advice *tune, int utf8, struct mn_out *out);

#endif
