#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/topo_plan.h"
#include "cli/topo_show.h"
#include "topo/base/alloc.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define DRAWN        16 /* nodes: more are no picture */
#define DRAWN_CABLES 32

/* --- what can be ---------------------------------------------------------------------------- */

/* "-12 %", of what it was. */
static void put_loss(struct mn_out *out, const struct mn_wiring_view *view, double before,
                     double after)
{
    double percent = before > 0 ? floor(100 * (after - before) / before + 0.5) : 0;

    if (view->json)
        mn_out_cell_num(out, after / 1e9, 3);
    else if (after <= 0)
        mn_out_cell(out, "cut off");
    else
        mn_out_cellf(out, percent < 0 ? "%.0f %%" : "same", percent);
}

static void put_most(struct mn_out *out, int is_most, double rate)
{
    if (is_most)
        mn_out_mark(out, mn_topo_show_utf8() ? "≤" : "<=");
    mn_out_cell_num(out, rate / 1e9, 3);
}

static void put_plan(struct mn_out *out, const struct mn_wiring_view *view,
                     const struct mn_wiring *plan)
{
    const struct mn_wiring_figures *f = &plan->figures;
    char title[80];

    mn_out_row(out);
    mn_out_cell(out, mn_wiring_title(plan, title, sizeof title));
    mn_out_cell(out, plan->shape->name);
    mn_out_cell_int(out, plan->parallel);
    mn_out_cell_int(out, (int64_t)plan->n_cables);
    mn_out_cell_int(out, plan->ports);
    mn_out_cell_num(out, f->all_reduce / 1e9, 3);
    put_most(out, f->estimated, f->all_to_all);
    mn_out_cell_bool(out, f->estimated);
    put_most(out, f->bisection_estimated, f->bisection);
    mn_out_cell_bool(out, f->bisection_estimated);
    mn_out_cell_int(out, f->diameter);
    mn_out_cell_num(out, f->distance, 2);
    put_loss(out, view, f->all_reduce, f->all_reduce_failed);
    if (f->estimated && !f->cut)
        mn_out_cell(out, NULL);
    else
        put_loss(out, view, f->all_to_all, f->all_to_all_failed);
    mn_out_cell_bool(out, f->cut);
}

void mn_topo_plan_compare(struct mn_out *out, const struct mn_wiring_view *view)
{
    static const struct mn_col cols[] = {
        {"title", "SHAPE", 0},
        {"shape", NULL, 0},
        {"cables_between_neighbours", NULL, 1},
        {"cables", "CABLES", 1 | MN_DROP(4)},
        {"ports", "PORTS", 1 | MN_DROP(3)},
        {"all_reduce_gb_per_s", "ALL-REDUCE", 1},
        {"all_to_all_gb_per_s", "ALL-TO-ALL", 1},
        {"all_to_all_estimated", NULL, 0},
        {"bisection_gb_per_s", "BISECTION", 1},
        {"bisection_estimated", NULL, 0},
        {"diameter", "DIAMETER", 1},
        {"mean_distance", "MEAN", 1 | MN_DROP(2)},
        {"all_reduce_failed_gb_per_s", "A CABLE FAILS", 1},
        {"all_to_all_failed_gb_per_s", "ALL-TO-ALL", 1 | MN_DROP(1)},
        {"cut", NULL, 0},
    };
    char size[32];

    mn_out_table(out, "plans", NULL, cols, COUNT(cols));
    for (size_t i = 0; i < view->n_plans; i++)
        put_plan(out, view, &view->plans[i]);
    mn_out_table_end(out);
    mn_out_note(out, MN_PLAIN, "%s", "");
    mn_out_note(
        out, MN_PLAIN,
        "GB/s, collectives of %s as busbw; diameter and mean in cables. By the speed of the "
        "cables alone: hosts take their part.",
        mn_format_size((unsigned long long)view->speed->bytes, size, sizeof size));
    if (view->plans->figures.bisection_estimated)
        mn_out_note(out, MN_PLAIN,
                    "Bisection is that of the shape's own halves: a narrower place may be found.");
    if (view->plans->figures.estimated)
        mn_out_note(out, MN_PLAIN,
                    "All-to-all is the most that can be, with all ways spread evenly over all "
                    "cables.");
}

/* --- what to plug --------------------------------------------------------------------------- */

void mn_topo_plan_list(struct mn_out *out, const struct mn_wiring_view *view)
{
    static const struct mn_col cols[] = {
        {"done", "DONE", 0},   {"number", "CABLE", 1}, {"a_node", "NODE", 0},
        {"a_port", "PORT", 0}, {"b_node", "NODE", 0},  {"b_port", "PORT", 0},
    };
    const struct mn_wiring *plan = view->plans;
    int skip = view->json; /* nobody ticks JSON off */
    char text[MN_NAME_MAX];

    mn_out_table(out, "cables", NULL, cols + skip, (int)COUNT(cols) - skip);
    for (size_t i = 0; i < plan->n_cables; i++) {
        mn_out_row(out);
        if (!skip)
            mn_out_cell(out, "[ ]");
        mn_out_cell_int(out, (int64_t)i + 1);
        for (int side = 0; side < 2; side++) {
            const struct mn_wiring_cable *cable = &plan->cables[i];
            mn_out_cell(out, mn_wiring_node_name(view->hosts, plan->n, cable->nodes[side], text));
            mn_out_cell(out, mn_wiring_port_label(view->hosts, cable->ports[side], text));
        }
    }
    mn_out_table_end(out);
}

void mn_topo_plan_draw(struct mn_out *out, const struct mn_wiring_view *view, int columns)
{
    const struct mn_draw_look look = {.columns = columns, .utf8 = mn_topo_show_utf8()};
    char *text = NULL, *rest, *line;
    struct mn_draw draw;
    size_t len;

    if (view->json || !view->mesh || view->plans->n > DRAWN || view->plans->n_cables > DRAWN_CABLES)
        return;
    FILE *file = open_memstream(&text, &len);
    if (!file)
        mn_no_memory();
    mn_draw_init(&draw, view->mesh);
    mn_draw_text(&draw, &look, file);
    mn_draw_free(&draw);
    if (ferror(file) | fclose(file))
        mn_no_memory();
    mn_out_note(out, MN_PLAIN, "%s", "");
    for (rest = text; (line = strsep(&rest, "\n")) && rest;)
        mn_out_note(out, MN_PLAIN, "%s", line);
    free(text);
}
