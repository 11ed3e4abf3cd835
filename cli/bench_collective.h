/* The part of meshnet bench that measures collectives. */
#ifndef MN_BENCH_COLLECTIVE_H
#define MN_BENCH_COLLECTIVE_H

#include "bench/collective.h"
#include "topo/base/opt.h"

struct mn_bench_collective {
    const struct mn_opt_list *collectives, *sizes, *types, *ops, *algorithms, *hosts;
    const char *plugin, *coordinator, *token_file;
    long local, port, root, iters, warmup, abi, device;
    struct mn_repeat_plan repeat;
    unsigned timeout_ms;
    int check, json, csv;
};

/* Starts the ranks, or is one that another launcher started. Returns the exit code. */
int mn_bench_collective(const struct mn_bench_collective *options);

/* What all ranks measure, and where they meet. */
struct mn_collective_session {
    const struct mn_bench_collective *options;
    struct mn_collective_task *tasks;
    size_t n_tasks;
    struct mn_group_plan plan;
    char plugin_path[512];
};

/* collective_tasks.c: fills tasks from the options; plan.nranks is set. */
enum mn_err mn_collective_plan(struct mn_collective_session *session, struct mn_diag *diag);
/* collective_rank.c: measures as one of the ranks; ctx is the session. Returns the exit code. */
int mn_collective_rank(void *ctx, int rank);
/* collective_ssh.c: becomes the ssh that runs a rank at a host. Returns only when it cannot. */
int mn_collective_ssh(const struct mn_collective_session *session, int rank);
/* Whether --type of --collective has that name ("all" is none). */
int mn_collective_knows_type(const char *name);
/* Whether the host's name means this host. */
int mn_collective_is_here(const char *host);

#endif
