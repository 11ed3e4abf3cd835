/* meshnet discover --hosts: what every host has, as one mesh. */
#ifndef MN_DISCOVER_HOSTS_H
#define MN_DISCOVER_HOSTS_H

#include <cjson/cJSON.h>

#include "cli/crew_options.h"
#include "topo/base/out.h"
#include "topo/mesh.h"

struct mn_discover_hosts {
    const struct mn_crew_options *crew;
    const struct mn_opt_list *skip, *take;
    const char *output; /* NULL = no file */
    int merge, force;   /* into that file; in its place */
};

/* Asks all hosts and merges what they have into mesh (initialized), which at first is the file that
 * is merged into: another machine of a node's name takes its place with force alone. A host that
 * fails is told on standard error, and in failed, a list to which {"host", "error"} is added. */
enum mn_err mn_discover_hosts(const struct mn_discover_hosts *ask, struct mn_mesh *mesh,
                              cJSON *failed, struct mn_diag *diag);
/* The failed of n answers, told and added to such a list; how many they are. */
size_t mn_discover_add_failures(cJSON *failed, const struct mn_crew_answer *answers, size_t n);
/* Such a list as JSON: people have been told. */
void mn_discover_failed(struct mn_out *out, const cJSON *failed);

#endif
