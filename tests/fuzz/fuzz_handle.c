/* Any 128 bytes as a handle, and any 64 as a short one: refused, or read as what writing them again
 * gives. */
#include <stdlib.h>
#include <string.h>

#include "plugin/handle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_short(const uint8_t *data, size_t size)
{
    static const uint8_t key[MN_KEY_SIZE] = {1};
    uint8_t bytes[MN_SHORT_HANDLE_SIZE] = {0}, again[MN_SHORT_HANDLE_SIZE];
    struct mn_handle h, twice;

    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    if (size && data[size - 1] & 1) {
        uint64_t mac = mn_mac64(key, bytes, 60);
        memcpy(bytes + 60, &mac, 4);
    }
    if (mn_handle_read_short(bytes, key, &h, NULL))
        return;
    mn_handle_write_short(&h, key, again);
    if (mn_handle_read_short(again, key, &twice, NULL) || twice.n_locals != h.n_locals ||
        twice.port != h.port)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t key[MN_KEY_SIZE] = {1};
    uint8_t bytes[MN_HANDLE_SIZE] = {0}, again[MN_HANDLE_SIZE];
    struct mn_handle h;

    read_short(data, size);
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    /* A right check sum, so that what lies behind it is reached too. */
    if (size && data[size - 1] & 1) {
        uint64_t mac = mn_mac64(key, bytes, 104);
        memcpy(bytes + 112, &mac, 8);
        memset(bytes + 120, 0, 8);
    }
    if (mn_handle_read(bytes, key, &h, NULL))
        return 0;
    mn_handle_write(&h, key, again);
    struct mn_handle twice;
    if (mn_handle_read(again, key, &twice, NULL) || twice.n_locals != h.n_locals ||
        twice.port != h.port)
        abort();
    return 0;
}
