/* Ways of flows that a relay knows, found by flow and number. */
#ifndef MN_RELAY_FLOWS_H
#define MN_RELAY_FLOWS_H

#include "plugin/relay/relay.h"

/* First member of what is kept. */
struct mn_flow_key {
    struct mn_relay_flow flow;
    uint8_t way;
    struct mn_flow_key *next;
};

#define MN_FLOW_BUCKETS 1024

struct mn_flows {
    struct mn_flow_key *buckets[MN_FLOW_BUCKETS];
    uint64_t salt; /* of who comes nobody knows it */
    unsigned count;
};

struct mn_flow_key *mn_flows_find(const struct mn_flows *flows, const struct mn_relay_flow *flow,
                                  uint8_t way);
/* It is none that is there. */
void mn_flows_add(struct mn_flows *flows, struct mn_flow_key *key);
/* One that is not there stays so. */
void mn_flows_remove(struct mn_flows *flows, struct mn_flow_key *key);

#endif
