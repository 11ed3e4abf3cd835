/* The daemon's local socket: signs for processes of its node without the cluster key, and says how
 * the daemon is (plugin/relay/sign.h has the conversation). Who asks is what SO_PEERCRED says.
 * Anybody may connect and ask for the state; who may not have it sign is told so.
 *
 * Bounded: MN_LOCAL_CLIENTS at a time, MN_ASK_MS each, of one user the oldest gives way first; a
 * step does no more than MN_LOCAL_TURN of them. Nothing here blocks; one thread. */
#ifndef MN_RELAY_LOCAL_H
#define MN_RELAY_LOCAL_H

#include <sys/types.h>

#include "plugin/relay/sign.h"
#include "topo/base/out.h"

#define MN_LOCAL_CLIENTS 64
#define MN_LOCAL_TURN    16
#define MN_LOCAL_FRESH_S 0.2 /* a state no older than that is told again */

struct mn_local_plan {
    const char *path;           /* for messages, and where it listens when fd is -1 */
    int fd;                     /* a listening socket that is taken over, or -1 */
    const uint8_t *cluster_key; /* stays the caller's, as all of this */
    uint32_t node;              /* own index in the mesh file */
    const uint32_t *users;      /* who may ask it to sign, besides root and the own user */
    size_t n_users;
    int anyone;
    void (*state)(void *ctx, struct mn_out *out); /* fills a document in JSON */
    void *ctx;
};

struct mn_relay_local; /* not to be confused with config.h's struct mn_local */

/* path's folder has to be there. A socket that nobody listens at any more is replaced;
 * MN_ERR_EXISTS: somebody does; a file that is no socket is left alone. */
enum mn_err mn_relay_local_open(const struct mn_local_plan *plan, struct mn_relay_local **local,
                                struct mn_diag *diag);
/* For poll(2) or epoll(7), POLLIN: readable when step has something to do, deadlines included; the
 * same descriptor for as long as it lives. */
int mn_relay_local_fd(const struct mn_relay_local *local);
void mn_relay_local_step(struct mn_relay_local *local);
/* Questions to sign that were refused since it was opened. */
uint64_t mn_relay_local_refused(const struct mn_relay_local *local);
/* Removes the socket it has bound. */
void mn_relay_local_close(struct mn_relay_local *local);

#endif
