/* The daemon's inside. One thread does it all, in turns: what is ready is stepped; what has failed,
 * ended or gone is only marked meanwhile and torn down at the end of the turn (relayd_reap), so
 * that no list changes under who walks it. */
#ifndef MN_RELAY_ENGINE_H
#define MN_RELAY_ENGINE_H

#include "fleet/relay/daemon.h"
#include "fleet/relay/flows.h"
#include "fleet/relay/local.h"
#include "fleet/relay/pool.h"
#include "fleet/relay/quota.h"
#include "fleet/relay/share.h"
#include "plugin/arrive.h"
#include "plugin/relay/hop.h"
#include "plugin/relay/line.h"
#include "plugin/relay/way.h"
#include "topo/base/alloc.h"

#define RELAYD_GREETING   512          /* lines that have not proved themselves */
#define RELAYD_USER_QUEUE (128u << 10) /* for a process that does not read: four times its talk */
#define RELAYD_FDS        16           /* that systemd may hand over */
#define RELAYD_TICK_MS    MN_LINE_STEP_MS

struct mn_relay;
struct relayd_line;
struct relayd_way;
struct relayd_hop;

/* What epoll's data points to. */
enum relayd_what { RELAYD_LISTENER, RELAYD_LOCAL, RELAYD_STOP, RELAYD_LINE, RELAYD_HOP };
struct relayd_source {
    enum relayd_what what;
};

/* One posted buffer of a connection that comes in. */
struct relayd_buf {
    struct relayd_hop *in;
    struct relayd_buf *next; /* in the one list that it is in: free, posted, waiting, sending */
    struct relayd_way *way;  /* while it waits */
    struct mn_request *request[2]; /* [0] the receive; sends: header, payload */
    uint8_t *heard, *data; /* where a piece comes in: the other end may write there at any time */
    uint8_t *head;         /* what was said of it, checked, and goes on: no peer's to write */
    struct mn_relay_head said;
    uint64_t came_ms;
    uint8_t owed; /* DRAINED has to be said when it is posted again */
};

struct relayd_list {
    struct relayd_buf *first, *last;
    uint32_t n;
};

enum relayd_hop_state {
    RELAYD_HOP_ASKED, /* a trunk: TRUNK was sent */
    RELAYD_HOP_MAKING,
    RELAYD_HOP_HOT,    /* looked at every turn */
    RELAYD_HOP_ASLEEP, /* its descriptors wake it */
    RELAYD_HOP_ENDED   /* closed; buffers that others still send are waited for */
};

/* A data connection: of an edge (way set) or a trunk. */
struct relayd_hop {
    struct relayd_source source;
    struct mn_relay *relay;
    struct relayd_hop *next; /* all */
    struct relayd_line *line;
    struct relayd_way *way;
    enum relayd_hop_state state;
    int is_in;
    enum mn_relay_kind kind;
    uint8_t class;
    uint8_t failed; /* enum mn_gone; text says why */
    char text[MN_WORDS_MAX];
    struct mn_hop *hop;
    struct mn_comm *comm;
    void *mhandles[2];             /* of what it has under way: headers, payload */
    unsigned wakes_seen, restless; /* restless: times in a row that it could not be put to sleep */
    int wakes_known;
    uint64_t moved_us, armed_ms, lost_ms; /* lost: when its process was gone, 0: it is not */
    /* in */
    struct mn_pool_run run;
    struct mn_owner owner;   /* of an edge: whose quota the run is of */
    struct relayd_buf *bufs; /* run.count of them */
    uint8_t *heard;          /* their headers, in pages of their own */
    struct relayd_list free, posted;
    uint32_t busy;                  /* that wait or are being sent */
    struct mn_line_drained drained; /* to be said; count 0: nothing */
    struct relayd_hop *telling;     /* next of those that have something to say */
    int tells;
    /* out */
    struct mn_share share;      /* of a trunk */
    struct relayd_buf *current; /* its header or payload is not posted yet */
    int stage;
    int no_room;
    struct relayd_list sending;
    uint64_t taken_ms; /* when the other end last took something, or had nothing to take */
    uint64_t bytes;
};

enum relayd_side { RELAYD_PREV, RELAYD_NEXT, RELAYD_SIDES };

/* A way of a flow over this relay. */
struct relayd_way {
    struct mn_flow_key key; /* first */
    struct relayd_way *next;
    struct mn_relay_way nodes;
    int at;        /* own place in nodes */
    uint32_t node; /* whose quota it is of */
    struct relayd_line *line[RELAYD_SIDES];
    uint8_t told[RELAYD_SIDES];      /* next: ATTACH was sent on. Prev: ATTACHED */
    uint32_t instance[RELAYD_SIDES]; /* prev: of the sender; next: of the receiver, at the last */
    uint32_t pair;                   /* 0: not open */
    struct relayd_hop *edge[RELAYD_SIDES][MN_RELAY_KINDS];
    struct relayd_list waiting[MN_RELAY_KINDS];
    struct mn_share_turn turn[MN_RELAY_KINDS];
    uint8_t ended;
    uint64_t bytes, pieces, born_ms;
    uint64_t rated_bytes[2], rated_ms[2]; /* a second ago or two, and before that */
};

struct relayd_line {
    struct relayd_source source;
    struct mn_relay *relay;
    struct relayd_line *next;
    struct mn_line *line;
    int up, ended;
    struct relayd_line *holding; /* next of those held */
    int held;                    /* what it is told goes together */
    int buried;                  /* all that belongs to it has ended, too */
    int left;                    /* the process has ended, or closed it: that is no silence */
    int reset;                   /* … or may have given it up */
    int dialled;                 /* the neighbour, -1: it was accepted */
    int fd;                      /* in epoll, -1: none */
    unsigned events;
    uint64_t born_ms, active_ms; /* active: something of a flow has passed beside it */
    struct mn_line_hello who;    /* once up; of a dialled one node and kind are the neighbour's */
    char peer[MN_NAME_MAX + 80];
    char text[MN_WORDS_MAX];                                       /* why it has ended */
    struct relayd_hop *trunk[2][MN_RELAY_CLASSES][MN_RELAY_KINDS]; /* [1]: those that come in */
};

struct mn_relay {
    struct mn_config config; /* a copy: its comms sleep, and nobody polls a buffer */
    struct mn_config bulk;   /* the same for bulk, which a thread sends over TCP */
    const struct mn_relay_plan *plan;
    const struct mn_mesh *mesh;
    uint64_t digest;
    int self;
    int epoll;
    struct relayd_source listening, at_local, at_stop;
    int fds[RELAYD_FDS + MN_MAX_LOCALS], n_fds, stop;
    int local_fd; /* handed over, not passed on yet; -1: none */
    struct mn_arrivals arrivals;
    struct mn_relay_local *local;
    struct mn_pool pool;
    struct mn_flows flows;
    struct relayd_way *ways;
    struct relayd_line *lines;
    struct relayd_hop *hops;
    unsigned n_lines, n_greeting;
    struct relayd_hop *telling;
    struct relayd_line *holding;
    int hears;  /* frames are being heard: what they bring about goes together */
    int marked; /* something is to be reaped */
    int spins;  /* something moved a moment ago */
    int moved;  /* … in this turn */
    int naps;   /* … is to be looked at again soon, since nothing wakes */
    int stopping;
    uint64_t born_ms, now_ms, ticked_ms, told_ms, looked_us;
    struct {
        uint64_t flows, bytes, pieces, refused, gone;
    } counts;
};

/* --- lines.c --- */
void relayd_arrive(struct mn_relay *relay);
/* The line to a neighbour's relayd, dialled if there is none. */
enum mn_err relayd_line_to(struct mn_relay *relay, int node, struct relayd_line **line,
                           struct mn_diag *diag);
void relayd_line_step(struct relayd_line *line);
/* Queues a frame; a line whose queue is full has ended. */
void relayd_line_put(struct relayd_line *line, enum mn_line_frame type, const void *payload,
                     size_t len);
void relayd_line_fail(struct relayd_line *line, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Once a while: lines that somebody waits for are pinged. */
void relayd_lines_tick(struct mn_relay *relay);
int relayd_lines_wait(const struct mn_relay *relay);
void relayd_line_free(struct relayd_line *line);

/* --- frames.c: what comes over a line --- */
void relayd_frame(struct relayd_line *line, enum mn_line_frame type, const uint8_t *payload,
                  size_t len);

/* --- ways.c --- */
void relayd_attach(struct relayd_line *line, const struct mn_line_attach *frame);
/* A line is up: what waited for it goes on. */
void relayd_ways_line_up(struct relayd_line *line);
/* A data connection is up: perhaps the way is open. */
void relayd_way_look(struct relayd_way *way);
/* Which instance frames of the way name on the line of that side. */
uint32_t relayd_way_instance(const struct relayd_way *way, enum relayd_side side);
struct relayd_way *relayd_way_find(struct mn_relay *relay, const struct mn_relay_flow *flow,
                                   uint8_t number);
/* Ends it: told to both ends, but not over the line except (NULL: none). */
void relayd_way_end(struct relayd_way *way, const struct relayd_line *except, enum mn_gone why,
                    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void relayd_refuse(struct relayd_line *line, const struct mn_line_attach *frame, enum mn_gone why,
                   const char *fmt, ...) __attribute__((format(printf, 4, 5)));
const char *relayd_node_name(const struct mn_relay *relay, int node);

/* --- hops.c --- */
struct relayd_hop *relayd_hop_listen(struct relayd_line *line, struct relayd_way *way,
                                     enum mn_relay_kind kind, uint8_t class,
                                     uint8_t handle[MN_HANDLE_SIZE], struct mn_diag *diag);
struct relayd_hop *relayd_hop_dial(struct relayd_line *line, struct relayd_way *way,
                                   enum mn_relay_kind kind, uint8_t class, const uint8_t *handle,
                                   struct mn_diag *diag);
/* A trunk to the next relay, asked for if there is none. NULL: no memory. */
struct relayd_hop *relayd_trunk(struct relayd_line *line, uint8_t class, enum mn_relay_kind kind);
void relayd_on_trunk(struct relayd_line *line, const struct mn_line_trunk *frame);
void relayd_on_trunked(struct relayd_line *line, const struct mn_line_trunk *frame);
/* Who sends here can write to no memory but this connection's; who is sent to, to none. */
enum mn_err relayd_hop_register(struct relayd_hop *hop);
void relayd_hop_step(struct relayd_hop *hop);
void relayd_hop_wake(struct relayd_hop *hop);
void relayd_hop_fail(struct relayd_hop *hop, enum mn_gone why, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Its transport says so. */
void relayd_hop_broken(struct relayd_hop *hop, enum mn_err err);
/* Of one whose process is gone, and nothing more was heard of it for a moment. */
void relayd_hop_lost(struct relayd_hop *hop);
/* Closes its connection; its memory stays until nobody sends from it. */
void relayd_hop_end(struct relayd_hop *hop);
/* Ended, and no buffer of its is in use. */
int relayd_hop_is_idle(const struct relayd_hop *hop);
void relayd_hop_free(struct relayd_hop *hop);

/* --- forward.c --- */
enum mn_err relayd_receive(struct relayd_hop *hop, int *moved);
enum mn_err relayd_post(struct relayd_hop *hop);
enum mn_err relayd_send(struct relayd_hop *hop, int *moved);
/* What waits for the hop's turn of the way. */
struct relayd_hop *relayd_way_out(struct relayd_way *way, enum mn_relay_kind kind);
/* Sends what may be sent of a way, small before bulk. */
void relayd_pump(struct relayd_hop *out);
void relayd_on_drained(struct relayd_line *line, const struct mn_line_drained *frame);
/* The buffer is nobody's any more. */
void relayd_buf_release(struct relayd_buf *buf);
void relayd_way_drop(struct relayd_way *way);
void relayd_list_push(struct relayd_list *list, struct relayd_buf *buf);
struct relayd_buf *relayd_list_pop(struct relayd_list *list);
/* Says what is drained, of all. */
void relayd_tell(struct mn_relay *relay);

/* --- reap.c --- */
void relayd_reap(struct mn_relay *relay);

/* --- loop.c --- */
enum mn_err relayd_watch(struct mn_relay *relay, int fd, unsigned events,
                         struct relayd_source *source, struct mn_diag *diag);

uint64_t relayd_now_us(void);

#endif
