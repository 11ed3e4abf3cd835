/* Both ways into a comm: a listener with its candidates, and a dialer with its candidate addresses.
 */
#ifndef MN_LISTEN_H
#define MN_LISTEN_H

#include "plugin/conn.h"

struct mn_listener;

/* Binds every address of the device to one common port and writes the handle. */
enum mn_err mn_listener_open(const struct mn_config *config, const struct mn_device *device,
                             void *handle, struct mn_listener **listener, struct mn_diag *diag);
/* Takes new sockets, advances the candidates. MN_OK: *conn is ready, the caller's; MN_ERR_AGAIN:
 * not yet. A candidate that fails is dropped and only logged: anybody can connect to a port. */
enum mn_err mn_listener_step(struct mn_listener *listener, struct mn_conn **conn,
                             struct mn_diag *diag);
void mn_listener_close(struct mn_listener *listener);

/* Listens at n addresses, at one port of the range: n descriptors in fds, or none. whose: for the
 * error. */
enum mn_err mn_listen_all(const struct mn_ports *range, const char *whose,
                          const struct mn_local *locals, int n, int *fds, uint16_t *port,
                          struct mn_diag *diag);

/* Advances the connection that handle names, starting it at the first call (progress is found again
 * through the handle's scratch field). MN_OK: *conn is ready, the caller's; MN_ERR_AGAIN: call
 * again; else it failed for good and is forgotten. */
enum mn_err mn_dialer_step(const struct mn_config *config, const struct mn_device *device,
                           int traffic_class, void *handle, struct mn_conn **conn,
                           struct mn_diag *diag);
/* 1 when the peer's host has taken the connection that handle names, accepted or not. */
int mn_dialer_answered(const struct mn_config *config, const void *handle);
/* What an attempt at it has failed by so far, as if its time had passed; MN_ERR_AGAIN: by nothing,
 * or the peer is waited for. */
enum mn_err mn_dialer_cause(const struct mn_config *config, const void *handle,
                            struct mn_diag *diag);
/* Gives up the connection that handle names, if there is one. */
void mn_dialer_forget(const struct mn_config *config, const void *handle);
/* Forgets connections of this configuration that were begun and not asked after for longer than
 * two connect timeouts, but for those that the acceptor may have accepted. */
void mn_dialer_sweep(const struct mn_config *config);
/* Gives up all connections of this configuration. */
void mn_dialer_drop(const struct mn_config *config);

/* A side of the handshake as this process sees itself. */
void mn_side_self(const struct mn_config *config, const struct mn_device *device,
                  struct mn_side *side);
/* The device's addresses, and behind them those of the others, as far as there is room: NCCL takes
 * devices in turn, whatever they are cabled to. Returns how many. */
int mn_locals_all(const struct mn_config *config, const struct mn_device *device,
                  struct mn_local locals[MN_MAX_LOCALS]);

#endif
