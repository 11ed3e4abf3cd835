/* A link that is silent while something waits for it, told at WARN once when it begins and once
 * when it ends. who is "send to peer P, link L (…)". */
#ifndef MN_OUTAGE_H
#define MN_OUTAGE_H

#include <stdint.h>

/* Of a bound in ms: as much of the time between two looks may be waiting. */
#define MN_UNSEEN(bound) ((bound) / 8 > 1000 ? (bound) / 8 : 1000)

struct mn_outage {
    uint64_t since_ms, told_ms; /* told_ms 0: none */
};

/* what: "the port is down". bound_ms: how long silence is borne at most. */
void mn_outage_begin(struct mn_outage *outage, uint64_t since_ms, uint64_t now_ms,
                     unsigned bound_ms, const char *who, const char *what);
void mn_outage_end(struct mn_outage *outage, uint64_t now_ms, const char *who);

#endif
