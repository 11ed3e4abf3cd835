/* Any mesh: a block for each node, a row for each port, behind it what it is plugged into, and a
 * wire from row to row where there is room for all of them. */
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/base/width.h"
#include "topo/draw_impl.h"

#define TRACKS_MAX 64 /* more wires beside each other are no help to anybody */

/* A NIC, and a link that ends at it. */
struct row {
    const struct mn_draw_port *port;
    const struct mn_mesh_nic *nic;
    int first;                         /* of its port */
    const struct mn_draw_cable *cable; /* NULL: none ends here */
    size_t link;
    int end; /* of the cable, this one's */
    int y;
};

struct wire {
    const struct row *from, *to;
    int track;
};

/* Wires above each other, from top to bottom. */
struct track {
    const struct wire **wires;
    size_t n;
};

/* Columns of the parts of a row, 0 for those left out. */
struct widths {
    int name, half, speed, peer, peer_name, peer_half;
    int block, leader; /* all of the former, and all of the latter */
};

struct plan {
    const struct mn_draw *draw;
    const struct mn_draw_look *look;
    struct row *rows;
    size_t n_rows;
    size_t (*row_of)[2]; /* by cable and end: the row of its first half, counted from 1 */
    size_t *ends;        /* 2 * cable + end, by port */
    size_t *ends_from;   /* by port: where its own begin */
    struct wire *wires;
    size_t n_wires;
    int tracks; /* more than TRACKS_MAX: not all wires have one */
    struct widths wide;
};

/* --- rows ----------------------------------------------------------------------------------- */

static void add_row(struct plan *p, const struct row *row)
{
    *(struct row *)mn_grow((void **)&p->rows, &p->n_rows, sizeof *p->rows) = *row;
    if (!row->cable || row->link)
        return;
    size_t *first = &p->row_of[row->cable - p->draw->cables][row->end];
    if (!*first)
        *first = p->n_rows;
}

/* Which ends of cables are plugged into each port, in the order of the cables. */
static void sort_ends(struct plan *p)
{
    const struct mn_draw *draw = p->draw;

    p->row_of = mn_zalloc((draw->n_cables + 1) * sizeof *p->row_of);
    p->ends = mn_zalloc((2 * draw->n_cables + 1) * sizeof *p->ends);
    p->ends_from = mn_zalloc((draw->n_ports + 2) * sizeof *p->ends_from);
    for (size_t e = 0; e < 2 * draw->n_cables; e++)
        p->ends_from[draw->cables[e / 2].ports[e % 2] + 2]++;
    for (size_t i = 2; i < draw->n_ports + 2; i++)
        p->ends_from[i] += p->ends_from[i - 1];
    for (size_t e = 0; e < 2 * draw->n_cables; e++)
        p->ends[p->ends_from[draw->cables[e / 2].ports[e % 2] + 1]++] = e;
}

/* A row for each link of the NIC, or one for none. */
static void add_nic(struct plan *p, struct row *row)
{
    const size_t port = (size_t)(row->port - p->draw->ports);
    int found = 0;

    for (size_t i = p->ends_from[port]; i < p->ends_from[port + 1]; i++) {
        const struct mn_draw_cable *cable = &p->draw->cables[p->ends[i] / 2];
        int end = (int)(p->ends[i] % 2);
        for (size_t link = 0; link < cable->n_links; link++) {
            if (mn_draw_nic(p->draw, cable, link, end) != row->nic)
                continue;
            row->cable = cable;
            row->link = link;
            row->end = end;
            add_row(p, row);
            row->first = 0;
            found = 1;
        }
    }
    if (!found)
        add_row(p, row);
}

static void find_rows(struct plan *p)
{
    const struct mn_mesh *mesh = p->draw->mesh;

    sort_ends(p);
    for (size_t i = 0; i < p->draw->n_ports; i++) {
        const struct mn_draw_port *port = &p->draw->ports[i];
        for (size_t n = 0; n < port->n_nics; n++) {
            struct row row = {.port = port, .first = !n};
            row.nic = &mesh->nodes[port->node].nics[port->nics[n]];
            add_nic(p, &row);
        }
    }
}

/* A block has a line above and one below its rows; without ports one of its own. */
static void place_rows(struct plan *p)
{
    size_t at = 0;
    int y = 0;

    for (size_t n = 0; n < p->draw->mesh->n_nodes; n++) {
        y++;
        for (; at < p->n_rows && p->rows[at].port->node == (int)n; at++)
            p->rows[at].y = y++;
        y++;
    }
}

/* --- what stands in a row ------------------------------------------------------------------- */

static const struct mn_draw_port *peer_port(const struct plan *p, const struct row *row)
{
    return &p->draw->ports[row->cable->ports[!row->end]];
}

static const char *peer_node(const struct plan *p, const struct row *row)
{
    return row->cable ? p->draw->mesh->nodes[peer_port(p, row)->node].name : "no cable";
}

static const char *peer_name(const struct plan *p, const struct row *row)
{
    return row->cable ? mn_draw_port_name(p->draw, peer_port(p, row)) : "";
}

static const char *peer_half(const struct plan *p, const struct row *row)
{
    return row->cable ? mn_draw_half(peer_port(p, row),
                                     mn_draw_nic(p->draw, row->cable, row->link, !row->end))
                      : "";
}

static const char *own_name(const struct plan *p, const struct row *row)
{
    return row->first ? mn_draw_port_name(p->draw, row->port) : "";
}

static const char *own_speed(const struct row *row, char text[32])
{
    return mn_speed_format(row->nic->speed_mbps, text, 32);
}

static void widen(int *columns, const char *text)
{
    int wide = mn_term_width(text);

    *columns = wide > *columns ? wide : *columns;
}

/* A part and the gap in front of it. */
static int part(int columns, int gap)
{
    return columns ? columns + gap : 0;
}

static void measure(struct plan *p, int with_half)
{
    struct widths *w = &p->wide;
    char speed[32];

    *w = (struct widths){.name = 0};
    for (size_t i = 0; i < p->n_rows; i++) {
        const struct row *row = &p->rows[i];
        widen(&w->name, own_name(p, row));
        widen(&w->half, mn_draw_half(row->port, row->nic));
        widen(&w->speed, own_speed(row, speed));
        widen(&w->peer, peer_node(p, row));
        widen(&w->peer_name, peer_name(p, row));
        widen(&w->peer_half, with_half ? peer_half(p, row) : "");
    }
    w->block = w->name + part(w->half, 2) + part(w->speed, 2) + 4;
    for (size_t i = 0; i < p->draw->mesh->n_nodes; i++) {
        int title = mn_term_width(p->draw->mesh->nodes[i].name) + 6;
        w->block = title > w->block ? title : w->block;
    }
    w->leader = 3 + w->peer + part(w->peer_name, 1) + part(w->peer_half, 1);
}

/* --- wires ---------------------------------------------------------------------------------- */

static int length_of(const struct wire *wire)
{
    return wire->to->y - wire->from->y;
}

static int by_length(const void *a, const void *b)
{
    const struct wire *one = a, *two = b;
    int less = length_of(one) - length_of(two);

    return less ? less : one->from->y - two->from->y;
}

static const struct row *row_of(const struct plan *p, size_t cable, int end)
{
    size_t row = p->row_of[cable][end];

    return row ? &p->rows[row - 1] : NULL;
}

/* 0: there is no room for it. In ASCII all corners look alike: those of two wires stay apart. */
static int put_on(struct track *track, const struct wire *wire, int gap)
{
    size_t at = 0;

    for (size_t end = track->n; at < end;) {
        size_t middle = at + (end - at) / 2;
        if (track->wires[middle]->to->y + gap < wire->from->y)
            at = middle + 1;
        else
            end = middle;
    }
    if (at < track->n && track->wires[at]->from->y <= wire->to->y + gap)
        return 0;
    mn_grow((void **)&track->wires, &track->n, sizeof *track->wires);
    memmove(&track->wires[at + 1], &track->wires[at], (track->n - 1 - at) * sizeof *track->wires);
    track->wires[at] = wire;
    return 1;
}

static void find_tracks(struct plan *p)
{
    struct track tracks[TRACKS_MAX] = {{.n = 0}};

    for (size_t i = 0; i < p->n_wires && p->tracks <= TRACKS_MAX; i++) {
        struct wire *wire = &p->wires[i];
        while (wire->track < TRACKS_MAX && !put_on(&tracks[wire->track], wire, !p->look->utf8))
            wire->track++;
        p->tracks = wire->track >= p->tracks ? wire->track + 1 : p->tracks;
    }
    for (int i = 0; i < TRACKS_MAX; i++)
        free(tracks[i].wires);
}

/* One for each cable, from its first half to the other's: short ones next to the blocks. */
static void find_wires(struct plan *p)
{
    p->wires = mn_zalloc((p->draw->n_cables + 1) * sizeof *p->wires);
    for (size_t i = 0; i < p->draw->n_cables; i++) {
        const struct row *a = row_of(p, i, 0), *b = row_of(p, i, 1);
        if (a && b && a != b)
            p->wires[p->n_wires++] = (struct wire){a->y < b->y ? a : b, a->y < b->y ? b : a, 0};
    }
    if (p->n_wires)
        qsort(p->wires, p->n_wires, sizeof *p->wires, by_length);
    find_tracks(p);
}

/* --- drawing -------------------------------------------------------------------------------- */

static int put(struct mn_canvas *canvas, int x, int y, const char *text, int columns, int gap)
{
    if (columns)
        mn_canvas_text(canvas, x, y, text, MN_PLAIN);
    return x + part(columns, gap);
}

static void draw_row(const struct plan *p, struct mn_canvas *canvas, const struct row *row)
{
    const struct widths *w = &p->wide;
    int x = put(canvas, 2, row->y, own_name(p, row), w->name, 2), y = row->y;
    char speed[32];

    put(canvas, x, y, mn_draw_half(row->port, row->nic), w->half, 2);
    mn_canvas_text_left(canvas, w->block - 2, y, own_speed(row, speed), MN_PLAIN);
    x = w->block + 2;
    if (!row->cable) {
        mn_canvas_text(canvas, x + 1, y, peer_node(p, row), MN_DIM);
        return;
    }
    mn_canvas_across(canvas, w->block - 1, x - 1, y,
                     mn_draw_is_bare(p->draw, row->cable, row->link),
                     mn_draw_color(p->draw, row->cable, row->link));
    x = put(canvas, x + 1, y, peer_node(p, row), w->peer, 1);
    x = put(canvas, x, y, peer_name(p, row), w->peer_name, 1);
    put(canvas, x, y, peer_half(p, row), w->peer_half, 1);
}

static int end_of_text(const struct plan *p, const struct row *row)
{
    const struct widths *w = &p->wide;
    const char *half = w->peer_half ? peer_half(p, row) : "";
    int x = w->block + 3 + w->peer + 1;

    return *half ? x + part(w->peer_name, 1) + mn_term_width(half)
                 : x + mn_term_width(peer_name(p, row));
}

static void draw_wires(const struct plan *p, struct mn_canvas *canvas)
{
    for (int down = 0; down < 2; down++)
        for (size_t i = 0; i < p->n_wires; i++) {
            const struct wire *wire = &p->wires[i];
            const struct mn_draw_cable *cable = wire->from->cable;
            enum mn_color color = mn_draw_color(p->draw, cable, 0);
            int x = p->wide.block + p->wide.leader + 2 + 2 * wire->track;
            int dashed = mn_draw_is_bare(p->draw, cable, 0);
            if (down) {
                mn_canvas_down(canvas, x, wire->from->y, wire->to->y, dashed, color);
                continue;
            }
            mn_canvas_across(canvas, end_of_text(p, wire->from) + 1, x, wire->from->y, dashed,
                             color);
            mn_canvas_across(canvas, end_of_text(p, wire->to) + 1, x, wire->to->y, dashed, color);
        }
}

static void draw_blocks(const struct plan *p, struct mn_canvas *canvas)
{
    size_t at = 0;
    int y = 0;

    for (size_t n = 0; n < p->draw->mesh->n_nodes; n++) {
        int high = 2;
        for (; at < p->n_rows && p->rows[at].port->node == (int)n; at++, high++)
            draw_row(p, canvas, &p->rows[at]);
        mn_canvas_box(canvas, 0, y, p->wide.block, high);
        mn_canvas_text(canvas, 2, y, " ", MN_PLAIN);
        mn_canvas_text(canvas, 3, y, p->draw->mesh->nodes[n].name, MN_BOLD);
        mn_canvas_text(canvas, 3 + mn_term_width(p->draw->mesh->nodes[n].name), y, " ", MN_PLAIN);
        y += high;
    }
}

void mn_draw_blocks(const struct mn_draw *draw, const struct mn_draw_look *look, FILE *file)
{
    struct plan p = {.draw = draw, .look = look};
    struct mn_canvas canvas;
    int wires, tracks, fits = 0, wide = 0;

    find_rows(&p);
    place_rows(&p);
    find_wires(&p);
    tracks = 3 + 2 * p.tracks;
    /* What is left out first: the peer's netdev, then the wires, then both. */
    for (int less = 0; less < 4 && !fits; less++) {
        wires = less < 2 && p.tracks && p.tracks <= TRACKS_MAX;
        measure(&p, less % 2 == 0);
        wide = p.wide.block + p.wide.leader + (wires ? tracks : 0);
        fits = !look->columns || wide <= look->columns;
    }
    mn_canvas_init(&canvas, wide);
    if (wires)
        draw_wires(&p, &canvas);
    draw_blocks(&p, &canvas);
    mn_canvas_print(&canvas, look, file);
    mn_canvas_free(&canvas);
    free(p.rows);
    free(p.row_of);
    free(p.ends);
    free(p.ends_from);
    free(p.wires);
}
