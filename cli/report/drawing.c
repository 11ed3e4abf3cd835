#include "cli/report/drawing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/drawing_impl.h"
#include "cli/report/text.h"
#include "topo/base/alloc.h"

#define LABEL_HEIGHT 16.0
#define GROWTH       1.12 /* of a drawing whose labels have no room */
#define GROWTHS      9
#define MARGIN       24.0

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

/* A link is drawn once, for its first direction. */
static void find_edges(struct mn_drawing *d)
{
    const struct mn_report_doc *doc = d->doc;

    for (int grade = MN_GRADE_BAD; grade >= MN_GRADE_GOOD; grade--)
        for (size_t i = 0; i < doc->n_ways; i++) {
            const struct mn_report_way *way = &doc->ways[i];
            if (way->cell->pair == d->pair && (!way->back || way->back > way) &&
                (int)grade_of(way) == grade)
                d->edges[d->n_edges++] = way;
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

/* How many links of the same two nodes there are, and which of them this is. */
static int siblings(const struct mn_drawing *d, const struct mn_report_way *way, int *index)
{
    int count = 0;

    for (size_t i = 0; i < d->n_edges; i++) {
        const struct mn_report_way *other = d->edges[i];
        if (!((!strcmp(other->from, way->from) && !strcmp(other->to, way->to)) ||
              (!strcmp(other->from, way->to) && !strcmp(other->to, way->from))))
            continue;
        if (other == way)
            *index = count;
        count++;
    }
    return count;
}

static void bend(const struct mn_drawing *d, const struct mn_report_way *way,
                 struct mn_curve *curve)
{
    size_t from = mn_drawing_node(d->doc, way->from), to = mn_drawing_node(d->doc, way->to);
    const struct mn_box *a = &d->nodes[from], *b = &d->nodes[to];
    int index = 0, count = siblings(d, way, &index);
    double dx = b->x - a->x, dy = b->y - a->y, len = fmax(1, hypot(dx, dy));
    /* Sideways as seen from the node that comes first, whichever end was written first. */
    double side = (index - (count - 1) / 2.0) * 64 * (from < to ? 1 : -1);
    char text[64];

    label_of(way, text, sizeof text);
    *curve = (struct mn_curve){
        .ax = a->x,
        .ay = a->y,
        .cx = (a->x + b->x) / 2 - dy / len * side,
        .cy = (a->y + b->y) / 2 + dx / len * side,
        .bx = b->x,
        .by = b->y,
        .label = {.wide = 7.0 * mn_text_width(text) + 8, .high = LABEL_HEIGHT},
    };
}

/* Labels keep their size: where they have no room, all the rest grows. */
static void put_labels(struct mn_drawing *d)
{
    for (int growth = 0; growth <= GROWTHS; growth++) {
        for (size_t i = 0; i < d->n_edges; i++)
            bend(d, d->edges[i], &d->curves[i]);
        if (!mn_labels_place(d->nodes, d->doc->n_nodes, d->curves, d->n_edges))
            return;
        for (size_t i = 0; growth < GROWTHS && i < d->doc->n_nodes; i++) {
            d->nodes[i].x *= GROWTH;
            d->nodes[i].y *= GROWTH;
        }
    }
}

static void put_edge(const struct mn_drawing *d, size_t i, FILE *lines, FILE *texts)
{
    const struct mn_report_way *way = d->edges[i], *back = way->back;
    const struct mn_curve *c = &d->curves[i];
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

static void put_nodes(const struct mn_drawing *d, FILE *file)
{
    for (size_t i = 0; i < d->doc->n_nodes; i++) {
        const struct mn_box *n = &d->nodes[i];
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

struct extent {
    double left, top, right, bottom;
};

static void stretch(struct extent *e, double x, double y, double wide, double high)
{
    e->left = fmin(e->left, x - wide / 2);
    e->right = fmax(e->right, x + wide / 2);
    e->top = fmin(e->top, y - high / 2);
    e->bottom = fmax(e->bottom, y + high / 2);
}

static void put_start(const struct mn_drawing *d, FILE *file)
{
    struct extent e = {INFINITY, INFINITY, -INFINITY, -INFINITY};
    double x, y;

    for (size_t i = 0; i < d->doc->n_nodes; i++)
        stretch(&e, d->nodes[i].x, d->nodes[i].y, d->nodes[i].wide, d->nodes[i].high);
    for (size_t i = 0; i < d->n_edges; i++) {
        const struct mn_box *label = &d->curves[i].label;
        if (d->curves[i].placed)
            stretch(&e, label->x, label->y, label->wide, label->high);
        mn_curve_at(&d->curves[i], 0.5, &x, &y);
        stretch(&e, x, y, 0, 0);
    }
    double wide = e.right - e.left + 2 * MARGIN, high = e.bottom - e.top + 2 * MARGIN;
    fprintf(file,
            "<svg class=\"mesh\" viewBox=\"%.0f %.0f %.0f %.0f\" style=\"max-width:%.0fpx\" "
            "role=\"img\" aria-label=\"The mesh: %zu nodes and the links between them\">\n",
            e.left - MARGIN, e.top - MARGIN, wide, high, wide * 1.15, d->doc->n_nodes);
}

enum mn_err mn_drawing_write(const struct mn_report_doc *doc, FILE *file, struct mn_diag *diag)
{
    struct mn_drawing d = {.doc = doc, .pair = !mn_report_has_cells(doc, 0)};
    char *texts = NULL;
    size_t len;

    d.nodes = mn_zalloc((doc->n_nodes + 1) * sizeof *d.nodes);
    d.edges = mn_zalloc((doc->n_ways + 1) * sizeof *d.edges);
    d.curves = mn_zalloc((doc->n_ways + 1) * sizeof *d.curves);
    find_edges(&d);
    enum mn_err err = mn_drawing_lay_out(&d, diag);
    put_labels(&d);
    for (size_t i = 0; i < d.n_edges; i++)
        if (d.edges[i]->measured)
            d.most = fmax(d.most, d.edges[i]->gbps);
    put_start(&d, file);
    FILE *later = open_memstream(&texts, &len);
    for (size_t i = 0; i < d.n_edges && later; i++)
        put_edge(&d, i, file, later);
    if (later)
        fclose(later);
    put_nodes(&d, file);
    fputs(texts ? texts : "", file);
    fputs("</svg>\n", file);
    free(texts);
    free(d.nodes);
    free(d.edges);
    free(d.curves);
    return err;
}
