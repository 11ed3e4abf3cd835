/* What several fuzzers share: an input that is taken byte by byte, and somebody between two ends
 * who does with what passes him what the input says. */
#ifndef MN_FUZZ_KIT_H
#define MN_FUZZ_KIT_H

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

struct fuzz_input {
    const uint8_t *at, *end;
};

/* Big-endian; behind the end all is 0. */
static inline uint64_t fuzz_take(struct fuzz_input *in, int bytes)
{
    uint64_t value = 0;

    while (bytes--)
        value = value << 8 | (in->at < in->end ? *in->at++ : 0);
    return value;
}

/* At most so many; how many there were. */
static inline size_t fuzz_take_raw(struct fuzz_input *in, void *to, size_t most)
{
    size_t left = (size_t)(in->end - in->at), n = most < left ? most : left;

    if (n)
        memcpy(to, in->at, n);
    in->at += n;
    return n;
}

/* TWICE: from a byte on; TURNED: what is behind a byte goes first; OTHER: as much as is in front of
 * a byte, of the input. */
enum fuzz_passing { FUZZ_ALL, FUZZ_CHANGED, FUZZ_CUT, FUZZ_TWICE, FUZZ_TURNED, FUZZ_OTHER };

/* Passes on what has come from one end to the other. Takes a byte that says how, unless all two
 * that say where; returns how it came to be. */
static inline enum fuzz_passing fuzz_pass(struct fuzz_input *in, int from, int to)
{
    static uint8_t bytes[2 * 65536];
    enum fuzz_passing how = (enum fuzz_passing)(fuzz_take(in, 1) % (FUZZ_OTHER + 1));
    ssize_t got = recv(from, bytes, sizeof bytes / 2, MSG_DONTWAIT);
    size_t n = got > 0 ? (size_t)got : 0, at = how && n ? (size_t)fuzz_take(in, 2) % n : 0;

    if (!n || (how == FUZZ_TURNED && !at))
        how = FUZZ_ALL;
    if (how == FUZZ_CHANGED) {
        bytes[at] ^= (uint8_t)(1u << fuzz_take(in, 1) % 8);
    } else if (how == FUZZ_CUT) {
        n = at;
    } else if (how == FUZZ_TWICE) {
        memcpy(bytes + n, bytes + at, n - at);
        n += n - at;
    } else if (how == FUZZ_TURNED) {
        memcpy(bytes + n, bytes, at);
        memmove(bytes, bytes + at, n);
    } else if (how == FUZZ_OTHER) {
        n = fuzz_take_raw(in, bytes, at);
    }
    if (n)
        (void)!send(to, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    return how;
}

#endif
