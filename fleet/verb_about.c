#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "fleet/build.h"
#include "fleet/errand.h"
#include "fleet/verbs.h"
#include "topo/base/alloc.h"
#include "topo/mesh.h"

#define SUDO_MS 5000

/* By their numbers in linux/capability.h, those that a verb may need. */
static const struct {
    int bit;
    const char *name;
} capabilities[] = {{12, "net_admin"}, {13, "net_raw"}, {14, "ipc_lock"}, {21, "sys_admin"}};

static cJSON *capabilities_json(void)
{
    cJSON *list = cJSON_CreateArray();
    unsigned long long mask = 0;
    char line[256];
    FILE *file = fopen("/proc/self/status", "re");

    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "CapEff:", 7))
            mask = strtoull(line + 7, NULL, 16);
    if (file)
        fclose(file);
    for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++)
        if (mask >> capabilities[i].bit & 1)
            cJSON_AddItemToArray(list, cJSON_CreateString(capabilities[i].name));
    return list;
}

static int try_sudo(void *exe)
{
    execlp("sudo", "sudo", "-n", "--", (const char *)exe, "--version", (char *)NULL);
    return 127;
}

static int sudo_works(char *exe)
{
    struct mn_errand sudo = {.body = try_sudo, .ctx = exe, .ms = SUDO_MS};

    mn_errands_run(&sudo, 1, NULL);
    int works = sudo.end == MN_ERRAND_RAN && !sudo.status;
    mn_errand_free(&sudo);
    return works;
}

enum mn_err mn_verb_about(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    char build[MN_BUILD_TEXT], node[MN_NAME_MAX] = "", exe[512], hostname[65] = "";
    struct utsname system;
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

    exe[n > 0 ? n : 0] = 0;
    if (uname(&system))
        return mn_fail_errno(diag, "uname");
    gethostname(hostname, sizeof hostname - 1);
    mn_node_name(node, sizeof node);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "version", MESHNET_VERSION);
    cJSON_AddStringToObject(json, "build", mn_build_id(build));
    cJSON_AddStringToObject(json, "machine", system.machine);
    cJSON_AddStringToObject(json, "libc", mn_build_libc());
    cJSON_AddStringToObject(json, "node", node);
    cJSON_AddStringToObject(json, "hostname", hostname);
    cJSON_AddStringToObject(json, "program", exe);
    cJSON_AddNumberToObject(json, "user", geteuid());
    cJSON_AddBoolToObject(json, "root", geteuid() == 0);
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(ask, "sudo")))
        cJSON_AddBoolToObject(json, "sudo", geteuid() == 0 || sudo_works(exe));
    cJSON_AddItemToObject(json, "capabilities", capabilities_json());
    *answer = json;
    return MN_OK;
}
