/* What makes a job use another plugin, another library or other settings than those meant. */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/nccl_env.h"
#include "fleet/libraries.h"
#include "topo/base/alloc.h"
#include "topo/mesh_setting.h"

/* Settings files of NCCL (src/misc/param.cc): the environment goes first, then the user's, then the
 * system's. NCCL_CONF_FILE stands for the user's from 2.23 on. */
static void configuration(struct mn_nccl_env *env, const char *path)
{
    char *text, *rest = NULL;
    int number = 0;

    if (mn_file_read(path, 1u << 20, &text, NULL, NULL))
        return;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        number++;
        while (isspace((unsigned char)*line))
            line++;
        if (strncmp(line, "NCCL_", 5) != 0 && strncmp(line, "RCCL_", 5) != 0)
            continue;
        char *name = strtok_r(line, "= \t\r", &rest);
        char *value = strtok_r(NULL, "\r", &rest);
        const char *set = NULL;
        for (int i = 0; i < env->n_vars; i++)
            if (!strcmp(env->vars[i].name, name))
                set = env->vars[i].value;
        if (set && value && !strcmp(set, value))
            continue;
        mn_nccl_env_warn(env,
                         set ? "%s:%d sets %.60s=%.200s; the environment goes first, where it "
                               "reaches the job"
                             : "%s:%d sets %.60s=%.200s, which stays in effect",
                         path, number, name, value ? value : "");
    }
    free(text);
}

static void configurations(struct mn_nccl_env *env)
{
    const char *home = getenv("HOME"), *own = getenv("NCCL_CONF_FILE");
    char path[PATH_MAX];

    configuration(env, "/etc/nccl.conf");
    if (own && *own) {
        configuration(env, own);
    } else if (home) {
        snprintf(path, sizeof path, "%s/.nccl.conf", home);
        configuration(env, path);
    }
}

/* What is set for NCCL's own transport, and whether the plugin takes it. */
static void own_transport(const struct mn_nccl_subject *s, struct mn_nccl_env *env)
{
    struct mn_settings settings = s->mesh.settings;
    char text[256];
    int what;

    for (int i = 0;
         (what = mn_setting_from_nccl(i, s->mesh.given, &settings, text, sizeof text)) >= 0; i++)
        if (what != MN_NCCL_UNSET)
            mn_nccl_env_warn(env, "%s", text);
}

/* --- libraries -------------------------------------------------------------------------------- */

static void other_plugins(const struct mn_nccl_subject *s, struct mn_nccl_env *env)
{
    struct mn_libraries found;

    mn_libraries_find(MN_LIBRARY_PLUGIN, &found);
    size_t own = (size_t)(strrchr(s->plugin, '/') - s->plugin) + 1;
    for (size_t i = 0; i < found.n; i++)
        if (strncmp(found.paths[i], s->plugin, own) != 0)
            mn_nccl_env_warn(env,
                             "%s is another network plugin where the loader looks: a process "
                             "that does not get NCCL_NET_PLUGIN may load it",
                             found.paths[i]);
    mn_libraries_free(&found);
}

static void libraries(const struct mn_nccl_subject *s, struct mn_nccl_env *env)
{
    struct mn_libraries found;
    char *all = NULL;

    mn_libraries_find(s->rccl ? MN_LIBRARY_RCCL : MN_LIBRARY_NCCL, &found);
    if (found.n > 1) {
        for (size_t i = 0; i < found.n; i++) {
            char *longer = mn_asprintf("%s%s%s", all ? all : "", all ? ", " : "", found.paths[i]);
            free(all);
            all = longer;
        }
        mn_nccl_env_warn(env,
                         "there are %zu %s libraries: %s; a job loads the first it finds, and "
                         "nodes that differ hang or fail late",
                         found.n, s->rccl ? "RCCL" : "NCCL", all);
        free(all);
    }
    mn_libraries_free(&found);
}

void mn_nccl_env_shadows(const struct mn_nccl_subject *s, struct mn_nccl_env *env)
{
    const char *preload = getenv("LD_PRELOAD");

    configurations(env);
    own_transport(s, env);
    other_plugins(s, env);
    libraries(s, env);
    if (preload && strstr(preload, "ccl"))
        mn_nccl_env_warn(env, "LD_PRELOAD=%s goes before all of these", preload);
}
