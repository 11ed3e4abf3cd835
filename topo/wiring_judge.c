/* What a plan is good for: figures of topo/model and topo/route. */
#include <math.h>
#include <stdlib.h>

#include "topo/base/alloc.h"
#include "topo/model.h"
#include "topo/wiring.h"
#include "topo/route.h"

#define FOLLOWED 256 /* nodes between whom every way is followed */
#define EACH     64  /* cables of which each is taken away; of more, one of each kind */

/* Without the cable gone, or with all of them. A node is found at the address of its first port
 * that has a cable, as in a mesh file of this plan. */
static void make_fabric(const struct mn_wiring *plan, const struct mn_wiring_speed *speed,
                        size_t gone, struct mn_fabric *fabric)
{
    int *port = mn_zalloc((size_t)(plan->n + 1) * sizeof *port);

    *fabric = (struct mn_fabric){.n = plan->n};
    fabric->doors = mn_zalloc((size_t)(plan->n + 1) * sizeof *fabric->doors);
    for (int i = 0; i < plan->n; i++)
        fabric->doors[i] = -1;
    for (size_t i = 0; i < plan->n_cables; i++) {
        const struct mn_wiring_cable *c = &plan->cables[i];
        if (i == gone)
            continue;
        int cable = mn_fabric_add(fabric, c->nodes[0], c->nodes[1], speed->rate, speed->latency);
        for (int e = 0; e < 2; e++) {
            int node = c->nodes[e];
            if (fabric->doors[node] >= 0 && port[node] <= c->ports[e])
                continue;
            fabric->doors[node] = cable;
            port[node] = c->ports[e];
        }
    }
    free(port);
}

void mn_wiring_fabric(const struct mn_wiring *plan, const struct mn_wiring_speed *speed,
                      struct mn_fabric *fabric)
{
    make_fabric(plan, speed, plan->n_cables, fabric);
}

/* busbw, 0: not all nodes are joined. */
static double predict(const struct mn_fabric *fabric, struct mn_routes *routes, enum mn_model_op op,
                      enum mn_model_algo algo, double bytes)
{
    struct mn_model model = {.fabric = fabric, .routes = routes, .n_ranks = fabric->n};
    struct mn_model_result result;

    return mn_model_predict(&model, op, algo, bytes, 1, &result) ? 0 : result.busbw;
}

static double all_reduce(const struct mn_fabric *fabric, struct mn_routes *routes, double bytes)
{
    return predict(fabric, routes, MN_MODEL_ALL_REDUCE, MN_MODEL_RING, bytes);
}

static double all_to_all(const struct mn_fabric *fabric, struct mn_routes *routes, double bytes)
{
    return predict(fabric, routes, MN_MODEL_ALL_TO_ALL, MN_MODEL_DIRECT, bytes);
}

/* From a node from which the longest way begins: in these shapes one that is farthest from any. */
static void find_ways(struct mn_wiring_figures *f, struct mn_routes *routes, int n)
{
    const struct mn_way_view *view = mn_routes_view(routes, 0);
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += view->hops[i];
    f->distance = sum / (n - 1);
    view = mn_routes_view(routes, view->order[view->reached - 1]);
    f->diameter = view->hops[view->order[view->reached - 1]];
}

/* The mean of all ways, where not all nodes see the same: in a line and a star. */
static void find_distance(struct mn_wiring_figures *f, struct mn_routes *routes, int n)
{
    double sum = 0;

    for (int from = 0; from < n; from++) {
        const struct mn_way_view *view = mn_routes_view(routes, from);
        for (int i = 0; i < n; i++)
            sum += view->hops[i];
    }
    f->distance = sum / n / (n - 1);
}

/* All ways spread evenly over all cables, or as much as the narrowest place lets through. Ways that
 * are longer than a cable use one of those beside each other. */
static double spread(const struct mn_wiring *plan, const struct mn_wiring_speed *speed)
{
    double n = plan->n, cables = (double)plan->n_cables / plan->parallel;
    double even = 2 * cables * speed->rate / plan->figures.distance / n;
    double narrow = 4 * plan->figures.bisection / plan->parallel / n * (n - 1) / n;

    return fmin(even, narrow);
}

/* With one cable less. */
static void judge_without(struct mn_wiring *plan, const struct mn_wiring_speed *speed, size_t gone)
{
    struct mn_wiring_figures *f = &plan->figures;
    struct mn_fabric less;
    struct mn_routes routes;

    make_fabric(plan, speed, gone, &less);
    mn_routes_find(&less, &routes);
    if (mn_routes_view(&routes, 0)->reached < less.n) {
        f->cut = 1;
        f->all_reduce_failed = f->all_to_all_failed = 0;
    } else {
        f->all_reduce_failed = fmin(f->all_reduce_failed, all_reduce(&less, &routes, speed->bytes));
        if (!f->estimated)
            f->all_to_all_failed =
                fmin(f->all_to_all_failed, all_to_all(&less, &routes, speed->bytes));
    }
    mn_routes_free(&routes);
    mn_fabric_free(&less);
}

/* Cables of one kind on the ring are alike, and those that are not on it. */
static void judge_failures(struct mn_wiring *plan, const struct mn_wiring_speed *speed)
{
    char seen[2 * MN_WIRING_PORTS_MAX] = {0};
    int n = plan->n;

    plan->figures.all_reduce_failed = plan->figures.all_reduce;
    plan->figures.all_to_all_failed = plan->figures.all_to_all;
    for (size_t i = 0; i < plan->n_cables && !plan->figures.cut; i++) {
        const struct mn_wiring_cable *c = &plan->cables[i];
        int on_ring = (c->nodes[0] + 1) % n == c->nodes[1] || (c->nodes[1] + 1) % n == c->nodes[0];
        char *known = &seen[2 * c->kind + on_ring];
        if (plan->n_cables > EACH && *known)
            continue;
        *known = 1;
        judge_without(plan, speed, i);
    }
}

void mn_wiring_judge(struct mn_wiring *plan, const struct mn_wiring_speed *speed)
{
    struct mn_wiring_figures *f = &plan->figures;
    struct mn_fabric fabric;
    struct mn_routes routes;

    mn_wiring_fabric(plan, speed, &fabric);
    mn_routes_find(&fabric, &routes);
    *f = (struct mn_wiring_figures){.estimated = plan->n > FOLLOWED,
                                    .bisection_estimated = plan->n > MN_WIRING_NARROWED};
    find_ways(f, &routes, plan->n);
    if (!f->estimated)
        find_distance(f, &routes, plan->n);
    f->bisection = mn_fabric_bisection(&fabric, plan->half);
    f->all_reduce = all_reduce(&fabric, &routes, speed->bytes);
    f->all_to_all = f->estimated ? spread(plan, speed) : all_to_all(&fabric, &routes, speed->bytes);
    mn_routes_free(&routes);
    judge_failures(plan, speed);
    mn_fabric_free(&fabric);
}
