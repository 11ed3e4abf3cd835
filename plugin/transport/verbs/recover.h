/* Links of a connection that go, and come back, while the connection goes on: tests/models/
 * failover.pml is this protocol, docs/failover.md says why it is safe.
 *
 *   sender                                   receiver
 *                                    <-      SYNC_REQUEST, on its own evidence
 *   queue pairs to ERR
 *   SYNC                             ->      queue pairs to ERR; counts what has arrived
 *                                    <-      ANSWER: what of each message is there
 *   replays what is missing                  writes announcements anew that went by the link
 *   ...
 *   new queue pairs for the old, JOIN ->     new queue pairs for the old, towards them
 *   its own towards those            <-      JOINED
 *   a write has come through: JOINED ->      announces by the link again
 *
 * All of it over the control connection, in frames of one type, MN_FRAME_LINK: {word 1, link 1,
 * turn 4} and what the word has. A turn is a link's set of queue pairs, counted from 0; a word of
 * an older turn is of no concern. What is said is said again on a control connection that was
 * opened again: so a word may come twice, but never an older one after a newer one.
 *
 * Everything here belongs to the thread that calls the comm, but for the job that makes queue
 * pairs. */
#ifndef MN_VERBS_RECOVER_H
#define MN_VERBS_RECOVER_H

#include <stdint.h>

#include "topo/base/err.h"

struct verbs_comm;
struct verbs_link;
struct ibv_wc;

/* In the model's order and words. A receiver's link that the sender is asked to give up is UP. */
enum verbs_state { VERBS_UP, VERBS_FENCED, VERBS_DOWN, VERBS_JOINING, VERBS_STATES };
extern const char *const verbs_state_names[VERBS_STATES];
enum verbs_word {
    VERBS_SYNC,
    VERBS_SYNC_REQUEST,
    VERBS_ANSWER,
    VERBS_JOIN,
    VERBS_JOINED,
    VERBS_WORDS
};
extern const char *const verbs_word_names[VERBS_WORDS];

enum { VERBS_CAUSE = 160, VERBS_WORD_MAX = 1024 };

/* Where a link that joins is; the receiver's is CONNECTS until its job is done. */
enum verbs_joining { VERBS_MAKES, VERBS_ASKS, VERBS_CONNECTS, VERBS_TRIES };

/* Counted over the comm's life for each link; told at close, and their sum. */
struct verbs_failover {
    unsigned lost, back;
    uint64_t replayed;
    unsigned stall_ms;
};

struct verbs_recovery { /* of a link; zero: UP, as the handshake made it */
    enum verbs_state state;
    enum verbs_joining step;
    uint32_t turn;
    uint8_t away;       /* nothing new goes by it: not UP, or about to be given up, or not tried */
    uint8_t broken;     /* a completion failed */
    uint8_t asked;      /* receiver: the sender is asked to give it up */
    uint8_t early;      /* receiver: UP, but the sender's end was not tried yet */
    uint8_t failed;     /* joining came to nothing; its end waits for the job */
    uint8_t job_due;    /* receiver: its job waits for another's */
    uint8_t told;       /* at WARN, that it went */
    uint8_t told_limit; /* … and that this host does not let it come back */
    uint8_t carried;    /* it was in use when its end began: that is a stall */
    uint8_t dead;       /* its device failed: it does not come back */
    uint8_t loud;       /* receiver: the device has not taken them to ERR yet */
    uint8_t spent;      /* receiver: a queue pair has failed: nothing is posted to them any more */
    uint8_t unsure;     /* receiver: the fence left receive requests without a completion */
    uint8_t say;        /* bit per word */
    uint32_t polls;     /* of its queue, empty, since the fence */
    uint64_t heard_ms;  /* its last completion, as looks have seen it */
    uint64_t since_ms;  /* when what went wrong did */
    uint64_t gone_ms, fenced_ms, up_ms, tried_ms;
    uint64_t steady_ms; /* since when its port is ACTIVE; 0 = it is not */
    unsigned hold_ms, stall_ms;
    uint64_t replayed; /* bytes, since it went */
    struct verbs_failover stats;
    /* Sender: which of the VERBS_OUTSTANDING messages before done_seq were done when it was fenced,
     * a bit each, the last one's first. */
    uint64_t done[4];
    uint32_t done_seq;
    char cause[VERBS_CAUSE];
};

/* verbs_recover.c */
/* Whether own evidence may end it: another link is there to go on, and neither end is closing. */
int verbs_may_give_up(const struct verbs_comm *comm, int link);
/* Whether a failure is its end, and not the connection's: there is another, or one may come. */
int verbs_may_lose(const struct verbs_comm *comm, int link);
/* Sender: fences it and says SYNC; receiver: asks for that. since_ms: when it went wrong. */
void verbs_give_up(struct verbs_comm *comm, int link, uint64_t since_ms, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Its queue pairs to ERR: from here on nothing leaves by them nor arrives. 0: the device does not
 * do it now. */
int verbs_quiet(struct verbs_comm *comm, int link);
void verbs_destroy(struct verbs_comm *comm, int link);
/* They are used no more. Destroyed they are by the job that makes the next, or with the comm: the
 * kernel may wait then for packets that lie in a dead NIC's queue (soft-RoCE: 3 s). */
void verbs_retire(struct verbs_comm *comm, int link);
void verbs_set_away(struct verbs_comm *comm, int link, int away);
/* Joining came to nothing: INFO, and the model's way back to DOWN. */
void verbs_join_failed(struct verbs_comm *comm, int link, const char *why);
/* Both told at WARN, and counted; gone once until it is back. */
void verbs_count_stall(struct verbs_recovery *recovery, uint64_t now);
void verbs_tell_gone(struct verbs_comm *comm, int link, uint64_t since_ms, uint64_t now);
void verbs_tell_back(struct verbs_comm *comm, int link, uint64_t now);
/* What is due for links that are not just UP; part of a look. */
enum mn_err verbs_recover(struct verbs_comm *comm, uint64_t now);

/* verbs_words.c */
enum mn_err verbs_hear(struct verbs_comm *comm, const uint8_t *payload, size_t len);
void verbs_say(struct verbs_comm *comm);
/* The control connection is another: what was said and not answered is due again. */
void verbs_say_again(struct verbs_comm *comm);

/* verbs_fence.c, the receiver */
/* SYNC: the link's end. */
void verbs_fence(struct verbs_comm *comm, int link, uint64_t now);
enum mn_err verbs_fence_step(struct verbs_comm *comm, int link, uint64_t now);
/* What has arrived, for ANSWER: {landed 4, n 2, unsure 1} and for each of n announcements from
 * landed on {bytes of its bitmap 1, 0xff = all is there; bitmap, lowest segment first}. */
struct mn_bytes;
void verbs_write_answer(const struct verbs_comm *comm, int link, struct mn_bytes *b);

/* verbs_replay.c, the sender */
enum mn_err verbs_answered(struct verbs_comm *comm, int link, struct mn_bytes *b, uint64_t now);
/* What is done, as the link is fenced. */
void verbs_note_done(const struct verbs_comm *comm, struct verbs_recovery *recovery);

/* verbs_rejoin.c */
/* The peer's word, with its queue pairs behind b. */
enum mn_err verbs_on_join(struct verbs_comm *comm, int link, uint32_t turn, struct mn_bytes *b);
enum mn_err verbs_on_joined(struct verbs_comm *comm, int link, uint32_t turn, struct mn_bytes *b);
void verbs_write_qps(const struct verbs_comm *comm, int link, struct mn_bytes *b);
enum mn_err verbs_rejoin(struct verbs_comm *comm, uint64_t now);

#endif
