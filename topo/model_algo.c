/* The algorithms, as rounds. */
#include "topo/model_impl.h"
#include "topo/nccl_tree.h"

/* --- rings ---------------------------------------------------------------------------------- */

/* Each rank sends its slice to the next one, times so; in so many of these what came is added. */
static void turns(struct mn_model_sum *s, double slice, int times, int reduces)
{
    for (int r = 0; s->n > 1 && r < s->n; r++)
        mn_model_flow(s, r, (r + 1) % s->n, slice);
    for (int r = 0; r < s->n && reduces; r++)
        mn_model_reduce(s, r, slice * reduces / times);
    if (s->n > 1)
        mn_model_turns(s, slice, times);
}

static void ring_all_reduce(struct mn_model_sum *s)
{
    turns(s, s->bytes / s->n, 2 * (s->n - 1), s->n - 1);
}

static void ring_all_gather(struct mn_model_sum *s)
{
    turns(s, s->bytes / s->n, s->n - 1, 0);
}

static void ring_reduce_scatter(struct mn_model_sum *s)
{
    turns(s, s->bytes / s->n, s->n - 1, s->n - 1);
}

/* Round the ring but for its last hop, chunk behind chunk. */
static void ring_broadcast(struct mn_model_sum *s)
{
    for (int r = 0; r < s->n - 1; r++) {
        mn_model_flow(s, r, r + 1, s->bytes);
        mn_model_round(s, s->bytes);
    }
}

static void ring_reduce(struct mn_model_sum *s)
{
    for (int r = 1; r < s->n; r++) {
        mn_model_flow(s, r, (r + 1) % s->n, s->bytes);
        mn_model_reduce(s, (r + 1) % s->n, s->bytes);
        mn_model_round(s, s->bytes);
    }
}

static void ring_send_recv(struct mn_model_sum *s)
{
    for (int r = 0; s->n > 1 && r < s->n; r++)
        mn_model_flow(s, r, (r + 1) % s->n, s->bytes);
    mn_model_round(s, s->bytes);
}

/* --- trees ---------------------------------------------------------------------------------- */

static int depth_of(int n, int tree, int rank)
{
    int depth = 0;

    for (; (rank = mn_nccl_tree_parent(n, tree, rank)) >= 0; depth++)
        ;
    return depth;
}

/* One round for each level, of both trees together: the deepest first going up. */
static void level(struct mn_model_sum *s, int depth, int up)
{
    int trees = s->channels == 1 ? 1 : MN_NCCL_TREES;
    double bytes = s->bytes / trees;

    for (int t = 0; t < trees; t++)
        for (int r = 0; r < s->n; r++) {
            int parent = mn_nccl_tree_parent(s->n, t, r);
            if (parent < 0 || depth_of(s->n, t, r) != depth)
                continue;
            mn_model_flow(s, up ? r : parent, up ? parent : r, bytes);
            if (up)
                mn_model_reduce(s, parent, bytes);
        }
    mn_model_round(s, bytes);
}

static void tree_all_reduce(struct mn_model_sum *s)
{
    int deepest = 0;

    for (int t = 0; t < MN_NCCL_TREES; t++)
        for (int r = 0; r < s->n; r++)
            deepest = depth_of(s->n, t, r) > deepest ? depth_of(s->n, t, r) : deepest;
    for (int d = deepest; d > 0; d--)
        level(s, d, 1);
    for (int d = 1; d <= deepest; d++)
        level(s, d, 0);
}

/* --- PAT ------------------------------------------------------------------------------------ */

/* Each block goes down a tree in which the farthest distance comes first: from offset to offset
 * its lowest bit further. So many of a rank's blocks go over that distance. */
static int blocks_over(int n, int distance)
{
    int blocks = 0;

    for (int offset = distance; offset < n; offset += 2 * distance)
        blocks++;
    return blocks;
}

static void pat(struct mn_model_sum *s, int reduces)
{
    double block = s->bytes / s->n;
    int far = 1;

    while (2 * far < s->n)
        far *= 2;
    for (int distance = far; s->n > 1 && distance > 0; distance /= 2) {
        double bytes = block * blocks_over(s->n, distance);
        for (int r = 0; r < s->n; r++) {
            mn_model_flow(s, r, (r + distance) % s->n, bytes);
            if (reduces)
                mn_model_reduce(s, r, bytes);
        }
        mn_model_round(s, bytes);
    }
}

static void pat_all_gather(struct mn_model_sum *s)
{
    pat(s, 0);
}

/* The same backwards, which in a model takes as long. */
static void pat_reduce_scatter(struct mn_model_sum *s)
{
    pat(s, 1);
}

/* --- direct --------------------------------------------------------------------------------- */

static void exchange(struct mn_model_sum *s, int reduces)
{
    double block = s->bytes / s->n;

    mn_model_exchange(s, block);
    for (int r = 0; r < s->n && reduces; r++)
        mn_model_reduce(s, r, block * (s->n - 1));
    mn_model_round(s, block);
}

static void direct_all_reduce(struct mn_model_sum *s)
{
    exchange(s, 1);
    exchange(s, 0);
}

static void direct_all_to_all(struct mn_model_sum *s)
{
    exchange(s, 0);
}

static void direct_reduce_scatter(struct mn_model_sum *s)
{
    exchange(s, 1);
}

static void direct_broadcast(struct mn_model_sum *s)
{
    for (int r = 1; r < s->n; r++)
        mn_model_flow(s, 0, r, s->bytes);
    mn_model_round(s, s->bytes);
}

static void direct_reduce(struct mn_model_sum *s)
{
    for (int r = 1; r < s->n; r++)
        mn_model_flow(s, r, 0, s->bytes);
    mn_model_reduce(s, 0, s->bytes * (s->n - 1));
    mn_model_round(s, s->bytes);
}

mn_model_write *const mn_model_writers[MN_MODEL_ALGOS][MN_MODEL_OPS] = {
    [MN_MODEL_RING] = {[MN_MODEL_ALL_REDUCE] = ring_all_reduce,
                       [MN_MODEL_ALL_GATHER] = ring_all_gather,
                       [MN_MODEL_REDUCE_SCATTER] = ring_reduce_scatter,
                       [MN_MODEL_BROADCAST] = ring_broadcast,
                       [MN_MODEL_REDUCE] = ring_reduce},
    [MN_MODEL_TREE] = {[MN_MODEL_ALL_REDUCE] = tree_all_reduce},
    [MN_MODEL_PAT] =
        {[MN_MODEL_ALL_GATHER] = pat_all_gather, [MN_MODEL_REDUCE_SCATTER] = pat_reduce_scatter},
    [MN_MODEL_DIRECT] = {[MN_MODEL_ALL_REDUCE] = direct_all_reduce,
                         [MN_MODEL_ALL_GATHER] = direct_all_to_all,
                         [MN_MODEL_REDUCE_SCATTER] = direct_reduce_scatter,
                         [MN_MODEL_BROADCAST] = direct_broadcast,
                         [MN_MODEL_REDUCE] = direct_reduce,
                         [MN_MODEL_ALL_TO_ALL] = direct_all_to_all,
                         [MN_MODEL_SEND_RECV] = ring_send_recv},
};
