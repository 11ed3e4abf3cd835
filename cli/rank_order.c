#include "cli/rank_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/host_name.h"
#include "topo/base/alloc.h"
#include "topo/model.h"

#define TOLD 4 /* pairs; more are counted */

enum mn_err mn_rank_nodes(const struct mn_mesh *mesh, const char *option,
                          const struct mn_opt_list *names, int **nodes, int *n,
                          struct mn_diag *diag)
{
    size_t count = names->count ? names->count : mesh->n_nodes;
    char *used = mn_zalloc(mesh->n_nodes + 1);
    enum mn_err err = MN_OK;

    *nodes = mn_zalloc((count + 1) * sizeof **nodes);
    *n = 0;
    for (size_t i = 0; i < count && !err; i++) {
        const char *name = names->count ? names->items[i] : NULL;
        int node = name ? mn_names_node(mesh, name) : (int)i;
        if (node < 0)
            err =
                mn_fail(diag, MN_ERR_CONFIG,
                        "%s %s: no node of the mesh file has that name or host name", option, name);
        else if (used[node])
            err = mn_fail(diag, MN_ERR_CONFIG, "%s %s: this node is there twice", option, name);
        else
            used[(*nodes)[(*n)++] = node] = 1;
    }
    free(used);
    return err;
}

/* Two nodes are one pair: the step back is the same. */
static void count_once(struct mn_rank_order *order)
{
    if (order->n == 2) {
        order->missing = order->missing > 0;
        order->least = order->least > 0;
    }
}

void mn_rank_order_best(const struct mn_mesh *mesh, const int *nodes, int n,
                        struct mn_rank_order *order)
{
    *order = (struct mn_rank_order){.n = n, .nodes = mn_zalloc((size_t)(n + 1) * sizeof *nodes)};
    order->missing = mn_mesh_ring(mesh, nodes, n, order->nodes, &order->least);
    count_once(order);
}

void mn_rank_order_given(const struct mn_mesh *mesh, const int *nodes, int n,
                         struct mn_rank_order *order)
{
    *order = (struct mn_rank_order){.n = n, .nodes = mn_zalloc((size_t)(n + 1) * sizeof *nodes)};
    memcpy(order->nodes, nodes, (size_t)n * sizeof *nodes);
    order->missing = mn_mesh_ring_gaps(mesh, nodes, n);
    count_once(order);
}

void mn_rank_order_free(struct mn_rank_order *order)
{
    free(order->nodes);
    order->nodes = NULL;
}

char *mn_rank_order_names(const struct mn_mesh *mesh, const struct mn_rank_order *order)
{
    size_t size = (size_t)order->n * (MN_NAME_MAX + 1) + 1, used = 0;
    char *text = mn_zalloc(size);

    for (int i = 0; i < order->n; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? "," : "",
                                 mesh->nodes[order->nodes[i]].name);
    return text;
}

char *mn_rank_order_gaps(const struct mn_mesh *mesh, const struct mn_rank_order *order)
{
    char pairs[TOLD * (2 * MN_NAME_MAX + 4)] = "";
    size_t used = 0;
    int told = 0;

    for (int i = 0; i < order->n && told < TOLD && told < order->missing; i++) {
        int a = order->nodes[i], b = order->nodes[(i + 1) % order->n];
        if (mn_mesh_has_cable(mesh, a, b))
            continue;
        used += (size_t)snprintf(pairs + used, sizeof pairs - used, "%s%s-%s", told ? ", " : "",
                                 mesh->nodes[a].name, mesh->nodes[b].name);
        told++;
    }
    char more[32] = "";
    if (order->missing > told)
        snprintf(more, sizeof more, " and %d more", order->missing - told);
    return mn_asprintf("%d pair%s without a cable: %s%s", order->missing,
                       order->missing == 1 ? "" : "s", pairs, more);
}

/* --- what an order costs -------------------------------------------------------------------- */

#define LARGE    1e9 /* bytes */
#define CHANNELS 2

/* Where the file does not say how fast cables are, they are all as fast as the fastest. */
static void fill_rates(struct mn_fabric *fabric)
{
    double most = 0;

    for (size_t i = 0; i < fabric->n_cables; i++)
        most = fabric->cables[i].rate > most ? fabric->cables[i].rate : most;
    most = most > 0 ? most : 1e9;
    for (size_t i = 0; i < fabric->n_cables; i++)
        if (fabric->cables[i].rate <= 0)
            fabric->cables[i].rate = most;
    for (size_t i = 0; i < fabric->n_groups; i++)
        if (fabric->groups[i].rate <= 0)
            fabric->groups[i].rate = most;
}

/* known: only where the file says how fast cables are. */
static enum mn_err predict(const struct mn_mesh *mesh, const struct mn_rank_order *order, int known,
                           struct mn_model_result *result)
{
    struct mn_fabric fabric;
    struct mn_routes routes;

    mn_fabric_from_mesh(mesh, &fabric);
    if (!known)
        fill_rates(&fabric);
    mn_routes_find(&fabric, &routes);
    const struct mn_model model = {.fabric = &fabric,
                                   .routes = &routes,
                                   .node_of_rank = order->nodes,
                                   .n_ranks = order->n};
    enum mn_err err =
        mn_model_predict(&model, MN_MODEL_ALL_REDUCE, MN_MODEL_RING, LARGE, CHANNELS, result);
    mn_routes_free(&routes);
    mn_fabric_free(&fabric);
    return err;
}

double mn_rank_order_factor(const struct mn_mesh *mesh, const struct mn_rank_order *order,
                            const struct mn_rank_order *better)
{
    struct mn_model_result bad, good;

    if (predict(mesh, order, 0, &bad) || predict(mesh, better, 0, &good) || good.seconds <= 0)
        return 0;
    return bad.seconds / good.seconds;
}

double mn_rank_order_busbw(const struct mn_mesh *mesh, const struct mn_rank_order *order)
{
    struct mn_model_result result;

    return order->n < 2 || predict(mesh, order, 1, &result) ? 0 : result.busbw;
}
