/* What a node does when another asks: verbs with JSON in and JSON out, the same by ssh ("meshnet
 * node VERB": both on the standard streams), by agents (meshnet serve) and in this process. A new
 * verb is one file and one row. */
#ifndef MN_FLEET_NODE_H
#define MN_FLEET_NODE_H

#include <cjson/cJSON.h>

#include "topo/base/err.h"

struct mn_node_verb {
    const char *name;
    const char *what; /* a line for help */
    unsigned seconds; /* the longest it takes; whoever asks waits a little longer */
    int changes;      /* the host is changed: by agents only where they were told to allow it */
    /* ask is a stranger's, to be checked; *answer is the caller's to cJSON_Delete and NULL after an
     * error. Runs in a process of its own, may print on stderr what people should see. */
    enum mn_err (*run)(const cJSON *ask, cJSON **answer, struct mn_diag *diag);
};

extern const struct mn_node_verb mn_node_verbs[];          /* name NULL ends */
const struct mn_node_verb *mn_node_verb(const char *name); /* or NULL */

#endif
