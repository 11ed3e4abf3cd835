#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/nccl_options.h"
#include "cli/nccl_order.h"

enum { KEEP, CABLES }; /* choices of --order */

struct options {
    struct mn_nccl_options nccl;
    int quiet, order;
};

static const struct mn_opt options[] = {
    MN_NCCL_OPTIONS(struct options, nccl),
    {.name = "order",
     .type = MN_OPT_CHOICE,
     .arg = "ORDER",
     .def = "keep",
     .choices = "keep|cables",
     .offset = offsetof(struct options, order),
     .help = "The order of hosts in the command: as it is, or along the cables."},
    {.name = "quiet",
     .letter = 'q',
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, quiet),
     .help = "No warnings."},
    MN_OPT_END,
};

/* The process becomes the command. */
static int run(const void *values, int argc, char **argv)
{
    const struct options *o = values;
    struct mn_nccl_subject subject;
    struct mn_nccl_env env;
    struct mn_nccl_order order;
    struct mn_diag diag = {.text = ""};

    if (!argc) {
        mn_fail(&diag, MN_ERR_USAGE, "which command? meshnet run -- COMMAND ARGUMENT…");
        return mn_cmd_fail("run", &diag);
    }
    if (mn_nccl_find(&o->nccl, &subject, &env, &diag))
        return mn_cmd_fail("run", &diag);
    enum mn_err err = mn_nccl_order_find(&o->nccl, &subject, argc, argv, &order, &diag);
    if (!err && o->order == CABLES)
        err = mn_nccl_order_apply(&subject, &order, argv, &diag);
    for (int i = 0; i < env.n_vars; i++)
        setenv(env.vars[i].name, env.vars[i].value, 1);
    if (!err && !o->quiet)
        mn_nccl_say_warnings("run", &env);
    if (!err && !o->quiet)
        mn_nccl_order_say("run", &subject, &order, o->order == CABLES);
    mn_nccl_order_free(&order);
    mn_nccl_env_free(&env);
    mn_nccl_subject_free(&subject);
    if (err)
        return mn_cmd_fail("run", &diag);
    signal(SIGPIPE, SIG_DFL); /* main ignores it */
    execvp(argv[0], argv);
    int missing = errno == ENOENT;
    fprintf(stderr, "meshnet run: %s: %s\n", argv[0], strerror(errno));
    return missing ? 127 : 126;
}

const struct mn_command mn_cmd_run = {
    .name = "run",
    .summary = "run a job with the variables of meshnet env",
    .usage = "[OPTION]… -- COMMAND [ARGUMENT]…",
    .options = options,
    .options_size = sizeof(struct options),
    .notes = "Example: meshnet run -- torchrun --nnodes 2 … train.py\n"
             "Exits as the command does, or",
    .exits = {{2, MN_REFUSED "a mistake in the mesh file"},
              {126, "the command cannot be run"},
              {127, "the command is not found"}},
    .run = run,
};
