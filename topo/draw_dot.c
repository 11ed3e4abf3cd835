/* DOT: labels are written as HTML, in which nothing but & < > " means anything. */
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/draw_impl.h"

static void put_html(FILE *file, const char *text)
{
    char *copy = mn_clean(mn_strdup(text));

    for (const char *at = copy; *at; at++)
        if (strchr("&<>\"\\", *at))
            fprintf(file, "&#%d;", *at);
        else
            fputc(*at, file);
    free(copy);
}

/* An attribute in quotes, in which a backslash would begin something. */
static void put_quoted(FILE *file, const char *text)
{
    char *copy = mn_clean(mn_strdup(text));

    fputc('"', file);
    for (const char *at = copy; *at; at++) {
        if (strchr("\"\\", *at))
            fputc('\\', file);
        fputc(*at, file);
    }
    fputc('"', file);
    free(copy);
}

static void put_port(const struct mn_draw *draw, size_t index, FILE *file)
{
    const struct mn_draw_port *port = &draw->ports[index];

    fprintf(file, "    <TR><TD PORT=\"p%zu\" ALIGN=\"LEFT\"><B>", index);
    put_html(file, mn_draw_port_name(draw, port));
    fputs("</B>", file);
    for (size_t i = 0; i < port->n_nics; i++) {
        const char *half = mn_draw_half(port, &draw->mesh->nodes[port->node].nics[port->nics[i]]);
        if (!*half)
            continue;
        fputs("<BR ALIGN=\"LEFT\"/>", file);
        put_html(file, half);
    }
    fputs("<BR ALIGN=\"LEFT\"/></TD></TR>\n", file);
}

static void put_node(const struct mn_draw *draw, int node, FILE *file)
{
    fprintf(file,
            "  n%d [label=<<TABLE BORDER=\"0\" CELLBORDER=\"1\" CELLSPACING=\"0\" "
            "CELLPADDING=\"5\">\n    <TR><TD BGCOLOR=\"#e8eef7\"><B>",
            node);
    put_html(file, draw->mesh->nodes[node].name);
    fputs("</B></TD></TR>\n", file);
    for (size_t p = 0; p < draw->n_ports; p++)
        if (draw->ports[p].node == node)
            put_port(draw, p, file);
    fputs("  </TABLE>>];\n", file);
}

static void put_cable(const struct mn_draw *draw, const struct mn_draw_cable *cable, FILE *file)
{
    char text[MN_DRAW_LABEL];

    fprintf(file, "  n%d:p%zu -- n%d:p%zu [label=", draw->ports[cable->ports[0]].node,
            cable->ports[0], draw->ports[cable->ports[1]].node, cable->ports[1]);
    put_quoted(file, mn_draw_middle(draw, cable, 0, text));
    if (cable->bare == (int)cable->n_links)
        fputs(", style=dashed, color=\"#b58900\"", file);
    fputs("];\n", file);
}

void mn_draw_dot(const struct mn_draw *draw, FILE *file)
{
    const struct mn_mesh *mesh = draw->mesh;

    fputs("graph ", file);
    put_quoted(file, mesh->name[0] ? mesh->name : "mesh");
    fprintf(file,
            " {\n  graph [layout=%s, overlap=false, splines=true, mindist=1.6, sep=\"+24\"];\n"
            "  node [shape=plain, fontname=\"sans-serif\"];\n"
            "  edge [fontname=\"sans-serif\", fontsize=11, len=3];\n",
            mesh->n_nodes <= 10 ? "circo" : "neato");
    for (size_t n = 0; n < mesh->n_nodes; n++)
        put_node(draw, (int)n, file);
    for (size_t i = 0; i < draw->n_cables; i++)
        put_cable(draw, &draw->cables[i], file);
    fputs("}\n", file);
}
