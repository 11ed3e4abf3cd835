#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "plugin/transport/tcp/tcp_failover.h"

#define SMALL          1024 /* data sent in one piece with its header */
#define BACK           8    /* frames that are read at once */
#define FEEDBACK_EVERY 16   /* small messages between looks at lane 0's way back */

static struct tcp_send *send_at(struct tcp_comm *comm, uint32_t seq)
{
    return &comm->sends[seq % TCP_WINDOW];
}

/* --- what comes back -------------------------------------------------------------------------- */

static void land(struct tcp_comm *comm, struct tcp_send *send)
{
    if (send->landed)
        return;
    send->landed = 1;
    if (send->eager)
        comm->eager_bytes -= send->size + TCP_FRAME_SIZE;
}

/* The kernel has been given all of it. With failover the parts that other sockets carry may
 * introduce it before its own header is out. */
static int is_all_sent(const struct tcp_comm *comm, const struct tcp_send *send)
{
    return send->sent >= send->size && (send->header_sent || (comm->failover && send->size));
}

/* NULL: nothing of what it says is amiss. */
static const char *refuse_ack(const struct tcp_comm *comm, uint32_t seq)
{
    if (seq - comm->seq_acked >= comm->seq_next - comm->seq_acked)
        return "which there is not";
    const struct tcp_send *send = &comm->sends[seq % TCP_WINDOW];
    return send->landed || is_all_sent(comm, send) ? NULL : "not all of which is sent";
}

static int is_in(const uint64_t bits[2], uint32_t i)
{
    return bits[i / 64] >> (i % 64) & 1;
}

enum mn_err tcp_on_ack(struct tcp_comm *comm, const struct tcp_lane *lane,
                       const struct tcp_frame *frame)
{
    uint32_t before = frame->seq - comm->seq_acked;
    const char *wrong = NULL;
    uint64_t bits[2];

    memcpy(bits, &frame->tag, sizeof bits);
    int n_bits = bits[0] | bits[1] ? 128 : 0;
    /* All is looked at first: of what is wrong nothing counts. */
    if (before > comm->seq_next - comm->seq_acked)
        wrong = "which there is not";
    for (uint32_t i = 0; i < before && !wrong; i++)
        wrong = refuse_ack(comm, comm->seq_acked + i);
    for (uint32_t i = 0; i < (uint32_t)n_bits && !wrong; i++)
        if (is_in(bits, i))
            wrong = refuse_ack(comm, frame->seq + i);
    if (wrong)
        return tcp_fail(comm, lane, MN_ERR_PROTO,
                        "acknowledgement of a message %s (those before %u, and of 128 from there "
                        "%016llx%016llx; posted are those before %u)",
                        wrong, frame->seq, (unsigned long long)bits[1], (unsigned long long)bits[0],
                        comm->seq_next);
    while (comm->seq_acked != frame->seq) {
        struct tcp_send *send = send_at(comm, comm->seq_acked++);
        land(comm, send);
        if (send->copied)
            comm->copy_tail = send->copy_end;
    }
    for (int i = 0; i < n_bits; i++)
        if (is_in(bits, (uint32_t)i))
            land(comm, send_at(comm, frame->seq + (uint32_t)i));
    return MN_OK;
}

static enum mn_err on_got(struct tcp_comm *comm, const struct tcp_frame *frame)
{
    struct tcp_lane *lane = &comm->lanes[frame->seq < (uint32_t)comm->n_lanes ? frame->seq : 0];

    if (!comm->failover || frame->seq >= (uint32_t)comm->n_lanes)
        return tcp_fail(comm, lane, MN_ERR_PROTO, "GOT frame of socket %u", frame->seq);
    if (lane->state != TCP_UP || frame->size != lane->turn || tcp_log_got(lane, frame->offset))
        return MN_OK;
    return tcp_fail(comm, lane, MN_ERR_PROTO, "GOT frame of %u frames, sent are %u", frame->offset,
                    lane->log_tail);
}

static enum mn_err on_back(struct tcp_comm *comm)
{
    const struct tcp_frame *frame = &comm->back;

    if (frame->magic != TCP_MAGIC || frame->zero)
        return tcp_fail(comm, comm->first, MN_ERR_PROTO, "garbage instead of a frame");
    /* Of one that has closed this may be from before its last word, which was quicker. */
    if (frame->type == TCP_ACK && comm->failover && comm->failover->is_last)
        return MN_OK;
    if (frame->type == TCP_ACK)
        return tcp_on_ack(comm, comm->first, frame);
    if (frame->type == TCP_GOT)
        return on_got(comm, frame);
    if (frame->type == TCP_ERROR && frame->offset == MN_ERR_TOO_LONG)
        return tcp_fail(comm, comm->first, MN_ERR_TOO_LONG,
                        "message %u of %u bytes is longer than the receive posted for it (%u)",
                        frame->seq, frame->size, frame->length);
    return tcp_fail(comm, comm->first, MN_ERR_PROTO, "frame of type %u from the receiver",
                    frame->type);
}

static enum mn_err take_back(struct tcp_comm *comm, const struct tcp_frame frames[BACK],
                             size_t bytes)
{
    size_t n = bytes / TCP_FRAME_SIZE;
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < n && !err; i++) {
        comm->back = frames[i];
        tcp_moved(comm);
        err = on_back(comm);
    }
    comm->back_at = (uint32_t)(bytes % TCP_FRAME_SIZE);
    memcpy(&comm->back, frames + n, comm->back_at);
    return err;
}

static enum mn_err read_back(struct tcp_comm *comm)
{
    struct tcp_lane *lane = comm->first;

    comm->since_feedback = 0;
    if (!lane || lane->off)
        return MN_OK;
    for (;;) {
        struct tcp_frame frames[BACK];
        size_t room = sizeof frames - comm->back_at;
        memcpy(frames, &comm->back, comm->back_at);
        ssize_t n = recv(lane->fd, (uint8_t *)frames + comm->back_at, room, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return MN_OK;
        if (n < 0)
            return tcp_broken(comm, lane, errno, "waiting for an acknowledgement");
        if (n == 0)
            return tcp_broken(comm, lane, ECONNRESET, "waiting for an acknowledgement");
        enum mn_err err = take_back(comm, frames, comm->back_at + (size_t)n);
        /* What comes behind it, also the end, is found by the next call: this one has moved. */
        if (err || (size_t)n < room)
            return err;
    }
}

/* --- what goes out ---------------------------------------------------------------------------- */

static void fill(struct tcp_lane *lane, struct tcp_send *send, enum tcp_type type, uint32_t offset,
                 uint32_t length)
{
    lane->tx = send;
    lane->tx_data = send->data + offset;
    lane->tx_left = length;
    lane->tx_header_left = TCP_FRAME_SIZE;
    lane->tx_frame = (struct tcp_frame){
        .magic = TCP_MAGIC,
        .type = (uint8_t)type,
        .flags = send->ack_me ? TCP_ACK_ME : 0,
        .seq = send->seq,
        .tag = send->tag,
        .size = send->size,
        .offset = offset,
        .length = length,
    };
    if (lane->log)
        tcp_log(lane, type, send->seq, offset, length);
}

static void take(struct tcp_comm *comm, struct tcp_lane *lane, struct tcp_send *send,
                 enum tcp_type type, uint32_t length)
{
    fill(lane, send, type, send->next, length);
    send->next += length;
    while (comm->seq_take != comm->seq_next) {
        const struct tcp_send *s = send_at(comm, comm->seq_take);
        if (s->next < s->size)
            break;
        comm->seq_take++;
    }
}

/* The size of the next part of a message. */
static uint32_t part(const struct tcp_comm *comm, const struct tcp_send *send)
{
    uint32_t left = send->size - send->next;

    if (comm->n_lanes == 1 || send->size <= TCP_STRIPE_MIN)
        return left;
    uint32_t fair = send->size / (uint32_t)comm->n_lanes;
    fair = fair > comm->chunk ? comm->chunk : fair;
    fair = fair < TCP_STRIPE_MIN ? TCP_STRIPE_MIN : (fair + 4095) & ~4095u;
    /* No crumbs at the end. */
    return left < fair + TCP_STRIPE_MIN / 2 ? left : fair;
}

static void introduce(struct tcp_comm *comm, struct tcp_lane *lane)
{
    struct tcp_send *send = send_at(comm, comm->seq_header++);

    take(comm, lane, send, TCP_FIRST, part(comm, send));
    send->header_taken = 1;
}

/* A relay's header is copied, and leaves in one call with its payload. */
static void put_in_front(struct tcp_comm *comm, struct tcp_lane *lane)
{
    struct tcp_send *send = send_at(comm, comm->seq_header);

    /* The log may have room for one frame only. */
    if (lane->log || comm->seq_header + 1 == comm->seq_next || send->size != MN_HEAD_SIZE ||
        !tcp_is_front(comm, send->tag))
        return;
    introduce(comm, lane);
    memcpy(lane->tx_front, &lane->tx_frame, TCP_FRAME_SIZE);
    memcpy(lane->tx_front + TCP_FRAME_SIZE, send->data, MN_HEAD_SIZE);
    lane->tx_front_left = sizeof lane->tx_front;
    send->header_sent = 1;
    send->sent = send->size;
}

static void take_again(struct tcp_comm *comm, struct tcp_lane *lane)
{
    const struct tcp_part part = tcp_todo_take(comm);

    fill(lane, send_at(comm, part.seq), (enum tcp_type)part.type, part.offset, part.length);
}

/* Gives an idle lane its next part: what is to be sent again comes first; the first lane introduces
 * messages in order; every lane takes parts of large ones. Returns 0 when there is nothing for it.
 */
static int assign(struct tcp_comm *comm, struct tcp_lane *lane)
{
    if (lane->log && !tcp_log_room(comm, lane))
        return 0;
    if (comm->n_todo && tcp_todo(comm)) {
        take_again(comm, lane);
        return 1;
    }
    /* Introduced by other frames, after a socket went, it may have landed. */
    if ((int32_t)(comm->seq_acked - comm->seq_header) > 0)
        comm->seq_header = comm->seq_acked;
    if (lane == comm->first && comm->seq_header != comm->seq_next) {
        put_in_front(comm, lane);
        introduce(comm, lane);
        return 1;
    }
    for (uint32_t seq = comm->seq_take; seq != comm->seq_next; seq++) {
        struct tcp_send *send = send_at(comm, seq);
        if (send->next == send->size || send->size < TCP_STRIPE_MIN)
            continue;
        take(comm, lane, send, TCP_MORE, part(comm, send));
        return 1;
    }
    return 0;
}

/* One system call's worth of the lane's frame. A small frame is cheaper copied together and sent by
 * the plain call than gathered by the kernel. What the next call continues may leave with it. */
static ssize_t put(const struct tcp_comm *comm, struct tcp_lane *lane)
{
    uint8_t *front = lane->tx_front + sizeof lane->tx_front - lane->tx_front_left;
    uint8_t *header = (uint8_t *)&lane->tx_frame + TCP_FRAME_SIZE - lane->tx_header_left;
    uint32_t length = lane->tx_left < TCP_CALL_BYTES ? lane->tx_left : TCP_CALL_BYTES;
    int more = lane == comm->first && comm->seq_header != comm->seq_next ? MSG_MORE : 0;
    int flags = MSG_DONTWAIT | MSG_NOSIGNAL | more;

    if (!lane->tx_header_left)
        return send(lane->fd, lane->tx_data, length, flags);
    if (length <= SMALL) {
        uint8_t frame[sizeof lane->tx_front + TCP_FRAME_SIZE + SMALL], *at = frame;
        memcpy(at, front, lane->tx_front_left);
        at += lane->tx_front_left;
        memcpy(at, header, lane->tx_header_left);
        at += lane->tx_header_left;
        if (length)
            memcpy(at, lane->tx_data, length);
        return send(lane->fd, frame, (size_t)(at - frame) + length, flags);
    }
    struct iovec iov[3] = {{front, lane->tx_front_left},
                           {header, lane->tx_header_left},
                           {(void *)(uintptr_t)lane->tx_data, length}};
    struct msghdr msg = {.msg_iov = iov + !lane->tx_front_left,
                         .msg_iovlen = 3 - (size_t)!lane->tx_front_left};
    return sendmsg(lane->fd, &msg, flags);
}

/* Writes the lane's frame; 1 when it is out, 0 when the socket is full. */
static enum mn_err push(struct tcp_comm *comm, struct tcp_lane *lane, int *out)
{
    *out = 0;
    while (lane->tx_header_left || lane->tx_left) {
        ssize_t n = put(comm, lane);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return MN_OK;
        if (n < 0) {
            int error = errno;
            /* What the receiver said before it closed explains more than EPIPE; the kernel's
             * ETIMEDOUT is told once, and the end is all that is read after it. */
            int closed = error == EPIPE || error == ECONNRESET;
            enum mn_err err = lane == comm->first && closed ? read_back(comm) : MN_OK;
            return err ? err : tcp_broken(comm, lane, error, "sending");
        }
        tcp_moved(comm);
        uint32_t front = (size_t)n < lane->tx_front_left ? (uint32_t)n : lane->tx_front_left;
        lane->tx_front_left -= front;
        n -= front;
        uint32_t header = (size_t)n < lane->tx_header_left ? (uint32_t)n : lane->tx_header_left;
        uint32_t data = (uint32_t)n - header;
        lane->tx_header_left -= header;
        lane->tx_data += data;
        lane->tx_left -= data;
        lane->tx->sent += data;
        if (!lane->tx_header_left && lane->tx_frame.type == TCP_FIRST &&
            lane->tx->seq == lane->tx_frame.seq)
            lane->tx->header_sent = 1;
    }
    lane->tx = NULL;
    *out = 1;
    return MN_OK;
}

/* Serves the lanes in turn until every one is full or there is nothing left. */
static enum mn_err pump(struct tcp_comm *comm)
{
    int busy = comm->n_lanes;

    for (int i = comm->turn; busy; i = (i + 1) % comm->n_lanes) {
        struct tcp_lane *lane = &comm->lanes[i];
        int out = 0;
        if (!lane->off && (lane->tx || assign(comm, lane))) {
            enum mn_err err = push(comm, lane, &out);
            if (err)
                return err;
        }
        busy = out ? comm->n_lanes : busy - 1;
        comm->turn = (i + 1) % comm->n_lanes;
    }
    return MN_OK;
}

enum mn_err tcp_send_arm(struct tcp_comm *comm)
{
    enum mn_err err = pump(comm);

    return err ? err : read_back(comm);
}

void tcp_accept(struct tcp_comm *comm, struct tcp_send *send, int eager)
{
    if (eager && comm->failover && send->size) {
        uint8_t *copy = tcp_copy_room(comm, send);
        if (copy)
            send->data = memcpy(copy, send->data, send->size);
        eager = copy != NULL;
    }
    send->eager = (uint8_t)eager;
    send->ack_me = !eager;
    if (eager)
        comm->eager_bytes += send->size + TCP_FRAME_SIZE;
}

enum mn_err tcp_isend(struct mn_comm *base, void *data, size_t size, int tag, void *mhandle,
                      struct mn_request **request)
{
    (void)mhandle;
    struct tcp_comm *comm = (struct tcp_comm *)base;
    enum mn_err err = (enum mn_err)atomic_load_explicit(&comm->error, memory_order_relaxed);
    struct tcp_send *send = send_at(comm, comm->seq_next);

    *request = NULL;
    if (err)
        return err;
    int full = send->posted || comm->seq_next - comm->seq_acked >= TCP_WINDOW;
    int eager = tcp_is_eager(comm, size);
    if (full || !eager || ++comm->since_feedback >= FEEDBACK_EVERY) {
        err = read_back(comm);
        if (err)
            return err;
        full = send->posted || comm->seq_next - comm->seq_acked >= TCP_WINDOW;
        eager = tcp_is_eager(comm, size);
    }
    if (full)
        return pump(comm);
    *send = (struct tcp_send){
        .base.comm = base,
        .data = data,
        .seq = comm->seq_next,
        .size = (uint32_t)size,
        .tag = tag,
        .posted = 1,
    };
    tcp_accept(comm, send, eager);
    comm->seq_next++;
    err = tcp_is_front(comm, tag) ? MN_OK : pump(comm);
    if (err)
        return err;
    *request = &send->base;
    return MN_OK;
}

enum mn_err tcp_send_test(struct tcp_comm *comm, struct tcp_send *send, int *done, int *sizes)
{
    *done = 0;
    if (!tcp_send_is_done(send)) {
        enum mn_err err = (enum mn_err)atomic_load_explicit(&comm->error, memory_order_relaxed);
        if (!err)
            err = pump(comm);
        if (!err && !tcp_send_is_done(send))
            err = read_back(comm);
        /* What was acknowledged before the connection ended has arrived all the same. */
        if (err && !send->landed)
            return err;
        if (!tcp_send_is_done(send))
            return tcp_idle(comm);
    }
    *done = 1;
    if (sizes)
        *sizes = (int)send->size;
    send->posted = 0;
    return MN_OK;
}
