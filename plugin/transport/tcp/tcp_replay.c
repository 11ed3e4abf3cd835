/* What a socket was given and may not have delivered; small messages that are done. */
#include "plugin/transport/tcp/tcp_failover.h"

static struct tcp_part *part_at(struct tcp_lane *lane, uint32_t number)
{
    return &lane->log[number % TCP_LOG];
}

static void drop_oldest(struct tcp_lane *lane)
{
    lane->log_base += TCP_FRAME_SIZE + part_at(lane, lane->log_head++)->length;
}

static int has_landed(const struct tcp_comm *comm, uint32_t seq)
{
    return seq - comm->seq_acked >= comm->seq_next - comm->seq_acked ||
           comm->sends[seq % TCP_WINDOW].landed;
}

int tcp_log_room(struct tcp_comm *comm, struct tcp_lane *lane)
{
    if (lane->log_tail - lane->log_head < TCP_LOG)
        return 1;
    while (lane->log_head != lane->log_tail && has_landed(comm, part_at(lane, lane->log_head)->seq))
        drop_oldest(lane);
    return lane->log_tail - lane->log_head < TCP_LOG;
}

void tcp_log(struct tcp_lane *lane, enum tcp_type type, uint32_t seq, uint32_t offset,
             uint32_t length)
{
    *part_at(lane, lane->log_tail++) = (struct tcp_part){seq, offset, length, type};
}

int tcp_log_got(struct tcp_lane *lane, uint32_t number)
{
    uint32_t n = number - lane->log_head;

    if (n > UINT32_MAX / 2) /* said before these had landed */
        return 1;
    if (n > lane->log_tail - lane->log_head - (lane->tx != NULL))
        return 0;
    while (lane->log_head != number)
        drop_oldest(lane);
    return 1;
}

/* It was sent, but for its last unsent bytes, and has not come. */
static void take_out(struct tcp_comm *comm, const struct tcp_part *part, uint32_t unsent)
{
    struct tcp_send *send = &comm->sends[part->seq % TCP_WINDOW];

    send->sent -= part->length - (unsent < part->length ? unsent : part->length);
    if (part->type == TCP_FIRST)
        send->header_sent = 0;
}

int tcp_log_again(struct tcp_comm *comm, struct tcp_lane *lane, uint64_t pos)
{
    uint64_t at = lane->log_base, all = 0;

    for (uint32_t i = lane->log_head; i != lane->log_tail; i++)
        all += TCP_FRAME_SIZE + part_at(lane, i)->length;
    if (pos > at && pos - at > all - lane->unsent)
        return 0;
    for (; lane->log_head != lane->log_tail; lane->log_head++) {
        struct tcp_part part = *part_at(lane, lane->log_head);
        uint64_t end = at + TCP_FRAME_SIZE + part.length;
        uint64_t came = pos > at + TCP_FRAME_SIZE ? pos - at - TCP_FRAME_SIZE : 0;
        int known = pos >= at + TCP_FRAME_SIZE;
        at = end;
        if (pos >= end || has_landed(comm, part.seq))
            continue;
        if (known) {
            part.type = TCP_MORE;
            part.offset += (uint32_t)came;
            part.length -= (uint32_t)came;
        }
        take_out(comm, &part, lane->log_head + 1 == lane->log_tail ? lane->unsent : 0);
        comm->todo[(comm->todo_head + comm->n_todo++) % comm->todo_size] = part;
        comm->failover->links[lane->way].again += part.length;
    }
    return 1;
}

struct tcp_part tcp_todo_take(struct tcp_comm *comm)
{
    struct tcp_part part = comm->todo[comm->todo_head];

    comm->todo_head = (comm->todo_head + 1) % comm->todo_size;
    comm->n_todo--;
    return part;
}

int tcp_todo(struct tcp_comm *comm)
{
    while (comm->n_todo && has_landed(comm, comm->todo[comm->todo_head].seq))
        (void)tcp_todo_take(comm);
    return comm->n_todo != 0;
}

uint8_t *tcp_copy_room(struct tcp_comm *comm, struct tcp_send *send)
{
    uint32_t at = comm->copy_head % TCP_COPIES;
    uint32_t skip = at + send->size > TCP_COPIES ? TCP_COPIES - at : 0;

    /* None is in use: from the beginning, which is in the cache. */
    if (comm->copy_head == comm->copy_tail)
        comm->copy_head = comm->copy_tail = at = skip = 0;
    if (comm->copy_head - comm->copy_tail + skip + send->size > TCP_COPIES)
        return NULL;
    at = (at + skip) % TCP_COPIES;
    comm->copy_head += skip + send->size;
    send->copied = 1;
    send->copy_end = comm->copy_head;
    return comm->copies + at;
}
