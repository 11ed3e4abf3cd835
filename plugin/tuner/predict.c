/* What the model says of each collective, way and size, and what NCCL's protocols add. */
#include <math.h>
#include <string.h>

#include "plugin/tuner/tuning_impl.h"
#include "topo/model.h"

#define MICRO 1e6
#define GAIN  0.95 /* what one channel has to be better by, for NCCL's own choice is a good one */
#define FINE  16   /* nodes up to which each size is predicted; beyond, every fourth */
#define MOST  512  /* beyond, prediction takes too long for a job's start */

/* NCCL's constants from 2.22 on (src/graph/tuning.cc), for versions that do not hand them over: in
 * microseconds, of each collective and of each step over a network. */
static const double base_default[MN_TUNING_WAYS][NCCL_NUM_PROTOCOLS] =
    {[MN_TUNING_RING] = {6.6, 14, 8.4},
     [MN_TUNING_TREE] = {6.8, 14, 8.4},
     [MN_TUNING_PAT] = {8, 8, 8}};
static const double step_default[MN_TUNING_WAYS][NCCL_NUM_PROTOCOLS] =
    {[MN_TUNING_RING] = {2.7, 4, 14},
     [MN_TUNING_TREE] = {5, 8.5, 14},
     [MN_TUNING_PAT] = {14, 14, 14}};

static const struct {
    int algorithm;
    enum mn_model_algo model;
} ways[MN_TUNING_WAYS] = {[MN_TUNING_RING] = {NCCL_ALGO_RING, MN_MODEL_RING},
                          [MN_TUNING_TREE] = {NCCL_ALGO_TREE, MN_MODEL_TREE},
                          [MN_TUNING_PAT] = {NCCL_ALGO_PAT, MN_MODEL_PAT}};

static const enum mn_model_op ops[NCCL_TUNER_NUM_FUNCTIONS] =
    {[ncclFuncBroadcast] = MN_MODEL_BROADCAST,
     [ncclFuncReduce] = MN_MODEL_REDUCE,
     [ncclFuncAllGather] = MN_MODEL_ALL_GATHER,
     [ncclFuncReduceScatter] = MN_MODEL_REDUCE_SCATTER,
     [ncclFuncAllReduce] = MN_MODEL_ALL_REDUCE};

/* One after the other. */
static int steps_of(int function, enum mn_tuning_way way, int nodes)
{
    int depth = 0;

    while ((1 << depth) < nodes && depth < 30)
        depth++;
    if (way == MN_TUNING_TREE)
        return 2 * depth;
    if (way == MN_TUNING_PAT)
        return depth;
    return (function == ncclFuncAllReduce ? 2 : 1) * (nodes - 1);
}

/* The model knows a network's latency; a protocol's is what its steps take longer than LL's in a
 * ring, NCCL's quickest. */
static void add_protocols(const ncclTunerConstants_v5_t *c, int function, enum mn_tuning_way way,
                          struct mn_tuning *t)
{
    int steps = steps_of(function, way, t->nodes), a = ways[way].algorithm;
    double quickest = c ? c->hwLatencies[NCCL_HW_NET][NCCL_ALGO_RING][NCCL_PROTO_LL]
                        : step_default[MN_TUNING_RING][NCCL_PROTO_LL];

    for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
        double base = c ? c->baseLatencies[a][p] : base_default[way][p],
               step = (c ? c->hwLatencies[NCCL_HW_NET][a][p] : step_default[way][p]) - quickest;
        t->protocol[function][way][p] = (float)(base + (step > 0 ? steps * step : 0));
    }
}

/* Of what is gathered or reduced each rank's own part does not travel: a ring of more ranks than
 * nodes brings more of it over the cables than the model of one rank a node has. */
static double share(int function, enum mn_tuning_way way, const struct mn_tuning *t)
{
    if (way == MN_TUNING_TREE || function == ncclFuncBroadcast || function == ncclFuncReduce)
        return 1;
    double ranks = t->ranks, nodes = t->nodes;
    return (ranks - 1) / ranks * nodes / (nodes - 1);
}

/* What one channel of a tree carries on the slowest GPU that NCCL knows, in bytes/s; 0: not known.
 */
static double channel_limit(const ncclTunerConstants_v5_t *c, int nodes)
{
    int scale = nodes >= 4 ? 2 : nodes >= 2 ? 1 : 0;
    double least = c ? c->perChMaxTreeBws[0][scale] : 0;

    for (int cap = 0; c && cap < NCCL_NUM_COMPCAPS_V5; cap++) {
        least = fmin(least, c->perChMaxTreeBws[cap][scale]);
        least = fmin(least, c->perChMaxTreeLL128Bws[cap][scale]);
    }
    return least * 1e9;
}

/* The channels that NCCL has at least; what has two trees has one with one channel. */
static enum mn_err predict_one(const struct mn_model *model, int function, enum mn_tuning_way way,
                               int k, struct mn_tuning *t, double limit)
{
    struct mn_model_result two, one;
    double bytes = ldexp(1, k) * share(function, way, t);
    enum mn_err err = mn_model_predict(model, ops[function], ways[way].model, bytes, 2, &two);

    if (err)
        return err;
    float *time = &t->times[function][way][k];
    *time = (float)(two.seconds * MICRO);
    /* NCCL has more channels than one for the sake of the GPU, too. */
    if (way != MN_TUNING_TREE || limit <= 0 || t->ranks > t->nodes)
        return MN_OK;
    err = mn_model_predict(model, ops[function], ways[way].model, bytes, 1, &one);
    double alone = fmax(one.seconds, bytes / limit);
    if (!err && alone < two.seconds * GAIN) {
        t->one_channel[function][way][k] = 1;
        *time = (float)(alone * MICRO);
    }
    return err;
}

/* Between those that were predicted the time grows evenly. */
static void fill_between(float *times, unsigned char *one_channel, int from, int to)
{
    double low = ldexp(1, from), high = ldexp(1, to);

    for (int k = from + 1; k < to; k++) {
        double part = (ldexp(1, k) - low) / (high - low);
        times[k] = (float)(times[from] + part * (times[to] - times[from]));
        one_channel[k] = one_channel[from] && one_channel[to];
    }
}

/* 0: something in it is not known. */
static int predict(const struct mn_model *model, int function, enum mn_tuning_way way,
                   const struct mn_tuning_asked *asked, struct mn_tuning *t)
{
    double limit = channel_limit(asked->constants, t->nodes);
    int stride = t->nodes <= FINE ? 1 : 4;

    for (int k = 0; k < MN_TUNING_SIZES; k += stride) {
        if (predict_one(model, function, way, k, t, limit))
            return 0;
        if (k)
            fill_between(t->times[function][way], t->one_channel[function][way], k - stride, k);
    }
    return 1;
}

void mn_tuning_predict(const struct mn_fabric *fabric, const struct mn_tuning_asked *asked,
                       struct mn_tuning *t)
{
    struct mn_routes routes;
    struct mn_model model = {.fabric = fabric,
                             .routes = &routes,
                             .node_of_rank = t->order,
                             .n_ranks = t->nodes};

    if (t->nodes > MOST)
        return;
    mn_routes_find(fabric, &routes);
    t->predicts = 1;
    for (int f = 0; f < NCCL_TUNER_NUM_FUNCTIONS && t->predicts; f++)
        for (enum mn_tuning_way way = 0; way < MN_TUNING_WAYS && t->predicts; way++) {
            int barred = !asked->everything && t->barred & (1u << ways[way].algorithm);
            if (barred || !mn_model_does(ways[way].model, ops[f]))
                continue;
            add_protocols(asked->constants, f, way, t);
            t->predicts = predict(&model, f, way, asked, t);
        }
    mn_routes_free(&routes);
}
