/* What is left lying around for NCCL:
 *   "settings": [{"file", "line", "name", "value"}]: NCCL_, RCCL_ and MESHNET_ of the files below
 */
#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/doctor_ask.h"
#include "fleet/node.h"
#include "topo/base/alloc.h"

#define MOST 64 /* lines of a kind */

void mn_doctor_each_line(struct mn_doctor_reading *r, const char *pattern, mn_doctor_on_line *take)
{
    glob_t g;

    if (glob(pattern, 0, NULL, &g))
        return;
    for (size_t i = 0; i < g.gl_pathc; i++) {
        char *text;
        r->file = g.gl_pathv[i];
        r->line = 0;
        if (mn_file_read(r->file, 1u << 20, &text, NULL, NULL))
            continue;
        for (char *line = text, *next; line; line = next) {
            next = strchr(line, '\n');
            if (next)
                *next++ = 0;
            r->line++;
            if (cJSON_GetArraySize(r->list) < MOST)
                take(r, line);
        }
        free(text);
    }
    globfree(&g);
}

cJSON *mn_doctor_place(const struct mn_doctor_reading *r)
{
    cJSON *json = cJSON_CreateObject();

    cJSON_AddStringToObject(json, "file", r->file);
    cJSON_AddNumberToObject(json, "line", r->line);
    cJSON_AddItemToArray(r->list, json);
    return json;
}

/* "NCCL_NET=Socket", "export NCCL_NET=Socket", "  NCCL_NET = 'Socket'"; fish's and csh's own ways
 * are not for system-wide files of sh. */
static void take_setting(struct mn_doctor_reading *r, char *line)
{
    static const char *const ours[] = {"NCCL_", "RCCL_", "MESHNET_"};
    char *rest = NULL;
    int wanted = 0;

    while (isspace((unsigned char)*line))
        line++;
    if (!strncmp(line, "export ", 7))
        line += 7 + strspn(line + 7, " \t");
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        wanted |= !strncmp(line, ours[i], strlen(ours[i]));
    if (!wanted || !strchr(line, '='))
        return;
    const char *name = strtok_r(line, "= \t\r", &rest);
    const char *value = strtok_r(NULL, "=\r\"'", &rest);
    cJSON *json = mn_doctor_place(r);
    cJSON_AddStringToObject(json, "name", name);
    /* A secret stays where it is. */
    int secret = strstr(name, "TOKEN") || strstr(name, "KEY");
    cJSON_AddStringToObject(json, "value",
                            secret  ? "(not told)"
                            : value ? value + strspn(value, " \t")
                                    : "");
}

void mn_doctor_ask_settings(const struct mn_doctor_look *look, cJSON *answer)
{
    struct mn_doctor_reading r = {.list = cJSON_AddArrayToObject(answer, "settings")};
    const char *home = getenv("HOME"), *own = getenv("NCCL_CONF_FILE");
    char path[512];

    (void)look;
    mn_doctor_each_line(&r, "/etc/nccl.conf", take_setting);
    snprintf(path, sizeof path, "%s/.nccl.conf", home ? home : "");
    const struct passwd *user = mn_sudo_drop(); /* a link of his may lead anywhere */
    if ((own && *own) || home)
        mn_doctor_each_line(&r, own && *own ? own : path, take_setting);
    if (user)
        mn_sudo_back();
    mn_doctor_each_line(&r, "/etc/environment", take_setting);
    mn_doctor_each_line(&r, "/etc/profile.d/*.sh", take_setting);
    mn_doctor_each_line(&r, "/etc/security/pam_env.conf", take_setting);
}
