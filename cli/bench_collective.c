#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/host_name.h"
#include "fleet/ctl.h"
#include "fleet/launch.h"
#include "cli/bench_collective.h"
#include "cli/collective_predict.h"
#include "cli/rank_env.h"
#include "cli/cmd.h"
#include "cli/plugin_path.h"
#include "fleet/ssh.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"

/* Ranks of this host, and those that ssh leads back here, come to loopback. */
static enum mn_err meet_here(struct mn_collective_session *s, struct mn_diag *diag)
{
    const struct mn_bench_options *o = s->options;
    struct sockaddr_storage ss;
    struct mn_addr addr;
    socklen_t len = sizeof ss;
    int *door = &s->plan.doors[0];
    enum mn_err err = mn_addr_parse("127.0.0.1", &addr, diag);

    if (!err)
        err = o->agents ? mn_bench_token(o, s->plan.token, diag)
                        : mn_random(s->plan.token, sizeof s->plan.token, diag);
    if (!err)
        err = mn_ctl_listen(&addr, 0, door, diag);
    if (err)
        return err;
    s->plan.n_doors = 1;
    if (getsockname(*door, (struct sockaddr *)&ss, &len))
        return mn_fail_errno(diag, "the port of a listening socket");
    s->plan.host = "127.0.0.1";
    s->plan.port = (uint16_t)mn_addr_from_sockaddr((const struct sockaddr *)&ss, &addr);
    return o->agents ? mn_collective_doors(s, diag) : MN_OK;
}

/* As ssh says it of its -R. */
static const char *why_not_back(const char *line)
{
    return strstr(line, "remote port forwarding failed") ? ": " MN_GROUP_SSH_BACK : "";
}

static void on_line(void *ctx, int rank, const char *text)
{
    const struct mn_collective_session *s = ctx;
    const struct mn_opt_list *hosts = s->hosts;

    if (rank < 0)
        fprintf(stderr, "meshnet bench: %s\n", text);
    else if (hosts->count)
        fprintf(stderr, "[%d %s] %s%s\n", rank, hosts->items[rank], text, why_not_back(text));
    else
        fprintf(stderr, "[%d] %s\n", rank, text);
}

/* The matrix goes on without a host that never came, and without one that went while cells were
 * measured, of which rank 0 knows more. */
static int on_lost(void *ctx, int rank, const char *last)
{
    const struct mn_collective_session *s = ctx;
    struct mn_group_roll *roll = s->plan.roll;
    char ways[MN_NAMES_WAYS][MN_ADDR_TEXT];

    if (atomic_load(&roll->spares))
        return 1;
    if (!s->plan.go_on || !s->hosts->count || atomic_load(&roll->ranks[rank].came))
        return 0;
    int n = mn_names_ways(&s->mesh, s->self, s->hosts->items[rank], ways);
    char *why = n ? mn_asprintf("none of %d ways to it works, the last: %s%s", n + 1, last,
                                why_not_back(last))
                  : mn_asprintf("%s%s", *last ? last : "its rank ended", why_not_back(last));
    mn_strlcpy_words(roll->ranks[rank].why, mn_clean(why), sizeof roll->ranks[rank].why);
    free(why);
    atomic_store(&roll->ranks[rank].absent, 1);
    return 1;
}

static void on_ending(void *ctx, const char *why)
{
    const struct mn_collective_session *s = ctx;

    mn_strlcpy(s->plan.roll->ended, why, sizeof s->plan.roll->ended);
    mn_clean(s->plan.roll->ended);
}

static int is_matrix(const struct mn_collective_session *s)
{
    return s->options->links || s->options->pairs;
}

static int be_rank(void *ctx, int rank)
{
    const struct mn_collective_session *s = ctx;

    return is_matrix(s)         ? mn_matrix_rank(ctx, rank)
           : s->options->engine ? mn_bench_engine_rank(ctx, rank)
                                : mn_collective_rank(ctx, rank);
}

static int start_rank(void *ctx, int rank)
{
    const struct mn_collective_session *s = ctx;
    const struct mn_opt_list *hosts = s->hosts;

    if (!hosts->count || mn_ssh_is_here(hosts->items[rank]))
        return be_rank(ctx, rank);
    return s->options->agents ? mn_collective_agent(s, rank) : mn_collective_ssh(s, rank);
}

static enum mn_err plan(struct mn_collective_session *s, struct mn_diag *diag)
{
    return is_matrix(s) ? mn_matrix_prepare(s, diag) : mn_collective_plan(s, diag);
}

static enum mn_err launch(struct mn_collective_session *s, int *code, struct mn_diag *diag)
{
    struct mn_launch crew = {.body = start_rank,
                             .line = on_line,
                             .lost = on_lost,
                             .ending = on_ending,
                             .ctx = s};
    const struct mn_opt_list *hosts = s->hosts;
    enum mn_err err;

    s->plan.nranks = crew.nranks = hosts->count ? (int)hosts->count : (int)s->options->local;
    if (s->options->agents && !hosts->count)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--agents: at which hosts? give --hosts A,B,… or --mesh FILE");
    if (s->options->agents && s->options->plugin)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--plugin with --agents: each meshnet serve has its own; give it there");
    if (s->options->agents && s->options->library)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--library with --agents: a meshnet serve loads what its own loader finds");
    if (hosts->count > MN_GROUP_RANKS)
        return mn_fail(diag, MN_ERR_USAGE, "--hosts: at most %d", MN_GROUP_RANKS);
    if (hosts->count && !mn_ssh_is_here(hosts->items[0]))
        return mn_fail(diag, MN_ERR_USAGE,
                       "--hosts %s,…: the first must be this host, where the report is printed",
                       hosts->items[0]);
    /* Rank 0 is here. Of several that cannot load it any may be heard first. */
    if (s->options->plugin && strchr(s->options->plugin, '/') && access(s->options->plugin, R_OK))
        return mn_fail(diag, MN_ERR_CONFIG, "--plugin %s: %s", s->options->plugin, strerror(errno));
    if (s->missing && crew.nranks > 2 && !is_matrix(s))
        fprintf(stderr,
                "meshnet bench: the ring of ranks goes over %s, slowly: meshnet topo routes\n",
                s->gaps);
    s->plan.roll =
        mmap(NULL, sizeof *s->plan.roll, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s->plan.roll == MAP_FAILED)
        return mn_fail_errno(diag, "memory that the ranks share");
    s->plan.go_on = is_matrix(s);
    err = plan(s, diag);
    if (!err)
        err = meet_here(s, diag);
    if (!err)
        err = mn_launch_local(&crew, code, diag);
    munmap(s->plan.roll, sizeof *s->plan.roll);
    return err;
}

int mn_bench_collective(const struct mn_bench_options *options)
{
    struct mn_collective_session s = {.options = options,
                                      .hosts = &options->hosts,
                                      .self = -1,
                                      .plan = {.timeout_ms = options->timeout_ms,
                                               .stop = &mn_launch_stop}};
    struct mn_diag diag;
    int code = 0, chosen = options->local || options->hosts.count, launched = 0;
    enum mn_err err = chosen ? MN_OK : mn_rank_launched(&launched, &diag);
    int of_mesh = is_matrix(&s) || options->mesh || options->print_order;
    int own = chosen || (of_mesh && !launched);

    mn_mesh_init(&s.mesh);
    mn_plugin_path(options->plugin, s.plugin_path, sizeof s.plugin_path);
    if (!err)
        err = mn_bench_mesh(&s, &diag);
    if (!err && own && !options->predict_only)
        err = mn_bench_hosts(&s, &diag);
    if (!err && options->print_order) {
        /* that was all */
    } else if (!err && options->predict_only) {
        err = mn_bench_predict_only(&s, &code, &diag);
    } else if (!err && own) {
        err = launch(&s, &code, &diag);
    } else if (!err && launched) {
        mn_launch_catch();
        s.plan.by_ssh = options->coordinator && options->token_file &&
                        !strcmp(options->coordinator, MN_SSH_COORDINATOR) &&
                        !strcmp(options->token_file, MN_SSH_TOKEN);
        const struct mn_rank_options meet = {options->coordinator, options->token_file,
                                             options->port};
        err = mn_rank_meet(&s.plan, &meet, &diag);
        if (!err)
            err = plan(&s, &diag);
        if (!err)
            code = be_rank(&s, s.plan.rank);
    } else if (!err) {
        err = mn_fail(&diag, MN_ERR_USAGE,
                      "between which ranks? --local N, processes here; --hosts A,B,…; or started "
                      "by mpirun, torchrun or srun");
    }
    for (int i = 0; i < s.plan.n_doors; i++)
        close(s.plan.doors[i]);
    mn_wipe(s.plan.token, sizeof s.plan.token);
    free(s.tasks);
    free(s.names.items);
    free(s.gaps);
    mn_mesh_free(&s.mesh);
    return err ? mn_cmd_fail("bench", &diag) : code;
}
