/* What a survey's sightings come to: physical ports, and what joins them. A cable joins two ports
 * of two nodes and nothing else; through each PCIe function of a port it is seen once, so that it
 * has as many halves as both ends have functions that hear each other. */
#ifndef MN_CABLING_H
#define MN_CABLING_H

#include "topo/shape.h"
#include "topo/survey.h"

#define MN_PORT_NICS_MAX 8 /* functions of one port */

struct mn_port {
    int node;
    int nics[MN_PORT_NICS_MAX]; /* indices in the node; the lowest PCI address first */
    int n_nics;
    int cable; /* index, -1 = none */
    int knot;  /* index, -1 = none */
};

struct mn_cable_half {
    int nics[2];  /* at ends[0] and ends[1] of the cable */
    int heard[2]; /* the other was heard there */
    int mtu[2];   /* the largest probe that arrived there; 0 = not measured */
};

struct mn_cable {
    int ports[2]; /* the lower node first */
    struct mn_cable_half halves[MN_PORT_NICS_MAX];
    int n_halves;
};

enum mn_knot_kind {
    MN_KNOT_SHARED,  /* three ports or more hear each other */
    MN_KNOT_FOREIGN, /* somebody who is not of the run is there too */
    MN_KNOT_LOOP     /* both ends of a cable are in one node */
};

/* Ports that are joined by something that is no cable between two nodes. */
struct mn_knot {
    enum mn_knot_kind kind;
    int *ports;
    size_t n_ports;
    int stranger; /* index in the survey of one who was heard there, -1 = nobody; LLDP first */
};

struct mn_cabling {
    const struct mn_survey *survey;
    struct mn_port *ports;
    size_t n_ports;
    struct mn_cable *cables; /* by their ends */
    size_t n_cables;
    struct mn_knot *knots;
    size_t n_knots;
    int **port_of; /* [node][nic]: index */
};

/* survey must live as long. Sightings at or of management NICs join nothing. Free with
 * mn_cabling_free. */
void mn_cabling_read(const struct mn_survey *survey, struct mn_cabling *cabling);
void mn_cabling_free(struct mn_cabling *cabling);

/* Who is joined to whom by cables, and with knots also through what is no cable. To mn_graph_free.
 */
void mn_cabling_graph(const struct mn_cabling *cabling, int knots, struct mn_graph *graph);

/* The NIC at one end of a half. */
struct mn_mesh_end mn_cable_end(const struct mn_cabling *cabling, const struct mn_cable *cable,
                                const struct mn_cable_half *half, int side);
/* 1 when the stranger is one of the run after all, by a MAC or a name of its own. */
int mn_survey_knows(const struct mn_survey *survey, const struct mn_survey_stranger *stranger);

#endif
