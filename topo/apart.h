/* What a library may end the process over, done by a child: hwloc asserts, and reads through NULL,
 * where it finds no memory. Not for the plugin, whose process may not be forked. */
#ifndef MN_APART_H
#define MN_APART_H

#include <stddef.h>

#include "topo/base/err.h"

/* work: result points to size zeroed bytes, which come back when it succeeds. It must only read
 * what it shares with the caller, for nothing else comes back. A child that died, or
 * that was there for half a minute, is an error that names what. */
typedef enum mn_err (*mn_apart_work)(const void *arg, void *result, struct mn_diag *diag);
enum mn_err mn_apart(const char *what, mn_apart_work work, const void *arg, void *result,
                     size_t size, struct mn_diag *diag);

#endif
