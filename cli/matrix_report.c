#include "cli/matrix_report.h"
#include "cli/slow_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "cli/results_head.h"
#include "topo/base/alloc.h"

#define N(columns) ((int)(sizeof(columns) / sizeof *(columns)))

static enum mn_color color_of(const struct mn_matrix_report *r, size_t c)
{
    double ratio = mn_matrix_ratio(r, c);

    for (size_t i = 0; i < r->n_findings; i++)
        if (r->findings[i].cell == (int)c && r->findings[i].severity == MN_MATRIX_BAD)
            return MN_RED;
    for (size_t i = 0; i < r->n_findings; i++)
        if (r->findings[i].cell == (int)c && r->findings[i].severity == MN_MATRIX_WARN)
            return MN_YELLOW;
    return ratio >= 0.9 ? MN_GREEN : MN_PLAIN;
}

/* --- the grid: text only, since its columns are the nodes ------------------------------------- */

/* Decimals by which the largest figure of a grid has three digits. */
static int grid_decimals(const struct mn_matrix_report *r, int links)
{
    double most = 0;

    for (size_t c = 0; c < r->n_cells; c++)
        for (int d = MN_P2P_OUT; d <= MN_P2P_IN; d++)
            if ((r->cells[c].link >= 0) == links && (double)r->cells[c].gbps[d] > most)
                most = (double)r->cells[c].gbps[d];
    return most >= 100 ? 0 : most >= 10 ? 1 : 2;
}

/* What goes from one node to another: a number for each cell between them. */
static void grid_cell(struct mn_out *out, const struct mn_matrix_report *r, int links, int from,
                      int to)
{
    int decimals = grid_decimals(r, links);
    char text[160] = "";
    size_t used = 0;
    enum mn_color color = MN_PLAIN;

    for (size_t c = 0; c < r->n_cells && used < sizeof text; c++) {
        const struct mn_matrix_cell *cell = &r->cells[c];
        int there = cell->from == from && cell->to == to,
            back = cell->from == to && cell->to == from;
        if ((cell->link >= 0) != links || !(there || back))
            continue;
        const char *gap = used ? " | " : "";
        if (cell->status == MN_CELL_OK)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*f", gap, decimals,
                                     (double)cell->gbps[there ? MN_P2P_OUT : MN_P2P_IN]);
        else
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", gap,
                                     cell->status == MN_CELL_UNMEASURED
                                         ? "?"
                                         : mn_matrix_status_names[cell->status]);
        enum mn_color own = color_of(r, c);
        color = own == MN_RED || color == MN_PLAIN || (own == MN_YELLOW && color != MN_RED) ? own
                                                                                            : color;
    }
    mn_out_color(out, color);
    mn_out_cell(out, text[0] ? text : from == to ? "" : NULL);
}

static void print_grid(struct mn_out *out, const struct mn_matrix_report *r, int links)
{
    int n = (int)r->mesh->n_nodes, any = 0;

    for (size_t c = 0; c < r->n_cells; c++)
        any |= (r->cells[c].link >= 0) == links;
    if (!any)
        return;
    struct mn_col *cols = mn_zalloc((size_t)(n + 1) * sizeof *cols);
    cols[0] = (struct mn_col){"from", "from \\ to", 0};
    for (int i = 0; i < n; i++)
        cols[i + 1] = (struct mn_col){r->mesh->nodes[i].name, r->mesh->nodes[i].name, 1};
    mn_out_table(out, links ? "grid_links" : "grid_pairs",
                 links ? "each cable, Gb/s from row to column"
                       : "each pair over all its cables, Gb/s from row to column",
                 cols, n + 1);
    for (int from = 0; from < n; from++) {
        mn_out_row(out);
        mn_out_cell(out, r->mesh->nodes[from].name);
        for (int to = 0; to < n; to++)
            grid_cell(out, r, links, from, to);
    }
    mn_out_table_end(out);
    free(cols);
}

/* --- cells ------------------------------------------------------------------------------------ */

static void cell_known(struct mn_out *out, double value, int decimals, int known)
{
    if (known)
        mn_out_cell_num(out, value, decimals);
    else
        mn_out_cell(out, NULL);
}

static const char *netdev_of(const struct mn_matrix_report *r, const struct mn_matrix_cell *cell,
                             int node)
{
    if (cell->link < 0)
        return NULL;
    const struct mn_mesh_end *end = r->mesh->links[cell->link].ends;
    end += end[0].node == node ? 0 : 1;
    return r->mesh->nodes[end->node].nics[end->nic].netdev;
}

static void print_cells(struct mn_out *out, const struct mn_matrix_results *results)
{
    static const char *const carriers[] = {[MN_P2P_UNSEEN] = NULL,
                                           [MN_P2P_TCP] = "TCP",
                                           [MN_P2P_RDMA] = "RDMA",
                                           [MN_P2P_MIXED] = "RDMA in part"};
    static const struct mn_col cols[] = {
        {"mode", "what", MN_DROP(6)},
        {"link", "link", 0},
        {"from", "from", 0},
        {"to", "to", 0},
        {"netdev_from", "netdev", MN_DROP(4)},
        {"netdev_to", "netdev", MN_DROP(3)},
        {"status", "status", 0},
        {"transport", "by", MN_DROP(7)},
        {"bytes", "size", 1 | MN_DROP(1)},
        {"out_gbps", "out Gb/s", 1},
        {"in_gbps", "in", 1},
        {"both_gbps", "both", 1 | MN_DROP(8)},
        {"p50_us", "p50 us", 1},
        {"p99_us", "p99", 1 | MN_DROP(5)},
        {"expected_gbps", "could", 1 | MN_DROP(9)},
        {"expected_by", "limited by", MN_DROP(2)},
        {"ratio", "ratio", 1},
        {"packets", NULL, 1},
        {"lost_packets", NULL, 1},
        {"lost_percent", "lost %", 1},
        {"error", "error", 0},
    };
    const struct mn_matrix_report *r = &results->report;

    mn_out_table(out, "cells", "cells; latency: half round trips of 8 bytes", cols, N(cols));
    for (size_t c = 0; c < r->n_cells; c++) {
        const struct mn_matrix_cell *cell = &r->cells[c];
        int ok = cell->status == MN_CELL_OK || cell->status == MN_CELL_WRONG;
        mn_out_row(out);
        mn_out_cell(out, cell->link >= 0 ? "link" : "pair");
        mn_out_cell(out, cell->link >= 0 ? r->mesh->links[cell->link].name : NULL);
        mn_out_cell(out, r->mesh->nodes[cell->from].name);
        mn_out_cell(out, r->mesh->nodes[cell->to].name);
        mn_out_cell(out, netdev_of(r, cell, cell->from));
        mn_out_cell(out, netdev_of(r, cell, cell->to));
        mn_out_color(out, color_of(r, c));
        mn_out_cell(out, mn_matrix_status_names[cell->status]);
        mn_out_cell(out, ok && cell->carrier >= 0 && cell->carrier < N(carriers)
                             ? carriers[cell->carrier]
                             : NULL);
        mn_out_cell_int(out, (int64_t)results->bytes);
        for (int d = 0; d < MN_P2P_DIRECTIONS; d++)
            cell_known(out, (double)cell->gbps[d], 3, ok);
        cell_known(out, (double)cell->p50_us, 2, ok);
        cell_known(out, (double)cell->p99_us, 2, ok);
        cell_known(out, r->limits[c].gbps, 3, r->limits[c].gbps > 0);
        mn_out_cell(out, r->limits[c].gbps > 0 ? r->limits[c].by : NULL);
        cell_known(out, mn_matrix_ratio(r, c), 3, mn_matrix_ratio(r, c) >= 0);
        cell_known(out, (double)cell->packets, 0, ok);
        cell_known(out, (double)cell->lost, 0, ok);
        cell_known(out, 100 * mn_matrix_lost(cell), 3, ok && cell->packets);
        mn_out_cell(out, cell->error[0] ? cell->error : NULL);
    }
    mn_out_table_end(out);
}

static void print_lanes(struct mn_out *out, const struct mn_matrix_report *r)
{
    static const struct mn_col cols[] = {
        {"from", "from", 0},          {"to", "to", 0},         {"link", "link", 0},
        {"node", "node", MN_DROP(1)}, {"netdev", "netdev", 0}, {"share", "share", 1},
    };
    int any = 0;

    for (size_t c = 0; c < r->n_cells; c++)
        any |= r->cells[c].n_lanes;
    if (!any)
        return;
    mn_out_table(out, "carried", "who carried the bytes of each pair, by the counters", cols,
                 N(cols));
    for (size_t c = 0; c < r->n_cells; c++)
        for (int k = 0; k < r->cells[c].n_lanes; k++) {
            const struct mn_matrix_cell *cell = &r->cells[c];
            const struct mn_matrix_cell of_link = {.link = cell->lanes[k].link};
            mn_out_row(out);
            mn_out_cell(out, r->mesh->nodes[cell->from].name);
            mn_out_cell(out, r->mesh->nodes[cell->to].name);
            mn_out_cell(out, r->mesh->links[of_link.link].name);
            mn_out_cell(out, r->mesh->nodes[cell->from].name);
            mn_out_cell(out, netdev_of(r, &of_link, cell->from));
            mn_out_cell_num(out, (double)cell->lanes[k].share, 3);
        }
    mn_out_table_end(out);
}

static void print_findings(struct mn_out *out, const struct mn_matrix_report *r)
{
    static const struct mn_col cols[] = {
        {"severity", "", 0}, {"link", "link", 0},    {"from", "from", 0},
        {"to", "to", 0},     {"text", "finding", 0},
    };

    mn_out_table(out, "findings", "findings", cols, N(cols));
    for (size_t i = 0; i < r->n_findings; i++) {
        const struct mn_matrix_finding *f = &r->findings[i];
        const struct mn_matrix_cell *cell = &r->cells[f->cell];
        mn_out_row(out);
        mn_out_color(out, f->severity == MN_MATRIX_BAD    ? MN_RED
                          : f->severity == MN_MATRIX_WARN ? MN_YELLOW
                                                          : MN_PLAIN);
        mn_out_cell(out, mn_matrix_severity_names[f->severity]);
        mn_out_cell(out, cell->link >= 0 ? r->mesh->links[cell->link].name : NULL);
        mn_out_cell(out, r->mesh->nodes[cell->from].name);
        mn_out_cell(out, r->mesh->nodes[cell->to].name);
        mn_out_cell(out, f->text);
    }
    mn_out_table_end(out);
}

/* JSON alone: in text it is a finding of each cell, and the error. */
static void print_absent(struct mn_out *out, const struct mn_matrix_results *results)
{
    const struct mn_mesh *mesh = results->report.mesh;

    mn_out_list_begin(out, "unreachable", NULL);
    for (size_t i = 0; results->absent && i < mesh->n_nodes; i++)
        if (results->absent[i]) {
            mn_out_begin(out, NULL, NULL);
            mn_out_str(out, "node", NULL, mesh->nodes[i].name);
            mn_out_str(out, "why", NULL, results->absent[i]);
            mn_out_end(out);
        }
    mn_out_list_end(out);
}

/* In text, findings are sentences. */
static void say_findings(struct mn_out *out, const struct mn_matrix_report *r)
{
    for (size_t i = 0; i < r->n_findings; i++)
        mn_out_note(out,
                    r->findings[i].severity == MN_MATRIX_BAD    ? MN_RED
                    : r->findings[i].severity == MN_MATRIX_WARN ? MN_YELLOW
                                                                : MN_PLAIN,
                    "%s: %s", mn_matrix_severity_names[r->findings[i].severity],
                    r->findings[i].text);
    if (!r->n_findings && r->n_cells)
        mn_out_note(out, MN_GREEN, "nothing stands out");
}

static int has_pairs(const struct mn_matrix_report *r)
{
    for (size_t i = 0; i < r->n_cells; i++)
        if (r->cells[i].link < 0)
            return 1;
    return 0;
}

void mn_matrix_print(struct mn_out *out, enum mn_out_format format,
                     const struct mn_matrix_results *results)
{
    const struct mn_matrix_report *r = &results->report;
    static const struct mn_col cols[] = {{"name", "name", 0}};

    mn_results_print_head(out, MN_RESULTS_MATRIX, results->started, results->environments,
                          results->n_environments);
    mn_out_bool(out, "complete", NULL, results->error == NULL);
    mn_out_str(out, "error", NULL, results->error);
    print_absent(out, results);
    mn_out_str(out, "clock", "clock", "CLOCK_MONOTONIC");
    if (format == MN_OUT_JSON) {
        mn_out_table(out, "nodes", NULL, cols, 1);
        for (size_t i = 0; i < r->mesh->n_nodes; i++) {
            mn_out_row(out);
            mn_out_cell(out, r->mesh->nodes[i].name);
        }
        mn_out_table_end(out);
    }
    if (format == MN_OUT_TEXT) {
        print_grid(out, r, 1);
        print_grid(out, r, 0);
    }
    print_cells(out, results);
    if (format != MN_OUT_CSV)
        print_lanes(out, r);
    if (format == MN_OUT_TEXT && has_pairs(r))
        mn_slow_pairs_print(out, r->mesh);
    if (format == MN_OUT_TEXT)
        say_findings(out, r);
    else
        print_findings(out, r);
}

void mn_matrix_print_so_far(struct mn_out *out, const struct mn_matrix_results *results)
{
    struct mn_matrix_results now = *results;
    struct mn_matrix_report *r = &now.report;

    mn_matrix_judge(r);
    print_grid(out, r, 1);
    print_grid(out, r, 0);
    print_cells(out, &now);
    free(r->limits);
    free(r->findings);
}
