/* Inside of bench/p2p: a run of the side that plans; run.c begins and ends it, measure.c measures.
 */
#ifndef MN_P2P_SESSION_H
#define MN_P2P_SESSION_H

#include "bench/p2p/pump.h"

/* The run: plan, connections, where it stands. */
struct mn_p2p_session {
    const struct mn_p2p_plan *plan;
    struct mn_p2p_pump pump;
    struct mn_p2p_report *report;
    mn_p2p_progress progress;
    void *ctx;
    int step, steps;
    double began; /* for the plan's budget */
};

/* All of the plan, in its order. */
enum mn_err mn_p2p_measure(struct mn_p2p_session *session, struct mn_diag *diag);
/* One transfer on both sides; seen[0] is ours, seen[1] the peer's. ways: ours. */
enum mn_err mn_p2p_move(struct mn_p2p_session *session, size_t size, uint64_t count, int ways,
                        int check, struct mn_p2p_seen seen[2], struct mn_diag *diag);
/* Ping-pong through the plugin; rtts: see mn_p2p_pingpong. */
enum mn_err mn_p2p_rounds(struct mn_p2p_session *session, size_t size, uint64_t count, float *rtts,
                          struct mn_diag *diag);
/* Verbs alone (raw_run.c): after the plugin's buffers are there; then for each size. */
enum mn_err mn_raw_begin(struct mn_p2p_session *session, struct mn_diag *diag);
enum mn_err mn_raw_measure(struct mn_p2p_session *session, size_t size, struct mn_diag *diag);
/* When our side failed, the other side's reason may say more: ends with both, and returns err. */
enum mn_err mn_p2p_add_peer_reason(struct mn_p2p_session *session, enum mn_err err,
                                   struct mn_diag *diag);
/* For the judgement of the counters. */
void mn_p2p_count_moved(struct mn_p2p_session *session, size_t size, uint64_t messages);

#endif
