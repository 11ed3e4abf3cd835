/* The verb "doctor": the questions as rows. */
#include "fleet/doctor_ask.h"

#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fleet/files.h"
#include "fleet/node.h"
#include "fleet/verbs.h"
#include "topo/base/alloc.h"
#include "topo/mesh_check.h"
#include "topo/mesh_file.h"

static const struct {
    const char *name;
    mn_doctor_question *answer;
} questions[] = {
    {"mesh", mn_doctor_ask_mesh},             /* fleet/doctor_self.c */
    {"versions", mn_doctor_ask_versions},     /* fleet/doctor_self.c */
    {"names", mn_doctor_ask_names},           /* fleet/doctor_names.c */
    {"nics", mn_doctor_ask_nics},             /* fleet/doctor_nics.c */
    {"counters", mn_doctor_ask_counters},     /* fleet/doctor_counters.c */
    {"findings", mn_doctor_ask_findings},     /* fleet/doctor_nics.c */
    {"libraries", mn_doctor_ask_libraries},   /* fleet/doctor_libraries.c */
    {"settings", mn_doctor_ask_settings},     /* fleet/doctor_settings.c */
    {"limits", mn_doctor_ask_limits},         /* fleet/doctor_limits.c */
    {"forwarding", mn_doctor_ask_forwarding}, /* fleet/doctor_firewall.c */
    {"firewall", mn_doctor_ask_firewall},     /* fleet/doctor_firewall.c */
    {"apply", mn_doctor_ask_apply},           /* fleet/doctor_self.c */
    {"relay", mn_doctor_ask_relay},           /* fleet/doctor_relay.c */
    {"probes", mn_doctor_ask_probes},         /* fleet/doctor_probe.c */
};

int mn_doctor_line(char *buf, size_t size, const char *path, ...)
{
    char full[512], *text;
    va_list args;

    va_start(args, path);
    vsnprintf(full, sizeof full, path, args);
    va_end(args);
    if (mn_file_read(full, 1u << 16, &text, NULL, NULL))
        return 0;
    text[strcspn(text, "\n")] = 0;
    mn_strlcpy(buf, text, size);
    free(text);
    return buf[0] != 0;
}

static int is_wanted(const cJSON *ask, const char *name)
{
    const cJSON *only = cJSON_GetObjectItemCaseSensitive(ask, "only"), *item;

    if (!cJSON_IsArray(only))
        return 1;
    cJSON_ArrayForEach(item,
                       only) if (cJSON_IsString(item) && !strcmp(item->valuestring, name)) return 1;
    return 0;
}

static enum mn_err read_mesh(const cJSON *ask, struct mn_mesh *mesh, struct mn_diag *diag)
{
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(ask, "mesh");

    mn_mesh_init(mesh);
    if (!text)
        return MN_OK;
    if (!cJSON_IsString(text))
        return mn_fail(diag, MN_ERR_PROTO, "doctor: \"mesh\" is no text");
    return mn_mesh_parse("the asker's mesh file", text->valuestring, strlen(text->valuestring),
                         mesh, diag);
}

/* A node's own variable goes before what the asker says. */
static enum mn_err use_file(const cJSON *ask, struct mn_diag *diag)
{
    const cJSON *file = cJSON_GetObjectItemCaseSensitive(ask, "file");
    const char *own = getenv("MESHNET_CONFIG");

    if (!file || (own && *own))
        return MN_OK;
    if (!cJSON_IsString(file) || file->valuestring[0] != '/')
        return mn_fail(diag, MN_ERR_PROTO, "doctor: \"file\" is no path");
    /* What it says of a file that is none would be what stands in it. */
    struct mn_mesh mesh;
    mn_mesh_init(&mesh);
    if (mn_sudo_config(file->valuestring, NULL) || mn_mesh_read(file->valuestring, &mesh, NULL)) {
        mn_mesh_hold(NULL, NULL, 0, NULL);
        unsetenv("MESHNET_CONFIG");
    }
    mn_mesh_free(&mesh);
    return MN_OK;
}

/* By sudo the user's files are still meant, and read with his rights. */
static enum mn_err be_at_home(struct mn_diag *diag)
{
    const char *own = getenv("MESHNET_CONFIG");
    char path[512];
    uid_t uid;
    const struct passwd *entry = mn_sudo_user(&uid) ? getpwuid(uid) : NULL;

    if (entry && entry->pw_dir)
        setenv("HOME", entry->pw_dir, 1);
    if (!mn_sudo_user(NULL) || (own && *own))
        return MN_OK;
    if (mn_mesh_find_file(path, sizeof path) && strcmp(path, MN_FILES_SYSTEM) != 0)
        return mn_sudo_config(path, diag);
    setenv("XDG_CONFIG_HOME", "/etc", 1); /* none of the user's that comes to be there later */
    return MN_OK;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

const struct mn_nic *mn_doctor_nic(const struct mn_doctor_look *look, size_t i)
{
    const struct mn_mesh_nic *file = &look->mesh->nodes[look->self].nics[i];

    return file->role == MN_ROLE_MANAGEMENT ? NULL : mn_mesh_nic_on_host(look->host, file);
}

int mn_doctor_is_transit(const struct mn_doctor_look *look)
{
    for (size_t i = 0; look->self >= 0 && i < look->mesh->n_routes; i++)
        if (!strcmp(look->mesh->routes[i].via, look->mesh->nodes[look->self].name))
            return 1;
    return 0;
}

enum mn_err mn_verb_doctor(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    struct mn_mesh mesh;
    struct mn_host host = {.n_nics = 0};
    char why[256];
    double begin = now();
    enum mn_err err = read_mesh(ask, &mesh, diag);

    *answer = NULL;
    if (!err)
        err = use_file(ask, diag);
    if (!err)
        err = be_at_home(diag);
    if (!err)
        err = mn_host_read(NULL, &host, diag);
    if (!err) {
        struct mn_doctor_look look = {.ask = ask, .mesh = &mesh, .self = -1, .host = &host};
        if (mesh.n_nodes && mn_mesh_find_self(&mesh, &host, &look.self, why, sizeof why, diag))
            look.self = -1;
        *answer = cJSON_CreateObject();
        cJSON_AddStringToObject(*answer, "hostname", host.hostname);
        if (look.self >= 0)
            cJSON_AddStringToObject(*answer, "node", mesh.nodes[look.self].name);
        else if (mesh.n_nodes)
            cJSON_AddStringToObject(*answer, "node_error", diag->text);
        for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
            if (is_wanted(ask, questions[i].name))
                questions[i].answer(&look, *answer);
        cJSON *clock = cJSON_AddObjectToObject(*answer, "clock");
        cJSON_AddNumberToObject(clock, "begin", begin);
        cJSON_AddNumberToObject(clock, "end", now());
    }
    mn_host_free(&host);
    mn_mesh_free(&mesh);
    return err;
}
