#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/relayd.h"
#include "topo/base/alloc.h"

static const struct mn_opt options[] = {
    {.name = "mesh",
     .type = MN_OPT_STRING,
     .arg = "FILE",
     .offset = offsetof(struct mn_relayd_options, mesh),
     .help = "The mesh file; default: see meshnet.yaml(5)."},
    {.name = "users",
     .type = MN_OPT_LIST,
     .arg = "USER,…",
     .offset = offsetof(struct mn_relayd_options, users),
     .help = "Names or numbers of local users who may use it without the cluster key, besides root "
             "and its own."},
    {.name = "anyone",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct mn_relayd_options, anyone),
     .help = "Every local user may."},
    {.name = "socket",
     .type = MN_OPT_STRING,
     .arg = "PATH",
     .offset = offsetof(struct mn_relayd_options, socket),
     .help = "Its local socket; default: relay.socket of the mesh file."},
    {.name = "check",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct mn_relayd_options, check),
     .help = "Say whether it could start, and what it would use; start nothing."},
    {.name = "status",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct mn_relayd_options, status),
     .help = "Ask the one that runs on this node: its lines, trunks and flows."},
    {.name = "json",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct mn_relayd_options, json),
     .help = "With --status: JSON instead of text."},
    MN_WIDE_OPTION(struct mn_relayd_options),
    MN_OPT_END,
};

static enum mn_err check_usage(const struct mn_relayd_options *o, int argc, char **argv,
                               struct mn_diag *diag)
{
    if (argc)
        return mn_fail(diag, MN_ERR_USAGE, "unexpected '%s'", argv[0]);
    if (o->check && o->status)
        return mn_fail(diag, MN_ERR_USAGE, "--check and --status: one of them");
    if (o->json && !o->status)
        return mn_fail(diag, MN_ERR_USAGE, "--json: it is for --status");
    if (o->status && (o->anyone || o->users.count))
        return mn_fail(diag, MN_ERR_USAGE,
                       "--status asks a daemon that runs: --users and --anyone are for starting "
                       "one");
    if (o->anyone && o->users.count)
        return mn_fail(diag, MN_ERR_USAGE, "--users and --anyone: one of them");
    return MN_OK;
}

static int run(const void *values, int argc, char **argv)
{
    const struct mn_relayd_options *o = values;
    struct mn_diag diag = {.text = ""};
    enum mn_err err = check_usage(o, argc, argv, &diag);

    if (!err && o->mesh && setenv("MESHNET_CONFIG", o->mesh, 1))
        err = mn_fail_errno(&diag, "setting MESHNET_CONFIG");
    if (!err)
        err = o->status  ? mn_relayd_status(o, &diag)
              : o->check ? mn_relayd_check(o, &diag)
                         : mn_relayd_serve(o, &diag);
    return err ? mn_cmd_fail("relayd", &diag) : 0;
}

const struct mn_command mn_cmd_relayd = {
    .name = "relayd",
    .summary = "pass data on between nodes that share no cable, at cable speed, without root",
    .usage = "[OPTION]…",
    .options = options,
    .options_size = sizeof(struct mn_relayd_options),
    .notes = "Example: meshnet relayd --users alice\n"
             "         meshnet relayd --status",
    .exits = {{0, MN_GOOD
               ": ended by SIGINT, SIGTERM or SIGHUP; with --status it runs, with --check it "
               "could"},
              {1, MN_FAILED "another one runs here, its port or socket cannot be used; with "
                            "--status none runs"},
              {2, MN_REFUSED "no mesh file, no cluster key, a mistake in them, a user that is not "
                             "known"}},
    .run = run,
};
