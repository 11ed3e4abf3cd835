/* The control sockets: a frame at a time, either way. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "plugin/transport/tcp/tcp_failover.h"

#define FRAMES_AT_ONCE 64

void tcp_say(struct tcp_comm *comm, struct tcp_lane *lane, unsigned what)
{
    comm->failover->n_due += !lane->say;
    lane->say |= (uint8_t)what;
}

void tcp_unsay(struct tcp_comm *comm, struct tcp_lane *lane, unsigned what)
{
    int was = lane->say != 0;

    lane->say &= (uint8_t)~what;
    comm->failover->n_due -= was && !lane->say;
}

void tcp_choose_control(struct tcp_comm *comm)
{
    struct tcp_failover *f = comm->failover;

    f->control = NULL;
    for (int i = comm->n_lanes; i < comm->n_all; i++) {
        struct tcp_lane *control = &comm->lanes[i];
        if (control->off || (f->control && !f->links[control->way].well))
            continue;
        f->control = control;
        if (f->links[control->way].well)
            break;
    }
    for (int i = 0; i < comm->n_lanes; i++) {
        struct tcp_lane *lane = &comm->lanes[i];
        if (comm->base.is_send && lane->state == TCP_FENCED)
            tcp_say(comm, lane, TCP_SAY_SYNC);
        else if (!comm->base.is_send && lane->asked)
            tcp_say(comm, lane, TCP_SAY_REQUEST);
        /* The last answer: the sender may have spoken on another meanwhile, and have none. */
        if (!comm->base.is_send && lane->turn)
            tcp_say(comm, lane, TCP_SAY_ANSWER);
        if (comm->base.is_send && lane->state == TCP_UP && lane->turn)
            tcp_say(comm, lane, TCP_SAY_JOIN);
    }
}

/* --- out -------------------------------------------------------------------------------------- */

static unsigned next_of(const struct tcp_lane *lane)
{
    return lane->say & -(unsigned)lane->say;
}

static void write_frame(const struct tcp_comm *comm, const struct tcp_lane *lane, unsigned what,
                        struct tcp_frame *frame)
{
    *frame = (struct tcp_frame){
        .magic = TCP_MAGIC,
        .seq = (uint32_t)(lane - comm->lanes),
        .size = lane->turn,
        .tag = comm->first ? (int32_t)(comm->first - comm->lanes) : -1,
        .length = comm->failover->first_turn,
    };
    switch (what) {
    case TCP_SAY_SYNC:
        frame->type = TCP_SYNC;
        frame->offset = comm->seq_next;
        frame->spare = (uint32_t)lane->attempt;
        break;
    case TCP_SAY_REQUEST:
        frame->type = TCP_REQUEST;
        frame->offset = tcp_has_carrier(comm, lane) ? 0 : TCP_NO_CARRIER;
        break;
    case TCP_SAY_ANSWER:
        frame->type = TCP_ANSWER;
        frame->size = lane->turn - 1;
        frame->offset = (uint32_t)lane->answer;
        frame->length = (uint32_t)(lane->answer >> 32);
        break;
    default:
        frame->type = TCP_JOIN;
    }
}

/* Whether the frame under way is out. */
static enum mn_err put(struct tcp_comm *comm, struct tcp_lane *control, int *out)
{
    *out = 0;
    while (control->tx_header_left) {
        ssize_t n = send(control->fd,
                         (uint8_t *)&control->tx_frame + TCP_FRAME_SIZE - control->tx_header_left,
                         control->tx_header_left, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return MN_OK;
        if (n < 0)
            return tcp_broken(comm, control, errno, "sending");
        control->tx_header_left -= (uint32_t)n;
    }
    *out = 1;
    return MN_OK;
}

static enum mn_err say_due(struct tcp_comm *comm)
{
    struct tcp_failover *f = comm->failover;
    int out = 1;

    for (int i = 0; i < comm->n_lanes && f->n_due && f->control && !f->control->off && out; i++) {
        struct tcp_lane *lane = &comm->lanes[i];
        while (lane->say && out && !f->control->off) {
            enum mn_err err = put(comm, f->control, &out);
            if (err || !out)
                return err;
            unsigned what = next_of(lane);
            write_frame(comm, lane, what, &f->control->tx_frame);
            f->control->tx_header_left = TCP_FRAME_SIZE;
            tcp_unsay(comm, lane, what);
            err = put(comm, f->control, &out);
            if (err)
                return err;
        }
    }
    return MN_OK;
}

void tcp_say_landed(struct tcp_comm *comm)
{
    struct tcp_frame frame;
    int out;

    tcp_write_ack(comm, &frame);
    for (int i = comm->n_lanes; i < comm->n_all; i++) {
        struct tcp_lane *control = &comm->lanes[i];
        if (control->off || put(comm, control, &out) || !out || control->off)
            continue;
        control->tx_frame = frame;
        control->tx_header_left = TCP_FRAME_SIZE;
        (void)put(comm, control, &out);
    }
}

/* --- in --------------------------------------------------------------------------------------- */

static enum mn_err bad(struct tcp_comm *comm, struct tcp_lane *control, const struct tcp_frame *f)
{
    return tcp_fail(comm, control, MN_ERR_PROTO,
                    "control frame out of bounds (type %u, socket %u, turn %u, %u, %u)", f->type,
                    f->seq, f->size, f->offset, f->length);
}

static enum mn_err on_answer(struct tcp_comm *comm, struct tcp_lane *control, struct tcp_lane *lane,
                             const struct tcp_frame *frame)
{
    struct tcp_failover *f = comm->failover;

    if (lane->state != TCP_FENCED || frame->size != lane->turn)
        return frame->size <= lane->turn ? MN_OK : bad(comm, control, frame);
    if (!tcp_log_again(comm, lane, frame->offset | (uint64_t)frame->length << 32))
        return bad(comm, control, frame);
    tcp_unsay(comm, lane, TCP_SAY_SYNC); /* it would be of the next turn */
    lane->state = TCP_DOWN;
    lane->turn++;
    lane->dialled = 0;
    f->n_waiting--;
    tcp_moved(comm);
    tcp_tell_gone(comm, &f->links[lane->way], mn_now_ms());
    return MN_OK;
}

static enum mn_err to_sender(struct tcp_comm *comm, struct tcp_lane *control, struct tcp_lane *lane,
                             const struct tcp_frame *frame)
{
    if (frame->type == TCP_ANSWER)
        return on_answer(comm, control, lane, frame);
    if (frame->type != TCP_REQUEST)
        return bad(comm, control, frame);
    if (lane->state == TCP_UP && frame->size == lane->turn)
        tcp_give_up(comm, lane, mn_now_ms(),
                    frame->offset == TCP_NO_CARRIER || !tcp_has_carrier(comm, lane)
                        ? "its carrier is lost"
                        : "the receiver hears nothing of it");
    return MN_OK;
}

static enum mn_err to_receiver(struct tcp_comm *comm, struct tcp_lane *control,
                               struct tcp_lane *lane, const struct tcp_frame *frame)
{
    enum mn_err err = MN_OK;

    if (frame->type == TCP_JOIN) {
        err = tcp_take_back(comm, lane);
    } else if (frame->type != TCP_SYNC || frame->size > lane->turn ||
               (int32_t)(frame->offset - comm->seq_landed) > 2 * TCP_WINDOW) {
        return bad(comm, control, frame);
    } else if (frame->size == lane->turn) {
        err = tcp_fence(comm, lane, frame);
    } else if (frame->size + 1 == lane->turn) {
        tcp_say(comm, lane, TCP_SAY_ANSWER);
    }
    /* What was said before the last that was heard may come after it, on another socket. */
    if (!err && (int32_t)(frame->length - comm->failover->first_turn) > 0) {
        comm->failover->first_turn = frame->length;
        tcp_set_first(comm, frame->tag);
    }
    return err;
}

static enum mn_err on_frame(struct tcp_comm *comm, struct tcp_lane *control)
{
    struct tcp_failover *f = comm->failover;
    struct tcp_frame frame;

    memcpy(&frame, control->stage, sizeof frame);
    control->stage_len = 0;
    if (comm->base.is_send && frame.type == TCP_ACK && frame.magic == TCP_MAGIC && !frame.zero) {
        f->is_last = 1;
        tcp_moved(comm);
        return tcp_on_ack(comm, control, &frame);
    }
    if (frame.magic != TCP_MAGIC || frame.zero || frame.flags ||
        frame.seq >= (uint32_t)comm->n_lanes || frame.tag < -1 || frame.tag >= comm->n_lanes)
        return bad(comm, control, &frame);
    struct tcp_lane *lane = &comm->lanes[frame.seq];
    if (comm->base.is_send)
        return to_sender(comm, control, lane, &frame);
    f->control = control; /* the sender can hear there */
    return to_receiver(comm, control, lane, &frame);
}

static enum mn_err hear(struct tcp_comm *comm, struct tcp_lane *control)
{
    for (int i = 0; i < FRAMES_AT_ONCE && !control->off;) {
        ssize_t n = recv(control->fd, control->stage + control->stage_len,
                         TCP_FRAME_SIZE - control->stage_len, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return MN_OK;
        if (n <= 0)
            return tcp_broken(comm, control, n ? errno : ECONNRESET, "waiting for word");
        control->stage_len += (uint32_t)n;
        if (control->stage_len < TCP_FRAME_SIZE)
            continue;
        enum mn_err err = on_frame(comm, control);
        if (err)
            return err;
        i++;
    }
    return MN_OK;
}

enum mn_err tcp_control(struct tcp_comm *comm)
{
    struct tcp_failover *f = comm->failover;
    enum mn_err err = MN_OK;

    for (int i = comm->n_lanes; i < comm->n_all && !err; i++) {
        struct tcp_lane *control = &comm->lanes[i];
        int out;
        err = control->off ? MN_OK : hear(comm, control);
        /* Half a frame is finished though the next is said on another. */
        if (!err && !control->off && control->tx_header_left)
            err = put(comm, control, &out);
    }
    err = !err && f->n_due ? say_due(comm) : err;
    /* What a fence has read may be all that its receiver waited for. */
    if (!err && !comm->base.is_send)
        tcp_recv_flush_acks(comm);
    return err;
}
