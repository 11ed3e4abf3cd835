/* Rings and lines: boxes in two columns, cables between them, what is plugged in where written on
 * the cables. A ring goes down on the right and up on the left; a line goes to and fro. */
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/width.h"
#include "topo/draw_impl.h"

/* Columns of a cable on both sides of what stands in its middle: where there is room, and else. */
static const int wires[] = {5, 2};

struct box {
    int node, column;
    int row, last; /* of the grid, downwards; one box may take several */
};

/* Cables between two boxes: beside each other, or one below the other. */
struct edge {
    const struct box *a, *b; /* left and right, or upper and lower */
};

struct plan {
    const struct mn_draw *draw;
    struct box *boxes;
    size_t n_boxes;
    struct edge *edges;
    size_t n_edges;
    int rows, wire;
    int wide[2], inner; /* columns of the boxes, and between them */
    int *high, *gap;    /* of each row, and below it */
    int *y;
};

/* --- what is written at an end -------------------------------------------------------------- */

static int end_of(const struct plan *p, const struct mn_draw_cable *cable, int node)
{
    return p->draw->ports[cable->ports[0]].node == node ? 0 : 1;
}

/* "right enp1s0f0np0", mirrored "enp1s0f0np0 right"; the port's name at the first link only. */
static const char *end_text(const struct plan *p, const struct mn_draw_cable *cable, size_t link,
                            int node, int mirrored, char text[MN_DRAW_LABEL])
{
    int end = end_of(p, cable, node);
    const struct mn_draw_port *port = &p->draw->ports[cable->ports[end]];
    const char *half = mn_draw_half(port, mn_draw_nic(p->draw, cable, link, end));
    const char *name = mn_draw_port_name(p->draw, port);
    int pad = link ? mn_term_width(name) : 0;

    name = link ? "" : name;
    if (!*half)
        snprintf(text, MN_DRAW_LABEL, "%s", name);
    else if (mirrored)
        snprintf(text, MN_DRAW_LABEL, "%s %s%*s", half, name, pad, "");
    else
        snprintf(text, MN_DRAW_LABEL, "%s%*s %s", name, pad, "", half);
    return text;
}

static int joins(const struct plan *p, const struct mn_draw_cable *cable, const struct edge *edge)
{
    int one = p->draw->ports[cable->ports[0]].node, two = p->draw->ports[cable->ports[1]].node;

    return (one == edge->a->node && two == edge->b->node) ||
           (two == edge->a->node && one == edge->b->node);
}

/* The next cable of the edge from *at on; NULL after the last. */
static const struct mn_draw_cable *next_cable(const struct plan *p, const struct edge *edge,
                                              size_t *at)
{
    while (*at < p->draw->n_cables)
        if (joins(p, &p->draw->cables[(*at)++], edge))
            return &p->draw->cables[*at - 1];
    return NULL;
}

static int is_across(const struct edge *edge)
{
    return edge->a->column != edge->b->column;
}

static int links_of(const struct plan *p, const struct edge *edge)
{
    const struct mn_draw_cable *cable;
    int n = 0;

    for (size_t at = 0; (cable = next_cable(p, edge, &at));)
        n += (int)cable->n_links;
    return n;
}

/* --- where things stand --------------------------------------------------------------------- */

static struct box *put_box(struct plan *p, int node, int column, int row, int last)
{
    struct box *box = &p->boxes[p->n_boxes++];

    *box = (struct box){.node = node, .column = column, .row = row, .last = last};
    p->rows = last >= p->rows ? last + 1 : p->rows;
    return box;
}

static void put_edge(struct plan *p, const struct box *a, const struct box *b)
{
    int swap = a->column == b->column ? a->row > b->row : a->column > b->column;

    p->edges[p->n_edges++] = (struct edge){swap ? b : a, swap ? a : b};
}

static void lay_line(struct plan *p, const int *order, int n)
{
    for (int i = 0; i < n; i++)
        put_box(p, order[i], (i % 4 == 1 || i % 4 == 2), i / 2, i / 2);
    for (int i = 1; i < n; i++)
        put_edge(p, &p->boxes[i - 1], &p->boxes[i]);
}

/* Where there is one box less on the left, its first cable downwards is longer, or it is as high as
 * both on the right. */
static void lay_ring(struct plan *p, const int *order, int n)
{
    int right = (n + 1) / 2, left = n - right;

    put_box(p, order[0], 0, 0, left == 1 ? right - 1 : 0);
    for (int i = 0; i < right; i++)
        put_box(p, order[1 + i], 1, i, i);
    for (int i = left - 1; i > 0; i--)
        put_box(p, order[n - i], 0, right - left + i, right - left + i);
    for (int i = 0; i < n; i++)
        put_edge(p, &p->boxes[i], &p->boxes[(i + 1) % n]);
}

static int widest(int a, int b)
{
    return a > b ? a : b;
}

static void size_across(struct plan *p, const struct edge *edge)
{
    const struct mn_draw_cable *cable;
    char text[MN_DRAW_LABEL];
    int row = edge->a->last < edge->b->last ? edge->a->last : edge->b->last;

    p->high[row] = widest(p->high[row], 2 + links_of(p, edge));
    for (size_t at = 0; (cable = next_cable(p, edge, &at));)
        for (size_t i = 0; i < cable->n_links; i++) {
            int need = mn_term_width(end_text(p, cable, i, edge->a->node, 0, text));
            need += mn_term_width(end_text(p, cable, i, edge->b->node, 1, text));
            int middle = mn_term_width(mn_draw_middle(p->draw, cable, i, text));
            need += 6 + p->wire + (middle ? middle + 2 + p->wire : 0);
            p->inner = widest(p->inner, need);
        }
}

/* How far an edge downwards and its texts reach from the middle of its box. */
static int reach_of(const struct plan *p, const struct edge *edge)
{
    size_t at = 0;
    const struct mn_draw_cable *cable = next_cable(p, edge, &at);
    char text[MN_DRAW_LABEL];
    int need = 0;

    for (size_t i = 0; i < cable->n_links; i++) {
        need = widest(need, mn_term_width(end_text(p, cable, i, edge->a->node, 0, text)));
        need = widest(need, mn_term_width(end_text(p, cable, i, edge->b->node, 0, text)));
        need = widest(need, mn_term_width(mn_draw_middle(p->draw, cable, i, text)));
    }
    return need + 2;
}

/* What stands in the middle of a cable downwards: a line for each link that has something. */
static int middles_of(const struct plan *p, const struct mn_draw_cable *cable)
{
    char text[MN_DRAW_LABEL];
    int n = 0;

    for (size_t i = 0; i < cable->n_links; i++)
        n += *mn_draw_middle(p->draw, cable, i, text) != 0;
    return n;
}

static int rows_down(const struct plan *p, const struct edge *edge)
{
    size_t at = 0;

    return 2 * links_of(p, edge) + widest(1, middles_of(p, next_cable(p, edge, &at)));
}

static void size_down(struct plan *p, const struct edge *edge)
{
    int row = edge->a->last, reach = reach_of(p, edge) + 2;

    p->gap[row] = widest(p->gap[row], rows_down(p, edge));
    for (size_t i = 0; i < p->n_edges; i++) {
        const struct edge *other = &p->edges[i];
        if (!is_across(other) && other->a->column != edge->a->column && other->a->row <= row &&
            row < other->b->row)
            reach += reach_of(p, other);
    }
    p->inner = widest(p->inner, reach - p->wide[0] / 2 - p->wide[1] / 2);
}

/* 0 when two boxes one above the other have more cables than one: those go across only. */
static int measure(struct plan *p)
{
    p->inner = 0;
    for (size_t i = 0; i < p->n_boxes; i++) {
        int wide = mn_term_width(p->draw->mesh->nodes[p->boxes[i].node].name) + 4;
        p->wide[p->boxes[i].column] = widest(p->wide[p->boxes[i].column], wide);
        p->high[p->boxes[i].row] = widest(p->high[p->boxes[i].row], 3);
    }
    for (size_t i = 0; i < p->n_edges; i++) {
        size_t at = 0;
        if (is_across(&p->edges[i])) {
            size_across(p, &p->edges[i]);
            continue;
        }
        if (next_cable(p, &p->edges[i], &at) && next_cable(p, &p->edges[i], &at))
            return 0;
        size_down(p, &p->edges[i]);
    }
    for (int row = 1; row < p->rows; row++)
        p->y[row] = p->y[row - 1] + p->high[row - 1] + p->gap[row - 1];
    return 1;
}

/* --- drawing -------------------------------------------------------------------------------- */

static int left_of(const struct plan *p, int column)
{
    return column ? p->wide[0] + p->inner : 0;
}

static int below(const struct plan *p, const struct box *box)
{
    return p->y[box->last] + p->high[box->last];
}

static void draw_box(const struct plan *p, struct mn_canvas *canvas, const struct box *box)
{
    int x = left_of(p, box->column), y = p->y[box->row], high = below(p, box) - y;

    mn_canvas_box(canvas, x, y, p->wide[box->column], high);
    mn_canvas_text(canvas, x + 2, y + high / 2, p->draw->mesh->nodes[box->node].name, MN_BOLD);
}

/* A blank on both sides keeps it off the line. */
static void put_text(struct mn_canvas *canvas, int x, int y, const char *text)
{
    int wide = mn_term_width(text);

    if (!wide)
        return;
    mn_canvas_text(canvas, x - 1, y, " ", MN_PLAIN);
    mn_canvas_text(canvas, x, y, text, MN_PLAIN);
    mn_canvas_text(canvas, x + wide, y, " ", MN_PLAIN);
}

static void draw_link(const struct plan *p, struct mn_canvas *canvas, const struct edge *edge,
                      const struct mn_draw_cable *cable, size_t i, int y)
{
    int x0 = p->wide[0] - 1, x1 = p->wide[0] + p->inner, inset = i ? 4 : 0;
    char left[MN_DRAW_LABEL], right[MN_DRAW_LABEL], middle[MN_DRAW_LABEL];

    end_text(p, cable, i, edge->a->node, 0, left);
    end_text(p, cable, i, edge->b->node, 1, right);
    mn_draw_middle(p->draw, cable, i, middle);
    int from = x0 + 3 + mn_term_width(left), to = x1 - 2 - mn_term_width(right);
    mn_canvas_across(canvas, x0 + inset, x1 - inset, y, mn_draw_is_bare(p->draw, cable, i),
                     mn_draw_color(p->draw, cable, i));
    put_text(canvas, x0 + 3, y, left);
    put_text(canvas, to, y, right);
    put_text(canvas, (from + to - mn_term_width(middle)) / 2, y, middle);
}

static void draw_across(const struct plan *p, struct mn_canvas *canvas, const struct edge *edge)
{
    const struct mn_draw_cable *cable;
    int y = p->y[edge->a->last < edge->b->last ? edge->a->last : edge->b->last];

    for (size_t at = 0; (cable = next_cable(p, edge, &at));)
        for (size_t i = 0; i < cable->n_links; i++)
            draw_link(p, canvas, edge, cable, i, ++y);
}

static void draw_down(const struct plan *p, struct mn_canvas *canvas, const struct edge *edge)
{
    size_t at = 0;
    const struct mn_draw_cable *cable = next_cable(p, edge, &at);
    int left = !edge->a->column, n = (int)cable->n_links;
    int x = left_of(p, edge->a->column) + p->wide[edge->a->column] / 2;
    int top = below(p, edge->a), bottom = p->y[edge->b->row] - 1;
    int middle = (top + bottom + 1 - middles_of(p, cable)) / 2;
    void (*put)(struct mn_canvas *, int, int, const char *, enum mn_color) =
        left ? mn_canvas_text : mn_canvas_text_left;
    char text[MN_DRAW_LABEL];

    mn_canvas_down(canvas, x, top - 1, bottom + 1, cable->bare == n,
                   mn_draw_color(p->draw, cable, 0));
    x += left ? 2 : -1;
    for (int i = 0; i < n; i++) {
        size_t link = (size_t)i;
        enum mn_color color = mn_draw_is_bare(p->draw, cable, link) && cable->bare < n
                                  ? mn_draw_color(p->draw, cable, link)
                                  : MN_PLAIN;
        put(canvas, x, top + i, end_text(p, cable, link, edge->a->node, !left, text), color);
        if (*mn_draw_middle(p->draw, cable, link, text))
            put(canvas, x, middle++, text, MN_PLAIN);
        put(canvas, x, bottom + 1 - n + i, end_text(p, cable, link, edge->b->node, !left, text),
            color);
    }
}

static void draw_all(const struct plan *p, const struct mn_draw_look *look, FILE *file)
{
    struct mn_canvas canvas;

    mn_canvas_init(&canvas, p->wide[0] + p->inner + p->wide[1]);
    for (size_t i = 0; i < p->n_edges; i++)
        (is_across(&p->edges[i]) ? draw_across : draw_down)(p, &canvas, &p->edges[i]);
    for (size_t i = 0; i < p->n_boxes; i++)
        draw_box(p, &canvas, &p->boxes[i]);
    mn_canvas_print(&canvas, look, file);
    mn_canvas_free(&canvas);
}

int mn_draw_boxes(const struct mn_draw *draw, const struct mn_draw_look *look, FILE *file)
{
    size_t n = draw->mesh->n_nodes + 1;
    struct plan p = {.draw = draw};
    int *order = mn_zalloc(n * sizeof *order), *sizes = mn_zalloc(3 * n * sizeof *sizes), closed;
    int fits = draw->mesh->n_nodes > 1 && mn_draw_loop(draw, order, &closed);

    p.boxes = mn_zalloc(n * sizeof *p.boxes);
    p.edges = mn_zalloc(n * sizeof *p.edges);
    p.high = sizes;
    p.gap = sizes + n;
    p.y = sizes + 2 * n;
    if (fits) {
        (closed ? lay_ring : lay_line)(&p, order, (int)n - 1);
        fits = 0;
        for (size_t i = 0; i < sizeof wires / sizeof *wires && !fits; i++) {
            p.wire = wires[i];
            fits =
                measure(&p) && (!look->columns || p.wide[0] + p.inner + p.wide[1] <= look->columns);
        }
    }
    if (fits)
        draw_all(&p, look, file);
    free(order);
    free(sizes);
    free(p.boxes);
    free(p.edges);
    return fits;
}
