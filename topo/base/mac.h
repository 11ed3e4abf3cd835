/* Keyed message authentication for handshakes: SipHash-2-4 (Aumasson, Bernstein 2012), 64- and
 * 128-bit outputs. A PRF for short inputs; authenticates, does not encrypt. */
#ifndef MN_BASE_MAC_H
#define MN_BASE_MAC_H

#include <stddef.h>
#include <stdint.h>

#include "topo/base/err.h"

#define MN_KEY_SIZE 16
#define MN_MAC_SIZE 16

uint64_t mn_mac64(const uint8_t key[MN_KEY_SIZE], const void *data, size_t len);
void mn_mac128(const uint8_t key[MN_KEY_SIZE], const void *data, size_t len,
               uint8_t mac[MN_MAC_SIZE]);

/* 1 when equal; time does not depend on where they differ. */
int mn_mac_equal(const void *a, const void *b, size_t len);

/* getrandom(); MN_ERR_SYS when the kernel has none. */
enum mn_err mn_random(void *buf, size_t len, struct mn_diag *diag);

/* A key or token file: 32 hexadecimal digits (128 bits), white space around them allowed. */
enum mn_err mn_key_read(const char *path, uint8_t key[MN_KEY_SIZE], struct mn_diag *diag);
enum mn_err mn_key_parse(const char *text, uint8_t key[MN_KEY_SIZE], struct mn_diag *diag);
/* Standard input becomes a pipe with the key as such a file: neither command lines nor environments
 * show it. */
enum mn_err mn_key_to_stdin(const uint8_t key[MN_KEY_SIZE], struct mn_diag *diag);

#endif
