/* What else differs between two measurements: it may be the reason of what became faster or slower,
 * or make them incomparable. */
#include <stdlib.h>
#include <string.h>

#include "bench/environment.h"
#include "cli/compare.h"
#include "topo/base/alloc.h"

/* Where things are does not matter; what they are does. */
static const char *const ignored[] = {"node", "host", "path", "netdev", NULL};

/* How it was measured, outside of environment. */
static const char *const settings[] = {"meshnet",           "nranks", "connections", "outstanding",
                                       "precision_percent", NULL};

static int is_ignored(const char *key)
{
    for (const char *const *i = ignored; *i; i++)
        if (!strcmp(*i, key))
            return 1;
    return 0;
}

/* A value for people. */
static char *shown(const cJSON *item)
{
    if (cJSON_IsString(item))
        return mn_strdup(item->valuestring);
    if (cJSON_IsNumber(item))
        return mn_asprintf("%.15g", item->valuedouble);
    return mn_strdup(cJSON_IsBool(item) ? cJSON_IsTrue(item) ? "yes" : "no" : "unknown");
}

static void compare_values(struct mn_comparison *c, const char *where, const char *group,
                           const char *key, const cJSON *before, const cJSON *after)
{
    char *a = shown(before), *b = shown(after);

    if (strcmp(a, b) != 0)
        mn_compare_warn(c, "%.200s%s%s%s%s: '%.200s' before, '%.200s' now", where,
                        *where ? ": " : "", group ? group : "", group ? " " : "", key, a, b);
    free(a);
    free(b);
}

static const cJSON *member(const cJSON *owner, const struct mn_environment_field *f)
{
    const cJSON *at = f->group ? cJSON_GetObjectItemCaseSensitive(owner, f->group) : owner;
    return cJSON_GetObjectItemCaseSensitive(at, f->key);
}

static void compare_fields(struct mn_comparison *c, const char *where, const cJSON *before,
                           const cJSON *after, const struct mn_environment_field *fields)
{
    for (const struct mn_environment_field *f = fields; f->key; f++)
        if (!is_ignored(f->key))
            compare_values(c, where, f->group, f->key, member(before, f), member(after, f));
}

/* The element of a list whose key has that text. */
static const cJSON *find(const cJSON *list, const char *key, const char *text)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, list) if (!strcmp(mn_results_text(item, key, ""), text)) return item;
    return NULL;
}

static void compare_node(struct mn_comparison *c, const char *node, const cJSON *before,
                         const cJSON *after)
{
    const cJSON *nic, *other, *nics = cJSON_GetObjectItemCaseSensitive(after, "nics");

    compare_fields(c, node, before, after, mn_environment_fields);
    cJSON_ArrayForEach(nic, cJSON_GetObjectItemCaseSensitive(before, "nics"))
    {
        const char *netdev = mn_results_text(nic, "netdev", "");
        other = find(nics, "netdev", netdev);
        char *where = mn_asprintf("%.64s, %.64s", node, netdev);
        if (other)
            compare_fields(c, where, nic, other, mn_environment_nic_fields);
        /* Interfaces of containers come and go; what has a driver stays. */
        else if (mn_results_text(nic, "device", NULL))
            mn_compare_warn(c, "%s: was there before, is not now", where);
        free(where);
    }
}

void mn_compare_environments(const struct mn_results *before, const struct mn_results *after,
                             struct mn_comparison *c)
{
    const cJSON *node, *other;
    const cJSON *a = cJSON_GetObjectItemCaseSensitive(before->json, "environment");
    const cJSON *b = cJSON_GetObjectItemCaseSensitive(after->json, "environment");

    for (const char *const *key = settings; *key; key++)
        compare_values(c, "", NULL, *key, cJSON_GetObjectItemCaseSensitive(before->json, *key),
                       cJSON_GetObjectItemCaseSensitive(after->json, *key));
    cJSON_ArrayForEach(node, a)
    {
        const char *name = mn_results_text(node, "node", "");
        other = find(b, "node", name);
        if (other)
            compare_node(c, name, node, other);
        else
            mn_compare_warn(c, "%.64s: took part before, does not now", name);
    }
    cJSON_ArrayForEach(node, b)
    {
        const char *name = mn_results_text(node, "node", "");
        if (!find(a, "node", name))
            mn_compare_warn(c, "%.64s: takes part now, did not before", name);
    }
    static const char *const which[] = {"the first file", "the second file"};
    for (int i = 0; i < 2; i++) {
        const cJSON *json = i ? after->json : before->json;
        if (cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(json, "complete")))
            mn_compare_warn(c, "%s is of a run that ended early: %.300s", which[i],
                            mn_results_text(json, "error", "why is not said"));
    }
}
