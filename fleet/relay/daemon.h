/* relayd: passes pieces on between neighbours (docs/relay.md). One thread, which sleeps when there
 * is nothing to do. */
#ifndef MN_RELAY_DAEMON_H
#define MN_RELAY_DAEMON_H

#include "plugin/relay/sign.h"
#include "topo/base/out.h"

struct mn_relay;

/* What config does not say. */
struct mn_relay_plan {
    const char *socket;    /* local socket; "" = none */
    const uint32_t *users; /* who may ask it to sign, besides root and the daemon's own user */
    size_t n_users;
    int anyone;     /* … or every local user */
    const int *fds; /* listening sockets handed over by systemd, told apart by family; taken
                       over. It binds itself what is of a family that none of them has */
    int n_fds;
    /* Called by mn_relay_run's loop every tick_ms (0: never), however busy it is: shows a service
     * manager that it goes on. */
    unsigned tick_ms;
    void (*tick)(void *ctx, struct mn_relay *relay);
    void *ctx;
};

/* Reads the rest from config (mn_config_load with MN_DEVICE_MESH), which needs a cluster key:
 * addresses of its cables at relay.port, buffers made at once. What it will use is said at INFO.
 * config and plan stay the caller's and must stay. */
enum mn_err mn_relay_open(const struct mn_config *config, const struct mn_relay_plan *plan,
                          struct mn_relay **relay, struct mn_diag *diag);
/* Until stop_fd is readable, or an error that it cannot go on after. Then every flow is told. */
enum mn_err mn_relay_run(struct mn_relay *relay, int stop_fd, struct mn_diag *diag);
void mn_relay_close(struct mn_relay *relay);

/* What "state" answers, `meshnet relayd --status` shows as tables and doctor looks at. Nothing in
 * it is secret: of a flow's id only the beginning is told. Keys, with units in their names:
 *
 *   version (meshnet's), mesh (mn_mesh_digest's hash, 16 hexadecimal digits), node, pid, uptime_s
 *
 *   listening: [{address, port}]
 *
 *   buffers: {bytes, in_use, locked}
 *
 *   lines: [{peer, kind: process or relay, uid, pid, since_s}]
 *
 *   trunks: [{neighbor, class, kind: bulk or small, way: in or out, transport, bytes, waiting,
 * free}]
 *
 *   flows: [{id, way, from, to, through, uid, pid, state, since_s, bytes, pieces, waiting,
 *            oldest_ms, credits, gbps}], one for each way of a flow that leads through here;
 * credits: pieces of it that the next relay has
 *
 *   counts: {flows, bytes, pieces, refused, gone}, since it was started */
void mn_relay_state(const struct mn_relay *relay, struct mn_out *out);
/* The same in a line: "3 flows, 2 lines, 4 of 64 MiB in use". */
void mn_relay_summary(const struct mn_relay *relay, char *text, size_t size);
/* Flows that are attached here now. */
size_t mn_relay_flows(const struct mn_relay *relay);

/* The client's half: what the relayd of this node says of itself; text is to be freed. */
enum mn_err mn_relay_ask_state(const char *socket, char **json, struct mn_diag *diag);
/* … and what its cluster key makes of a challenge. */
enum mn_err mn_relay_ask_same(const char *socket, const uint8_t challenge[MN_KEY_SIZE],
                              uint8_t made[MN_MAC_SIZE], struct mn_diag *diag);

#endif
