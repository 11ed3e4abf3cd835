#include "topo/base/once.h"

#include "topo/base/mac.h"

int mn_once(struct mn_once *once, const void *what, size_t len)
{
    static const uint8_t key[MN_KEY_SIZE] = "said once";
    uint64_t hash = mn_mac64(key, what, len) | 1;

    for (unsigned i = 0; i < MN_ONCE_MAX; i++) {
        uint64_t there = 0;
        if (atomic_compare_exchange_strong(&once->said[(hash + i) % MN_ONCE_MAX], &there, hash))
            return 1;
        if (there == hash)
            return 0;
    }
    return 0;
}
