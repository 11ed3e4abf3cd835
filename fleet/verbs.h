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
/* {"place": "own" or "system"} -> struct mn_file_state of the mesh file there */
enum mn_err mn_verb_mesh(const cJSON *ask, cJSON **answer, struct mn_diag *diag);
/* The same and "text", which is written there when it is a mesh file */
enum mn_err mn_verb_put_mesh(const cJSON *ask, cJSON **answer, struct mn_diag *diag);
/* {"text"} -> the same, of /etc/meshnet/mesh.yaml */
enum mn_err mn_verb_put_mesh_system(const cJSON *ask, cJSON **answer, struct mn_diag *diag);
/* {"path": absolute, "text": may be left out} -> the same */
enum mn_err mn_verb_put_mesh_at(const cJSON *ask, cJSON **answer, struct mn_diag *diag);

/* Of meshnet topo apply. mesh: a mesh file's text; take: NICs; undo: go back to what the last kept
 * set of changes replaced; id: 32 hexadecimal digits, the caller's, of one set of changes.
 * {"mesh", "take", "undo"} -> {"node", "manager", "changes": [], "files": [], "notes": [],
 * "stands": "none" | "tried" | "orphan", "stands_by": who} */
enum mn_err mn_verb_apply_plan(const cJSON *ask, cJSON **answer, struct mn_diag *diag);
/* The same with {"id", "who", "rollback_ms", "changes": as the plan had them} -> {"made": number}.
 * From then on they are undone by themselves after rollback_ms. */
enum mn_err mn_verb_apply(const cJSON *ask, cJSON **answer, struct mn_diag *diag);
/* {"mesh", "peers": names of nodes, "carried": NICs, "wait_ms": for answers, "carry_ms": for
 * carriers, "limit_ms": for all of it} -> {"cables": [{"cable", "netdev", "peer", "address",
 * "state": "answers" | "silent" | "wrong NIC" | "no carrier"}], "missing_gids": []} */
enum mn_err mn_verb_apply_check(const cJSON *ask, cJSON **answer, struct mn_diag *diag);
/* {"id"} -> {"said": the command by which files were taken, or ""} */
enum mn_err mn_verb_apply_keep(const cJSON *ask, cJSON **answer, struct mn_diag *diag);
/* {"id"}, or {"orphan": true} for what stands without a timer -> {} */
enum mn_err mn_verb_apply_undo(const cJSON *ask, cJSON **answer, struct mn_diag *diag);
/* {"id"} -> {"tried": whether a set of changes is tried now, "outcome": of that one, "" = unknown}
 */
enum mn_err mn_verb_apply_state(const cJSON *ask, cJSON **answer, struct mn_diag *diag);
/* {"name": what the node is to be called; left out: as it calls itself} -> mn_survey_json() of this
 * node alone, nothing seen */
enum mn_err mn_verb_survey(const cJSON *ask, cJSON **answer, struct mn_diag *diag);
/* See fleet/doctor.h. */
enum mn_err mn_verb_doctor(const cJSON *ask, cJSON **answer, struct mn_diag *diag);
/* {"skip": [netdevs], "mesh": a file whose roles stay; both may be left out} -> {"mesh": a file
 * with this host alone, "skipped": those that it has} */
enum mn_err mn_verb_discover(const cJSON *ask, cJSON **answer, struct mn_diag *diag);

#endif
