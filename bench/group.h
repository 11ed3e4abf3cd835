/* Ranks that know each other: a control plane for small words (rank 0 is the hub) and a data plane
 * of the plugin's connections, made when an algorithm first needs them and kept.
 *
 * Calls marked "together" are made by all ranks in the same order. Every wait is bounded; a rank
 * that dies or fails ends all of them at every rank, with its name and reason. After an error only
 * mn_group_fail and mn_group_leave may follow. */
#ifndef MN_GROUP_H
#define MN_GROUP_H

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "bench/area.h"
#include "bench/coll/schedule.h"
#include "fleet/ctl.h"
#include "bench/host.h"
#include "topo/base/mac.h"

#define MN_GROUP_RANKS 128
#define MN_GROUP_DOORS 16
#define MN_GROUP_BLOCK 32000 /* bytes of all ranks' blocks together */
#define MN_GROUP_TEXT  (1u << 20)

struct mn_group;

/* What rank 0 and who starts the ranks tell each other, in memory that they share. */
struct mn_group_roll {
    struct {
        atomic_int came;   /* it has joined */
        atomic_int absent; /* it will not come; why says why not */
        char why[200];
    } ranks[MN_GROUP_RANKS];
    char ended[256]; /* why all are asked to end; "" = as the signal says */
};

struct mn_group_plan {
    int rank, nranks;
    const char *host; /* of rank 0, as this rank reaches it */
    uint16_t port;
    /* Of rank 0: sockets that listen, there and elsewhere; they stay the caller's. */
    int doors[MN_GROUP_DOORS], n_doors;
    uint8_t token[MN_KEY_SIZE];
    unsigned timeout_ms; /* longest wait without news */
    /* Not 0: the group ends, interrupted; SIGTERM: because a program asked. NULL: never. */
    const volatile sig_atomic_t *stop;
    /* Of rank 0 and NULL elsewhere, or where nobody starts ranks. */
    struct mn_group_roll *roll;
    /* With roll: ranks that do not come are left out, and those after them get lower numbers. */
    int go_on;
};

/* Returns when all are there that will come. */
enum mn_err mn_group_join(const struct mn_group_plan *plan, struct mn_group **group,
                          struct mn_diag *diag);
/* Closes and frees everything; NULL is fine. When nothing failed, mn_group_barrier goes before, or
 * the others see this rank as dead. */
void mn_group_leave(struct mn_group *group);
int mn_group_rank(const struct mn_group *group);
unsigned mn_group_timeout_ms(const struct mn_group *group); /* of its plan */
int mn_group_size(const struct mn_group *group);
const char *mn_group_name(const struct mn_group *group, int rank); /* "rank 2 (node-b, pid 123)" */
/* By rank the number of its host, from 0 on: ranks of one node name share one. */
void mn_group_hosts(const struct mn_group *group, int *hosts);

/* Every rank gets every rank's block, in the order of ranks. Together. */
enum mn_err mn_group_allgather(struct mn_group *group, const void *mine, size_t bytes, void *all,
                               struct mn_diag *diag);
/* Block r of to goes to rank r, block r of from came from there. Together. */
enum mn_err mn_group_exchange(struct mn_group *group, const void *to, size_t bytes, void *from,
                              struct mn_diag *diag);
/* Each value becomes the largest of all ranks'. Together. */
enum mn_err mn_group_max(struct mn_group *group, float *values, size_t count, struct mn_diag *diag);
enum mn_err mn_group_barrier(struct mn_group *group, struct mn_diag *diag); /* together */
/* Every rank gets every rank's text of up to MN_GROUP_TEXT bytes, in the order of ranks. *texts is
 * one piece of memory, the caller's to free; NULL after an error. What a rank sent is a stranger's:
 * to be checked. Together. */
enum mn_err mn_group_gather_text(struct mn_group *group, const char *text, char ***texts,
                                 struct mn_diag *diag);
/* Looks for news without waiting: an error when the group has ended. */
enum mn_err mn_group_look(struct mn_group *group, struct mn_diag *diag);
/* This rank failed with what *diag says: tells the others. When the cause is another rank, *diag
 * says so afterwards. Returns its code. */
enum mn_err mn_group_fail(struct mn_group *group, enum mn_err err, struct mn_diag *diag);
/* Once the plan's stop is set: "interrupted", or why else. */
const char *mn_group_stop_reason(const struct mn_group *group);
/* Whether rank 0 knows why the group ended, and may be left to say it. */
int mn_group_told(const struct mn_group *group);

/* Lines are control connections between two ranks. Rank 0 passes them on, so that they need no
 * cable; from mn_group_open_lines (together) on. */
enum mn_err mn_group_open_lines(struct mn_group *group, struct mn_diag *diag);
/* Both ranks call with one number, the other's rank as peer, and wait for each other. Close *ctl
 * with mn_ctl_close before the group is left. Rank 0 can be one of them. A number is used once. */
enum mn_err mn_group_line(struct mn_group *group, unsigned number, int peer, struct mn_ctl *ctl,
                          struct mn_diag *diag);

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
