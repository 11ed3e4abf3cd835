/* The shortest run of meshnet bench --links, as a program of its own: what it says of each cable.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/matrix.h"
#include "cli/doctor.h"
#include "fleet/errand.h"
#include "fleet/launch.h"
#include "topo/base/alloc.h"

#define MOST_MS 240000

struct command {
    struct mn_doctor_session *session;
    char *hosts; /* of those that answered, this one first */
};

static int be_bench(void *ctx)
{
    const struct command *c = ctx;
    const struct mn_doctor_options *o = c->session->options;
    const char *words[24];
    char port[16];
    int n = 0;

    snprintf(port, sizeof port, "%ld", o->crew.port);
    const char *const fixed[] = {"meshnet",        "bench",      "--links", "--mesh",
                                 c->session->path, "--duration", "10ms",    "--json",
                                 "--sizes",        "256K",       "--hosts", c->hosts};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        words[n++] = fixed[i];
    if (o->crew.agents) {
        words[n++] = "--agents";
        words[n++] = "--port";
        words[n++] = port;
    }
    if (o->crew.token_file) {
        words[n++] = "--token-file";
        words[n++] = o->crew.token_file;
    }
    words[n] = NULL;
    execv("/proc/self/exe", (char *const *)(uintptr_t)words);
    return 127;
}

/* Whether any two that answered have a cable. */
static int have_cable(const struct mn_doctor_session *s)
{
    for (size_t i = 0; i < s->mesh.n_links; i++) {
        const struct mn_mesh_end *ends = s->mesh.links[i].ends;
        if (s->nodes[ends[0].node].facts && s->nodes[ends[1].node].facts)
            return 1;
    }
    return 0;
}

/* Those that answered, as --hosts wants them. */
static char *hosts_of(const struct mn_doctor_session *s)
{
    char *all = mn_strdup("localhost");

    for (size_t i = 0; i < s->mesh.n_nodes; i++) {
        if ((int)i == s->self || !s->nodes[i].facts)
            continue;
        char *longer = mn_asprintf("%s,%s", all, s->mesh.nodes[i].name);
        free(all);
        all = longer;
    }
    return all;
}

/* What bench says now and then: "meshnet bench: 2 of 4: link a-b". */
static void on_line(void *ctx, const char *text)
{
    const struct command *c = ctx;
    const char *of = strstr(text, " of "), *cable = of ? strstr(of, ": ") : NULL;
    char what[200];

    if (strncmp(text, "meshnet bench: ", 15) != 0 || !cable)
        return;
    snprintf(what, sizeof what, "writing over %.180s", cable + 2);
    mn_doctor_progress(c->session, 2, what);
}

static void take_cell(struct mn_doctor_session *s, const cJSON *cell)
{
    const char *link = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(cell, "link"));
    const char *status = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(cell, "status"));
    const char *error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(cell, "error"));
    const cJSON *out = cJSON_GetObjectItemCaseSensitive(cell, "out_gbps");
    const cJSON *in = cJSON_GetObjectItemCaseSensitive(cell, "in_gbps");

    for (size_t i = 0; link && status && i < s->mesh.n_links; i++) {
        struct mn_doctor_write *w = &s->writes[i];
        if (strcmp(s->mesh.links[i].name, link) != 0)
            continue;
        if (!strcmp(status, mn_matrix_status_names[MN_CELL_OK]))
            w->state = MN_WRITE_OK;
        else if (!strcmp(status, mn_matrix_status_names[MN_CELL_DEAD]))
            w->state = MN_WRITE_DEAD;
        else if (!strcmp(status, mn_matrix_status_names[MN_CELL_WRONG]))
            w->state = MN_WRITE_WRONG;
        if (cJSON_IsNumber(out) && cJSON_IsNumber(in))
            w->gbps = out->valuedouble < in->valuedouble ? out->valuedouble : in->valuedouble;
        mn_strlcpy(w->error, error ? error : "", sizeof w->error);
    }
}

static void take_report(struct mn_doctor_session *s, const struct mn_errand *bench)
{
    cJSON *report = bench->out ? cJSON_Parse(bench->out) : NULL;
    const cJSON *cells = cJSON_GetObjectItemCaseSensitive(report, "cells"), *cell;
    const char *error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(report, "error"));

    s->writes = mn_zalloc((s->mesh.n_links + 1) * sizeof *s->writes);
    cJSON_ArrayForEach(cell, cells) take_cell(s, cell);
    if (error)
        s->write_error = mn_strdup(error);
    else if (!cJSON_IsArray(cells))
        s->write_error = mn_strdup(bench->last[0]                 ? bench->last
                                   : bench->end == MN_ERRAND_LATE ? "it took too long"
                                                                  : "meshnet bench said nothing");
    cJSON_Delete(report);
}

enum mn_err mn_doctor_write_all(struct mn_doctor_session *s, struct mn_diag *diag)
{
    struct command c = {.session = s};
    struct mn_errand bench = {.body = be_bench, .line = on_line, .ctx = &c, .ms = MOST_MS};

    if (s->self < 0 || !s->nodes[s->self].facts) {
        s->write_error = mn_strdup("this host is none of the nodes that were asked; run doctor on "
                                   "one");
        return MN_OK;
    }
    c.hosts = hosts_of(s);
    if (have_cable(s)) {
        mn_errands_run(&bench, 1, &mn_launch_stop);
        take_report(s, &bench);
    }
    mn_errand_free(&bench);
    free(c.hosts);
    return mn_launch_stop ? mn_fail(diag, MN_ERR_FAILED, "interrupted") : MN_OK;
}
