/* bench --engine: NCCL or RCCL over the plugin and over their own transports, one after the other.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fleet/launch.h"
#include "cli/bench_collective.h"
#include "cli/cmd.h"

/* In the order of runs: what is printed at the end is of the plugin. */
static const struct {
    const char *name;
    enum mn_engine_network network;
} networks[] = {{"own", MN_NETWORK_OWN}, {"mesh", MN_NETWORK_MESH}};
#define N ((int)(sizeof networks / sizeof *networks))

/* Which of the networks are asked for. */
static enum mn_err pick(const struct mn_bench_options *o, int wanted[N], int *count,
                        struct mn_diag *diag)
{
    const struct mn_opt_list *list = &o->networks;

    *count = 0;
    for (int n = 0; n < N; n++)
        wanted[n] = !list->count;
    for (size_t i = 0; i < list->count; i++) {
        int n = 0;
        while (n < N && strcmp(networks[n].name, list->items[i]) != 0)
            n++;
        if (n == N)
            return mn_fail(diag, MN_ERR_USAGE, "--networks '%s': expected some of own, mesh",
                           list->items[i]);
        wanted[n] = 1;
    }
    for (int n = 0; n < N; n++)
        *count += wanted[n];
    return MN_OK;
}

enum mn_err mn_bench_engine_check(const struct mn_bench_options *o, struct mn_diag *diag)
{
    int wanted[N], count;

    if (!o->engine && (o->library || o->networks.count || o->apart))
        return mn_fail(diag, MN_ERR_USAGE, "--library, --networks and --apart go with --engine");
    if (!o->engine)
        return MN_OK;
    if (!o->collectives.count)
        return mn_fail(diag, MN_ERR_USAGE, "--engine goes with --collective");
    if (o->algorithms.count != 1 || strcmp(o->algorithms.items[0], "auto") != 0)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--algorithm is of meshnet's own; NCCL chooses, or NCCL_ALGO does");
    if (o->memory != MN_MEMORY_HOST && o->memory != MN_MEMORY_MANAGED &&
        o->memory != (int)mn_engine_vendors[o->engine].kind)
        return mn_fail(diag, MN_ERR_USAGE, "--memory %s: %s has no such memory",
                       mn_memory_names[o->memory], mn_engine_vendors[o->engine].name);
    if (o->library && strchr(o->library, '/') && access(o->library, R_OK))
        return mn_fail(diag, MN_ERR_USAGE, "--library %s: %s", o->library, strerror(errno));
    for (size_t i = 0; i < o->collectives.count; i++)
        if (!strcmp(o->collectives.items[i], mn_collective_name(MN_SPARSE_ALLREDUCE)))
            return mn_fail(diag, MN_ERR_USAGE, "--collective %s: %s has no such call",
                           o->collectives.items[i], mn_engine_vendors[o->engine].name);
    return pick(o, wanted, &count, diag);
}

static int run_apart(const struct mn_collective_session *s, int rank)
{
    pid_t parent = getpid(), child;
    int status = 0;

    fflush(NULL);
    child = fork();
    if (child < 0) {
        fprintf(stderr, "meshnet bench: a process for a run: %s\n", strerror(errno));
        return 1;
    }
    if (!child) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
            _exit(1);
        int code = mn_collective_rank((void *)(uintptr_t)s, rank);
        fflush(NULL);
        _exit(code);
    }
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return 1;
        if (mn_launch_stop)
            kill(child, (int)mn_launch_stop);
    }
    if (WIFSIGNALED(status))
        fprintf(stderr, "meshnet bench: rank %d was ended by signal %d (%s)\n", rank,
                WTERMSIG(status), strsignal(WTERMSIG(status)));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int mn_bench_engine_rank(void *ctx, int rank)
{
    struct mn_collective_session s = *(const struct mn_collective_session *)ctx;
    size_t size = sizeof *s.earlier + s.n_tasks * sizeof *s.earlier->rows;
    int wanted[N], left, code = 0;
    struct mn_diag diag;

    if (pick(s.options, wanted, &left, &diag))
        return mn_cmd_fail("bench", &diag);
    s.earlier = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s.earlier == MAP_FAILED) {
        mn_fail_errno(&diag, "memory for %zu results", s.n_tasks);
        return mn_cmd_fail("bench", &diag);
    }
    for (int n = 0; n < N && !code; n++) {
        if (!wanted[n])
            continue;
        s.network = networks[n].network;
        s.more = --left > 0;
        code = s.more ? run_apart(&s, rank) : mn_collective_rank(&s, rank);
    }
    munmap(s.earlier, size);
    return code;
}
