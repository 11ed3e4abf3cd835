/* What stands around a drawing on a terminal, and on its cables. */
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/width.h"
#include "topo/draw_impl.h"

int mn_draw_is_bare(const struct mn_draw *draw, const struct mn_draw_cable *cable, size_t link)
{
    return mn_link_is_bare(&draw->mesh->links[cable->links[link]]);
}

enum mn_color mn_draw_color(const struct mn_draw *draw, const struct mn_draw_cable *cable,
                            size_t link)
{
    return mn_draw_is_bare(draw, cable, link) ? MN_YELLOW : MN_GREEN;
}

/* Whether a link's name is not just that of both nodes. */
static int is_named(const struct mn_mesh *mesh, const struct mn_mesh_link *link)
{
    for (int first = 0; first < 2; first++) {
        char text[2 * MN_NAME_MAX];
        int len = snprintf(text, sizeof text, "%s-%s", mesh->nodes[link->ends[first].node].name,
                           mesh->nodes[link->ends[!first].node].name);
        if (!strncmp(link->name, text, (size_t)len) && (!link->name[len] || link->name[len] == '-'))
            return 0;
    }
    return 1;
}

const char *mn_draw_middle(const struct mn_draw *draw, const struct mn_draw_cable *cable,
                           size_t link, char text[MN_DRAW_LABEL])
{
    const struct mn_mesh_link *l = &draw->mesh->links[cable->links[link]];
    char speed[32] = "";

    if (!link)
        mn_speed_format(mn_draw_speed(draw, cable), speed, sizeof speed);
    const char *name = is_named(draw->mesh, l) ? l->name : "";
    snprintf(text, MN_DRAW_LABEL, "%s%s%s", speed, *speed && *name ? " " : "", name);
    return text;
}

/* --- below the drawing ---------------------------------------------------------------------- */

/* "what: a b c", in lines as wide as there is room for, under each other. */
struct list {
    const struct mn_draw_look *look;
    FILE *file;
    const char *what;
    int used; /* columns of the line; 0: nothing is written yet */
};

static void put_item(struct list *list, const char *text)
{
    int wide = mn_term_width(text), indent = (int)strlen(list->what);

    if (!list->used) {
        fputs(list->what, list->file);
        list->used = indent;
    } else if (list->look->columns && list->used + 1 + wide > list->look->columns) {
        fprintf(list->file, "\n%*s", indent, "");
        list->used = indent;
    }
    fprintf(list->file, " %s", text);
    list->used += 1 + wide;
}

static void end_list(struct list *list)
{
    if (list->used)
        fputc('\n', list->file);
    list->used = 0;
}

static void say_free(const struct mn_draw *draw, struct list *list)
{
    list->what = "No cable at:";
    for (size_t i = 0; i < draw->n_ports; i++) {
        char text[2 * MN_NAME_MAX];
        if (draw->ports[i].cables)
            continue;
        snprintf(text, sizeof text, "%s/%s", draw->mesh->nodes[draw->ports[i].node].name,
                 mn_draw_port_name(draw, &draw->ports[i]));
        put_item(list, text);
    }
    end_list(list);
}

static void say_management(const struct mn_draw *draw, struct list *list)
{
    char text[2 * MN_NAME_MAX];

    list->what = "For management:";
    for (size_t n = 0; mn_draw_management(draw->mesh, n, text); n++)
        put_item(list, text);
    end_list(list);
}

static void say_bare(const struct mn_draw *draw, const struct mn_draw_look *look, FILE *file)
{
    size_t bare = 0;
    int halves = 0;

    for (size_t i = 0; i < draw->n_cables; i++) {
        bare += draw->cables[i].bare > 0;
        halves |= draw->cables[i].bare && draw->cables[i].bare < (int)draw->cables[i].n_links;
    }
    if (bare)
        fprintf(file, "%s  no addresses yet, %zu of %zu cables%s: meshnet topo address\n",
                look->utf8 ? "╌╌╌" : "...", bare, draw->n_cables,
                halves ? " or a half of them" : "");
}

static void say_below(const struct mn_draw *draw, const struct mn_draw_look *look, FILE *file)
{
    struct list list = {.look = look, .file = file};

    fputc('\n', file);
    say_bare(draw, look, file);
    say_free(draw, &list);
    say_management(draw, &list);
}

void mn_draw_text(const struct mn_draw *draw, const struct mn_draw_look *look, FILE *file)
{
    if (!mn_draw_boxes(draw, look, file))
        mn_draw_blocks(draw, look, file);
    say_below(draw, look, file);
}
