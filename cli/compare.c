#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/compare.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"

#define CI "ci95_percent"

static const struct mn_compare_list link_lists[] = {
    {"latency",
     {"size"},
     {{"p50_us", MN_BETTER_LOWER, CI, 0},
      {"mean_us", MN_BETTER_LOWER, CI, 0},
      {"p99_us", MN_BETTER_LOWER, NULL, 1}}},
    {"results",
     {"size", "direction"},
     {{"gbps", MN_BETTER_HIGHER, CI, 0}, {"cpu_s_per_gb", MN_BETTER_LOWER, NULL, 1}}},
    {"rates", {"size", "direction"}, {{"messages_per_s", MN_BETTER_HIGHER, CI, 0}}},
    {"bursts",
     {"size", "direction"},
     {{"p50_us", MN_BETTER_LOWER, NULL, 0}, {"p99_us", MN_BETTER_LOWER, NULL, 1}}},
    {"raw_verbs",
     {"size", "direction", "path"},
     {{"gbps", MN_BETTER_HIGHER, NULL, 0},
      {"p50_us", MN_BETTER_LOWER, NULL, 0},
      {"p99_us", MN_BETTER_LOWER, NULL, 1}}},
    {.list = NULL},
};

static const struct mn_compare_list collective_lists[] = {
    {"collectives",
     {"collective", "bytes", "type", "op", "root", "algorithm"},
     {{"time_us", MN_BETTER_LOWER, CI, 0},
      {"p99_us", MN_BETTER_LOWER, NULL, 1},
      {"wrong", MN_BETTER_NONE, NULL, 0},
      {"in_place_time_us", MN_BETTER_LOWER, "in_place_" CI, 0},
      {"in_place_p99_us", MN_BETTER_LOWER, NULL, 1},
      {"in_place_wrong", MN_BETTER_NONE, NULL, 0}}},
    {.list = NULL},
};

static const struct mn_compare_list matrix_lists[] = {
    {"cells",
     {"mode", "link", "from", "to", "netdev_from", "netdev_to", "bytes"},
     {{"status", MN_BETTER_OK, NULL, 0},
      {"out_gbps", MN_BETTER_HIGHER, CI, 0},
      {"in_gbps", MN_BETTER_HIGHER, CI, 0},
      {"both_gbps", MN_BETTER_HIGHER, CI, 0},
      {"p50_us", MN_BETTER_LOWER, CI, 0},
      {"p99_us", MN_BETTER_LOWER, NULL, 1},
      {"lost_percent", MN_BETTER_LOWER, NULL, 1}}},
    {.list = NULL},
};

const struct mn_compare_list *const mn_compare_lists[MN_RESULTS_KINDS] = {
    [MN_RESULTS_LINK] = link_lists,
    [MN_RESULTS_COLLECTIVES] = collective_lists,
    [MN_RESULTS_MATRIX] = matrix_lists,
};

const char *const mn_verdict_names[MN_VERDICTS] = {
    [MN_SAME] = "same",     [MN_FASTER] = "faster", [MN_SLOWER] = "slower", [MN_BROKEN] = "broken",
    [MN_MENDED] = "mended", [MN_GONE] = "gone",     [MN_NEW] = "new",
};

/* --- rows by their names ---------------------------------------------------------------------- */

struct entry {
    char *name;
    const cJSON *row;
    size_t at;
    int used;
};

struct entries {
    struct entry *list;
    size_t n;
};

static char *name_of(const cJSON *row, const char *const *keys)
{
    char *name = NULL;
    size_t size;
    FILE *file = open_memstream(&name, &size);

    if (!file)
        mn_no_memory();
    for (const char *space = ""; *keys; keys++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, *keys);
        if (cJSON_IsString(item))
            fprintf(file, "%s%s=%s", space, *keys, item->valuestring);
        else if (cJSON_IsNumber(item))
            fprintf(file, "%s%s=%.15g", space, *keys, item->valuedouble);
        else
            continue;
        space = " ";
    }
    fclose(file);
    return mn_clean(name);
}

static int by_name(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : x->at > y->at ? 1 : -1;
}

static struct entries entries_of(const struct mn_results *results,
                                 const struct mn_compare_list *list)
{
    const cJSON *row;
    struct entries e = {.n = 0};

    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(results->json, list->list))
    {
        size_t at = e.n;
        struct entry *new = mn_grow((void **)&e.list, &e.n, sizeof *new);
        *new = (struct entry){name_of(row, list->keys), row, at, 0};
    }
    return e;
}

/* The first of that name that is not taken yet: rows of one name are paired in their order. */
static struct entry *take(struct entries *sorted, const char *name)
{
    size_t low = 0, high = sorted->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(sorted->list[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < sorted->n && !strcmp(sorted->list[low].name, name); low++)
        if (!sorted->list[low].used) {
            sorted->list[low].used = 1;
            return &sorted->list[low];
        }
    return NULL;
}

static void free_entries(struct entries *e)
{
    for (size_t i = 0; i < e->n; i++)
        free(e->list[i].name);
    free(e->list);
}

/* --- judging ---------------------------------------------------------------------------------- */

static void add(struct mn_comparison *c, const char *name, struct mn_compare_row row)
{
    row.name = mn_strdup(name);
    *(struct mn_compare_row *)mn_grow((void **)&c->rows, &c->n_rows, sizeof row) = row;
    c->counts[row.verdict]++;
    c->regressions += row.regression != 0;
}

static void judge_text(struct mn_compare_row *row)
{
    int ok[2];

    for (int i = 0; i < 2; i++)
        ok[i] = !strcmp(row->texts[i], "ok");
    row->verdict = ok[0] == ok[1] ? MN_SAME : ok[0] ? MN_BROKEN : MN_MENDED;
    row->regression = row->verdict == MN_BROKEN;
}

static void judge_count(struct mn_compare_row *row)
{
    row->verdict = row->values[1] > row->values[0]   ? MN_BROKEN
                   : row->values[1] < row->values[0] ? MN_MENDED
                                                     : MN_SAME;
    row->regression = row->verdict == MN_BROKEN;
}

static void judge_speed(struct mn_compare_row *row, const struct mn_compare_metric *m,
                        double threshold)
{
    double old = row->values[0], new = row->values[1];

    if (old == new)
        row->change = 0;
    else if (old > 0)
        row->change = (new / old - 1) * 100;
    else
        row->change = INFINITY;
    /* Comparisons with NaN are false: an unknown noise is as large as the threshold. */
    double limit = row->noise >= 0 ? row->noise : threshold;
    if (!(fabs(row->change) > limit))
        return;
    int faster = (new > old) == (m->better == MN_BETTER_HIGHER);
    row->verdict = faster ? MN_FASTER : MN_SLOWER;
    row->regression = !faster && !m->told_only && fabs(row->change) > threshold;
}

static void compare_metric(struct mn_comparison *c, const struct mn_compare_list *list,
                           const struct mn_compare_metric *m, const char *name,
                           const cJSON *const rows[2], double threshold)
{
    struct mn_compare_row row = {.list = list->list, .metric = m->key, .change = NAN, .noise = NAN};
    double ci[2];

    for (int i = 0; i < 2; i++) {
        row.values[i] = mn_results_number(rows[i], m->key, NAN);
        ci[i] = m->ci ? mn_results_number(rows[i], m->ci, NAN) : NAN;
    }
    row.noise = hypot(ci[0], ci[1]);
    if (m->better == MN_BETTER_OK) {
        for (int i = 0; i < 2; i++)
            row.texts[i] = mn_results_text(rows[i], m->key, NULL);
        if (!row.texts[0] || !row.texts[1])
            return;
        judge_text(&row);
    } else if (isnan(row.values[0]) && isnan(row.values[1])) {
        return;
    } else if (isnan(row.values[0]) || isnan(row.values[1])) {
        row.verdict = isnan(row.values[0]) ? MN_NEW : MN_GONE;
    } else if (m->better == MN_BETTER_NONE) {
        judge_count(&row);
    } else {
        judge_speed(&row, m, threshold);
    }
    add(c, name, row);
}

static size_t compare_list(const struct mn_results *before, const struct mn_results *after,
                           const struct mn_compare_list *list, double threshold,
                           struct mn_comparison *c)
{
    struct entries old = entries_of(before, list), new = entries_of(after, list);
    struct mn_compare_row whole = {.list = list->list, .values = {NAN, NAN}, .change = NAN};
    size_t common = 0;

    whole.noise = NAN;
    if (new.n)
        qsort(new.list, new.n, sizeof *new.list, by_name);
    for (size_t i = 0; i < old.n; i++) {
        struct entry *match = take(&new, old.list[i].name);
        if (!match) {
            whole.verdict = MN_GONE;
            add(c, old.list[i].name, whole);
            continue;
        }
        const cJSON *const rows[2] = {old.list[i].row, match->row};
        common++;
        for (const struct mn_compare_metric *m = list->metrics; m->key; m++)
            compare_metric(c, list, m, match->name, rows, threshold);
    }
    whole.verdict = MN_NEW;
    for (size_t i = 0; i < new.n; i++)
        if (!new.list[i].used)
            add(c, new.list[i].name, whole);
    free_entries(&old);
    free_entries(&new);
    return common;
}

/* --- */

void mn_compare_warn(struct mn_comparison *c, const char *fmt, ...)
{
    va_list args;
    char *text;

    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        mn_no_memory();
    va_end(args);
    *(char **)mn_grow((void **)&c->warnings, &c->n_warnings, sizeof text) = mn_clean(text);
}

enum mn_err mn_compare(const struct mn_results *before, const struct mn_results *after,
                       double threshold, struct mn_comparison *c, struct mn_diag *diag)
{
    size_t common = 0;

    memset(c, 0, sizeof *c);
    if (before->kind != after->kind)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "the first file has results of kind '%s', the second of kind '%s'; expected "
                       "two of the same",
                       mn_results_kinds[before->kind].name, mn_results_kinds[after->kind].name);
    for (const struct mn_compare_list *list = mn_compare_lists[before->kind]; list->list; list++)
        common += compare_list(before, after, list, threshold, c);
    if (!common)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "the two files have no row in common: measure both with the same options");
    mn_compare_environments(before, after, c);
    return MN_OK;
}

void mn_comparison_free(struct mn_comparison *c)
{
    for (size_t i = 0; i < c->n_rows; i++)
        free(c->rows[i].name);
    for (size_t i = 0; i < c->n_warnings; i++)
        free(c->warnings[i]);
    free(c->rows);
    free(c->warnings);
    memset(c, 0, sizeof *c);
}
