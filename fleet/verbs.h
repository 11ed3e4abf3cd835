/* The functions behind the rows of mn_node_verbs. */
#ifndef MN_VERBS_H
#define MN_VERBS_H

#include <cjson/cJSON.h>

#include "topo/base/err.h"

/* {"sudo": whether that is to be looked at, too} -> {"version", "build", "machine", "libc", "node",
 * "hostname", "program", "user": number, "root": bool, "sudo": whether it works without a password,
 * "capabilities": ["net_admin", …]} */
enum mn_err mn_verb_about(const cJSON *ask, cJSON **answer, struct mn_diag *diag);
/* mn_probe_ask() -> mn_probe_result_json() */
enum mn_err mn_verb_probe(const cJSON *ask, cJSON **answer, struct mn_diag *diag);

#endif
