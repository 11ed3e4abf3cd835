/* What sessions may lock:
 *   "limits": {"memlock": soft limit of this process in bytes, -1 = none, "user": whose session,
 *     "files": [{"file", "line", "who", "type": "soft" | "hard" | "-", "value": KiB, -1 = none,
 *     "counts": whether a new session of the user gets it from there}]} */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/doctor_ask.h"
#include "fleet/node.h"
#include "topo/base/alloc.h"

/* --- lines -------------------------------------------------------------------------------------
 */

/* "*  soft  memlock  unlimited" of limits.conf(5). */
static void take_limit(struct mn_doctor_reading *r, char *line)
{
    char *words[4], *rest = NULL, *end;
    int n = 0;

    line[strcspn(line, "#")] = 0;
    for (char *word = strtok_r(line, " \t\r", &rest); word && n < 4;
         word = strtok_r(NULL, " \t\r", &rest))
        words[n++] = word;
    if (n < 4 || strcmp(words[2], "memlock") != 0)
        return;
    errno = 0;
    long long value = strtoll(words[3], &end, 10);
    int endless = !strcmp(words[3], "unlimited") || !strcmp(words[3], "infinity") || value < 0;
    if (!endless && (end == words[3] || *end || errno))
        return;
    cJSON *json = mn_doctor_place(r);
    cJSON_AddStringToObject(json, "who", words[0]);
    cJSON_AddStringToObject(json, "type", words[1]);
    cJSON_AddNumberToObject(json, "value", endless ? -1 : (double)value);
}

/* --- whose they are: what names one goes before what names many, and what comes later before what
 * came earlier; groups and everybody are without root ---------------------------------------------
 */

enum { NOBODYS, EVERYBODYS, GROUPS, OWN };

/* "1000:2000", "1000:", ":2000"; 0: it is no range, or the number is not in it. */
static int in_range(const char *text, unsigned number)
{
    const char *colon = strchr(text, ':');
    unsigned long long first, last;
    char *end;

    if (!colon || strspn(text, "0123456789:") != strlen(text) || strlen(text) < 2)
        return 0;
    first = colon == text ? 0 : strtoull(text, &end, 10);
    last = colon[1] ? strtoull(colon + 1, &end, 10) : ~0u;
    return number >= first && number <= last;
}

static int is_in_group(const struct mn_doctor_user *user, const char *name)
{
    for (size_t i = 0; i < user->n_groups; i++)
        if (!strcmp(user->groups[i].name, name) || in_range(name, user->groups[i].gid))
            return 1;
    return 0;
}

static int rank_of(const struct mn_doctor_user *user, const char *who)
{
    if (!strcmp(who, user->name) || in_range(who, user->uid))
        return OWN;
    if (!user->uid)
        return NOBODYS;
    if (*who == '@')
        return is_in_group(user, who + 1) ? GROUPS : NOBODYS;
    return !strcmp(who, "*") ? EVERYBODYS : NOBODYS;
}

static const char *text_of(const cJSON *line, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(line, key));

    return text ? text : "";
}

/* Of the lines for soft or for hard limits the one that counts; NULL: none does. */
static const cJSON *winner(const cJSON *lines, const struct mn_doctor_user *user, const char *type)
{
    const cJSON *line, *found = NULL;
    int best = NOBODYS + 1;

    cJSON_ArrayForEach(line, lines)
    {
        const char *of = text_of(line, "type");
        int rank = rank_of(user, text_of(line, "who"));

        if (rank < best || (strcmp(of, "-") != 0 && strcmp(of, type) != 0))
            continue;
        best = rank;
        found = line;
    }
    return found;
}

void mn_doctor_limits_weigh(cJSON *lines, const struct mn_doctor_user *user)
{
    const cJSON *soft = winner(lines, user, "soft"), *hard = winner(lines, user, "hard");
    cJSON *line;

    cJSON_ArrayForEach(line, lines)
        cJSON_AddBoolToObject(line, "counts", line == soft || line == hard);
}

/* --- who asks: by sudo the user, whose sessions run the jobs ------------------------------------
 */

static void find_user(struct mn_doctor_user *user)
{
    uid_t uid;
    const struct passwd *entry = getpwuid(mn_sudo_user(&uid) ? uid : getuid());
    gid_t gids[64];
    int n = sizeof gids / sizeof *gids;

    *user = (struct mn_doctor_user){.uid = getuid()};
    if (!entry)
        return;
    user->uid = entry->pw_uid;
    mn_strlcpy(user->name, entry->pw_name, sizeof user->name);
    if (getgrouplist(user->name, entry->pw_gid, gids, &n) < 0)
        n = sizeof gids / sizeof *gids; /* of more the first */
    for (int i = 0; i < n; i++) {
        const struct group *group = getgrgid(gids[i]);
        struct mn_doctor_group *to = &user->groups[user->n_groups++];

        to->gid = gids[i];
        if (group)
            mn_strlcpy(to->name, group->gr_name, sizeof to->name);
    }
}

void mn_doctor_ask_limits(const struct mn_doctor_look *look, cJSON *answer)
{
    cJSON *limits = cJSON_AddObjectToObject(answer, "limits");
    struct mn_doctor_reading r;
    struct mn_doctor_user user;

    find_user(&user);
    cJSON_AddNumberToObject(limits, "memlock",
                            look->host->memlock == UINT64_MAX ? -1 : (double)look->host->memlock);
    cJSON_AddStringToObject(limits, "user", user.name);
    r.list = cJSON_AddArrayToObject(limits, "files");
    mn_doctor_each_line(&r, "/etc/security/limits.conf", take_limit);
    mn_doctor_each_line(&r, "/etc/security/limits.d/*.conf", take_limit);
    mn_doctor_limits_weigh(r.list, &user);
}
