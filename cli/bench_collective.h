/* The part of meshnet bench that measures collectives. */
#ifndef MN_BENCH_COLLECTIVE_H
#define MN_BENCH_COLLECTIVE_H

#include "topo/base/opt.h"

struct mn_bench_collective {
    const struct mn_opt_list *collectives, *sizes, *types, *ops, *algorithms;
    const char *plugin;
    long local, root, iters, warmup, abi, device;
    unsigned duration_ms, timeout_ms;
    int check, json, csv;
};

/* Returns the exit code. */
int mn_bench_collective(const struct mn_bench_collective *options);

#endif
