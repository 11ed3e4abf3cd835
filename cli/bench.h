/* The options of meshnet bench, and what it does with them. */
#ifndef MN_BENCH_H
#define MN_BENCH_H

#include "bench/engine.h"
#include "bench/p2p.h"
#include "topo/base/opt.h"

struct mn_bench_options {
    const char *peer, *token_file, *plugin, *coordinator, *mesh, *pin, *library, *predict_from;
    struct mn_opt_list sizes, tests, collectives, types, ops, algorithms, hosts, networks;
    long port, iters, warmup, abi, device, local, root, gpu;
    long flows, threads, outstanding, group, burst; /* 0 = not given */
    unsigned duration_ms, max_duration_ms, timeout_ms, pause_ms;
    unsigned long long buffers;
    double min_gbps, min_ratio, precision;
    int memory, direction, flush, raw_verbs, no_check, json, csv, links, pairs, agents, print_order,
        follow, engine, apart, wide, thorough, quick, predict, predict_only;
};

/* What was left open: sizes and how long to measure. With --peer and none of them given, quick is
 * set: all ends within seconds. */
void mn_bench_defaults(struct mn_bench_options *options);

/* What --sizes asks for: sizes, and ranges BEGIN:END:FACTOR, in the order given. free(size) in
 * every case. */
struct mn_bench_sizes {
    unsigned long long *size;
    size_t n;
};
enum mn_err mn_bench_sizes_parse(const struct mn_opt_list *list, struct mn_bench_sizes *sizes,
                                 struct mn_diag *diag);
/* Profiles (--type with --peer) and how messages flow; plan->sizes is set. */
enum mn_err mn_bench_profile(const struct mn_bench_options *options, struct mn_p2p_plan *plan,
                             struct mn_diag *diag);
/* --type names profiles with --peer and elements with --collective: MN_ERR_USAGE for the other. */
enum mn_err mn_bench_check_types(const struct mn_bench_options *options, struct mn_diag *diag);

/* The token that both sides share: of --token-file, else of the environment. */
enum mn_err mn_bench_token(const struct mn_bench_options *options, uint8_t token[MN_KEY_SIZE],
                           struct mn_diag *diag);
/* Where meshnet serve listens: a node's name stands for its address on a cable that node self has
 * with it, any other name for itself. */
void mn_bench_address(const struct mn_mesh *mesh, int self, const char *name, char *host,
                      size_t size);

/* How often a measurement is repeated. */
struct mn_repeat_plan mn_bench_repeat(const struct mn_bench_options *options);
/* "a to b: 7.2 Gb/s over cable a-b, 76 % of what TCP can, 13 µs": what a person would quote. mesh
 * NULL or self -1: NICs instead of cables. "" when nothing was measured. */
char *mn_bench_quote(const struct mn_p2p_report *report, const struct mn_mesh *mesh, int self,
                     char *buf, size_t size);
/* Measures with the peer of --peer, where meshnet serve runs. Returns the exit code. */
int mn_bench_peer(const struct mn_bench_options *options);

#endif
