/* Ranks that know each other: a control plane for small words, of which rank 0 is the hub.
 *
 * Calls marked "together" are made by all ranks in the same order. Every wait is bounded; a rank
 * that dies or fails ends all of them at every rank, with its name and reason (unless they spare
 * it: mn_group_spare). After an error only mn_group_fail and mn_group_leave may follow. */
#ifndef MN_GROUP_H
#define MN_GROUP_H

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "fleet/ctl.h"
#include "topo/base/mac.h"

#define MN_GROUP_RANKS 128
#define MN_GROUP_DOORS 16
#define MN_GROUP_BLOCK 32000 /* bytes of all ranks' blocks together */
#define MN_GROUP_TEXT  (1u << 20)

struct mn_group;

/* What lets the others' connections to rank 0 come back through ssh, or goes without. */
#define MN_GROUP_SSH_BACK "AllowTcpForwarding in its sshd_config, or --agents"

/* What rank 0 and who starts the ranks tell each other, in memory that they share. */
struct mn_group_roll {
    struct {
        atomic_int came;   /* it has joined */
        atomic_int absent; /* it will not come; why says why not */
        char why[200];
    } ranks[MN_GROUP_RANKS];
    atomic_int spares; /* since mn_group_spare: a rank that ends is left out */
    char ended[256];   /* why all are asked to end; "" = as the signal says */
};

struct mn_group_plan {
    int rank, nranks;
    const char *host; /* of rank 0, as this rank reaches it */
    uint16_t port;
    int by_ssh; /* that is where ssh's way back (-R) begins */
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
/* From now on a rank other than 0 that dies, fails or is not heard of is left out: what it says is
 * zeros, what it is told goes nowhere, the others go on. Together. */
void mn_group_spare(struct mn_group *group);
/* Why a rank was left out, or NULL. Changes only in calls made together, at all ranks alike. */
const char *mn_group_gone(const struct mn_group *group, int rank);
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

/* What else a group has, by whoever makes it: companion is closed by mn_group_leave, before the
 * control plane. One a group. */
void mn_group_accompany(struct mn_group *group, void *companion, void (*close)(void *companion));
void *mn_group_companion(const struct mn_group *group); /* NULL = none yet */

#endif
