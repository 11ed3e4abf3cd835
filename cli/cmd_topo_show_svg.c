#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/layout.h"
#include "cli/report/text.h"
#include "cli/topo_show.h"
#include "topo/base/alloc.h"

#define LINE        14.0 /* of a label */
#define NODE_HEIGHT 40.0
#define ROOM        300.0 /* for three labels, between two nodes */
#define MARGIN      24.0
#define LABEL       (3 * MN_NAME_MAX)

enum { FIRST, SECOND, MIDDLE, LABELS };
#define NEAR_END 0.26

static const char style[] = "text { font: 12px sans-serif; fill: #222; }\n"
                            ".name { font-size: 15px; font-weight: bold; text-anchor: middle; }\n"
                            ".port { font-weight: bold; text-anchor: middle; }\n"
                            ".half, .speed { font-size: 11px; fill: #555; text-anchor: middle; }\n"
                            ".node { fill: #e8eef7; stroke: #33507a; stroke-width: 1.5; }\n"
                            ".under { fill: #fff; fill-opacity: 0.9; }\n"
                            ".cable { fill: none; stroke: #2a7f3f; stroke-width: 2.5; }\n"
                            ".bare { stroke: #b58900; stroke-dasharray: 7 5; }\n";

struct picture {
    const struct mn_draw *draw;
    struct mn_layout layout;
    FILE *file;
};

/* The nth line of a label; NULL after the last. */
static const char *line_of(const struct mn_draw *draw, const struct mn_draw_cable *cable, int label,
                           size_t n, char text[LABEL])
{
    char speed[32];

    if (label == MIDDLE) {
        mn_speed_format(mn_draw_speed(draw, cable), speed, sizeof speed);
        if (n || (!*speed && !cable->bare))
            return NULL;
        snprintf(text, LABEL, "%s%s%s", speed, *speed && cable->bare ? ", " : "",
                 cable->bare ? "no addresses yet" : "");
        return text;
    }
    const struct mn_draw_port *port = &draw->ports[cable->ports[label]];
    const char *half =
        n && n <= cable->n_links ? mn_draw_half(port, mn_draw_nic(draw, cable, n - 1, label)) : "";
    snprintf(text, LABEL, "%s", n ? half : mn_draw_port_name(draw, port));
    return *text ? text : NULL;
}

static void size_all(struct picture *p)
{
    const struct mn_draw *draw = p->draw;
    char text[LABEL];

    for (size_t i = 0; i < p->layout.n_nodes; i++) {
        mn_text_short(draw->mesh->nodes[i].name, 24, text, sizeof text);
        p->layout.nodes[i].wide = fmax(72, 28 + 9.0 * mn_text_width(text));
        p->layout.nodes[i].high = NODE_HEIGHT;
    }
    for (size_t i = 0; i < draw->n_cables * LABELS; i++) {
        struct mn_curve *curve = &p->layout.curves[i];
        int label = (int)(i % LABELS);
        curve->home = label == FIRST ? -NEAR_END : label == SECOND ? NEAR_END : 0;
        for (size_t n = 0; line_of(draw, &draw->cables[i / LABELS], label, n, text); n++) {
            curve->label.wide = fmax(curve->label.wide, 7.0 * mn_text_width(text) + 8);
            curve->label.high += LINE;
        }
    }
}

static void put_cable(const struct picture *p, const struct mn_draw_cable *cable,
                      const struct mn_curve *c)
{
    FILE *file = p->file;

    fprintf(file, "<path class=\"cable%s\" d=\"M%.1f %.1fQ%.1f %.1f %.1f %.1f\"><title>",
            cable->bare ? " bare" : "", c->ax, c->ay, c->cx, c->cy, c->bx, c->by);
    for (int end = 0; end < 2; end++) {
        const struct mn_draw_port *port = &p->draw->ports[cable->ports[end]];
        fputs(end ? " – " : "", file);
        mn_text_html(file, p->draw->mesh->nodes[port->node].name);
        fputc(' ', file);
        mn_text_html(file, mn_draw_port_name(p->draw, port));
    }
    for (size_t i = 0; i < cable->n_links; i++) {
        fputs(i ? ", " : ": ", file);
        mn_text_html(file, p->draw->mesh->links[cable->links[i]].name);
    }
    fputs("</title></path>\n", file);
}

static void put_label(const struct picture *p, const struct mn_draw_cable *cable, int label,
                      const struct mn_curve *curve)
{
    const struct mn_box *at = &curve->label;
    char text[LABEL];

    if (!curve->placed || at->high <= 0)
        return;
    fprintf(p->file,
            "<rect class=\"under\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
            at->x - at->wide / 2, at->y - at->high / 2, at->wide, at->high);
    for (size_t n = 0; line_of(p->draw, cable, label, n, text); n++) {
        fprintf(p->file, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">",
                label == MIDDLE ? "speed"
                : n             ? "half"
                                : "port",
                at->x, at->y - at->high / 2 + LINE * (double)(n + 1) - 3);
        mn_text_html(p->file, text);
        fputs("</text>\n", p->file);
    }
}

static void put_node(const struct picture *p, size_t i)
{
    const struct mn_box *n = &p->layout.nodes[i];
    const struct mn_mesh_node *node = &p->draw->mesh->nodes[i];
    char text[LABEL];

    fputs("<g><title>", p->file);
    mn_text_html(p->file, node->name);
    for (size_t k = 0; k < node->n_nics; k++)
        if (node->nics[k].role == MN_ROLE_MANAGEMENT) {
            fputs("; for management: ", p->file);
            mn_text_html(p->file, node->nics[k].name);
        }
    fprintf(p->file,
            "</title><rect class=\"node\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
            "rx=\"8\"/><text class=\"name\" x=\"%.1f\" y=\"%.1f\">",
            n->x - n->wide / 2, n->y - n->high / 2, n->wide, n->high, n->x, n->y + 5);
    mn_text_html(p->file, mn_text_short(node->name, 24, text, sizeof text));
    fputs("</text></g>\n", p->file);
}

static void put_all(const struct picture *p)
{
    const struct mn_draw *draw = p->draw;
    struct mn_box all = mn_layout_bounds(&p->layout);
    double wide = all.wide + 2 * MARGIN, high = all.high + 2 * MARGIN;

    fprintf(p->file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"%.0f %.0f %.0f %.0f\" "
            "width=\"%.0f\" height=\"%.0f\">\n<title>",
            all.x - wide / 2, all.y - high / 2, wide, high, wide, high);
    mn_text_html(p->file, draw->mesh->name[0] ? draw->mesh->name : "mesh");
    fprintf(p->file, ": %zu nodes, %zu cables, %s</title>\n<style>\n%s</style>\n",
            draw->mesh->n_nodes, draw->n_cables, mn_mesh_shape(draw->mesh), style);
    for (size_t i = 0; i < draw->n_cables; i++)
        put_cable(p, &draw->cables[i], &p->layout.curves[i * LABELS]);
    for (size_t i = 0; i < draw->n_cables * LABELS; i++)
        put_label(p, &draw->cables[i / LABELS], (int)(i % LABELS), &p->layout.curves[i]);
    for (size_t i = 0; i < draw->mesh->n_nodes; i++)
        put_node(p, i);
    fputs("</svg>\n", p->file);
}

enum mn_err mn_topo_show_svg(const struct mn_draw *draw, FILE *file, struct mn_diag *diag)
{
    struct picture p = {.draw = draw, .file = file};
    struct mn_layout *l = &p.layout;
    struct mn_layout_edge *edges = mn_zalloc((draw->n_cables + 1) * sizeof *edges);

    for (size_t i = 0; i < draw->n_cables; i++)
        edges[i] = (struct mn_layout_edge){(size_t)draw->ports[draw->cables[i].ports[0]].node,
                                           (size_t)draw->ports[draw->cables[i].ports[1]].node};
    l->n_nodes = draw->mesh->n_nodes;
    l->nodes = mn_zalloc((l->n_nodes + 1) * sizeof *l->nodes);
    l->edges = edges;
    l->n_edges = draw->n_cables;
    l->labels = LABELS;
    l->curves = mn_zalloc((draw->n_cables * LABELS + 1) * sizeof *l->curves);
    size_all(&p);
    enum mn_err err = mn_layout_nodes(l, ROOM, diag);
    mn_layout_edges(l);
    put_all(&p);
    free(edges);
    free(l->nodes);
    free(l->curves);
    return err;
}
