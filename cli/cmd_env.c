#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/nccl_env.h"
#include "cli/nccl_options.h"
#include "cli/nccl_order.h"
#include "topo/base/alloc.h"
#include "topo/base/out.h"
#include "topo/base/shell.h"

struct options {
    struct mn_nccl_options nccl;
    int json;
};

static const struct mn_opt options[] = {
    MN_NCCL_OPTIONS(struct options, nccl),
    {.name = "json",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, json),
     .help = "Everything as JSON."},
    MN_OPT_END,
};

/* Lines for a shell to evaluate. */
static int print_shell(const struct mn_nccl_subject *s, const struct mn_nccl_env *env,
                       const struct mn_nccl_order *order)
{
    for (int i = 0; i < env->n_vars; i++) {
        size_t size = 4 * strlen(env->vars[i].value) + 8; /* each byte a quote */
        char *word = mn_zalloc(size);
        (void)mn_shell_word(env->vars[i].value, word, size);
        printf("# %s\nexport %s=%s\n", env->vars[i].why, env->vars[i].name, word);
        free(word);
    }
    mn_nccl_say_warnings("env", env);
    mn_nccl_order_say("env", s, order, 0);
    return mn_out_lost(stdout) ? -1 : 0;
}

static int print_json(const struct mn_nccl_subject *s, const struct mn_nccl_env *env,
                      const struct mn_nccl_order *order)
{
    static const struct mn_col vars[] = {{"name", "", 0}, {"value", "", 0}, {"why", "", 0}},
                               texts[] = {{"text", "", 0}};
    struct mn_out *out = mn_out_new(stdout, MN_OUT_JSON);

    mn_out_str(out, "for", NULL, s->rccl ? "rccl" : "nccl");
    mn_out_str(out, "mesh_file", NULL, s->mesh_path);
    mn_out_str(out, "node", NULL, s->self >= 0 ? s->mesh.nodes[s->self].name : NULL);
    mn_out_table(out, "variables", NULL, vars, 3);
    for (int i = 0; i < env->n_vars; i++) {
        mn_out_row(out);
        mn_out_cell(out, env->vars[i].name);
        mn_out_cell(out, env->vars[i].value);
        mn_out_cell(out, env->vars[i].why);
    }
    mn_out_table_end(out);
    mn_out_table(out, "warnings", NULL, texts, 1);
    for (size_t i = 0; i < env->n_warnings; i++) {
        mn_out_row(out);
        mn_out_cell(out, env->warnings[i]);
    }
    mn_out_table_end(out);
    mn_nccl_order_print(out, s, order);
    return mn_out_free(out);
}

static int run(const void *values, int argc, char **argv)
{
    const struct options *o = values;
    struct mn_nccl_subject subject;
    struct mn_nccl_env env;
    struct mn_nccl_order order;
    struct mn_diag diag = {.text = ""};
    int failed;

    if (argc) {
        mn_fail(&diag, MN_ERR_USAGE, "unexpected '%s'", argv[0]);
        return mn_cmd_fail("env", &diag);
    }
    enum mn_err err = mn_nccl_find(&o->nccl, &subject, &env, &diag);
    if (err)
        return mn_cmd_fail("env", &diag);
    err = mn_nccl_order_find(&o->nccl, &subject, 0, NULL, &order, &diag);
    failed = err       ? mn_cmd_fail("env", &diag)
             : o->json ? print_json(&subject, &env, &order)
                       : print_shell(&subject, &env, &order);
    if (failed < 0)
        fprintf(stderr, "meshnet env: writing failed\n");
    mn_nccl_order_free(&order);
    mn_nccl_env_free(&env);
    mn_nccl_subject_free(&subject);
    return failed < 0 ? 1 : failed;
}

const struct mn_command mn_cmd_env = {
    .name = "env",
    .summary = "the variables by which NCCL or RCCL uses this plugin and mesh, explained",
    .usage = "[OPTION]…",
    .options = options,
    .options_size = sizeof(struct options),
    .notes = "Example: eval \"$(meshnet env)\"\n"
             "Warnings, on standard error, are of what the variables cannot mend.",
    .exits = {{0, MN_GOOD},
              {1, MN_FAILED "the output could not be written"},
              {2, MN_REFUSED "a mistake in the mesh file, or a plugin that cannot be loaded here"}},
    .run = run,
};
