#include "cli/report/drawing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/layout.h"
#include "cli/report/text.h"
#include "topo/base/alloc.h"

#define LABEL_HEIGHT 16.0
#define NODE_HEIGHT  34.0
#define ROOM         150.0 /* for a label, between two nodes */
#define MARGIN       24.0

struct drawing {
    const struct mn_report_doc *doc;
    const struct mn_report_way **edges; /* what is odd first: its labels matter most */
    struct mn_layout_edge *ends;        /* of the edges */
    struct mn_layout layout;
    double most;
    int pair;
};

const char *mn_drawing_class(const struct mn_report_way *way)
{
    static const double least[] = {0.9, 0.75, 0.5, 0.25, -INFINITY};
    static const char *const names[] = {"h4", "h3", "h2", "h1", "h0"};
    int i = 0;

    if (!way->measured)
        return way->grade == MN_GRADE_BAD ? "dead" : "none";
    if (!isfinite(way->ratio))
        return "plain";
    while (way->ratio < least[i])
        i++;
    return names[i];
}

/* How bad either direction is. */
static enum mn_grade grade_of(const struct mn_report_way *way)
{
    return way->back && way->back->grade > way->grade ? way->back->grade : way->grade;
}

/* The number of a node. */
static size_t node_of(const struct mn_report_doc *doc, const char *name)
{
    size_t i = 0;

    while (i + 1 < doc->n_nodes && strcmp(doc->nodes[i], name) != 0)
        i++;
    return i;
}

static void put_edge_in(struct drawing *d, const struct mn_report_way *way)
{
    size_t i = d->layout.n_edges++;

    d->edges[i] = way;
    d->ends[i] = (struct mn_layout_edge){node_of(d->doc, way->from), node_of(d->doc, way->to)};
}

/* A link is drawn once, for its first direction. */
static void find_edges(struct drawing *d)
{
    const struct mn_report_doc *doc = d->doc;

    for (int grade = MN_GRADE_BAD; grade >= MN_GRADE_GOOD; grade--)
        for (size_t i = 0; i < doc->n_ways; i++) {
            const struct mn_report_way *way = &doc->ways[i];
            if (way->cell->pair == d->pair && (!way->back || way->back > way) &&
                (int)grade_of(way) == grade)
                put_edge_in(d, way);
        }
}

/* --- links ------------------------------------------------------------------------------------ */

static void label_of(const struct mn_report_way *way, char *text, size_t size)
{
    const struct mn_report_way *back = way->back;
    const struct mn_report_cell *cell = way->cell;
    char there[32], here[32], status[64];

    if (!way->measured) {
        snprintf(text, size, "%s%s", way->grade == MN_GRADE_BAD ? "✕ " : "",
                 mn_text_short(strcmp(cell->status, "ok") != 0 ? cell->status : "not measured", 12,
                               status, sizeof status));
        return;
    }
    const char *mark =
        way->grade != MN_GRADE_GOOD || (back && back->grade != MN_GRADE_GOOD) ? "⚠ " : "";
    mn_text_figures(way->gbps, there, sizeof there);
    if (!back || !back->measured ||
        fabs(way->gbps - back->gbps) < 0.1 * fmax(way->gbps, back->gbps))
        snprintf(text, size, "%s%s Gb/s", mark,
                 back && back->measured
                     ? mn_text_figures(fmin(way->gbps, back->gbps), there, sizeof there)
                     : there);
    else
        snprintf(text, size, "%s%s out, %s in Gb/s", mark, there,
                 mn_text_figures(back->gbps, here, sizeof here));
}

static void size_labels(struct drawing *d)
{
    char text[256];

    for (size_t i = 0; i < d->doc->n_nodes; i++) {
        mn_text_short(d->doc->nodes[i], 20, text, sizeof text);
        d->layout.nodes[i].wide = fmax(64, 26 + 8.4 * mn_text_width(text));
        d->layout.nodes[i].high = NODE_HEIGHT;
    }
    for (size_t i = 0; i < d->layout.n_edges; i++) {
        label_of(d->edges[i], text, 64);
        d->layout.curves[i].label.wide = 7.0 * mn_text_width(text) + 8;
        d->layout.curves[i].label.high = LABEL_HEIGHT;
    }
}

static void put_edge(const struct drawing *d, size_t i, FILE *lines, FILE *texts)
{
    const struct mn_report_way *way = d->edges[i], *back = way->back;
    const struct mn_curve *c = &d->layout.curves[i];
    const struct mn_box *at = &c->label;
    const struct mn_report_way *worse =
        back && (back->grade > way->grade || back->ratio < way->ratio) ? back : way;
    char text[64];

    label_of(way, text, sizeof text);
    fprintf(lines,
            "<path class=\"edge %s\" d=\"M%.1f %.1fQ%.1f %.1f %.1f %.1f\" "
            "stroke-width=\"%.1f\"><title>",
            mn_drawing_class(worse), c->ax, c->ay, c->cx, c->cy, c->bx, c->by,
            1.6 + (d->most > 0 && way->measured ? 3.4 * way->gbps / d->most : 0));
    mn_text_html(lines, way->cell->link ? way->cell->link : way->from);
    fputs(": ", lines);
    mn_text_html(lines, text);
    fputs("</title></path>\n", lines);
    if (!c->placed)
        return;
    fprintf(texts, "<rect class=\"under\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>",
            at->x - at->wide / 2, at->y - at->high / 2, at->wide, at->high);
    fprintf(texts, "<text class=\"figure %s\" x=\"%.1f\" y=\"%.1f\">", mn_drawing_class(worse),
            at->x, at->y + 4);
    mn_text_html(texts, text);
    fputs("</text>\n", texts);
}

static void put_nodes(const struct drawing *d, FILE *file)
{
    for (size_t i = 0; i < d->doc->n_nodes; i++) {
        const struct mn_box *n = &d->layout.nodes[i];
        char name[256];
        fputs("<g class=\"node\"><title>", file);
        mn_text_html(file, d->doc->nodes[i]);
        fprintf(file,
                "</title><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"8\"/>"
                "<text x=\"%.1f\" y=\"%.1f\">",
                n->x - n->wide / 2, n->y - n->high / 2, n->wide, n->high, n->x, n->y + 5);
        mn_text_html(file, mn_text_short(d->doc->nodes[i], 20, name, sizeof name));
        fputs("</text></g>\n", file);
    }
}

static void put_start(const struct drawing *d, FILE *file)
{
    struct mn_box all = mn_layout_bounds(&d->layout);
    double wide = all.wide + 2 * MARGIN, high = all.high + 2 * MARGIN;

    fprintf(file,
            "<svg class=\"mesh\" viewBox=\"%.0f %.0f %.0f %.0f\" style=\"max-width:%.0fpx\" "
            "role=\"img\" aria-label=\"The mesh: %zu nodes and the links between them\">\n",
            all.x - wide / 2, all.y - high / 2, wide, high, wide * 1.15, d->doc->n_nodes);
}

enum mn_err mn_drawing_write(const struct mn_report_doc *doc, FILE *file, struct mn_diag *diag)
{
    struct drawing d = {.doc = doc, .pair = !mn_report_has_cells(doc, 0)};
    char *texts = NULL;
    size_t len;

    d.edges = mn_zalloc((doc->n_ways + 1) * sizeof *d.edges);
    d.ends = mn_zalloc((doc->n_ways + 1) * sizeof *d.ends);
    d.layout.nodes = mn_zalloc((doc->n_nodes + 1) * sizeof *d.layout.nodes);
    d.layout.curves = mn_zalloc((doc->n_ways + 1) * sizeof *d.layout.curves);
    d.layout.n_nodes = doc->n_nodes;
    d.layout.edges = d.ends;
    d.layout.labels = 1;
    find_edges(&d);
    size_labels(&d);
    enum mn_err err = mn_layout_nodes(&d.layout, ROOM, diag);
    mn_layout_edges(&d.layout);
    for (size_t i = 0; i < d.layout.n_edges; i++)
        if (d.edges[i]->measured)
            d.most = fmax(d.most, d.edges[i]->gbps);
    put_start(&d, file);
    FILE *later = open_memstream(&texts, &len);
    for (size_t i = 0; i < d.layout.n_edges && later; i++)
        put_edge(&d, i, file, later);
    if (later)
        fclose(later);
    put_nodes(&d, file);
    fputs(texts ? texts : "", file);
    fputs("</svg>\n", file);
    free(texts);
    free(d.edges);
    free(d.ends);
    free(d.layout.nodes);
    free(d.layout.curves);
    return err;
}
