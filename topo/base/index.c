#include "topo/base/index.h"

#include <stdlib.h>
#include <string.h>

/* FNV-1a, with its upper bits stirred into those that choose the slot. */
uint64_t mn_hash(const void *data, size_t len)
{
    const unsigned char *bytes = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

uint64_t mn_hash_text(const char *text)
{
    return mn_hash(text, strlen(text));
}

int mn_index_next(const struct mn_index *index, uint64_t hash, size_t *at)
{
    while (*at < index->room) {
        const struct mn_index_slot *slot = &index->slots[(hash + (*at)++) & (index->room - 1)];
        if (!slot->used)
            break;
        if (slot->hash == hash)
            return slot->value;
    }
    return -1;
}

static void put(struct mn_index *index, uint64_t hash, int value)
{
    size_t at = hash & (index->room - 1);

    while (index->slots[at].used)
        at = (at + 1) & (index->room - 1);
    index->slots[at] = (struct mn_index_slot){hash, value, 1};
    index->count++;
}

enum mn_err mn_index_put(struct mn_index *index, uint64_t hash, int value, struct mn_diag *diag)
{
    if (2 * index->count >= index->room) {
        struct mn_index larger = {.room = index->room ? 2 * index->room : 16};

        larger.slots = calloc(larger.room, sizeof *larger.slots);
        if (!larger.slots)
            return mn_fail(diag, MN_ERR_NOMEM, "out of memory");
        for (size_t i = 0; i < index->room; i++)
            if (index->slots[i].used)
                put(&larger, index->slots[i].hash, index->slots[i].value);
        free(index->slots);
        *index = larger;
    }
    put(index, hash, value);
    return MN_OK;
}

void mn_index_free(struct mn_index *index)
{
    free(index->slots);
    *index = (struct mn_index){.slots = NULL};
}
