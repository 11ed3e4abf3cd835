/* meshnet verify-plugin in a program that brings none of the plugin's libraries along, as most
 * applications do: judge [LIBRARY…] -- [OPTION…] PLUGIN. The libraries before the two dashes are
 * opened first, for all to see. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "topo/base/alloc.h"

int mn_cmd_fail(const char *name, const struct mn_diag *diag)
{
    fprintf(stderr, "%s: %s\n", name, diag->text);
    return mn_err_exit_code(diag->code);
}

static void open_first(const char *library)
{
    if (dlopen(library, RTLD_NOW | RTLD_GLOBAL))
        return;
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
}

int main(int argc, char **argv)
{
    const struct mn_command *cmd = &mn_cmd_verify_plugin;
    struct mn_diag diag;
    int first, at = 1;

    signal(SIGPIPE, SIG_IGN);
    for (; at < argc && strcmp(argv[at], "--") != 0; at++)
        open_first(argv[at]);
    at += at < argc;
    void *values = mn_zalloc(cmd->options_size);
    if (mn_opt_parse(cmd->options, values, argc - at, argv + at, &first, &diag))
        return mn_cmd_fail(cmd->name, &diag);
    return cmd->run(values, argc - at - first, argv + at + first);
}
