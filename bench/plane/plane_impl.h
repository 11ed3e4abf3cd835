/* Inside of bench/plane. */
#ifndef MN_PLANE_IMPL_H
#define MN_PLANE_IMPL_H

#include "bench/plane.h"

#define MN_PLANE_FLIGHT 16 /* requests of a connection at once */

/* A request of the plugin, with what an error message needs. */
struct mn_plane_request {
    struct mn_plane *plane;
    struct mn_plane_link *link;
    void *request;
    void *data; /* received into */
    size_t received;
    int flushing;
};

/* A connection one way. */
struct mn_plane_link {
    void *listen, *comm, *mh;
    int peer, receiving;
    unsigned begun, ended; /* requests, which end in order */
    struct mn_plane_request requests[MN_PLANE_FLIGHT];
    _Alignas(8) uint8_t handle[MN_HANDLE_SIZE];
};

struct mn_plane {
    struct mn_group *group;
    struct mn_plugin *plugin;
    int device;
    struct mn_plane_link **links[2]; /* by peer: sending, receiving; NULL = none yet */
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

/* The group's, made when there is none. */
struct mn_plane *mn_plane(struct mn_group *group);
/* The same where nothing is made: an empty one when there is none. */
const struct mn_plane *mn_plane_seen(const struct mn_group *group);

#endif
