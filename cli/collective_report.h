/* Prints what was measured of collectives, as text, JSON or CSV. */
#ifndef MN_COLLECTIVE_REPORT_H
#define MN_COLLECTIVE_REPORT_H

#include <time.h>

#include "bench/collective.h"
#include "bench/environment.h"
#include "bench/predict.h"
#include "topo/base/out.h"

struct mn_collective_report {
    const struct mn_group *group;
    const struct mn_plugin_info *plugin;
    time_t started;
    struct mn_environment *environments; /* one a host */
    int n_environments;
    char **pinned; /* CPUs of each rank, "" = all; NULL = not known */
    struct mn_collective_row *rows;
    size_t n_rows;
    struct mn_engine_report engines[MN_NETWORKS];
    int n_engines;
    int engine; /* enum mn_engine_kind of all rows, MN_ENGINE_OWN = meshnet's algorithms */
    const struct mn_predict_mesh *predict; /* NULL = nothing is predicted */
    const struct mn_mesh *mesh;            /* of predict */
    const char *error;                     /* why it ended early, NULL = it did not */
};

/* The table alone. */
void mn_collective_print_rows(struct mn_out *out, const struct mn_collective_report *report);
void mn_collective_print(struct mn_out *out, const struct mn_collective_report *report);

#endif
