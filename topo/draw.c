#include "topo/draw.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh_check.h"

/* --- ports ---------------------------------------------------------------------------------- */

static int is_named(const struct mn_mesh_nic *nic)
{
    return strcmp(nic->name, nic->netdev) != 0;
}

/* Ports stand in the order of their nodes. Returns the first of the node's, or of a later one. */
static size_t ports_of(const struct mn_draw *draw, int node)
{
    size_t low = 0, high = draw->n_ports;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (draw->ports[middle].node < node)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct mn_draw_port *find_port(const struct mn_draw *draw, int node, int nic)
{
    for (size_t p = ports_of(draw, node); p < draw->n_ports && draw->ports[p].node == node; p++)
        for (size_t i = 0; i < draw->ports[p].n_nics; i++)
            if (draw->ports[p].nics[i] == nic)
                return &draw->ports[p];
    return NULL;
}

/* The port whose capacity group is that of the NIC. */
static struct mn_draw_port *find_group(const struct mn_draw *draw, int node, const char *group)
{
    for (size_t p = ports_of(draw, node); p < draw->n_ports && *group; p++) {
        struct mn_draw_port *port = &draw->ports[p];
        if (port->node == node && !strcmp(draw->mesh->nodes[node].nics[port->nics[0]].group, group))
            return port;
    }
    return NULL;
}

static void label_port(const struct mn_draw *draw, struct mn_draw_port *port)
{
    const struct mn_mesh_nic *first = &draw->mesh->nodes[port->node].nics[port->nics[0]];

    if (port->n_nics > 1)
        mn_strlcpy(port->label, first->group, sizeof port->label);
    else if (is_named(first))
        mn_strlcpy(port->label, first->name, sizeof port->label);
}

static void find_ports(struct mn_draw *draw)
{
    for (size_t n = 0; n < draw->mesh->n_nodes; n++) {
        const struct mn_mesh_node *node = &draw->mesh->nodes[n];
        for (size_t i = 0; i < node->n_nics; i++) {
            if (node->nics[i].role == MN_ROLE_MANAGEMENT)
                continue;
            struct mn_draw_port *port = find_group(draw, (int)n, node->nics[i].group);
            if (!port) {
                port = mn_grow((void **)&draw->ports, &draw->n_ports, sizeof *port);
                port->node = (int)n;
            }
            *(int *)mn_grow((void **)&port->nics, &port->n_nics, sizeof *port->nics) = (int)i;
        }
    }
    for (size_t p = 0; p < draw->n_ports; p++)
        label_port(draw, &draw->ports[p]);
}

const char *mn_draw_port_name(const struct mn_draw *draw, const struct mn_draw_port *port)
{
    return port->label[0] ? port->label : draw->mesh->nodes[port->node].nics[port->nics[0]].name;
}

const char *mn_draw_half(const struct mn_draw_port *port, const struct mn_mesh_nic *nic)
{
    if (!port->label[0])
        return "";
    return port->n_nics > 1 ? nic->name : nic->netdev;
}

/* --- cables --------------------------------------------------------------------------------- */

/* The side of a link at which a cable's end is. */
static int side_of(const struct mn_draw *draw, const struct mn_draw_cable *cable,
                   const struct mn_mesh_link *link, int end)
{
    const struct mn_draw_port *port = &draw->ports[cable->ports[end]];

    return find_port(draw, link->ends[0].node, link->ends[0].nic) == port ? 0 : 1;
}

const struct mn_mesh_nic *mn_draw_nic(const struct mn_draw *draw, const struct mn_draw_cable *cable,
                                      size_t link, int end)
{
    const struct mn_mesh_link *l = &draw->mesh->links[cable->links[link]];

    return mn_mesh_end_nic(draw->mesh, &l->ends[side_of(draw, cable, l, end)]);
}

static struct mn_draw_cable *find_cable(struct mn_draw *draw, size_t a, size_t b)
{
    int known = draw->ports[a].cables && draw->ports[b].cables;

    for (size_t c = 0; known && c < draw->n_cables; c++)
        if (draw->cables[c].ports[0] == a && draw->cables[c].ports[1] == b)
            return &draw->cables[c];
    struct mn_draw_cable *cable =
        mn_grow((void **)&draw->cables, &draw->n_cables, sizeof *draw->cables);
    cable->ports[0] = a;
    cable->ports[1] = b;
    draw->ports[a].cables++;
    draw->ports[b].cables++;
    return cable;
}

static void add_link(struct mn_draw *draw, size_t index)
{
    const struct mn_mesh_link *link = &draw->mesh->links[index];
    const struct mn_draw_port *a = find_port(draw, link->ends[0].node, link->ends[0].nic);
    const struct mn_draw_port *b = find_port(draw, link->ends[1].node, link->ends[1].nic);

    if (!a || !b)
        return;
    size_t one = (size_t)(a - draw->ports), two = (size_t)(b - draw->ports);
    struct mn_draw_cable *cable = find_cable(draw, one < two ? one : two, one < two ? two : one);
    *(size_t *)mn_grow((void **)&cable->links, &cable->n_links, sizeof *cable->links) = index;
    cable->bare += mn_link_is_bare(link);
}

/* Halves in the order of the first port's. */
static void sort_links(const struct mn_draw *draw, struct mn_draw_cable *cable)
{
    for (size_t i = 1; i < cable->n_links; i++)
        for (size_t k = i;
             k > 0 && mn_draw_nic(draw, cable, k, 0) < mn_draw_nic(draw, cable, k - 1, 0); k--) {
            size_t swap = cable->links[k];
            cable->links[k] = cable->links[k - 1];
            cable->links[k - 1] = swap;
        }
}

static int by_ports(const void *a, const void *b)
{
    const struct mn_draw_cable *one = a, *two = b;

    for (int end = 0; end < 2; end++)
        if (one->ports[end] != two->ports[end])
            return one->ports[end] < two->ports[end] ? -1 : 1;
    return 0;
}

void mn_draw_init(struct mn_draw *draw, const struct mn_mesh *mesh)
{
    *draw = (struct mn_draw){.mesh = mesh};
    find_ports(draw);
    for (size_t i = 0; i < mesh->n_links; i++)
        add_link(draw, i);
    for (size_t i = 0; i < draw->n_cables; i++)
        sort_links(draw, &draw->cables[i]);
    if (draw->n_cables)
        qsort(draw->cables, draw->n_cables, sizeof *draw->cables, by_ports);
}

void mn_draw_free(struct mn_draw *draw)
{
    for (size_t i = 0; i < draw->n_ports; i++)
        free(draw->ports[i].nics);
    for (size_t i = 0; i < draw->n_cables; i++)
        free(draw->cables[i].links);
    free(draw->ports);
    free(draw->cables);
    *draw = (struct mn_draw){.mesh = NULL};
}

long mn_draw_speed(const struct mn_draw *draw, const struct mn_draw_cable *cable)
{
    long least = 0;

    for (size_t i = 0; i < 2 * cable->n_links; i++) {
        long speed = mn_draw_nic(draw, cable, i / 2, (int)(i % 2))->speed_mbps;
        if (speed && (!least || speed < least))
            least = speed;
    }
    return least;
}

int mn_draw_management(const struct mn_mesh *mesh, size_t n, char text[2 * MN_NAME_MAX])
{
    for (size_t i = 0; i < mesh->n_nodes; i++)
        for (size_t k = 0; k < mesh->nodes[i].n_nics; k++)
            if (mesh->nodes[i].nics[k].role == MN_ROLE_MANAGEMENT && n-- == 0) {
                snprintf(text, 2 * MN_NAME_MAX, "%s/%s", mesh->nodes[i].name,
                         mesh->nodes[i].nics[k].name);
                return 1;
            }
    return 0;
}

/* --- loops ---------------------------------------------------------------------------------- */

/* A neighbour of the node that is not in the order yet, the first of the file; -1: none. */
static int next_of(const struct mn_draw *draw, int node, const int *order, size_t n)
{
    int next = -1;

    for (size_t i = 0; i < 2 * draw->n_cables; i++) {
        const struct mn_draw_cable *cable = &draw->cables[i / 2];
        int other = draw->ports[cable->ports[!(i % 2)]].node, known = 0;
        if (draw->ports[cable->ports[i % 2]].node != node)
            continue;
        for (size_t k = 0; k < n; k++)
            known |= order[k] == other;
        if (!known && (next < 0 || other < next))
            next = other;
    }
    return next;
}

static int neighbours(const struct mn_draw *draw, int node)
{
    int found[3], n = 0;

    while (n < 3 && (found[n] = next_of(draw, node, found, (size_t)n)) >= 0)
        n++;
    return n;
}

int mn_draw_loop(const struct mn_draw *draw, int *order, int *closed)
{
    size_t n = draw->mesh->n_nodes, ends = 0;

    order[0] = 0;
    for (int i = (int)n - 1; i >= 0; i--) {
        int near = neighbours(draw, i);
        if (near < 1 || near > 2)
            return 0;
        ends += near == 1;
        if (near == 1)
            order[0] = i;
    }
    for (size_t i = 1; i < n; i++)
        if ((order[i] = next_of(draw, order[i - 1], order, i)) < 0)
            return 0;
    *closed = !ends;
    return n > 1;
}
