/* Inside of bench/p2p: what both sides put into control messages. */
#ifndef MN_P2P_MESSAGE_H
#define MN_P2P_MESSAGE_H

#include "bench/p2p/pump.h"

cJSON *mn_p2p_message(const char *op);
/* Sends and frees the message, waits for the answer named by op; *reply is the caller's, NULL:
 * dropped. */
enum mn_err mn_p2p_ask(struct mn_ctl *ctl, unsigned timeout_ms, cJSON *message, const char *op,
                       cJSON **reply, struct mn_diag *diag);
/* Handles as a list of hexadecimal texts. */
void mn_p2p_put_handles(cJSON *message, const struct mn_p2p_pump *pump);
enum mn_err mn_p2p_get_handles(const cJSON *message, struct mn_p2p_pump *pump,
                               struct mn_diag *diag);
/* This side, with its environment. */
void mn_p2p_put_end(cJSON *message, const struct mn_p2p_pump *pump);
void mn_p2p_get_end(const cJSON *message, struct mn_p2p_end *end, struct mn_environment *env);
/* This side's end, without counters. */
void mn_p2p_own_end(const struct mn_p2p_pump *pump, struct mn_p2p_end *end);
void mn_p2p_put_nics(cJSON *message, const struct mn_p2p_nic *nics, int count);
/* NICs and the plugin's last warning. */
void mn_p2p_get_counters(const cJSON *message, struct mn_p2p_end *end);

#endif
