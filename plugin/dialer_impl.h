/* Inside of connect(): dialer.c tries, dialer_say.c says why it did not go. */
#ifndef MN_DIALER_IMPL_H
#define MN_DIALER_IMPL_H

#include "plugin/far.h"
#include "plugin/listen.h"

#define MN_MAX_CANDIDATES (2 * MN_MAX_LOCALS)

/* A connect() under way. Found again by the ticket in the handle and the listener's nonce; both
 * must agree, since the handle came over a network. */
struct mn_dialer {
    struct mn_dialer *next;
    const struct mn_config *config; /* of the context that dials */
    uint64_t ticket;
    struct mn_handle handle;
    struct mn_side self;
    struct mn_pair candidates[MN_MAX_CANDIDATES];
    struct mn_far_way ways[MN_FAR_WAYS]; /* of candidates that are MN_ROUTED, by acceptor */
    int n_candidates, current;
    unsigned rounds; /* of attempts at every candidate, that are over */
    int hopeful;     /* in this round one failed in a way that another attempt need not */
    struct mn_conn *conn;
    uint64_t deadline_ms; /* later while the peer's host has the connection and its process does
                             not look at it, and by the time in which nobody calls */
    uint64_t tell_ms;     /* when connect has passed, nevertheless */
    uint64_t stepped_ms, pause_end_ms;
    unsigned unheard;       /* attempts in a row that ended so */
    uint64_t dialed_ms;     /* when conn's attempt began */
    uint64_t held_until_ms; /* it has failed, as held says; 0: not */
    struct mn_diag held;
    uint64_t asked_ms;   /* with the lock held; … */
    int in_call;         /* … a thread is in a call about it */
    struct mn_diag last; /* of the attempt that got furthest, of those of the last round */
    int last_state;      /* how far; -1 when a round begins */
    int agreed;          /* the acceptor alone decides; set with the lock held */
    int told;            /* that the peer takes its time */
};

/* What the handle tells of the other side. */
void mn_dialer_remote(const struct mn_handle *handle, struct mn_side *side);
/* No candidate: what is missing, or forbidden. Returns MN_ERR_CONFIG. */
enum mn_err mn_dialer_no_cable(struct mn_dialer *d, struct mn_diag *diag);
/* The current attempt failed: the peer, the way and what is known of it. Returns code. */
enum mn_err mn_dialer_explain(const struct mn_dialer *d, enum mn_err code, const char *why,
                              struct mn_diag *diag);
/* Appends what both ends have, for a failure that is about addresses: GIDs where one of them has
 * any. */
void mn_dialer_add_tables(struct mn_dialer *d, struct mn_diag *diag);

#endif
