#include "topo/base/sha256.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "topo/base/alloc.h"

enum mn_err mn_sha256_file(const char *path, char hex[65], struct mn_diag *diag)
{
    uint8_t digest[crypto_hash_sha256_BYTES];
    char *data;
    size_t len;
    enum mn_err err = mn_file_read(path, (size_t)1 << 30, &data, &len, diag);

    if (err)
        return err;
    crypto_hash_sha256(digest, (const uint8_t *)data, len);
    free(data);
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return MN_OK;
}
