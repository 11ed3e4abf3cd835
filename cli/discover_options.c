/* Which options of meshnet discover go together. */
#include "cli/discover_options.h"

#include <string.h>
#include <unistd.h>

#include "fleet/ctl.h"

/* What was given that says nothing without --neighbors. */
static enum mn_err check_probes(const struct mn_discover_options *opt, struct mn_diag *diag)
{
    const struct mn_neighbors_options *near = &opt->near;
    const char *given = near->wait_ms       ? "wait"
                        : near->up          ? "up"
                        : near->lldp        ? "lldp"
                        : near->key_file    ? "key-file"
                        : near->survey      ? "survey"
                        : near->save_survey ? "save-survey"
                                            : NULL;
    return given ? mn_fail(diag, MN_ERR_USAGE, "--%s is for --neighbors: add it", given) : MN_OK;
}

/* discover --hosts: what each of them has, without --neighbors. */
static enum mn_err check_hosts(const struct mn_discover_options *opt, int argc, char **argv,
                               struct mn_diag *diag)
{
    if (argc > 0)
        return mn_fail(diag, MN_ERR_USAGE, "\"%s\" is not expected here", argv[0]);
    if (check_probes(opt, diag))
        return diag->code;
    if (opt->check || opt->sysfs || opt->netlink || opt->all || opt->verbose || opt->strict)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--hosts goes with none of --check, --sysfs, --netlink, --all, --verbose "
                       "and --strict");
    if (opt->node)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--node names one host; each of --hosts is called by its host name, or by "
                       "MESHNET_NODE there");
    return opt->merge && !opt->output
               ? mn_fail(diag, MN_ERR_USAGE, "--merge needs the file to merge into: --output FILE")
               : MN_OK;
}

static enum mn_err check_here(const struct mn_discover_options *opt, int argc, char **argv,
                              struct mn_diag *diag)
{
    if (argc > 0 && !opt->merge)
        return mn_fail(diag, MN_ERR_USAGE,
                       "\"%s\" is not expected here; mesh files to merge follow --merge", argv[0]);
    for (int i = 0; i < argc; i++)
        if (argv[i][0] == '-' && access(argv[i], F_OK) != 0)
            return mn_fail(diag, MN_ERR_USAGE, "%s: options stand before the files to merge",
                           argv[i]);
    if (opt->merge && argc == 0 && !opt->output)
        return mn_fail(
            diag, MN_ERR_USAGE,
            "--merge needs the file to merge into (--output FILE) or mesh files to merge");
    if (opt->check && (opt->output || opt->merge))
        return mn_fail(diag, MN_ERR_USAGE, "--check only reads; leave out --output and --merge");
    if (opt->netlink && !opt->sysfs)
        return mn_fail(diag, MN_ERR_USAGE, "--netlink belongs to a recorded host: add --sysfs DIR");
    if (opt->node && !opt->output)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--node names this host in a mesh file: add --output FILE");
    if (opt->skip.count && (!opt->output || argc))
        return mn_fail(diag, MN_ERR_USAGE,
                       "--skip leaves NICs of this host out of a mesh file: add --output FILE%s",
                       argc ? ", without files to merge" : "");
    if (opt->take.count && !opt->output && !argc)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--take makes cables in a mesh file: add --output FILE or files to merge");
    if (opt->output && strlen(opt->output) >= MN_DISCOVER_PATH)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--output: a path of %zu bytes; expected at most %d: go to its folder first",
                       strlen(opt->output), MN_DISCOVER_PATH - 1);
    if (opt->near.crew.agents || opt->near.crew.token_file || opt->near.crew.port != MN_CTL_PORT ||
        opt->near.partial)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--agents, --token-file, --port and --partial are for --hosts: which ones?");
    if (check_probes(opt, diag))
        return diag->code;
    if (opt->node && !opt->node[0])
        return mn_fail(diag, MN_ERR_USAGE, "--node \"\": a name is expected");
    return MN_OK;
}

static enum mn_err check_neighbors(const struct mn_discover_options *opt, int argc, char **argv,
                                   struct mn_diag *diag)
{
    const struct mn_neighbors_options *near = &opt->near;
    if (argc > 0)
        return mn_fail(diag, MN_ERR_USAGE, "\"%s\" is not expected here", argv[0]);
    if (opt->check || opt->sysfs || opt->netlink || opt->node || opt->all || opt->verbose)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--neighbors goes with none of --check, --sysfs, --netlink, --node, --all "
                       "and --verbose");
    if (opt->format == MN_OUT_CSV)
        return mn_fail(diag, MN_ERR_USAGE, "--neighbors writes text or json, no csv");
    if (opt->merge && !opt->output)
        return mn_fail(diag, MN_ERR_USAGE, "--merge needs the file to merge into: --output FILE");
    if (near->survey && (near->crew.hosts.count || near->key_file || near->wait_ms || near->up ||
                         near->lldp || opt->take.count || opt->skip.count))
        return mn_fail(diag, MN_ERR_USAGE, "--survey goes by what was recorded: nothing is probed");
    if (near->key_file && near->crew.hosts.count)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--key-file is for nodes that are not led; with --hosts there is a key for "
                       "the run");
    return MN_OK;
}

enum mn_err mn_discover_check_usage(const struct mn_discover_options *opt, int argc, char **argv,
                                    struct mn_diag *diag)
{
    if (opt->neighbors)
        return check_neighbors(opt, argc, argv, diag);
    if (opt->near.crew.hosts.count)
        return check_hosts(opt, argc, argv, diag);
    return check_here(opt, argc, argv, diag);
}
