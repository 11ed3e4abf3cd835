#include "fleet/seal.h"

#include <string.h>

void mn_seal_out(struct mn_seal *seal, const uint8_t key[MN_SEAL_KEY],
                 uint8_t header[MN_SEAL_HEADER])
{
    (void)crypto_secretstream_xchacha20poly1305_init_push(&seal->state, header, key);
    seal->life = MN_SEAL_OPEN;
}

void mn_seal_in(struct mn_seal *seal, const uint8_t key[MN_SEAL_KEY],
                const uint8_t header[MN_SEAL_HEADER])
{
    (void)crypto_secretstream_xchacha20poly1305_init_pull(&seal->state, header, key);
    seal->life = MN_SEAL_OPEN;
}

void mn_seal_put(struct mn_seal *seal, const void *data, size_t len, int last, uint8_t *record)
{
    uint8_t tag = last ? crypto_secretstream_xchacha20poly1305_TAG_FINAL
                       : crypto_secretstream_xchacha20poly1305_TAG_MESSAGE;

    (void)crypto_secretstream_xchacha20poly1305_push(&seal->state, record, NULL, data, len, NULL, 0,
                                                     tag);
    if (last)
        seal->life = MN_SEAL_ENDED;
}

int mn_seal_get(struct mn_seal *seal, const uint8_t *record, size_t len, void *data)
{
    unsigned char tag;

    if (seal->life != MN_SEAL_OPEN)
        return 0;
    if (crypto_secretstream_xchacha20poly1305_pull(&seal->state, data, NULL, &tag, record,
                                                   len + MN_SEAL_EXTRA, NULL, 0)) {
        memset(data, 0, len);
        seal->life = MN_SEAL_BROKEN;
        return 0;
    }
    if (tag == crypto_secretstream_xchacha20poly1305_TAG_FINAL)
        seal->life = MN_SEAL_ENDED;
    return 1;
}
