/* Whether packets pass the nodes in between, by what all nodes have seen. */
#include <stdio.h>
#include <string.h>

#include "fleet/apply_far.h"
#include "fleet/apply_run_impl.h"

static const char *text_of(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);

    return cJSON_IsString(item) ? item->valuestring : "";
}

static int is(const cJSON *json, const char *key, const char *value)
{
    return !strcmp(text_of(json, key), value);
}

static const struct mn_apply_node *node_named(const struct mn_apply_run *run, const char *name)
{
    for (size_t i = 0; i < run->n; i++)
        if (!strcmp(run->nodes[i].name, name))
            return &run->nodes[i];
    return NULL;
}

static const cJSON *list_of(const struct mn_apply_node *node, const char *key)
{
    return node ? cJSON_GetObjectItemCaseSensitive(node->check, key) : NULL;
}

/* One way from a node to another: the names on it, both ends included. */
struct way {
    const struct mn_apply_run *run;
    const char *names[MN_FAR_HOPS + 2];
    size_t n;
};

static void find_way(const struct mn_apply_run *run, const struct mn_apply_node *node,
                     const cJSON *far, struct way *way)
{
    const cJSON *path = cJSON_GetObjectItemCaseSensitive(far, "path"), *name;
    size_t most = sizeof way->names / sizeof *way->names;

    *way = (struct way){.run = run};
    way->names[way->n++] = node->name;
    cJSON_ArrayForEach(name, path) if (cJSON_IsString(name) && way->n < most - 1)
        way->names[way->n++] = name->valuestring;
    way->names[way->n++] = text_of(far, "node");
}

/* A cable on it has no carrier, and had none: nothing can pass there, and that is told of it. */
static int is_dark(const struct way *way)
{
    const cJSON *c;

    for (size_t i = 0; i + 1 < way->n; i++)
        for (int back = 0; back < 2; back++)
            cJSON_ArrayForEach(c, list_of(node_named(way->run, way->names[i + (size_t)back]),
                                          "cables"))
            {
                if (is(c, "peer", way->names[i + (size_t)!back]) && is(c, "state", "no carrier"))
                    return 1;
            }
    return 0;
}

/* Its own question to this node was answered: packets pass in both directions, and what is silent
 * does not want to answer. */
static int has_asked(const struct way *way)
{
    const cJSON *c;

    cJSON_ArrayForEach(c, list_of(node_named(way->run, way->names[way->n - 1]), "far"))
    {
        const cJSON *path = cJSON_GetObjectItemCaseSensitive(c, "path");
        if (is(c, "node", way->names[0]) && is(c, "state", "answers") &&
            (size_t)cJSON_GetArraySize(path) == way->n - 2)
            return 1;
    }
    return 0;
}

static int concerns(const cJSON *obstacle, const char *from, const char *to)
{
    const char *in = text_of(obstacle, "from"), *out = text_of(obstacle, "to");

    return (!*in || (from && !strcmp(in, from))) && (!*out || (to && !strcmp(out, to)));
}

/* Of what the node at a place of the way has found in itself, what is about this way, in both
 * directions. */
static const cJSON *obstacle_at(const struct way *way, size_t at, int own, int sure)
{
    const char *before = at ? way->names[at - 1] : NULL;
    const char *after = at + 1 < way->n ? way->names[at + 1] : NULL;
    const cJSON *o;

    cJSON_ArrayForEach(o, list_of(node_named(way->run, way->names[at]), "obstacles"))
    {
        if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "own")) == own &&
            cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "sure")) == sure &&
            (concerns(o, before, after) || concerns(o, after, before)))
            return o;
    }
    return NULL;
}

/* Those in between first. */
static int find_cause(const struct way *way, int least, char *text, size_t size)
{
    for (int sure = 1; sure >= least; sure--)
        for (size_t i = 0; i < way->n; i++) {
            size_t at = i + 1 < way->n - 1 ? i + 1 : i + 1 == way->n - 1 ? 0 : way->n - 1;
            const cJSON *o = obstacle_at(way, at, 0, sure);
            if (!o)
                continue;
            snprintf(text, size, "at %.60s%s %.400s", way->names[at], sure ? "" : " it may be that",
                     text_of(o, "why"));
            return 1;
        }
    return 0;
}

static double got_of(const cJSON *far)
{
    const cJSON *got = cJSON_GetObjectItemCaseSensitive(far, "got");

    return cJSON_IsNumber(got) ? got->valuedouble : 0;
}

/* Every node in between had the packet and none has anything against it, and of the last one's own
 * firewall nothing can be said for sure: it may take no questions. */
static int cannot_be_told(const struct way *way, const cJSON *far)
{
    char why[600];

    return is(far, "state", "silent") && got_of(far) >= (double)way->n - 2 &&
           obstacle_at(way, way->n - 1, 1, 0) && !find_cause(way, 1, why, sizeof why);
}

static void say_how_far(const struct way *way, const cJSON *far, char *text, size_t size)
{
    double n = got_of(far);

    if (n >= 1 && n <= (double)way->n - 2)
        snprintf(text, size, "%.60s got them and nothing is known of them after that",
                 way->names[(size_t)n]);
    else
        snprintf(text, size, "none of the nodes in between said that it got them");
}

static enum mn_err fail(struct mn_apply_node *node, const struct way *way, const cJSON *far)
{
    char over[160] = "", why[600];

    for (size_t i = 1; i + 1 < way->n && strlen(over) < 100; i++) {
        size_t used = strlen(over);
        snprintf(over + used, sizeof over - used, "%s%.40s", i > 1 ? ", " : "", way->names[i]);
    }
    if (!find_cause(way, 0, why, sizeof why))
        say_how_far(way, far, why, sizeof why);
    if (is(far, "state", "refused"))
        return mn_fail(&node->diag, MN_ERR_FAILED,
                       "%s: packets to %s at %s do not pass %s: %.60s sends them back; %s",
                       node->host, text_of(far, "node"), text_of(far, "address"), over,
                       text_of(far, "by"), why);
    return mn_fail(&node->diag, MN_ERR_FAILED,
                   "%s: packets to %s at %s, or their answers, do not pass %s: %s", node->host,
                   text_of(far, "node"), text_of(far, "address"), over, why);
}

enum mn_err mn_run_judge_far(const struct mn_apply_run *run, struct mn_apply_node *node)
{
    cJSON *far;

    cJSON_ArrayForEach(far, cJSON_GetObjectItemCaseSensitive(node->check, "far"))
    {
        const char *state = NULL;
        struct way way;
        if (is(far, "state", "answers"))
            continue;
        find_way(run, node, far, &way);
        if (is_dark(&way))
            state = "no carrier";
        else if (has_asked(&way))
            state = "asks itself";
        else if (obstacle_at(&way, way.n - 1, 1, 1) && !is(far, "state", "refused"))
            state = "takes no questions";
        else if (cannot_be_told(&way, far))
            state = "cannot be told";
        if (!state)
            return node->err = fail(node, &way, far);
        cJSON_ReplaceItemInObjectCaseSensitive(far, "state", cJSON_CreateString(state));
    }
    return MN_OK;
}
