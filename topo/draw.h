/* A mesh as a picture: nodes, the ports on their cases, the cables between these, and the NICs that
 * are the halves of a port. One model for the terminal, DOT, SVG and JSON. */
#ifndef MN_DRAW_H
#define MN_DRAW_H

#include <stdio.h>

#include "topo/mesh.h"

/* Where a cable is plugged in: a NIC, or the NICs of one capacity group. */
struct mn_draw_port {
    int node;
    char label[MN_NAME_MAX]; /* "left", "port0"; "" = its only NIC's name says it */
    int *nics;               /* indices, in the file's order */
    size_t n_nics;
    int cables; /* that end here */
};

struct mn_draw_cable {
    size_t ports[2]; /* the one of the earlier node is first */
    size_t *links;   /* indices: one for each two halves, in the order of the first port's */
    size_t n_links;
    int bare; /* of its links have no addresses yet */
};

struct mn_draw {
    const struct mn_mesh *mesh; /* must outlive it */
    struct mn_draw_port *ports; /* by node, in the file's order; none for management */
    size_t n_ports;
    struct mn_draw_cable *cables;
    size_t n_cables;
};

void mn_draw_init(struct mn_draw *draw, const struct mn_mesh *mesh);
void mn_draw_free(struct mn_draw *draw);

/* The nodes along a ring or line of two and more, each with a cable to the next, into order (of the
 * mesh's size); *closed: the last with one to the first. 0: it is another shape. */
int mn_draw_loop(const struct mn_draw *draw, int *order, int *closed);
/* The NIC of a link at a cable's end (0, 1). */
const struct mn_mesh_nic *mn_draw_nic(const struct mn_draw *draw, const struct mn_draw_cable *cable,
                                      size_t link, int end);
/* "left", else the only NIC's name. */
const char *mn_draw_port_name(const struct mn_draw *draw, const struct mn_draw_port *port);
/* What a half is called beside its port's name: its netdev, or in a group the name that the file
 * gives it; "" where the port's name says it already. */
const char *mn_draw_half(const struct mn_draw_port *port, const struct mn_mesh_nic *nic);
/* Its links' common speed, the slower end's; 0: not known. */
long mn_draw_speed(const struct mn_draw *draw, const struct mn_draw_cable *cable);
/* The n-th NIC of the mesh for management, "node/nic" into text; 0 after the last. */
int mn_draw_management(const struct mn_mesh *mesh, size_t n, char text[2 * MN_NAME_MAX]);

struct mn_draw_look {
    int columns; /* 0: as many as it takes */
    int utf8;    /* else lines of plain ASCII */
    int colors;
};
/* Rings and lines as boxes with cables between them, others as a block for each node with its ports
 * and wires between the blocks where they fit. */
void mn_draw_text(const struct mn_draw *draw, const struct mn_draw_look *look, FILE *file);
/* For graphviz: a node a table of its ports, an edge a cable. */
void mn_draw_dot(const struct mn_draw *draw, FILE *file);

#endif
