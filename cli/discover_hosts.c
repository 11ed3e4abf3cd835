#include "cli/discover_hosts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"
#include "topo/mesh_pick.h"

#define NAME "discover"

size_t mn_discover_add_failures(cJSON *failed, const struct mn_crew_answer *answers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!answers[i].err || answers[i].err == MN_ERR_SKIPPED)
            continue;
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "host", answers[i].host);
        cJSON_AddStringToObject(item, "error", answers[i].diag.text);
        cJSON_AddItemToArray(failed, item);
    }
    return mn_crew_print_failures(NAME, answers, n);
}

void mn_discover_failed(struct mn_out *out, const cJSON *failed)
{
    const cJSON *item;

    mn_out_list_begin(out, "failed", NULL);
    cJSON_ArrayForEach(item, failed)
    {
        mn_out_begin(out, NULL, NULL);
        mn_out_str(out, "host", NULL,
                   cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "host")));
        mn_out_str(out, "error", NULL,
                   cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "error")));
        mn_out_end(out);
    }
    mn_out_list_end(out);
}

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

static int has_mac(const struct mn_mesh_node *node, const struct mn_mesh_nic *nic)
{
    for (size_t i = 0; i < node->n_nics; i++)
        if (node->nics[i].has_mac && !memcmp(node->nics[i].mac, nic->mac, sizeof nic->mac))
            return 1;
    return 0;
}

/* No NIC is in both, though both know MACs. */
static int is_another(const struct mn_mesh_node *a, const struct mn_mesh_node *b)
{
    int known[2] = {0, 0};

    for (size_t i = 0; i < a->n_nics; i++) {
        known[0] |= a->nics[i].has_mac;
        if (a->nics[i].has_mac && has_mac(b, &a->nics[i]))
            return 0;
    }
    for (size_t i = 0; i < b->n_nics; i++)
        known[1] |= b->nics[i].has_mac;
    return known[0] && known[1];
}

/* Of the file that is merged into. */
static enum mn_err check_same(const struct mn_discover_hosts *ask, const struct mn_mesh *mesh,
                              const struct mn_crew_answer *answer, const struct mn_mesh *node,
                              struct mn_diag *diag)
{
    int index = mn_mesh_node_index(mesh, node->nodes[0].name);

    if (index < 0 || ask->force || !is_another(&mesh->nodes[index], &node->nodes[0]))
        return MN_OK;
    return mn_fail(diag, MN_ERR_CONFIG,
                   "%s calls itself %s, and is another machine than the %s of %s: no MAC of one is "
                   "the other's; give it a name of its own (its host name, or MESHNET_NODE there), "
                   "or --force to put it in the other's place",
                   answer->host, node->nodes[0].name, node->nodes[0].name, ask->output);
}

static enum mn_err merge_one(struct mn_mesh *mesh, const struct mn_crew_answer *answer,
                             const struct mn_mesh *node, struct mn_diag *diag)
{
    struct mn_diag why;
    enum mn_err err = mn_mesh_merge(mesh, node, &why);

    return err ? mn_fail(diag, err, "%s, merged with those before it: %s", answer->host, why.text)
               : MN_OK;
}

static enum mn_err merge_all(const struct mn_discover_hosts *ask, struct mn_mesh *mesh,
                             struct mn_crew_answer *answers, size_t n, struct mn_diag *diag)
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
                err = check_same(ask, mesh, &answers[i], &node, diag);
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
                           struct mn_mesh *mesh, cJSON *failed, struct mn_diag *diag)
{
    size_t n = mn_crew_size(crew);
    struct mn_crew_answer *answers = mn_zalloc((n + 1) * sizeof *answers);
    cJSON *json = NULL;
    enum mn_err err = question(ask, mesh, &json, diag);

    if (!err) {
        (void)mn_crew_ask(crew, NAME, json, answers);
        err = merge_all(ask, mesh, answers, n, diag);
        (void)mn_discover_add_failures(failed, answers, n);
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
                              cJSON *failed, struct mn_diag *diag)
{
    struct mn_crew *crew = NULL;
    enum mn_err err = read_old(ask, mesh, diag);

    if (!err)
        err = mn_crew_options_open(ask->crew, NAME, &crew, diag);
    if (!err)
        err = ask_all(ask, crew, mesh, failed, diag);
    mn_crew_close(crew);
    return err;
}
