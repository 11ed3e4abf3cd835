#include "fleet/relay/flows.h"

#include <string.h>

static unsigned bucket(const struct mn_flows *flows, const struct mn_relay_flow *flow, uint8_t way)
{
    uint64_t half[2];

    memcpy(half, flow->id, sizeof half);
    uint64_t mixed = (half[0] ^ flows->salt) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 29 ^ half[1]) * 0xbf58476d1ce4e5b9u;
    return (unsigned)((mixed ^ mixed >> 32 ^ way) % MN_FLOW_BUCKETS);
}

struct mn_flow_key *mn_flows_find(const struct mn_flows *flows, const struct mn_relay_flow *flow,
                                  uint8_t way)
{
    struct mn_flow_key *key = flows->buckets[bucket(flows, flow, way)];

    while (key && (key->way != way || memcmp(&key->flow, flow, sizeof *flow) != 0))
        key = key->next;
    return key;
}

void mn_flows_add(struct mn_flows *flows, struct mn_flow_key *key)
{
    struct mn_flow_key **at = &flows->buckets[bucket(flows, &key->flow, key->way)];

    key->next = *at;
    *at = key;
    flows->count++;
}

void mn_flows_remove(struct mn_flows *flows, struct mn_flow_key *key)
{
    struct mn_flow_key **at = &flows->buckets[bucket(flows, &key->flow, key->way)];

    while (*at && *at != key)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = key->next;
    key->next = NULL;
    flows->count--;
}
