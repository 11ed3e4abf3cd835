/* Inside of the replay: replay_lines.c makes the connections, replay.c moves the messages. */
#ifndef MN_REPLAY_IMPL_H
#define MN_REPLAY_IMPL_H

#include "bench/trace/replay.h"

/* Messages of one tag on a connection, so far. */
struct tag {
    int32_t tag;
    uint64_t count;
};

/* A listen or a connection of the trace, by its number less one. */
struct line {
    enum mn_trace_op op;
    uint64_t hash;   /* of the handle: what the two ends have in common */
    uint32_t listen; /* accept: number of its listen */
    int peer;        /* there is one; else it is left out */
    void *comm, *mh;
    _Alignas(8) uint8_t handle[MN_HANDLE_SIZE];
    uint8_t *area;
    uint8_t *busy;        /* by slot */
    uint64_t pass;        /* of polling, in which a request was not taken: later ones wait */
    size_t slot, n_slots; /* bytes of one, at least as many as messages at once */
    size_t next_slot;
    struct tag *tags;
    size_t n_tags;
};

struct message {
    uint8_t *data;
    uint64_t seed;
};

/* A request of the trace, by its number less one. */
struct asked {
    const struct mn_trace_record *record; /* its parts follow it; NULL: left out, or over */
    uint32_t line;
    void *request;             /* NULL: not taken by the plugin yet */
    struct message one, *more; /* more: all of a grouped receive */
};

struct replay {
    struct mn_group *group;
    const struct mn_replay_plan *plan;
    struct mn_replay_report *report;
    struct line *lines;
    size_t n_lines;
    struct asked *asked;
    size_t n_asked;
    size_t oldest; /* request that may not be over */
    uint64_t idle, pass;
    double began; /* the first message; 0 = not yet */
    uint64_t first_ns, last_ns;
    enum mn_err err;
    struct mn_diag *diag;
};

/* Of a number of the trace; NULL: there is none. */
static inline struct line *mn_replay_line(struct replay *r, uint32_t number)
{
    return number && number <= r->n_lines ? &r->lines[number - 1] : NULL;
}

/* Listens, connections and memory as the trace has them. */
enum mn_err mn_replay_connect(struct replay *r);
void mn_replay_close(struct replay *r);
/* What a call of the plugin returned. */
enum mn_err mn_replay_called(struct replay *r, const char *call, int result);
/* A turn without progress. */
enum mn_err mn_replay_idle(struct replay *r);

#endif
