/* What one NIC sends to whoever is at the other end of its cable, before there are addresses:
 *
 *    0 "MNPB"  4 version  5 way  6 bytes with padding (16 bits)  8 bytes without (16)  10 zero (16)
 *   12 MAC of the bytes without padding, itself taken as zero (16 bytes)
 *   28 run (64)  36 session (64)  44 sequence (32)  48 begun (64)  56 content (64)
 *   64 index of the node in the run, or 255  65 NIC of its node  66 kind  67 lengths of the texts:
 *      node, 68 netdev  69 heard  70 MAC address (6)  76 MTU (16)  78 zero (16)  80 Mb/s (32)
 *   84 node, netdev, then for each heard: session (64), NIC (8), zero (8), MTU (16)
 *
 * Numbers in network order. Padding fills a probe up to the size that is being tried. */
#ifndef MN_PROBE_FRAME_H
#define MN_PROBE_FRAME_H

#include "topo/base/mac.h"
#include "topo/survey.h"

#define MN_PROBE_FRAME_MAX 65536
#define MN_PROBE_HEARD_MAX 64
#define MN_PROBE_NODES_MAX 64 /* bits of begun and content */
#define MN_PROBE_NO_INDEX  255

/* One whom the sender has heard at this NIC. */
struct mn_probe_echo {
    uint64_t session;
    uint8_t nic;
    uint16_t mtu; /* of the largest probe that came */
};

struct mn_probe_frame {
    enum mn_survey_way way;  /* of sending: one way's frame is none of the other's */
    uint64_t run;            /* 0: one that nobody leads */
    uint64_t session;        /* of the sending process, by chance */
    uint32_t sequence;       /* grows from frame to frame of a session */
    uint64_t begun, content; /* bits of the run's nodes, by index: as far as the sender knows */
    uint8_t index, nic;
    enum mn_nic_kind kind;
    char node[MN_NAME_MAX], netdev[IF_NAMESIZE];
    uint8_t mac[6];
    uint16_t mtu; /* of the NIC; more than fits stands as 65535 */
    uint32_t speed_mbps;
    uint8_t n_heard;
    struct mn_probe_echo heard[MN_PROBE_HEARD_MAX];
};

/* What frames of a run are authenticated with. */
void mn_probe_key(const uint8_t secret[MN_KEY_SIZE], uint64_t run, uint8_t key[MN_KEY_SIZE]);
/* Into buf, zeros up to size bytes; 0 when it does not fit into size. size < MN_PROBE_FRAME_MAX. */
size_t mn_probe_frame_write(const struct mn_probe_frame *frame, const uint8_t key[MN_KEY_SIZE],
                            uint8_t *buf, size_t size);

enum mn_probe_verdict {
    MN_PROBE_NOISE,    /* not of meshnet, or not of this version */
    MN_PROBE_STRANGER, /* of another run, forged or damaged: nothing of it is believed */
    MN_PROBE_GOOD
};
/* Reads what came in: bytes of a stranger. *frame is filled only when it is good, its texts fit to
 * be shown and without '/'. */
enum mn_probe_verdict mn_probe_frame_read(const uint8_t *data, size_t len, enum mn_survey_way way,
                                          uint64_t run, const uint8_t key[MN_KEY_SIZE],
                                          struct mn_probe_frame *frame);

#endif
