/* In which order the nodes of a mesh are numbered for a job. NCCL's rings go through them in that
 * order, and nothing else moves them: each step is to have a cable. */
#ifndef MN_RANK_ORDER_H
#define MN_RANK_ORDER_H

#include "topo/base/opt.h"
#include "topo/mesh.h"

struct mn_rank_order {
    int *nodes; /* of the mesh, all different */
    int n;
    int missing; /* steps without a cable, of three nodes and more the last to the first too */
    int least;   /* no order of these nodes has fewer; equal to missing: none is better */
};

/* The nodes of a list of names or host names; all of the mesh where it is empty. Names without a
 * node, and those that come twice, are MN_ERR_CONFIG. option goes before the explanation. nodes is
 * malloc'ed, the caller's. */
enum mn_err mn_rank_nodes(const struct mn_mesh *mesh, const char *option,
                          const struct mn_opt_list *names, int **nodes, int *n,
                          struct mn_diag *diag);
/* The best order found of these nodes; the first stays it. */
void mn_rank_order_best(const struct mn_mesh *mesh, const int *nodes, int n,
                        struct mn_rank_order *order);
/* These nodes as they are; least is not looked for and 0. */
void mn_rank_order_given(const struct mn_mesh *mesh, const int *nodes, int n,
                         struct mn_rank_order *order);
void mn_rank_order_free(struct mn_rank_order *order);

/* "a,b,d,c": malloc'ed. */
char *mn_rank_order_names(const struct mn_mesh *mesh, const struct mn_rank_order *order);
/* "2 pairs without a cable: a-c, b-d", the first few of them: malloc'ed. */
char *mn_rank_order_gaps(const struct mn_mesh *mesh, const struct mn_rank_order *order);

/* How many times as long a large all-reduce takes in one order as in the other, by what the cables
 * can carry (topo/model.h); 0 = not known: nodes that no cables join. */
double mn_rank_order_factor(const struct mn_mesh *mesh, const struct mn_rank_order *order,
                            const struct mn_rank_order *better);
/* The bus bandwidth of a large all-reduce by what the cables can carry, bytes/s; 0 = not known: the
 * file has no speeds, or nodes that no cables join. */
double mn_rank_order_busbw(const struct mn_mesh *mesh, const struct mn_rank_order *order);

#endif
