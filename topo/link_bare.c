/* Cables that nobody has given addresses yet, for messages. */
#include <stdio.h>

#include "topo/mesh.h"

#define NAMED 3

size_t mn_mesh_bare(const struct mn_mesh *mesh, int node, char names[MN_BARE_NAMES])
{
    size_t count = 0, used = 0;

    names[0] = '\0';
    for (size_t i = 0; i < mesh->n_links; i++) {
        const struct mn_mesh_link *link = &mesh->links[i];
        if (!mn_link_is_bare(link) ||
            (node >= 0 && link->ends[0].node != node && link->ends[1].node != node))
            continue;
        if (count++ < NAMED)
            used += (size_t)snprintf(names + used, MN_BARE_NAMES - used, "%s%s",
                                     count > 1 ? ", " : "", link->name);
    }
    if (count > NAMED)
        snprintf(names + used, MN_BARE_NAMES - used, " and %zu other%s", count - NAMED,
                 count == NAMED + 1 ? "" : "s");
    return count;
}
