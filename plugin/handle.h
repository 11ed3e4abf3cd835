/* The 128 bytes that listen() writes and NCCL carries to the connecting rank. Little-endian:
 *
 *   0 magic 4 | 4 version 2 | 6 flags 2 | 8 nonce 16 | 24 node id 8 | 32 instance 4 | 36 port 2
 *   38 cells used 1 | 39 capabilities 1 | 40 cells 8 x 8 | 104 scratch 8 | 112 check 8 | 120 zero 8
 *
 * A cell is {ip4 4, prefix 1, speed code 1, nic 1, flags 1}; an IPv6 address has its flag set, zero
 * for ip4, and its 16 bytes in the two cells behind. The check is a keyed MAC over bytes 0..103
 * (cluster key, else a public constant: then it only finds damage). The scratch field belongs to
 * the connecting side; it holds a ticket that is looked up, never a pointer: these bytes came over
 * a network. */
#ifndef MN_HANDLE_H
#define MN_HANDLE_H

#include "plugin/config.h"
#include "plugin/net.h"

#define MN_NONCE_SIZE 16

struct mn_handle {
    uint8_t nonce[MN_NONCE_SIZE];
    uint64_t node_id;
    uint32_t instance;
    uint16_t port;
    uint64_t scratch;
    struct mn_local locals[MN_MAX_LOCALS]; /* addr, nic and speed only */
    int n_locals;
    int truncated; /* more addresses exist than fit; the rest comes with the handshake */
};

/* Writes exactly MN_HANDLE_SIZE bytes at any alignment. */
void mn_handle_write(const struct mn_handle *handle, const uint8_t key[MN_KEY_SIZE], void *bytes);
/* MN_ERR_PROTO when magic, version, check or any field is not as written above. */
enum mn_err mn_handle_read(const void *bytes, const uint8_t key[MN_KEY_SIZE],
                           struct mn_handle *handle, struct mn_diag *diag);
void mn_handle_set_scratch(void *bytes, uint64_t scratch);

/* Speed code of a cell: 0 unknown, else about 12 steps a decade. */
uint8_t mn_speed_encode(long mbps);
long mn_speed_decode(uint8_t code);

#endif
