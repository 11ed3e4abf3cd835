/* Where apply finds and leaves things on a host: files of the system, sysctls, its own state. */
#ifndef MN_APPLY_PLACE_H
#define MN_APPLY_PLACE_H

#include <stddef.h>

#include "topo/base/err.h"

/* $MESHNET_ROOT, a folder that stands for / where files are concerned (of tests: the kernel that is
 * changed is this one all the same), else "". */
const char *mn_place_root(void);
/* RUN: what does not outlive a boot. STATE: what does. The folders are made, for root alone. The
 * caller frees. */
enum mn_err mn_place_run(const char *name, char **path, struct mn_diag *diag);
enum mn_err mn_place_state(const char *name, char **path, struct mn_diag *diag);

/* A file of at most 1 MiB; *text NULL: it is not there. MN_ERR_SYS: it cannot be read. */
enum mn_err mn_place_read(const char *path, char **text, unsigned *mode, struct mn_diag *diag);
/* Whole or not at all, its folders made where they lack. */
enum mn_err mn_place_write(const char *path, const char *text, unsigned mode, struct mn_diag *diag);

/* Whether path, which begins with root, is below it with all its links followed, be it there or
 * not. MN_ERR_CONFIG: a link leads out, as an absolute one of an image does. root "": all is. */
enum mn_err mn_place_below(const char *root, const char *path, struct mn_diag *diag);

/* "net/ipv4/ip_forward". 1, and the value without line break; 0: there is none. */
int mn_sysctl_read(const char *name, char *value, size_t size);
enum mn_err mn_sysctl_write(const char *name, const char *value, struct mn_diag *diag);

#endif
