/* What makes a job use another plugin, another library or other settings than those meant. */
#include <ctype.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/nccl_env.h"
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

struct found {
    char **paths; /* resolved, each once */
    size_t n;
};

static void look(struct found *found, const char *pattern)
{
    char full[PATH_MAX];
    glob_t g;

    if (glob(pattern, 0, NULL, &g))
        return;
    for (size_t i = 0; i < g.gl_pathc; i++) {
        size_t k = 0;
        if (!realpath(g.gl_pathv[i], full))
            continue;
        while (k < found->n && strcmp(found->paths[k], full) != 0)
            k++;
        if (k == found->n) {
            char **new = mn_grow((void **)&found->paths, &found->n, sizeof *new);
            *new = mn_asprintf("%s", full);
        }
    }
    globfree(&g);
}

/* A directory may hold any text: what glob would take for a pattern stays as it is. */
static void look_in(struct found *found, const char *dir, size_t length, const char *const *names)
{
    char pattern[2 * PATH_MAX];

    for (; *names; names++) {
        size_t used = 0;
        for (size_t i = 0; i < length && used < sizeof pattern - 64; i++) {
            if (strchr("*?[]\\", dir[i]))
                pattern[used++] = '\\';
            pattern[used++] = dir[i];
        }
        snprintf(pattern + used, sizeof pattern - used, "%s%s", length ? "/" : "./", *names);
        look(found, pattern);
    }
}

static void look_in_path(struct found *found, const char *path, const char *const *names)
{
    while (path && *path) {
        size_t length = strcspn(path, ":");
        look_in(found, path, length, names);
        path += length + (path[length] == ':');
    }
}

static void free_found(struct found *found)
{
    for (size_t i = 0; i < found->n; i++)
        free(found->paths[i]);
    free(found->paths);
}

/* Where distributions, CUDA, ROCm and HPC-X put libraries. */
static const char *const library_dirs[] = {
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/opt/rocm/lib",
    "/usr/local/cuda/lib64",
    "/usr/local/nvidia/lib64",
#ifdef __x86_64__
    "/usr/lib/x86_64-linux-gnu",
#else
    "/usr/lib/aarch64-linux-gnu",
#endif
};

/* Wheels of Python bring a library of their own. */
static const char *const wheel_dirs[] = {"lib/python3*/site-packages", "lib/python3*/dist-packages",
                                         "lib/python3/dist-packages"};
static const char *const nccl_wheels[] = {"nvidia/nccl/lib/libnccl.so*", "torch/lib/libnccl.so*"};
static const char *const rccl_wheels[] = {"torch/lib/librccl.so*", "_rocm_sdk_*/lib/librccl.so*"};

static void look_in_wheels(struct found *found, const char *prefix, const char *const *names)
{
    char pattern[PATH_MAX];

    for (size_t d = 0; prefix && d < sizeof wheel_dirs / sizeof *wheel_dirs; d++)
        for (int i = 0; i < 2; i++) {
            snprintf(pattern, sizeof pattern, "%s/%s/%s", prefix, wheel_dirs[d], names[i]);
            look(found, pattern);
        }
}

static void other_plugins(const struct mn_nccl_subject *s, struct mn_nccl_env *env)
{
    static const char *const names[] = {"libnccl-net*.so", "librccl-net*.so", NULL};
    struct found found = {.n = 0};

    look_in_path(&found, getenv("LD_LIBRARY_PATH"), names);
    for (size_t i = 0; i < sizeof library_dirs / sizeof *library_dirs; i++)
        look_in(&found, library_dirs[i], strlen(library_dirs[i]), names);
    size_t own = (size_t)(strrchr(s->plugin, '/') - s->plugin) + 1;
    for (size_t i = 0; i < found.n; i++)
        if (strncmp(found.paths[i], s->plugin, own) != 0)
            mn_nccl_env_warn(env,
                             "%s is another network plugin where the loader looks: a process "
                             "that does not get NCCL_NET_PLUGIN may load it",
                             found.paths[i]);
    free_found(&found);
}

static void libraries(const struct mn_nccl_subject *s, struct mn_nccl_env *env)
{
    static const char *const nccl[] = {"libnccl.so*", NULL}, *const rccl[] = {"librccl.so*", NULL};
    const char *const *names = s->rccl ? rccl : nccl;
    const char *const *wheels = s->rccl ? rccl_wheels : nccl_wheels;
    const char *home = getenv("HOME");
    struct found found = {.n = 0};
    char local[PATH_MAX], *all = NULL;

    look_in_path(&found, getenv("LD_LIBRARY_PATH"), names);
    for (size_t i = 0; i < sizeof library_dirs / sizeof *library_dirs; i++)
        look_in(&found, library_dirs[i], strlen(library_dirs[i]), names);
    snprintf(local, sizeof local, "%s/.local", home ? home : "");
    const char *const prefixes[] = {getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX"),
                                    home ? local : NULL, "/usr/local", "/usr"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        look_in_wheels(&found, prefixes[i], wheels);
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
    free_found(&found);
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
