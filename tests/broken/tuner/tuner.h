/* A small, correct tuner for the tests of verify-plugin, in every version from v2 to v6. For each
 * row of faults.def there is a copy that has its number (../row.h): in that library one spot is
 * wrong. */
#ifndef TUNER_H
#define TUNER_H

#include "plugin/abi/tuner_abi.h"

enum tuner_fault {
    F_NONE,
#define TUNER_ROW(name, version, rule, text) F_##name,
#include "tests/broken/tuner/faults.def"
#undef TUNER_ROW
};

extern int tuner_fault;
#ifdef FAULT /* vtables.c: a constant there */
#define IS(name) (FAULT == F_##name)
#else
#define IS(name) (tuner_fault == F_##name)
#endif

struct context {
    size_t ranks, nodes;
    unsigned calls, number;
};

struct choice {
    int algo, proto, channels; /* algo -1: NCCL decides */
};

/* context.c. What is not told in a version is NULL. */
ncclResult_t tuner_open(void **ctx, size_t ranks, size_t nodes, ncclNvlDomainInfo_v5_t *domain,
                        ncclTunerConstants_v5_t *constants);
ncclResult_t tuner_close(void *ctx);
void tuner_wait_for_ever(void);
int tuner_is_rank_0(void);

/* decide.c */
ncclResult_t tuner_pair(void *ctx, ncclFunc_t func, size_t bytes, int collnet, int nvls, int *algo,
                        int *proto, int *channels);
ncclResult_t tuner_table(void *ctx, ncclFunc_t func, size_t bytes, float **table, int n_algo,
                         int n_proto, int *channels);
ncclResult_t tuner_chunk(void *ctx, ncclFunc_t func, size_t bytes, int algo, int proto,
                         int channels, size_t *size);

/* Read by the parts. */
struct tables {
    size_t tree_below; /* bytes a node */
};
extern struct tables *tuner_tables;
extern struct context *tuner_newest;
extern char *tuner_lost;

#endif
