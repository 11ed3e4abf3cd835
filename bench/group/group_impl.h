/* Inside of bench/group. */
#ifndef MN_GROUP_IMPL_H
#define MN_GROUP_IMPL_H

#include "fleet/door.h"
#include "bench/group.h"

#define MN_GROUP_FLIGHT 16 /* requests of a connection at once */

/* A request of the plugin, with what an error message needs. */
struct mn_group_request {
    struct mn_group *group;
    struct mn_group_link *link;
    void *request;
    void *data; /* received into */
    size_t received;
    int flushing;
};

/* A connection one way. */
struct mn_group_link {
    void *listen, *comm, *mh;
    int peer, receiving;
    unsigned begun, ended; /* requests, which end in order */
    struct mn_group_request requests[MN_GROUP_FLIGHT];
    _Alignas(8) uint8_t handle[MN_HANDLE_SIZE];
};

/* Another rank: the hub has a connection to each, the others one to the hub. */
struct mn_group_peer {
    struct mn_ctl ctl;
    cJSON *message; /* received and not yet asked for */
    int other_mesh; /* it goes by another mesh file than rank 0 */
    char name[128];
};

struct mn_group {
    struct mn_group_plan plan;
    struct mn_group_peer *peers; /* by rank; the own one has a name only */
    int over, told;
    struct mn_diag cause; /* why it is over */

    struct mn_group_lines *lines; /* of rank 0; NULL = not open */

    struct mn_plugin *plugin;
    int device;
    struct mn_group_link **links[2]; /* by peer: sending, receiving; NULL = none yet */
    struct mn_memory kind;           /* of memory; all zero = the host's */
    uint8_t *memory;
    size_t memory_bytes;
    uint8_t *staging[2]; /* for sums of memory that cannot be touched */
    size_t staging_bytes;
    struct mn_wire wire;
    struct mn_diag wire_error;
    char log[512]; /* the plugin's last warning */
    double still_since, looked;
};

/* Takes what came within wait_ms, one message a rank. An error: the group is over. */
enum mn_err mn_group_watch(struct mn_group *group, int wait_ms, struct mn_diag *diag);
/* The message of rank r, waited for. */
enum mn_err mn_group_await(struct mn_group *group, int r, cJSON **message, struct mn_diag *diag);
/* Rank 0's door, to its end with mn_door_close: who comes through it has said something. */
enum mn_err mn_group_door(const struct mn_group_plan *plan, struct mn_door **door,
                          struct mn_diag *diag);
void mn_group_close_wire(struct mn_group *group);
void mn_group_close_lines(struct mn_group *group);

#endif
