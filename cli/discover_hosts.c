#include "cli/discover_hosts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"
#include "topo/mesh_pick.h"

#define NAME "discover"

/* Before any host is asked. */
static enum mn_err read_old(const struct mn_discover_hosts *ask, struct mn_mesh *mesh,
                            struct mn_diag *diag)
{
    if (!ask->output || access(ask->output, F_OK) != 0)
        return MN_OK;
    if (ask->merge)
        return mn_mesh_read(ask->output, mesh, diag);
    return ask->force ? MN_OK
                      : mn_fail(diag, MN_ERR_EXISTS,
                                "%s exists; --merge adds to it, --force replaces it", ask->output);
}

/* With the file that is merged into: roles that it has stay. */
static enum mn_err question(const struct mn_discover_hosts *ask, const struct mn_mesh *mesh,
                            cJSON **json, struct mn_diag *diag)
{
    char *text = NULL;
    enum mn_err err = mesh->n_nodes ? mn_mesh_format_json(mesh, &text, diag) : MN_OK;

    if (err)
        return err;
    *json = cJSON_CreateObject();
    if (text)
        cJSON_AddStringToObject(*json, "mesh", text);
    cJSON *skip = cJSON_AddArrayToObject(*json, "skip");
    for (size_t i = 0; i < ask->skip->count; i++)
        cJSON_AddItemToArray(skip, cJSON_CreateString(ask->skip->items[i]));
    free(text);
    return MN_OK;
}

/* An answer's mesh, of one node. */
static enum mn_err read_answer(const struct mn_crew_answer *answer, struct mn_mesh *mesh,
                               struct mn_diag *diag)
{
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(answer->json, "mesh");
    struct mn_diag why;

    if (!cJSON_IsString(text))
        return mn_fail(diag, MN_ERR_PROTO, "%s: its answer has no mesh", answer->host);
    enum mn_err err =
        mn_mesh_parse("its answer", text->valuestring, strlen(text->valuestring), mesh, &why);
    if (err)
        return mn_fail(diag, err, "%s: %s", answer->host, why.text);
    return mesh->n_nodes == 1 ? MN_OK
                              : mn_fail(diag, MN_ERR_PROTO, "%s: it tells of %zu nodes, not of one",
                                        answer->host, mesh->n_nodes);
}

/* names[i]: the node that host i is, "" = none. */
static enum mn_err check_name(const struct mn_crew_answer *answers, char (*names)[MN_NAME_MAX],
                              size_t i, struct mn_diag *diag)
{
    for (size_t k = 0; k < i; k++)
        if (!strcmp(names[k], names[i]))
            return mn_fail(diag, MN_ERR_CONFIG,
                           "%s and %s both call themselves %s; expected one host under one name: "
                           "give each a host name of its own, or MESHNET_NODE",
                           answers[k].host, answers[i].host, names[i]);
    return MN_OK;
}

static enum mn_err merge_one(struct mn_mesh *mesh, const struct mn_crew_answer *answer,
                             const struct mn_mesh *node, struct mn_diag *diag)
{
    struct mn_diag why;
    enum mn_err err = mn_mesh_merge(mesh, node, &why);

    return err ? mn_fail(diag, err, "%s, merged with those before it: %s", answer->host, why.text)
               : MN_OK;
}

static enum mn_err merge_all(struct mn_mesh *mesh, struct mn_crew_answer *answers, size_t n,
                             struct mn_diag *diag)
{
    char(*names)[MN_NAME_MAX] = mn_zalloc((n + 1) * sizeof *names);
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < n && !err; i++) {
        struct mn_mesh node;
        if (answers[i].err)
            continue;
        mn_mesh_init(&node);
        answers[i].err = read_answer(&answers[i], &node, &answers[i].diag);
        if (!answers[i].err) {
            mn_strlcpy(names[i], node.nodes[0].name, sizeof names[i]);
            err = check_name(answers, names, i, diag);
            if (!err)
                err = merge_one(mesh, &answers[i], &node, diag);
        }
        mn_mesh_free(&node);
    }
    free(names);
    return err;
}

static int has_name(const cJSON *list, const char *name)
{
    const cJSON *item;

    cJSON_ArrayForEach(item,
                       list) if (cJSON_IsString(item) && !strcmp(item->valuestring, name)) return 1;
    return 0;
}

/* A name that is nowhere is a mistake, unless a host that may have it did not answer. */
static enum mn_err check_skip(const struct mn_opt_list *skip, const struct mn_crew_answer *answers,
                              size_t n, struct mn_diag *diag)
{
    for (size_t s = 0; s < skip->count; s++) {
        int found = 0;
        for (size_t i = 0; i < n; i++)
            found |= answers[i].err ||
                     has_name(cJSON_GetObjectItemCaseSensitive(answers[i].json, "skipped"),
                              skip->items[s]);
        if (!found)
            return mn_fail(diag, MN_ERR_USAGE, "--skip %s: no host has such a NIC", skip->items[s]);
    }
    return MN_OK;
}

static enum mn_err ask_all(const struct mn_discover_hosts *ask, struct mn_crew *crew,
                           struct mn_mesh *mesh, size_t *failed, struct mn_diag *diag)
{
    size_t n = mn_crew_size(crew);
    struct mn_crew_answer *answers = mn_zalloc((n + 1) * sizeof *answers);
    cJSON *json = NULL;
    enum mn_err err = question(ask, mesh, &json, diag);

    if (!err) {
        (void)mn_crew_ask(crew, NAME, json, answers);
        err = merge_all(mesh, answers, n, diag);
        *failed = mn_crew_print_failures(NAME, answers, n);
    }
    if (!err)
        err = check_skip(ask->skip, answers, n, diag);
    if (!err)
        err = mn_mesh_take(ask->take, mesh, diag);
    mn_crew_answers_free(answers, n);
    cJSON_Delete(json);
    free(answers);
    return err;
}

enum mn_err mn_discover_hosts(const struct mn_discover_hosts *ask, struct mn_mesh *mesh,
                              size_t *failed, struct mn_diag *diag)
{
    struct mn_crew *crew = NULL;
    enum mn_err err = read_old(ask, mesh, diag);

    *failed = 0;
    if (!err)
        err = mn_crew_options_open(ask->crew, NAME, &crew, diag);
    if (!err)
        err = ask_all(ask, crew, mesh, failed, diag);
    mn_crew_close(crew);
    return err;
}
