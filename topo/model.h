/* What a collective takes over a mesh: a flow-level model.
 *
 * An algorithm is a row of rounds; a round is flows between ranks, which go over cables by routes.
 * What a cable's direction, the halves of a port together, a node that passes packets on, or a
 * node's processor carries in all, divided by what it can carry, is time that cannot be had back;
 * what a round waits before its first bytes are there is its latency. Data travels in chunks, so
 * that rounds overlap: time is the latency of all rounds, each with a chunk, and the rest as fast
 * as the slowest part lets it. Neighbours use all their cables together; ranks without a common
 * cable one cable each hop, through nodes in between that forward; over relays all cables of a hop,
 * and up to four ways beside each other, each its part of the bytes. Ranks of one node share its
 * memory, which costs nothing.
 *
 * Sources: rings and busbw: nccl-tests, doc/PERFORMANCE.md; which pairs trees and PAT connect:
 * NCCL's src/graph/trees.cc and src/graph/connect.cc. */
#ifndef MN_MODEL_H
#define MN_MODEL_H

#include "topo/route.h"

enum mn_model_op {
    MN_MODEL_ALL_REDUCE,
    MN_MODEL_ALL_GATHER,
    MN_MODEL_REDUCE_SCATTER,
    MN_MODEL_BROADCAST,
    MN_MODEL_REDUCE,
    MN_MODEL_ALL_TO_ALL,
    MN_MODEL_SEND_RECV, /* each to the next rank */
    MN_MODEL_OPS
};

enum mn_model_algo {
    MN_MODEL_RING,
    MN_MODEL_TREE,   /* NCCL's: two trees, each half of the data; one where there is one channel */
    MN_MODEL_PAT,    /* NCCL's, for all-gather and reduce-scatter */
    MN_MODEL_DIRECT, /* each with each other, at once */
    MN_MODEL_ALGOS
};

const char *mn_model_op_name(enum mn_model_op op);       /* "all-reduce", as bench has it */
const char *mn_model_algo_name(enum mn_model_algo algo); /* "ring" */

/* What hosts add. All 0: nothing. */
struct mn_model_host {
    double chunk;   /* bytes that travel as one message at most; 0 = 256 KiB */
    double message; /* s that each end's processor has with a message */
    double forward; /* bytes/s that a node in between passes on; 0 = as fast as cables bring them */
    double hop;     /* s that it takes a node in between to pass a packet on */
    double reduce;  /* bytes/s that a rank reduces; 0 = in no time */
    double copy;    /* bytes/s that a rank copies within its memory; 0 = in no time */
};

struct mn_model {
    const struct mn_fabric *fabric;
    struct mn_routes *routes; /* of that fabric */
    const int *node_of_rank;  /* NULL = rank i is node i, for i below the fabric's n */
    int n_ranks;
    struct mn_model_host host;
};

enum mn_model_limit {
    MN_LIMIT_NOTHING, /* nothing is sent over cables */
    MN_LIMIT_LATENCY, /* more than half of the time is latency; cable: what else would limit */
    MN_LIMIT_CABLE,
    MN_LIMIT_GROUP,   /* a port, by whose halves two cables leave or arrive */
    MN_LIMIT_FORWARD, /* what a node in between passes on */
    MN_LIMIT_NODE     /* what a node sends, receives and reduces in all */
};

struct mn_model_result {
    double seconds;
    double algbw, busbw; /* bytes/s, as nccl-tests counts them */
    double latency;      /* s: the part that is the same for few bytes */
    enum mn_model_limit limit;
    int cable, direction; /* of MN_LIMIT_CABLE: 0 = from its nodes[0] to nodes[1]; else -1: none */
    int group;            /* of MN_LIMIT_GROUP: index; direction 0 = what it sends, 1 = receives */
    int node;             /* of MN_LIMIT_FORWARD and _NODE, and a group's; else -1 */
};

/* bytes as nccl-tests counts: of the larger buffer. root: rank 0. MN_ERR_UNSUPPORTED: the algorithm
 * does not do that; MN_ERR_NOTFOUND: result->cable is one whose rate is not known, or, when it is
 * -1, ranks that must talk have no way to each other. Then seconds is NaN. */
enum mn_err mn_model_predict(const struct mn_model *model, enum mn_model_op op,
                             enum mn_model_algo algo, double bytes, int channels,
                             struct mn_model_result *result);
int mn_model_node(const struct mn_model *model, int rank);
int mn_model_does(enum mn_model_algo algo, enum mn_model_op op);
/* The factor from algbw to busbw. */
double mn_model_bus_factor(enum mn_model_op op, int n_ranks);

/* bytes/s that the halves of the nodes can send each other at most, each way, where nodes are
 * halved by their numbers: half[i] says in which half node i is, or NULL: the lower numbers. */
double mn_fabric_bisection(const struct mn_fabric *fabric, const char *half);

#endif
