/* The libraries that a job here would use:
 *   "nccl": [{"path", "version"}], "rccl": likewise
 *   "plugin": {"path", "sha256"}: meshnet's own; absent where the loader does not find one
 *   "plugins": [path of other network plugins where the loader looks] */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/doctor_ask.h"
#include "fleet/libraries.h"
#include "topo/base/sha256.h"

#define OWN "libnccl-net-mesh.so"

static void add_libraries(enum mn_library what, const char *key, cJSON *answer)
{
    cJSON *list = cJSON_AddArrayToObject(answer, key);
    struct mn_libraries found;
    char version[64];

    mn_libraries_find(what, &found);
    for (size_t i = 0; i < found.n && i < 16; i++) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddStringToObject(json, "path", found.paths[i]);
        if (mn_library_version(found.paths[i], version, sizeof version))
            cJSON_AddStringToObject(json, "version", version);
        cJSON_AddItemToArray(list, json);
    }
    mn_libraries_free(&found);
}

/* Beside this program, as it is built and installed. */
static int beside(char path[PATH_MAX])
{
    static const char *const places[] = {"../lib/", "", "../lib64/"};
    char exe[512], try[600];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

    exe[n > 0 ? n : 0] = 0;
    char *slash = strrchr(exe, '/');
    for (int i = 0; slash && i < 3; i++) {
        slash[1] = 0;
        snprintf(try, sizeof try, "%s%s" OWN, exe, places[i]);
        if (realpath(try, path))
            return 1;
    }
    return 0;
}

static int is_own(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && !strcmp(slash + 1, OWN);
}

static void add_plugin(const char *path, cJSON *answer)
{
    cJSON *json = cJSON_AddObjectToObject(answer, "plugin");
    char hash[65];

    cJSON_AddStringToObject(json, "path", path);
    if (!mn_sha256_file(path, hash, NULL))
        cJSON_AddStringToObject(json, "sha256", hash);
}

void mn_doctor_ask_libraries(const struct mn_doctor_look *look, cJSON *answer)
{
    struct mn_libraries found;
    char own[PATH_MAX] = "";

    (void)look;
    add_libraries(MN_LIBRARY_NCCL, "nccl", answer);
    add_libraries(MN_LIBRARY_RCCL, "rccl", answer);
    mn_libraries_find(MN_LIBRARY_PLUGIN, &found);
    int has_own = beside(own);
    for (size_t i = 0; i < found.n && !has_own; i++) {
        has_own = is_own(found.paths[i]);
        snprintf(own, sizeof own, "%s", has_own ? found.paths[i] : "");
    }
    if (has_own)
        add_plugin(own, answer);
    cJSON *others = cJSON_AddArrayToObject(answer, "plugins");
    for (size_t i = 0; i < found.n && i < 16; i++) {
        size_t dir = has_own ? (size_t)(strrchr(own, '/') - own) + 1 : 0;
        if (!is_own(found.paths[i]) && (!dir || strncmp(found.paths[i], own, dir) != 0))
            cJSON_AddItemToArray(others, cJSON_CreateString(found.paths[i]));
    }
    mn_libraries_free(&found);
}
