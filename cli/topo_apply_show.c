/* What meshnet topo apply shows. The nodes' answers have been checked for their form. */
#include "cli/topo_apply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

#define DIFF_LINES 1000 /* of a file of more, all is shown as taken away and put there */

/* --- a file's lines --------------------------------------------------------------------------- */

struct lines {
    char **items;
    size_t count;
};

/* Cuts a copy of the text, the first line owns it. */
static struct lines cut(const char *text)
{
    struct lines lines = {.items = NULL};
    char *rest = mn_strdup(text && *text ? text : NULL);

    while (rest && *rest) {
        char **line = mn_grow((void **)&lines.items, &lines.count, sizeof *lines.items);
        *line = strsep(&rest, "\n");
    }
    return lines;
}

static void lines_free(struct lines *lines)
{
    if (lines->count)
        free(lines->items[0]);
    free(lines->items);
}

/* common[i][j]: the most lines that from's after i and to's after j have in common. */
static unsigned *compare(const struct lines *from, const struct lines *to)
{
    size_t width = to->count + 1;
    unsigned *common = mn_zalloc((from->count + 1) * width * sizeof *common);

    for (size_t i = from->count; i-- > 0;)
        for (size_t j = to->count; j-- > 0;) {
            unsigned down = common[(i + 1) * width + j], right = common[i * width + j + 1];
            common[i * width + j] = !strcmp(from->items[i], to->items[j])
                                        ? common[(i + 1) * width + j + 1] + 1
                                    : down > right ? down
                                                   : right;
        }
    return common;
}

size_t mn_topo_apply_diff(struct mn_out *out, const char *from_text, const char *to_text)
{
    struct lines from = cut(from_text), to = cut(to_text);
    int small = from.count <= DIFF_LINES && to.count <= DIFF_LINES;
    unsigned *common = small ? compare(&from, &to) : NULL;
    size_t i = 0, j = 0, width = to.count + 1, n = 0;

    while (i < from.count || j < to.count) {
        int both = i < from.count && j < to.count;
        if (both && common && !strcmp(from.items[i], to.items[j])) {
            i++;
            j++;
        } else if (i < from.count &&
                   (!both || !common || common[(i + 1) * width + j] >= common[i * width + j + 1])) {
            if (out)
                mn_out_note(out, MN_RED, "      -%s", from.items[i]);
            i++;
            n++;
        } else {
            if (out)
                mn_out_note(out, MN_GREEN, "      +%s", to.items[j]);
            j++;
            n++;
        }
    }
    free(common);
    lines_free(&from);
    lines_free(&to);
    return n;
}

/* --- the plan --------------------------------------------------------------------------------- */

static void show_change(struct mn_out *out, const struct mn_change *c, int whole)
{
    (void)whole;
    const char *what = c->what ? c->what : "";
    const char *space = c->what && c->nic[0] ? " " : "";

    mn_out_begin(out, NULL, NULL);
    mn_out_str(out, "kind", NULL, mn_change_kind_name(c->kind));
    mn_out_str(out, "nic", NULL, c->nic[0] ? c->nic : NULL);
    mn_out_str(out, "what", NULL, c->what);
    mn_out_str(out, "from", NULL, c->from);
    mn_out_str(out, "to", NULL, c->to);
    mn_out_end(out);
    if (c->kind == MN_CHANGE_RULE)
        mn_out_note(out, MN_PLAIN, "  %c %s", c->to ? '+' : '-', what);
    else if (c->from && c->to)
        mn_out_note(out, MN_PLAIN, "  %s%s%s %s: %s -> %s", c->nic, space, what,
                    mn_change_kind_name(c->kind), c->from, c->to);
    else
        mn_out_note(out, c->to ? MN_GREEN : MN_RED, "  %s%s%s %s: %c %s", c->nic, space, what,
                    mn_change_kind_name(c->kind), c->to ? '+' : '-', c->to ? c->to : c->from);
}

static void show_file(struct mn_out *out, const struct mn_change *c, int whole)
{
    char lines[48] = "";

    mn_out_begin(out, NULL, NULL);
    mn_out_str(out, "path", NULL, c->what);
    mn_out_str(out, "from", NULL, c->from);
    mn_out_str(out, "to", NULL, c->to);
    mn_out_strf(out, "mode", NULL, "%04o", c->to_mode);
    mn_out_end(out);
    if (!whole) {
        size_t n = mn_topo_apply_diff(NULL, c->from, c->to);
        snprintf(lines, sizeof lines, "%s%zu line%s%s", !c->from || !c->to ? ", " : "", n,
                 n == 1 ? "" : "s", c->from && c->to ? (n == 1 ? " changes" : " change") : "");
    }
    const char *how = !c->from ? "new" : !c->to ? "goes" : whole ? "changes" : "";
    mn_out_note(out, MN_BOLD, "  %s (%s%s)", c->what, how, lines);
    if (whole)
        mn_topo_apply_diff(out, c->from, c->to);
}

static void show_list(struct mn_out *out, const char *key, const cJSON *json,
                      void (*show)(struct mn_out *, const struct mn_change *, int), int whole)
{
    struct mn_changes list = {.items = NULL};

    mn_out_list_begin(out, key, NULL);
    if (json && !mn_changes_parse(json, &list, NULL))
        for (size_t i = 0; i < list.count; i++)
            show(out, &list.items[i], whole);
    mn_changes_free(&list);
    mn_out_list_end(out);
}

static void show_notes(struct mn_out *out, const cJSON *notes)
{
    const cJSON *note;

    mn_out_list_begin(out, "notes", NULL);
    cJSON_ArrayForEach(note, notes)
    {
        mn_out_begin(out, NULL, NULL);
        mn_out_str(out, "text", NULL, note->valuestring);
        mn_out_end(out);
        mn_out_note(out, MN_YELLOW, "  note: %s", note->valuestring);
    }
    mn_out_list_end(out);
}

static void show_node(struct mn_out *out, const struct mn_apply_node *node, int whole)
{
    const cJSON *manager = cJSON_GetObjectItemCaseSensitive(node->plan, "manager");
    const cJSON *stands = cJSON_GetObjectItemCaseSensitive(node->plan, "stands");
    const cJSON *by = cJSON_GetObjectItemCaseSensitive(node->plan, "stands_by");
    const char *files = manager ? manager->valuestring : NULL;
    int good = !node->err;

    mn_out_begin(out, NULL, NULL);
    mn_out_str(out, "host", NULL, node->host);
    mn_out_str(out, "node", NULL, node->name[0] ? node->name : NULL);
    mn_out_str(out, "manager", NULL, files);
    mn_out_str(out, "error", NULL, good ? NULL : node->diag.text);
    mn_out_note(out, MN_BOLD, "%s%s%s%s", node->name[0] ? node->name : node->host, good ? " (" : "",
                good ? files : "", good ? ")" : "");
    if (!good)
        mn_out_note(out, MN_RED, "  %s", node->diag.text);
    else if (!node->n_kernel && !node->n_files)
        mn_out_note(out, MN_PLAIN, "  nothing to change");
    if (good && !strcmp(stands->valuestring, "orphan"))
        mn_out_note(out, MN_YELLOW,
                    "  note: an unconfirmed change stands, %s; apply undoes it first",
                    by->valuestring);
    mn_out_str(out, "stands", NULL, good ? stands->valuestring : NULL);
    show_list(out, "changes", good ? cJSON_GetObjectItemCaseSensitive(node->plan, "changes") : NULL,
              show_change, whole);
    show_list(out, "files", good ? cJSON_GetObjectItemCaseSensitive(node->plan, "files") : NULL,
              show_file, whole);
    show_notes(out, good ? cJSON_GetObjectItemCaseSensitive(node->plan, "notes") : NULL);
    mn_out_end(out);
}

void mn_topo_apply_show_orphans(struct mn_out *out, const struct mn_apply_run *run)
{
    for (size_t i = 0; i < run->n; i++) {
        const cJSON *plan = run->nodes[i].plan;
        const cJSON *stands = cJSON_GetObjectItemCaseSensitive(plan, "stands");
        const cJSON *by = cJSON_GetObjectItemCaseSensitive(plan, "stands_by");
        if (!run->nodes[i].err && !strcmp(stands->valuestring, "orphan"))
            mn_out_note(out, MN_YELLOW, "%s: an unconfirmed change stands, %s", run->nodes[i].name,
                        by->valuestring);
    }
}

void mn_topo_apply_show_plan(struct mn_out *out, const struct mn_apply_run *run, int dry, int whole)
{
    mn_out_bool(out, "dry_run", NULL, dry);
    mn_out_list_begin(out, "nodes", NULL);
    for (size_t i = 0; i < run->n; i++)
        show_node(out, &run->nodes[i], whole);
    mn_out_list_end(out);
}

/* --- how it went ------------------------------------------------------------------------------ */

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
