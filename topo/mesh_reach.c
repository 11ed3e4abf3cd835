#include "topo/mesh.h"

const char *mn_reach_barred_by(enum mn_reach reach, enum mn_transport_kind kind,
                               enum mn_allow_tcp allow_tcp)
{
    return reach == MN_REACH_DIRECT     ? "transport.reach: direct"
           : reach == MN_REACH_RELAY    ? "transport.reach: relay"
           : kind == MN_TRANSPORT_VERBS ? "transport.kind: verbs"
           : allow_tcp == MN_TCP_NEVER  ? "transport.allow_tcp: false"
                                        : NULL;
}

int mn_reach_ways(const struct mn_settings *settings)
{
    return settings->relay_ways ? settings->relay_ways : 2;
}

int mn_reach_relays(const struct mn_settings *settings)
{
    return settings->reach == MN_REACH_RELAY ||
           (settings->reach == MN_REACH_AUTO && settings->key_file[0]);
}
