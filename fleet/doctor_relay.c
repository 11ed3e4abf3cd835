/* The relay of this node, in a mesh that has nodes without a common cable:
 *   "relay": {"socket", "error": why it does not answer, or of what it says of itself: "version",
 *     "mesh" (hash of its file), "pid", "flows", "waiting" (pieces), "oldest_ms", "buffers"
 * (bytes), "memlock": what it may lock in bytes, -1 = all, "key": what its cluster key makes of the
 *     asker's "challenge", both in hexadecimal digits} */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fleet/doctor_ask.h"
#include "fleet/relay/daemon.h"
#include "topo/mesh_file.h"

int mn_doctor_wants_relay(const struct mn_mesh *mesh)
{
    if (mesh->settings.reach != MN_REACH_AUTO && mesh->settings.reach != MN_REACH_RELAY)
        return 0;
    for (int a = 0; a < (int)mesh->n_nodes; a++)
        for (int b = a + 1; b < (int)mesh->n_nodes; b++)
            if (!mn_mesh_has_cable(mesh, a, b))
                return 1;
    return 0;
}

/* "Max locked memory  8388608  8388608  bytes" of /proc/PID/limits; root may lock all. */
static double may_lock(int pid)
{
    char path[64], line[256];
    struct stat st;
    double bytes = -1;

    snprintf(path, sizeof path, "/proc/%d/limits", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "Max locked memory", 17) != 0)
            continue;
        char *end;
        double value = strtod(line + 17, &end);
        if (end != line + 17 && value < 1e18)
            bytes = value;
    }
    if (!fstat(fileno(file), &st) && !st.st_uid)
        bytes = -1;
    fclose(file);
    return bytes;
}

static void copy(const cJSON *from, const char *key, cJSON *to)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(from, key);

    if (cJSON_IsString(item))
        cJSON_AddStringToObject(to, key, item->valuestring);
    else if (cJSON_IsNumber(item))
        cJSON_AddNumberToObject(to, key, item->valuedouble);
}

static void add_flows(const cJSON *state, cJSON *relay)
{
    const cJSON *flows = cJSON_GetObjectItemCaseSensitive(state, "flows"), *flow;
    double waiting = 0, oldest = 0;

    cJSON_ArrayForEach(flow, flows)
    {
        const cJSON *n = cJSON_GetObjectItemCaseSensitive(flow, "waiting"),
                    *ms = cJSON_GetObjectItemCaseSensitive(flow, "oldest_ms");
        waiting += cJSON_IsNumber(n) ? n->valuedouble : 0;
        if (cJSON_IsNumber(ms) && ms->valuedouble > oldest)
            oldest = ms->valuedouble;
    }
    cJSON_AddNumberToObject(relay, "flows", cJSON_GetArraySize(flows));
    cJSON_AddNumberToObject(relay, "waiting", waiting);
    cJSON_AddNumberToObject(relay, "oldest_ms", oldest);
}

static void add_key(const cJSON *ask, const char *socket, cJSON *relay)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(ask, "challenge"));
    uint8_t challenge[MN_KEY_SIZE], made[MN_MAC_SIZE];
    char hex[2 * MN_MAC_SIZE + 1];
    struct mn_diag diag;

    if (!text || mn_key_parse(text, challenge, &diag) ||
        mn_relay_ask_same(socket, challenge, made, &diag))
        return;
    for (size_t i = 0; i < sizeof made; i++)
        snprintf(hex + 2 * i, 3, "%02x", made[i]);
    cJSON_AddStringToObject(relay, "key", hex);
}

void mn_doctor_ask_relay(const struct mn_doctor_look *look, cJSON *answer)
{
    struct mn_settings settings;
    struct mn_diag diag;
    char *text;

    if (!mn_doctor_wants_relay(look->mesh) || mn_settings_in_force(&settings, &diag))
        return;
    cJSON *relay = cJSON_AddObjectToObject(answer, "relay");
    cJSON_AddStringToObject(relay, "socket", settings.relay_socket);
    if (mn_relay_ask_state(settings.relay_socket, &text, &diag)) {
        cJSON_AddStringToObject(relay, "error", diag.text);
        return;
    }
    cJSON *state = cJSON_Parse(text);
    free(text);
    copy(state, "version", relay);
    copy(state, "mesh", relay);
    copy(state, "pid", relay);
    add_flows(state, relay);
    const cJSON *bytes =
                    cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(state,
                                                                                      "buffers"),
                                                     "bytes"),
                *pid = cJSON_GetObjectItemCaseSensitive(state, "pid");
    if (cJSON_IsNumber(bytes))
        cJSON_AddNumberToObject(relay, "buffers", bytes->valuedouble);
    if (cJSON_IsNumber(pid))
        cJSON_AddNumberToObject(relay, "memlock", may_lock(pid->valueint));
    cJSON_Delete(state);
    add_key(look->ask, settings.relay_socket, relay);
}
