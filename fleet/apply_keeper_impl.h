/* Between fleet/apply_keeper.c and apply_keeper_ask.c. */
#ifndef MN_APPLY_KEEPER_IMPL_H
#define MN_APPLY_KEEPER_IMPL_H

#include <cjson/cJSON.h>

#include "fleet/apply_state.h"

/* Is the keeper from now on: makes the changes, says how it went into result, waits. */
_Noreturn void mn_keeper_run(const struct mn_apply_state *state, int lock, int door, int result);
#define MN_KEEPER_OOM (-1000) /* its oom_score_adj */
/* Keeps this process from being ended along with others, as far as the host has the means: where it
 * has not and somebody ends it in good order, it undoes. */
void mn_keeper_set_apart(const char *id);
/* Undoes all that it can, twice, for what one change takes along another may bring back; files:
 * those too. What fails then is the error. */
enum mn_err mn_keeper_undo_all(const struct mn_apply_state *state, struct mn_kernel *kernel,
                               int files, struct mn_diag *diag);
/* Another may begin; the door's name goes first, which is the holder's to remove. */
void mn_keeper_unlock(int lock);
/* One message of a SOCK_SEQPACKET socket: at most 8 KiB. NULL: none came, or none of this kind. */
void mn_keeper_send(int fd, const cJSON *json);
cJSON *mn_keeper_receive(int fd);

#endif
