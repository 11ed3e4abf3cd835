#include "topo/mesh_sort.h"

#include <stdlib.h>
#include <string.h>

struct place {
    const char *name;
    size_t was;
};

static int by_name(const void *x, const void *y)
{
    return strverscmp(((const struct place *)x)->name, ((const struct place *)y)->name);
}

static int compare_ends(const struct mn_mesh_end *a, const struct mn_mesh_end *b)
{
    return a->node != b->node ? a->node - b->node : a->nic - b->nic;
}

static int by_ends(const void *x, const void *y)
{
    const struct mn_mesh_link *a = x, *b = y;
    int d = compare_ends(&a->ends[0], &b->ends[0]);

    d = d ? d : compare_ends(&a->ends[1], &b->ends[1]);
    return d ? d : strverscmp(a->name, b->name);
}

/* The lower node first. */
static void renumber(struct mn_mesh_end ends[2], const int *now)
{
    for (int i = 0; i < 2; i++)
        ends[i].node = now[ends[i].node];
    if (compare_ends(&ends[0], &ends[1]) > 0) {
        struct mn_mesh_end low = ends[1];
        ends[1] = ends[0];
        ends[0] = low;
    }
}

enum mn_err mn_mesh_sort(struct mn_mesh *mesh, struct mn_diag *diag)
{
    struct place *places = calloc(mesh->n_nodes + 1, sizeof *places);
    struct mn_mesh_node *nodes = calloc(mesh->n_nodes + 1, sizeof *nodes);
    int *now = calloc(mesh->n_nodes + 1, sizeof *now);

    if (!places || !nodes || !now) {
        free(places);
        free(nodes);
        free(now);
        return mn_fail(diag, MN_ERR_NOMEM, "no memory to sort the mesh");
    }
    for (size_t i = 0; i < mesh->n_nodes; i++)
        places[i] = (struct place){mesh->nodes[i].name, i};
    qsort(places, mesh->n_nodes, sizeof *places, by_name);
    for (size_t i = 0; i < mesh->n_nodes; i++) {
        nodes[i] = mesh->nodes[places[i].was];
        now[places[i].was] = (int)i;
    }
    free(mesh->nodes);
    free(places);
    mesh->nodes = nodes;
    for (size_t i = 0; i < mesh->n_links; i++)
        renumber(mesh->links[i].ends, now);
    for (size_t i = 0; i < mesh->n_routes; i++)
        renumber(mesh->routes[i].ends, now);
    if (mesh->n_links)
        qsort(mesh->links, mesh->n_links, sizeof *mesh->links, by_ends);
    free(now);
    return MN_OK;
}
