/* The control connection between bench and serve: JSON over TCP, authenticated both ways by a
 * shared token before anything is believed, and sealed from then on: what was changed, left out,
 * repeated or moved on the way is an error of whoever receives it. Every wait has a deadline. */
#ifndef MN_CTL_H
#define MN_CTL_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "fleet/seal.h"
#include "topo/base/mac.h"
#include "topo/nic.h"

#define MN_CTL_PORT      18515
#define MN_CTL_FRAME_MAX (64u << 10)

struct mn_ctl {
    int fd;
    char peer[128];         /* for messages */
    struct mn_seal in, out; /* from authentication on */
};

/* Listens at an address; *fd is non-blocking. port 0: any, at other addresses than loopback of
 * plugin.port_range. */
enum mn_err mn_ctl_listen(const struct mn_addr *addr, uint16_t port, int *fd, struct mn_diag *diag);
/* Connects to HOST (name or address) within timeout_ms. */
enum mn_err mn_ctl_connect(const char *host, uint16_t port, unsigned timeout_ms, struct mn_ctl *ctl,
                           struct mn_diag *diag);
/* Tells the peer that nothing more comes, and closes. */
void mn_ctl_close(struct mn_ctl *ctl);
/* Closes this process's descriptor without a word: the connection goes on in another. */
void mn_ctl_drop(struct mn_ctl *ctl);
/* Tells the peer that nothing more comes; messages can still be received. Does not wait. */
void mn_ctl_finish(struct mn_ctl *ctl);
/* From now on a peer that vanishes without a word counts as gone within 8 s. */
void mn_ctl_watch(const struct mn_ctl *ctl);

/* Proves knowledge of the token to the other side and checks that it has it too. server: 1 for the
 * side that accepted. MN_ERR_AUTH when the tokens differ. Once more over the same connection: from
 * here on for whoever is at the other end now. */
enum mn_err mn_ctl_authenticate(struct mn_ctl *ctl, int server, const uint8_t token[MN_KEY_SIZE],
                                unsigned timeout_ms, struct mn_diag *diag);
/* Connects as a client and authenticates, within timeout_ms each. A server that closes before it
 * has given its verdict, as one does for whom many strangers are at the door, is asked again
 * meanwhile. */
enum mn_err mn_ctl_reach(const char *host, uint16_t port, const uint8_t token[MN_KEY_SIZE],
                         unsigned timeout_ms, struct mn_ctl *ctl, struct mn_diag *diag);

/* Sends and frees the message; ends within 10 s. */
enum mn_err mn_ctl_send(struct mn_ctl *ctl, cJSON *message, struct mn_diag *diag);
/* Receives one message, the caller's to cJSON_Delete, its texts fit to be shown. A message
 * {"error": text} of the peer becomes MN_ERR_FAILED with that text. MN_ERR_PEER_DEAD when the peer
 * has closed the connection or it ended without a word, MN_ERR_AUTH when what came is not what it
 * sent. */
enum mn_err mn_ctl_receive(struct mn_ctl *ctl, unsigned timeout_ms, cJSON **message,
                           struct mn_diag *diag);
/* 1 when the peer has closed the connection, it ended, or its next message is damaged or will not
 * be whole; does not wait. */
int mn_ctl_gone(const struct mn_ctl *ctl);

/* Fields of a message, checked: MN_ERR_PROTO names the field when it is missing or out of range. */
enum mn_err mn_ctl_number(const cJSON *message, const char *key, double min, double max,
                          double *value, struct mn_diag *diag);

#endif
