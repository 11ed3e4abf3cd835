/* relayd: passes pieces on between neighbours (docs/relay.md). One thread, which sleeps when there
 * is nothing to do. */
#ifndef MN_RELAY_DAEMON_H
#define MN_RELAY_DAEMON_H

#include "plugin/relay/sign.h"
#include "topo/base/out.h"
#include "topo/mesh.h"

struct mn_relay;

struct mn_relay_plan {
    const struct mn_mesh *mesh;
    int self;              /* its node */
    const char *socket;    /* local socket; "" = none */
    const uint32_t *users; /* who may ask it to sign, besides root and the daemon's own user */
    size_t n_users;
    int anyone;     /* … or every local user */
    const int *fds; /* listening sockets handed over by systemd, told apart by family; taken
                       over. It binds itself what is of a family that none of them has */
    int n_fds;
};

/* Reads the rest from config (mn_config_load with MN_DEVICE_MESH), which needs a cluster key:
 * addresses of its cables at relay.port, buffers made at once. What it will use is said at INFO.
 * config and plan stay the caller's and must stay. */
enum mn_err mn_relay_open(const struct mn_config *config, const struct mn_relay_plan *plan,
                          struct mn_relay **relay, struct mn_diag *diag);
/* Until stop_fd is readable, or an error that it cannot go on after. Then every flow is told. */
enum mn_err mn_relay_run(struct mn_relay *relay, int stop_fd, struct mn_diag *diag);
void mn_relay_close(struct mn_relay *relay);

/* What "state" answers, and `meshnet relayd --status`: node, uptime, buffers (all, in use), lines
 * (peer, kind, since), trunks (neighbour, class, kind, waiting, free), flows (id, way, from, to,
 * process, bytes, pieces waiting, age of the oldest, rate), refused, and counts since start. */
void mn_relay_state(const struct mn_relay *relay, struct mn_out *out);

/* The client's half: what the relayd of this node says of itself; text is to be freed. */
enum mn_err mn_relay_ask_state(const char *socket, char **json, struct mn_diag *diag);

#endif
