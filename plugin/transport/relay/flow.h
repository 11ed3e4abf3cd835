/* The relay's transport: the two ends of a flow (docs/relay.md). S is who sends, D who receives.
 *
 * direct.c has the neighbours' own cable as a way (transport.detour), ways.c the others, each with
 * a line and two data connections; it goes on without those that are gone while one is left. send.c
 * cuts, ask.c asks for pieces, recv.c counts them. All is advanced by isend, irecv and test, none
 * of which blocks; while the process calls none of them, by a thread of idle.c now and then.
 * Whoever does it holds busy. */
#ifndef MN_RELAY_TRANSPORT_H
#define MN_RELAY_TRANSPORT_H

#include <pthread.h>
#include <stdatomic.h>

#include "plugin/relay/hop.h"
#include "plugin/relay/line.h"
#include "plugin/relay/way.h"
#include "plugin/transport.h"
#include "plugin/transport/relay/talk.h"

#define RELAY_GROUPS   64  /* receives that are posted; a power of two */
#define RELAY_SENDS    128 /* sends at once */
#define RELAY_POSTED   32  /* pieces asked for on a way, of each kind; a power of two */
#define RELAY_TOGETHER 8   /* of them asked for at once, when all were */
#define RELAY_RECVS    MN_MAX_RECVS
#define RELAY_LOST     (MN_RELAY_WAYS * MN_RELAY_KINDS * RELAY_POSTED)

/* Memory that is registered, on all ways that are open. handles: of their data connections. */
struct relay_mem {
    struct relay_mem *next;
    void *data;
    size_t size;
    int type, fd; /* fd: of a DMA-BUF, -1: none */
    uint64_t offset;
    uint8_t known[MN_RELAY_WAYS][MN_RELAY_KINDS];
    void *handles[MN_RELAY_WAYS][MN_RELAY_KINDS];
};

struct relay_send {
    struct mn_request base;
    uint8_t *data;
    size_t size;
    struct relay_mem *mem;
    uint32_t out; /* pieces that data connections still read */
    uint8_t used, landed;
};

/* A receive, as D has posted it, and as S knows it. */
struct relay_slot {
    uint8_t *data;
    size_t size; /* posted */
    int tag;
    struct relay_mem *mem;
    uint64_t total;         /* of the message, once known */
    uint32_t asked, landed; /* D: pieces */
    uint32_t out;           /* D: asked for and neither landed nor dropped */
    uint8_t known, done;
    struct relay_send *send; /* S: matched */
};

struct relay_group {
    struct mn_request base;
    uint8_t is_flush; /* as in struct relay_flush: no */
    uint32_t number;
    uint8_t used, n, left; /* left: slots that are not done */
    uint8_t matched;       /* S: slots that have a send */
    struct relay_slot slots[RELAY_RECVS];
};

struct relay_piece {
    uint32_t group, piece;
    uint8_t slot;
};

/* What a data connection has under way, in order. D: what is posted. S: what is sent. */
struct relay_flight {
    struct relay_piece piece;
    struct relay_send *send; /* S: whose bytes; NULL: of nobody */
    uint8_t guess;           /* D: asked for before its message was known */
    struct mn_request *requests[2];
};

/* S: what is asked for. */
struct relay_run {
    uint32_t group, first;
    uint8_t slot;
    uint64_t which;
};

struct relay_hop {
    struct mn_hop *hop;
    struct mn_comm *comm; /* once it is up */
    struct relay_flight flight[RELAY_POSTED];
    uint32_t head, tail;            /* oldest; next */
    uint8_t (*heads)[MN_HEAD_SIZE]; /* RELAY_POSTED of them */
    /* D: memory that bytes came into last; NULL: none that is registered still */
    _Atomic(struct relay_mem *) delivered;
    uint8_t fresh;     /* … since the last flush */
    uint32_t flushing; /* flushes that are not done */
    /* S */
    struct relay_run runs[RELAY_POSTED];
    uint32_t run_head, run_tail;
    uint8_t half;    /* flight[tail]'s header is sent, its payload not */
    uint32_t misses; /* calls for which what is next had no send */
    uint32_t named;  /* pieces of this turn: more than RELAY_POSTED when some have come */
    /* D */
    uint32_t guesses;      /* under way */
    uint8_t full;          /* until RELAY_TOGETHER can be asked for: not one for each that lands */
    uint8_t guessed;       /* … of guesses */
    struct relay_word run; /* being put together */
};

enum relay_owes { RELAY_OWES_NOTHING, RELAY_OWES, RELAY_OWED /* … at the thread's last look */ };

enum relay_state {
    RELAY_RESTS,  /* until next_ms */
    RELAY_DIALS,  /* a line */
    RELAY_AWAITS, /* is attached, or will be */
    RELAY_IS_OPEN,
    RELAY_IS_REFUSED /* for good */
};

struct relay_way {
    struct mn_relay_way nodes;
    uint32_t weight; /* Mb/s */
    uint8_t number;
    enum relay_state state;
    struct mn_line *line;
    uint32_t instance, pair; /* pair 0: none yet */
    uint32_t peer_pair;      /* D: for which S sends */
    uint32_t closed_pair;    /* to be told; 0: nothing */
    uint8_t say_open;        /* S: to be told */
    uint8_t takes;           /* memory: its data connections are there; under comm->memory */
    atomic_uchar unfit;      /* … and did not take what another way did: it goes */
    uint64_t next_ms;
    unsigned pause_ms;
    uint8_t tries; /* lines that a relayd was there for, and did not greet */
    uint8_t was_open;
    uint64_t gone_ms;   /* of one that was open */
    uint64_t broken_ms; /* when a data connection was closed by the relay; 0: none is */
    uint64_t again;     /* pieces under way when it went */
    uint64_t pieces;    /* that went over it */
    uint64_t bytes;     /* S: that were sent; D: that came */
    struct mn_diag why;
    struct relay_hop hops[MN_RELAY_KINDS];
};

/* The ends' own cables: way 0 where detour is not off. */
struct relay_direct {
    enum mn_detour detour;
    struct mn_reopen *reopen; /* NULL: it does not come back */
    uint8_t key[MN_KEY_SIZE];
    char netdevs[MN_MAX_LOCALS][IF_NAMESIZE]; /* the own ends */
    int n_netdevs;
    uint64_t looked_ms;
};

struct relay_flush {
    struct mn_request base;
    uint8_t is_flush, used;
    uint32_t pairs[MN_RELAY_WAYS];
    struct mn_request *requests[MN_RELAY_WAYS][MN_RELAY_KINDS];
};

#define RELAY_FLUSHES 64
#define RELAY_TRIES   4 /* at a set-up, of relayds that are there and busy */

struct relay_comm {
    struct mn_comm base;
    const struct mn_config *config;
    char peer[128];
    pthread_mutex_t busy; /* but what memory guards */
    uint32_t calls, calls_seen;
    uint64_t called_ms;      /* when the idle thread saw the last of them */
    struct relay_comm *next; /* the idle thread's */
    uint64_t born_ms;
    struct mn_relay_flow flow;
    int n_ways;
    struct relay_way ways[MN_RELAY_WAYS];
    struct relay_direct direct;
    struct relay_talk talk;
    int talk_way;      /* -1: none */
    int defers;        /* D: what is said waits for the next call, or for the idle thread */
    uint32_t held;     /* D: receives that are posted and not told yet */
    uint8_t hurry;     /* D: what is said is of large messages */
    uint64_t owed_us;  /* D: since when */
    atomic_int owes;   /* enum relay_owes: … something does */
    atomic_int error;  /* enum mn_err, explained */
    uint64_t ended_ms; /* when a relay said that the peer's process has ended; 0: none did */
    uint64_t lost_ms;  /* … that it has, or will be back in a moment; 0: none did, or it is */
    char ended_text[MN_WORDS_MAX];
    uint32_t waits;         /* requests that are not done */
    uint8_t wants;          /* S: a send had no receive */
    uint8_t falls_short;    /* D: the last bulk message was shorter than its receive */
    uint8_t asks, short_of; /* D: there may be something to ask for; … and was no room */
    uint64_t looked_us, ticked_ms;
    uint64_t none_ms; /* since when no way is open; 0: one is */
    /* S: ways that were open and went while there was something to send, since something came over
     * one; and when the first did */
    unsigned vain;
    uint64_t vain_ms;
    int moved;
    uint8_t (*heads)[MN_HEAD_SIZE];
    struct relay_mem heads_mem;
    pthread_mutex_t memory; /* mems */
    struct relay_mem *mems;
    struct relay_group groups[RELAY_GROUPS];
    uint32_t group_next; /* the next number; S: that is to come */
    uint32_t group_at;   /* S: the oldest with a slot that has no send. D: … that is not all asked
                            for */
    uint32_t front;      /* D: the oldest with a slot whose message is not known */
    struct relay_send sends[RELAY_SENDS];
    uint32_t send_turn;
    struct relay_piece lost[RELAY_LOST]; /* D: to be asked for again */
    uint32_t lost_head, lost_tail;
    struct relay_flush flushes[RELAY_FLUSHES];
};

static inline int relay_error(const struct relay_comm *comm)
{
    return atomic_load_explicit(&comm->error, memory_order_relaxed);
}

/* Fails the comm: explains at WARN, once, tells the peer, returns the code that stays. */
enum mn_err relay_fail(struct relay_comm *comm, enum mn_err code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static inline enum mn_relay_kind relay_kind_of(const struct relay_slot *slot)
{
    return slot->size > MN_RELAY_SMALL ? MN_RELAY_BULK : MN_RELAY_SMALL_ONES;
}

static inline uint32_t relay_pieces(uint64_t bytes)
{
    return bytes ? (uint32_t)((bytes - 1) / MN_RELAY_PIECE) + 1 : 1;
}

/* --- flow.c --- */
uint64_t relay_now_us(void);
/* Everything that can be done now. */
enum mn_err relay_progress(struct relay_comm *comm);
/* What one that waits comes to when no way is open. */
enum mn_err relay_look_hopeless(struct relay_comm *comm);
void relay_talk_flush(struct relay_comm *comm);
/* At INFO: what each way carried. */
void relay_ways_sum(const struct relay_comm *comm);

/* --- idle.c: from open to close, neither with busy held --- */
void relay_idle_join(struct relay_comm *comm);
/* Of what is said: it leaves with the next call, or when there is none for some 0.2 ms. */
void relay_defer(struct relay_comm *comm);
/* The thread is not at it any more when this returns. */
void relay_idle_leave(struct relay_comm *comm);

/* --- direct.c: way 0 of neighbours. Its line is the connection of the handshake, opened again by
 * reopen.h; there is no relayd at it, so the receiver says ATTACHED itself. --- */
static inline int relay_is_direct(const struct relay_comm *comm, const struct relay_way *way)
{
    return comm->direct.detour && way == &comm->ways[0];
}
/* At a set-up: makes it of the plan; the receiver listens, and writes where. */
enum mn_err relay_direct_begin(struct relay_comm *comm, const struct mn_conn *conn,
                               struct mn_bytes *out, struct mn_diag *diag);
/* … the sender reads that, and dials. */
enum mn_err relay_direct_peer(struct relay_comm *comm, struct mn_bytes *in, struct mn_diag *diag);
/* Takes the handshake's socket and way back over. */
void relay_direct_open(struct relay_comm *comm, struct mn_conn *conn, int fd);
void relay_direct_close(struct relay_comm *comm);
/* What relay_way_step does of other ways before there is a line; then it is attached. */
void relay_direct_step(struct relay_comm *comm, struct relay_way *way, uint64_t now_ms);
void relay_direct_attach(struct relay_comm *comm, struct relay_way *way);
void relay_direct_attached(struct relay_comm *comm, struct relay_way *way,
                           const struct mn_line_attached *f);

/* --- ways.c --- */
/* Of the own devices the one that has the cable. */
const struct mn_device *relay_way_device(const struct relay_comm *comm,
                                         const struct relay_way *way);
void relay_way_begin(struct relay_comm *comm, struct relay_way *way);
/* Advances it. */
void relay_way_step(struct relay_comm *comm, struct relay_way *way, uint64_t now_ms);
/* Closes its data connections, then what was under way is asked for again (D) or given back (S).
 * why: for both ends; the relay is told unless it was the one that said so. */
void relay_way_gone(struct relay_comm *comm, struct relay_way *way, enum mn_gone why, int tell,
                    const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* CLOSED and REFUSED, that the other end says. */
enum mn_err relay_way_closed(struct relay_comm *comm, const struct relay_word *word);
/* A data connection has failed. A relay that has closed it says why on the line, which is waited
 * for for a moment. */
void relay_way_broken(struct relay_comm *comm, struct relay_way *way, enum mn_err err);
static inline int relay_way_works(const struct relay_way *way)
{
    return way->state == RELAY_IS_OPEN && !way->broken_ms &&
           !atomic_load_explicit(&way->unfit, memory_order_relaxed);
}
/* The comm is closed: nothing is kept. */
void relay_way_end(struct relay_comm *comm, struct relay_way *way);
/* "b, c": the relays of a way. */
char *relay_way_text(const struct relay_comm *comm, const struct relay_way *way, char *text,
                     size_t size);
int relay_ways_open(const struct relay_comm *comm);

/* --- memory.c --- */
enum mn_err relay_reg_mr(struct mn_comm *base, void *data, size_t size, int type, void **mhandle);
enum mn_err relay_reg_dmabuf(struct mn_comm *base, void *data, size_t size, int type,
                             uint64_t offset, int fd, void **mhandle);
enum mn_err relay_dereg_mr(struct mn_comm *base, void *mhandle);
/* All that is registered, on the data connections of a way that opens. */
enum mn_err relay_memory_open(struct relay_comm *comm, struct relay_way *way);
void relay_memory_close(struct relay_comm *comm, struct relay_way *way);

/* --- send.c --- */
enum mn_err relay_isend(struct mn_comm *base, void *data, size_t size, int tag, void *mhandle,
                        struct mn_request **request);
enum mn_err relay_send_test(struct relay_comm *comm, struct relay_send *send, int *done,
                            int *sizes);
void relay_send_advance(struct relay_comm *comm);
/* Messages for S: MN_ERR_PROTO: of what there is not. */
enum mn_err relay_send_word(struct relay_comm *comm, const struct relay_word *word);
/* Its data connections are closed. */
void relay_send_gone(struct relay_comm *comm, struct relay_way *way);
/* Of what is sent the receiver has not all. */
int relay_send_waits(const struct relay_comm *comm);

/* --- recv.c --- */
enum mn_err relay_irecv(struct mn_comm *base, int n, void **data, const size_t *sizes,
                        const int *tags, void **mhandles, struct mn_request **request);
enum mn_err relay_recv_test(struct relay_comm *comm, struct relay_group *group, int *done,
                            int *sizes);
void relay_recv_advance(struct relay_comm *comm);
enum mn_err relay_recv_word(struct relay_comm *comm, const struct relay_word *word);
/* What has landed on a way that goes, before its connections are closed; and what has not, after.
 */
void relay_recv_collect(struct relay_comm *comm, struct relay_way *way);
void relay_recv_gone(struct relay_comm *comm, struct relay_way *way);
/* Says so when it is. */
void relay_look_whether_whole(struct relay_comm *comm, struct relay_group *group, int slot);

/* --- ask.c: all that there is room for --- */
void relay_ask(struct relay_comm *comm);

/* --- flush.c --- */
enum mn_err relay_flush(struct mn_comm *base, void *data, void *mhandle,
                        struct mn_request **request);
enum mn_err relay_flush_test(struct relay_comm *comm, struct relay_flush *flush, int *done);
/* All that has come over a way whose connections will be closed: waits for its device's read, some
 * microseconds; the comm fails when that does not come. */
void relay_flush_way(struct relay_comm *comm, struct relay_way *way);

#endif
