/* Any bytes as the payload of a relay's frame, and as a piece's header: refused, or read as what
 * writing it again gives, byte for byte. */
#include <stdlib.h>
#include <string.h>

#include "plugin/relay/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TWICE(name)                                                                                \
    static void twice_##name(const uint8_t *data, size_t size)                                     \
    {                                                                                              \
        struct mn_line_##name f;                                                                   \
        uint8_t again[MN_LINE_MAX];                                                                \
        if (mn_line_##name##_get(data, size, &f) &&                                                \
            (mn_line_##name##_put(&f, again) != size || memcmp(again, data, size)))                \
            abort();                                                                               \
    }
TWICE(attach)
TWICE(attached)
TWICE(opened)
TWICE(gone)
TWICE(talk)
TWICE(drained)
TWICE(trunk)

static void twice_head(const uint8_t *data, size_t size)
{
    uint8_t bytes[MN_HEAD_SIZE] = {0}, again[MN_HEAD_SIZE];
    struct mn_relay_head head;

    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    if (!mn_relay_head_get(bytes, &head))
        return;
    mn_relay_head_put(&head, again);
    if (memcmp(again, bytes, sizeof again))
        abort();
}

static void (*const kinds[])(const uint8_t *data, size_t size) = {twice_attach, twice_attached,
                                                                  twice_opened, twice_gone,
                                                                  twice_talk,   twice_drained,
                                                                  twice_trunk,  twice_head};

/* The first byte says what the rest is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size)
        kinds[data[0] % (sizeof kinds / sizeof *kinds)](data + 1, size - 1);
    return 0;
}
