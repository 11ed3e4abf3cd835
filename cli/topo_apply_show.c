/* What meshnet topo apply shows of its plan. The nodes' answers have been checked for their form.
 */
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

/* A setting of one NIC, "net/ipv4/conf/p0/forwarding": where its name begins; NULL: of none. */
static const char *nic_in(const struct mn_change *c, size_t *length)
{
    const char *at = c->kind == MN_CHANGE_SYSCTL ? strstr(c->what, "/conf/") : NULL;

    if (!at || !strchr(at + 6, '/'))
        return NULL;
    *length = strcspn(at + 6, "/");
    return at + 6;
}

/* The same of another NIC. */
static int is_like(const struct mn_change *a, const struct mn_change *b)
{
    size_t x, y;
    const char *p = nic_in(a, &x), *q = nic_in(b, &y);

    return p && q && p - a->what == q - b->what &&
           !strncmp(a->what, b->what, (size_t)(p - a->what)) && !strcmp(p + x, q + y) &&
           !strcmp(a->from, b->from) && !strcmp(a->to, b->to);
}

/* One line for all that are like it, at the first of them. */
static void note_sysctls(struct mn_out *out, const struct mn_changes *list, size_t first)
{
    const struct mn_change *c = &list->items[first];
    size_t length = 0, count = 0;
    const char *nic = nic_in(c, &length);
    char *names = mn_strdup("");

    for (size_t i = 0; i < list->count; i++) {
        size_t n = 0;
        const char *other =
            i == first || is_like(c, &list->items[i]) ? nic_in(&list->items[i], &n) : NULL;
        if (i < first && other)
            break;
        if (!other)
            continue;
        char *more = mn_asprintf("%s%s%.*s", names, count ? "," : "", (int)n, other);
        free(names);
        names = more;
        count++;
    }
    if (count)
        mn_out_note(out, MN_PLAIN, "  %.*s%s%s%s%s sysctl: %s -> %s", (int)(nic - c->what), c->what,
                    count > 1 ? "{" : "", names, count > 1 ? "}" : "", nic + length, c->from,
                    c->to);
    free(names);
}

static void show_change(struct mn_out *out, const struct mn_changes *list, size_t at, int whole)
{
    (void)whole;
    const struct mn_change *c = &list->items[at];
    const char *what = c->what ? c->what : "";
    const char *space = c->what && c->nic[0] ? " " : "";
    size_t length;

    mn_out_begin(out, NULL, NULL);
    mn_out_str(out, "kind", NULL, mn_change_kind_name(c->kind));
    mn_out_str(out, "nic", NULL, c->nic[0] ? c->nic : NULL);
    mn_out_str(out, "what", NULL, c->what);
    mn_out_str(out, "from", NULL, c->from);
    mn_out_str(out, "to", NULL, c->to);
    mn_out_end(out);
    if (c->kind == MN_CHANGE_RULE)
        mn_out_note(out, MN_PLAIN, "  %c %s", c->to ? '+' : '-', what);
    else if (nic_in(c, &length))
        note_sysctls(out, list, at);
    else if (c->from && c->to)
        mn_out_note(out, MN_PLAIN, "  %s%s%s %s: %s -> %s", c->nic, space, what,
                    mn_change_kind_name(c->kind), c->from, c->to);
    else
        mn_out_note(out, c->to ? MN_GREEN : MN_RED, "  %s%s%s %s: %c %s", c->nic, space, what,
                    mn_change_kind_name(c->kind), c->to ? '+' : '-', c->to ? c->to : c->from);
}

/* What apply keeps for itself, and nobody else reads. */
static int is_record(const struct mn_change *file)
{
    size_t length = strlen(file->what), end = strlen(MN_APPLY_RECORD);

    return length >= end && !strcmp(file->what + length - end, MN_APPLY_RECORD);
}

void mn_topo_apply_show_file(struct mn_out *out, const struct mn_change *c, int whole)
{
    char lines[48] = "";
    int record = is_record(c), all = whole > record;

    if (!all) {
        size_t n = mn_topo_apply_diff(NULL, c->from, c->to);
        snprintf(lines, sizeof lines, "%s%zu line%s%s", !c->from || !c->to ? ", " : "", n,
                 n == 1 ? "" : "s", c->from && c->to ? (n == 1 ? " changes" : " change") : "");
    }
    const char *how = !c->from ? "new" : !c->to ? "goes" : all ? "changes" : "";
    mn_out_note(out, MN_BOLD, "  %s (%s%s%s)", c->what, how, lines,
                record && !all ? "; what apply has set, for itself" : "");
    if (all)
        mn_topo_apply_diff(out, c->from, c->to);
}

static void show_file(struct mn_out *out, const struct mn_changes *list, size_t at, int whole)
{
    const struct mn_change *c = &list->items[at];

    mn_out_begin(out, NULL, NULL);
    mn_out_str(out, "path", NULL, c->what);
    mn_out_str(out, "from", NULL, c->from);
    mn_out_str(out, "to", NULL, c->to);
    mn_out_strf(out, "mode", NULL, "%04o", c->to_mode);
    mn_out_end(out);
    mn_topo_apply_show_file(out, c, whole);
}

static void show_list(struct mn_out *out, const char *key, const cJSON *json,
                      void (*show)(struct mn_out *, const struct mn_changes *, size_t, int),
                      int whole)
{
    struct mn_changes list = {.items = NULL};

    mn_out_list_begin(out, key, NULL);
    if (json && !mn_changes_parse(json, &list, NULL))
        for (size_t i = 0; i < list.count; i++)
            show(out, &list, i, whole);
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
