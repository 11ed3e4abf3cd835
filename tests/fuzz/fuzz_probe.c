/* Any bytes as a probe: without the key none is believed. And as one whose sender has it, for which
 * the fuzzer's bytes get their MAC here: then what is read can be written again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/probe_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RUN 0x0102030405060708u

static const uint8_t key[MN_KEY_SIZE] = {9, 8, 7};

static void sign(uint8_t *bytes, size_t size)
{
    static const uint8_t run[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint8_t mac[MN_MAC_SIZE];
    size_t used = (size_t)bytes[8] << 8 | bytes[9];

    memcpy(bytes, "MNPB\1\1", 6);
    bytes[6] = (uint8_t)(size >> 8);
    bytes[7] = (uint8_t)size;
    memcpy(bytes + 28, run, sizeof run);
    memset(bytes + 12, 0, MN_MAC_SIZE);
    mn_mac128(key, bytes, used < size ? used : size, mac);
    memcpy(bytes + 12, mac, sizeof mac);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bytes[MN_PROBE_FRAME_MAX], again[MN_PROBE_FRAME_MAX];
    struct mn_probe_frame frame, twice;

    if (size >= sizeof bytes)
        return 0;
    if (mn_probe_frame_read(data, size, MN_SURVEY_RAW, RUN, key, &frame) == MN_PROBE_GOOD)
        abort();
    if (size < 84)
        return 0;
    memcpy(bytes, data, size);
    sign(bytes, size);
    if (mn_probe_frame_read(bytes, size, MN_SURVEY_RAW, RUN, key, &frame) != MN_PROBE_GOOD)
        return 0;
    if (!mn_probe_frame_write(&frame, key, again, size) ||
        mn_probe_frame_read(again, size, MN_SURVEY_RAW, RUN, key, &twice) != MN_PROBE_GOOD ||
        memcmp(&frame, &twice, sizeof frame) != 0)
        abort();
    return 0;
}
