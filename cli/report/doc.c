#include "cli/report/doc.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/text.h"
#include "topo/base/alloc.h"

const cJSON *mn_report_at(const cJSON *object, ...)
{
    const char *key;
    va_list keys;

    va_start(keys, object);
    while ((key = va_arg(keys, const char *)))
        object = cJSON_GetObjectItemCaseSensitive(object, key);
    va_end(keys);
    return object;
}

static const char *text_of(const cJSON *object, const char *key)
{
    return mn_results_text(object, key, NULL);
}

static double number_of(const cJSON *object, const char *key)
{
    return mn_results_number(object, key, NAN);
}

static enum mn_err clean(const char *file, cJSON *item, struct mn_diag *diag)
{
    for (; item; item = item->next) {
        if (cJSON_IsString(item)) {
            char *text = mn_text_clean(item->valuestring);
            const char *set = cJSON_SetValuestring(item, text);
            free(text);
            if (!set)
                return mn_fail(diag, MN_ERR_NOMEM, "%s: out of memory", file);
        }
        enum mn_err err = clean(file, item->child, diag);
        if (err)
            return err;
    }
    return MN_OK;
}

/* --- rows ------------------------------------------------------------------------------------- */

static void read_cell(struct mn_report_doc *doc, const cJSON *from)
{
    struct mn_report_cell *cell = mn_grow((void **)&doc->cells, &doc->n_cells, sizeof *cell);
    const char *mode = text_of(from, "mode");

    *cell = (struct mn_report_cell){
        .pair = mode && !strcmp(mode, "pair"),
        .link = text_of(from, "link"),
        .from = text_of(from, "from"),
        .to = text_of(from, "to"),
        .netdev_from = text_of(from, "netdev_from"),
        .netdev_to = text_of(from, "netdev_to"),
        .status = text_of(from, "status"),
        .transport = text_of(from, "transport"),
        .error = text_of(from, "error"),
        .expected_by = text_of(from, "expected_by"),
        .bytes = number_of(from, "bytes"),
        .out_gbps = number_of(from, "out_gbps"),
        .in_gbps = number_of(from, "in_gbps"),
        .both_gbps = number_of(from, "both_gbps"),
        .p50_us = number_of(from, "p50_us"),
        .p99_us = number_of(from, "p99_us"),
        .expected_gbps = number_of(from, "expected_gbps"),
        .ratio = number_of(from, "ratio"),
        .lost = number_of(from, "lost_packets"),
    };
    cell->from = cell->from ? cell->from : "?";
    cell->to = cell->to ? cell->to : "?";
    cell->status = cell->status ? cell->status : "not measured";
}

static void read_carried(struct mn_report_doc *doc, const cJSON *from)
{
    struct mn_report_carried *row = mn_grow((void **)&doc->carried, &doc->n_carried, sizeof *row);

    *row = (struct mn_report_carried){
        .from = text_of(from, "from"),
        .to = text_of(from, "to"),
        .node = text_of(from, "node"),
        .netdev = text_of(from, "netdev"),
        .share = number_of(from, "share"),
    };
}

static void read_finding(struct mn_report_doc *doc, const cJSON *from)
{
    struct mn_report_finding *f = mn_grow((void **)&doc->findings, &doc->n_findings, sizeof *f);

    *f = (struct mn_report_finding){
        .severity = text_of(from, "severity"),
        .link = text_of(from, "link"),
        .from = text_of(from, "from"),
        .to = text_of(from, "to"),
        .text = text_of(from, "text"),
    };
}

static double number_in(const cJSON *object, int place, const char *key)
{
    char name[64];

    snprintf(name, sizeof name, "%s%s", place ? "in_place_" : "", key);
    return number_of(object, name);
}

static struct mn_report_spread read_spread(struct mn_report_doc *doc, const cJSON *row, int place)
{
    const cJSON *steady =
        cJSON_GetObjectItemCaseSensitive(row, place ? "in_place_steady" : "steady");
    struct mn_report_spread spread = {
        .ci95 = number_in(row, place, "ci95_percent"),
        .repetitions = number_in(row, place, "repetitions"),
        .outliers = number_in(row, place, "outliers"),
        .unsteady = cJSON_IsFalse(steady),
    };

    doc->unsteady += (size_t)spread.unsteady;
    doc->steadied += (size_t)(cJSON_IsBool(steady) != 0);
    return spread;
}

static void read_latency(struct mn_report_doc *doc, const cJSON *from)
{
    struct mn_report_latency *row = mn_grow((void **)&doc->latency, &doc->n_latency, sizeof *row);

    *row = (struct mn_report_latency){
        .size = number_of(from, "size"),
        .rounds = number_of(from, "rounds"),
        .min = number_of(from, "min_us"),
        .mean = number_of(from, "mean_us"),
        .p50 = number_of(from, "p50_us"),
        .p99 = number_of(from, "p99_us"),
        .p999 = number_of(from, "p999_us"),
        .spread = read_spread(doc, from, 0),
    };
}

static void read_bandwidth(struct mn_report_doc *doc, const cJSON *from)
{
    struct mn_report_bandwidth *row =
        mn_grow((void **)&doc->bandwidth, &doc->n_bandwidth, sizeof *row);

    *row = (struct mn_report_bandwidth){
        .size = number_of(from, "size"),
        .direction = text_of(from, "direction"),
        .gbps = number_of(from, "gbps"),
        .messages = number_of(from, "messages_per_s"),
        .cpu = number_of(from, "cpu_s_per_gb"),
        .spread = read_spread(doc, from, 0),
    };
    row->direction = row->direction ? row->direction : "?";
}

static void read_collective(struct mn_report_doc *doc, const cJSON *from)
{
    struct mn_report_collective *row =
        mn_grow((void **)&doc->collectives, &doc->n_collectives, sizeof *row);

    *row = (struct mn_report_collective){
        .collective = text_of(from, "collective"),
        .type = text_of(from, "type"),
        .op = text_of(from, "op"),
        .algorithm = text_of(from, "algorithm"),
        .bytes = number_of(from, "bytes"),
        .count = number_of(from, "count"),
        .iterations = number_of(from, "iterations"),
    };
    row->collective = row->collective ? row->collective : "?";
    row->algorithm = row->algorithm ? row->algorithm : "?";
    row->type = row->type ? row->type : "?";
    for (int place = 0; place < 2; place++)
        row->place[place] = (struct mn_report_times){
            .time = number_in(from, place, "time_us"),
            .p50 = number_in(from, place, "p50_us"),
            .p99 = number_in(from, place, "p99_us"),
            .algbw = number_in(from, place, "algbw_gb_per_s"),
            .busbw = number_in(from, place, "busbw_gb_per_s"),
            .wrong = number_in(from, place, "wrong"),
            .spread = read_spread(doc, from, place),
        };
}

static void read_node(struct mn_report_doc *doc, const cJSON *from)
{
    const char *name = text_of(from, "name");
    const char **slot = mn_grow((void **)&doc->nodes, &doc->n_nodes, sizeof *slot);

    *slot = name ? name : "?";
}

static const struct {
    const char *key;
    void (*read)(struct mn_report_doc *doc, const cJSON *from);
} lists[] = {
    {"nodes", read_node},        {"ranks", read_node},
    {"cells", read_cell},        {"findings", read_finding},
    {"carried", read_carried},   {"latency", read_latency},
    {"results", read_bandwidth}, {"collectives", read_collective},
};

/* --- directions ------------------------------------------------------------------------------- */

static int same(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static int is_about(const struct mn_report_doc *doc, const struct mn_report_finding *finding,
                    const struct mn_report_cell *cell)
{
    int ends = (same(finding->from, cell->from) && same(finding->to, cell->to)) ||
               (same(finding->from, cell->to) && same(finding->to, cell->from));

    if (finding->link)
        return !cell->pair && same(finding->link, cell->link);
    return ends && (cell->pair || !mn_report_has_cells(doc, 1));
}

/* What was measured was also judged, by who knows more of it (whether RDMA carried it, what the
 * others have); without that judgement the share of what is expected has to do. */
static enum mn_grade grade_cell(const struct mn_report_doc *doc, const struct mn_report_cell *cell,
                                double ratio)
{
    enum mn_grade grade = MN_GRADE_GOOD;

    for (size_t i = 0; i < doc->n_findings; i++)
        if (is_about(doc, &doc->findings[i], cell) && mn_report_severity(&doc->findings[i]) > grade)
            grade = mn_report_severity(&doc->findings[i]);
    if (!cJSON_HasObjectItem(doc->results.json, "findings"))
        grade = ratio < MN_REPORT_BAD                       ? MN_GRADE_BAD
                : ratio < MN_REPORT_SHORT || cell->lost > 0 ? MN_GRADE_WARN
                                                            : MN_GRADE_GOOD;
    return grade;
}

static void add_way(struct mn_report_doc *doc, const struct mn_report_cell *cell, int back)
{
    struct mn_report_way *way = mn_grow((void **)&doc->ways, &doc->n_ways, sizeof *way);
    double gbps = back ? cell->in_gbps : cell->out_gbps;

    *way = (struct mn_report_way){
        .cell = cell,
        .from = back ? cell->to : cell->from,
        .to = back ? cell->from : cell->to,
        .gbps = gbps,
        .ratio =
            cell->expected_gbps > 0 && isfinite(gbps) ? gbps / cell->expected_gbps : cell->ratio,
        .measured = !strcmp(cell->status, "ok") && isfinite(gbps),
    };
    way->grade = strcmp(cell->status, "ok") != 0 && strcmp(cell->status, "not measured") != 0
                     ? MN_GRADE_BAD
                     : grade_cell(doc, cell, way->ratio);
}

int mn_report_has_cells(const struct mn_report_doc *doc, int pair)
{
    for (size_t i = 0; i < doc->n_cells; i++)
        if (doc->cells[i].pair == pair)
            return 1;
    return 0;
}

/* Whether the way back was measured from the other end. */
static int has_own_way_back(const struct mn_report_doc *doc, const struct mn_report_cell *cell)
{
    for (size_t i = 0; i < doc->n_cells; i++) {
        const struct mn_report_cell *other = &doc->cells[i];
        if (other != cell && other->pair == cell->pair && same(other->link, cell->link) &&
            same(other->from, cell->to) && same(other->to, cell->from))
            return 1;
    }
    return 0;
}

static const struct mn_report_way *find_back(const struct mn_report_doc *doc,
                                             const struct mn_report_way *way)
{
    for (size_t i = 0; i < doc->n_ways; i++) {
        const struct mn_report_way *other = &doc->ways[i];
        if (other != way && other->cell->pair == way->cell->pair &&
            same(other->cell->link, way->cell->link) && same(other->from, way->to) &&
            same(other->to, way->from))
            return other;
    }
    return NULL;
}

static void add_ways(struct mn_report_doc *doc)
{
    for (size_t i = 0; i < doc->n_cells; i++) {
        add_way(doc, &doc->cells[i], 0);
        if (!has_own_way_back(doc, &doc->cells[i]))
            add_way(doc, &doc->cells[i], 1);
    }
    for (size_t i = 0; i < doc->n_ways; i++)
        doc->ways[i].back = find_back(doc, &doc->ways[i]);
    /* Where one direction falls short, it is meant and not the other. */
    for (size_t i = 0; i < doc->n_ways; i++) {
        struct mn_report_way *way = &doc->ways[i];
        if (way->measured && way->ratio >= MN_REPORT_SHORT && way->back && !(way->cell->lost > 0) &&
            way->back->ratio < MN_REPORT_SHORT)
            way->grade = MN_GRADE_GOOD;
    }
}

/* A cell may name a node that the list of nodes does not. */
static void name_nodes(struct mn_report_doc *doc)
{
    for (size_t i = 0; i < 2 * doc->n_cells; i++) {
        const char *name = i % 2 ? doc->cells[i / 2].to : doc->cells[i / 2].from;
        size_t n = 0;
        while (n < doc->n_nodes && strcmp(doc->nodes[n], name) != 0)
            n++;
        if (n == doc->n_nodes)
            *(const char **)mn_grow((void **)&doc->nodes, &doc->n_nodes, sizeof(char *)) = name;
    }
}

/* --- */

static void add_environment(struct mn_report *report, const cJSON *list)
{
    const cJSON *node;

    cJSON_ArrayForEach(node, list)
    {
        size_t i = 0;
        while (i < report->n_environment && !cJSON_Compare(node, report->environment[i], 1))
            i++;
        if (i == report->n_environment)
            *(const cJSON **)mn_grow((void **)&report->environment, &report->n_environment,
                                     sizeof(cJSON *)) = node;
    }
}

/* The last so many parts of a path, or all. */
static const char *tail_of(const char *path, int parts)
{
    const char *at = path + strlen(path);

    while (at > path && (at[-1] != '/' || --parts > 0))
        at--;
    return at;
}

/* As few parts of the paths as tell them apart. */
static void name_files(struct mn_report *report)
{
    for (size_t i = 0; i < report->n_docs; i++) {
        struct mn_report_doc *doc = &report->docs[i];
        int parts = 1, alike = 1;
        for (; alike; parts++) {
            doc->name = tail_of(doc->path, parts);
            alike = 0;
            for (size_t k = 0; k < report->n_docs && doc->name != doc->path; k++)
                alike |= k != i && !strcmp(doc->name, tail_of(report->docs[k].path, parts));
        }
    }
}

enum mn_err mn_report_read(struct mn_report *report, const char *file, struct mn_diag *diag)
{
    struct mn_report_doc *doc = mn_grow((void **)&report->docs, &report->n_docs, sizeof *doc);
    enum mn_err err = mn_results_read(file, &doc->results, diag);
    cJSON *json = doc->results.json;
    const cJSON *item;

    if (!err)
        err = clean(file, json, diag);
    if (err)
        return err;
    doc->path = mn_text_clean(file);
    doc->started = text_of(json, "started");
    doc->version = text_of(json, "meshnet");
    doc->error = text_of(json, "error");
    doc->complete = !cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(json, "complete"));
    doc->nranks = number_of(json, "nranks");
    doc->wrong = number_of(json, "wrong_messages");
    doc->checked = number_of(json, "checked_messages");
    doc->here = mn_results_text(cJSON_GetObjectItemCaseSensitive(json, "here"), "node", "here");
    doc->peer = mn_results_text(cJSON_GetObjectItemCaseSensitive(json, "peer"), "node", "peer");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(json, lists[i].key)) lists[i]
            .read(doc, item);
    name_nodes(doc);
    add_ways(doc);
    add_environment(report, cJSON_GetObjectItemCaseSensitive(json, "environment"));
    name_files(report);
    return MN_OK;
}

char *mn_report_run(const struct mn_report *report, const struct mn_report_doc *doc, char *buf,
                    size_t size)
{
    size_t number = (size_t)(doc - report->docs) + 1;

    snprintf(buf, size, "Run %zu: %s%s%s", number, doc->name, doc->started ? ", " : "",
             doc->started ? doc->started : "");
    return buf;
}

void mn_report_free(struct mn_report *report)
{
    for (size_t i = 0; i < report->n_docs; i++) {
        struct mn_report_doc *doc = &report->docs[i];
        free(doc->carried);
        free(doc->path);
        free(doc->cells);
        free(doc->ways);
        free(doc->nodes);
        free(doc->findings);
        free(doc->latency);
        free(doc->bandwidth);
        free(doc->collectives);
        mn_results_free(&doc->results);
    }
    free(report->docs);
    free(report->environment);
}
