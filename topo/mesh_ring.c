/* An order of nodes in which neighbours have a cable. */
#include <stdlib.h>

#include "topo/base/alloc.h"
#include "topo/mesh.h"
#include "topo/ring.h"

/* Of some of the mesh's nodes, by their place among them. */
static void graph_of(const struct mn_mesh *mesh, const int *nodes, int n, struct mn_graph *graph)
{
    int *place = mn_zalloc((mesh->n_nodes + 1) * sizeof *place);
    int(*pairs)[2] = mn_zalloc((mesh->n_links + 1) * sizeof *pairs);
    size_t n_pairs = 0;

    for (int i = 0; i < n; i++)
        place[nodes[i]] = i + 1;
    for (size_t l = 0; l < mesh->n_links; l++) {
        int a = place[mesh->links[l].ends[0].node], b = place[mesh->links[l].ends[1].node];
        if (!a || !b)
            continue;
        pairs[n_pairs][0] = a - 1;
        pairs[n_pairs++][1] = b - 1;
    }
    mn_graph_make((size_t)n, (const int(*)[2])pairs, n_pairs, graph);
    free(place);
    free(pairs);
}

int mn_mesh_ring(const struct mn_mesh *mesh, const int *nodes, int n, int *order, int *least)
{
    struct mn_graph graph;
    struct mn_ring ring;

    graph_of(mesh, nodes, n, &graph);
    mn_graph_ring(&graph, &ring);
    for (int i = 0; i < n; i++)
        order[i] = nodes[ring.order[i]];
    if (least)
        *least = ring.least;
    int missing = ring.missing;
    mn_ring_free(&ring);
    mn_graph_free(&graph);
    return missing;
}

int mn_mesh_ring_gaps(const struct mn_mesh *mesh, const int *order, int n)
{
    struct mn_graph graph;
    int *numbers = mn_zalloc((size_t)(n + 1) * sizeof *numbers);

    for (int i = 0; i < n; i++)
        numbers[i] = i;
    graph_of(mesh, order, n, &graph);
    int gaps = mn_graph_gaps(&graph, numbers, n);
    mn_graph_free(&graph);
    free(numbers);
    return gaps;
}

int mn_mesh_has_cable(const struct mn_mesh *mesh, int a, int b)
{
    for (size_t l = 0; l < 2 * mesh->n_links; l++)
        if (mesh->links[l / 2].ends[l % 2].node == a && mesh->links[l / 2].ends[!(l % 2)].node == b)
            return 1;
    return 0;
}
