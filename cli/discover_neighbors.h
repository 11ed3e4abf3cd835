/* meshnet discover --neighbors: the mesh as it is cabled, by probing. */
#ifndef MN_DISCOVER_NEIGHBORS_H
#define MN_DISCOVER_NEIGHBORS_H

#include "cli/crew_options.h"
#include "fleet/probe.h"
#include "topo/base/out.h"
#include "topo/trouble.h"

struct mn_neighbors_options {
    struct mn_crew_options crew;
    unsigned wait_ms;
    int up, lldp, partial;
    const char *key_file, *survey, *save_survey;
};

struct mn_neighbors_ask {
    const struct mn_neighbors_options *options;
    struct mn_opt_list take, skip;
    const char *output; /* the mesh file to write; NULL = none */
    int merge, force, strict;
};

/* What came of it. */
struct mn_neighbors {
    struct mn_survey survey;
    struct mn_mesh mesh;
    struct mn_troubles troubles;
    struct mn_probe_result *results; /* of the nodes that answered; none of a recorded survey */
    size_t n_results;
    cJSON *failed; /* [{"host", "error"}] */
};

/* Probes, shows and writes. *code is the exit code when there is no error; *written is set to the
 * mesh file where that was. */
enum mn_err mn_discover_neighbors(const struct mn_neighbors_ask *ask, struct mn_out *out,
                                  const char **written, int *code, struct mn_diag *diag);

/* Fills survey, results and failed from this host alone or from those of --hosts. */
enum mn_err mn_neighbors_probe(const struct mn_neighbors_ask *ask, struct mn_neighbors *found,
                               struct mn_diag *diag);
/* The tables: cables, strangers, NICs that were left alone. */
void mn_neighbors_show(struct mn_out *out, const struct mn_neighbors *found);

#endif
