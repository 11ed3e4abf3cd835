#include "fleet/files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fleet/same_mesh.h"
#include "fleet/verbs.h"
#include "topo/base/alloc.h"
#include "topo/base/mac.h"
#include "topo/mesh_file.h"
#include "topo/mesh_yaml.h"

#define FILE_MAX MN_YAML_MAX

static const uint8_t key[MN_KEY_SIZE] = "meshnet file";

uint64_t mn_file_hash(const char *text, size_t len)
{
    return mn_mac64(key, text, len);
}

/* --- places --------------------------------------------------------------------------------- */

static enum mn_err own_place(char *path, size_t size, struct mn_diag *diag)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int len = 0;

    if (!geteuid())
        len = snprintf(path, size, "%s", MN_FILES_SYSTEM);
    else if (xdg && *xdg == '/')
        len = snprintf(path, size, "%s/meshnet/mesh.yaml", xdg);
    else if (home && *home == '/')
        len = snprintf(path, size, "%s/.config/meshnet/mesh.yaml", home);
    return len > 0 && (size_t)len < size
               ? MN_OK
               : mn_fail(diag, MN_ERR_CONFIG,
                         "no place for a mesh file: this user has no $HOME; expected one, or root");
}

/* {"place": "own" (default) or "system"}: the file in force, or where one would be. */
static enum mn_err find_place(const cJSON *ask, char *path, size_t size, struct mn_diag *diag)
{
    const cJSON *place = cJSON_GetObjectItemCaseSensitive(ask, "place");
    const char *name = !place ? "own" : cJSON_IsString(place) ? place->valuestring : "";

    if (!strcmp(name, "system"))
        return mn_strlcpy(path, MN_FILES_SYSTEM, size) ? MN_OK : MN_ERR_INTERNAL;
    if (strcmp(name, "own") != 0)
        return mn_fail(diag, MN_ERR_USAGE, "place '%.40s': expected own or system", name);
    return mn_mesh_find_file(path, size) ? MN_OK : own_place(path, size, diag);
}

/* In a folder like /tmp only the owner of a file, or of the folder, may replace it. */
static int is_anothers(const struct stat *file, const char *folder)
{
    struct stat st;

    return geteuid() && stat(folder, &st) == 0 && (st.st_mode & S_ISVTX) &&
           file->st_uid != geteuid() && st.st_uid != geteuid();
}

/* Whether the file can be replaced, or made in the first folder above that is there. */
static int is_target_writable(const char *path)
{
    char folder[512];
    char *slash;
    struct stat st;
    int exists = stat(path, &st) == 0;

    if (exists && !S_ISREG(st.st_mode))
        return 0;
    mn_strlcpy(folder, path, sizeof folder);
    while ((slash = strrchr(folder, '/'))) {
        slash[slash == folder] = 0;
        if (access(folder, F_OK) == 0 || slash == folder)
            return access(folder, W_OK | X_OK) == 0 && !(exists && is_anothers(&st, folder));
    }
    return access(".", W_OK) == 0;
}

static int is_writable(const char *path)
{
    char *target = realpath(path, NULL);
    int writable = is_target_writable(target ? target : path);

    free(target);
    return writable;
}

static enum mn_err make_folders(const char *path, struct mn_diag *diag)
{
    char folder[512];

    mn_strlcpy(folder, path, sizeof folder);
    for (char *at = strchr(folder + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        if (mkdir(folder, 0755) && errno != EEXIST)
            return mn_fail_errno(diag, "%s: making this folder", folder);
        *at = '/';
    }
    return MN_OK;
}

/* --- what is there -------------------------------------------------------------------------- */

static void add_self(cJSON *json, const struct mn_mesh *mesh)
{
    struct mn_host host;
    struct mn_diag diag = {.text = ""};
    char why[256];
    int node;
    enum mn_err err = mn_host_read(NULL, &host, &diag);

    if (!err)
        err = mn_mesh_find_self(mesh, &host, &node, why, sizeof why, &diag);
    if (err)
        cJSON_AddStringToObject(json, "why", diag.text);
    else
        cJSON_AddStringToObject(json, "node", mesh->nodes[node].name);
    mn_host_free(&host);
}

static void add_text(cJSON *json, const char *path, const char *text, size_t len)
{
    struct mn_mesh mesh;
    struct mn_mesh_own *own = mn_zalloc(sizeof *own);
    struct mn_diag diag;
    char bytes[17];

    snprintf(bytes, sizeof bytes, "%016" PRIx64, mn_file_hash(text, len));
    cJSON_AddStringToObject(json, "bytes", bytes);
    mn_mesh_init(&mesh);
    if (mn_mesh_parse(path, text, len, &mesh, &diag)) {
        cJSON_AddStringToObject(json, "broken", diag.text);
    } else {
        mn_mesh_digest(&mesh, path, own);
        mn_same_mesh_add(json, &own->digest);
        add_self(json, &mesh);
    }
    mn_mesh_free(&mesh);
    free(own);
}

static cJSON *state_of(const char *path)
{
    cJSON *json = cJSON_CreateObject();
    int exists = access(path, F_OK) == 0;
    char *text;
    size_t len;
    struct mn_diag diag;

    cJSON_AddStringToObject(json, "path", path);
    cJSON_AddBoolToObject(json, "exists", exists);
    cJSON_AddBoolToObject(json, "writable", is_writable(path));
    if (!exists)
        return json;
    if (mn_file_read(path, FILE_MAX, &text, &len, &diag)) {
        cJSON_AddStringToObject(json, "broken", diag.text);
        return json;
    }
    add_text(json, path, text, len);
    free(text);
    return json;
}

/* --- verbs ---------------------------------------------------------------------------------- */

/* Jobs of every user read it, whatever the umask of who writes it. */
static enum mn_err write_whole(const char *path, const char *text, struct mn_diag *diag)
{
    enum mn_err err = make_folders(path, diag);
    /* A symbolic link stays one. */
    char *target = realpath(path, NULL);
    mode_t mask = umask(022);

    if (!err)
        err = mn_file_write(target ? target : path, text, strlen(text), 1, diag);
    umask(mask);
    free(target);
    return err;
}

static enum mn_err put(const cJSON *ask, const char *path, cJSON **answer, struct mn_diag *diag)
{
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(ask, "text");
    struct mn_mesh mesh;

    if (!cJSON_IsString(text))
        return mn_fail(diag, MN_ERR_PROTO, "\"text\": expected a mesh file");
    mn_mesh_init(&mesh);
    enum mn_err err =
        mn_mesh_parse("the file", text->valuestring, strlen(text->valuestring), &mesh, diag);
    mn_mesh_free(&mesh);
    if (!err)
        err = write_whole(path, text->valuestring, diag);
    if (err)
        return err;
    *answer = state_of(path);
    cJSON_AddTrueToObject(*answer, "changed");
    return MN_OK;
}

enum mn_err mn_verb_mesh(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    char path[512];
    enum mn_err err = find_place(ask, path, sizeof path, diag);

    if (!err)
        *answer = state_of(path);
    return err;
}

enum mn_err mn_verb_put_mesh(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    char path[512];
    enum mn_err err = find_place(ask, path, sizeof path, diag);

    return err ? err : put(ask, path, answer, diag);
}

enum mn_err mn_verb_put_mesh_system(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    return put(ask, MN_FILES_SYSTEM, answer, diag);
}

enum mn_err mn_verb_put_mesh_at(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    const cJSON *path = cJSON_GetObjectItemCaseSensitive(ask, "path");

    if (!cJSON_IsString(path) || path->valuestring[0] != '/' || strlen(path->valuestring) >= 512)
        return mn_fail(diag, MN_ERR_PROTO, "\"path\": expected an absolute one below 512 bytes");
    if (cJSON_GetObjectItemCaseSensitive(ask, "text"))
        return put(ask, path->valuestring, answer, diag);
    *answer = state_of(path->valuestring);
    return MN_OK;
}

/* --- whoever asked -------------------------------------------------------------------------- */

static int get_text(const cJSON *json, const char *name, char *text, size_t size)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, name);

    text[0] = 0;
    return !item || (cJSON_IsString(item) && (mn_strlcpy(text, item->valuestring, size), 1));
}

enum mn_err mn_file_state_parse(const cJSON *json, struct mn_file_state *state,
                                struct mn_diag *diag)
{
    char bytes[32];

    *state = (struct mn_file_state){.path = ""};
    int good = get_text(json, "path", state->path, sizeof state->path) && state->path[0] &&
               get_text(json, "broken", state->broken, sizeof state->broken) &&
               get_text(json, "node", state->node, sizeof state->node) &&
               get_text(json, "why", state->why, sizeof state->why) &&
               get_text(json, "bytes", bytes, sizeof bytes);
    state->exists = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "exists"));
    state->writable = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "writable"));
    state->changed = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "changed"));
    if (good && *bytes)
        good = strspn(bytes, "0123456789abcdef") == 16 && !bytes[16];
    if (good && *bytes)
        state->bytes = strtoull(bytes, NULL, 16);
    if (good && state->exists && !state->broken[0])
        good = mn_same_mesh_get(json, &state->digest);
    return good ? MN_OK : mn_fail(diag, MN_ERR_PROTO, "its answer tells of no mesh file");
}
