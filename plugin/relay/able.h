/* Whether this side may reach a peer by the relay: what it tells in LINKS, before the plan. */
#ifndef MN_RELAY_ABLE_H
#define MN_RELAY_ABLE_H

#include "plugin/plan.h"

#define MN_RELAY_FORGET_MS 60000

/* Whether a relay can be had at all: the mesh file, the settings, the cluster key or the local
 * socket of a relayd, and whether it has failed lately between this side and the peer, whose
 * node_id it is. Asks the kernel for the socket. Any thread. */
enum mn_relay_able mn_relay_able(const struct mn_config *config, uint64_t peer);

/* It failed: for a minute the peer is reached without it. why is kept for messages. */
void mn_relay_note_failed(uint64_t peer, const char *why);
/* 1 when it did; why: what was said (may be NULL). */
int mn_relay_lately_failed(uint64_t peer, char *why, size_t size);

#endif
