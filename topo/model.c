#include <math.h>
#include <stdlib.h>

#include "topo/base/alloc.h"
#include "topo/model_impl.h"

#define CHUNK (256 << 10)

const char *mn_model_op_name(enum mn_model_op op)
{
    static const char *const names[] = {"all-reduce", "all-gather", "reduce-scatter", "broadcast",
                                        "reduce",     "all-to-all", "send-recv"};

    return names[op];
}

const char *mn_model_algo_name(enum mn_model_algo algo)
{
    static const char *const names[] = {"ring", "tree", "pat", "direct"};

    return names[algo];
}

int mn_model_does(enum mn_model_algo algo, enum mn_model_op op)
{
    return mn_model_writers[algo][op] != NULL;
}

double mn_model_bus_factor(enum mn_model_op op, int n)
{
    double part = n > 0 ? (n - 1.0) / n : 0;

    switch (op) {
    case MN_MODEL_ALL_REDUCE:
        return 2 * part;
    case MN_MODEL_ALL_GATHER:
    case MN_MODEL_REDUCE_SCATTER:
    case MN_MODEL_ALL_TO_ALL:
        return part;
    default:
        return 1;
    }
}

int mn_model_node(const struct mn_model *model, int rank)
{
    return model->node_of_rank ? model->node_of_rank[rank] : rank;
}

/* --- a round -------------------------------------------------------------------------------- */

/* What both processors have with so many bytes. */
static void handle(struct mn_model_sum *s, int from, int to, double bytes)
{
    double time = ceil(bytes / s->chunk) * s->model->host.message;

    s->now.nodes[from] += time;
    s->now.nodes[to] += time;
}

static void note_flow(struct mn_model_sum *s, int from, int to, double latency)
{
    struct mn_model_flow *flow = mn_grow((void **)&s->flows, &s->n_flows, sizeof *flow);

    *flow = (struct mn_model_flow){from, to, latency};
}

void mn_model_flow(struct mn_model_sum *s, int from_rank, int to_rank, double bytes)
{
    int from = mn_model_node(s->model, from_rank), to = mn_model_node(s->model, to_rank);
    double latency;
    int hops = mn_load_flow(&s->now, s->model, from, to, bytes, s->path, &latency, &s->unknown);

    s->no_way |= hops < 0;
    if (hops <= 0)
        return;
    handle(s, from, to, bytes);
    note_flow(s, from, to, latency);
}

void mn_model_reduce(struct mn_model_sum *s, int rank, double bytes)
{
    if (s->model->host.reduce > 0)
        s->now.nodes[mn_model_node(s->model, rank)] += bytes / s->model->host.reduce;
    s->reduces = fmax(s->reduces, bytes);
}

static double reducing(const struct mn_model_sum *s, double pieces)
{
    return s->model->host.reduce > 0 ? s->reduces / pieces / s->model->host.reduce : 0;
}

static double pieces_of(const struct mn_model_sum *s, double message)
{
    return fmax(1, ceil(message / s->chunk));
}

static void forget(struct mn_model_sum *s)
{
    mn_load_clear(&s->now);
    s->n_flows = 0;
    s->reduces = 0;
}

void mn_model_round(struct mn_model_sum *s, double message)
{
    double pieces = pieces_of(s, message), latency = 0;

    for (size_t i = 0; i < s->n_flows; i++)
        latency = fmax(latency, s->flows[i].latency);
    s->latency += latency;
    s->first += mn_load_worst(&s->now).seconds / pieces + reducing(s, pieces);
    mn_load_add(&s->total, &s->now, 1);
    mn_load_add(&s->rest, &s->now, (pieces - 1) / pieces);
    forget(s);
}

static double time_of_way(const struct mn_model_sum *s, const int *path, int hops)
{
    const struct mn_fabric *f = s->model->fabric;
    double most = 0;

    for (int i = 0; i < hops; i++) {
        const struct mn_way_edge *edge = mn_routes_edge(s->model->routes, path[i], path[i + 1]);
        most = i ? fmax(most, s->now.forward[path[i]]) : most;
        for (size_t k = 0; k < edge->count; k++) {
            size_t cable = s->model->routes->cables[edge->first + k];
            const struct mn_fabric_cable *c = &f->cables[cable];
            int direction = mn_fabric_direction(c, path[i]);
            most = fmax(most, s->now.cables[2 * cable + (size_t)direction]);
            most = fmax(most, s->now.duplex[cable]);
            for (int e = 0; e < 2; e++)
                if (c->groups[e] >= 0)
                    most = fmax(most, s->now.groups[2 * c->groups[e] + (c->nodes[e] != path[i])]);
        }
    }
    return most;
}

/* What the flow's message waits for: the most loaded part of its ways. */
static double own_time(struct mn_model_sum *s, const struct mn_model_flow *flow)
{
    double most = fmax(s->now.nodes[flow->from], s->now.nodes[flow->to]);
    struct mn_load_ways ways;

    if (!mn_load_ways(s->model, flow->from, flow->to, &ways)) {
        int hops = mn_load_path(s->model, flow->from, flow->to, s->path);
        return fmax(most, time_of_way(s, s->path, hops));
    }
    for (int w = 0; w < ways.n; w++)
        most = fmax(most, time_of_way(s, ways.nodes[w], ways.hops[w]));
    return most;
}

/* Round the ring a chunk needs the mean of its hops; in that time each cable may have carried more
 * chunks than one. So a turn takes the longer of both: a slow cable hides the others' latency. */
void mn_model_turns(struct mn_model_sum *s, double message, int times)
{
    double pieces = pieces_of(s, message), latency = 0, own = 0;
    double n = fmax(1, (double)s->n_flows), worst = mn_load_worst(&s->now).seconds;

    for (size_t i = 0; i < s->n_flows; i++) {
        latency += s->flows[i].latency / n;
        own += own_time(s, &s->flows[i]) / n;
    }
    own = own / pieces + reducing(s, pieces);
    s->latency += times * latency;
    s->first += fmax(times * own, times * (worst - latency) + latency);
    mn_load_add(&s->total, &s->now, times);
    forget(s);
}

/* --- each with each other ------------------------------------------------------------------- */

struct exchange {
    struct mn_model_sum *s;
    double bytes;
    const double *ranks; /* by node: how many */
    double *passing;     /* by node: bytes that go there, or through it, from the one looked at */
    double *latency;     /* by node: of the way there */
    double *near, *far;  /* bytes over edges: 2 * edge, from its first end; + 1, from the other */
    double *through;     /* by node: bytes that it passes on */
    double *wait;        /* by edge: its latency */
};

static size_t side(const struct mn_routes *routes, uint32_t edge, int from)
{
    return 2 * (size_t)edge + (routes->ways.edges[edge].ends[0] != from);
}

/* Bytes that end at a node go over the edge by which it was reached, or its door's nearer end. */
static void add_target(struct exchange *x, const struct mn_way_view *view, int node)
{
    struct mn_model_sum *s = x->s;
    const struct mn_fabric *f = s->model->fabric;
    struct mn_routes *routes = s->model->routes;
    double bytes = x->bytes * x->ranks[view->self] * x->ranks[node];
    int door = f->doors ? f->doors[node] : -1;

    mn_load_node(&s->now, view->self, bytes);
    mn_load_node(&s->now, node, bytes);
    handle(s, view->self, node, bytes);
    if (view->hops[node] == 1) {
        x->near[side(routes, view->last[node], view->self)] += bytes;
        return;
    }
    int near = door < 0 ? node : f->cables[door].nodes[f->cables[door].nodes[0] == node];
    if (view->hops[near] >= view->hops[node]) {
        x->passing[node] += bytes;
        return;
    }
    const struct mn_way_edge *edge = mn_routes_edge(routes, near, node);
    x->far[side(routes, (uint32_t)(edge - routes->ways.edges), near)] += bytes;
    x->through[near] += bytes;
    x->passing[near] += bytes;
}

static int before(const struct exchange *x, const struct mn_way_view *view, int node)
{
    return mn_way_other_end(&x->s->model->routes->ways.edges[view->last[node]], node);
}

static void exchange_from(struct exchange *x, int from, double *longest)
{
    const struct mn_model_host *host = &x->s->model->host;
    const struct mn_way_view *view = mn_routes_view(x->s->model->routes, from);
    double far = x->s->model->fabric->far;

    x->latency[from] = 0;
    for (int i = 1; i < view->reached; i++) {
        int node = view->order[i], last = before(x, view, node);
        x->latency[node] = x->latency[last] + x->wait[view->last[node]] +
                           (last == from ? host->message : host->hop);
        if (x->ranks[node] > 0) {
            add_target(x, view, node);
            *longest = fmax(*longest, x->latency[node] + (view->hops[node] > 1 ? far : 0));
        }
    }
    /* Neighbours' own bytes are added already: what passes here is far traffic. */
    for (int i = view->reached; i-- > 1;) {
        int node = view->order[i], last = before(x, view, node);
        x->far[side(x->s->model->routes, view->last[node], last)] += x->passing[node];
        x->through[last] += last == from ? 0 : x->passing[node];
        x->passing[last] += x->passing[node];
        x->passing[node] = 0;
    }
    x->passing[from] = 0;
    for (int i = 0; view->reached < x->s->model->fabric->n && i < x->s->model->fabric->n; i++)
        x->s->no_way |= view->hops[i] < 0 && x->ranks[i] > 0;
}

static void add_exchanged(struct exchange *x)
{
    struct mn_model_sum *s = x->s;
    const struct mn_routes *routes = s->model->routes;

    for (size_t i = 0; i < 2 * routes->ways.n_edges; i++) {
        const struct mn_way_edge *edge = &routes->ways.edges[i / 2];
        const double bytes[2] = {x->near[i], x->far[i]};
        for (int far = 0; far < 2; far++)
            if (bytes[far] > 0)
                mn_load_edge(&s->now, routes, edge, edge->ends[i % 2], bytes[far], far,
                             &s->unknown);
    }
    for (int n = 0; s->model->host.forward > 0 && n < s->model->fabric->n; n++)
        s->now.forward[n] += x->through[n] / s->model->host.forward;
}

/* Where pairs have ways beside each other, pair by pair. */
static void exchange_apart(struct mn_model_sum *s, double bytes)
{
    int n = s->model->fabric->n;
    double *ranks = mn_zalloc(((size_t)n + 1) * sizeof *ranks), latency;

    for (int r = 0; r < s->n; r++)
        ranks[mn_model_node(s->model, r)]++;
    for (int i = 0; i < n * n; i++) {
        int from = i / n, to = i % n;
        double all = bytes * ranks[from] * ranks[to];
        if (from == to || !(ranks[from] > 0 && ranks[to] > 0))
            continue;
        s->no_way |=
            mn_load_flow(&s->now, s->model, from, to, all, s->path, &latency, &s->unknown) < 0;
        handle(s, from, to, all);
        note_flow(s, from, to, latency);
    }
    free(ranks);
}

void mn_model_exchange(struct mn_model_sum *s, double bytes)
{
    if (!s->model->fabric->doors && s->model->fabric->relay_ways > 1) {
        exchange_apart(s, bytes);
        return;
    }
    const struct mn_ways *ways = &s->model->routes->ways;
    size_t n = ways->n + 1, edges = ways->n_edges + 1;
    double *all = mn_zalloc((4 * n + 5 * edges) * sizeof *all), longest = 0;
    struct exchange x = {.s = s, .bytes = bytes, .ranks = all};

    x.passing = all + n;
    x.latency = x.passing + n;
    x.through = x.latency + n;
    x.near = x.through + n;
    x.far = x.near + 2 * edges;
    x.wait = x.far + 2 * edges;
    for (size_t e = 0; e < ways->n_edges; e++)
        x.wait[e] = mn_load_latency(s->model, &ways->edges[e]);
    for (int r = 0; r < s->n; r++)
        all[mn_model_node(s->model, r)]++;
    for (int i = 0; i < s->model->fabric->n; i++)
        if (x.ranks[i] > 0)
            exchange_from(&x, i, &longest);
    add_exchanged(&x);
    note_flow(s, -1, -1, longest);
    free(all);
}

/* --- all of it ------------------------------------------------------------------------------ */

static void begin(struct mn_model_sum *s, const struct mn_model *model, double bytes, int channels)
{
    *s = (struct mn_model_sum){.model = model,
                               .n = model->n_ranks,
                               .channels = channels,
                               .bytes = bytes,
                               .chunk = model->host.chunk > 0 ? model->host.chunk : CHUNK,
                               .unknown = -1};
    mn_load_make(model->fabric, &s->now);
    mn_load_make(model->fabric, &s->total);
    mn_load_make(model->fabric, &s->rest);
    s->path = mn_zalloc(((size_t)model->fabric->n + 1) * sizeof *s->path);
}

static void end(struct mn_model_sum *s)
{
    mn_load_free(&s->now);
    mn_load_free(&s->total);
    mn_load_free(&s->rest);
    free(s->flows);
    free(s->path);
}

static void conclude(const struct mn_model_sum *s, enum mn_model_op op, struct mn_model_result *r)
{
    struct mn_load_worst worst = mn_load_worst(&s->total);

    r->latency = s->latency;
    r->seconds = fmax(s->latency + s->first + mn_load_worst(&s->rest).seconds, worst.seconds);
    r->algbw = r->seconds > 0 ? s->bytes / r->seconds : 0;
    r->busbw = r->algbw * mn_model_bus_factor(op, s->n);
    r->limit = 2 * s->latency > r->seconds ? MN_LIMIT_LATENCY : worst.limit;
    r->cable = worst.cable;
    r->direction = worst.direction;
    r->group = worst.group;
    r->node = worst.node;
}

enum mn_err mn_model_predict(const struct mn_model *model, enum mn_model_op op,
                             enum mn_model_algo algo, double bytes, int channels,
                             struct mn_model_result *result)
{
    struct mn_model_sum s;

    *result = (struct mn_model_result){.seconds = NAN, .cable = -1, .direction = -1};
    result->group = result->node = -1;
    if (!mn_model_does(algo, op))
        return MN_ERR_UNSUPPORTED;
    begin(&s, model, bytes, channels);
    mn_model_writers[algo][op](&s);
    enum mn_err err = s.no_way || s.unknown >= 0 ? MN_ERR_NOTFOUND : MN_OK;
    if (!err)
        conclude(&s, op, result);
    else if (!s.no_way)
        result->cable = s.unknown;
    end(&s);
    return err;
}

double mn_fabric_bisection(const struct mn_fabric *fabric, const char *half)
{
    double sum[2] = {0, 0};

    for (size_t c = 0; c < fabric->n_cables; c++) {
        const struct mn_fabric_cable *cable = &fabric->cables[c];
        int side[2];
        for (int i = 0; i < 2; i++)
            side[i] = half ? half[cable->nodes[i]] != 0 : 2 * cable->nodes[i] >= fabric->n;
        for (int d = 0; d < 2 && side[0] != side[1]; d++)
            sum[side[d]] += mn_fabric_rate(cable, d);
    }
    return sum[0] < sum[1] ? sum[0] : sum[1];
}
