/* A data connection between neighbours: listen or dial, by steps, until there is a comm. Directly
 * over their cables: no other way of reaching is taken. */
#ifndef MN_RELAY_HOP_H
#define MN_RELAY_HOP_H

#include "plugin/relay/relay.h"
#include "plugin/transport.h"

struct mn_hop;

/* key: the line's, in place of the cluster key. device: of config, whose addresses are listened at.
 * Both copy what they need. handle: MN_HANDLE_SIZE bytes. */
enum mn_err mn_hop_listen(const struct mn_config *config, const struct mn_device *device,
                          const uint8_t key[MN_KEY_SIZE], void *handle, struct mn_hop **hop,
                          struct mn_diag *diag);
enum mn_err mn_hop_dial(const struct mn_config *config, const struct mn_device *device,
                        const uint8_t key[MN_KEY_SIZE], const void *handle, struct mn_hop **hop,
                        struct mn_diag *diag);
/* MN_OK: *comm is there, to be closed before the hop is; MN_ERR_AGAIN; else it failed. Bounded by
 * transport.connect. */
enum mn_err mn_hop_step(struct mn_hop *hop, struct mn_comm **comm, struct mn_diag *diag);
/* In any state; the comm, which works with the hop's copies, is closed with it. */
void mn_hop_close(struct mn_hop *hop);

#endif
