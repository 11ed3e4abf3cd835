/* Whether the packets of a mesh pass this host's firewall, by the rules that "nft -j list ruleset"
 * prints. Rules that match by more than names, addresses and ports may or may not hold: what
 * depends on them is not sure. */
#ifndef MN_NFT_H
#define MN_NFT_H

#include <cjson/cJSON.h>

#include "topo/nic.h"

/* The first packet of something new. */
struct mn_nft_packet {
    const char *in, *out; /* netdevs; NULL = to or from this host itself */
    struct mn_addr from, to;
    const char *protocol; /* "tcp", "udp" */
    int port;             /* its destination */
};

enum mn_nft_verdict { MN_NFT_PASSES, MN_NFT_MAY_DROP, MN_NFT_DROPS };

/* where: of what drops it, "chain input of table inet filter". */
enum mn_nft_verdict mn_nft_judge(const cJSON *ruleset, const struct mn_nft_packet *packet,
                                 char *where, size_t size);
/* This host's, the caller's to cJSON_Delete. MN_ERR_UNSUPPORTED without nft, or without the right
 * to ask it. */
enum mn_err mn_nft_read(cJSON **ruleset, struct mn_diag *diag);

#endif
