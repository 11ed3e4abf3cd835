/* Verbs of a node asked over an authenticated control connection: what meshnet serve answers. A
 * text goes in parts, in base64, since a message has a bound and is made fit to be shown on its
 * way. */
#ifndef MN_NODE_AGENT_H
#define MN_NODE_AGENT_H

#include "fleet/ctl.h"
#include "fleet/node.h"

/* The client's side: sends the question and writes what mn_node_stream writes there on standard
 * output, and what the verb said meanwhile on standard error. */
enum mn_err mn_node_agent_ask(struct mn_ctl *ctl, const struct mn_node_verb *verb, const char *ask,
                              size_t size, struct mn_diag *diag);

/* Whether a client's first message asks for a verb. */
int mn_node_agent_asked(const cJSON *first);
/* serve's side, in the client's own process. manage: verbs that change the host may run, else the
 * answer is an error that says how to allow it; those not_by_agents never do. Ends with the
 * connection, but for such a verb, which goes on without it. */
enum mn_err mn_node_agent_serve(struct mn_ctl *ctl, const cJSON *first, int manage,
                                unsigned idle_ms, struct mn_diag *diag);

#endif
