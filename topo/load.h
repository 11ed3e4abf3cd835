/* How much of a fabric flows take: seconds of each of its parts. */
#ifndef MN_LOAD_H
#define MN_LOAD_H

#include "topo/model.h"
#include "topo/pair_way.h"

struct mn_load {
    const struct mn_fabric *fabric;
    double *parts; /* all of them, one behind the other; what follows points into it */
    size_t n_parts;
    double *cables;  /* by cable and direction: 2 * cable + direction */
    double *duplex;  /* by cable: both directions together */
    double *groups;  /* by group: 2 * group, sent; 2 * group + 1, received */
    double *forward; /* by node */
    double *nodes;
};

/* The most loaded part. */
struct mn_load_worst {
    double seconds;
    enum mn_model_limit limit;
    int cable, direction, group, node; /* as in struct mn_model_result */
};

void mn_load_make(const struct mn_fabric *fabric, struct mn_load *load);
void mn_load_free(struct mn_load *load);
void mn_load_clear(struct mn_load *load);
void mn_load_add(struct mn_load *to, const struct mn_load *from, double times);
struct mn_load_worst mn_load_worst(const struct mn_load *load);

/* Bytes over a cable from node on; over all cables of an edge, each its part; over the one that
 * far flows take. 0: a rate is not known, *cable is whose. */
int mn_load_cable(struct mn_load *load, size_t cable, int node, double bytes, int *unknown);
int mn_load_edge(struct mn_load *load, const struct mn_routes *routes,
                 const struct mn_way_edge *edge, int node, double bytes, int far, int *unknown);
/* Bytes that node sends, or receives. */
void mn_load_node(struct mn_load *load, int node, double bytes);
/* The ways that two nodes use beside each other over relays. */
#define MN_LOAD_WAYS 4
struct mn_load_ways {
    int n;
    int hops[MN_LOAD_WAYS];
    int nodes[MN_LOAD_WAYS][MN_PAIR_RELAYS + 2];
    double share[MN_LOAD_WAYS]; /* of the bytes, by what each way can carry */
};
/* Returns n; 0: there is one way, mn_load_path. */
int mn_load_ways(const struct mn_model *model, int from, int to, struct mn_load_ways *ways);
/* Bytes from node to node by their way or ways, ends and nodes in between included; path is room
 * for as many nodes as the fabric has. *latency (may be NULL): of the way. Returns its cables: 0
 * within a node, -1: there is no way. */
int mn_load_flow(struct mn_load *load, const struct mn_model *model, int from, int to, double bytes,
                 int *path, double *latency, int *unknown);
/* The way that bytes from node to node take: what mn_load_flow goes over, where it is one. */
int mn_load_path(const struct mn_model *model, int from, int to, int *path);
double mn_load_latency(const struct mn_model *model, const struct mn_way_edge *edge);

#endif
