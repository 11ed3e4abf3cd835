#include "cli/nccl_options.h"

#include <stdio.h>
#include <stdlib.h>

static enum mn_err read_release(const char *text, long *minor, struct mn_diag *diag)
{
    char *end;

    *minor = 99;
    if (!text)
        return MN_OK;
    long major = strtol(text, &end, 10);
    if (major == 2 && *end == '.')
        *minor = strtol(end + 1, &end, 10);
    if (major != 2 || (*end && *end != '.') || *minor < 4 || *minor > 999)
        return mn_fail(diag, MN_ERR_USAGE, "--release '%s': expected a version such as 2.18.3",
                       text);
    return MN_OK;
}

enum mn_err mn_nccl_find(const struct mn_nccl_options *o, struct mn_nccl_subject *s,
                         struct mn_nccl_env *env, struct mn_diag *diag)
{
    long minor;
    enum mn_err err = read_release(o->release, &minor, diag);

    if (err)
        return err;
    err = mn_nccl_subject_read(o->mesh, o->plugin, s, diag);
    if (err) {
        mn_nccl_subject_free(s);
        return err;
    }
    s->rccl = o->rccl;
    s->minor = minor;
    mn_nccl_env_fill(s, env);
    mn_nccl_env_shadows(s, env);
    return MN_OK;
}

void mn_nccl_say_warnings(const char *command, const struct mn_nccl_env *env)
{
    for (size_t i = 0; i < env->n_warnings; i++)
        fprintf(stderr, "meshnet %s: %s\n", command, env->warnings[i]);
}
