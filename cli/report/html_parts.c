#include <math.h>
#include <string.h>

#include "cli/report/chart.h"
#include "cli/report/drawing.h"
#include "cli/report/html.h"
#include "cli/report/tables.h"
#include "cli/report/text.h"

/* --- key figures ------------------------------------------------------------------------------ */

static void put_fact(FILE *file, const char *label, double value, const char *unit,
                     const char *where)
{
    char figure[32];

    fputs("<div><dt>", file);
    mn_text_html(file, label);
    fprintf(file, "</dt><dd>%s %s<small>", mn_text_figures(value, figure, sizeof figure), unit);
    mn_text_html(file, where);
    fputs("</small></dd></div>\n", file);
}

static void mesh_facts(FILE *file, const struct mn_report_doc *doc)
{
    const struct mn_report_way *least = NULL, *most = NULL;
    const struct mn_report_cell *quick = NULL, *late = NULL;
    int pair = !mn_report_has_cells(doc, 0);
    char where[2048];

    for (size_t i = 0; i < doc->n_ways; i++) {
        const struct mn_report_way *way = &doc->ways[i];
        if (way->cell->pair != pair || !way->measured)
            continue;
        least = !least || way->gbps < least->gbps ? way : least;
        most = !most || way->gbps > most->gbps ? way : most;
        if (!isfinite(way->cell->p50_us))
            continue;
        quick = !quick || way->cell->p50_us < quick->p50_us ? way->cell : quick;
        late = !late || way->cell->p50_us > late->p50_us ? way->cell : late;
    }
    if (most) {
        snprintf(where, sizeof where, "%s to %s", most->from, most->to);
        put_fact(file, "Fastest direction", most->gbps, "Gb/s", where);
        snprintf(where, sizeof where, "%s to %s", least->from, least->to);
        put_fact(file, "Slowest direction that works", least->gbps, "Gb/s", where);
    }
    if (quick) {
        snprintf(where, sizeof where, "%s to %s", quick->from, quick->to);
        put_fact(file, "Lowest latency, median", quick->p50_us, "µs", where);
        snprintf(where, sizeof where, "%s to %s", late->from, late->to);
        put_fact(file, "Highest latency, median", late->p50_us, "µs", where);
    }
}

static void link_facts(FILE *file, const struct mn_report_doc *doc)
{
    static const char *const ways[][2] = {{"out", "Most to the peer"},
                                          {"in", "Most from the peer"},
                                          {"both", "Both ways at once"}};
    const struct mn_report_latency *small = NULL;
    char where[256], size[32], figure[32];

    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        const struct mn_report_bandwidth *best = NULL;
        for (size_t i = 0; i < doc->n_bandwidth; i++)
            if (!strcmp(doc->bandwidth[i].direction, ways[w][0]) &&
                doc->bandwidth[i].gbps > (best ? best->gbps : 0))
                best = &doc->bandwidth[i];
        if (!best)
            continue;
        snprintf(where, sizeof where, "at %s", mn_text_size(best->size, size, sizeof size));
        put_fact(file, ways[w][1], best->gbps, "Gb/s", where);
    }
    for (size_t i = 0; i < doc->n_latency; i++)
        if (!small || doc->latency[i].size < small->size)
            small = &doc->latency[i];
    if (small) {
        snprintf(where, sizeof where, "%s bytes; p99 %s µs",
                 mn_text_size(small->size, size, sizeof size),
                 mn_text_figures(small->p99, figure, sizeof figure));
        put_fact(file, "Latency, median", small->p50, "µs", where);
    }
}

static void collective_facts(FILE *file, const struct mn_report_doc *doc)
{
    const struct mn_report_collective *best = NULL, *small = NULL;
    char where[1024], size[32];

    for (size_t i = 0; i < doc->n_collectives; i++) {
        const struct mn_report_collective *row = &doc->collectives[i];
        if (strcmp(row->collective, doc->collectives[0].collective) != 0)
            continue;
        if (row->place[0].busbw > (best ? best->place[0].busbw : 0))
            best = row;
        if (isfinite(row->place[0].p50) &&
            (!small || row->bytes < small->bytes ||
             (!(row->bytes > small->bytes) && row->place[0].p50 < small->place[0].p50)))
            small = row;
    }
    if (best) {
        snprintf(where, sizeof where, "%s at %s, %s", best->collective,
                 mn_text_size(best->bytes, size, sizeof size), best->algorithm);
        put_fact(file, "Most bus bandwidth", best->place[0].busbw, "GB/s", where);
    }
    if (small) {
        snprintf(where, sizeof where, "%s of %s bytes, %s", small->collective,
                 mn_text_size(small->bytes, size, sizeof size), small->algorithm);
        put_fact(file, "Shortest time, median", small->place[0].p50, "µs", where);
    }
}

void mn_page_facts(struct mn_page *page, const struct mn_report_doc *doc)
{
    static void (*const facts[MN_RESULTS_KINDS])(FILE *, const struct mn_report_doc *) = {
        [MN_RESULTS_MATRIX] = mesh_facts,
        [MN_RESULTS_LINK] = link_facts,
        [MN_RESULTS_COLLECTIVES] = collective_facts,
    };
    facts[doc->results.kind](page->file, doc);
}

/* --- a mesh ----------------------------------------------------------------------------------- */

static void put_way(const struct mn_report_way *way, FILE *file)
{
    char figure[32];

    if (way->measured) {
        fprintf(file, "<b>%s</b> Gb/s", mn_text_figures(way->gbps, figure, sizeof figure));
        if (isfinite(way->ratio))
            fprintf(file, "<small>%.0f %%</small>", 100 * way->ratio);
        if (way->cell->lost > 0 && way->grade != MN_GRADE_GOOD)
            fprintf(file, "<small>⚠ %.0f lost</small>", way->cell->lost);
        else if (way->grade != MN_GRADE_GOOD && !(way->ratio < MN_REPORT_SHORT))
            fputs("<small>⚠ see findings</small>", file);
    } else {
        fprintf(file, "<b>%s", way->grade == MN_GRADE_BAD ? "✕ " : "");
        mn_text_html(file, strcmp(way->cell->status, "ok") ? way->cell->status : "not measured");
        fputs("</b>", file);
    }
}

/* A square with one figure has its colour, one with several has spans. */
static void put_square(const struct mn_report_doc *doc, int pair, size_t from, size_t to,
                       FILE *file)
{
    const struct mn_report_way *found[16];
    size_t n = 0;

    for (size_t i = 0; i < doc->n_ways && n < sizeof found / sizeof *found; i++) {
        const struct mn_report_way *way = &doc->ways[i];
        if (way->cell->pair == pair && !strcmp(way->from, doc->nodes[from]) &&
            !strcmp(way->to, doc->nodes[to]))
            found[n++] = way;
    }
    if (!n)
        fprintf(file, "<td class=\"self\">%s", from == to ? "" : "no link");
    else if (n > 1)
        fputs("<td>", file);
    for (size_t i = 0; i < n; i++) {
        fprintf(file, "<%s class=\"way %s\">", n > 1 ? "span" : "td", mn_drawing_class(found[i]));
        if (n > 1 && found[i]->cell->link) {
            fputs("<small>", file);
            mn_text_html(file, found[i]->cell->link);
            fputs("</small>", file);
        }
        put_way(found[i], file);
        fputs(n > 1 ? "</span>" : "", file);
    }
    fputs("</td>", file);
}

static void put_heat(const struct mn_report_doc *doc, int pair, FILE *file)
{
    fprintf(file,
            "<figure class=\"heat\">" MN_SCROLL_BEGIN "<table>\n"
            "<caption>%s: row to column</caption>\n<thead><tr><th scope=\"col\">from \\ to</th>",
            pair ? "Pairs of nodes, over all their links together" : "Each link");
    for (size_t i = 0; i < doc->n_nodes; i++) {
        fputs("<th scope=\"col\">", file);
        mn_text_html(file, doc->nodes[i]);
        fputs("</th>", file);
    }
    fputs("</tr></thead>\n<tbody>\n", file);
    for (size_t from = 0; from < doc->n_nodes; from++) {
        fputs("<tr><th scope=\"row\">", file);
        mn_text_html(file, doc->nodes[from]);
        fputs("</th>", file);
        for (size_t to = 0; to < doc->n_nodes; to++)
            put_square(doc, pair, from, to, file);
        fputs("</tr>\n", file);
    }
    fputs("</tbody></table>" MN_SCROLL_END "</figure>\n", file);
}

static void put_note(struct mn_page *page, enum mn_page_tool tool, const char *what,
                     const struct mn_diag *why)
{
    char text[sizeof why->text];

    snprintf(text, sizeof text, "%.900s: %s", why->text, what);
    fputs("<p class=\"note\">", page->file);
    mn_text_html(page->file, text);
    fputs("</p>\n", page->file);
    if (!page->missing[tool].text[0]) {
        page->missing[tool].code = why->code;
        snprintf(page->missing[tool].text, sizeof text, "%s", text);
    }
}

static void put_mesh(struct mn_page *page, const struct mn_report_doc *doc)
{
    FILE *file = page->file;
    struct mn_diag diag;

    fputs("<section><h2>The mesh</h2>\n<figure class=\"drawn\">" MN_SCROLL_BEGIN, file);
    enum mn_err err = mn_drawing_write(doc, file, &diag);
    fputs(MN_SCROLL_END
          "<figcaption class=\"note\">Figures are the slower direction of each link, both "
          "where they "
          "differ by a tenth or more; a thicker line is a faster one.</figcaption></figure>\n",
          file);
    if (err)
        put_note(page, MN_PAGE_DOT, "the nodes stand in a circle", &diag);
    fputs("</section>\n<section><h2>Matrix</h2>\n<div class=\"side\">\n", file);
    for (int pair = 0; pair < 2; pair++)
        if (mn_report_has_cells(doc, pair))
            put_heat(doc, pair, file);
    fputs("</div>\n"
          "<ul class=\"legend\"><li>share of what is expected:</li>"
          "<li><span class=\"sw h4\"></span>90 % and more</li>"
          "<li><span class=\"sw h3\"></span>75 to 90 %</li>"
          "<li><span class=\"sw h2\"></span>50 to 75 %</li>"
          "<li><span class=\"sw h1\"></span>25 to 50 %</li>"
          "<li><span class=\"sw h0\"></span>less than 25 %</li>"
          "<li><span class=\"sw dead\"></span>dead or wrong</li>"
          "<li><span class=\"sw none\"></span>not measured</li>"
          "<li>⚠ packets lost during the run</li></ul>\n</section>\n",
          file);
    for (int pair = 0; pair < 2; pair++) {
        if (!mn_report_has_cells(doc, pair))
            continue;
        mn_page_fold(file, pair ? "Pairs in figures" : "Links in figures");
        fputs("<p class=\"note\">Out is from the first end to the second, in the way back, both "
              "the sum "
              "of the two at once; latency is half a round trip.</p>\n",
              file);
        mn_report_put_cells(doc, pair, file, MN_REPORT_HTML);
        fputs("</details>\n", file);
    }
}

/* --- curves ----------------------------------------------------------------------------------- */

static void put_chart(struct mn_page *page, struct mn_chart *chart)
{
    struct mn_diag diag;

    /* What is not installed for one chart is not for the next. */
    if (page->missing[MN_PAGE_GNUPLOT].code != MN_ERR_NOTFOUND &&
        mn_chart_write(chart, page->charts++, page->file, &diag))
        put_note(page, MN_PAGE_GNUPLOT, "no curves; the figures are in the tables", &diag);
    mn_chart_free(chart);
}

static void put_spread_note(struct mn_page *page, const struct mn_report_doc *doc)
{
    fputs("<p class=\"note\">± % is half of the 95 % confidence interval of the mean, and the bar "
          "at a "
          "point of a curve; outliers are counted and not dropped.",
          page->file);
    if (doc->unsteady)
        fprintf(page->file,
                " %zu measurements were still changing after warm-up: another load on these hosts?",
                doc->unsteady);
    fputs("</p>\n", page->file);
}

/* Curves of what only a profile of the bench has; a list that is not there has none. */
static const struct profile_chart {
    const char *title, *unit, *list, *series, *value;
    int log_y;
} profile_charts[] = {
    {"Message rate", "messages/s", "rates", "direction", "messages_per_s", 1},
    {"Bursts, median", "µs", "bursts", "direction", "p50_us", 1},
    {"Verbs alone beside the plugin", "Gb/s", "raw_verbs", "path", "gbps", 0},
    {"Verbs alone, median", "µs", "raw_verbs", "path", "p50_us", 1},
};

static void put_profile_chart(struct mn_page *page, const struct mn_report_doc *doc,
                              const struct profile_chart *of)
{
    struct mn_chart chart = {.unit = of->unit, .log_y = of->log_y};
    const cJSON *row;

    snprintf(chart.title, sizeof chart.title, "%s", of->title);
    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(doc->results.json, of->list))
    {
        char name[128];
        const char *series = mn_results_text(row, of->series, "?");
        const char *direction = mn_results_text(row, "direction", "?");
        snprintf(name, sizeof name, "%s%s%s", series, strcmp(series, direction) ? ", " : "",
                 strcmp(series, direction) ? direction : "");
        mn_chart_add(&chart, name, mn_results_number(row, "size", NAN),
                     mn_results_number(row, of->value, NAN),
                     mn_results_number(row, "ci95_percent", NAN));
    }
    put_chart(page, &chart);
}

static void put_link(struct mn_page *page, const struct mn_report_doc *doc)
{
    struct mn_chart bandwidth = {.title = "Bandwidth", .unit = "Gb/s"};
    struct mn_chart latency = {.title = "Latency, half round trip", .unit = "µs", .log_y = 1};
    FILE *file = page->file;
    char carrier[8192];

    for (size_t i = 0; i < doc->n_bandwidth; i++)
        mn_chart_add(&bandwidth, doc->bandwidth[i].direction, doc->bandwidth[i].size,
                     doc->bandwidth[i].gbps, doc->bandwidth[i].spread.ci95);
    for (size_t i = 0; i < doc->n_latency; i++) {
        const struct mn_report_latency *row = &doc->latency[i];
        mn_chart_add(&latency, "p50", row->size, row->p50, NAN);
        mn_chart_add(&latency, "p99", row->size, row->p99, NAN);
        mn_chart_add(&latency, "p99.9", row->size, row->p999, NAN);
        mn_chart_add(&latency, "minimum", row->size, row->min, NAN);
    }
    fputs("<section><h2>", file);
    mn_text_html(file, doc->here);
    fputs(" to ", file);
    mn_text_html(file, doc->peer);
    fputs("</h2>\n<p>", file);
    mn_text_html(file, mn_report_carrier(doc, carrier, sizeof carrier));
    fputs("</p>\n<div class=\"charts\">\n", file);
    put_chart(page, &latency);
    put_chart(page, &bandwidth);
    for (size_t i = 0; i < sizeof profile_charts / sizeof *profile_charts; i++)
        put_profile_chart(page, doc, &profile_charts[i]);
    fputs("</div>\n", file);
    put_spread_note(page, doc);
    mn_page_fold(file, "All figures");
    fputs("<div class=\"side\">\n", file);
    mn_report_put_latency(doc, file, MN_REPORT_HTML);
    mn_report_put_counters(doc, file, MN_REPORT_HTML);
    mn_report_put_rates(doc, file, MN_REPORT_HTML);
    mn_report_put_bursts(doc, file, MN_REPORT_HTML);
    mn_report_put_raw(doc, file, MN_REPORT_HTML);
    mn_report_put_bandwidth(doc, file, MN_REPORT_HTML);
    fputs("</div>\n</details></section>\n", file);
}

static int same_chart(const struct mn_report_collective *a, const struct mn_report_collective *b)
{
    return !strcmp(a->collective, b->collective) && !strcmp(a->type, b->type) &&
           !strcmp(a->op ? a->op : "", b->op ? b->op : "");
}

/* Of the rows that share a chart, the first draws it. */
static void put_collective(struct mn_page *page, const struct mn_report_doc *doc, size_t first)
{
    const struct mn_report_collective *row = &doc->collectives[first];
    struct mn_chart bandwidth = {.unit = "bus bandwidth, GB/s"};
    struct mn_chart latency = {.unit = "time, median, µs", .log_y = 1};
    char name[64], type[32], op[32];

    for (size_t i = 0; i < first; i++)
        if (same_chart(&doc->collectives[i], row))
            return;
    snprintf(bandwidth.title, sizeof bandwidth.title, "%s, %s%s%s",
             mn_text_short(row->collective, 24, name, sizeof name),
             mn_text_short(row->type, 12, type, sizeof type), row->op ? ", " : "",
             mn_text_short(row->op ? row->op : "", 12, op, sizeof op));
    memcpy(latency.title, bandwidth.title, sizeof latency.title);
    for (size_t i = first; i < doc->n_collectives; i++) {
        const struct mn_report_collective *other = &doc->collectives[i];
        const struct mn_report_times *times = &other->place[0];
        if (!same_chart(other, row))
            continue;
        mn_chart_add(&latency, other->algorithm, other->bytes, times->p50, NAN);
        mn_chart_add(&bandwidth, other->algorithm, other->bytes, times->busbw, times->spread.ci95);
    }
    put_chart(page, &latency);
    put_chart(page, &bandwidth);
}

static void put_collectives(struct mn_page *page, const struct mn_report_doc *doc)
{
    FILE *file = page->file;

    fputs("<section><h2>Collectives</h2>\n<p>", file);
    for (size_t i = 0; i < doc->n_nodes; i++) {
        fputs(i ? ", " : "", file);
        mn_text_html(file, doc->nodes[i]);
    }
    fputs("</p>\n<p class=\"note\">Bus bandwidth is size over time, times what makes it the "
          "traffic of a "
          "link; time is the median of one operation. Out of place, one curve for each "
          "algorithm.</p>\n<div class=\"charts\">\n",
          file);
    for (size_t i = 0; i < doc->n_collectives; i++)
        put_collective(page, doc, i);
    fputs("</div>\n", file);
    put_spread_note(page, doc);
    mn_page_fold(file, "All figures");
    mn_report_put_collectives(doc, file, MN_REPORT_HTML);
    fputs("</details></section>\n", file);
}

void mn_page_fold(FILE *file, const char *title)
{
    fprintf(file, "<details class=\"wide\"><summary>%s</summary>\n", title);
}

/* Where there are several, each begins with its name. */
static void put_run(struct mn_page *page, const struct mn_report_doc *doc)
{
    char run[1024];

    if (page->report->n_docs < 2)
        return;
    fprintf(page->file, "<h2 class=\"run\" id=\"run%zu\">", (size_t)(doc - page->report->docs) + 1);
    mn_text_html(page->file, mn_report_run(page->report, doc, run, sizeof run));
    fputs("</h2>\n", page->file);
}

void mn_page_document(struct mn_page *page, const struct mn_report_doc *doc)
{
    static void (*const parts[MN_RESULTS_KINDS])(struct mn_page *, const struct mn_report_doc *) = {
        [MN_RESULTS_MATRIX] = put_mesh,
        [MN_RESULTS_LINK] = put_link,
        [MN_RESULTS_COLLECTIVES] = put_collectives,
    };
    put_run(page, doc);
    parts[doc->results.kind](page, doc);
}
