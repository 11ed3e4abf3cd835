/* Inside of the handshake: what its frames carry (conn_links.c), and the sockets beside the control
 * connection (conn_lanes.c). conn.c has the order of things. */
#ifndef MN_CONN_IMPL_H
#define MN_CONN_IMPL_H

#include "plugin/conn.h"

/* Something has come or gone on: an attempt's time counts from here. */
void mn_conn_progress(struct mn_conn *conn);

/* LINKS: sends ours; reads and checks the peer's. Both are mixed into the plan's hash. */
enum mn_err mn_conn_send_links(struct mn_conn *conn);
enum mn_err mn_conn_get_side(struct mn_conn *conn, uint8_t *payload, size_t len,
                             struct mn_diag *diag);
void mn_conn_mix_links(struct mn_conn *conn, const uint8_t *payload, size_t len,
                       int from_connector);
/* Of LINKS: what the mesh file says. get: 0 when it is out of bounds. compare says what differs, at
 * WARN, once a process and peer; where this process's tuner acts that is MN_ERR_CONFIG. */
struct mn_bytes;
void mn_conn_put_mesh(const struct mn_conn *conn, struct mn_bytes *b);
int mn_conn_get_mesh(struct mn_bytes *b, struct mn_mesh_digest *theirs);
enum mn_err mn_conn_compare_mesh(const struct mn_conn *conn, const struct mn_mesh_digest *theirs,
                                 struct mn_diag *diag);
/* PLAN */
enum mn_err mn_conn_make_plan(struct mn_conn *conn, struct mn_diag *diag);
enum mn_err mn_conn_send_plan(struct mn_conn *conn);
enum mn_err mn_conn_check_plan(struct mn_conn *conn, const uint8_t *payload, size_t len,
                               struct mn_diag *diag);

/* SETUP: the transport's own part, which it may not have: then setup_done is set at once. */
enum mn_err mn_conn_begin_setup(struct mn_conn *conn, struct mn_diag *diag);
/* Where begin has set setup_later. */
enum mn_err mn_conn_answer_setup(struct mn_conn *conn, struct mn_diag *diag);

/* Connector: begins a lane; one that cannot be begun is left out, with a warning. */
void mn_conn_start_lane(struct mn_conn *conn, int lane);
/* Connector: MN_OK once every lane is up or given up and LANES is on its way. */
enum mn_err mn_conn_step_lanes(struct mn_conn *conn);
/* READY: how the control connection can be opened again, where the transport keeps one. */
enum mn_err mn_conn_send_ready(struct mn_conn *conn);
enum mn_err mn_conn_get_ready(struct mn_conn *conn, uint8_t *payload, size_t len,
                              struct mn_diag *diag);

/* Both: closes the gaps that lanes given up have left; the connection is READY. */
void mn_conn_pack_lanes(struct mn_conn *conn);

#endif
