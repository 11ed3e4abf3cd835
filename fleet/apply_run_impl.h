/* Between fleet/apply_run.c, apply_run_check.c, apply_run_far.c and apply_run_end.c. */
#ifndef MN_APPLY_RUN_IMPL_H
#define MN_APPLY_RUN_IMPL_H

#include "fleet/apply_run.h"

/* Asks those with a question; each one's err, diag and answer are the new ones. The first error. */
enum mn_err mn_run_ask(struct mn_apply_run *run, const char *verb, cJSON *const *asks,
                       struct mn_diag *diag);
cJSON *mn_run_question(const struct mn_apply_run *run);
void mn_run_free_asks(const struct mn_apply_run *run, cJSON **asks);
void mn_run_say(const struct mn_apply_run *run, const char *text);
/* Of addresses behind neighbours: MN_ERR_FAILED where packets do not pass, with the node that does
 * not let them. What is no failure though nothing answered gets the word for it as its state. */
enum mn_err mn_run_judge_far(const struct mn_apply_run *run, struct mn_apply_node *node);
/* Undoes what was made, wherever; fills in the outcomes. */
void mn_run_undo(struct mn_apply_run *run);

#endif
