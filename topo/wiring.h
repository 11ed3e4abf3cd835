/* Which ports to join, before there are cables: shapes that n nodes with so many ports each can
 * have, and what each of them is good for. Nodes are numbered along a ring where the shape has one,
 * so that ranks in the order of their names are neighbours. */
#ifndef MN_WIRING_H
#define MN_WIRING_H

#include "topo/fabric.h"

#define MN_WIRING_NODES_MAX 65536
#define MN_WIRING_PORTS_MAX 32
#define MN_WIRING_NARROWED  128 /* nodes: of more the halves that shapes give are kept */

struct mn_wiring;

struct mn_wiring_shape {
    const char *name;
    const char *what; /* for help: in a few words */
    /* The ports that a node needs for one cable to each neighbour; 0: n nodes, or so many ports,
     * cannot be so. sizes: a torus' nodes in each direction, a chordal ring's step; unused ones 0.
     */
    int (*needs)(int n, int ports, int sizes[3]);
    /* Adds the cables by mn_wiring_join, a node's neighbours on ports from 0 on. */
    void (*make)(struct mn_wiring *plan);
    int beside; /* for comparison: never with more than one cable between neighbours */
};
extern const struct mn_wiring_shape mn_wiring_shapes[];          /* name NULL at the end */
const struct mn_wiring_shape *mn_wiring_shape(const char *name); /* NULL: there is none */

struct mn_wiring_cable {
    int nodes[2], ports[2]; /* a node's ports are numbered from 0 */
    int kind;               /* cables of one kind look alike from all sides */
};

/* What to expect. Rates are bytes/s as nccl-tests counts busbw, by the speed of the cables alone.
 */
struct mn_wiring_figures {
    double all_reduce; /* along the ring */
    double all_to_all;
    double bisection; /* between two halves, each way */
    int diameter;     /* cables on the longest of all shortest ways */
    double distance;  /* mean of all ways, in cables */
    /* With the one cable gone that is missed most, ranks as they were. 0: nodes are cut off. */
    double all_reduce_failed, all_to_all_failed;
    int cut;                 /* one cable is enough to cut nodes off */
    int estimated;           /* all_to_all is at most that: too many nodes to follow every way */
    int bisection_estimated; /* at most that: too many nodes to look for a narrower place */
};

struct mn_wiring {
    const struct mn_wiring_shape *shape;
    int n, ports; /* ports: of a node that has most */
    int parallel; /* cables between neighbours */
    int sizes[3];
    struct mn_wiring_cable *cables;
    size_t n_cables;
    char *half; /* by node: which half it is of, about where the mesh is narrowest */
    struct mn_wiring_figures figures;
};

/* Inside of make: as many cables as parallel says, between the slots-th neighbours of both. */
void mn_wiring_join(struct mn_wiring *plan, int a, int slot_a, int b, int slot_b, int kind);

/* Makes half better where it can be, of not too many nodes. */
void mn_wiring_narrow(struct mn_wiring *wiring);

/* 0: it cannot be. To be freed in any case. */
int mn_wiring_make(const struct mn_wiring_shape *shape, int n, int ports, int parallel,
                   struct mn_wiring *plan);
void mn_wiring_free(struct mn_wiring *plan);
/* "torus-2d 4x3", "ring x2", "chordal-ring +3". Returns text. */
char *mn_wiring_title(const struct mn_wiring *plan, char *text, size_t size);

struct mn_wiring_speed {
    double rate;    /* payload bytes/s of a cable each way */
    double latency; /* s, one way */
    double bytes;   /* of the collectives that are predicted */
};
void mn_wiring_judge(struct mn_wiring *plan, const struct mn_wiring_speed *speed);
void mn_wiring_fabric(const struct mn_wiring *plan, const struct mn_wiring_speed *speed,
                      struct mn_fabric *fabric);

enum mn_wiring_goal {
    MN_WIRING_BOTH,
    MN_WIRING_ALL_REDUCE,
    MN_WIRING_ALL_TO_ALL,
    MN_WIRING_FEW_CABLES
};

/* All that can be, judged, the best first: those that lose nodes with one cable come last where
 * another can be; then by goal; then by diameter and the number of cables. only: of that shape
 * alone, NULL = of all. Free each, and then the array. Returns how many. */
size_t mn_wiring_all(int n, int ports, const struct mn_wiring_shape *only,
                     const struct mn_wiring_speed *speed, enum mn_wiring_goal goal,
                     struct mn_wiring **plans);

#endif
