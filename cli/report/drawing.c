#include "cli/report/drawing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/text.h"
#include "cli/report/tool.h"
#include "topo/base/alloc.h"

#define INCH         72.0
#define NODE_HEIGHT  34.0
#define LABEL_HEIGHT 16.0

struct box {
    double x, y, wide, high; /* x and y are the middle's */
};

struct drawing {
    const struct mn_report_doc *doc;
    struct box *nodes, *labels;
    size_t n_labels;
    double wide, high, most;
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

static size_t node_of(const struct mn_report_doc *doc, const char *name)
{
    size_t i = 0;
    while (i + 1 < doc->n_nodes && strcmp(doc->nodes[i], name) != 0)
        i++;
    return i;
}

/* A link is drawn once, for its first direction. */
static const struct mn_report_way *edge(const struct drawing *d, size_t i)
{
    const struct mn_report_way *way = &d->doc->ways[i];

    return way->cell->pair == d->pair && (!way->back || way->back > way) ? way : NULL;
}

/* --- where nodes stand ------------------------------------------------------------------------ */

static char *graph_of(const struct drawing *d)
{
    char *text;
    size_t len;
    FILE *graph = open_memstream(&text, &len);

    if (!graph)
        return NULL;
    fprintf(graph,
            "graph {\nlayout=%s; overlap=false;\n"
            "edge [len=2.6];\nnode [shape=box, fixedsize=true, label=\"\"];\n",
            d->doc->n_nodes <= 10 ? "circo" : "neato");
    for (size_t i = 0; i < d->doc->n_nodes; i++)
        fprintf(graph, "n%zu [width=%.3f, height=%.3f];\n", i, d->nodes[i].wide / INCH,
                NODE_HEIGHT / INCH);
    for (size_t i = 0; i < d->doc->n_ways; i++) {
        const struct mn_report_way *way = edge(d, i);
        if (way)
            fprintf(graph, "n%zu -- n%zu;\n", node_of(d->doc, way->from), node_of(d->doc, way->to));
    }
    fputs("}\n", graph);
    if (ferror(graph) | fclose(graph)) {
        free(text);
        return NULL;
    }
    return text;
}

/* Lines "node n3 X Y …" of the format plain, in inches from the bottom. */
static enum mn_err place(struct drawing *d, const char *plain, struct mn_diag *diag)
{
    size_t placed = 0;

    for (const char *line = plain; line; line = strchr(line, '\n')) {
        size_t n;
        double x, y;
        line += *line == '\n';
        if (sscanf(line, "node n%zu %lf %lf", &n, &x, &y) == 3 && n < d->doc->n_nodes) {
            d->nodes[n].x = x * INCH;
            d->nodes[n].y = -y * INCH;
            placed++;
        }
    }
    return placed == d->doc->n_nodes
               ? MN_OK
               : mn_fail(diag, MN_ERR_FAILED, "dot failed: it placed %zu of %zu nodes", placed,
                         d->doc->n_nodes);
}

static void place_in_circle(struct drawing *d)
{
    size_t n = d->doc->n_nodes;
    double radius = n > 1 ? fmax(130, 150.0 * (double)n / 6.28) : 0;

    for (size_t i = 0; i < n; i++) {
        double angle = 6.283185307179586 * (double)i / (double)n;
        d->nodes[i].x = radius * sin(angle);
        d->nodes[i].y = -radius * cos(angle);
    }
}

/* Moves the nodes apart until a label fits between any two that a link joins, sideways above all: a
 * page is wide, and so are names and labels. */
static void spread(struct drawing *d)
{
    double wider = 1.5, higher = 1;

    for (size_t i = 0; i < d->doc->n_ways; i++) {
        const struct mn_report_way *way = edge(d, i);
        if (!way)
            continue;
        const struct box *a = &d->nodes[node_of(d->doc, way->from)];
        const struct box *b = &d->nodes[node_of(d->doc, way->to)];
        double dx = fabs(a->x - b->x), dy = fabs(a->y - b->y), need = (a->wide + b->wide) / 2 + 150;
        if (dx < 1 && dy < 1)
            continue;
        if (dx > dy)
            wider = fmax(wider, fmin(need / dx, 5));
        else
            higher = fmax(higher, fmin((NODE_HEIGHT + 90) / dy, 4));
    }
    for (size_t i = 0; i < d->doc->n_nodes; i++) {
        d->nodes[i].x *= wider;
        d->nodes[i].y *= higher;
    }
}

static enum mn_err lay_out(struct drawing *d, struct mn_diag *diag)
{
    static const char *const dot[] = {"dot", "-Tplain", NULL};
    double left = INFINITY, top = INFINITY, right = -INFINITY, bottom = -INFINITY;
    char *plain = NULL, *graph;

    for (size_t i = 0; i < d->doc->n_nodes; i++) {
        char name[256];
        mn_text_short(d->doc->nodes[i], 20, name, sizeof name);
        d->nodes[i].wide = fmax(64, 26 + 8.4 * mn_text_width(name));
        d->nodes[i].high = NODE_HEIGHT;
    }
    graph = graph_of(d);
    enum mn_err err = graph ? mn_tool_run(dot, graph, &plain, diag)
                            : mn_fail(diag, MN_ERR_NOMEM, "out of memory for the mesh");
    if (!err)
        err = place(d, plain, diag);
    if (err)
        place_in_circle(d);
    free(graph);
    free(plain);
    spread(d);
    for (size_t i = 0; i < d->doc->n_nodes; i++) {
        const struct box *n = &d->nodes[i];
        left = fmin(left, n->x - n->wide / 2);
        right = fmax(right, n->x + n->wide / 2);
        top = fmin(top, n->y - n->high / 2);
        bottom = fmax(bottom, n->y + n->high / 2);
    }
    for (size_t i = 0; i < d->doc->n_nodes; i++) {
        d->nodes[i].x += 40 - left;
        d->nodes[i].y += 24 - top;
    }
    d->wide = right - left + 80;
    d->high = bottom - top + 48;
    return err;
}

/* --- links ------------------------------------------------------------------------------------ */

static int overlap(const struct box *a, const struct box *b)
{
    return fabs(a->x - b->x) * 2 < a->wide + b->wide && fabs(a->y - b->y) * 2 < a->high + b->high;
}

static int is_free(const struct drawing *d, const struct box *label)
{
    for (size_t i = 0; i < d->doc->n_nodes; i++)
        if (overlap(label, &d->nodes[i]))
            return 0;
    for (size_t i = 0; i < d->n_labels; i++)
        if (overlap(label, &d->labels[i]))
            return 0;
    return 1;
}

/* The label's place along the curve: the middle, or near it where that is taken. */
static struct box place_label(struct drawing *d, const struct box *a, const struct box *b,
                              double cx, double cy, const char *text)
{
    static const double along[] = {0.5, 0.4, 0.6, 0.33, 0.67, 0.27, 0.73};
    struct box label = {.wide = 7.0 * mn_text_width(text) + 8, .high = LABEL_HEIGHT};

    for (size_t i = 0; i < sizeof along / sizeof *along; i++) {
        double t = along[i], u = 1 - t;
        label.x = u * u * a->x + 2 * u * t * cx + t * t * b->x;
        label.y = u * u * a->y + 2 * u * t * cy + t * t * b->y;
        if (is_free(d, &label))
            break;
    }
    d->labels[d->n_labels++] = label;
    return label;
}

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
static int siblings(const struct drawing *d, const struct mn_report_way *way, int *index)
{
    int count = 0;

    for (size_t i = 0; i < d->doc->n_ways; i++) {
        const struct mn_report_way *other = edge(d, i);
        if (!other || !((!strcmp(other->from, way->from) && !strcmp(other->to, way->to)) ||
                        (!strcmp(other->from, way->to) && !strcmp(other->to, way->from))))
            continue;
        if (other == way)
            *index = count;
        count++;
    }
    return count;
}

static void put_edge(struct drawing *d, const struct mn_report_way *way, FILE *lines, FILE *texts)
{
    const struct mn_report_way *back = way->back;
    size_t from = node_of(d->doc, way->from), to = node_of(d->doc, way->to);
    const struct box *a = &d->nodes[from], *b = &d->nodes[to];
    const struct mn_report_way *worse =
        back && (back->grade > way->grade || back->ratio < way->ratio) ? back : way;
    int index = 0, count = siblings(d, way, &index);
    double dx = b->x - a->x, dy = b->y - a->y, len = fmax(1, hypot(dx, dy));
    /* Sideways as seen from the node that comes first, whichever end was written first. */
    double side = (index - (count - 1) / 2.0) * 64 * (from < to ? 1 : -1);
    double cx = (a->x + b->x) / 2 - dy / len * side, cy = (a->y + b->y) / 2 + dx / len * side;
    char text[64];

    label_of(way, text, sizeof text);
    struct box at = place_label(d, a, b, cx, cy, text);
    fprintf(lines,
            "<path class=\"edge %s\" d=\"M%.1f %.1fQ%.1f %.1f %.1f %.1f\" "
            "stroke-width=\"%.1f\"><title>",
            mn_drawing_class(worse), a->x, a->y, cx, cy, b->x, b->y,
            1.6 + (d->most > 0 && way->measured ? 3.4 * way->gbps / d->most : 0));
    mn_text_html(lines, way->cell->link ? way->cell->link : way->from);
    fputs("</title></path>\n", lines);
    fprintf(texts, "<rect class=\"under\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>",
            at.x - at.wide / 2, at.y - at.high / 2, at.wide, at.high);
    fprintf(texts, "<text class=\"figure %s\" x=\"%.1f\" y=\"%.1f\">", mn_drawing_class(worse),
            at.x, at.y + 4);
    mn_text_html(texts, text);
    fputs("</text>\n", texts);
}

static void put_nodes(const struct drawing *d, FILE *file)
{
    for (size_t i = 0; i < d->doc->n_nodes; i++) {
        const struct box *n = &d->nodes[i];
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

enum mn_err mn_drawing_write(const struct mn_report_doc *doc, FILE *file, struct mn_diag *diag)
{
    struct drawing d = {.doc = doc, .pair = !mn_report_has_cells(doc, 0)};
    char *texts = NULL;
    size_t len;

    d.nodes = mn_zalloc((doc->n_nodes + 1) * sizeof *d.nodes);
    d.labels = mn_zalloc((doc->n_ways + 1) * sizeof *d.labels);
    enum mn_err err = lay_out(&d, diag);
    for (size_t i = 0; i < doc->n_ways; i++)
        if (doc->ways[i].cell->pair == d.pair && doc->ways[i].measured)
            d.most = fmax(d.most, doc->ways[i].gbps);
    fprintf(file,
            "<svg class=\"mesh\" viewBox=\"0 0 %.0f %.0f\" style=\"max-width:%.0fpx\" role=\"img\" "
            "aria-label=\"The mesh: %zu nodes and the links between them\">\n",
            d.wide, d.high, d.wide * 1.15, doc->n_nodes);
    FILE *later = open_memstream(&texts, &len);
    for (size_t i = 0; i < doc->n_ways && later; i++) {
        const struct mn_report_way *way = edge(&d, i);
        if (way)
            put_edge(&d, way, file, later);
    }
    if (later)
        fclose(later);
    put_nodes(&d, file);
    fputs(texts ? texts : "", file);
    fputs("</svg>\n", file);
    free(texts);
    free(d.nodes);
    free(d.labels);
    return err;
}
