#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fleet/node.h"
#include "topo/base/alloc.h"

static const char *const passed[] = {"MESHNET_NODE", "MESHNET_CONFIG", "MESHNET_LOG", NULL};

char *mn_node_script(const struct mn_node_verb *verb)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);

    if (!file)
        mn_no_memory();
    /* sudo drops the environment. Behind "--" there are no options, so that a rule for "node VERB
     * -- *" allows none; the star wants a word, which the last variable always is. sudo -l does not
     * say whether it would ask for a password: --help behind it does nothing, and says so. */
    if (verb->root) {
        fprintf(file,
                "if [ \"$(id -u)\" -ne 0 ] && sudo -n -- \"$0\" node %s -- --help >/dev/null 2>&1 "
                "</dev/null; then exec sudo -n -- \"$0\" node %s --",
                verb->name, verb->name);
        for (const char *const *name = passed; *name; name++)
            if (name[1])
                fprintf(file, " ${%s:+\"%s=$%s\"}", *name, *name, *name);
            else
                fprintf(file, " \"%s=$%s\"", *name, *name);
        fputs("; fi; ", file);
    }
    fprintf(file, "exec \"$0\" node %s", verb->name);
    if (fclose(file))
        mn_no_memory();
    return text;
}

int mn_node_here(const struct mn_node_verb *verb)
{
    char program[512];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);

    program[n > 0 ? n : 0] = 0;
    if (!verb->root || !geteuid())
        return mn_node_stream(verb->name);
    char *script = mn_node_script(verb);
    execl("/bin/sh", "sh", "-c", script, program, (char *)NULL);
    free(script);
    return 127;
}
