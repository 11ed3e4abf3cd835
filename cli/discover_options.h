/* The options of meshnet discover, and which of them go together. */
#ifndef MN_DISCOVER_OPTIONS_H
#define MN_DISCOVER_OPTIONS_H

#include "cli/discover_neighbors.h"
#include "topo/base/opt.h"

#define MN_DISCOVER_PATH 512 /* bytes of --output, its end included */

struct mn_discover_options {
    int all, verbose, json, merge, force, strict, format, wide;
    const char *output, *check, *node, *sysfs, *netlink;
    struct mn_opt_list skip, take;
    int neighbors;
    struct mn_neighbors_options near;
};

/* MN_ERR_USAGE for what does not go together, or says nothing to what is asked for. */
enum mn_err mn_discover_check_usage(const struct mn_discover_options *opt, int argc, char **argv,
                                    struct mn_diag *diag);

#endif
