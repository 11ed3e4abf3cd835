/* A rank that another launcher started: who it is, and where it meets the others. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fleet/launch_env.h"
#include "fleet/launch_pmix.h"
#include "fleet/meet.h"
#include "cli/host_name.h"
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

/* Where rank 0 may be found, here: of a node every address of its in the mesh file, and what the
 * system knows by its names, which those take who have no cable to it, or no mesh file. */
static enum mn_err own_addresses(const struct mn_group_plan *plan, const struct mn_names *names,
                                 const char *option, struct mn_addr addrs[MN_GROUP_DOORS],
                                 int *count, struct mn_diag *diag)
{
    int node = mn_names_node(&names->mesh, plan->host);

    int all;
    *count = MN_GROUP_DOORS;
    enum mn_err err = mn_names_own(names, option, plan->host, addrs, count, &all, diag);
    int given = *count;
    if (err && (node < 0 || node != names->self))
        return err;
    mn_names_add(plan->host, addrs, count, MN_GROUP_DOORS);
    if (node >= 0)
        mn_names_add(names->mesh.nodes[node].hostname, addrs, count, MN_GROUP_DOORS);
    /* As 127.0.1.1 in /etc/hosts, which is of no use to others. */
    for (int i = given; i < *count && node >= 0 && given;) {
        if (mn_addr_is_loopback(&addrs[i]))
            addrs[i] = addrs[--*count];
        else
            i++;
    }
    return *count ? MN_OK : err;
}

/* Rank 0 listens where the others look for it. */
static enum mn_err listen_at(struct mn_group_plan *plan, const struct mn_names *names,
                             const char *option, struct mn_diag *diag)
{
    static const uint8_t any[16];
    struct mn_addr addrs[MN_GROUP_DOORS];
    int count;
    enum mn_err err = own_addresses(plan, names, option, addrs, &count, diag);

    if (!err && memcmp(addrs[0].bytes, any, sizeof any) == 0)
        return mn_fail(diag, MN_ERR_CONFIG, "%s %s: expected one address, not all of a host",
                       option, plan->host);
    /* An address that is gone is no reason to stop while there are others; one where another
     * program answers is. */
    for (int i = 0; i < count && !err; i++) {
        err = mn_ctl_listen(&addrs[i], plan->port, &plan->doors[plan->n_doors], diag);
        plan->n_doors += !err;
        if (err && err != MN_ERR_EXISTS)
            err = MN_OK;
    }
    return err || plan->n_doors ? err : diag->code;
}

/* The first that this host has, as some of a mesh file may be gone; else the first. */
static enum mn_err one_of_host(const struct mn_addr *addrs, int count, const struct mn_addr **one,
                               struct mn_diag *diag)
{
    struct mn_host host = {.n_nics = 0};
    enum mn_err err = mn_host_read(NULL, &host, diag);

    *one = NULL;
    for (int i = 0; i < count && !err && !*one; i++) {
        const struct mn_nic *nic = mn_host_nic_by_addr(&host, &addrs[i]);
        if (mn_addr_is_loopback(&addrs[i]) || (nic && nic->admin_up))
            *one = &addrs[i];
    }
    *one = *one ? *one : &addrs[0];
    mn_host_free(&host);
    return err;
}

/* Where the others find rank 0, which may be at their own node. */
static enum mn_err find_rank_0(struct mn_group_plan *plan, const struct mn_names *names,
                               const char *option, struct mn_diag *diag)
{
    static char host[256]; /* the plan points to it */
    struct mn_addr addrs[MN_GROUP_DOORS];
    const struct mn_addr *one = addrs;
    int count, node = mn_names_node(&names->mesh, plan->host);
    enum mn_err err;

    if (node >= 0 && node == names->self) {
        err = own_addresses(plan, names, option, addrs, &count, diag);
        for (int i = 0; i < count && !err; i++)
            addrs[i].prefix = -1;
        if (!err)
            err = one_of_host(addrs, count, &one, diag);
        if (!err)
            mn_addr_format(one, host, sizeof host);
    } else {
        err = mn_names_host(names, option, plan->host, host, sizeof host, diag);
    }
    plan->host = host;
    return err;
}

static enum mn_err meet_at(struct mn_group_plan *plan, const char *option, struct mn_diag *diag)
{
    struct mn_names names = {.self = -1};
    struct mn_addr addr;
    enum mn_err err = MN_OK;

    mn_mesh_init(&names.mesh);
    if (mn_addr_parse(plan->host, &addr, NULL))
        err = mn_names_read(&names, diag);
    if (!err)
        err = (plan->rank ? find_rank_0 : listen_at)(plan, &names, option, diag);
    mn_names_free(&names);
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
    return err ? err
               : meet_at(plan, o->coordinator ? "--coordinator" : "the address of rank 0", diag);
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
