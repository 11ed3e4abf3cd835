/* The verbs transport: how messages travel over RC queue pairs.
 *
 * The receiver announces each posted buffer by writing an entry into a ring in the sender's memory
 * (wire.h). The sender answers with RDMA writes with immediate into that buffer, the message
 * divided over the queue pairs of all links by what each has still to do and its speed (split.h).
 * Every immediate says which announcement and segment it is and how many there are, so the receiver
 * accounts for segments in any order, and adds up the lengths of the completions: the sender's true
 * size. Without an announcement isend has no room and says so; nothing is buffered, nothing spins.
 *
 * Receive requests are posted for every segment that may arrive, before it is announced, so that
 * RNR cannot happen: a message has one part a queue pair at most, cut only at the device's largest
 * write, and the receiver announces no more than it has requests for; where links fail over to
 * others (recover.h), all parts may come by one queue pair, and the announcement says how many.
 *
 * A send is done when its writes are acknowledged: the bytes are at the receiver. The TCP
 * connection of the handshake stays open beside: it says when the peer closes (with how far it has
 * received, since a closing receiver no longer acknowledges), when it gives up and why, and by its
 * end when the peer's process is gone. Its silence says nothing: whether a link is well only the
 * queue pairs know, which are probed while something is waited for. A connection whose control
 * connection is lost goes on without it, while it is opened again (reopen.h); a peer that ends
 * meanwhile is found by its queue pairs.
 *
 * A link that is silent, as while its cable is out, is waited for: the devices try for most of
 * rdma_silence. That, and when it goes on, is told once each.
 *
 * While another link is there, one that fails is given up, and comes back later (recover.h). The
 * first failed completion of the last link ends the connection: every later call returns that
 * error. */
#ifndef MN_VERBS_H
#define MN_VERBS_H

#include <stdatomic.h>

#include "plugin/attend.h"
#include "plugin/outage.h"
#include "plugin/reopen.h"
#include "plugin/transport.h"
#include "plugin/transport/verbs/device.h"
#include "plugin/transport/verbs/memory.h"
#include "plugin/transport/verbs/recover.h"
#include "plugin/transport/verbs/split.h"
#include "plugin/transport/verbs/wire.h"
#include "plugin/transport/verbs/work.h"

#define VERBS_SLOTS 256 /* requests of a connection */
#define VERBS_RECVS 8   /* MN_MAX_RECVS */
#define VERBS_BATCH 16  /* completions taken at once */
/* So many empty polls one after the other: nothing is left in a queue that nothing comes to. */
#define VERBS_EMPTY  32
#define VERBS_SQ     256 /* sender */
#define VERBS_CTS_SQ 64  /* receiver: announcements only */
#define VERBS_RQ     512
#define VERBS_INLINE 220

/* wr_id: what a completion is about, never a pointer. A completion of an earlier generation of its
 * slot is counted and dropped. */
enum verbs_kind { VERBS_RECEIVED, VERBS_DATA, VERBS_ANNOUNCED, VERBS_PROBE };
struct verbs_wr {
    enum verbs_kind kind;
    unsigned generation, slot, part, qp, posted; /* posted: low 16 bits of the queue pair's count */
};
_Static_assert(VERBS_QPS <= 16, "four bits each name a part and a queue pair");

static inline uint64_t verbs_wr_pack(enum verbs_kind kind, unsigned generation, unsigned slot,
                                     unsigned part, unsigned qp, unsigned posted)
{
    return (uint64_t)kind << 56 | (uint64_t)(part & 15) << 52 | (uint64_t)(qp & 15) << 48 |
           (uint64_t)(generation & 0xffff) << 32 | (uint64_t)(slot & 0xffff) << 16 |
           (posted & 0xffff);
}

static inline struct verbs_wr verbs_wr_unpack(uint64_t id)
{
    return (struct verbs_wr){(enum verbs_kind)(id >> 56),
                             id >> 32 & 0xffff,
                             id >> 16 & 0xffff,
                             id >> 52 & 15,
                             id >> 48 & 15,
                             id & 0xffff};
}

struct verbs_qp {
    struct ibv_qp *qp; /* while its link is DOWN: the one before, in error, or NULL */
    uint32_t number, psn, peer_number, peer_psn;
    struct ibv_ece ece, peer_ece; /* vendor 0 = none */
    uint8_t link;
    uint32_t depth;           /* of the send queue */
    uint32_t posted, retired; /* send requests since the start; known to be finished */
    uint32_t unsignaled;      /* announcements since the last that completes */
    uint32_t consumed;        /* receive requests to be posted again */
    uint32_t seen;            /* retired, at the last look */
    uint64_t owing_ms;        /* since when looks have seen what is not; 0 = nothing is due */
    uint64_t probed_ms;       /* since when a probe is on its way; 0 = none is */
    /* Announcements written anew by it: the last is posted when so many are, and until it is known
     * to have landed, none goes from here on, where the first of them was. */
    uint32_t anew_posted, anew_until;
    uint8_t anew;
};

/* Sender: whether a link carries less than was agreed. */
struct verbs_slow {
    uint64_t seen;     /* carried, at the last look */
    uint64_t since_ms; /* since when its weight is small … */
    unsigned looks;    /* … at so many looks in a row … */
    uint8_t told;
    uint8_t tried, failed;    /* it got a part again; was last with it, so often in a row */
    unsigned idle;            /* looks that found it without a part, since it was tried */
    uint64_t at[VERBS_LINKS]; /* … and what each link had carried before */
};

struct verbs_link {
    struct verbs_watch watch;
    struct verbs_device *device;
    struct mn_local local;
    struct mn_rdma_end self, peer;
    struct ibv_comp_channel *channel; /* NULL where nobody sleeps */
    uint32_t events;                  /* of the queue, not acknowledged yet */
    int armed;                        /* the next completion makes an event */
    struct ibv_cq *cq;
    struct ibv_mr *ring_mr;  /* of the ring, on this device */
    uint32_t peer_ring_rkey; /* receiver */
    uint32_t pending;        /* sender: completions to come */
    int first_qp, n_qps;
    uint32_t max_inline;
    char from[MN_ADDR_TEXT], to[MN_ADDR_TEXT];
    uint64_t carried; /* sender: bytes that were acknowledged */
    struct mn_outage outage;
    struct verbs_recovery recovery;
    struct verbs_slow slow;
};

/* Segment k of a part is the bytes from k * max_segment on. */
struct verbs_send_part {
    uint32_t offset, length; /* in the message */
    uint16_t first, n_segments, posted, acked;
    uint16_t round; /* in which its last completion was read */
    uint8_t qp;
};

struct verbs_send {
    struct mn_request base;
    uint16_t generation, n_parts, segments, unposted, pending; /* segments not posted, not done */
    uint8_t active, done, host;
    uint32_t size;
    const uint8_t *data;
    const struct verbs_memory *memory; /* NULL for no bytes */
    struct verbs_cts cts;
    struct verbs_send_part *parts; /* room for one on each queue pair */
};

/* An announced buffer. */
struct verbs_slot {
    struct verbs_group *group;
    uint64_t segments[2]; /* bit per segment that has arrived */
    uint32_t seq, capacity, received;
    uint32_t posted; /* the queue pair's count when it was announced */
    uint16_t n_segments, arrived, reserved;
    uint8_t active, qp, due; /* announced by which; to be written anew */
};

struct verbs_group {
    struct mn_request base;
    uint32_t seq; /* of the first announcement */
    uint8_t n, landed, posted;
    uint32_t sizes[VERBS_RECVS];
};

/* Reads by which what the links delivered becomes visible in GPU memory; verbs_flush.c. */
struct verbs_flush {
    struct mn_request base;
    uint32_t target[VERBS_LINKS]; /* done when as many reads of each link are */
    uint8_t posted;
    uint64_t since_ms; /* waited for; 0 = not yet */
};
struct verbs_flushing;

struct verbs_comm {
    struct mn_comm base;
    const struct mn_config *config;
    char peer[128];
    /* enum mn_err; set once, explained when set. Read relaxed: nothing else is read by it. */
    atomic_int error;
    int n_links, n_qps;
    uint32_t devices;     /* bit per device of the links */
    uint32_t max_segment; /* bytes of one write */
    uint32_t max_message;
    struct verbs_link links[VERBS_LINKS];
    struct verbs_qp qps[VERBS_QPS];
    struct verbs_way ways[VERBS_QPS];
    uint32_t full_weight[VERBS_QPS];
    int turn;
    uint8_t traffic_class;
    struct verbs_cts *ring; /* sender: written by the peer; receiver: what it writes from */
    uint64_t peer_ring;     /* receiver */
    uint64_t stale;         /* completions dropped */

    /* sender */
    struct verbs_send *sends; /* VERBS_SLOTS */
    struct verbs_send_part *parts;
    uint64_t free_sends[VERBS_SLOTS / 64];
    uint32_t seq;                       /* of the group in turn */
    struct verbs_cts head[VERBS_RECVS]; /* that group, once it is whole */
    uint8_t head_n, head_filled;
    uint32_t waiting;           /* sends with segments not posted yet */
    uint16_t round;             /* counts looks at the queues */
    uint8_t last_group, streak; /* the link that finished a message last, so often in a row */
    /* receiver */
    struct verbs_group *groups;                /* VERBS_SLOTS, in turn */
    struct verbs_slot *slots;                  /* VERBS_RING, by announcement */
    struct ibv_recv_wr refill[VERBS_BATCH];    /* a chain ready to be posted, or its end */
    uint32_t group_next, seq_next, seq_landed; /* all before seq_landed have landed */
    uint32_t seq_announced, open; /* written to the peer before it; of them not landed */
    uint32_t rq_depth, reserved;
    uint32_t delivered;                        /* bit per link with bytes since the last flush */
    _Atomic(struct verbs_flushing *) flushing; /* NULL until GPU memory is registered */

    /* when nothing moves */
    uint32_t idle;
    uint64_t looked_ms, weighed_ms, listened_ms, stuck_ms, broken_ms, ended_ms;
    uint64_t heard_ms;               /* of any link, as looks have seen it */
    uint64_t spell_ms, spell_end_ms; /* the last time in which all were silent */
    int broken_link;
    int silent;                  /* links with an outage */
    int failover, n_away, hurry; /* links on their way out or in: looks are made at once */
    unsigned calls, alarm;       /* since the last look; verbs_alarm, as it was then */
    uint64_t alone_ms;           /* since when no link can be used; 0 = one can */
    uint64_t alone_seen_ms;      /* the look at that before */
    uint64_t mute_ms;   /* since when a word of the peer is waited for, and none can come */
    uint32_t due, anew; /* receiver: announcements to be written anew; queue pairs that
                           have some not known to have landed */
    char broken_text[192];
    int unheard;              /* the last look may have left words of the peer unread */
    struct mn_chan control;   /* what the handshake's connection is now; fd -1 while it is lost */
    struct mn_reopen *reopen; /* NULL: what is lost stays lost */
    struct mn_attended attended; /* receiver with failover: by verbs_attend.c */
    int peer_closed;             /* BYE was read */
    int in_doubt;                /* the queue pairs are asked at once */

    /* set-up */
    struct verbs_job job;
    /* Whoever exchanges it second frees. Sequentially consistent, so that what the job wrote is
     * seen with JOB_DONE. tests/models: job. */
    atomic_int job_state;
    struct mn_diag job_diag;
    int job_again; /* what failed may go well at another attempt */
    int job_link;  /* whose queue pairs it makes anew; -1 = it was the handshake's, or none */
    int job_parts; /* enum verbs_job_part */
};

enum { JOB_NONE, JOB_RUNNING, JOB_DONE, JOB_ABANDONED };
enum verbs_job_part { VERBS_JOB_MAKE = 1, VERBS_JOB_CONNECT = 2 };

/* memory was registered for this connection and covers [data, data + size). */
static inline int verbs_covers(const struct verbs_comm *comm, const struct verbs_memory *memory,
                               const void *data, size_t size)
{
    uint64_t at = (uint64_t)(uintptr_t)data;

    if (!memory || at < memory->base || size > memory->length ||
        at - memory->base > memory->length - size)
        return 0;
    for (int i = 0; i < comm->n_links; i++)
        if (!memory->mrs[comm->links[i].device->index])
            return 0;
    return 1;
}

/* Fails the comm: explains at WARN, once, with the peer and, if link >= 0, the link; tells the
 * peer. Returns the code to stay. */
enum mn_err verbs_fail(struct verbs_comm *comm, int link, enum mn_err code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same with a text that is whole, and nothing told to the peer. */
enum mn_err verbs_fail_text(struct verbs_comm *comm, int link, enum mn_err code, const char *text);
enum { VERBS_WHO = 640 };
/* "send to peer P, link L (…)". What concerns the peer concerns all links to it: link -1. */
const char *verbs_name(const struct verbs_comm *comm, int link, char who[VERBS_WHO]);
static inline enum mn_err verbs_error(struct verbs_comm *comm)
{
    return (enum mn_err)atomic_load_explicit(&comm->error, memory_order_relaxed);
}

/* New queue pairs do not help: its device has failed, or its completion queue has overrun. */
static inline uint8_t verbs_is_lost(const struct verbs_link *link)
{
    int fatal = atomic_load_explicit(&link->watch.fatal, memory_order_relaxed);
    return fatal == IBV_EVENT_DEVICE_FATAL + 1 || fatal == IBV_EVENT_CQ_ERR + 1;
}

/* The last link is dead: the comm's end. */
enum mn_err verbs_link_dead(struct verbs_comm *comm, int link, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A device does not take what is posted: the link's failure while there is another, else the
 * comm's. */
enum mn_err verbs_refused(struct verbs_comm *comm, int link, const char *what, int error);
/* A completion failed. Why is only known after a look at the control connection: a peer that closed
 * or gave up is no broken link. verbs_idle() decides. */
void verbs_broken(struct verbs_comm *comm, int qp, const struct ibv_wc *wc);
/* verbs_idle.c. A call moved nothing: now and then looks at the control connection, the ports and
 * the clock. */
enum mn_err verbs_idle(struct verbs_comm *comm);
/* The same looks now, for who is going to sleep. */
enum mn_err verbs_look(struct verbs_comm *comm);
/* The same where a look cannot wait until nothing moves: part of every call that moves something.
 */
enum mn_err verbs_look_soon(struct verbs_comm *comm);
static inline int verbs_urgent(struct verbs_comm *comm)
{
    return comm->n_links > 1 &&
           (comm->hurry || !(++comm->calls & 63) ||
            comm->alarm != atomic_load_explicit(&verbs_alarm, memory_order_relaxed));
}
/* Asks the peer's device for a sign of life. */
enum mn_err verbs_probe(struct verbs_comm *comm, int qp, uint64_t now);
/* Something was completed on a link, while comm->silent. */
void verbs_heard(struct verbs_comm *comm, int link);

/* verbs_control.c; best effort, as far as there is one. */
void verbs_tell_peer(struct verbs_comm *comm, enum mn_err code, const char *text);
void verbs_say_bye(struct verbs_comm *comm);
/* Reads what the peer says, and takes a new control connection where the old one is lost. */
enum mn_err verbs_look_at_control(struct verbs_comm *comm, uint64_t now);
/* Whether it goes over the link's cable. */
int verbs_control_is_on(const struct verbs_comm *comm, const struct verbs_link *link);

/* verbs_pointers.c */
void verbs_pointers(struct mn_config *config);

/* verbs_path.c: where packets from one end to another go: LID, GID, and whether they need a global
 * header (GRH). Returns 0 when the LID is a guess: the other subnet's router is not named. */
int verbs_path(const struct mn_rdma_end *from, const struct mn_rdma_end *to,
               struct ibv_ah_attr *path);

/* verbs_setup.c */
void verbs_offer(struct mn_side *self);
void verbs_explain(struct mn_side *self);
enum mn_err verbs_begin(struct mn_conn *conn, struct mn_bytes *out, struct mn_diag *diag);
void verbs_answer(struct mn_conn *conn, struct mn_bytes *out);
enum mn_err verbs_peer(struct mn_conn *conn, struct mn_bytes *in, struct mn_diag *diag);
void verbs_free(struct verbs_comm *comm);

/* verbs_join.c: makes the queue pairs ready, what the peer has being known; step() tells when. */
enum mn_err verbs_join(struct verbs_comm *comm, struct mn_diag *diag);
enum mn_err verbs_step(struct mn_conn *conn, struct mn_diag *diag);
void verbs_cancel(struct mn_conn *conn);
/* A job that makes a link's queue pairs anew; comm->job_state says when it is done, job_diag how.
 * Until then nothing else may touch them. An error, of which job_diag tells: there is no job. */
enum mn_err verbs_join_again(struct verbs_comm *comm, int link, int parts);
/* verbs_free() as a job, for a comm that no other works at. 0 or an errno value. */
int verbs_free_later(struct verbs_comm *comm);
/* A queue pair from INIT to RTS, towards a port. 0 or an errno value; may ask the kernel for the
 * way there. */
int verbs_qp_ready(struct verbs_comm *comm, struct verbs_link *link, const struct mn_rdma_end *to,
                   const struct verbs_qp *qp);

/* verbs_setup.c: a queue pair in INIT. */
enum mn_err verbs_make_qp(struct verbs_comm *comm, struct verbs_link *link, struct verbs_qp *qp,
                          struct mn_diag *diag);

/* verbs_sleep.c: completion channels, where the owner sleeps. */
enum mn_err verbs_channel_make(struct verbs_comm *comm, struct verbs_link *link,
                               struct mn_diag *diag);
/* Before and after the link's queue goes. */
void verbs_channel_settle(struct verbs_link *link);
void verbs_channel_free(struct verbs_link *link);
int verbs_descriptors(struct mn_comm *base, struct mn_wake *wakes, int max);
enum mn_err verbs_arm(struct mn_comm *base);

/* verbs_attend.c: a thread answers for a receiver that is not called. From open to close. */
void verbs_attend_join(struct verbs_comm *comm);
void verbs_attend_leave(struct verbs_comm *comm);
/* There is another control connection. */
void verbs_attend_watch(struct verbs_comm *comm);

/* verbs_send.c */
enum mn_err verbs_isend(struct mn_comm *base, void *data, size_t size, int tag, void *mhandle,
                        struct mn_request **request);
enum mn_err verbs_send_test(struct verbs_comm *comm, struct verbs_send *send, int *done,
                            int *sizes);
/* Posts what a link has left over that is no more. */
enum mn_err verbs_send_again(struct verbs_comm *comm);
uint32_t verbs_segment_length(const struct verbs_comm *comm, const struct verbs_send_part *part,
                              uint32_t k);
/* 0: a part went by a link whose end has begun. What was acknowledged of it may have been lost in
 * the peer's device yet: the answer tells. */
int verbs_is_settled(const struct verbs_comm *comm, const struct verbs_send *send);
/* What a test of something that is not done does. */
enum mn_err verbs_send_progress(struct verbs_comm *comm);
/* verbs_weight.c. A message is done, queue pair last was the last. Its link gets less of the next
 * ones, the others more: messages one at a time find the speeds of the links that way, and what is
 * under way together is divided so. Completions that are read at one time say nothing. */
void verbs_weigh(struct verbs_comm *comm, const struct verbs_send *send, unsigned last);
/* Now and then: a link that has carried nothing beside others is tried with more, one that takes
 * much less than agreed for a second is told, once. */
void verbs_weigh_look(struct verbs_comm *comm, uint64_t now);
/* Everything before announcement seq has arrived, as the closing peer says. */
void verbs_send_landed(struct verbs_comm *comm, uint32_t seq);

/* verbs_recv.c */
enum mn_err verbs_irecv(struct mn_comm *base, int n, void **data, const size_t *sizes,
                        const int *tags, void **mhandles, struct mn_request **request);
enum mn_err verbs_recv_test(struct verbs_comm *comm, struct verbs_group *group, int *done,
                            int *sizes);
enum mn_err verbs_recv_progress(struct verbs_comm *comm);
/* A completion of a link's queue. */
enum mn_err verbs_recv_completion(struct verbs_comm *comm, int link, const struct ibv_wc *wc);
/* Posts the receive requests that a queue pair is short of. 0 or an errno value. */
int verbs_recv_refill(const struct verbs_comm *comm, struct verbs_qp *qp);
/* For all of a link that is well: before anything more is announced than there are requests for. */
enum mn_err verbs_recv_refill_link(struct verbs_comm *comm, int link);
/* verbs_flush.c: a queue pair from each link's device to itself, for receivers of GPU memory (data
 * is some of it). Once a comm; may run beside its data path. */
enum mn_err verbs_flush_prepare(struct verbs_comm *comm, void *data, struct mn_diag *diag);
void verbs_flush_free(struct verbs_comm *comm);
enum mn_err verbs_flush(struct mn_comm *base, void *data, void *mhandle,
                        struct mn_request **request);
int verbs_is_flush(struct verbs_comm *comm, const struct mn_request *request);
enum mn_err verbs_flush_test(struct verbs_comm *comm, struct verbs_flush *flush, int *done);

/* Posts receive requests for all that may arrive before anything is announced. */
enum mn_err verbs_recv_prepare(struct verbs_comm *comm, struct mn_diag *diag);

#endif
