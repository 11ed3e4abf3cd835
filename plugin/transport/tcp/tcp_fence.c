/* The receiver's part in recovery: the fence, and what takes a socket's place. */
#include <stdio.h>
#include <unistd.h>

#include "plugin/transport/tcp/tcp_failover.h"

#define TAIL (8u << 20) /* more than a socket may have to be read at once */

void tcp_set_first(struct tcp_comm *comm, int32_t lane)
{
    struct tcp_lane *first = lane >= 0 && lane < comm->n_lanes ? &comm->lanes[lane] : NULL;

    if (first == comm->first)
        return;
    comm->first = first;
    comm->back_at = 0;
    comm->ack_due = comm->got_due = 1;
    for (int i = 0; i < comm->n_lanes; i++)
        comm->lanes[i].told_frames = comm->lanes[i].frames - TCP_GOT_EVERY;
}

/* What is in the middle of a frame is left where it is: the rest of the frame comes by another. */
static void forget(struct tcp_lane *lane)
{
    if (lane->rx)
        lane->rx->claimed -= lane->rx_left;
    lane->rx = NULL;
    lane->rx_left = lane->rx_parked = 0;
    lane->stage_at = lane->stage_len = 0;
    lane->answer = lane->pos;
    lane->pos = 0;
    lane->frames = lane->told_frames = 0;
    lane->asked = 0;
}

enum mn_err tcp_fence(struct tcp_comm *comm, struct tcp_lane *lane, const struct tcp_frame *sync)
{
    enum mn_err err = tcp_take_back(comm, lane);
    uint64_t now = mn_now_ms();
    uint32_t moved = 1, all = 0;

    while (!err && !lane->off && moved && all < TAIL) {
        moved = 0;
        err = tcp_recv_drain(comm, lane, &moved);
        all += moved;
    }
    if (err)
        return err;
    forget(lane);
    tcp_unsay(comm, lane, TCP_SAY_REQUEST); /* it would be of the next turn */
    tcp_shut(comm, lane, TCP_DOWN, 1);
    lane->turn++;
    lane->attempt = sync->spare;
    if (!tcp_is_recovering(comm) || (int32_t)(sync->offset - comm->fence_seq) > 0)
        comm->fence_seq = sync->offset;
    if ((int32_t)(sync->offset - comm->again_seq) > 0)
        comm->again_seq = sync->offset;
    struct tcp_link *link = &comm->failover->links[lane->way];
    if (!link->gone) {
        link->gone = 1;
        link->gone_ms = now;
        if (!link->cause[0])
            snprintf(link->cause, sizeof link->cause, "the sender has given it up");
    }
    tcp_say(comm, lane, TCP_SAY_ANSWER);
    tcp_tell_gone(comm, link, now);
    /* What was read on the way may be to be acknowledged, and what other sockets hold has a place.
     */
    tcp_moved(comm);
    return MN_OK;
}

enum mn_err tcp_take_back(struct tcp_comm *comm, struct tcp_lane *lane)
{
    int control = lane >= comm->lanes + comm->n_lanes;
    uint64_t attempt = 0;
    int fd = mn_reopen_take_attempt(lane->reopen, &attempt);

    if (fd < 0)
        return MN_OK;
    if (attempt <= lane->attempt) {
        close(fd);
        return MN_OK;
    }
    if (lane->state == TCP_UP && !control && (lane->pos || lane->rx_parked || !lane->attempt)) {
        close(fd);
        return tcp_fail(comm, lane, MN_ERR_PROTO, "a new socket beside one that is in use");
    }
    tcp_shut(comm, lane, TCP_DOWN, 1);
    if (control) /* nobody hears what was said on the old one */
        comm->failover->control = NULL;
    tcp_lane_is_up(comm, lane, fd, attempt);
    if (lane == comm->first)
        comm->ack_due = 1;
    tcp_tell_back(comm, &comm->failover->links[lane->way], mn_now_ms());
    return MN_OK;
}
