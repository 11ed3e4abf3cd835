/* What the receiver says back. */
#include <string.h>
#include <sys/socket.h>

#include "plugin/transport/tcp/tcp_failover.h"

void tcp_write_ack(struct tcp_comm *comm, struct tcp_frame *frame)
{
    uint64_t bits[2] = {0, 0};

    while (comm->seq_landed != comm->seq_known && tcp_message_at(comm, comm->seq_landed)->landed)
        tcp_message_at(comm, comm->seq_landed++)->known = 0;
    /* It stays near: numbers wrap. */
    if ((int32_t)(comm->again_seq - comm->seq_landed) < 0)
        comm->again_seq = comm->seq_landed;
    for (uint32_t i = 0; i < comm->seq_known - comm->seq_landed; i++)
        if (tcp_message_at(comm, comm->seq_landed + i)->landed)
            bits[i / 64] |= 1ull << (i % 64);
    *frame = (struct tcp_frame){.magic = TCP_MAGIC, .type = TCP_ACK, .seq = comm->seq_landed};
    memcpy(&frame->tag, bits, sizeof bits);
}

/* Where all that is known of has landed, that says as well that its frames were read. */
static void count_told(struct tcp_comm *comm)
{
    for (int i = 0; i < comm->n_lanes; i++) {
        struct tcp_lane *lane = &comm->lanes[i];
        if (lane->frames - lane->told_frames < TCP_GOT_EVERY)
            lane->told_frames = lane->frames;
    }
}

/* One frame tells all that has landed. A partly written one is finished first; rare, since the way
 * back carries nothing else. */
static void write_back(struct tcp_comm *comm)
{
    if (comm->ack_due) {
        tcp_write_ack(comm, &comm->back);
        comm->back_at = TCP_FRAME_SIZE;
        comm->ack_due = 0;
        comm->ack_bytes = comm->ack_count = 0;
        comm->whole_acked = comm->whole;
        if (comm->failover && comm->seq_landed == comm->seq_known && !tcp_is_recovering(comm))
            count_told(comm);
        return;
    }
    comm->got_due = 0;
    for (int i = 0; i < comm->n_lanes; i++) {
        struct tcp_lane *lane = &comm->lanes[i];
        if (lane->off || lane->frames - lane->told_frames < TCP_GOT_EVERY)
            continue;
        comm->got_due = comm->back_at != 0;
        if (comm->got_due)
            return;
        comm->back = (struct tcp_frame){.magic = TCP_MAGIC,
                                        .type = TCP_GOT,
                                        .seq = (uint32_t)i,
                                        .size = lane->turn,
                                        .offset = lane->frames};
        comm->back_at = TCP_FRAME_SIZE;
        lane->told_frames = lane->frames;
    }
}

void tcp_recv_flush_acks(struct tcp_comm *comm)
{
    struct tcp_lane *lane = comm->first;

    if (!(comm->ack_due || comm->got_due) || !lane || lane->ended || lane->off)
        return;
    if (!comm->back_at)
        write_back(comm);
    if (!comm->back_at)
        return;
    ssize_t n = send(lane->fd, (uint8_t *)&comm->back + TCP_FRAME_SIZE - comm->back_at,
                     comm->back_at, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        comm->back_at -= (uint32_t)n;
    if (comm->back_at)
        comm->ack_due = 1;
    tcp_ack_late(lane);
}
