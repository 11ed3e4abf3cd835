/* Which mesh file this node goes by, and the versions of what it runs:
 *   "mesh": {"hash", "items"} as in fleet/same_mesh.h, "mesh_path", "mesh_error"
 *   "versions": {"meshnet", "kernel", "nvidia", "amdgpu"}
 *   "apply": {"stands": "tried" | "orphan", "by": who}: changes that nobody has confirmed */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "fleet/apply_keeper.h"
#include "fleet/doctor_ask.h"
#include "fleet/same_mesh.h"
#include "topo/base/alloc.h"
#include "topo/mesh_file.h"

void mn_doctor_ask_mesh(const struct mn_doctor_look *look, cJSON *answer)
{
    char path[512];
    struct mn_mesh mesh;
    struct mn_diag diag;

    (void)look;
    if (!mn_mesh_find_file(path, sizeof path))
        return;
    cJSON_AddStringToObject(answer, "mesh_path", path);
    mn_mesh_init(&mesh);
    if (mn_mesh_read(path, &mesh, &diag))
        cJSON_AddStringToObject(answer, "mesh_error", diag.text);
    else
        mn_same_mesh_put(answer);
    mn_mesh_free(&mesh);
}

/* "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build …": the first
 * word of digits and dots. */
static int nvidia_version(char *version, size_t size)
{
    char line[256], *rest = NULL;

    if (mn_doctor_line(version, size, "/sys/module/nvidia/version"))
        return 1;
    if (!mn_doctor_line(line, sizeof line, "/proc/driver/nvidia/version"))
        return 0;
    for (char *word = strtok_r(line, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest))
        if (strspn(word, "0123456789.") == strlen(word) && strchr(word, '.')) {
            mn_strlcpy(version, word, size);
            return 1;
        }
    return 0;
}

void mn_doctor_ask_versions(const struct mn_doctor_look *look, cJSON *answer)
{
    cJSON *versions = cJSON_AddObjectToObject(answer, "versions");
    struct utsname name;
    char text[256];

    (void)look;
    cJSON_AddStringToObject(versions, "meshnet", MESHNET_VERSION);
    if (!uname(&name)) {
        snprintf(text, sizeof text, "%.32s %.64s %.32s", name.sysname, name.release, name.machine);
        cJSON_AddStringToObject(versions, "kernel", text);
    }
    if (nvidia_version(text, sizeof text))
        cJSON_AddStringToObject(versions, "nvidia", text);
    if (mn_doctor_line(text, sizeof text, "/sys/module/amdgpu/version"))
        cJSON_AddStringToObject(versions, "amdgpu", text);
}

void mn_doctor_ask_apply(const struct mn_doctor_look *look, cJSON *answer)
{
    char text[256];
    enum mn_keeper_stand stand = mn_keeper_stand(text, sizeof text);

    (void)look;
    if (stand == MN_STAND_NONE)
        return;
    cJSON *apply = cJSON_AddObjectToObject(answer, "apply");
    cJSON_AddStringToObject(apply, "stands", stand == MN_STAND_TRIED ? "tried" : "orphan");
    cJSON_AddStringToObject(apply, "by", text);
}
