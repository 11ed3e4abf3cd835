/* A rank that another launcher started: who it is, and where it meets the others. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "bench/launch_env.h"
#include "bench/launch_pmix.h"
#include "bench/meet.h"
#include "cli/rank_env.h"

enum mn_err mn_token_read(const char *file, const char *which, uint8_t token[MN_KEY_SIZE],
                          struct mn_diag *diag)
{
    const char *text = getenv("MESHNET_TOKEN");
    struct mn_diag why;
    enum mn_err err;

    if (file) {
        err = mn_key_read(file, token, &why);
        return err ? mn_fail(diag, err,
                             "--token-file: no token: %s. A token is given by --token-file FILE or "
                             "MESHNET_TOKEN",
                             why.text)
                   : MN_OK;
    }
    if (text) {
        err = mn_key_parse(text, token, &why);
        return err ? mn_fail(diag, err,
                             "MESHNET_TOKEN: no token: %s. A token is given by MESHNET_TOKEN or "
                             "--token-file FILE",
                             why.text)
                   : MN_OK;
    }
    return mn_fail(diag, MN_ERR_USAGE,
                   "which token? %s; give it in MESHNET_TOKEN or, in a file, by --token-file FILE",
                   which);
}

/* Rank 0 listens where the others look for it. */
static enum mn_err listen_at(struct mn_group_plan *plan, struct mn_diag *diag)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    struct mn_addr addr;
    int rc = getaddrinfo(plan->host, NULL, &hints, &list);

    if (rc)
        return mn_fail(diag, MN_ERR_CONFIG, "--coordinator %s: %s", plan->host, gai_strerror(rc));
    (void)mn_addr_from_sockaddr(list->ai_addr, &addr);
    freeaddrinfo(list);
    static const uint8_t any[16];
    if (memcmp(addr.bytes, any, sizeof any) == 0)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "--coordinator %s: expected one address, not all of a host", plan->host);
    enum mn_err err = mn_ctl_listen(&addr, plan->port, &plan->doors[0], diag);
    plan->n_doors = !err;
    return err;
}

/* By the variables, and what the user adds to them. */
static enum mn_err meet_as_told(struct mn_group_plan *plan, const struct mn_rank_options *o,
                                const struct mn_launch_env *env, struct mn_diag *diag)
{
    plan->host = o->coordinator ? o->coordinator : env->address;
    plan->port = (uint16_t)(o->port == MN_CTL_PORT && env->port ? env->port : o->port);
    if (!plan->host)
        return mn_fail(diag, MN_ERR_USAGE,
                       "where is rank 0? %s does not tell: give all ranks --coordinator HOST",
                       env->launcher);
    enum mn_err err =
        mn_token_read(o->token_file,
                      "32 hexadecimal digits, the same for all ranks (" MN_KEY_MAKE ")",
                      plan->token, diag);
    return err || plan->rank ? err : listen_at(plan, diag);
}

/* PMIx hands the rest on. */
static enum mn_err meet_by_pmix(struct mn_group_plan *plan, struct mn_diag *diag)
{
    static char host[MN_ADDR_TEXT]; /* the plan points to it */
    char line[MN_MEET_LINE] = "";
    struct mn_addr *addrs;
    size_t count;
    enum mn_err err = mn_meet_addresses(&addrs, &count, diag);

    if (!err && !plan->rank)
        err = mn_meet_open(plan, addrs, count, line, diag);
    if (!err)
        err = mn_pmix_share(line, sizeof line, plan->timeout_ms, diag);
    if (!err && plan->rank)
        err = mn_meet_read(line, addrs, count, plan, host, diag);
    free(addrs);
    return err;
}

enum mn_err mn_rank_launched(int *launched, struct mn_diag *diag)
{
    struct mn_launch_env env;
    enum mn_err err = mn_launch_env(&env, diag);

    *launched = !err && (env.launcher || mn_pmix_offered());
    return err;
}

enum mn_err mn_rank_meet(struct mn_group_plan *plan, const struct mn_rank_options *o,
                         struct mn_diag *diag)
{
    int told = o->coordinator || o->token_file || getenv("MESHNET_TOKEN"), by_pmix = 0;
    struct mn_launch_env env;
    struct mn_diag why;
    enum mn_err err = mn_launch_env(&env, diag);

    /* Variables and what the user says go first; a library that is missing matters where they do
     * not suffice. */
    if (!err && mn_pmix_offered() && (!env.launcher || !told)) {
        by_pmix = !mn_pmix_begin(&env.rank, &env.nranks, &why);
        if (!by_pmix)
            err =
                mn_fail(diag, MN_ERR_UNSUPPORTED,
                        "%s. Without it all ranks need --coordinator HOST, where rank 0 is, and "
                        "a token, by --token-file FILE or MESHNET_TOKEN%s",
                        why.text, env.launcher ? "" : ", and who they are, by RANK and WORLD_SIZE");
    }
    if (!err) {
        plan->rank = env.rank;
        plan->nranks = env.nranks;
        env.launcher = env.launcher ? env.launcher : "PMIx";
        err = by_pmix && !told ? meet_by_pmix(plan, diag) : meet_as_told(plan, o, &env, diag);
    }
    mn_pmix_end();
    return err;
}
