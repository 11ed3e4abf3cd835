/* Finds things by their hash: numbers of the caller's, many of which may have the same one. */
#ifndef MN_BASE_INDEX_H
#define MN_BASE_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "topo/base/err.h"

struct mn_index {
    struct mn_index_slot {
        uint64_t hash;
        int value, used;
    } * slots; /* room of them, a power of two */
    size_t room, count;
};

/* No secret is in it: who chooses what is hashed can make lookups slow, not wrong. */
uint64_t mn_hash(const void *data, size_t len);
uint64_t mn_hash_text(const char *text);

/* The next value put under hash, which the caller then compares; -1: none is left. *at is 0 before
 * the first. */
int mn_index_next(const struct mn_index *index, uint64_t hash, size_t *at);
/* value >= 0. MN_ERR_NOMEM: the index is as it was. All zero is an empty one. */
enum mn_err mn_index_put(struct mn_index *index, uint64_t hash, int value, struct mn_diag *diag);
void mn_index_free(struct mn_index *index);

#endif
