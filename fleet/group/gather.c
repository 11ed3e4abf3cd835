/* Texts of any length through blocks of bounded size. */
#include <stdlib.h>
#include <string.h>

#include "fleet/group.h"
#include "topo/base/alloc.h"

/* What all said, in one piece of memory: pointers first, then each text with its end. */
static char **lay_out(const uint32_t *lengths, int n)
{
    size_t bytes = 0;

    for (int r = 0; r < n; r++)
        bytes += lengths[r] + 1u;
    char **texts = mn_zalloc((size_t)n * sizeof *texts + bytes);
    char *at = (char *)(texts + n);
    for (int r = 0; r < n; r++) {
        texts[r] = at;
        at += lengths[r] + 1u;
    }
    return texts;
}

enum mn_err mn_group_gather_text(struct mn_group *g, const char *text, char ***texts,
                                 struct mn_diag *diag)
{
    int n = mn_group_size(g);
    size_t length = strlen(text), most = 0, room = MN_GROUP_BLOCK / (size_t)n;
    uint32_t mine = (uint32_t)(length <= MN_GROUP_TEXT ? length : 0), lengths[MN_GROUP_RANKS];

    *texts = NULL;
    if (length > MN_GROUP_TEXT)
        return mn_fail(diag, MN_ERR_INTERNAL, "a text of %zu bytes for all ranks", length);
    enum mn_err err = mn_group_allgather(g, &mine, sizeof mine, lengths, diag);
    for (int r = 0; r < n && !err; r++) {
        if (lengths[r] > MN_GROUP_TEXT)
            err = mn_fail(diag, MN_ERR_PROTO, "%s: a text of %u bytes", mn_group_name(g, r),
                          lengths[r]);
        most = lengths[r] > most ? lengths[r] : most;
    }
    if (err)
        return err;
    *texts = lay_out(lengths, n);
    char *block = mn_zalloc(room), *all = mn_zalloc(room * (size_t)n);
    for (size_t at = 0, bytes; at < most && !err; at += bytes) {
        bytes = most - at < room ? most - at : room;
        memset(block, 0, bytes);
        if (at < length)
            memcpy(block, text + at, length - at < bytes ? length - at : bytes);
        err = mn_group_allgather(g, block, bytes, all, diag);
        for (int r = 0; r < n && !err; r++)
            if (at < lengths[r])
                memcpy((*texts)[r] + at, all + (size_t)r * bytes,
                       lengths[r] - at < bytes ? lengths[r] - at : bytes);
    }
    free(block);
    free(all);
    if (err) {
        free(*texts);
        *texts = NULL;
    }
    return err;
}
