#include "topo/load.h"

#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

void mn_load_make(const struct mn_fabric *fabric, struct mn_load *load)
{
    size_t n = (size_t)fabric->n + 1;

    load->fabric = fabric;
    load->cables = mn_zalloc((2 * fabric->n_cables + 1) * sizeof *load->cables);
    load->groups = mn_zalloc((2 * fabric->n_groups + 1) * sizeof *load->groups);
    load->forward = mn_zalloc(n * sizeof *load->forward);
    load->nodes = mn_zalloc(n * sizeof *load->nodes);
}

void mn_load_free(struct mn_load *load)
{
    free(load->cables);
    free(load->groups);
    free(load->forward);
    free(load->nodes);
    *load = (struct mn_load){.fabric = NULL};
}

static void add(double *to, const double *from, size_t n, double times)
{
    for (size_t i = 0; i < n; i++)
        to[i] = from ? to[i] + times * from[i] : 0;
}

void mn_load_add(struct mn_load *to, const struct mn_load *from, double times)
{
    const struct mn_fabric *f = to->fabric;

    add(to->cables, from ? from->cables : NULL, 2 * f->n_cables, times);
    add(to->groups, from ? from->groups : NULL, 2 * f->n_groups, times);
    add(to->forward, from ? from->forward : NULL, (size_t)f->n, times);
    add(to->nodes, from ? from->nodes : NULL, (size_t)f->n, times);
}

void mn_load_clear(struct mn_load *load)
{
    mn_load_add(load, NULL, 0);
}

int mn_load_cable(struct mn_load *load, size_t cable, int node, double bytes, int *unknown)
{
    const struct mn_fabric_cable *c = &load->fabric->cables[cable];
    int direction = mn_fabric_direction(c, node);
    double rate = mn_fabric_rate(c, direction);

    if (!(rate > 0)) {
        *unknown = (int)cable;
        return 0;
    }
    load->cables[2 * cable + (size_t)direction] += bytes / rate;
    for (int i = 0; i < 2; i++) {
        int group = c->groups[i], receives = c->nodes[i] != node;
        if (group >= 0 && load->fabric->groups[group].rate > 0)
            load->groups[2 * group + receives] += bytes / load->fabric->groups[group].rate;
    }
    return 1;
}

int mn_load_edge(struct mn_load *load, const struct mn_routes *routes,
                 const struct mn_way_edge *edge, int node, double bytes, int far, int *unknown)
{
    const struct mn_fabric *f = load->fabric;
    const size_t *cables = routes->cables + edge->first;
    double sum = 0;

    if (far && f->doors)
        return mn_load_cable(load, cables[0], node, bytes, unknown);
    for (size_t i = 0; i < edge->count; i++)
        sum +=
            mn_fabric_rate(&f->cables[cables[i]], mn_fabric_direction(&f->cables[cables[i]], node));
    for (size_t i = 0; i < edge->count; i++) {
        const struct mn_fabric_cable *c = &f->cables[cables[i]];
        double rate = mn_fabric_rate(c, mn_fabric_direction(c, node));
        if (!mn_load_cable(load, cables[i], node, sum > 0 ? bytes * rate / sum : 0, unknown))
            return 0;
    }
    return 1;
}

void mn_load_node(struct mn_load *load, int node, double bytes)
{
    if (load->fabric->hosts && load->fabric->hosts[node] > 0)
        load->nodes[node] += bytes / load->fabric->hosts[node];
}

static int heavier(struct mn_load_worst *worst, double seconds, enum mn_model_limit limit)
{
    /* Of parts equally loaded the first: sums in another order differ in the last bits. */
    if (seconds <= worst->seconds * (1 + 1e-9))
        return 0;
    *worst = (struct mn_load_worst){seconds, limit, -1, -1, -1, -1};
    return 1;
}

struct mn_load_worst mn_load_worst(const struct mn_load *load)
{
    const struct mn_fabric *f = load->fabric;
    struct mn_load_worst worst = {0, MN_LIMIT_NOTHING, -1, -1, -1, -1};

    for (size_t i = 0; i < 2 * f->n_cables; i++)
        if (heavier(&worst, load->cables[i], MN_LIMIT_CABLE)) {
            worst.cable = (int)(i / 2);
            worst.direction = (int)(i % 2);
        }
    for (size_t i = 0; i < 2 * f->n_groups; i++)
        if (heavier(&worst, load->groups[i], MN_LIMIT_GROUP)) {
            worst.group = (int)(i / 2);
            worst.direction = (int)(i % 2);
            worst.node = f->groups[i / 2].node;
        }
    for (int n = 0; n < f->n; n++) {
        if (heavier(&worst, load->forward[n], MN_LIMIT_FORWARD))
            worst.node = n;
        if (heavier(&worst, load->nodes[n], MN_LIMIT_NODE))
            worst.node = n;
    }
    return worst;
}
