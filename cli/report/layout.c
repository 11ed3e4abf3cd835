#include "cli/report/layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/tool.h"

#define INCH    72.0
#define GROWTH  1.12 /* of a drawing whose labels have no room */
#define GROWTHS 9

static char *graph_of(const struct mn_layout *l)
{
    char *text;
    size_t len;
    FILE *graph = open_memstream(&text, &len);

    if (!graph)
        return NULL;
    fprintf(graph,
            "graph {\nlayout=%s; overlap=false;\n"
            "edge [len=2.6];\nnode [shape=box, fixedsize=true, label=\"\"];\n",
            l->n_nodes <= 10 ? "circo" : "neato");
    for (size_t i = 0; i < l->n_nodes; i++)
        fprintf(graph, "n%zu [width=%.3f, height=%.3f];\n", i, l->nodes[i].wide / INCH,
                l->nodes[i].high / INCH);
    for (size_t i = 0; i < l->n_edges; i++)
        fprintf(graph, "n%zu -- n%zu;\n", l->edges[i].a, l->edges[i].b);
    fputs("}\n", graph);
    if (ferror(graph) | fclose(graph)) {
        free(text);
        return NULL;
    }
    return text;
}

/* Lines "node n3 X Y …" of the format plain, in inches from the bottom. */
static enum mn_err place(struct mn_layout *l, const char *plain, struct mn_diag *diag)
{
    size_t placed = 0;

    for (const char *line = plain; line; line = strchr(line, '\n')) {
        size_t n;
        double x, y;
        line += *line == '\n';
        if (sscanf(line, "node n%zu %lf %lf", &n, &x, &y) == 3 && n < l->n_nodes) {
            l->nodes[n].x = x * INCH;
            l->nodes[n].y = -y * INCH;
            placed++;
        }
    }
    return placed == l->n_nodes
               ? MN_OK
               : mn_fail(diag, MN_ERR_FAILED, "dot failed: it placed %zu of %zu nodes", placed,
                         l->n_nodes);
}

static void place_in_circle(struct mn_layout *l)
{
    size_t n = l->n_nodes;
    double radius = n > 1 ? fmax(130, 150.0 * (double)n / 6.28) : 0;

    for (size_t i = 0; i < n; i++) {
        double angle = 6.283185307179586 * (double)i / (double)n;
        l->nodes[i].x = radius * sin(angle);
        l->nodes[i].y = -radius * cos(angle);
    }
}

/* Moves the nodes apart until a label fits between any two that an edge joins, sideways above all:
 * a page is wide, and so are names and labels. */
static void spread(struct mn_layout *l, double room)
{
    double wider = 1.5, higher = 1;

    for (size_t i = 0; i < l->n_edges; i++) {
        const struct mn_box *a = &l->nodes[l->edges[i].a], *b = &l->nodes[l->edges[i].b];
        double dx = fabs(a->x - b->x), dy = fabs(a->y - b->y);
        if (dx < 1 && dy < 1)
            continue;
        if (dx > dy)
            wider = fmax(wider, fmin(((a->wide + b->wide) / 2 + room) / dx, 5));
        else
            higher = fmax(higher, fmin(((a->high + b->high) / 2 + 0.6 * room) / dy, 4));
    }
    for (size_t i = 0; i < l->n_nodes; i++) {
        l->nodes[i].x *= wider;
        l->nodes[i].y *= higher;
    }
}

enum mn_err mn_layout_nodes(struct mn_layout *layout, double room, struct mn_diag *diag)
{
    static const char *const dot[] = {"dot", "-Tplain", NULL};
    char *plain = NULL, *graph = graph_of(layout);
    enum mn_err err = graph ? mn_tool_run(dot, graph, &plain, diag)
                            : mn_fail(diag, MN_ERR_NOMEM, "out of memory for the mesh");

    if (!err)
        err = place(layout, plain, diag);
    if (err)
        place_in_circle(layout);
    free(graph);
    free(plain);
    spread(layout, room);
    return err;
}

/* --- edges ------------------------------------------------------------------------------------ */

/* How many edges there are between the same two nodes, and which of them this is. */
static int siblings(const struct mn_layout *l, const struct mn_layout_edge *edge, int *index)
{
    int count = 0;

    for (const struct mn_layout_edge *other = l->edges; other < l->edges + l->n_edges; other++) {
        if (!((other->a == edge->a && other->b == edge->b) ||
              (other->a == edge->b && other->b == edge->a)))
            continue;
        if (other == edge)
            *index = count;
        count++;
    }
    return count;
}

static void bend(const struct mn_layout *l, size_t i)
{
    const struct mn_layout_edge *edge = &l->edges[i];
    const struct mn_box *a = &l->nodes[edge->a], *b = &l->nodes[edge->b];
    int index = 0, count = siblings(l, edge, &index);
    double dx = b->x - a->x, dy = b->y - a->y, len = fmax(1, hypot(dx, dy));
    /* Sideways as seen from the node that comes first, whichever end was written first. */
    double side = (index - (count - 1) / 2.0) * 64 * (edge->a < edge->b ? 1 : -1);

    for (size_t k = i * l->labels; k < (i + 1) * l->labels; k++) {
        struct mn_curve *curve = &l->curves[k];
        curve->ax = a->x;
        curve->ay = a->y;
        curve->cx = (a->x + b->x) / 2 - dy / len * side;
        curve->cy = (a->y + b->y) / 2 + dx / len * side;
        curve->bx = b->x;
        curve->by = b->y;
    }
}

void mn_layout_edges(struct mn_layout *layout)
{
    for (int growth = 0; growth <= GROWTHS; growth++) {
        for (size_t i = 0; i < layout->n_edges; i++)
            bend(layout, i);
        if (!mn_labels_place(layout->nodes, layout->n_nodes, layout->curves,
                             layout->n_edges * layout->labels))
            return;
        for (size_t i = 0; growth < GROWTHS && i < layout->n_nodes; i++) {
            layout->nodes[i].x *= GROWTH;
            layout->nodes[i].y *= GROWTH;
        }
    }
}

/* --- extent ----------------------------------------------------------------------------------- */

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

struct mn_box mn_layout_bounds(const struct mn_layout *layout)
{
    struct extent e = {INFINITY, INFINITY, -INFINITY, -INFINITY};
    double x, y;

    for (size_t i = 0; i < layout->n_nodes; i++) {
        const struct mn_box *n = &layout->nodes[i];
        stretch(&e, n->x, n->y, n->wide, n->high);
    }
    for (size_t i = 0; i < layout->n_edges * layout->labels; i++) {
        const struct mn_box *label = &layout->curves[i].label;
        if (layout->curves[i].placed)
            stretch(&e, label->x, label->y, label->wide, label->high);
        mn_curve_at(&layout->curves[i], 0.5, &x, &y);
        stretch(&e, x, y, 0, 0);
    }
    return (struct mn_box){(e.left + e.right) / 2, (e.top + e.bottom) / 2, e.right - e.left,
                           e.bottom - e.top};
}
