/* Whether both ends go by the same mesh file: told in LINKS, said once for each peer. */
#include <string.h>

#include "plugin/bytes.h"
#include "plugin/conn_impl.h"
#include "plugin/tuner/tuning.h"
#include "topo/base/log.h"
#include "topo/base/once.h"

void mn_conn_put_mesh(const struct mn_conn *conn, struct mn_bytes *b)
{
    const struct mn_mesh_digest *own = &conn->config->mesh.digest;

    mn_put(b, own->hash, 8);
    mn_put(b, (uint64_t)own->n_items, 1);
    for (int i = 0; i < own->n_items; i++) {
        mn_put(b, own->items[i].name, 4);
        mn_put(b, own->items[i].value, 4);
    }
}

int mn_conn_get_mesh(struct mn_bytes *b, struct mn_mesh_digest *theirs)
{
    theirs->hash = mn_get(b, 8);
    theirs->n_items = (int)mn_get(b, 1);
    if (b->bad || theirs->n_items > MN_DIGEST_ITEMS)
        return 0;
    for (int i = 0; i < theirs->n_items; i++) {
        theirs->items[i].name = (uint32_t)mn_get(b, 4);
        theirs->items[i].value = (uint32_t)mn_get(b, 4);
    }
    return !b->bad;
}

enum mn_err mn_conn_compare_mesh(const struct mn_conn *conn, const struct mn_mesh_digest *theirs,
                                 struct mn_diag *diag)
{
    static struct mn_once said;
    const struct mn_mesh_own *own = &conn->config->mesh;
    uint64_t who[3] = {conn->side[!conn->connector].node_id, own->digest.hash, theirs->hash};
    char text[1024];

    if (!mn_mesh_differs(own, theirs, conn->peer_text, text, sizeof text))
        return MN_OK;
    if (mn_tuning_acts())
        return mn_fail(diag, MN_ERR_CONFIG,
                       "%.700s (meshnet push). The tuner would have its ranks choose other "
                       "algorithms than these, and all would hang; MESHNET_TUNER=false on all "
                       "ranks goes without it",
                       text);
    if (mn_once(&said, who, sizeof who))
        MN_WARN("peer %s", text);
    return MN_OK;
}
