/* Any text as a mesh file: refused with a place, or read as what writing it as YAML or JSON and
 * reading that again gives. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "topo/mesh_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* text must be read, and written as YAML again it must be yaml. */
static void must_give(const char *text, const char *yaml)
{
    struct mn_mesh mesh;
    char *again;
    mn_mesh_init(&mesh);
    if (mn_mesh_parse("again", text, strlen(text), &mesh, NULL) ||
        mn_mesh_format_yaml(&mesh, &again, NULL) || strcmp(again, yaml) != 0)
        abort();
    free(again);
    mn_mesh_free(&mesh);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mn_mesh mesh;
    struct mn_diag diag = {0};
    char *yaml, *json;
    mn_mesh_init(&mesh);
    if (mn_mesh_parse("fuzz", (const char *)data, size, &mesh, &diag)) {
        if (diag.code != MN_ERR_CONFIG || strncmp(diag.text, "fuzz:", 5) != 0)
            abort();
    } else if (!mn_mesh_format_yaml(&mesh, &yaml, &diag) &&
               !mn_mesh_format_json(&mesh, &json, &diag)) {
        must_give(yaml, yaml);
        must_give(json, yaml);
        free(yaml);
        free(json);
    } else {
        abort();
    }
    mn_mesh_free(&mesh);
    return 0;
}
