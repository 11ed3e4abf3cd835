/* Whether packets pass the nodes in between: addresses of nodes without a cable to this one are
 * asked, and where none answers, each node on the way says what it finds in itself. */
#ifndef MN_APPLY_FAR_H
#define MN_APPLY_FAR_H

#include "fleet/apply.h"

#define MN_FAR_MAX  256 /* addresses that one node asks */
#define MN_FAR_HOPS 62  /* nodes in between: packets of Linux go no further than 64 hops */

enum mn_far_answer {
    MN_FAR_SILENT,
    MN_FAR_ANSWERS,
    MN_FAR_REFUSED /* a node on the way says that it goes no further */
};

struct mn_far_check {
    int node; /* of the mesh, as those below */
    struct mn_addr far;
    int *path; /* the nodes in between, the nearest first */
    size_t n_path;
    enum mn_far_answer answer;
    size_t got; /* where it is not answered: so many of the path are known to have had it */
    int by;     /* who refused; -1 = none, or a stranger */
    int traced; /* packets to it were followed */
};

/* The addresses that the node reaches over others alone, all nodes on the way among peers (names);
 * the nodes after it first, in the mesh's order. *left_out: those beyond MN_FAR_MAX, or too far.
 * Free with mn_far_free. */
size_t mn_far_find(const struct mn_mesh *mesh, int node, const char *const *peers, size_t n_peers,
                   struct mn_far_check **checks, size_t *left_out);
void mn_far_free(struct mn_far_check *checks, size_t n);
/* Which of the silent ones to follow next, at most so many, since kernels answer few such packets a
 * second: first those whose way is not the beginning of another one's, the longest first. Their
 * number. */
size_t mn_far_to_trace(const struct mn_far_check *checks, size_t n, size_t most, size_t *picked);
/* Gives those that were not followed what is known of their way by others: the nodes that both
 * ways begin with had those packets. */
void mn_far_share(struct mn_far_check *checks, size_t n);
/* Asks all at once, by UDP's discard port and, with the right to, by ICMP echo, until each has
 * answered, at the latest after ms; then, at most 2 s, how far packets to the silent ones get. */
enum mn_err mn_far_checks_ask(const struct mn_mesh *mesh, struct mn_far_check *checks, size_t n,
                              unsigned ms, struct mn_diag *diag);

#define MN_FAR_ANY (-1)

/* Why packets may not get through this node. */
struct mn_far_obstacle {
    int from, to; /* what comes from the cables to this one and is for that one */
    int own;      /* what is for this node itself; to is MN_FAR_ANY */
    int sure;     /* 0: it may be */
    char why[400];
};
/* Those of the node, the caller's to free. NICs of the mesh have the host's names. */
size_t mn_far_obstacles(const struct mn_mesh *mesh, int node, const struct mn_host *host,
                        const struct mn_kernel *kernel, struct mn_far_obstacle **list);

#endif
