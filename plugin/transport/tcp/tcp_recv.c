#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "plugin/copy.h"
#include "plugin/transport/tcp/tcp_failover.h"

#define READ_BUDGET       (4u << 20) /* bytes one call may read before it returns to its caller */
#define OTHER_LANES_EVERY 512        /* idle calls between looks at lanes nothing is expected on */

static struct tcp_group *group_at(struct tcp_comm *comm, uint32_t index)
{
    return &comm->groups[index % TCP_GROUPS];
}

/* --- matching --------------------------------------------------------------------------------- */

static enum mn_err too_long(struct tcp_comm *comm, const struct tcp_message *msg,
                            const struct tcp_slot *slot)
{
    const struct tcp_lane *lane = comm->first ? comm->first : comm->lanes;
    struct tcp_frame frame = {.magic = TCP_MAGIC,
                              .type = TCP_ERROR,
                              .seq = msg->seq,
                              .size = msg->size,
                              .offset = MN_ERR_TOO_LONG,
                              .length = slot->capacity};

    if (!comm->back_at && !lane->off)
        (void)send(lane->fd, &frame, sizeof frame, MSG_DONTWAIT | MSG_NOSIGNAL);
    return tcp_fail(comm, lane, MN_ERR_TOO_LONG,
                    "message %u with tag %d has %u bytes, the receive posted for it %u", msg->seq,
                    msg->tag, msg->size, slot->capacity);
}

static void land(struct tcp_comm *comm, struct tcp_message *msg)
{
    if (msg->aside) {
        mn_copy_visible(msg->slot->data, msg->into, msg->size);
        free(msg->into);
        msg->aside = 0;
        comm->aside_bytes -= msg->size;
    }
    msg->landed = 1;
    msg->slot->landed = 1;
    msg->slot->size = msg->size;
    comm->whole += ++msg->group->landed == msg->group->n;
    comm->incomplete--;
    comm->ack_bytes += msg->size + TCP_FRAME_SIZE;
    if (msg->ack_me || comm->ack_bytes >= TCP_ACK_BYTES || ++comm->ack_count >= TCP_ACK_COUNT)
        comm->ack_due = 1;
}

static enum mn_err give(struct tcp_comm *comm, struct tcp_message *msg, struct tcp_group *group,
                        struct tcp_slot *slot)
{
    if (msg->size > slot->capacity)
        return too_long(comm, msg, slot);
    slot->matched = 1;
    group->matched++;
    msg->slot = slot;
    msg->group = group;
    if (!msg->aside)
        msg->into = slot->data;
    if (msg->got == msg->size)
        land(comm, msg);
    return MN_OK;
}

static struct tcp_slot *free_slot(struct tcp_group *group, int32_t tag)
{
    for (int i = 0; i < group->n; i++)
        if (!group->slots[i].matched && group->slots[i].tag == tag)
            return &group->slots[i];
    return NULL;
}

/* Gives known messages to the oldest incomplete group, in sequence order, until it is full; then
 * the next group, from the oldest message left. */
static enum mn_err match(struct tcp_comm *comm)
{
    while (comm->group_head != comm->group_tail) {
        struct tcp_group *group = group_at(comm, comm->group_head);
        for (uint32_t seq = comm->seq_unmatched;
             seq != comm->seq_known && group->matched < group->n; seq++) {
            struct tcp_message *msg = tcp_message_at(comm, seq);
            struct tcp_slot *slot = msg->slot ? NULL : free_slot(group, msg->tag);
            enum mn_err err = slot ? give(comm, msg, group, slot) : MN_OK;
            if (err)
                return err;
        }
        while (comm->seq_unmatched != comm->seq_known &&
               tcp_message_at(comm, comm->seq_unmatched)->slot)
            comm->seq_unmatched++;
        if (group->matched < group->n)
            break;
        comm->group_head++;
    }
    return MN_OK;
}

/* --- frames ----------------------------------------------------------------------------------- */

static enum mn_err bad_frame(struct tcp_comm *comm, struct tcp_lane *lane)
{
    const struct tcp_frame *f = &lane->rx_frame;
    return tcp_fail(comm, lane, MN_ERR_PROTO,
                    "frame out of bounds (type %u, message %u, size %u, offset %u, length %u)",
                    f->type, f->seq, f->size, f->offset, f->length);
}

static void frame_is_read(struct tcp_comm *comm, struct tcp_lane *lane)
{
    if (++lane->frames - lane->told_frames >= TCP_GOT_EVERY && comm->failover)
        comm->got_due = 1;
}

static int is_known(const struct tcp_message *msg, uint32_t seq)
{
    return msg->known && msg->seq == seq;
}

static enum mn_err introduce(struct tcp_comm *comm, const struct tcp_frame *f)
{
    struct tcp_message *msg = tcp_message_at(comm, f->seq);

    *msg = (struct tcp_message){.seq = f->seq,
                                .size = f->size,
                                .tag = f->tag,
                                .known = 1,
                                .first = f->type == TCP_FIRST,
                                .ack_me = f->flags & TCP_ACK_ME};
    comm->incomplete++;
    while (is_known(tcp_message_at(comm, comm->seq_known), comm->seq_known))
        comm->seq_known++;
    /* It stays near what is known: numbers wrap. */
    if (!tcp_is_recovering(comm))
        comm->fence_seq = comm->seq_known;
    return match(comm);
}

/* Another socket's frame has introduced the message, and all of it has landed since. */
static int comes_late(const struct tcp_comm *comm, const struct tcp_frame *f)
{
    return comm->failover && f->type == TCP_FIRST && !f->length &&
           comm->seq_landed - f->seq <= TCP_WINDOW;
}

static enum mn_err pass_over(struct tcp_comm *comm, struct tcp_lane *lane)
{
    lane->rx_parked = 0;
    lane->pos += TCP_FRAME_SIZE;
    frame_is_read(comm, lane);
    return MN_OK;
}

/* Makes the message of the lane's frame known, or leaves the frame parked: FIRST frames introduce,
 * in sequence order; when the socket that carried them went, all do, in any order. */
static enum mn_err announce(struct tcp_comm *comm, struct tcp_lane *lane)
{
    const struct tcp_frame *f = &lane->rx_frame;
    struct tcp_message *msg = tcp_message_at(comm, f->seq);
    enum mn_err err = MN_OK;

    if (f->seq - comm->seq_landed >= TCP_WINDOW)
        return comes_late(comm, f) ? pass_over(comm, lane) : bad_frame(comm, lane);
    if (is_known(msg, f->seq)) {
        if (f->type == TCP_FIRST && (msg->first || msg->size != f->size || msg->tag != f->tag))
            return bad_frame(comm, lane);
        msg->first |= f->type == TCP_FIRST;
    } else if (msg->known || f->seq - comm->seq_known >= TCP_WINDOW) {
        return bad_frame(comm, lane);
    } else if ((f->type == TCP_FIRST && f->seq == comm->seq_known) || tcp_is_recovering(comm)) {
        err = introduce(comm, f);
    } else if (f->type == TCP_FIRST && !comm->failover) {
        return bad_frame(comm, lane);
    } else {
        return MN_OK;
    }
    lane->rx_parked = 2;
    lane->pos += TCP_FRAME_SIZE;
    return err;
}

/* A posted receive waits for what a socket that went had carried: it may come by this one, behind
 * messages that nobody wants yet. With a socket that is broken it may be the last message of all,
 * and the peer's end is seen only behind what is in front. */
static int waits_for_again(struct tcp_comm *comm)
{
    int broken = comm->failover && comm->failover->n_broken;
    uint32_t end = broken ? comm->seq_known : comm->again_seq;

    if ((int32_t)(end - comm->seq_landed) <= 0)
        return 0;
    for (uint32_t seq = comm->seq_landed; seq != comm->seq_known && seq != end; seq++) {
        const struct tcp_message *msg = tcp_message_at(comm, seq);
        if (msg->slot && !msg->landed)
            return 1;
    }
    return 0;
}

/* A place for the data of the lane's frame, or leaves it parked. With receives posted, a message
 * that none of them wants yet is read aside, since one they do want may be behind it. */
static enum mn_err place(struct tcp_comm *comm, struct tcp_lane *lane)
{
    const struct tcp_frame *f = &lane->rx_frame;
    struct tcp_message *msg = tcp_message_at(comm, f->seq);

    if (lane->rx_parked == 1) {
        enum mn_err err = announce(comm, lane);
        if (err || lane->rx_parked != 2)
            return err;
    }
    if (msg->size != f->size || f->length > msg->size - msg->claimed)
        return bad_frame(comm, lane);
    if (!f->length) { /* the data is on other lanes, or there is none */
        lane->rx_parked = 0;
        frame_is_read(comm, lane);
        return MN_OK;
    }
    if (!msg->into) {
        int all_matched = comm->group_head == comm->group_tail;
        int no_room = comm->aside_bytes + msg->size > TCP_ASIDE_MAX;
        if (all_matched && (no_room || !waits_for_again(comm)))
            return MN_OK; /* its receive may be posted yet */
        if (no_room)
            return tcp_fail(comm, lane, MN_ERR_PROTO,
                            "over %u MiB of messages with tags that no posted receive wants (last: "
                            "tag %d)",
                            TCP_ASIDE_MAX >> 20, msg->tag);
        msg->into = malloc(msg->size);
        if (!msg->into)
            return tcp_fail(comm, lane, MN_ERR_NOMEM, "no memory for a message of %u bytes",
                            msg->size);
        msg->aside = 1;
        comm->aside_bytes += msg->size;
    }
    msg->claimed += f->length;
    lane->rx = msg;
    lane->rx_at = f->offset;
    lane->rx_left = f->length;
    lane->rx_parked = 0;
    return MN_OK;
}

static enum mn_err on_header(struct tcp_comm *comm, struct tcp_lane *lane)
{
    const struct tcp_frame *f = &lane->rx_frame;

    if (f->magic != TCP_MAGIC || f->zero || f->offset > f->size ||
        f->length > f->size - f->offset ||
        (f->type != TCP_FIRST && (f->type != TCP_MORE || !f->length)))
        return bad_frame(comm, lane);
    lane->rx_parked = 1;
    return place(comm, lane);
}

static void arrived(struct tcp_comm *comm, struct tcp_lane *lane, uint32_t bytes)
{
    struct tcp_message *msg = lane->rx;

    lane->rx_at += bytes;
    lane->rx_left -= bytes;
    lane->pos += bytes;
    msg->got += bytes;
    if (msg->got == msg->size && msg->slot && !msg->landed)
        land(comm, msg);
    if (lane->rx_left)
        return;
    lane->rx = NULL;
    frame_is_read(comm, lane);
}

/* Uses up what was read together with a header. */
static enum mn_err unstage(struct tcp_comm *comm, struct tcp_lane *lane)
{
    enum mn_err err = MN_OK;

    while (!err && !lane->rx_parked) {
        uint32_t have = lane->stage_len - lane->stage_at;
        if (lane->rx) {
            uint32_t n = have < lane->rx_left ? have : lane->rx_left;
            if (!n) {
                lane->stage_at = lane->stage_len = 0;
                return MN_OK;
            }
            mn_copy_visible(lane->rx->into + lane->rx_at, lane->stage + lane->stage_at, n);
            lane->stage_at += n;
            arrived(comm, lane, n);
            continue;
        }
        if (have < TCP_FRAME_SIZE) {
            memmove(lane->stage, lane->stage + lane->stage_at, have);
            lane->stage_at = 0;
            lane->stage_len = have;
            return MN_OK;
        }
        memcpy(&lane->rx_frame, lane->stage + lane->stage_at, TCP_FRAME_SIZE);
        lane->stage_at += TCP_FRAME_SIZE;
        err = on_header(comm, lane);
    }
    return err;
}

/* One read: the rest of the data, and behind it the next header; small messages come along with
 * their headers. *n is 0 when the socket was empty. */
static enum mn_err read_some(struct tcp_comm *comm, struct tcp_lane *lane, uint32_t *n)
{
    uint32_t direct = lane->rx ? lane->rx_left : 0;
    uint32_t staged =
        lane->stage_len; /* only a partial header is ever left here, then rx is NULL */
    /* Nobody looks at what is read aside, or is larger than what GPUs poll. The kernel copies with
     * string instructions, whose stores may become visible in any order. */
    int straight = direct && (lane->rx->aside || lane->rx->size > comm->polled_max);
    uint32_t most = straight ? TCP_CALL_BYTES : TCP_ORDER;
    int whole = direct <= most;
    ssize_t got;

    *n = 0;
    comm->more = 0;
    direct = whole ? direct : most;
    if (!direct) {
        got = recv(lane->fd, lane->stage + staged, TCP_STAGE - staged, MSG_DONTWAIT);
    } else {
        struct iovec iov[2] = {
            {straight ? lane->rx->into + lane->rx_at : comm->order, direct},
            {lane->stage + staged, direct > TCP_EAGER_MAX ? comm->ahead : TCP_STAGE - staged},
        };
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 1 + (size_t)whole};
        got = recvmsg(lane->fd, &msg, MSG_DONTWAIT);
    }
    if (got < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR
                   ? MN_OK
                   : tcp_broken(comm, lane, errno, "receiving");
    if (got == 0 && comm->failover)
        return tcp_broken(comm, lane, ECONNRESET, "receiving");
    if (got == 0) {
        lane->ended = 1;
        return MN_OK;
    }
    *n = (uint32_t)got;
    uint32_t data = *n < direct ? *n : direct;
    comm->more = direct && *n == direct + (whole ? comm->ahead : 0);
    lane->stage_len += *n - data;
    if (data && !straight)
        mn_copy_visible(lane->rx->into + lane->rx_at, comm->order, data);
    if (data)
        arrived(comm, lane, data);
    return unstage(comm, lane);
}

enum mn_err tcp_recv_drain(struct tcp_comm *comm, struct tcp_lane *lane, uint32_t *moved)
{
    enum mn_err err = MN_OK;
    uint32_t whole = comm->whole;

    if (lane->rx_parked) {
        err = place(comm, lane);
        if (!err)
            err = unstage(comm, lane);
    }
    for (uint32_t budget = 0;
         !err && !lane->rx_parked && !lane->ended && !lane->off && budget < READ_BUDGET;) {
        uint32_t n;
        uint32_t before = comm->ack_count;
        err = read_some(comm, lane, &n);
        *moved += n;
        budget += n;
        /* After a small message its receiver is waiting: do not pay for an empty read first. */
        if (!n || (comm->ack_count != before && n <= TCP_STAGE && !lane->rx))
            break;
        /* A relay passes on what has come, rather than have all of its buffers filled first. */
        if (comm->config->hop && comm->whole != whole)
            break;
    }
    return err;
}

/* What is large and passed on is acknowledged together while there is more to read, and somebody
 * who will: what he has posted is not all there yet. */
static int holds_acks(struct tcp_comm *comm)
{
    return comm->config->hop && comm->more && !comm->lanes[0].rx_parked &&
           comm->whole != comm->group_tail && comm->whole - comm->whole_acked < TCP_ACK_WHOLE;
}

static void acknowledge(struct tcp_comm *comm)
{
    if ((comm->ack_due && !holds_acks(comm)) || comm->got_due)
        tcp_recv_flush_acks(comm);
}

/* Reads the first lane, and the others when something is expected on them. */
static enum mn_err read_all(struct tcp_comm *comm, int others)
{
    uint32_t moved = 0;
    struct tcp_lane *first = comm->first;
    enum mn_err err = first && !first->off ? tcp_recv_drain(comm, first, &moved) : MN_OK;

    others |= comm->incomplete > 0 || !first || tcp_is_recovering(comm);
    for (int i = 0; i < comm->n_lanes && !err && others; i++)
        if (&comm->lanes[i] != first && !comm->lanes[i].off)
            err = tcp_recv_drain(comm, &comm->lanes[i], &moved);
    acknowledge(comm);
    if (moved)
        tcp_moved(comm);
    /* Who always has something to read hears what is said about links all the same. */
    if (!err && moved && comm->failover && ++comm->failover->calls % TCP_CONTROL_CALLS == 0) {
        err = tcp_control(comm);
        err = err ? err : tcp_look(comm);
    }
    if (err || moved)
        return err;
    for (int i = 0; i < comm->n_lanes; i++)
        if (comm->lanes[i].ended)
            return tcp_fail_errno(comm, &comm->lanes[i], ECONNRESET, "receiving");
    return tcp_idle(comm);
}

static enum mn_err progress(struct tcp_comm *comm)
{
    return read_all(comm, comm->idle % OTHER_LANES_EVERY == OTHER_LANES_EVERY - 1);
}

enum mn_err tcp_recv_arm(struct tcp_comm *comm)
{
    return read_all(comm, 1);
}

/* --- the two calls ---------------------------------------------------------------------------- */

enum mn_err tcp_irecv(struct mn_comm *base, int n, void **data, const size_t *sizes,
                      const int *tags, void **mhandles, struct mn_request **request)
{
    (void)mhandles;
    struct tcp_comm *comm = (struct tcp_comm *)base;
    struct tcp_group *group = group_at(comm, comm->group_tail);
    enum mn_err err = (enum mn_err)atomic_load_explicit(&comm->error, memory_order_relaxed);

    *request = NULL;
    if (err || group->posted)
        return err;
    group->base.comm = base;
    group->n = (uint8_t)n;
    group->matched = group->landed = 0;
    group->posted = 1;
    for (int i = 0; i < n; i++)
        group->slots[i] = (struct tcp_slot){
            .data = data[i],
            .capacity = sizes[i] > UINT32_MAX ? UINT32_MAX : (uint32_t)sizes[i],
            .tag = tags[i],
        };
    comm->group_tail++;
    if (comm->seq_unmatched != comm->seq_known)
        err = match(comm);
    if (err)
        return err;
    /* All of it was here: its test reads nothing, and may be the last call. */
    acknowledge(comm);
    *request = &group->base;
    return MN_OK;
}

enum mn_err tcp_recv_test(struct tcp_comm *comm, struct tcp_group *group, int *done, int *sizes)
{
    *done = 0;
    if (group->landed < group->n) {
        enum mn_err err = (enum mn_err)atomic_load_explicit(&comm->error, memory_order_relaxed);
        if (!err)
            err = progress(comm);
        if (err && group->landed < group->n)
            return err;
        if (group->landed < group->n)
            return MN_OK;
    }
    *done = 1;
    for (int i = 0; sizes && i < group->n; i++)
        sizes[i] = (int)group->slots[i].size;
    group->posted = 0;
    return MN_OK;
}
