/* Predictions beside what bench measures of collectives. */
#ifndef MN_COLLECTIVE_PREDICT_H
#define MN_COLLECTIVE_PREDICT_H

#include "bench/predict.h"
#include "cli/bench_collective.h"
#include "cli/collective_report.h"

/* Rates and latencies of cables as bench --links measured them: the file's, for the mesh's links of
 * the same names. Links that the file has not keep theirs. A node that could not send and receive
 * at once as fast as its cables is limited to what it could. MN_ERR_CONFIG names the file: no
 * matrix, no link of it is in the mesh. */
enum mn_err mn_predict_rates(const char *path, const struct mn_mesh *mesh, struct mn_fabric *fabric,
                             struct mn_diag *diag);

/* Gets ready to predict what the session measures, and looks whether it can. Together. */
enum mn_err mn_collective_predict_begin(struct mn_collective_session *session,
                                        struct mn_group *group, struct mn_predict_mesh *made,
                                        struct mn_diag *diag);
/* Takes the rates of --predict-from and looks whether each of the session's tasks can be predicted:
 * rank 0's part of it. */
enum mn_err mn_collective_predict_check(const struct mn_collective_session *session,
                                        struct mn_predict_mesh *made, struct mn_diag *diag);
/* --predict-only: prints what the session would be expected to measure between all nodes of its
 * mesh. */
enum mn_err mn_bench_predict_only(struct mn_collective_session *session, int *code,
                                  struct mn_diag *diag);
/* The table "prediction", a row for each of the report's that can be predicted. */
void mn_collective_predict_print(struct mn_out *out, const struct mn_collective_report *report);

#endif
