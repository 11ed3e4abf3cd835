/* Open MPI's hostfile (prte-map(1)): host names, and as many slots as a node has GPUs. */
#include "topo/emit/emit.h"

void mn_emit_hostfile(const struct mn_mesh *mesh, int node, const struct mn_transit *transit,
                      struct mn_emit *out)
{
    (void)transit;
    FILE *file = mn_emit_begin(out, 0644, "hostfile");

    mn_emit_head(file, "hostfile", mesh, node);
    for (size_t i = 0; i < mesh->n_nodes; i++)
        fprintf(file, "%s slots=%zu\n", mesh->nodes[i].hostname,
                mesh->nodes[i].n_gpus ? mesh->nodes[i].n_gpus : 1);
    fclose(file);
}
