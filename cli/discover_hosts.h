/* meshnet discover --hosts: what every host has, as one mesh. */
#ifndef MN_DISCOVER_HOSTS_H
#define MN_DISCOVER_HOSTS_H

#include "cli/crew_options.h"
#include "topo/mesh.h"

struct mn_discover_hosts {
    const struct mn_crew_options *crew;
    const struct mn_opt_list *skip, *take;
    const char *output; /* NULL = no file */
    int merge, force;   /* into that file; in its place */
};

/* Asks all hosts and merges what they have into mesh (initialized), which at first is the file that
 * is merged into. A host that fails is told on standard error and counted. */
enum mn_err mn_discover_hosts(const struct mn_discover_hosts *ask, struct mn_mesh *mesh,
                              size_t *failed, struct mn_diag *diag);

#endif
