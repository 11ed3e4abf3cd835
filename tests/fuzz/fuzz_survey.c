/* Any text as a survey: refused with a reason, or read; what was read is written and read again
 * without a difference and merged with itself without a change. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "topo/survey.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *text_of(const struct mn_survey *survey)
{
    cJSON *json = mn_survey_json(survey);
    char *text = cJSON_PrintUnformatted(json);

    cJSON_Delete(json);
    return text;
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
    cJSON_free(one);
    cJSON_free(two);
    mn_survey_free(&again);
    mn_survey_free(&survey);
    return 0;
}
