/* The handshake of a control connection, from one end and step by step: nothing here waits, so that
 * a server can greet many at once. The client proves first: a stranger learns nothing from the
 * server, and takes no place of a client's. */
#ifndef MN_CTL_GREET_H
#define MN_CTL_GREET_H

#include "fleet/ctl.h"

#define MN_CTL_RANDOM 16

/* How far it has come; the caller's, without clean-up. */
struct mn_ctl_greeting {
    int server, greeted; /* greeted: both have said hello */
    uint8_t random[2][MN_CTL_RANDOM];
    uint8_t in[64];
    size_t n_in;
};

/* Says hello. */
enum mn_err mn_ctl_greet_begin(struct mn_ctl *ctl, int server, struct mn_ctl_greeting *greeting,
                               struct mn_diag *diag);
/* Takes what has come. MN_ERR_AGAIN: more has to come, to be called when the socket is readable.
 * MN_OK: the peer has the token, and of a server mn_ctl_greet_end is awaited. MN_ERR_AUTH: it has
 * another. MN_ERR_FAILED: a server that has no place. MN_ERR_PEER_DEAD: it closed. */
enum mn_err mn_ctl_greet(struct mn_ctl *ctl, struct mn_ctl_greeting *greeting,
                         const uint8_t token[MN_KEY_SIZE], struct mn_diag *diag);
/* The server's last word to a client that has proven itself: come in, or no place today. */
enum mn_err mn_ctl_greet_end(struct mn_ctl *ctl, const struct mn_ctl_greeting *greeting,
                             const uint8_t token[MN_KEY_SIZE], int place, struct mn_diag *diag);

#endif
