/* The part of meshnet bench that measures collectives. */
#ifndef MN_BENCH_COLLECTIVE_H
#define MN_BENCH_COLLECTIVE_H

#include "bench/collective.h"
#include "cli/bench.h"
#include "topo/mesh.h"

/* By these a rank that ssh started knows itself. */
#define MN_SSH_COORDINATOR "127.0.0.1"
#define MN_SSH_TOKEN       "/proc/self/fd/0"

/* Starts the ranks of --collective, --links or --pairs, or is one that another launcher started.
 * Returns the exit code. */
int mn_bench_collective(const struct mn_bench_options *options);

/* What all ranks measure, and where they meet. */
struct mn_collective_session {
    const struct mn_bench_options *options;
    const struct mn_opt_list *hosts;
    struct mn_opt_list names; /* the nodes of the mesh, when hosts is this; mesh has the texts */
    struct mn_mesh mesh;      /* empty where none was given or found */
    int self;                 /* this node of it, -1 = none or not known */
    int missing;              /* steps of the ring of hosts without a cable */
    char *gaps;               /* these steps, in words */
    struct mn_collective_task *tasks;
    size_t n_tasks;
    struct mn_group_plan plan;
    char plugin_path[512];
    enum mn_engine_network network;        /* of --engine, of the run that comes next */
    int more;                              /* and other runs follow it */
    struct mn_bench_engine_share *earlier; /* what the runs before it found; NULL = none */
};

/* collective_tasks.c: fills tasks from the options; plan.nranks is set. */
enum mn_err mn_collective_plan(struct mn_collective_session *session, struct mn_diag *diag);
/* collective_rank.c: measures as one of the ranks; ctx is the session. Returns the exit code. */
int mn_collective_rank(void *ctx, int rank);
/* bench_engine.c: whether the options of --engine go together. */
enum mn_err mn_bench_engine_check(const struct mn_bench_options *options, struct mn_diag *diag);
/* mn_collective_rank for --engine: one run after the other, each but the last in a process of its
 * own, since a library reads its environment once. */
int mn_bench_engine_rank(void *ctx, int rank);
/* What the runs of --engine over the networks before the last leave to be reported with it. */
struct mn_bench_engine_share {
    struct mn_engine_report engines[MN_NETWORKS];
    int n_engines;
    size_t n_rows;
    struct mn_collective_row rows[];
};
/* bench_hosts.c: reads the mesh file, which may be absent unless it is needed; then, in the process
 * that starts the ranks, chooses and orders their hosts by it. Prints the order if that was asked.
 */
enum mn_err mn_bench_mesh(struct mn_collective_session *session, struct mn_diag *diag);
enum mn_err mn_bench_hosts(struct mn_collective_session *session, struct mn_diag *diag);
/* bench_matrix.c: what mn_collective_plan and mn_collective_rank are, of --links and --pairs. */
enum mn_err mn_matrix_prepare(struct mn_collective_session *session, struct mn_diag *diag);
int mn_matrix_rank(void *ctx, int rank);
/* collective_pin.c: binds this rank as --pin says; the ranks of a host share its CPUs out.
 * pci_path: of the NIC, NULL = of several or not known. */
enum mn_err mn_collective_pin(const struct mn_collective_session *session,
                              const struct mn_group *group, const char *pci_path,
                              struct mn_diag *diag);
/* collective_command.c: the words of a command line, after "meshnet bench", by which a rank at
 * another host measures the same; they are to be freed. */
void mn_collective_words(const struct mn_bench_options *options, struct mn_opt_list *words);
void mn_collective_free_words(struct mn_opt_list *words);
/* collective_agent.c: opens a door of the plan at each address by which other hosts reach this one.
 */
enum mn_err mn_collective_doors(struct mn_collective_session *session, struct mn_diag *diag);
/* Runs a rank by the meshnet serve at its host, in a process of its own. Returns its exit code. */
int mn_collective_agent(const struct mn_collective_session *session, int rank);
/* collective_ssh.c: becomes the ssh that runs a rank at a host. Returns only when it cannot. */
int mn_collective_ssh(const struct mn_collective_session *session, int rank);
/* Whether --type of --collective has that name ("all" is none). */
int mn_collective_knows_type(const char *name);

#endif
