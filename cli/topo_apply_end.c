/* How it went, as meshnet topo apply shows it. The nodes' answers have been checked for their form.
 */
#include "cli/topo_apply.h"

#include <stdio.h>
#include <string.h>

static const char *text_of(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);

    return cJSON_IsString(item) ? item->valuestring : NULL;
}

static void show_cables(struct mn_out *out, const struct mn_apply_run *run)
{
    static const struct mn_col cols[] = {{"node", "NODE", 0},      {"nic", "NIC", 0},
                                         {"peer", "NEIGHBOUR", 0}, {"address", "ADDRESS", 0},
                                         {"state", "STATE", 0},    {"cable", "CABLE", MN_DROP(1)}};
    static const char *const keys[] = {"netdev", "peer", "address", "state", "cable"};
    const cJSON *c;

    mn_out_table(out, "cables", NULL, cols, 6);
    for (size_t i = 0; i < run->n; i++)
        cJSON_ArrayForEach(c, cJSON_GetObjectItemCaseSensitive(run->nodes[i].check, "cables"))
        {
            const char *state = text_of(c, "state");
            mn_out_row(out);
            mn_out_cell(out, run->nodes[i].name);
            for (int k = 0; k < 5; k++) {
                if (k == 3)
                    mn_out_color(out, state && !strcmp(state, "answers") ? MN_GREEN : MN_RED);
                mn_out_cell(out, text_of(c, keys[k]));
            }
        }
    mn_out_table_end(out);
}

static int far_answers(const cJSON *far)
{
    const char *state = text_of(far, "state");

    return state && !strcmp(state, "answers");
}

static void show_far_row(struct mn_out *out, const struct mn_apply_node *node, const cJSON *far)
{
    const cJSON *name;
    char over[256] = "";

    cJSON_ArrayForEach(name, cJSON_GetObjectItemCaseSensitive(far, "path"))
    {
        size_t used = strlen(over);
        if (cJSON_IsString(name))
            snprintf(over + used, sizeof over - used, "%s%s", used ? ", " : "", name->valuestring);
    }
    mn_out_row(out);
    mn_out_cell(out, node->name);
    mn_out_cell(out, text_of(far, "node"));
    mn_out_cell(out, text_of(far, "address"));
    mn_out_color(out, MN_RED);
    mn_out_cell(out, text_of(far, "state"));
    mn_out_cell(out, over);
}

/* Those that answer are a number: in a large mesh they are many. */
static void show_far(struct mn_out *out, const struct mn_apply_run *run)
{
    static const struct mn_col cols[] = {{"node", "NODE", 0},
                                         {"far", "BEHIND OTHERS", 0},
                                         {"address", "ADDRESS", 0},
                                         {"state", "STATE", 0},
                                         {"path", "OVER", MN_DROP(1)}};
    int64_t answers = 0, left_out = 0, rest = 0;
    const cJSON *c, *more;

    for (size_t i = 0; i < run->n; i++) {
        cJSON_ArrayForEach(c, cJSON_GetObjectItemCaseSensitive(run->nodes[i].check, "far"))
        {
            answers += far_answers(c);
            rest += !far_answers(c);
        }
        more = cJSON_GetObjectItemCaseSensitive(run->nodes[i].check, "far_left_out");
        if (cJSON_IsNumber(more) && more->valuedouble > 0 && more->valuedouble < 1e9)
            left_out += (int64_t)more->valuedouble;
    }
    if (rest)
        mn_out_table(out, "far", NULL, cols, 5);
    else
        mn_out_list_begin(out, "far", NULL);
    for (size_t i = 0; i < run->n; i++)
        cJSON_ArrayForEach(c, cJSON_GetObjectItemCaseSensitive(run->nodes[i].check, "far"))
        {
            if (!far_answers(c))
                show_far_row(out, &run->nodes[i], c);
        }
    if (rest)
        mn_out_table_end(out);
    else
        mn_out_list_end(out);
    mn_out_int(out, "far_answers", NULL, answers);
    mn_out_int(out, "far_left_out", NULL, left_out);
    if (answers)
        mn_out_note(out, MN_PLAIN, "%lld address%s behind other nodes answer%s", (long long)answers,
                    answers == 1 ? "" : "es", answers == 1 ? "s" : "");
    if (left_out)
        mn_out_note(out, MN_YELLOW, "%lld more were not asked", (long long)left_out);
}

static void show_gids(struct mn_out *out, const struct mn_apply_run *run)
{
    const cJSON *gid;

    mn_out_list_begin(out, "missing_gids", NULL);
    for (size_t i = 0; i < run->n; i++)
        cJSON_ArrayForEach(gid,
                           cJSON_GetObjectItemCaseSensitive(run->nodes[i].check, "missing_gids"))
        {
            if (!cJSON_IsString(gid))
                continue;
            mn_out_begin(out, NULL, NULL);
            mn_out_str(out, "node", NULL, run->nodes[i].name);
            mn_out_str(out, "what", NULL, gid->valuestring);
            mn_out_end(out);
            mn_out_note(out, MN_RED, "%s: no RoCE v2 GID came: %s", run->nodes[i].name,
                        gid->valuestring);
        }
    mn_out_list_end(out);
}

size_t mn_topo_apply_missing(const struct mn_apply_run *run)
{
    size_t n = 0;

    for (size_t i = 0; i < run->n; i++)
        n += (size_t)cJSON_GetArraySize(
            cJSON_GetObjectItemCaseSensitive(run->nodes[i].check, "missing_gids"));
    return n;
}

void mn_topo_apply_show_end(struct mn_out *out, const struct mn_apply_run *run, enum mn_err err)
{
    static const struct mn_col cols[] = {{"node", "NODE", 0},
                                         {"host", NULL, 0},
                                         {"kept", NULL, 0},
                                         {"result", "RESULT", 0}};

    mn_out_note(out, MN_PLAIN, "%s", "");
    show_cables(out, run);
    show_far(out, run);
    show_gids(out, run);
    mn_out_bool(out, "kept", NULL, !err);
    mn_out_table(out, "results", NULL, cols, 4);
    for (size_t i = 0; i < run->n; i++) {
        const struct mn_apply_node *node = &run->nodes[i];
        mn_out_row(out);
        mn_out_cell(out, node->name);
        mn_out_cell(out, node->host);
        mn_out_cell_bool(out, node->kept);
        mn_out_cell(out, node->outcome);
    }
    mn_out_table_end(out);
}
