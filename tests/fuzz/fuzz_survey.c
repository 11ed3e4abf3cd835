/* Any text as a survey: refused with a reason, or read; what was read is written and read again
 * without a difference and merged with itself, and into nothing, without a change; one that knows a
 * node of it otherwise takes all or nothing of it; the mesh made of it is written, read, and looked
 * at. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_file.h"
#include "topo/whole.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *text_of(const struct mn_survey *survey)
{
    cJSON *json = mn_survey_json(survey);
    char *text = cJSON_PrintUnformatted(json);

    cJSON_Delete(json);
    return text;
}

/* old: what is made of a survey can be the mesh file of the same. */
static void look(const struct mn_survey *survey)
{
    struct mn_mesh old, mesh, again;
    struct mn_troubles found = {.count = 0};
    struct mn_diag diag = {.text = ""};
    char *text;

    mn_mesh_init(&again);
    if (!survey->n_nodes)
        return; /* no mesh file has none */
    if (mn_survey_mesh(survey, NULL, &old, &diag) || mn_survey_mesh(survey, &old, &mesh, &diag) ||
        mn_mesh_format_json(&mesh, &text, &diag) ||
        mn_mesh_parse("made", text, strlen(text), &again, &diag) || again.n_links != mesh.n_links) {
        fputs(diag.text, stderr);
        abort();
    }
    mn_whole_check(survey, &mesh, NULL, &found);
    mn_whole_check(survey, NULL, &mesh, &found);
    mn_troubles_free(&found);
    free(text);
    mn_mesh_free(&again);
    mn_mesh_free(&mesh);
    mn_mesh_free(&old);
}

static void merge_into_nothing(const struct mn_survey *survey, const char *text)
{
    struct mn_survey none = {.n_nodes = 0};
    struct mn_diag diag = {.text = ""};

    if (mn_survey_merge(&none, survey, &diag))
        abort();
    char *made = text_of(&none);
    if (strcmp(made, text) != 0)
        abort();
    cJSON_free(made);
    mn_survey_free(&none);
}

/* The first node has no NIC there: whoever was heard at or from one of them is at no end. */
static void merge_into_another(const struct mn_survey *survey)
{
    struct mn_survey other = {.n_nodes = 0};
    struct mn_diag diag = {.text = ""};

    if (!survey->n_nodes)
        return;
    struct mn_survey_node *node =
        mn_grow((void **)&other.nodes, &other.n_nodes, sizeof *other.nodes);
    strcpy(node->name, survey->nodes[0].name);
    enum mn_err err = mn_survey_merge(&other, survey, &diag);
    if (err ? other.n_nodes != 1 || other.n_seen || other.n_strangers || !diag.text[0]
            : other.n_nodes != survey->n_nodes || other.n_seen != survey->n_seen)
        abort();
    mn_survey_free(&other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mn_survey survey, again;
    struct mn_diag diag = {.text = ""};
    cJSON *json = cJSON_ParseWithLength((const char *)data, size);
    enum mn_err err = mn_survey_parse(json, &survey, &diag);

    cJSON_Delete(json);
    if (err) {
        if (err != MN_ERR_CONFIG || strncmp(diag.text, "survey: ", 8) != 0 || survey.n_nodes)
            abort();
        return 0;
    }
    char *one = text_of(&survey), *two;
    json = cJSON_Parse(one);
    if (mn_survey_parse(json, &again, &diag) || mn_survey_merge(&again, &survey, &diag))
        abort();
    cJSON_Delete(json);
    two = text_of(&again);
    if (strcmp(one, two) != 0)
        abort();
    merge_into_nothing(&survey, one);
    merge_into_another(&survey);
    look(&survey);
    cJSON_free(one);
    cJSON_free(two);
    mn_survey_free(&again);
    mn_survey_free(&survey);
    return 0;
}
