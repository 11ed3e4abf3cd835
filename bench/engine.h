/* NCCL or RCCL, opened at run time, as what carries collectives out: used as nccl-tests uses it
 * (NVIDIA, nccl-tests, src/common.cu), with the log's word on which network it took.
 *
 * Everything it is asked happens on a thread of its own, since its calls can wait for other ranks
 * for ever; the caller's thread looks after the group meanwhile, so that every wait is bounded and
 * ends with whoever failed. Not thread-safe: one thread calls. */
#ifndef MN_ENGINE_H
#define MN_ENGINE_H

#include "bench/area.h"
#include "bench/coll/algorithm.h"
#include "bench/plane.h"

enum mn_engine_kind { MN_ENGINE_OWN, MN_ENGINE_NCCL, MN_ENGINE_RCCL }; /* OWN: none, bench/coll */
#define MN_ENGINE_KINDS   3
#define MN_ENGINE_CHOICES "own|nccl|rccl" /* in that order */

enum mn_engine_network {
    MN_NETWORK_MESH, /* the plugin that is measured */
    MN_NETWORK_OWN,  /* the library's own transports */
    MN_NETWORKS
};

struct mn_engine_vendor {
    const char *name;         /* "NCCL" */
    const char *library[3];   /* names the loader knows, the first that is there; ends with NULL */
    enum mn_memory_kind kind; /* of memory it works on, if not managed */
    /* How rows of results are marked: the algorithm is the library's affair. */
    struct mn_algorithm label[MN_NETWORKS];
};
extern const struct mn_engine_vendor mn_engine_vendors[MN_ENGINE_KINDS];

struct mn_engine_plan {
    enum mn_engine_kind kind;
    const char *library; /* a file; NULL = the loader's */
    enum mn_engine_network network;
    const struct mn_plugin_info *plugin; /* of MN_NETWORK_MESH */
    int apart;                           /* 1: each rank a host of its own */
};

struct mn_engine;

/* Opens the library and makes a communicator of all ranks of the group, in the group's memory
 * (mn_group_choose_memory), which stays the group's. Changes this process's environment (NCCL_*):
 * once a process, since the library reads it once. Ranks that share a GPU, which the library
 * refuses of one host, are set apart whatever the plan says. *engine is to be closed even after an
 * error. Together. */
enum mn_err mn_engine_open(const struct mn_engine_plan *plan, struct mn_group *group,
                           struct mn_engine **engine, struct mn_diag *diag);
/* NULL is fine. After an error of any call above or below the library may still be at work: then 1
 * is returned, nothing was freed, the group's memory must stay, and the process is to end by
 * _exit(). */
int mn_engine_close(struct mn_engine *engine);

/* The label of its rows. */
const struct mn_algorithm *mn_engine_label(const struct mn_engine *engine);

/* What one rank asks for; in and out as mn_collective_in and mn_collective_out have it. */
struct mn_engine_work {
    enum mn_collective collective;
    const struct mn_coll_job *job;
    int type, op;
    const void *in;
    void *out;
};
/* NULL: it can; else why not: to be asked before. The same at every rank. */
const char *mn_engine_refusal(const struct mn_engine *engine, enum mn_collective c, int type);
/* Runs it n times, each begun when the one before was, and returns when all are done; *seconds
 * (may be NULL) for all of them. Together. */
enum mn_err mn_engine_run(struct mn_engine *engine, const struct mn_engine_work *work,
                          unsigned long n, double *seconds, struct mn_diag *diag);

/* What the library's log says that it used. */
#define MN_ENGINE_VIAS 8
struct mn_engine_evidence {
    char network[64]; /* "Using network …"; "" = it did not say */
    char plugin[128]; /* "Loaded net plugin …": name and version; "" = none */
    int gdr;          /* channels whose NIC reads GPU memory itself */
    struct mn_engine_via {
        char name[32]; /* "NET/meshnet", "P2P", "SHM" */
        int channels;  /* from one rank to another */
    } via[MN_ENGINE_VIAS];
    int n_vias;
    int differ; /* ranks that used another network or plugin than the first */
};
struct mn_engine_report {
    const char *vendor, *label; /* "NCCL"; of its rows: "nccl" */
    char library[512], version[32];
    enum mn_engine_network network;
    int apart;
    struct mn_engine_evidence evidence; /* of all ranks */
};
/* Whether some of the traffic took that network. */
int mn_engine_went_over(const struct mn_engine_evidence *evidence, const char *network);
/* Together; the same at every rank. */
enum mn_err mn_engine_say(struct mn_engine *engine, struct mn_engine_report *report,
                          struct mn_diag *diag);

#endif
