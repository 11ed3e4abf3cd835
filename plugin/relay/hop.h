/* A data connection between neighbours: listen or dial, by steps, until there is a comm. Directly
 * over their cables: no other way of reaching is taken. Hops are independent of each other and may
 * be used by different threads. */
#ifndef MN_RELAY_HOP_H
#define MN_RELAY_HOP_H

#include "plugin/relay/relay.h"
#include "plugin/transport.h"

struct mn_hop;

/* key: the line's, in place of the cluster key. device: one of config's, whose addresses are
 * listened at. Both copy what they need, and hops of one config and key share it. handle:
 * MN_HANDLE_SIZE bytes. */
enum mn_err mn_hop_listen(const struct mn_config *config, const struct mn_device *device,
                          const uint8_t key[MN_KEY_SIZE], void *handle, struct mn_hop **hop,
                          struct mn_diag *diag);
/* MN_ERR_PROTO: a handle that the line's key has not signed. */
enum mn_err mn_hop_dial(const struct mn_config *config, const struct mn_device *device,
                        const uint8_t key[MN_KEY_SIZE], const void *handle, struct mn_hop **hop,
                        struct mn_diag *diag);
/* MN_OK: *comm is there, and stays the hop's; MN_ERR_AGAIN; else it failed, and stays so. Bounded
 * by transport.connect, and who has dialled by transport.handshake more. A listener makes one comm.
 */
enum mn_err mn_hop_step(struct mn_hop *hop, struct mn_comm **comm, struct mn_diag *diag);
/* In any state, without waiting; NULL is ignored. Closes the comm; what was registered on it has
 * been given back before, or was noted (mn_comm_note). */
void mn_hop_close(struct mn_hop *hop);
/* All hops of the config are closed: waits for what transports have left to do for them. */
void mn_hop_settle(const struct mn_config *config);
/* No transport has a thread any more: frees what those may have used. */
void mn_hop_quit(void);

#endif
