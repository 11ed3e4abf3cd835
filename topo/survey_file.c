/* A recorded survey: what meshnet discover --neighbors --save-survey has written. */
#include <stdlib.h>

#include "topo/base/alloc.h"
#include "topo/survey.h"

#define SURVEY_MAX (16u << 20)

enum mn_err mn_survey_read(const char *path, struct mn_survey *survey, struct mn_diag *diag)
{
    struct mn_diag why;
    char *text;
    enum mn_err err = mn_file_read_named(path, SURVEY_MAX, &text, NULL, diag);

    *survey = (struct mn_survey){.n_nodes = 0};
    if (err)
        return err;
    cJSON *json = cJSON_Parse(text);
    free(text);
    err = json ? mn_survey_parse(json, survey, &why)
               : mn_fail(&why, MN_ERR_CONFIG, "it is no JSON; --save-survey writes a survey");
    cJSON_Delete(json);
    return err ? mn_fail(diag, err, "%s: %s", path, why.text) : MN_OK;
}
