#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/ctl.h"
#include "bench/launch.h"
#include "bench/launch_env.h"
#include "cli/bench_collective.h"
#include "cli/cmd.h"
#include "cli/plugin_path.h"

static enum mn_err meet_here(struct mn_collective_session *s, struct mn_diag *diag)
{
    struct mn_addr addr;
    struct sockaddr_in in;
    socklen_t len = sizeof in;
    enum mn_err err = mn_addr_parse("127.0.0.1", &addr, diag);

    addr.prefix = -1;
    if (!err)
        err = mn_random(s->plan.token, sizeof s->plan.token, diag);
    if (!err)
        err = mn_ctl_listen(&addr, 0, &s->plan.listen_fd, diag);
    if (!err && getsockname(s->plan.listen_fd, (struct sockaddr *)&in, &len))
        err = mn_fail_errno(diag, "the port of a listening socket");
    s->plan.host = "127.0.0.1";
    s->plan.port = err ? 0 : ntohs(in.sin_port);
    return err;
}

static void on_line(void *ctx, int rank, const char *text)
{
    const struct mn_collective_session *s = ctx;
    const struct mn_opt_list *hosts = s->hosts;

    if (rank < 0)
        fprintf(stderr, "meshnet bench: %s\n", text);
    else if (hosts->count)
        fprintf(stderr, "[%d %s] %s\n", rank, hosts->items[rank], text);
    else
        fprintf(stderr, "[%d] %s\n", rank, text);
}

static int is_matrix(const struct mn_collective_session *s)
{
    return s->options->links || s->options->pairs;
}

static int be_rank(void *ctx, int rank)
{
    return is_matrix(ctx) ? mn_matrix_rank(ctx, rank) : mn_collective_rank(ctx, rank);
}

static int start_rank(void *ctx, int rank)
{
    const struct mn_collective_session *s = ctx;
    const struct mn_opt_list *hosts = s->hosts;

    return hosts->count && !mn_collective_is_here(hosts->items[rank]) ? mn_collective_ssh(s, rank)
                                                                      : be_rank(ctx, rank);
}

static enum mn_err plan(struct mn_collective_session *s, struct mn_diag *diag)
{
    return is_matrix(s) ? mn_matrix_prepare(s, diag) : mn_collective_plan(s, diag);
}

/* --- a rank that another launcher started ----------------------------------------------------- */

/* Rank 0 listens where the others look for it. */
static enum mn_err listen_at(struct mn_collective_session *s, struct mn_diag *diag)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    struct mn_addr addr = {.prefix = -1};
    int rc = getaddrinfo(s->plan.host, NULL, &hints, &list);

    if (rc)
        return mn_fail(diag, MN_ERR_CONFIG, "--coordinator %s: %s", s->plan.host, gai_strerror(rc));
    addr.family = list->ai_family;
    if (list->ai_family == AF_INET6)
        memcpy(addr.bytes, &((struct sockaddr_in6 *)(void *)list->ai_addr)->sin6_addr, 16);
    else
        memcpy(addr.bytes, &((struct sockaddr_in *)(void *)list->ai_addr)->sin_addr, 4);
    freeaddrinfo(list);
    static const uint8_t any[16];
    if (memcmp(addr.bytes, any, sizeof any) == 0)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "--coordinator %s: expected one address, not all of a host", s->plan.host);
    return mn_ctl_listen(&addr, s->plan.port, &s->plan.listen_fd, diag);
}

static enum mn_err get_token(const struct mn_bench_options *o, uint8_t token[MN_KEY_SIZE],
                             struct mn_diag *diag)
{
    const char *text = getenv("MESHNET_TOKEN");

    if (o->token_file)
        return mn_key_read(o->token_file, token, diag);
    if (text)
        return mn_key_parse(text, token, diag);
    return mn_fail(diag, MN_ERR_USAGE,
                   "which token? give all ranks the same 32 hexadecimal digits in MESHNET_TOKEN or "
                   "--token-file FILE");
}

static enum mn_err follow_env(struct mn_collective_session *s, const struct mn_launch_env *env,
                              struct mn_diag *diag)
{
    const struct mn_bench_options *o = s->options;

    s->plan.rank = env->rank;
    s->plan.nranks = env->nranks;
    s->plan.host = o->coordinator ? o->coordinator : env->address;
    s->plan.port = (uint16_t)(o->port == MN_CTL_PORT && env->port ? env->port : o->port);
    if (!s->plan.host)
        return mn_fail(diag, MN_ERR_USAGE,
                       "where is rank 0? %s does not tell: give all ranks --coordinator HOST",
                       env->launcher);
    enum mn_err err = get_token(o, s->plan.token, diag);
    if (!err)
        err = plan(s, diag);
    if (!err && !env->rank)
        err = listen_at(s, diag);
    return err;
}

/* --- */

static enum mn_err launch(struct mn_collective_session *s, int *code, struct mn_diag *diag)
{
    struct mn_launch crew = {.body = start_rank, .line = on_line, .ctx = s};
    const struct mn_opt_list *hosts = s->hosts;
    enum mn_err err;

    s->plan.nranks = crew.nranks = hosts->count ? (int)hosts->count : (int)s->options->local;
    if (hosts->count > MN_GROUP_RANKS)
        return mn_fail(diag, MN_ERR_USAGE, "--hosts: at most %d", MN_GROUP_RANKS);
    if (hosts->count && !mn_collective_is_here(hosts->items[0]))
        return mn_fail(diag, MN_ERR_USAGE,
                       "--hosts %s,…: the first must be this host, where the report is printed",
                       hosts->items[0]);
    if (s->missing && crew.nranks > 2 && !is_matrix(s))
        fprintf(stderr, "meshnet bench: %d steps of the ring of ranks have no cable\n", s->missing);
    err = plan(s, diag);
    if (!err)
        err = meet_here(s, diag);
    return err ? err : mn_launch_local(&crew, code, diag);
}

int mn_bench_collective(const struct mn_bench_options *options)
{
    struct mn_collective_session s = {.options = options,
                                      .hosts = &options->hosts,
                                      .plan = {.listen_fd = -1,
                                               .timeout_ms = options->timeout_ms,
                                               .stop = &mn_launch_stop}};
    struct mn_launch_env env = {.launcher = NULL};
    struct mn_diag diag;
    int code = 0, chosen = options->local || options->hosts.count;
    enum mn_err err = chosen ? MN_OK : mn_launch_env(&env, &diag);
    int of_mesh = is_matrix(&s) || options->mesh || options->print_order;
    int own = chosen || (of_mesh && !env.launcher);

    mn_mesh_init(&s.mesh);
    mn_plugin_path(options->plugin, s.plugin_path, sizeof s.plugin_path);
    if (!err)
        err = mn_bench_mesh(&s, &diag);
    if (!err && own)
        err = mn_bench_hosts(&s, &diag);
    if (!err && options->print_order) {
        /* that was all */
    } else if (!err && own) {
        err = launch(&s, &code, &diag);
    } else if (!err && env.launcher) {
        mn_launch_catch();
        err = follow_env(&s, &env, &diag);
        if (!err)
            code = be_rank(&s, env.rank);
    } else if (!err) {
        err = mn_fail(&diag, MN_ERR_USAGE,
                      "between which ranks? --local N, processes here; --hosts A,B,…; or started "
                      "by mpirun, torchrun or srun");
    }
    if (s.plan.listen_fd >= 0)
        close(s.plan.listen_fd);
    free(s.tasks);
    free(s.names.items);
    mn_mesh_free(&s.mesh);
    return err ? mn_cmd_fail("bench", &diag) : code;
}
