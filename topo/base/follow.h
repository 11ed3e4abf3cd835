/* Where a file is that somebody names for writing. */
#ifndef MN_BASE_FOLLOW_H
#define MN_BASE_FOLLOW_H

#include "topo/base/err.h"

/* *target, the caller's: what symbolic links at the end of path lead to, which need not be there
 * yet, as what opens path for writing takes it; path itself where it is none. MN_ERR_CONFIG for a
 * link or file of another user in a folder where everybody may leave some (like /tmp), and for a
 * link on the way to it: who put it there would say where is written, or read what is. */
enum mn_err mn_file_follow(const char *path, char **target, struct mn_diag *diag);

#endif
