/* Where the nodes of a drawing stand: where graphviz puts them, else in a circle, and far enough
 * apart for a label on each link. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/drawing_impl.h"
#include "cli/report/text.h"
#include "cli/report/tool.h"

#define INCH        72.0
#define NODE_HEIGHT 34.0

size_t mn_drawing_node(const struct mn_report_doc *doc, const char *name)
{
    size_t i = 0;
    while (i + 1 < doc->n_nodes && strcmp(doc->nodes[i], name) != 0)
        i++;
    return i;
}

static char *graph_of(const struct mn_drawing *d)
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
    for (size_t i = 0; i < d->n_edges; i++)
        fprintf(graph, "n%zu -- n%zu;\n", mn_drawing_node(d->doc, d->edges[i]->from),
                mn_drawing_node(d->doc, d->edges[i]->to));
    fputs("}\n", graph);
    if (ferror(graph) | fclose(graph)) {
        free(text);
        return NULL;
    }
    return text;
}

/* Lines "node n3 X Y …" of the format plain, in inches from the bottom. */
static enum mn_err place(struct mn_drawing *d, const char *plain, struct mn_diag *diag)
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

static void place_in_circle(struct mn_drawing *d)
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
static void spread(struct mn_drawing *d)
{
    double wider = 1.5, higher = 1;

    for (size_t i = 0; i < d->n_edges; i++) {
        const struct mn_report_way *way = d->edges[i];
        const struct mn_box *a = &d->nodes[mn_drawing_node(d->doc, way->from)];
        const struct mn_box *b = &d->nodes[mn_drawing_node(d->doc, way->to)];
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

enum mn_err mn_drawing_lay_out(struct mn_drawing *d, struct mn_diag *diag)
{
    static const char *const dot[] = {"dot", "-Tplain", NULL};
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
    return err;
}
