/* The relay's constants and words: docs/relay.md has the design. tests/models/relay.pml is checked
 * against these by a test. */
#ifndef MN_RELAY_H
#define MN_RELAY_H

#include <stdint.h>

#include "plugin/net.h"

#define MN_RELAY_VERSION  1
#define MN_RELAY_MAX      8 /* relays on a way */
#define MN_RELAY_NODES    (MN_RELAY_MAX + 2)
#define MN_RELAY_CLASSES  (MN_RELAY_MAX - 1) /* trunks on a way: a piece's class on each */
#define MN_RELAY_WAYS     4                  /* ways of a flow */
#define MN_RELAY_PIECE    (256u << 10)       /* bytes of a bulk piece */
#define MN_RELAY_SMALL    (64u << 10)        /* a receive no larger is small: one piece */
#define MN_RELAY_AHEAD    8 /* pieces of a receive announced before its size is known */
#define MN_RELAY_OVERTAKE 8 /* small pieces before a bulk one that waits */
#define MN_RELAY_BUFFERS                                                                           \
    8 /* posted for each class and kind of a trunk, and each kind of an                            \
         edge; of an edge fewer, but two at least, when memory is short */
#define MN_RELAY_PING_MS  1000
#define MN_RELAY_KEEPS    4    /* of relay.silence: who takes nothing and has the last buffers, */
#define MN_RELAY_KEEPS_MS 1000 /* … but so long at least */

enum mn_relay_kind { MN_RELAY_BULK, MN_RELAY_SMALL_ONES, MN_RELAY_KINDS };
enum mn_relay_role { MN_RELAY_SENDER = 1, MN_RELAY_RECEIVER };

static inline uint32_t mn_relay_bytes(enum mn_relay_kind kind)
{
    return kind == MN_RELAY_BULK ? MN_RELAY_PIECE : MN_RELAY_SMALL;
}

/* What names a flow on every line. */
struct mn_relay_flow {
    uint8_t id[16];
};

/* Nodes of the mesh file by index, both ends included; no node twice. */
struct mn_relay_way {
    int n;
    uint16_t nodes[MN_RELAY_NODES];
};

static inline int mn_relay_way_is_simple(const struct mn_relay_way *way)
{
    for (int i = 0; i < way->n; i++)
        for (int k = 0; k < i; k++)
            if (way->nodes[i] == way->nodes[k])
                return 0;
    return 1;
}

#endif
