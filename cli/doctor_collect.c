#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "cli/host_name.h"
#include "cli/mesh_option.h"
#include "fleet/doctor_judge.h"
#include "fleet/launch.h"
#include "fleet/same_mesh.h"
#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"

/* --- the mesh ----------------------------------------------------------------------------------
 */

static enum mn_err find_mesh(struct mn_doctor_session *s, struct mn_diag *diag)
{
    const struct mn_doctor_options *o = s->options;
    const char *named = getenv("MESHNET_CONFIG");
    char recorded[512];

    snprintf(recorded, sizeof recorded, "%.490s/mesh.yaml", o->answers ? o->answers : "");
    s->file_given = o->mesh || (!o->answers && named && *named);
    enum mn_err err = mn_mesh_option(o->answers ? recorded : o->mesh, diag);
    if (err)
        return err;
    if (!mn_mesh_find_file(s->path, sizeof s->path))
        return mn_fail(diag, MN_ERR_USAGE,
                       "which mesh? give --mesh FILE; meshnet discover writes one");
    return mn_mesh_read(s->path, &s->mesh, diag);
}

enum mn_err mn_doctor_open(const struct mn_doctor_options *options, struct mn_doctor_session *s,
                           struct mn_diag *diag)
{
    struct mn_host host = {.n_nics = 0};
    char why[256];

    *s = (struct mn_doctor_session){.options = options, .self = -1};
    mn_mesh_init(&s->mesh);
    enum mn_err err = find_mesh(s, diag);
    if (!err && !options->answers)
        err = mn_host_read(NULL, &host, diag);
    /* Who looks at a mesh from outside is none of its nodes. */
    if (!err && !options->answers &&
        mn_mesh_find_self(&s->mesh, &host, &s->self, why, sizeof why, NULL))
        s->self = -1;
    mn_host_free(&host);
    if (!err && !s->mesh.n_nodes)
        err = mn_fail(diag, MN_ERR_CONFIG, "%s has no nodes", s->path);
    return err;
}

void mn_doctor_forget(struct mn_doctor_session *s)
{
    for (size_t i = 0; s->nodes && i < s->mesh.n_nodes; i++) {
        free((char *)(uintptr_t)s->nodes[i].error);
        cJSON_Delete((cJSON *)(uintptr_t)s->nodes[i].facts);
        cJSON_Delete((cJSON *)(uintptr_t)s->nodes[i].counters);
    }
    free(s->nodes);
    free(s->writes);
    free(s->write_error);
    mn_troubles_free(&s->troubles);
    s->nodes = NULL;
    s->writes = NULL;
    s->write_error = NULL;
}

void mn_doctor_close(struct mn_doctor_session *s)
{
    mn_doctor_forget(s);
    mn_mesh_free(&s->mesh);
}

/* --- whom to ask -------------------------------------------------------------------------------
 */

struct crowd {
    struct mn_opt_list hosts;
    int *nodes; /* of the mesh, by host; -1 = the file does not know the name: its answer tells */
};

/* What leads there: this process for this node. */
static const char *host_of(const struct mn_doctor_session *s, int node, const char *given)
{
    return node >= 0 && node == s->self ? "localhost"
           : given                      ? given
                                        : s->mesh.nodes[node].hostname;
}

/* The first host before the i-th that is the node; -1: none is. */
static int before(const struct crowd *c, size_t i, int node)
{
    for (size_t k = 0; k < i; k++)
        if (c->nodes[k] == node)
            return (int)k;
    return -1;
}

static enum mn_err choose(const struct mn_doctor_session *s, struct crowd *c, struct mn_diag *diag)
{
    const struct mn_opt_list *given = &s->options->crew.hosts;
    size_t n = given->count ? given->count : s->mesh.n_nodes;

    c->hosts.items = mn_zalloc(n * sizeof *c->hosts.items);
    c->nodes = mn_zalloc(n * sizeof *c->nodes);
    for (size_t i = 0; i < n; i++) {
        int node = given->count ? mn_names_find(&s->mesh, s->self, given->items[i]) : (int)i;
        if (node >= 0 && before(c, i, node) >= 0)
            return mn_fail(diag, MN_ERR_CONFIG, "--hosts: node %s is there twice",
                           s->mesh.nodes[node].name);
        c->nodes[i] = node;
        c->hosts.items[i] = host_of(s, node, given->count ? given->items[i] : NULL);
        c->hosts.count++;
    }
    return MN_OK;
}

/* --- asking ------------------------------------------------------------------------------------
 */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static enum mn_err question(const struct mn_doctor_session *s, const char *only, cJSON **ask,
                            struct mn_diag *diag)
{
    char *text, hex[2 * MN_KEY_SIZE + 1];
    uint8_t random[MN_KEY_SIZE];
    enum mn_err err = mn_random(random, sizeof random, diag);

    if (!err)
        err = mn_mesh_format_yaml(&s->mesh, &text, diag);
    if (err)
        return err;
    *ask = cJSON_CreateObject();
    cJSON_AddStringToObject(*ask, "mesh", text);
    free(text);
    if (s->file_given)
        cJSON_AddStringToObject(*ask, "file", s->path);
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(hex + 2 * i, 3, "%02x", random[i]);
    cJSON_AddStringToObject(*ask, "challenge", hex);
    if (only)
        cJSON_AddItemToArray(cJSON_AddArrayToObject(*ask, "only"), cJSON_CreateString(only));
    return MN_OK;
}

static void take(struct mn_crew_answer *answer, struct mn_doctor_node *node, int again)
{
    if (again) {
        node->counters = answer->json;
    } else if (answer->err) {
        node->error = mn_strdup(answer->diag.text);
    } else {
        node->facts = answer->json;
    }
    answer->json = NULL;
}

/* Of hosts whose name the file does not know: the node that answers there. */
static enum mn_err who_answers(const struct mn_doctor_session *s, struct crowd *c,
                               const struct mn_crew_answer *answers, size_t n, struct mn_diag *diag)
{
    for (size_t i = 0; i < n; i++) {
        const char *name = mn_fact_text(answers[i].json, "node");
        int node = c->nodes[i] < 0 && *name ? mn_mesh_node_index(&s->mesh, name) : -1;

        if (c->nodes[i] >= 0 || answers[i].err)
            continue;
        if (node < 0)
            return mn_fail(diag, MN_ERR_CONFIG, "--hosts %.100s: no node of %.200s: %.200s",
                           c->hosts.items[i], s->path, mn_fact_text(answers[i].json, "node_error"));
        for (size_t k = 0; k < n; k++)
            if (c->nodes[k] == node)
                return mn_fail(diag, MN_ERR_CONFIG, "--hosts: %.100s and %.100s are both node %s",
                               c->hosts.items[k], c->hosts.items[i], s->mesh.nodes[node].name);
        c->nodes[i] = node;
    }
    return MN_OK;
}

/* Where as many nodes are left as hosts that the file does not know and that did not answer, these
 * are they. */
static enum mn_err who_is_left(const struct mn_doctor_session *s, struct crowd *c,
                               const struct mn_crew_answer *answers, size_t n, struct mn_diag *diag)
{
    for (size_t i = 0; i < n; i++) {
        int node = 0;

        if (c->nodes[i] >= 0)
            continue;
        if (n != s->mesh.n_nodes)
            return mn_fail(
                diag, MN_ERR_CONFIG,
                "--hosts %.100s: no node of %.200s by its name, and its answer could not "
                "tell: %.200s",
                c->hosts.items[i], s->path, answers[i].diag.text);
        while (before(c, n, node) >= 0)
            node++;
        c->nodes[i] = node;
    }
    return MN_OK;
}

static enum mn_err ask_all(struct mn_doctor_session *s, struct crowd *c, struct mn_crew *crew,
                           const char *only, struct mn_diag *diag)
{
    size_t n = mn_crew_size(crew);
    struct mn_crew_answer *answers = mn_zalloc((n + 1) * sizeof *answers);
    cJSON *ask = NULL;
    enum mn_err err = question(s, only, &ask, diag);

    if (!err) {
        double begin = now();
        (void)mn_crew_ask(crew, "doctor", ask, answers);
        double end = now();
        if (mn_launch_stop)
            err = mn_fail(diag, MN_ERR_FAILED, "interrupted");
        if (!err && !only)
            err = who_answers(s, c, answers, n, diag);
        if (!err && !only)
            err = who_is_left(s, c, answers, n, diag);
        for (size_t i = 0; i < n && !err; i++) {
            struct mn_doctor_node *node = &s->nodes[c->nodes[i]];
            take(&answers[i], node, only != NULL);
            node->asked = 1;
            if (!only) {
                node->begin = begin;
                node->end = end;
            }
        }
    }
    cJSON_Delete(ask);
    mn_crew_answers_free(answers, n);
    free(answers);
    return err;
}

/* Counters have time to grow while cables are written over, and a moment where they are not. */
static enum mn_err write_or_wait(struct mn_doctor_session *s, struct mn_diag *diag)
{
    struct timespec moment = {.tv_sec = 1};

    mn_doctor_progress(s, 2,
                       s->options->no_write ? "waiting for counters to grow"
                                            : "writing over the cables");
    if (!s->options->no_write)
        return mn_doctor_write_all(s, diag);
    nanosleep(&moment, NULL);
    return MN_OK;
}

void mn_doctor_progress(struct mn_doctor_session *s, size_t step, const char *what)
{
    s->live.off = !isatty(STDERR_FILENO);
    mn_live_show(&s->live, step, 3, what);
}

static enum mn_err ask_nodes(struct mn_doctor_session *s, struct mn_diag *diag)
{
    struct crowd c = {.nodes = NULL};
    struct mn_crew *crew = NULL;
    char what[64];
    enum mn_err err = choose(s, &c, diag);

    snprintf(what, sizeof what, "asking %zu nodes", c.hosts.count);
    if (!err) {
        mn_doctor_progress(s, 1, what);
        err = mn_crew_options_open_hosts(&s->options->crew, &c.hosts, "doctor", &crew, diag);
    }
    if (!err)
        err = ask_all(s, &c, crew, NULL, diag);
    if (!err)
        err = write_or_wait(s, diag);
    if (!err) {
        mn_doctor_progress(s, 3, "asking for the counters again");
        err = ask_all(s, &c, crew, "counters", diag);
    }
    mn_live_clear(&s->live);
    mn_crew_close(crew);
    free(c.hosts.items);
    free(c.nodes);
    return err;
}

enum mn_err mn_doctor_collect(struct mn_doctor_session *s, struct mn_diag *diag)
{
    s->nodes = mn_zalloc((s->mesh.n_nodes + 1) * sizeof *s->nodes);
    enum mn_err err = s->options->answers ? mn_doctor_load(s, diag) : ask_nodes(s, diag);
    for (size_t i = 0; i < s->mesh.n_nodes && !err; i++)
        if (s->nodes[i].facts)
            (void)mn_same_mesh_differs(s->nodes[i].facts, s->mesh.nodes[i].name,
                                       s->nodes[i].mesh_differs, sizeof s->nodes[i].mesh_differs);
    return err;
}
