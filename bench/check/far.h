/* A rule's second process on another machine, where meshnet serve starts it. The rule sees the same
 * socket as for one on this machine; a relay here and serve there carry its bytes, signals and
 * verdict over an authenticated control connection. */
#ifndef MN_CHECK_FAR_H
#define MN_CHECK_FAR_H

#include "bench/check.h"
#include "fleet/ctl.h"

struct mn_check; /* bench/check/rule.h */
struct mn_peer;  /* bench/check/peer.h */

struct mn_check_far {
    char host[256];
    uint16_t port;
    uint8_t token[MN_KEY_SIZE];
};

/* Whether somebody with the right token and a library to judge is there; a warning when he goes by
 * another mesh file. */
enum mn_err mn_far_probe(const struct mn_check_far *far, struct mn_diag *diag);

/* Before the plugin is loaded. peer->pid is the relay, which ends when the second process has. */
void mn_far_start(struct mn_check *check, struct mn_peer *peer);

/* Whether a client's first message asks for this. */
int mn_far_asked(const cJSON *first);
/* serve's side, in the client's own process: first is that message, path the
 * library to load. Ends when the rule's process or the connection has. */
enum mn_err mn_far_serve(const char *path, struct mn_ctl *ctl, const cJSON *first,
                         struct mn_diag *diag);

#endif
