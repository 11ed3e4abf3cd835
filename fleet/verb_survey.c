#include <string.h>

#include "fleet/probe_impl.h"
#include "fleet/verbs.h"
#include "topo/base/alloc.h"
#include "topo/mesh.h"
#include "topo/survey.h"

static enum mn_err read_name(const cJSON *ask, char *name, size_t size, struct mn_diag *diag)
{
    const cJSON *given = cJSON_GetObjectItemCaseSensitive(ask, "name");

    if (!given)
        mn_node_name(name, size);
    else if (!cJSON_IsString(given) || !*given->valuestring ||
             !mn_strlcpy(name, given->valuestring, size))
        return mn_fail(diag, MN_ERR_PROTO, "survey: 'name' is no name of up to %zu characters",
                       size - 1);
    return MN_OK;
}

enum mn_err mn_verb_survey(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    struct mn_survey survey = {.n_nodes = 0};
    struct mn_host host = {.n_nics = 0};
    char name[MN_NAME_MAX], model[64];
    enum mn_err err = read_name(ask, name, sizeof name, diag);

    if (!err)
        err = mn_host_read(NULL, &host, diag);
    if (!err)
        err = mn_host_around(NULL, &host, diag);
    if (!err) {
        mn_probe_model(model, sizeof model);
        err = mn_survey_add_taken(mn_survey_add_host(&survey, &host, name, model), &host, diag);
        if (!err)
            *answer = mn_survey_json(&survey);
    }
    mn_survey_free(&survey);
    mn_host_free(&host);
    return err;
}
