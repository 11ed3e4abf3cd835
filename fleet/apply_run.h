/* One mesh file applied to many nodes: planned on all, then made on all, then checked on all, then
 * kept on all; or undone on all. */
#ifndef MN_APPLY_RUN_H
#define MN_APPLY_RUN_H

#include "fleet/apply_state.h"
#include "fleet/crew.h"

struct mn_apply_node {
    const char *host;
    enum mn_err err; /* of the last step that it was asked, with diag */
    struct mn_diag diag;
    char name[MN_NAME_MAX]; /* in the mesh; "" = not known */
    cJSON *plan;            /* as verb apply-plan answers, its form checked */
    cJSON *check;           /* as apply-check does; NULL = not asked */
    cJSON *answer;          /* its last, between steps */
    size_t n_kernel, n_files;
    int made, kept;
    char outcome[512]; /* in words */
};

struct mn_apply_run {
    struct mn_crew *crew;
    const struct mn_mesh *mesh;
    const char *mesh_text;
    const struct mn_opt_list *take;
    int undo, keeping; /* keeping: nodes have been told to, some may have done so */
    unsigned rollback_ms;
    volatile sig_atomic_t *stop; /* of the crew: set back before undoing */
    char id[MN_APPLY_ID], who[128];
    struct mn_apply_node *nodes;
    size_t n;
    double begun; /* mn_seconds() before anything was made */
    /* What goes on, for people; may be NULL. */
    void (*say)(const char *text);
};

/* Sets id, who and nodes. */
enum mn_err mn_apply_run_begin(struct mn_apply_run *run, struct mn_diag *diag);
void mn_apply_run_end(struct mn_apply_run *run);
/* Each step asks all nodes at once; an error is that of the first node that has one, and nodes say
 * theirs. Changes that stand without a timer are undone first where recover is set, and planned
 * again. */
enum mn_err mn_apply_run_plan(struct mn_apply_run *run, int recover, struct mn_diag *diag);
/* Nodes where changes stand without a timer, by the last plan. */
size_t mn_apply_run_orphans(const struct mn_apply_run *run);
size_t mn_apply_run_changes(const struct mn_apply_run *run); /* of all nodes */
/* After an error, and when the crew was told to stop, all is undone, or will be, and the nodes'
 * outcomes say so: waits for those that cannot be reached, as long as their timers run and a bit
 * more. */
enum mn_err mn_apply_run_make(struct mn_apply_run *run, struct mn_diag *diag);
/* Nodes that are not of this run are not asked for, nor those that lie behind them. MN_ERR_FAILED:
 * a cable is silent, a NIC has lost its carrier, a node in between passes nothing on. */
enum mn_err mn_apply_run_check(struct mn_apply_run *run, struct mn_diag *diag);
enum mn_err mn_apply_run_keep(struct mn_apply_run *run, struct mn_diag *diag);

#endif
