/* Any bytes as what the other end of a flow says: refused, or read as what writing it again gives,
 * byte for byte; and whatever is said, an end that hears it keeps to its memory. */
#include <stdlib.h>
#include <string.h>

#include "plugin/transport/relay/flow.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void twice(const uint8_t *data, size_t size)
{
    uint8_t text[MN_TALK_MAX], again[128];
    struct mn_bytes b = {text, text + size, 0};
    struct relay_word word;

    memcpy(text, data, size);
    for (uint8_t *from = text; relay_word_get(&b, &word) > 0; from = b.at) {
        struct mn_bytes out = {again, again + sizeof again, 0};
        relay_word_put(&out, &word);
        if (out.bad || out.at - again != b.at - from || memcmp(again, from, (size_t)(b.at - from)))
            abort();
    }
}

/* An end with two ways that are open as far as talking goes: no data connection moves. */
static void heard(struct relay_comm *comm, const uint8_t *data, size_t size)
{
    uint8_t text[MN_TALK_MAX];
    struct mn_bytes messages;
    struct relay_word word;

    memcpy(text, data, size);
    enum mn_err err = relay_talk_hear(&comm->talk, text, size, &messages);
    while (!err && relay_word_get(&messages, &word) > 0)
        if (word.type != RELAY_CLOSED && word.type != RELAY_FAILED)
            err = comm->base.is_send ? relay_send_word(comm, &word) : relay_recv_word(comm, &word);
}

/* The first byte says which end; then frames, two bytes of length in front of each. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct relay_comm comm;
    struct mn_bytes b = {(uint8_t *)(uintptr_t)data, (uint8_t *)(uintptr_t)data + size, 0};

    memset(&comm, 0, sizeof comm);
    comm.base.is_send = (int)mn_get(&b, 1) & 1;
    comm.n_ways = 2;
    comm.talk.next = 1;
    for (int i = 0; i < MN_RELAY_WAYS; i++) {
        comm.ways[i].number = (uint8_t)i;
        comm.ways[i].state = i < 2 ? RELAY_IS_OPEN : RELAY_RESTS;
        comm.ways[i].pair = (uint32_t)i + 1;
    }
    while (!b.bad && b.at < b.end) {
        size_t len = mn_get(&b, 2) % (MN_TALK_MAX + 1);
        if ((size_t)(b.end - b.at) < len)
            break;
        twice(b.at, len);
        heard(&comm, b.at, len);
        b.at += len;
    }
    return 0;
}
