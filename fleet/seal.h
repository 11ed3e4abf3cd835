/* One way of a connection, sealed by libsodium's crypto_secretstream (XChaCha20-Poly1305): records
 * open in the order in which they were sealed. One that was changed, left out, repeated or moved on
 * the way does not, and none after it. */
#ifndef MN_SEAL_H
#define MN_SEAL_H

#include <sodium/crypto_secretstream_xchacha20poly1305.h>
#include <stddef.h>
#include <stdint.h>

#define MN_SEAL_KEY    crypto_secretstream_xchacha20poly1305_KEYBYTES
#define MN_SEAL_HEADER crypto_secretstream_xchacha20poly1305_HEADERBYTES
#define MN_SEAL_EXTRA  crypto_secretstream_xchacha20poly1305_ABYTES /* of a record */

enum mn_seal_life { MN_SEAL_NONE, MN_SEAL_OPEN, MN_SEAL_ENDED, MN_SEAL_BROKEN };

struct mn_seal {
    enum mn_seal_life life;
    crypto_secretstream_xchacha20poly1305_state state;
};

/* The key is for this stream alone. The header is made by the sealing side and not secret. */
void mn_seal_out(struct mn_seal *seal, const uint8_t key[MN_SEAL_KEY],
                 uint8_t header[MN_SEAL_HEADER]);
void mn_seal_in(struct mn_seal *seal, const uint8_t key[MN_SEAL_KEY],
                const uint8_t header[MN_SEAL_HEADER]);

/* Writes len + MN_SEAL_EXTRA bytes. last: nothing comes behind it, which ends the life. */
void mn_seal_put(struct mn_seal *seal, const void *data, size_t len, int last, uint8_t *record);
/* Opens a record of len + MN_SEAL_EXTRA bytes. 0: it is not what was sealed, which breaks the life;
 * data holds nothing of it then. */
int mn_seal_get(struct mn_seal *seal, const uint8_t *record, size_t len, void *data);

#endif
