/* Inside of the libibverbs double: one lock around everything, see fakeverbs.h for how to use it.
 *
 * Every queue pair has a "wire" in an arena: what its peer must know of it, and two rings into
 * which the peer puts requests and answers. A scheduler that runs inside verbs calls moves packets
 * from send queues to rings, from rings to memory, and finished work to completion queues. The
 * arena is private memory, or a file shared by several processes. */
#ifndef FV_H
#define FV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <infiniband/verbs.h>

#define FV_DEVICES  8
#define FV_GIDS     32   /* length of a port's table */
#define FV_ADDRS    8    /* addresses of a device */
#define FV_SLOTS    4096 /* queue pairs of a fabric: 64 bells of 64 bits */
#define FV_PROCS    64
#define FV_SGE      32
#define FV_FRAGMENT (32u << 10)
#define FV_REQ_RING (256u << 10)
#define FV_RSP_RING (128u << 10)

/* --- settings --- */
/* What is lost at a port that is up: nobody is told. */
enum fv_lost { FV_LOST_IN = 1, FV_LOST_OUT = 2 };

/* Verbs that can be told to fail. */
enum fv_failing {
    FV_FAIL_CREATE_CQ,
    FV_FAIL_CREATE_QP,
    FV_FAIL_MODIFY_QP,
    FV_FAIL_RTR,
    FV_FAIL_POST_SEND,
    FV_FAIL_POST_RECV,
    FV_FAIL_EVENT,
    FV_N_FAILING
};

struct fv_device_config {
    char name[32], netdev[16];
    uint8_t addr[FV_ADDRS][16]; /* IPv4 mapped */
    int n_addrs, down, gbps, bare;
    unsigned int lost; /* enum fv_lost */
    long slow;         /* ticks or us a packet */
};

struct fv_config {
    uint64_t seed;
    struct fv_device_config devices[FV_DEVICES];
    int n_devices;
    long max_qp_wr, max_sge, max_inline, max_msg, max_cqe, max_qp, max_mr, max_rd_atomic, atomics;
    long mtu, dmabuf, steps, timeout;
    long delay, reorder, error, flap, flap_polls, silent, drop_rtr, gidshift, gidmute, nomem,
        slowcq;
    long linger, portmute, noflush, fail[FV_N_FAILING];
    long leaks, strict, nap, lose, ece, forkless, control, inline_every, infiniband, rtr_silent;
    char stats[256], shm[256];
    char pulled[256], muted[256]; /* files that say what the cables are */
    char untold[256];
};

/* --- random numbers: xoshiro-like streams, split off one another --- */
struct fv_rng {
    uint64_t state;
};
uint64_t fv_rand(struct fv_rng *rng);
/* 0 .. n-1 */
uint64_t fv_below(struct fv_rng *rng, uint64_t n);
struct fv_rng fv_split(struct fv_rng *rng);

/* --- the arena --- */
struct fv_ring {
    _Alignas(64) _Atomic uint64_t head; /* bytes ever put; the producer's */
    _Alignas(64) _Atomic uint64_t tail; /* bytes ever taken; the consumer's */
};

enum fv_packet_type { FV_SKIP, FV_REQUEST, FV_ACK, FV_READ_DATA };

struct fv_packet {
    uint32_t size; /* in the ring, a multiple of 8 */
    uint8_t type, opcode, first, last;
    uint32_t src_qpn;
    uint32_t message; /* low half of the requester's send queue index */
    uint32_t imm;     /* network order, untouched */
    uint32_t status;
    uint32_t rkey, length; /* bytes in this packet */
    uint64_t addr, offset, total;
    int16_t rnr_retry;
    uint16_t solicited;
    uint32_t qkey;
    uint8_t data[];
};

struct fv_wire {
    _Atomic uint32_t qpn;   /* 0: free */
    _Atomic uint32_t owner; /* 1 + process slot; 0: nobody's. Who takes a dead one's slot frees what
                             * has it here */
    _Atomic uint32_t state; /* enum ibv_qp_state; what follows is set before it */
    _Atomic uint32_t link_up;
    _Atomic uint32_t lost;    /* enum fv_lost */
    _Atomic uint32_t putting; /* a lock: several may send to a datagram queue pair */
    uint32_t type, qkey;
    uint32_t dest_qpn, rq_psn, sq_psn, path_mtu, gid_type;
    union ibv_gid sgid, dgid;
    struct fv_ring req, rsp;
    _Alignas(4096) uint8_t req_data[FV_REQ_RING];
    uint8_t rsp_data[FV_RSP_RING];
};

struct fv_proc {
    _Atomic uint32_t used;
    _Atomic uint32_t sleeping; /* futex of its helper thread */
    _Atomic uint32_t n_gids;
    union ibv_gid gids[FV_DEVICES * FV_ADDRS * 2];
    _Alignas(64) _Atomic uint64_t bell;    /* one bit a word of bells */
    _Atomic uint64_t bells[FV_SLOTS / 64]; /* one bit a queue pair with news */
};

struct fv_arena {
    _Atomic uint64_t magic;
    _Atomic uint32_t cursor;
    struct fv_proc procs[FV_PROCS];
    struct fv_wire wires[FV_SLOTS];
};

/* --- objects --- */
enum fv_counter {
    FV_OPS,
    FV_BYTES,
    FV_POLLS,
    FV_RNR,
    FV_FLUSHES,
    FV_STALE,
    FV_ERRORS,
    FV_REG,
    FV_EVENTS,
    FV_DANGLING,
    FV_FORK_INITS,
    FV_RTR,
    FV_QUERY_PORT, /* from here on verbs that ask the kernel */
    FV_QUERY_GIDS,
    FV_CREATE_CQ,
    FV_CREATE_QP,
    FV_MODIFY_QP,
    FV_REG_MR,
    FV_DESTROY,
    FV_N_COUNTERS
};
extern const char *const fv_counter_names[FV_N_COUNTERS];

struct fv_device {
    struct ibv_device base;
    struct fv_device_config *config;
    int port_up, contexts, shifted;
    long gid_uses;
    uint64_t free_at; /* tick or ns from which the next packet may leave: slow */
    uint64_t up_at;   /* tick at which a flapping port comes back; 0: not flapping */
    uint64_t ops, bytes;
};

struct fv_event {
    struct ibv_async_event event;
    struct fv_event *next;
};

struct fv_context {
    struct verbs_context vctx; /* ends with the ibv_context */
    struct fv_device *device;
    struct fv_context *next;
    struct fv_event *events, **events_end;
    int children;
};

struct fv_ah {
    struct ibv_ah base;
    union ibv_gid dgid;
};

struct fv_pd {
    struct ibv_pd base;
    int children;
};

struct fv_mr {
    struct ibv_mr base;
    uint64_t iova;
    unsigned int access;
    void *map; /* of a DMA-BUF */
    size_t mapped;
};

struct fv_cqe {
    struct ibv_wc wc;
    uint64_t serial, index;
    uint32_t slot;
    int is_send, orphan; /* orphan: shown though its queue pair is gone */
};

/* Its descriptor is an eventfd that counts the events. */
struct fv_channel {
    struct ibv_comp_channel base;
    struct fv_cq *first, **end; /* queues with events that nobody has taken */
};

enum fv_notify { FV_NOT_ARMED, FV_SOLICITED, FV_ANY };

struct fv_cq {
    struct ibv_cq base;
    enum fv_notify notify;
    int waiting, taken; /* events not taken; not acknowledged */
    struct fv_cq *next; /* of those with events waiting */
    struct fv_cqe *ring;
    uint64_t head, tail; /* taken, put */
    int qps, overrun, unacked;
};

struct fv_swqe {
    uint64_t wr_id, length, offset, addr, ready;
    enum ibv_wr_opcode opcode;
    enum ibv_wc_status status;
    unsigned int flags;
    uint32_t imm, rkey;
    uint32_t dest_qpn, qkey; /* of a datagram, and where to */
    union ibv_gid dgid;
    int n_sge, started, lost;
    struct ibv_sge *sge; /* room for max_send_sge */
};

struct fv_rwqe {
    uint64_t wr_id, ready;
    struct ibv_wc wc;
    int n_sge, solicited;
    struct ibv_sge *sge;
};

#define FV_PIECES 4

struct fv_qp {
    struct ibv_qp base;
    struct fv_wire *wire;
    struct fv_device *device;
    struct fv_rng rng;
    uint64_t serial; /* never used twice */
    uint32_t slot;
    struct ibv_qp_cap cap;
    int sig_all, active, unacked, live; /* active: index + 1 in the scheduler's list */
    struct ibv_qp_attr attr;
    uint32_t ece; /* set, from RTR on agreed upon */
    /* Indices only grow. Send: freed <= released <= acked <= sent <= posted. */
    struct fv_swqe *sq;
    struct ibv_sge *sges;
    uint8_t *inline_data;
    uint64_t sq_freed, sq_released, sq_acked, sq_sent, sq_posted;
    int reads; /* sent and not answered */
    /* Receive: freed <= released <= used <= posted. */
    struct fv_rwqe *rq;
    uint64_t rq_freed, rq_released, rq_used, rq_posted;
    uint64_t rq_memory; /* from here on no posted receive has memory */
    /* The request being received. */
    /* In the error state and still receiving what is under way: up to a tick. 0: not. */
    uint64_t lingers;
    int rx_seen, rx_pieces, rx_piece, rx_order[FV_PIECES], rx_rnr, rx_dropping;
    int rx_denied; /* a receive was refused as set: that one is missing is nobody's fault */
    uint64_t rx_gate, rx_offset;
    /* Since when the peer has not been reachable with work waiting: tick or ns. */
    uint64_t lost_since;
};

struct fv_global {
    pthread_mutex_t lock;
    struct fv_config config;
    struct fv_rng rng;
    struct fv_device devices[FV_DEVICES];
    struct fv_context *contexts;
    struct fv_arena *arena;
    struct fv_proc *proc;
    uint32_t proc_slot;
    struct fv_qp *qps[FV_SLOTS];
    struct fv_qp *live[FV_SLOTS]; /* the same without holes */
    struct fv_qp *active[FV_SLOTS];
    int n_active, cursor;
    struct fv_mr **mrs; /* by key index */
    uint32_t n_mrs;
    uint64_t tick, qps_made, serial, ops, watched, buried, unreliable;
    uint64_t files_seen;
    int muted; /* a file says that nothing arrives */
    int silent, live_qps, live_cqs, live_mrs, live_pds, channels;
    uint64_t counters[FV_N_COUNTERS];
    /* Queue pairs that went to RTR or RTS with these values. */
    uint64_t classes[256], levels[16], timeouts[32], retries[8], eces[32];
};
extern struct fv_global fv;

/* --- config.c, main.c --- */
void fv_config_read(struct fv_config *config, const char *text);
void fv_config_change(struct fv_config *config, const char *text);
void fv_lock(void); /* first call reads the settings */
void fv_unlock(void);
void fv_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* --- control.c --- */
/* A verb that asks the kernel begins: counts it and takes its time. Without the lock. */
void fv_control(enum fv_counter kind);
/* 0, or the errno value that this call was told to fail with. With the lock. */
int fv_fails(enum fv_failing verb);

/* --- device.c, event.c --- */
struct fv_context *fv_context_of(struct ibv_context *context);
/* The entry at an index, 0 with *type, or -1 when there is none. */
int fv_gid_at(struct fv_device *device, int index, union ibv_gid *gid, int *type);
/* Its table was read, or a path made from it: gidshift. */
void fv_gid_used(struct fv_device *device, int uses);
void fv_port_set(struct fv_device *device, int up);
void fv_loss_set(struct fv_device *device);
void fv_event_put(struct fv_context *context, struct ibv_async_event event);
void fv_event_qp(struct fv_qp *qp, enum ibv_event_type type);
/* Forgets events about an object that goes away. */
void fv_event_drop(struct fv_context *context, void *object);
/* What destroying the object waits for: its events are taken back, or acknowledged by another
 * thread; dies where that does not come. Lets the lock go meanwhile. */
void fv_event_settle(struct fv_context *context, void *object, const int *unacked,
                     const char *verb);

/* --- mr.c --- */
struct fv_mr *fv_mr_by_lkey(struct ibv_pd *pd, const struct ibv_sge *sge, unsigned int access);
/* Where [addr, addr + length) lies in this process; NULL when the key does not allow it. */
uint8_t *fv_mr_by_rkey(struct ibv_pd *pd, uint32_t rkey, uint64_t addr, uint64_t length,
                       unsigned int access);
uint8_t *fv_mr_local(const struct fv_mr *mr, uint64_t addr);
/* fv_dma() to where fv_mr_by_rkey() found the key's memory, or later: dmabuf=2. */
void fv_mr_write(uint32_t rkey, uint8_t *to, const void *from, size_t length);
/* A read pushes the writes before it. */
void fv_mr_settle(const struct ibv_context *context);
/* What a device does: seen by nobody but the memory (race detectors included). */
void fv_dma(void *to, const void *from, size_t length);

/* --- cq.c --- */
int fv_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
void fv_cq_put(struct fv_cq *cq, struct fv_qp *qp, const struct ibv_wc *wc, int is_send,
               uint64_t index, int solicited);

/* --- channel.c: completion channels --- */
int fv_req_notify_cq(struct ibv_cq *cq, int solicited_only);
/* A completion came: an event if the queue is armed for it. */
void fv_channel_notify(struct fv_cq *cq, int solicited);
/* The queue goes; dies when an event of it was not acknowledged. */
void fv_channel_drop(struct fv_cq *cq);

/* --- qp.c, post.c --- */
int fv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void fv_qp_state(struct fv_qp *qp, enum ibv_qp_state state);
/* To the error state; what is outstanding is flushed. */
void fv_qp_error(struct fv_qp *qp);
/* The end of lingering: now the receives are flushed. */
void fv_qp_flush_receives(struct fv_qp *qp);

/* --- fabric.c: who moves when --- */
void fv_run(void);
/* Gives up on peers that have been away too long. */
void fv_watch(void);
uint64_t fv_now(void); /* ns */
void fv_activate(struct fv_qp *qp);
void fv_deactivate(struct fv_qp *qp);
void fv_bell(struct fv_wire *wire);
struct fv_wire *fv_peer(const struct fv_qp *qp);
/* Where a datagram goes; NULL when nobody is there. */
struct fv_wire *fv_datagram_to(const struct fv_qp *qp, const struct fv_swqe *w);
/* The peer is there, means this queue pair, both ports are up and nothing is lost on the way there;
 * NULL when not. */
struct fv_wire *fv_reachable(const struct fv_qp *qp);
/* What one sends gets to the other: neither port loses it. */
int fv_passes(const struct fv_wire *from, const struct fv_wire *to);
uint64_t fv_ready(struct fv_qp *qp); /* the tick from which a thing may show */

/* --- requester.c, responder.c: 1 moved, 0 nothing to do, -1 must wait --- */
int fv_send_step(struct fv_qp *qp);
int fv_answer_step(struct fv_qp *qp);
int fv_request_step(struct fv_qp *qp);
void fv_send_fail(struct fv_qp *qp, enum ibv_wc_status status);

/* --- ring.c --- */
/* Room for a packet with that many bytes of data; NULL when full. Invisible until put. */
struct fv_packet *fv_ring_room(struct fv_ring *ring, uint8_t *data, uint32_t size, uint32_t bytes);
void fv_ring_put(struct fv_ring *ring, const struct fv_packet *packet);
struct fv_packet *fv_ring_peek(struct fv_ring *ring, uint8_t *data, uint32_t size);
void fv_ring_take(struct fv_ring *ring, const struct fv_packet *packet);
void fv_ring_clear(struct fv_ring *ring);

/* --- arena.c --- */
void fv_arena_open(void);
int fv_gid_known(const union ibv_gid *gid);
int fv_gid_of(const struct fv_proc *proc, const union ibv_gid *gid);
void fv_wire_free(struct fv_wire *wire);
/* Frees what processes that died left behind. */
void fv_bury(void);
int fv_is_shared(void);

/* --- helper.c: packets arrive, too, while a process calls nothing that is in a shared fabric, or
 * sleeps on a completion channel --- */
void fv_helper_start(void); /* a context or channel is open */
void fv_helper_stop(void);  /* one was closed; the lock not held */
void fv_helper_wake(struct fv_proc *proc);

#endif
