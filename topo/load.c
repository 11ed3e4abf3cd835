#include "topo/load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

void mn_load_make(const struct mn_fabric *fabric, struct mn_load *load)
{
    size_t n = (size_t)fabric->n, c = 2 * fabric->n_cables, g = 2 * fabric->n_groups;

    load->fabric = fabric;
    load->n_parts = c + fabric->n_cables + g + 2 * n;
    load->parts = mn_zalloc((load->n_parts + 1) * sizeof *load->parts);
    load->cables = load->parts;
    load->duplex = load->cables + c;
    load->groups = load->duplex + fabric->n_cables;
    load->forward = load->groups + g;
    load->nodes = load->forward + n;
}

void mn_load_free(struct mn_load *load)
{
    free(load->parts);
    *load = (struct mn_load){.fabric = NULL};
}

void mn_load_add(struct mn_load *to, const struct mn_load *from, double times)
{
    for (size_t i = 0; i < to->n_parts; i++)
        to->parts[i] += times * from->parts[i];
}

void mn_load_clear(struct mn_load *load)
{
    memset(load->parts, 0, load->n_parts * sizeof *load->parts);
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
    if (c->both > 0)
        load->duplex[cable] += bytes / c->both;
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

int mn_load_path(const struct mn_model *model, int from, int to, int *path)
{
    const struct mn_fabric *f = model->fabric;

    path[0] = from;
    if (from == to)
        return 0;
    if (!mn_routes_edge(model->routes, from, to))
        return mn_routes_path_by(f, model->routes, from, to, f->doors ? f->doors[to] : -1, path);
    path[1] = to;
    return 1;
}

double mn_load_latency(const struct mn_model *model, const struct mn_way_edge *edge)
{
    double longest = 0;

    for (size_t i = 0; i < edge->count; i++) {
        size_t cable = model->routes->cables[edge->first + i];
        longest = fmax(longest, model->fabric->cables[cable].latency);
    }
    return longest;
}

/* As the plugin weighs them; all the same where a rate is not known. */
static void share_out(const struct mn_model *model, struct mn_load_ways *ways)
{
    double sum = 0;
    int known = 1;

    for (int w = 0; w < ways->n; w++) {
        ways->share[w] =
            mn_pair_way_rate(model->fabric, model->routes, ways->nodes[w], ways->hops[w], 1);
        known &= ways->share[w] > 0;
        sum += ways->share[w];
    }
    for (int w = 0; w < ways->n; w++)
        ways->share[w] = known ? ways->share[w] / sum : 1.0 / ways->n;
}

int mn_load_ways(const struct mn_model *model, int from, int to, struct mn_load_ways *ways)
{
    const struct mn_fabric *f = model->fabric;
    int most = f->relay_ways < MN_LOAD_WAYS ? f->relay_ways : MN_LOAD_WAYS;

    ways->n = 0;
    if (f->doors || most < 2 || from == to || mn_routes_edge(model->routes, from, to))
        return 0;
    ways->n = mn_routes_apart(model->routes, from, to, MN_PAIR_RELAYS + 1, most, ways->nodes[0],
                              ways->hops);
    ways->n = ways->n < 2 ? 0 : ways->n;
    share_out(model, ways);
    return ways->n;
}

static double add_way(struct mn_load *load, const struct mn_model *model, const int *path, int hops,
                      double bytes, int *unknown)
{
    const struct mn_model_host *host = &model->host;
    double wait = host->message + (hops > 1 ? model->fabric->far : 0);

    for (int i = 0; i < hops; i++) {
        const struct mn_way_edge *edge = mn_routes_edge(model->routes, path[i], path[i + 1]);
        mn_load_edge(load, model->routes, edge, path[i], bytes, hops > 1, unknown);
        wait += mn_load_latency(model, edge) + (i ? host->hop : 0);
        if (i && host->forward > 0)
            load->forward[path[i]] += bytes / host->forward;
    }
    return wait;
}

int mn_load_flow(struct mn_load *load, const struct mn_model *model, int from, int to, double bytes,
                 int *path, double *latency, int *unknown)
{
    struct mn_load_ways ways;
    double wait = 0;
    int hops;

    if (mn_load_ways(model, from, to, &ways)) {
        /* What is short, and so waits for latency, goes by the first. */
        for (int w = ways.n; w-- > 0;)
            wait =
                add_way(load, model, ways.nodes[w], ways.hops[w], bytes * ways.share[w], unknown);
        hops = ways.hops[0];
    } else {
        hops = mn_load_path(model, from, to, path);
        wait = add_way(load, model, path, hops, bytes, unknown);
    }
    if (hops > 0) {
        mn_load_node(load, from, bytes);
        mn_load_node(load, to, bytes);
    }
    if (latency)
        *latency = wait;
    return hops;
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
    for (size_t i = 0; i < f->n_cables; i++)
        if (heavier(&worst, load->duplex[i], MN_LIMIT_CABLE)) {
            worst.cable = (int)i;
            worst.direction = load->cables[2 * i + 1] > load->cables[2 * i];
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
