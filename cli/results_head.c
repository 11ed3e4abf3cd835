#include <string.h>

#include "cli/results_head.h"
#include "topo/base/alloc.h"

static void print_fields(struct mn_out *out, const void *owner,
                         const struct mn_environment_field *fields)
{
    const char *group = NULL, *text;
    int open = 0, unknown = 0;
    double number;

    for (const struct mn_environment_field *f = fields; f->key; f++) {
        int known = mn_environment_text(owner, f, &text);
        if (f->group && (!group || strcmp(group, f->group) != 0)) {
            if (open)
                mn_out_end(out);
            unknown = !known;
            open = known;
            if (known)
                mn_out_begin(out, f->group, NULL);
            else
                mn_out_str(out, f->group, NULL, NULL);
        }
        group = f->group;
        if (group && unknown)
            continue;
        if (!known && mn_environment_number(owner, f, &number))
            mn_out_num(out, f->key, NULL, number, f->type == MN_ENVIRONMENT_LONG ? 0 : 1);
        else
            mn_out_str(out, f->key, NULL, known ? text : NULL);
    }
    if (open)
        mn_out_end(out);
}

static void print_one(struct mn_out *out, const struct mn_environment *env)
{
    mn_out_begin(out, NULL, NULL);
    print_fields(out, env, mn_environment_fields);
    mn_out_list_begin(out, "nics", NULL);
    for (int i = 0; i < env->n_nics; i++) {
        mn_out_begin(out, NULL, NULL);
        print_fields(out, &env->nics[i], mn_environment_nic_fields);
        mn_out_end(out);
    }
    mn_out_list_end(out);
    mn_out_end(out);
}

static void summarise(struct mn_out *out, const struct mn_environment *envs, int count)
{
    int wide[2] = {0, 0};

    for (int i = 0; i < count; i++) {
        int node = (int)strlen(envs[i].node), kernel = (int)strlen(envs[i].kernel);
        wide[0] = node > wide[0] ? node : wide[0];
        wide[1] = kernel > wide[1] ? kernel : wide[1];
    }
    for (int i = 0; i < count; i++)
        mn_out_note(out, MN_PLAIN, "%-*s  %-*s  %ld x %s%s%s", wide[0], envs[i].node, wide[1],
                    envs[i].kernel, envs[i].cpus, envs[i].cpu[0] ? envs[i].cpu : "CPU",
                    envs[i].governor[0] ? ", governor " : "", envs[i].governor);
}

void mn_results_print_head(struct mn_out *out, enum mn_results_kind kind, time_t started,
                           const struct mn_environment *envs, int count)
{
    char when[32] = "";
    struct tm utc;

    if (gmtime_r(&started, &utc))
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    mn_out_str(out, "schema", NULL, MN_RESULTS_SCHEMA);
    mn_out_int(out, "schema_version", NULL, MN_RESULTS_VERSION);
    mn_out_str(out, "kind", NULL, mn_results_kinds[kind].name);
    mn_out_str(out, "meshnet", NULL, MESHNET_VERSION);
    mn_out_str(out, "started", "started", when);
    mn_out_list_begin(out, "environment", "environment");
    for (int i = 0; i < count; i++)
        print_one(out, &envs[i]);
    summarise(out, envs, count);
    mn_out_list_end(out);
}

void mn_results_print_spread(struct mn_out *out, const struct mn_spread *spread)
{
    if (!spread) {
        for (int i = 0; i < 4; i++)
            mn_out_cell(out, NULL);
        return;
    }
    if (spread->steady == 0)
        mn_out_color(out, MN_YELLOW);
    mn_out_cell_num(out, spread->ci95, 1);
    mn_out_cell_int(out, (int64_t)spread->repetitions);
    mn_out_cell_int(out, (int64_t)spread->outliers);
    mn_out_cell_bool(out, spread->steady);
}

void mn_results_say_unsteady(struct mn_out *out, size_t unsteady, size_t all)
{
    if (unsteady)
        mn_out_note(out, MN_YELLOW,
                    "%zu of %zu rows were not steady after warm-up: another load on these hosts? "
                    "A longer --duration helps",
                    unsteady, all);
}
