/* Keyed message authentication for handles and handshakes: libsodium's BLAKE2b with a key of 128
 * bits, an output of 64 or 128 and a purpose of its own for each. Authenticates, does not encrypt.
 */
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

/* A key of 32 bytes for one purpose, of at most 15 characters, out of a key and what it belongs to.
 */
void mn_derive(const uint8_t key[MN_KEY_SIZE], const char *purpose, const void *data, size_t len,
               uint8_t derived[32]);

/* 1 when equal; time does not depend on where they differ. */
int mn_mac_equal(const void *a, const void *b, size_t len);

/* Overwrites what is secret, whatever the compiler thinks of it. */
void mn_wipe(void *secret, size_t len);

/* getrandom(); MN_ERR_SYS when the kernel has none or libsodium does not start. */
enum mn_err mn_random(void *buf, size_t len, struct mn_diag *diag);

/* A shell command that prints a key, for messages: every Linux has it. */
#define MN_KEY_MAKE "od -An -N16 -tx1 /dev/urandom | tr -d ' '"

/* A key or token file: 32 hexadecimal digits (128 bits), white space around them allowed. Refused
 * with how to make one: other lengths, and bytes that are all the same. In place of a file that
 * this process may not read its credential is taken (systemd.exec(5), LoadCredential=) whose name
 * is the path with - for each /: etc-meshnet-key for /etc/meshnet/key. */
enum mn_err mn_key_read(const char *path, uint8_t key[MN_KEY_SIZE], struct mn_diag *diag);
enum mn_err mn_key_parse(const char *text, uint8_t key[MN_KEY_SIZE], struct mn_diag *diag);
/* Standard input becomes a pipe with the key as such a file: neither command lines nor environments
 * show it. */
enum mn_err mn_key_to_stdin(const uint8_t key[MN_KEY_SIZE], struct mn_diag *diag);

#endif
