/* Which rule holds, and which algorithms leave the cables. */
#include <stdlib.h>
#include <string.h>

#include "plugin/tuner/tuning_impl.h"
#include "topo/base/alloc.h"
#include "topo/nccl_tree.h"
#include "topo/ring.h"

#define FEW 3 /* nodes up to which every algorithm joins the same pairs */

const char *mn_tuning_rule_text(enum mn_tuning_rule rule)
{
    static const char *const texts[] = {
        [MN_TUNING_UNASKED] =
            "not asked: NCCL decides (set NCCL_TUNER_PLUGIN=mesh on all ranks: meshnet env does)",
        [MN_TUNING_NO_MESH] = "no mesh file",
        [MN_TUNING_OFF] = "tuner: false in the mesh file, or MESHNET_TUNER",
        [MN_TUNING_ONE_NODE] = "one node",
        [MN_TUNING_NVLINK] = "NVLink joins the nodes",
        [MN_TUNING_STRANGERS] = "more nodes than the mesh file has",
        [MN_TUNING_COMPLETE] = "every two nodes have a cable",
        [MN_TUNING_UNEQUAL] = "every two nodes have a cable, of different speeds",
        [MN_TUNING_CABLES] = "not every two nodes have a cable, ranks numbered along the cables",
        [MN_TUNING_PART] = "some of the mesh's nodes, not known which",
    };

    return texts[rule];
}

/* Numbers of nodes are NCCL's: places in the order. */
struct pairs {
    const struct mn_graph *graph;
    const int *order;
    int n;
};

static int has_cable(const struct pairs *p, int a, int b)
{
    return mn_graph_joined(p->graph, p->order[a], p->order[b]);
}

/* Or is joined by the ring, which NCCL connects in any case. */
static int is_free(const struct pairs *p, int a, int b)
{
    int apart = abs(a - b);

    return apart <= 1 || apart == p->n - 1 || has_cable(p, a, b);
}

static int note(int a, int b, int pair[2])
{
    pair[0] = a < b ? a : b;
    pair[1] = a < b ? b : a;
    return 1;
}

static int trees_leave(const struct pairs *p, int pair[2])
{
    for (int tree = 0; tree < MN_NCCL_TREES; tree++)
        for (int node = 0; node < p->n; node++) {
            int up = mn_nccl_tree_parent(p->n, tree, node);
            if (up >= 0 && !is_free(p, node, up))
                return note(node, up, pair);
        }
    return 0;
}

/* Distances are powers of two, around the circle. */
static int pat_leaves(const struct pairs *p, int pair[2])
{
    for (int distance = 1; distance < p->n; distance *= 2)
        for (int node = 0; node < p->n; node++)
            if (!is_free(p, node, (node + distance) % p->n))
                return note(node, (node + distance) % p->n, pair);
    return 0;
}

#define TREES ((1u << NCCL_ALGO_TREE) | (1u << NCCL_ALGO_NVLS_TREE))
#define PAT   (1u << NCCL_ALGO_PAT)

static void judge_cables(const struct mn_graph *graph, struct mn_tuning *tuner)
{
    struct mn_ring ring;
    struct pairs p = {.graph = graph, .order = tuner->order, .n = tuner->nodes};

    mn_graph_ring(graph, &ring);
    memcpy(tuner->order, ring.order, (size_t)p.n * sizeof *ring.order);
    tuner->gaps = ring.missing;
    mn_ring_free(&ring);
    tuner->barred = (trees_leave(&p, tuner->leave[MN_TUNING_TREE]) ? TREES : 0) |
                    (pat_leaves(&p, tuner->leave[MN_TUNING_PAT]) ? PAT : 0);
}

static int is_complete(const struct mn_graph *graph)
{
    for (size_t node = 0; node < graph->n; node++)
        if (mn_graph_degree(graph, node) != graph->n - 1)
            return 0;
    return 1;
}

/* One speed, and as many cables between any two nodes. */
static int all_alike(const struct mn_fabric *f)
{
    size_t pairs = (size_t)f->n * (size_t)(f->n - 1) / 2;
    size_t each = pairs ? f->n_cables / pairs : 0, *count;
    int alike = pairs && f->n_cables == each * pairs;

    count = mn_zalloc((size_t)f->n * (size_t)f->n * sizeof *count);
    for (size_t i = 0; i < f->n_cables && alike; i++) {
        const struct mn_fabric_cable *c = &f->cables[i];
        int low = c->nodes[c->nodes[0] > c->nodes[1]], high = c->nodes[c->nodes[0] < c->nodes[1]];
        alike = ++count[(size_t)low * (size_t)f->n + (size_t)high] <= each;
        for (int direction = 0; direction < 2; direction++)
            alike &= mn_fabric_rate(c, direction) == f->cables[0].rate;
    }
    free(count);
    return alike;
}

static enum mn_tuning_rule rule_of_counts(const struct mn_mesh *mesh,
                                          const struct mn_tuning_asked *asked)
{
    if (!mesh || !mesh->n_nodes)
        return MN_TUNING_NO_MESH;
    if (!mesh->settings.tuner)
        return MN_TUNING_OFF;
    if (asked->nodes < 2)
        return MN_TUNING_ONE_NODE;
    if (asked->nvlink_domains > 0 && (size_t)asked->nvlink_domains < asked->nodes)
        return MN_TUNING_NVLINK;
    if (asked->nodes > mesh->n_nodes)
        return MN_TUNING_STRANGERS;
    return asked->nodes == mesh->n_nodes ? MN_TUNING_CABLES : MN_TUNING_PART;
}

void mn_tuning_decide(const struct mn_mesh *mesh, const struct mn_tuning_asked *asked,
                      const struct mn_fabric *fabric, struct mn_tuning *tuner)
{
    struct mn_graph graph;

    tuner->rule = rule_of_counts(mesh, asked);
    if (tuner->rule != MN_TUNING_CABLES && tuner->rule != MN_TUNING_PART)
        return;
    int(*pairs)[2] = mn_zalloc((fabric->n_cables + 1) * sizeof *pairs);
    for (size_t i = 0; i < fabric->n_cables; i++)
        for (int side = 0; side < 2; side++)
            pairs[i][side] = fabric->cables[i].nodes[side];
    mn_graph_make((size_t)fabric->n, (const int(*)[2])pairs, fabric->n_cables, &graph);
    free(pairs);
    if (is_complete(&graph) && (tuner->rule == MN_TUNING_PART || all_alike(fabric)))
        tuner->rule = MN_TUNING_COMPLETE;
    else if (is_complete(&graph))
        tuner->rule = MN_TUNING_UNEQUAL;
    else if (tuner->rule == MN_TUNING_PART && tuner->nodes > FEW)
        tuner->barred = TREES | PAT;
    if (tuner->rule != MN_TUNING_PART) {
        tuner->order = mn_zalloc((size_t)tuner->nodes * sizeof *tuner->order);
        for (int i = 0; i < tuner->nodes; i++)
            tuner->order[i] = i; /* which ones of a complete mesh is all the same */
    }
    if (tuner->rule == MN_TUNING_CABLES)
        judge_cables(&graph, tuner);
    mn_graph_free(&graph);
}
