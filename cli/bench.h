/* The options of meshnet bench, and what it does with them. */
#ifndef MN_BENCH_H
#define MN_BENCH_H

#include "bench/repeat.h"
#include "topo/base/opt.h"

struct mn_bench_options {
    const char *peer, *token_file, *plugin, *coordinator;
    struct mn_opt_list sizes, tests, collectives, types, ops, algorithms, hosts;
    long port, connections, outstanding, iters, warmup, abi, device, local, root;
    unsigned duration_ms, max_duration_ms, timeout_ms;
    unsigned long long memory;
    double min_gbps, precision;
    int direction, no_check, json, csv;
};

/* How often a measurement is repeated. */
struct mn_repeat_plan mn_bench_repeat(const struct mn_bench_options *options);
/* Measures with the peer of --peer, where meshnet serve runs. Returns the exit code. */
int mn_bench_peer(const struct mn_bench_options *options);

#endif
