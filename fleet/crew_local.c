#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fleet/crew_impl.h"
#include "topo/base/alloc.h"

static const char *const passed[] = {"MESHNET_NODE", "MESHNET_CONFIG", "MESHNET_LOG", NULL};

char *mn_crew_script(const struct mn_node_verb *verb)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);

    if (!file)
        mn_no_memory();
    /* sudo drops the environment. */
    if (verb->root) {
        fputs(
            "if [ \"$(id -u)\" -ne 0 ] && sudo -n -- \"$0\" --version >/dev/null 2>&1 </dev/null; "
            "then exec sudo -n -- \"$0\" node ",
            file);
        fputs(verb->name, file);
        for (const char *const *name = passed; *name; name++)
            fprintf(file, " ${%s:+\"%s=$%s\"}", *name, *name, *name);
        fputs("; fi; ", file);
    }
    fprintf(file, "exec \"$0\" node %s", verb->name);
    if (fclose(file))
        mn_no_memory();
    return text;
}

void mn_crew_own_program(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);

    path[n > 0 ? n : 0] = 0;
}

static int ask(struct mn_crew_host *host, const struct mn_node_verb *verb)
{
    char program[512];

    (void)host;
    if (!verb->root || !geteuid())
        return mn_node_stream(verb->name);
    mn_crew_own_program(program, sizeof program);
    char *script = mn_crew_script(verb);
    execl("/bin/sh", "sh", "-c", script, program, (char *)NULL);
    free(script);
    return 127;
}

static enum mn_err judge(const struct mn_crew_host *host, const struct mn_errand *errand,
                         struct mn_diag *diag)
{
    (void)host;
    (void)errand;
    (void)diag;
    return MN_OK;
}

const struct mn_crew_ops mn_crew_here = {.ask = ask, .judge = judge, .stays = 1};
