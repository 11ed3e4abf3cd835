/* The TCP transport: how messages travel over a connection's lanes.
 *
 * Lane 0 carries, in isend order, one FIRST frame a message: sequence number, tag, size and as much
 * of the data as lane 0 takes; further lanes (and lane 0 again) carry MORE frames with other parts
 * of large messages. Header and data leave in one system call. A lane takes the next part when its
 * socket has room, so faster cables carry more.
 *
 * The receiver matches messages to posted receives in sequence order, by tag inside the oldest
 * incomplete group (NCCL's rule for grouped receives). Data goes into the posted buffer as it
 * comes, each byte once, ascending inside a part. What a GPU may poll meanwhile (TCP_POLLED_MAX) is
 * copied by ourselves from a small buffer that stays in the cache, since the kernel's copy keeps no
 * order where the processor's string copies have none; unless nobody polls (mn_config.unpolled).
 * With nothing posted it is left in the kernel, which stops the sender; a message for a later
 * group, which stands in the way of one for the present group, is read aside.
 *
 * A send is done when the receiver has acknowledged the whole message, except a small one
 * (EAGER_MAX) while few such bytes are unacknowledged: those are done when the kernel has them.
 * That window is smaller than any receive buffer, so they reach the peer's host without anybody
 * calling anything. Acknowledgements and errors come back on lane 0.
 *
 * TCP_USER_TIMEOUT also kills a connection whose peer lives but does not read. The sender therefore
 * looks at what blocks it and suspends the timeout while the peer's kernel answers: slow is not
 * dead.
 *
 * With failover (tcp_failover.h) a socket that is broken, or whose link is out, is given up, and
 * what it had not delivered goes by the others. */
#ifndef MN_TCP_H
#define MN_TCP_H

#include <stdatomic.h>

#include "plugin/outage.h"
#include "plugin/relay/frame.h"
#include "plugin/reopen.h"
#include "plugin/transport.h"

#define TCP_FRAME_SIZE  32
#define TCP_WINDOW      128 /* messages unacknowledged or unmatched; a power of two */
#define TCP_GROUPS      64  /* posted receives; a power of two */
#define TCP_RECVS       8   /* MN_MAX_RECVS */
#define TCP_EAGER_MAX   (16u << 10)
#define TCP_EAGER_BYTES (32u << 10) /* unacknowledged small messages, headers included */
#define TCP_ACK_BYTES   (8u << 10)  /* the receiver acknowledges small messages this seldom */
#define TCP_ACK_COUNT   16
#define TCP_ACK_WHOLE   4           /* … and what a relay passes on, while more is there */
#define TCP_STRIPE_MIN  (64u << 10) /* smaller messages, and parts, are not divided */
#define TCP_STAGE       4096        /* bytes read together with a header */
#define TCP_CALL_BYTES  (1u << 20)  /* at most this much in one system call */
#define TCP_ORDER       (64u << 10) /* at a time of what is copied on in order */
/* The largest message that a GPU may read while it comes: a step of the buffer of LL128, 120 words
 * of 640 threads (NCCL device.h); NCCL_LL128_BUFFSIZE and NCCL_LL_BUFFSIZE are of eight steps. */
#define TCP_POLLED_MAX (120u * 640 * 8)
#define TCP_STEPS      8
#define TCP_ASIDE_MAX  (256u << 20) /* bytes of messages read aside */
#define TCP_LOG        128          /* frames of a socket that may have to be sent again */
#define TCP_GOT_EVERY  (TCP_LOG / 4)
#define TCP_COPIES     (2 * TCP_EAGER_BYTES) /* of small messages done before they have landed */

enum tcp_type {
    TCP_FIRST = 1,
    TCP_MORE,
    /* back, on the socket that FIRST frames go by */
    TCP_ACK,
    TCP_ERROR,
    TCP_GOT,
    /* on control sockets, see tcp_failover.h */
    TCP_SYNC,
    TCP_REQUEST,
    TCP_ANSWER,
    TCP_JOIN
};
enum { TCP_ACK_ME = 1 };

/* On the wire in host order: every platform of NCCL and RCCL is little-endian. ACK: every message
 * before seq has landed, and those after it whose bit is set in the 128 bits of tag..length. ERROR:
 * seq, size, and in offset the error code. GOT: of lane seq's socket number size (turn), offset
 * frames have been read to their end. */
struct tcp_frame {
    uint32_t magic;
    uint8_t type, flags;
    uint16_t zero;
    uint32_t seq;
    int32_t tag;
    uint32_t size, offset, length;
    uint32_t spare;
};
_Static_assert(sizeof(struct tcp_frame) == TCP_FRAME_SIZE, "frame layout is the protocol");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are little-endian");
#define TCP_MAGIC 0x3154534du /* "MST1" */

struct tcp_send {
    struct mn_request base;
    const uint8_t *data;
    uint32_t seq, size, next, sent; /* next: first byte no lane has taken; sent: in the kernel */
    int32_t tag;
    uint32_t copy_end; /* of comm->copies, where data is its copy */
    uint8_t posted, header_taken, header_sent, ack_me, eager, landed, copied;
};

/* A frame as it was given to a socket. */
struct tcp_part {
    uint32_t seq, offset, length;
    uint32_t type;
};

struct tcp_slot {
    uint8_t *data;
    uint32_t capacity, size;
    int32_t tag;
    uint8_t matched, landed;
};

struct tcp_group {
    struct mn_request base;
    struct tcp_slot slots[TCP_RECVS];
    uint8_t n, matched, landed, posted;
};

/* A message the receiver knows of. into: where its bytes go; the slot's buffer or read aside. */
struct tcp_message {
    uint8_t *into;
    struct tcp_slot *slot;
    struct tcp_group *group;
    uint32_t seq, size, claimed, got; /* claimed by frames, arrived */
    int32_t tag;
    uint8_t known, first, aside, landed, ack_me; /* first: its FIRST frame was read */
};

enum tcp_state { TCP_UP, TCP_FENCED, TCP_DOWN };

struct tcp_lane {
    int fd;
    char link[IF_NAMESIZE];
    char from[MN_ADDR_TEXT], to[MN_ADDR_TEXT];
    uint8_t ended; /* the peer closed its side */
    uint8_t off;   /* not to be used: not TCP_UP, or broken */
    uint8_t state; /* enum tcp_state; FENCED: given up, the receiver has not answered yet */
    uint8_t way;   /* of the links of failover */
    uint8_t say;   /* bits of what control frames are due about it */
    uint8_t asked, dialled;
    uint16_t broken;    /* errno value; the socket is of no use any more */
    const char *doing;  /* what was tried then */
    uint64_t broken_ms; /* since when */
    uint32_t turn;      /* sockets that were here before */
    uint64_t attempt;   /* of the reopening that has made this one; 0 = the handshake */
    struct mn_reopen *reopen;
    uint64_t acked_bytes, acked_ms; /* when the peer's host took something the last time */
    uint8_t slow; /* user timeout suspended: the peer is slow, its kernel answers */
    struct mn_outage outage;
    uint32_t tx_left; /* data bytes of the frame under way */
    uint32_t tx_header_left;
    uint32_t tx_front_left; /* of a whole frame that goes before it */
    uint8_t tx_front[TCP_FRAME_SIZE + MN_HEAD_SIZE];
    struct tcp_send *tx;
    const uint8_t *tx_data;
    struct tcp_frame tx_frame;
    struct tcp_part *log; /* TCP_LOG; NULL without failover. In it are log_head to log_tail … */
    uint32_t log_head, log_tail;
    uint64_t log_base; /* … the first of which began after so many bytes of the socket */
    uint32_t unsent;   /* of the last, when the socket was given up */
    /* receiving side */
    uint32_t rx_left; /* data bytes of the frame under way not yet read */
    uint32_t rx_at;   /* where in the message they go */
    struct tcp_message *rx;
    uint8_t rx_parked; /* rx_frame is whole, but its message has no place yet; 2: it is known */
    uint32_t frames, told_frames; /* read to their end; the sender knows of */
    uint64_t pos;                 /* bytes of the socket that have come to their place */
    uint64_t answer;              /* … of the one before */
    struct tcp_frame rx_frame;
    uint32_t stage_at, stage_len;
    uint8_t stage[TCP_STAGE];
};

/* What became of a link, for who asks. stall_ms: until what it had carried was asked for again. */
struct tcp_link_sum {
    unsigned gone, back;
    uint64_t stall_ms, again;
};

struct tcp_link {
    char name[IF_NAMESIZE]; /* "" = routed */
    int lane;               /* one of its own, whose ends name it */
    uint8_t well;           /* at the last look: it answers, and has a carrier */
    uint8_t gone;           /* sockets of it are given up and not yet back */
    uint8_t told;           /* … which was said */
    uint8_t slow_told;      /* that it carries much less than its share */
    unsigned slow_looks;    /* in a row */
    unsigned hold_ms;       /* before it is used again */
    uint64_t gone_ms, stall_ms, back_ms, bad_ms; /* since when; bad_ms: last seen without carrier */
    uint64_t up_ms, fell_ms; /* when a socket of it came, and when one went, the last time */
    uint64_t again;          /* bytes that other sockets have carried instead */
    uint64_t weight;         /* Mb/s */
    char cause[96];
    struct tcp_link_sum sum;
};

struct tcp_comm {
    struct mn_comm base;
    const struct mn_config *config;
    char peer[128];
    /* enum mn_err; set once, explained when set. Read relaxed: nothing else is read by it. */
    atomic_int error;
    int n_lanes, n_all;     /* for data; with the control sockets that follow */
    struct tcp_lane *first; /* carries FIRST and ACK; NULL = none can at present */
    int turn;               /* lane that is served first */
    unsigned silence_ms;
    uint32_t idle; /* calls in a row that moved nothing */
    uint64_t stuck_ms, health_ms, told_ms;
    int silent; /* lanes with an outage */
    uint32_t chunk;
    struct tcp_failover *failover; /* NULL = off */
    struct mn_attended attended;   /* with failover: by tcp_attend.c */
    /* sending */
    struct tcp_push *push;  /* NULL: the owner's thread sends */
    struct tcp_send *sends; /* TCP_WINDOW, by seq */
    uint32_t seq_next, seq_acked, seq_header, seq_take;
    uint32_t eager_bytes, since_feedback;
    struct tcp_part *todo; /* parts to be sent again: n_todo from todo_head on, of todo_size */
    uint32_t todo_head, n_todo, todo_size;
    uint8_t *copies; /* a ring, of which copy_tail to copy_head are in use */
    uint32_t copy_head, copy_tail;
    /* receiving */
    struct tcp_group *groups;        /* TCP_GROUPS */
    struct tcp_message *messages;    /* TCP_WINDOW, by seq */
    uint8_t *order;                  /* TCP_ORDER bytes, empty between calls */
    uint32_t polled_max;             /* larger messages come straight into their buffer */
    uint32_t group_head, group_tail; /* oldest not fully matched; next to post */
    uint32_t seq_known, seq_unmatched, seq_landed; /* next FIRST; all before are matched; landed */
    uint32_t ack_bytes, ack_count, incomplete;
    uint32_t ahead; /* bytes read behind large data: the next header, and what is small before it */
    int more;       /* the socket gave all that it was asked for: it has more */
    uint32_t whole, whole_acked; /* groups of which all has landed; wraps */
    uint64_t aside_bytes;
    int ack_due, got_due;
    uint32_t fence_seq; /* messages before may be introduced in any order: a socket went */
    uint32_t again_seq; /* … and some of them may come behind later ones */
    /* reverse frames: acknowledgements out, or in */
    struct tcp_frame back;
    uint32_t back_at;        /* bytes of back read or still to write */
    struct tcp_lane lanes[]; /* n_all */
};

/* Fails the comm: explains with peer and link at WARN, once, and returns the code to stay. */
enum mn_err tcp_fail(struct tcp_comm *comm, const struct tcp_lane *lane, enum mn_err code,
                     const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The same from a socket error. */
enum mn_err tcp_fail_errno(struct tcp_comm *comm, const struct tcp_lane *lane, int error,
                           const char *doing);
/* Options of a lane's socket. */
void tcp_tune(const struct tcp_comm *comm, const struct tcp_lane *lane);
enum mn_err tcp_open(struct mn_conn *conn, struct mn_comm **out, struct mn_diag *diag);
void tcp_close(struct mn_comm *base);
/* Called when a call moved nothing, before it returns: rare look at the clock and at the sockets.
 */
enum mn_err tcp_idle(struct tcp_comm *comm);
/* The same look now, for who is going to sleep. */
enum mn_err tcp_look(struct tcp_comm *comm);
/* Looks which of the silent lanes are heard again. */
void tcp_heard(struct tcp_comm *comm);
/* Progress was made. */
static inline void tcp_moved(struct tcp_comm *comm)
{
    comm->idle = 0;
    if (comm->silent)
        tcp_heard(comm);
}
/* What the kernel says of a socket that is up; 0: nothing. */
struct tcp_info;
int tcp_read_info(const struct tcp_lane *lane, struct tcp_info *info);
/* "send to peer P, link L (a to b)", in who, of TCP_WHO bytes. */
const char *tcp_name(const struct tcp_comm *comm, const struct tcp_lane *lane, char *who);
#define TCP_WHO 384

static inline struct tcp_message *tcp_message_at(struct tcp_comm *comm, uint32_t seq)
{
    return &comm->messages[seq % TCP_WINDOW];
}

/* Done when the kernel has it: a small message, while few such bytes are unacknowledged. */
static inline int tcp_is_eager(const struct tcp_comm *comm, size_t size)
{
    return size <= TCP_EAGER_MAX && comm->eager_bytes + size + TCP_FRAME_SIZE <= TCP_EAGER_BYTES;
}

/* Of a relay's hop: a header, which its payload follows at once. */
static inline int tcp_is_front(const struct tcp_comm *comm, int tag)
{
    return comm->config->hop && tag == MN_TAG_HEAD;
}

static inline int tcp_send_is_done(const struct tcp_send *send)
{
    return send->landed || (send->eager && send->header_sent && send->sent >= send->size);
}

enum mn_err tcp_isend(struct mn_comm *base, void *data, size_t size, int tag, void *mhandle,
                      struct mn_request **request);
enum mn_err tcp_send_arm(struct tcp_comm *comm);
/* Of an acknowledgement, heard on lane. */
enum mn_err tcp_on_ack(struct tcp_comm *comm, const struct tcp_lane *lane,
                       const struct tcp_frame *frame);
/* Of a new message, before it is counted: whether it is done when the kernel has it. */
void tcp_accept(struct tcp_comm *comm, struct tcp_send *send, int eager);
enum mn_err tcp_send_test(struct tcp_comm *comm, struct tcp_send *send, int *done, int *sizes);
/* Closes the first lane later when small messages done are not acknowledged yet; returns 1 if it
 * took it.
 */
int tcp_linger(struct tcp_comm *comm);
void tcp_linger_sweep(void);

enum mn_err tcp_irecv(struct mn_comm *base, int n, void **data, const size_t *sizes,
                      const int *tags, void **mhandles, struct mn_request **request);
enum mn_err tcp_recv_arm(struct tcp_comm *comm);
enum mn_err tcp_recv_test(struct tcp_comm *comm, struct tcp_group *group, int *done, int *sizes);
void tcp_recv_flush_acks(struct tcp_comm *comm);
/* All that has landed. */
void tcp_write_ack(struct tcp_comm *comm, struct tcp_frame *frame);
/* Reads what a lane has, as far as it has a place. */
enum mn_err tcp_recv_drain(struct tcp_comm *comm, struct tcp_lane *lane, uint32_t *moved);
/* tcp_push.c: from here on a thread sends. */
enum mn_err tcp_push(struct tcp_comm *comm, struct mn_diag *diag);
/* tcp_sleep.c */
int tcp_descriptors(struct mn_comm *base, struct mn_wake *wakes, int max);
enum mn_err tcp_arm(struct mn_comm *base);
/* TCP's own acknowledgements wait for something to ride on. */
void tcp_ack_late(const struct tcp_lane *lane);

#endif
