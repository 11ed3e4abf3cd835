#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/plain.h"
#include "topo/base/alloc.h"
#include "topo/base/out.h"

/* What the figures of a row have in common. */
struct subject {
    const char *file, *kind, *name, *link, *from, *to, *status, *variant;
    double bytes;
};

/* A spreadsheet takes a cell that begins so for a formula: it is quoted as spreadsheets do. */
static void put_text(struct mn_out *out, const char *text)
{
    if (text && text[0] && strchr("=+-@", text[0]))
        mn_out_cellf(out, "'%s", text);
    else
        mn_out_cell(out, text ? text : "");
}

static void put(struct mn_out *out, const struct subject *of, const char *metric, const char *unit,
                double value)
{
    if (!isfinite(value))
        return;
    mn_out_row(out);
    put_text(out, of->file);
    put_text(out, of->kind);
    put_text(out, of->name);
    put_text(out, of->link);
    put_text(out, of->from);
    put_text(out, of->to);
    put_text(out, of->status);
    put_text(out, of->variant);
    if (isfinite(of->bytes))
        mn_out_cellf(out, "%.0f", of->bytes);
    else
        mn_out_cell(out, "");
    mn_out_cell(out, metric);
    mn_out_cell(out, unit);
    mn_out_cellf(out, "%.9g", value);
}

static void put_spread(struct mn_out *out, const struct subject *of,
                       const struct mn_report_spread *spread)
{
    put(out, of, "ci95", "%", spread->ci95);
    put(out, of, "repetitions", "", spread->repetitions);
    put(out, of, "outliers", "", spread->outliers);
}

static void put_cells(struct mn_out *out, const struct mn_report_doc *doc, struct subject of)
{
    for (size_t i = 0; i < doc->n_cells; i++) {
        const struct mn_report_cell *cell = &doc->cells[i];
        of.name = cell->pair ? "pair" : "link";
        of.link = cell->link;
        of.from = cell->from;
        of.to = cell->to;
        of.status = cell->status;
        of.bytes = cell->bytes;
        put(out, &of, "up", "", !strcmp(cell->status, "ok"));
        put(out, &of, "out", "Gb/s", cell->out_gbps);
        put(out, &of, "in", "Gb/s", cell->in_gbps);
        put(out, &of, "both", "Gb/s", cell->both_gbps);
        put(out, &of, "expected", "Gb/s", cell->expected_gbps);
        put(out, &of, "ratio", "", cell->ratio);
        put(out, &of, "p50", "us", cell->p50_us);
        put(out, &of, "p99", "us", cell->p99_us);
        put(out, &of, "lost", "packets", cell->lost);
    }
}

static void put_link(struct mn_out *out, const struct mn_report_doc *doc, struct subject of)
{
    of.from = doc->here;
    of.to = doc->peer;
    of.name = "latency";
    for (size_t i = 0; i < doc->n_latency; i++) {
        const struct mn_report_latency *row = &doc->latency[i];
        of.bytes = row->size;
        put(out, &of, "min", "us", row->min);
        put(out, &of, "mean", "us", row->mean);
        put(out, &of, "p50", "us", row->p50);
        put(out, &of, "p99", "us", row->p99);
        put(out, &of, "p99.9", "us", row->p999);
        put_spread(out, &of, &row->spread);
    }
    of.name = "bandwidth";
    for (size_t i = 0; i < doc->n_bandwidth; i++) {
        const struct mn_report_bandwidth *row = &doc->bandwidth[i];
        of.bytes = row->size;
        of.variant = row->direction;
        put(out, &of, "bandwidth", "Gb/s", row->gbps);
        put(out, &of, "messages", "1/s", row->messages);
        put(out, &of, "cpu", "s/GB", row->cpu);
        put_spread(out, &of, &row->spread);
    }
}

/* Lists that only a profile of the bench has: the figures of each row. */
static const struct profile {
    const char *list, *name, *key, *metric, *unit;
} profiles[] = {
    {"rates", "rate", "messages_per_s", "messages", "1/s"},
    {"rates", "rate", "gbps", "bandwidth", "Gb/s"},
    {"bursts", "burst", "p50_us", "p50", "us"},
    {"bursts", "burst", "p99_us", "p99", "us"},
    {"bursts", "burst", "max_us", "max", "us"},
    {"raw_verbs", "verbs alone", "gbps", "bandwidth", "Gb/s"},
    {"raw_verbs", "verbs alone", "messages_per_s", "messages", "1/s"},
    {"raw_verbs", "verbs alone", "p50_us", "p50", "us"},
    {"raw_verbs", "verbs alone", "p99_us", "p99", "us"},
};

static void put_profiles(struct mn_out *out, const struct mn_report_doc *doc, struct subject of)
{
    of.from = doc->here;
    of.to = doc->peer;
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++) {
        const struct profile *p = &profiles[i];
        const cJSON *row;
        of.name = p->name;
        cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(doc->results.json, p->list))
        {
            const char *path = mn_results_text(row, "path", NULL);
            char *variant = mn_asprintf("%s%s%s", path ? path : "", path ? " " : "",
                                        mn_results_text(row, "direction", ""));
            of.variant = variant;
            of.bytes = mn_results_number(row, "size", NAN);
            put(out, &of, p->metric, p->unit, mn_results_number(row, p->key, NAN));
            free(variant);
        }
    }
}

static void put_collectives(struct mn_out *out, const struct mn_report_doc *doc, struct subject of)
{
    for (size_t i = 0; i < doc->n_collectives; i++) {
        const struct mn_report_collective *row = &doc->collectives[i];
        of.name = row->collective;
        of.bytes = row->bytes;
        for (int place = 0; place < 2; place++) {
            const struct mn_report_times *t = &row->place[place];
            char *variant =
                mn_asprintf("%s %s%s%s%s", row->algorithm, row->type, row->op ? " " : "",
                            row->op ? row->op : "", place ? " in place" : "");
            of.variant = variant;
            put(out, &of, "time", "us", t->time);
            put(out, &of, "p50", "us", t->p50);
            put(out, &of, "p99", "us", t->p99);
            put(out, &of, "algbw", "GB/s", t->algbw);
            put(out, &of, "busbw", "GB/s", t->busbw);
            put(out, &of, "wrong", "elements", t->wrong);
            put_spread(out, &of, &t->spread);
            free(variant);
        }
    }
}

enum mn_err mn_report_csv(const struct mn_report *report, FILE *file, struct mn_diag *diag)
{
    static const struct mn_col cols[] = {
        {"file", "", 0},  {"kind", "", 0},   {"name", "", 0},   {"link", "", 0},
        {"from", "", 0},  {"to", "", 0},     {"status", "", 0}, {"variant", "", 0},
        {"bytes", "", 1}, {"metric", "", 0}, {"unit", "", 0},   {"value", "", 1},
    };
    struct mn_out *out = mn_out_new(file, MN_OUT_CSV);

    mn_out_table(out, "figures", NULL, cols, (int)(sizeof cols / sizeof *cols));
    for (size_t i = 0; i < report->n_docs; i++) {
        const struct mn_report_doc *doc = &report->docs[i];
        struct subject of = {.file = doc->name,
                             .kind = mn_results_kinds[doc->results.kind].name,
                             .bytes = NAN};
        put_cells(out, doc, of);
        put_link(out, doc, of);
        put_profiles(out, doc, of);
        put_collectives(out, doc, of);
    }
    mn_out_table_end(out);
    return mn_out_free(out) ? mn_fail(diag, MN_ERR_NOMEM, "out of memory for the report") : MN_OK;
}
