/* The data plane of a group: the plugin's connections between ranks, made when an algorithm first
 * needs them and kept; closed by mn_group_leave. Calls marked "together" as in fleet/group.h. */
#ifndef MN_PLANE_H
#define MN_PLANE_H

#include "bench/area.h"
#include "bench/coll/schedule.h"
#include "fleet/group.h"
#include "bench/host.h"

/* What mn_group_memory() will be of: before mn_group_use, whose plugin looks for drivers. gpu -1:
 * of the ranks of a host one after the other. Without it, host memory. */
enum mn_err mn_group_choose_memory(struct mn_group *group, enum mn_memory_kind kind, int gpu,
                                   struct mn_diag *diag);
const struct mn_memory *mn_group_memory_kind(const struct mn_group *group);
/* The data plane. The plugin stays the caller's, to be closed after mn_group_leave. */
enum mn_err mn_group_use(struct mn_group *group, struct mn_plugin *plugin, int device,
                         struct mn_diag *diag);
/* Explains a result of the plugin; peer -1: no rank in particular. */
enum mn_err mn_group_call_failed(const struct mn_group *group, int peer, const char *call,
                                 int result, struct mn_diag *diag);
/* Connects with every rank that this one sends to or receives from in the schedule, where it is not
 * connected yet. Together. */
enum mn_err mn_group_connect(struct mn_group *group, const struct mn_schedule *s,
                             struct mn_diag *diag);
/* Whether this host can spare so much memory for each of its ranks; to be asked before any of them
 * takes it. */
enum mn_err mn_group_room(const struct mn_group *group, size_t bytes, struct mn_diag *diag);
/* Memory of at least that size, registered with every connection (if any), page aligned; what an
 * earlier call gave is gone, unless it is large enough. All buffers of a run over the wire lie in
 * it. */
enum mn_err mn_group_memory(struct mn_group *group, size_t bytes, uint8_t **memory,
                            struct mn_diag *diag);
/* The memory stays until the process ends, since something may still be at work on it. */
void mn_group_forsake_memory(struct mn_group *group);
/* What runs move through; its errors are explained by mn_group_wire_error. */
const struct mn_wire *mn_group_wire(const struct mn_group *group);
enum mn_err mn_group_wire_error(const struct mn_group *group, struct mn_diag *diag);
/* To be called when a run did not move: lets others have the processor, now and then looks for
 * news, and gives up, naming whom it waits for, when nothing moved for the timeout. *idle is 0 at
 * first and after every progress. */
enum mn_err mn_group_idle(struct mn_group *group, uint64_t *idle, struct mn_diag *diag);

#endif
