/* The control connection between bench and serve: framed JSON over TCP, authenticated both ways by
 * a shared token before anything is believed. Every wait has a deadline. */
#ifndef MN_CTL_H
#define MN_CTL_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "topo/base/mac.h"
#include "topo/nic.h"

#define MN_CTL_PORT 18515
/* Sent instead of a greeting, 24 bytes long, by a server that has no place. */
#define MN_CTL_BUSY      "MNBUSY\0\1                "
#define MN_CTL_FRAME_MAX (64u << 10)

struct mn_ctl {
    int fd;
    char peer[128]; /* for messages */
};

/* Listens at an address; *fd is non-blocking. */
enum mn_err mn_ctl_listen(const struct mn_addr *addr, uint16_t port, int *fd, struct mn_diag *diag);
/* Connects to HOST (name or address) within timeout_ms. */
enum mn_err mn_ctl_connect(const char *host, uint16_t port, unsigned timeout_ms, struct mn_ctl *ctl,
                           struct mn_diag *diag);
void mn_ctl_close(struct mn_ctl *ctl);
/* From now on a peer that vanishes without a word counts as gone within 8 s. */
void mn_ctl_watch(const struct mn_ctl *ctl);

/* Proves knowledge of the token to the other side and checks that it has it too. server: 1 for the
 * side that accepted. MN_ERR_AUTH when the tokens differ. */
enum mn_err mn_ctl_authenticate(struct mn_ctl *ctl, int server, const uint8_t token[MN_KEY_SIZE],
                                unsigned timeout_ms, struct mn_diag *diag);

/* Sends and frees the message. */
enum mn_err mn_ctl_send(struct mn_ctl *ctl, cJSON *message, struct mn_diag *diag);
/* Receives one message, the caller's to cJSON_Delete. A message {"error": text} of the peer becomes
 * MN_ERR_FAILED with that text. */
enum mn_err mn_ctl_receive(struct mn_ctl *ctl, unsigned timeout_ms, cJSON **message,
                           struct mn_diag *diag);
/* 1 when the peer has closed the connection; does not wait. */
int mn_ctl_gone(const struct mn_ctl *ctl);

/* Fields of a message, checked: MN_ERR_PROTO names the field when it is missing or out of range. */
enum mn_err mn_ctl_number(const cJSON *message, const char *key, double min, double max,
                          double *value, struct mn_diag *diag);

#endif
