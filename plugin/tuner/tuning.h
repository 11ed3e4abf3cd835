/* The tuner: which algorithm, protocol and channels NCCL takes on this mesh. Free of versions;
 * plugin/abi/tuner_vN.c translate.
 *
 * NCCL says of a communicator how many ranks and nodes it has, not which. So that all ranks decide
 * alike, which nothing checks, decisions come from these counts, NCCL's own figures and the mesh
 * file alone; never from the host or the rank that asks. The rules, the first that holds:
 *
 *   0. Not asked for by name, which NCCL_TUNER_PLUGIN does: nothing is decided. NCCL takes the
 * tuner of the network plugin's library without being told, on hosts that have the library, and
 * others would decide otherwise. Asked for on a host without a mesh file is an error for that
 * reason.
 *   1. Nothing to decide: no mesh file, tuner: false, one node, NVLink between the nodes, more
 *      nodes than the mesh has, or a mesh in which every pair of nodes has a cable and all cables
 *      are alike. NCCL's figures stay. (Trees use more of a full mesh's cables than a ring does,
 *      and have each node receive more; which counts depends on its memory and PCIe, of which the
 *      mesh file says nothing.)
 *   2. As many nodes as the mesh has: it is taken that they are numbered along the cables, as
 *      meshnet topo ranks does. An algorithm that joins nodes without a cable which its ring does
 *      not join is barred. The figures of the others become those of the prediction, where that is
 *      the slower one: NCCL knows a cable's speed, and nothing of ways through other nodes.
 *   3. Some of the mesh's nodes, nobody knows which: with four and more the ring alone, which joins
 *      the fewest pairs. Two or three nodes are joined by every algorithm in the same way.
 *
 * Only NVLSTree, Tree and PAT are ever barred, and only while the ring can be had; what NCCL marks
 * as impossible stays so. */
#ifndef MN_TUNING_H
#define MN_TUNING_H

#include "plugin/abi/tuner_abi.h"
#include "topo/mesh.h"

enum mn_tuning_rule {
    MN_TUNING_UNASKED,
    MN_TUNING_NO_MESH,
    MN_TUNING_OFF,
    MN_TUNING_ONE_NODE,
    MN_TUNING_NVLINK,
    MN_TUNING_STRANGERS,
    MN_TUNING_COMPLETE,
    MN_TUNING_UNEQUAL, /* complete, with cables of different speeds: predicted, nothing barred */
    MN_TUNING_CABLES,  /* 2 */
    MN_TUNING_PART     /* 3 */
};
/* In words; static. */
const char *mn_tuning_rule_text(enum mn_tuning_rule rule);

enum mn_tuning_way { MN_TUNING_RING, MN_TUNING_TREE, MN_TUNING_PAT, MN_TUNING_WAYS };

#define MN_TUNING_SIZES 41 /* powers of two, from 1 byte to 1 TiB */

struct mn_fabric;

struct mn_tuning_asked {
    size_t ranks, nodes;
    int nvlink_domains;                       /* 0: not known */
    const ncclTunerConstants_v5_t *constants; /* NULL: a version without them */
    const struct mn_fabric *measured;         /* NULL: the cables are as the mesh file says */
    int everything; /* predict what is barred, too, and for complete meshes: to be shown */
};

/* Constant once it is made: any thread may ask. */
struct mn_tuning {
    enum mn_tuning_rule rule;
    int ranks, nodes;
    int *order; /* of nodes of the mesh file, as they are taken to be numbered; NULL: not known */
    int gaps;   /* neighbours in the ring without a cable */
    int leave[MN_TUNING_WAYS]
             [2];    /* places in the order: the first pair for which a way is barred */
    unsigned barred; /* 1 << NCCL_ALGO_* */
    int user_chose;  /* NCCL_ALGO or NCCL_PROTO is set: mn_tuning_choose says nothing */
    /* The speeds of all cables are known, and the nodes are no more than 512: what follows is
     * filled for all that may be chosen. */
    int predicts;
    /* In microseconds, by size: 0 = not predicted. */
    float times[NCCL_TUNER_NUM_FUNCTIONS][MN_TUNING_WAYS][MN_TUNING_SIZES];
    float protocol[NCCL_TUNER_NUM_FUNCTIONS][MN_TUNING_WAYS][NCCL_NUM_PROTOCOLS];
    unsigned char one_channel[NCCL_TUNER_NUM_FUNCTIONS][MN_TUNING_WAYS][MN_TUNING_SIZES];
};

/* By the mesh file in force, as it was when this process first read it, if NCCL_TUNER_PLUGIN asks
 * for a tuner. A wrong file, or none for several nodes, is MN_ERR_CONFIG: a rank that went on
 * without would decide otherwise than the others. */
enum mn_err mn_tuning_open(const struct mn_tuning_asked *asked, struct mn_tuning **tuner,
                           struct mn_diag *diag);
/* By a mesh, NULL: none; its settings count as they are, and so does the order of its nodes and
 * cables, which mn_mesh_sort() makes the same everywhere. */
enum mn_err mn_tuning_make(const struct mn_mesh *mesh, const struct mn_tuning_asked *asked,
                           struct mn_tuning **tuner, struct mn_diag *diag);
/* Of the environment decisions take MESHNET_TUNER alone: other variables may be one rank's own. */
enum mn_err mn_tuning_heed(struct mn_settings *settings, struct mn_diag *diag);
/* 1: a communicator of this process was made for which algorithms are chosen by the mesh. */
int mn_tuning_acts(void);
void mn_tuning_free(struct mn_tuning *tuner); /* NULL is nothing */

/* What NCCL asks from version 3 on: table is float[algorithms][protocols]. Nothing here allocates,
 * logs or waits. *channels stays where NCCL is to decide. */
void mn_tuning_costs(const struct mn_tuning *tuner, int function, size_t bytes, int pipelined,
                     float *table, int algorithms, int protocols, int *channels);
/* Version 2: there is no table. Both of algorithm and protocol are set, or neither. */
void mn_tuning_choose(const struct mn_tuning *tuner, int function, size_t bytes, int pipelined,
                      int collnet, int *algorithm, int *protocol, int *channels);
/* The prediction for a combination, in microseconds; below 0: there is none. */
double mn_tuning_time(const struct mn_tuning *tuner, int function, size_t bytes, int pipelined,
                      int algorithm, int protocol);

#endif
