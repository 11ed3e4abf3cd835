/* Apart from clean.c, which the plugin has too: it links no cJSON. */
#include <cjson/cJSON.h>

#include "topo/base/clean.h"

/* As deep as cJSON parses, which has a limit of its own. */
void mn_clean_json(cJSON *json)
{
    for (; json; json = json->next) {
        if (json->string)
            mn_clean_lines(json->string);
        if (cJSON_IsString(json))
            mn_clean_lines(json->valuestring);
        mn_clean_json(json->child);
    }
}
