/* Any text as what a node's program wrote, of which the last line that is an object is its answer:
 * one that can be shown and written again, or an error with a text that can be shown. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/node.h"
#include "topo/base/alloc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_shown(const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        if ((*at < ' ' && *at != '\n' && *at != '\t') || *at == 0x7f)
            abort();
}

static void check_texts(const cJSON *json)
{
    for (; json; json = json->next) {
        if (json->string)
            check_shown(json->string);
        if (cJSON_IsString(json))
            check_shown(json->valuestring);
        check_texts(json->child);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mn_zalloc(size + 1);
    struct mn_diag diag = {.text = ""};
    cJSON *answer = NULL;

    memcpy(text, data, size);
    enum mn_err err = mn_node_parse(text, &answer, &diag);
    if (err) {
        if (answer || diag.code != err || !diag.text[0])
            abort();
        check_shown(diag.text);
    } else {
        if (!cJSON_IsObject(answer) ||
            cJSON_IsString(cJSON_GetObjectItemCaseSensitive(answer, "error")))
            abort();
        check_texts(answer);
        char *again = cJSON_PrintUnformatted(answer);
        cJSON *second = again ? cJSON_Parse(again) : NULL;
        if (!second)
            abort();
        cJSON_Delete(second);
        cJSON_free(again);
    }
    cJSON_Delete(answer);
    free(text);
    return 0;
}
