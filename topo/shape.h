/* The shape of a mesh by name, from who is joined to whom. */
#ifndef MN_SHAPE_H
#define MN_SHAPE_H

#include <stddef.h>

enum mn_shape {
    MN_SHAPE_SINGLE,
    MN_SHAPE_PAIR,
    MN_SHAPE_LINE,
    MN_SHAPE_RING, /* of three too is a full mesh */
    MN_SHAPE_FULL,
    MN_SHAPE_STAR,
    MN_SHAPE_TORUS,  /* of two or three dimensions; one of them may have two places */
    MN_SHAPE_SWITCH, /* of a survey only */
    MN_SHAPE_PARTIAL /* none of these, or in pieces */
};
const char *mn_shape_name(enum mn_shape shape); /* "full mesh", "partial mesh", … */

/* Neighbours of a node: near[first[node]] to near[first[node + 1] - 1], each once. */
struct mn_graph {
    size_t n;
    size_t *first;
    int *near;
};

/* Pairs may come several times, in either order, and join a node with itself, which counts for
 * nothing. All indices are below n. Free with mn_graph_free. */
void mn_graph_make(size_t n, const int (*pairs)[2], size_t n_pairs, struct mn_graph *graph);
void mn_graph_free(struct mn_graph *graph);
size_t mn_graph_degree(const struct mn_graph *graph, size_t node);
int mn_graph_joined(const struct mn_graph *graph, int a, int b);
/* Numbers the pieces from 0 in piece[n] (may be NULL); returns how many. */
size_t mn_graph_pieces(const struct mn_graph *graph, int *piece);
/* In a time that grows with the number of nodes and cables. sizes: of a torus, the smallest first,
 * 0 = no such dimension; may be NULL. */
enum mn_shape mn_graph_shape(const struct mn_graph *graph, int sizes[3]);
/* The torus of mn_graph_shape, for a connected graph. */
int mn_graph_torus(const struct mn_graph *graph, int sizes[3]);

#endif
