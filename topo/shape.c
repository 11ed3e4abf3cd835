#include "topo/shape.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"
#include "topo/mesh.h"

const char *mn_shape_name(enum mn_shape shape)
{
    static const char *const names[] = {
        [MN_SHAPE_SINGLE] = "single node",
        [MN_SHAPE_PAIR] = "pair",
        [MN_SHAPE_LINE] = "line",
        [MN_SHAPE_RING] = "ring",
        [MN_SHAPE_FULL] = "full mesh",
        [MN_SHAPE_STAR] = "star",
        [MN_SHAPE_TORUS] = "torus",
        [MN_SHAPE_SWITCH] = "switch",
        [MN_SHAPE_PARTIAL] = "partial mesh",
    };

    return names[shape];
}

/* --- graphs --------------------------------------------------------------------------------- */

void mn_graph_make(size_t n, const int (*pairs)[2], size_t n_pairs, struct mn_graph *graph)
{
    size_t *fill = mn_zalloc((n + 2) * sizeof *fill), kept = 0;
    int *all = mn_zalloc((2 * n_pairs + 1) * sizeof *all);
    size_t *mark = mn_zalloc((n + 1) * sizeof *mark);

    *graph = (struct mn_graph){.n = n};
    graph->first = mn_zalloc((n + 2) * sizeof *graph->first);
    graph->near = mn_zalloc((2 * n_pairs + 1) * sizeof *graph->near);
    for (size_t i = 0; i < n_pairs; i++)
        for (int side = 0; side < 2; side++)
            fill[pairs[i][side] + 1]++;
    for (size_t i = 0; i < n; i++)
        fill[i + 1] += fill[i];
    for (size_t i = n_pairs; i-- > 0;)
        for (int side = 0; side < 2; side++)
            all[--fill[pairs[i][side] + 1]] = pairs[i][!side];
    /* fill[i + 1] is now where node i begins, and so fill[i + 2] where it ends. */
    for (size_t i = 0; i < n; i++) {
        size_t end = i + 1 < n ? fill[i + 2] : 2 * n_pairs;

        graph->first[i] = kept;
        for (size_t k = fill[i + 1]; k < end; k++) {
            size_t other = (size_t)all[k];

            if (other == i || mark[other] == i + 1)
                continue;
            mark[other] = i + 1;
            graph->near[kept++] = all[k];
        }
    }
    graph->first[n] = kept;
    free(fill);
    free(all);
    free(mark);
}

void mn_graph_free(struct mn_graph *graph)
{
    free(graph->first);
    free(graph->near);
    *graph = (struct mn_graph){0};
}

size_t mn_graph_degree(const struct mn_graph *graph, size_t node)
{
    return graph->first[node + 1] - graph->first[node];
}

int mn_graph_joined(const struct mn_graph *graph, int a, int b)
{
    for (size_t i = graph->first[a]; i < graph->first[a + 1]; i++)
        if (graph->near[i] == b)
            return 1;
    return 0;
}

size_t mn_graph_pieces(const struct mn_graph *graph, int *piece)
{
    int *of = mn_zalloc((graph->n + 1) * sizeof *of);
    size_t *queue = mn_zalloc((graph->n + 1) * sizeof *queue), pieces = 0;

    for (size_t start = 0; start < graph->n; start++) {
        size_t length = 0;

        if (of[start])
            continue;
        of[start] = (int)++pieces;
        queue[length++] = start;
        for (size_t at = 0; at < length; at++)
            for (size_t i = graph->first[queue[at]]; i < graph->first[queue[at] + 1]; i++)
                if (!of[graph->near[i]]) {
                    of[graph->near[i]] = (int)pieces;
                    queue[length++] = (size_t)graph->near[i];
                }
    }
    for (size_t i = 0; piece && i < graph->n; i++)
        piece[i] = of[i] - 1;
    free(of);
    free(queue);
    return pieces;
}

enum mn_shape mn_graph_shape(const struct mn_graph *graph, int sizes[3])
{
    size_t n = graph->n, ones = 0, twos = 0, hubs = 0, edges = graph->first[n] / 2;
    int unused[3];

    sizes = sizes ? sizes : unused;
    memset(sizes, 0, sizeof unused);
    if (n < 2)
        return MN_SHAPE_SINGLE;
    for (size_t i = 0; i < n; i++) {
        size_t degree = mn_graph_degree(graph, i);

        ones += degree == 1;
        twos += degree == 2;
        hubs += degree == n - 1;
    }
    if (mn_graph_pieces(graph, NULL) > 1)
        return MN_SHAPE_PARTIAL;
    if (n == 2)
        return MN_SHAPE_PAIR;
    if (edges == n * (n - 1) / 2)
        return MN_SHAPE_FULL;
    if (twos == n)
        return MN_SHAPE_RING;
    if (ones == 2 && twos == n - 2)
        return MN_SHAPE_LINE;
    if (hubs == 1 && ones == n - 1)
        return MN_SHAPE_STAR;
    return mn_graph_torus(graph, sizes) ? MN_SHAPE_TORUS : MN_SHAPE_PARTIAL;
}

const char *mn_mesh_shape(const struct mn_mesh *mesh)
{
    int(*pairs)[2] = mn_zalloc((mesh->n_links + 1) * sizeof *pairs);
    struct mn_graph graph;
    enum mn_shape shape;

    for (size_t i = 0; i < mesh->n_links; i++)
        for (int side = 0; side < 2; side++)
            pairs[i][side] = mesh->links[i].ends[side].node;
    mn_graph_make(mesh->n_nodes, (const int(*)[2])pairs, mesh->n_links, &graph);
    shape = mn_graph_shape(&graph, NULL);
    mn_graph_free(&graph);
    free(pairs);
    return mn_shape_name(shape);
}
