/* What a collective should take: the schedules of all its ranks, carried out in time over a model
 * of the mesh (topo/model.h), where messages under way at once share what carries them. */
#ifndef MN_PREDICT_H
#define MN_PREDICT_H

#include "bench/collective.h"
#include "topo/model.h"

#define MN_PREDICT_RANKS 64 /* more take too long */

/* hosts: by rank the number of its host, as algorithms have it; NULL = one each. Of a task without
 * algorithm the one that mn_collective_measure would choose; engine: the fastest of those that NCCL
 * may choose from. result->latency is what is left of the time beside the most loaded part. Errors:
 * a cable without a rate, ranks without a way to each other, too many ranks. */
enum mn_err mn_predict(const struct mn_model *model, const struct mn_collective_task *task,
                       int engine, const int *hosts, struct mn_model_result *result,
                       struct mn_diag *diag);

/* The model of a group's ranks, for whom it is rank 0 that predicts. */
struct mn_predict_mesh {
    struct mn_fabric fabric;
    struct mn_routes routes;
    struct mn_model model;
    int *nodes, *hosts;                       /* by rank */
    double copy, reduce[MN_TYPES][MN_REDOPS]; /* bytes/s of the slowest rank; 0 = not known */
};
/* Every rank finds its node of the mesh file and says how fast its NICs are where the file does
 * not; mesh is completed by that. Together. */
enum mn_err mn_predict_meet(struct mn_group *group, struct mn_mesh *mesh,
                            struct mn_predict_mesh *made, struct mn_diag *diag);
/* How fast the slowest rank copies, and reduces what the tasks reduce: some milliseconds of each
 * rank. Together. */
enum mn_err mn_predict_try(struct mn_group *group, const struct mn_collective_task *tasks,
                           size_t n_tasks, struct mn_predict_mesh *made, struct mn_diag *diag);
void mn_predict_free(struct mn_predict_mesh *made);
/* "link a-b, from a to b", "port p0 of a, sending", … and that of a cable by its name alone. */
char *mn_predict_limit(const struct mn_mesh *mesh, const struct mn_fabric *fabric,
                       const struct mn_model_result *result, char *text, size_t size);

#endif
