/* Any text as a list of changes, as a node's plan has it: refused, or read as what writing it and
 * reading that again gives. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/apply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *written(const struct mn_changes *list)
{
    cJSON *json = mn_changes_json(list);
    char *text = cJSON_PrintUnformatted(json);

    cJSON_Delete(json);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cJSON *json = cJSON_ParseWithLength((const char *)data, size), *again;
    struct mn_changes list, second;
    struct mn_diag diag = {.text = ""};

    if (mn_changes_parse(json, &list, &diag)) {
        if (diag.code != MN_ERR_PROTO || !diag.text[0] || list.count)
            abort();
    } else {
        char *first = written(&list), *text;
        again = cJSON_Parse(first);
        if (mn_changes_parse(again, &second, &diag) || second.count != list.count)
            abort();
        text = written(&second);
        if (strcmp(first, text) != 0)
            abort();
        free(text);
        free(first);
        cJSON_Delete(again);
        mn_changes_free(&second);
    }
    mn_changes_free(&list);
    cJSON_Delete(json);
    return 0;
}
