/* Plays the traces of a job's processes again, one rank each, over any plugin: the same messages of
 * the same sizes and tags in the same order, as many requests at once, each message's data checked.
 * Connections are made first; what the job did with processes whose trace is not there is left out,
 * and counted. */
#ifndef MN_TRACE_REPLAY_H
#define MN_TRACE_REPLAY_H

#include "bench/plane.h"
#include "bench/trace/read.h"

struct mn_replay_plan {
    const struct mn_trace *trace; /* of this rank */
    struct mn_plugin *plugin;     /* in use by the group */
    int device;
    int timed; /* at the recorded times, not as fast as it goes */
};

/* Passed between ranks as it is. */
struct mn_replay_report {
    uint64_t sent, received, sent_bytes, received_bytes;
    uint64_t wrong;                   /* messages whose data or size was not what was sent */
    uint64_t left_out;                /* requests of connections to processes that are not here */
    uint64_t connections;             /* made */
    double seconds, recorded_seconds; /* from the first message to the last */
};

/* Together. reports has one of each rank, in their order. */
enum mn_err mn_replay(struct mn_group *group, const struct mn_replay_plan *plan,
                      struct mn_replay_report *reports, struct mn_diag *diag);

/* A rank of its own process, from joining the group to leaving it. */
struct mn_replay_rank {
    const struct mn_group_plan *plan; /* with its rank */
    const char *trace, *plugin;       /* files */
    int abi, device, timed;           /* abi 0 = the newest */
    /* Filled: */
    struct mn_plugin_info info;
    int joined, told; /* told: rank 0 knows why it ended, and may be left to say it */
};
/* reports as of mn_replay. */
enum mn_err mn_replay_play(struct mn_replay_rank *rank, struct mn_replay_report *reports,
                           struct mn_diag *diag);

#endif
