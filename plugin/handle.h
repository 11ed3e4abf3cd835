/* The 128 bytes that listen() writes and NCCL carries to the connecting rank. Little-endian:
 *
 *   0 magic 4 | 4 version 2 | 6 flags 2 | 8 nonce 16 | 24 node id 8 | 32 instance 4 | 36 port 2
 *   38 cells used 1 | 39 capabilities 1 | 40 cells 8 x 8 | 104 scratch 8 | 112 check 8 | 120 zero 8
 *
 * A cell is {ip4 4, prefix 1, speed code 1, nic 1, flags 1}; an IPv6 address has its flag set, zero
 * for ip4, and its 16 bytes in the two cells behind. The other flags are the address's place in the
 * GID table of its port plus one, 0 when there is none below 127: for messages only, when no
 * connection can be had over which the whole table would come. A cell of NIC 255 is a far address,
 * for those without a common cable. Each cable's first address comes first, then far ones, then
 * further cables to the same node (by the mesh file) and what else a cable has, as long as there is
 * room. The check is a keyed MAC over bytes 0..103
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
    struct mn_local locals[MN_MAX_LOCALS]; /* addr, nic, speed, gid_index; spare to write it */
    int n_locals;
    struct mn_local far[MN_MAX_FAR]; /* addr only */
    int n_far;
    int truncated; /* more addresses exist than fit; the rest comes with the handshake */
};

/* Writes exactly MN_HANDLE_SIZE bytes at any alignment. key: of MN_KEY_SIZE bytes, NULL when the
 * mesh has none. */
void mn_handle_write(const struct mn_handle *handle, const uint8_t *key, void *bytes);
/* MN_ERR_PROTO when magic, version, check or any field is not as written above. */
enum mn_err mn_handle_read(const void *bytes, const uint8_t *key, struct mn_handle *handle,
                           struct mn_diag *diag);
void mn_handle_set_scratch(void *bytes, uint64_t scratch);

/* The 64 bytes of v4:
 *
 *   0 magic 2 | 2 addresses 1, 128 more: others exist | 3 port 2 | 5 node id 8 | 13 nonce 16
 *   29 addresses 31 | 60 check 4
 *
 * An address is {prefix 1, bytes 4}, {100 + prefix, bytes 16}, or {240, bytes 4} for a far one: six
 * of IPv4 fit, or one of each family and two more of IPv4. Each cable's first one is taken before
 * far ones, those before any second one, IPv4 before IPv6, since the peer may be at the end of just
 * that cable; speeds and the rest come with the handshake. No scratch: whoever connects keeps his
 * state himself. */
void mn_handle_write_short(const struct mn_handle *handle, const uint8_t *key, void *bytes);
enum mn_err mn_handle_read_short(const void *bytes, const uint8_t *key, struct mn_handle *handle,
                                 struct mn_diag *diag);

/* Speed code of a cell: 0 unknown, else about 12 steps a decade. */
uint8_t mn_speed_encode(long mbps);
long mn_speed_decode(uint8_t code);

#endif
