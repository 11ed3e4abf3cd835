#include "cli/discover_neighbors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/discover.h"
#include "cli/topo_mesh.h"
#include "cli/troubles.h"
#include "topo/base/alloc.h"
#include "topo/mesh_file.h"
#include "topo/whole.h"

/* The file in force says how cables should run, unless another is being made. Of a recorded survey
 * it says nothing but when it was named; of one host's own view it would miss all others. */
static enum mn_err read_in_force(const struct mn_neighbors_ask *ask, struct mn_mesh *old,
                                 char path[MN_TOPO_PATH], struct mn_diag *diag)
{
    const char *named = getenv("MESHNET_CONFIG");

    if (!(ask->options->survey ? named && *named : ask->options->crew.hosts.count != 0) ||
        !mn_mesh_find_file(path, MN_TOPO_PATH)) {
        *path = '\0';
        return MN_OK;
    }
    return mn_topo_read(path, path, old, diag);
}

/* Before anything is probed. in_force: the path of the file in force, "" = it does not count. */
static enum mn_err read_old(const struct mn_neighbors_ask *ask, struct mn_mesh *old,
                            char in_force[MN_TOPO_PATH], struct mn_diag *diag)
{
    const char *save = ask->options->save_survey;

    if (save && !ask->force && access(save, F_OK) == 0)
        return mn_fail(diag, MN_ERR_EXISTS, "%s exists; --force replaces it", save);
    if (!ask->output)
        return read_in_force(ask, old, in_force, diag);
    if (access(ask->output, F_OK) != 0)
        return MN_OK;
    if (ask->merge)
        return mn_mesh_read(ask->output, old, diag);
    return ask->force ? MN_OK
                      : mn_fail(diag, MN_ERR_EXISTS,
                                "%s exists; --merge keeps its names, settings and addresses, "
                                "--force replaces it",
                                ask->output);
}

static enum mn_err save_survey(const struct mn_neighbors_ask *ask, const struct mn_survey *survey,
                               struct mn_diag *diag)
{
    if (!ask->options->save_survey)
        return MN_OK;
    cJSON *json = mn_survey_json(survey);
    char *text = cJSON_Print(json), *line = mn_asprintf("%s\n", text ? text : "");
    enum mn_err err =
        mn_file_write(ask->options->save_survey, line, strlen(line), ask->force, diag);
    cJSON_free(text);
    free(line);
    cJSON_Delete(json);
    return err;
}

static enum mn_err write_file(const struct mn_neighbors_ask *ask, const struct mn_neighbors *found,
                              struct mn_out *out, const char **written, struct mn_diag *diag)
{
    int failed = cJSON_GetArraySize(found->failed);

    if (!ask->output)
        return MN_OK;
    if (failed && !ask->options->partial) {
        mn_out_note(out, MN_PLAIN, "%s", "");
        mn_out_note(out, MN_YELLOW,
                    "%s is not written: %d host%s did not answer; --partial writes it with what "
                    "was found",
                    ask->output, failed, failed == 1 ? "" : "s");
        return MN_OK;
    }
    enum mn_err err = mn_discover_write(&found->mesh, ask->output, ask->force || ask->merge, diag);
    if (!err) {
        mn_discover_say_written(out, &found->mesh, ask->output);
        *written = ask->output;
    }
    return err;
}

/* What is wrong with the whole. A file in force that is of other nodes says nothing. */
static void judge(struct mn_neighbors *found, const struct mn_mesh *old, const char *in_force,
                  struct mn_out *out)
{
    const struct mn_mesh *file = old->n_nodes ? old : NULL;

    if (*in_force && mn_whole_common(&found->survey, old) < 2)
        file = NULL;
    mn_whole_check(&found->survey, &found->mesh, file, &found->troubles);
    mn_out_str(out, "compared_with", NULL, *in_force && file ? in_force : NULL);
    if (*in_force && file)
        mn_out_note(out, MN_PLAIN, "Compared with the mesh file in force, %s\n", in_force);
}

static int exit_code(const struct mn_neighbors_ask *ask, const struct mn_neighbors *found)
{
    return cJSON_GetArraySize(found->failed) ||
           mn_troubles_count(&found->troubles, MN_SEVERITY_ERROR) ||
           (ask->strict && mn_troubles_count(&found->troubles, MN_SEVERITY_WARNING));
}

static void neighbors_free(struct mn_neighbors *found)
{
    for (size_t i = 0; i < found->n_results; i++)
        mn_probe_result_free(&found->results[i]);
    free(found->results);
    mn_survey_free(&found->survey);
    mn_mesh_free(&found->mesh);
    mn_troubles_free(&found->troubles);
    cJSON_Delete(found->failed);
}

enum mn_err mn_discover_neighbors(const struct mn_neighbors_ask *ask, struct mn_out *out,
                                  const char **written, int *code, struct mn_diag *diag)
{
    struct mn_neighbors found = {.failed = cJSON_CreateArray()};
    struct mn_mesh old;
    char in_force[MN_TOPO_PATH] = "";

    mn_mesh_init(&old);
    mn_mesh_init(&found.mesh);
    enum mn_err err = read_old(ask, &old, in_force, diag);
    if (!err)
        err = ask->options->survey ? mn_survey_read(ask->options->survey, &found.survey, diag)
                                   : mn_neighbors_probe(ask, &found, diag);
    if (!err)
        err = save_survey(ask, &found.survey, diag);
    if (!err)
        err = mn_survey_mesh(&found.survey, old.n_nodes && !*in_force ? &old : NULL, &found.mesh,
                             diag);
    if (!err) {
        mn_neighbors_show(out, &found);
        judge(&found, &old, in_force, out);
        mn_troubles_print(out, &found.troubles);
        mn_troubles_print_to_do(out, &found.troubles);
        err = write_file(ask, &found, out, written, diag);
        *code = exit_code(ask, &found);
    }
    neighbors_free(&found);
    mn_mesh_free(&old);
    return err;
}
