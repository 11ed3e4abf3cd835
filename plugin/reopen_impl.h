/* Inside of coming back: who may (reopen.c), who listens for them (reopen_door.c), and who dials
 * (reopen_dial.c). */
#ifndef MN_REOPEN_IMPL_H
#define MN_REOPEN_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "plugin/arrive.h"
#include "plugin/reopen.h"

#define MN_RETURN_SIZE  (16 + MN_MAC_SIZE)
#define MN_REOPEN_WORDS 512

/* Where the connector dials. */
struct mn_way {
    int routed; /* local is nothing */
    struct mn_local local;
    struct mn_addr remote;
};

struct mn_reopen {
    struct mn_reopen *next; /* of its bucket */
    uint64_t id, attempt;   /* of the connection; the last one made, or taken */
    uint8_t key[MN_KEY_SIZE];
    atomic_int fresh;          /* socket that waits for the comm; -1 = none */
    uint64_t given;            /* the attempt that it is of; with the lock */
    struct mn_attended *wakes; /* … too; NULL = nobody */
    int watched;               /* connector: … too; see mn_reopen_watch(); -1 = none */
    int connector;
    int ended;          /* nothing comes back any more; with the lock */
    enum mn_frame word; /* said first over what comes back; n_words 0: nothing is */
    uint8_t words[MN_REOPEN_WORDS];
    size_t n_words;
    int holds; /* the door */
    char peer[128];
    /* connector */
    uint16_t port;
    int traffic_class;
    unsigned patience_ms; /* of an attempt */
    struct mn_way ways[MN_MAX_LOCALS + 1];
    int n_ways, way;
    int lost;
    int told;             /* at WARN: this host does not let it be dialled */
    unsigned rounds;      /* of attempts over all ways, that are over */
    uint64_t due_ms;      /* when the next attempt begins, or the present one must be through */
    struct mn_chan *chan; /* of the attempt under way; NULL = none is */
    int said;             /* RETURN, in it */
};

/* The frame of an attempt, as this end says it. */
void mn_return_write(const struct mn_reopen *reopen, int connector, uint64_t attempt,
                     uint8_t frame[MN_RETURN_SIZE]);
/* The peer's; 0: it is nothing of the kind, or not by who knows the key. */
int mn_return_check(const struct mn_reopen *reopen, int by_connector, const uint8_t *payload,
                    size_t len, uint64_t *attempt);
uint64_t mn_return_id(const uint8_t *payload);

/* The comm gets it at its next look; an older one that it has not taken is closed. */
void mn_reopen_give(struct mn_reopen *reopen, int fd);

/* Begins the next attempt when it is due, or advances the present one; with the lock held, never
 * waits. */
void mn_reopen_dial(struct mn_reopen *reopen, uint64_t now);

/* Says what a socket at the door is; takes the lock. */
enum mn_verdict mn_reopen_judge(void *strangers, int fd);

/* Starts the thread unless it runs: 0 or an errno value; and wakes it. */
int mn_reopen_wake(void);

/* reopen_door.c, for the thread: what to poll, MN_REOPEN_FDS at most, and whether somebody is being
 * looked at; takes in who has come. */
#define MN_REOPEN_FDS (MN_MAX_DEVICES * MN_MAX_LOCALS)
int mn_reopen_door_fds(int fds[MN_REOPEN_FDS], int *waiting);
void mn_reopen_door_step(void);

#endif
