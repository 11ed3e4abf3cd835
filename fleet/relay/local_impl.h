/* Between the files of the local socket. */
#ifndef MN_RELAY_LOCAL_IMPL_H
#define MN_RELAY_LOCAL_IMPL_H

#include "fleet/relay/local.h"

/* --- local.c ---------------------------------------------------------------------------------- */

#define MN_LOCAL_ASK (4 + MN_LINE_HELLO_SIZE) /* the longest question */
enum mn_local_question {
    MN_LOCAL_MORE,
    MN_LOCAL_SIGN,
    MN_LOCAL_STATE,
    MN_LOCAL_SAME,
    MN_LOCAL_NONSENSE
};
/* What len bytes ask for; MORE: they may become a question. */
enum mn_local_question mn_local_question(const uint8_t *ask, size_t len);

/* --- local_bind.c ----------------------------------------------------------------------------- */

struct mn_local_bound {
    int fd;
    char path[108]; /* "": it was handed over, and is not to be removed */
    dev_t device;
    ino_t inode;
};
/* As mn_relay_local_open says. */
enum mn_err mn_local_bind(const char *path, struct mn_local_bound *bound, struct mn_diag *diag);
/* Whether what was handed over is such a socket; made not to wait. */
enum mn_err mn_local_adopt(int fd, struct mn_diag *diag);
void mn_local_unbind(struct mn_local_bound *bound);

#endif
