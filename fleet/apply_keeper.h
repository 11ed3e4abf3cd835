/* The process that makes changes on a host and undoes them by itself unless it is told in time to
 * keep them. It belongs to nobody who asks: connections and those who ask may end. One at a time,
 * by the lock that it holds. */
#ifndef MN_APPLY_KEEPER_H
#define MN_APPLY_KEEPER_H

#include "fleet/apply_state.h"

/* Starts it and waits until all is made, or all is undone and why is the error. state is written
 * first. MN_ERR_EXISTS: another holds the lock, and who. MN_ERR_AGAIN: an unconfirmed change
 * without a keeper stands, which has to be undone first. */
enum mn_err mn_keeper_start(const struct mn_apply_state *state, struct mn_diag *diag);
/* Files are written, the manager told: *said as mn_manager_reload says it. All or nothing: after
 * an error everything is undone. MN_ERR_NOTFOUND: there is none of that id (any more). */
enum mn_err mn_keeper_keep(const char *id, char **said, struct mn_diag *diag);
/* One whose keeper is gone, and one that was kept, too; MN_ERR_NOTFOUND: nothing of it stands. What
 * could not be undone its keeper tries again, for ten minutes. */
enum mn_err mn_keeper_undo(const char *id, struct mn_diag *diag);

enum mn_keeper_stand {
    MN_STAND_NONE,
    MN_STAND_TRIED, /* a keeper is at work */
    MN_STAND_ORPHAN /* its keeper is gone: killed, or the host was started anew */
};
/* What stands here unconfirmed; text: who, since when and for how long. */
enum mn_keeper_stand mn_keeper_stand(char *text, size_t size);
/* Undoes what stands without a keeper; fine when there is nothing. */
enum mn_err mn_keeper_recover(struct mn_diag *diag);
/* How the set of changes of that id ended here, in words; 0: nothing is known of it. */
int mn_keeper_outcome(const char *id, char *text, size_t size);

#endif
