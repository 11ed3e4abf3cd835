#include <stdlib.h>
#include <string.h>

#include "fleet/verbs.h"
#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"
#include "topo/mesh_pick.h"

static enum mn_err read_host(struct mn_host *host, struct mn_diag *diag)
{
    const struct mn_host_source here = {.sysfs = NULL};
    enum mn_err err = mn_host_read(&here, host, diag);

    if (!err)
        err = mn_host_locality(&here, host, diag);
    if (!err)
        err = mn_host_around(&here, host, diag);
    if (!err && *host->missing)
        err = mn_fail(diag, MN_ERR_SYS,
                      "this host could not be read whole: %s; raise the limit (ulimit -n)",
                      host->missing);
    return err;
}

/* The names are the question's. */
static enum mn_err read_skip(const cJSON *ask, struct mn_opt_list *skip, struct mn_diag *diag)
{
    const cJSON *item, *list = cJSON_GetObjectItemCaseSensitive(ask, "skip");

    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsString(item))
            return mn_fail(diag, MN_ERR_PROTO, "\"skip\": expected names of NICs");
        *(const char **)mn_grow((void **)&skip->items, &skip->count, sizeof *skip->items) =
            item->valuestring;
    }
    return MN_OK;
}

static enum mn_err read_old(const cJSON *ask, struct mn_mesh *old, struct mn_diag *diag)
{
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(ask, "mesh");

    if (!text)
        return MN_OK;
    return cJSON_IsString(text) ? mn_mesh_parse("the mesh file asked with", text->valuestring,
                                                strlen(text->valuestring), old, diag)
                                : mn_fail(diag, MN_ERR_PROTO, "\"mesh\": expected a mesh file");
}

static enum mn_err tell(const struct mn_host *host, const struct mn_host *named,
                        const struct mn_opt_list *skip, cJSON **answer, struct mn_diag *diag)
{
    struct mn_mesh mesh;
    char *text = NULL;

    mn_mesh_init(&mesh);
    enum mn_err err = mn_mesh_add_picked(named, &mesh, host->hostname, diag);
    if (!err)
        err = mn_mesh_format_json(&mesh, &text, diag);
    mn_mesh_free(&mesh);
    if (err)
        return err;
    *answer = cJSON_CreateObject();
    cJSON_AddStringToObject(*answer, "mesh", text);
    cJSON *skipped = cJSON_AddArrayToObject(*answer, "skipped");
    for (size_t i = 0; i < skip->count; i++)
        if (mn_host_nic(host, skip->items[i]))
            cJSON_AddItemToArray(skipped, cJSON_CreateString(skip->items[i]));
    free(text);
    return MN_OK;
}

enum mn_err mn_verb_discover(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    struct mn_opt_list skip = {.items = NULL}, take = {.items = NULL};
    char name[MN_NAME_MAX];
    const struct mn_mesh_choice choice = {.node = name, .skip = &skip, .take = &take, .some = 1};
    struct mn_host host = {.nics = NULL}, named = {.nics = NULL};
    struct mn_mesh old;

    mn_node_name(name, sizeof name);
    mn_mesh_init(&old);
    enum mn_err err = read_skip(ask, &skip, diag);
    if (!err)
        err = read_old(ask, &old, diag);
    if (!err)
        err = read_host(&host, diag);
    if (!err)
        err = mn_mesh_pick(&choice, &host, &old, mn_mesh_node_index(&old, name), &named, diag);
    if (!err)
        err = tell(&host, &named, &skip, answer, diag);
    free(skip.items);
    free(named.nics);
    mn_host_free(&host);
    mn_mesh_free(&old);
    return err;
}
