/* Inside of fleet/group. */
#ifndef MN_GROUP_IMPL_H
#define MN_GROUP_IMPL_H

#include "fleet/door.h"
#include "fleet/group.h"

/* Another rank: the hub has a connection to each, the others one to the hub. */
struct mn_group_peer {
    struct mn_ctl ctl;
    cJSON *message; /* received and not yet asked for */
    int other_mesh; /* it goes by another mesh file than rank 0 */
    char name[128];
    int left;      /* at rank 0: nothing more comes from it, and the group spares it */
    int gone;      /* all know that */
    char why[256]; /* of left and gone */
};

struct mn_group {
    struct mn_group_plan plan;
    struct mn_group_peer *peers; /* by rank; the own one has a name only */
    int over, told;
    int spares;
    struct mn_diag cause; /* why it is over */

    struct mn_group_lines *lines; /* of rank 0; NULL = not open */

    void *companion;
    void (*close_companion)(void *companion);
};

/* Takes what came within wait_ms, one message a rank. An error: the group is over. */
enum mn_err mn_group_watch(struct mn_group *group, int wait_ms, struct mn_diag *diag);
/* The message of rank r, waited for since then; NULL: the group spares it. */
enum mn_err mn_group_await(struct mn_group *group, int r, double since, cJSON **message,
                           struct mn_diag *diag);
/* Whether rank r's end is not the group's; it has left then. */
int mn_group_lose(struct mn_group *group, int r, const char *why);
/* Before rank 0 answers: who has left is gone. In an answer: who is. */
void mn_group_count(struct mn_group *group);
void mn_group_tell_gone(const struct mn_group *group, cJSON *message);
void mn_group_learn_gone(struct mn_group *group, const cJSON *message);
/* Rank 0's door, to its end with mn_door_close: who comes through it has said something. */
enum mn_err mn_group_door(const struct mn_group_plan *plan, struct mn_door **door,
                          struct mn_diag *diag);
void mn_group_close_lines(struct mn_group *group);

#endif
