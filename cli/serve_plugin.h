/* Whether serve's clients will find the plugin that its user chose. */
#ifndef MN_SERVE_PLUGIN_H
#define MN_SERVE_PLUGIN_H

#include "topo/base/err.h"

/* Looks in a process of its own, so that no plugin comes to be in this one. MN_ERR_USAGE: it cannot
 * be loaded, or lacks the ABI version. Of a device that it does not offer yet it only warns. */
enum mn_err mn_serve_plugin_check(const char *path, int abi, int device, struct mn_diag *diag);

#endif
