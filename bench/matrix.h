/* Every cable and every pair of nodes of a mesh, measured one after the other between the ranks of
 * a group, and judged: what each could carry, and what is wrong with it, in words. */
#ifndef MN_MATRIX_H
#define MN_MATRIX_H

#include "fleet/group.h"
#include "bench/p2p.h"
#include "topo/mesh.h"

#define MN_MATRIX_NICS  32 /* of a node; the mesh file allows no more */
#define MN_MATRIX_LANES 8  /* cables between two nodes */

struct mn_matrix_plan {
    const struct mn_mesh *mesh; /* the same at every rank */
    int links, pairs;           /* what to measure */
    size_t bytes;               /* a message of the bandwidth */
    int connections, outstanding, check, abi;
    struct mn_repeat_plan repeat;      /* of each of the three directions, and of the latency */
    unsigned long iters, warmup;       /* instead of a time; 0 = none */
    unsigned timeout_ms;               /* longest wait of a cell without progress */
    const volatile sig_atomic_t *stop; /* as in the group's plan */
    const char *const *absent; /* by node why it takes no part; NULL = it does, or by choice */
    size_t buffers;            /* as in struct mn_p2p_plan */
    enum mn_memory_kind memory;
    int gpu;
    const char *plugin_path;
};

enum mn_matrix_status {
    MN_CELL_UNMEASURED, /* a node takes no part */
    MN_CELL_OK,
    MN_CELL_DEAD,  /* could not be measured; error says why */
    MN_CELL_WRONG, /* data arrived damaged */
};
extern const char *const mn_matrix_status_names[]; /* "not measured", "ok", "dead", "wrong" */

/* What an end of a cable says of itself, read by its own node. */
struct mn_matrix_end {
    int32_t known, up, carrier, mtu; /* known: 0 = the node has no such NIC */
    float speed_gbps, pcie_gbps;     /* 0 = unknown */
};

/* A cable of a pair: its part of the bytes that the from node moved. */
struct mn_matrix_lane {
    int32_t link;
    float share; /* 0 to 1 */
};

/* Passed between ranks as it is: no pointers. Results are of the node "from"; out: from -> to. */
struct mn_matrix_cell {
    int32_t link;            /* index into the mesh's links; -1: a pair of nodes */
    int32_t from, to;        /* nodes */
    int32_t status, carrier; /* enum mn_matrix_status, enum mn_p2p_carrier */
    int32_t absent;          /* not measured, since a node is not there that should be */
    float gbps[MN_P2P_DIRECTIONS];
    float p50_us, p99_us; /* half round trips of 8 bytes */
    /* Of so many packets, under RDMA of at least so many, so many were lost. */
    uint64_t packets, lost;
    struct mn_matrix_lane lanes[MN_MATRIX_LANES]; /* of a pair */
    int32_t n_lanes;
    char error[200];
};

/* What a cell could carry at most, and by what that is limited. */
struct mn_matrix_limit {
    double gbps; /* of payload; 0 = not known */
    char by[96];
};

enum mn_matrix_severity { MN_MATRIX_BAD, MN_MATRIX_WARN, MN_MATRIX_INFO };
extern const char *const mn_matrix_severity_names[]; /* "bad", "warn", "info" */

struct mn_matrix_finding {
    enum mn_matrix_severity severity;
    int cell; /* index */
    char text[320];
};

struct mn_matrix_report {
    const struct mn_mesh *mesh;
    char **left;                /* by node: it took part, and no longer, for this reason; or NULL */
    struct mn_matrix_end *ends; /* [node * MN_MATRIX_NICS + nic] */
    struct mn_matrix_cell *cells;
    struct mn_matrix_limit *limits; /* of cells */
    size_t n_cells;                 /* done so far, when the run broke off */
    struct mn_matrix_finding *findings;
    size_t n_findings;
};

/* Before each cell: its number, how many there are, and what it is. */
typedef void (*mn_matrix_progress)(void *ctx, size_t cell, size_t cells, const char *what);

/* Together; rank numbers need not be node numbers, but no node may have two ranks. All ranks get
 * the same report. A cell that fails is a result, not an error, and so is a rank other than 0 that
 * ends: its cables are not measured from then on. After an error the report has what was measured
 * until then. Free it in every case. */
enum mn_err mn_matrix_run(struct mn_group *group, const struct mn_matrix_plan *plan,
                          mn_matrix_progress progress, void *ctx, struct mn_matrix_report *report,
                          struct mn_diag *diag);
void mn_matrix_free(struct mn_matrix_report *report);

/* Fills limits and findings from mesh, ends and cells; mn_matrix_run has done so. */
void mn_matrix_judge(struct mn_matrix_report *report);
/* The part of the packets that was lost, 0 to 1. */
double mn_matrix_lost(const struct mn_matrix_cell *cell);
/* The smaller of out and in as a part of the limit; below 0: not known. */
double mn_matrix_ratio(const struct mn_matrix_report *report, size_t cell);
/* "link spark-a-spark-b" or "pair spark-a, spark-b". */
char *mn_matrix_title(const struct mn_mesh *mesh, const struct mn_matrix_cell *cell, char *buf,
                      size_t size);

#endif
