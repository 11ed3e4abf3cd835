#include "cli/tune.h"

#include "topo/model.h"

static const struct {
    int function;
    enum mn_model_op op;
} functions[] = {{ncclFuncAllReduce, MN_MODEL_ALL_REDUCE},
                 {ncclFuncAllGather, MN_MODEL_ALL_GATHER},
                 {ncclFuncReduceScatter, MN_MODEL_REDUCE_SCATTER},
                 {ncclFuncBroadcast, MN_MODEL_BROADCAST},
                 {ncclFuncReduce, MN_MODEL_REDUCE}};

_Static_assert(sizeof functions / sizeof *functions == NCCL_TUNER_NUM_FUNCTIONS, "all of them");

int mn_advice_function_at(size_t i)
{
    return functions[i].function;
}

static enum mn_model_op op_of(int function)
{
    size_t i = 0;

    while (functions[i].function != function)
        i++;
    return functions[i].op;
}

const char *mn_advice_function(int function)
{
    return mn_model_op_name(op_of(function));
}

const char *mn_advice_algorithm(int algorithm)
{
    return algorithm == NCCL_ALGO_RING   ? "Ring"
           : algorithm == NCCL_ALGO_TREE ? "Tree"
           : algorithm == NCCL_ALGO_PAT  ? "PAT"
                                         : NULL;
}

const char *mn_advice_protocol(int protocol)
{
    static const char *const names[] = {"LL", "LL128", "Simple"};

    return protocol < 0 ? NULL : names[protocol];
}

/* --- deciding --------------------------------------------------------------------------------- */

const int mn_advice_algorithms[MN_TUNING_WAYS] = {[MN_TUNING_RING] = NCCL_ALGO_RING,
                                                  [MN_TUNING_TREE] = NCCL_ALGO_TREE,
                                                  [MN_TUNING_PAT] = NCCL_ALGO_PAT};

/* What NCCL has of it, one GPU or more a node, no CollNet. */
static int is_offered(int function, int algorithm, int protocol)
{
    return algorithm == NCCL_ALGO_RING ||
           (algorithm == NCCL_ALGO_TREE && function == ncclFuncAllReduce) ||
           (algorithm == NCCL_ALGO_PAT && protocol == NCCL_PROTO_SIMPLE &&
            (function == ncclFuncAllGather || function == ncclFuncReduceScatter));
}

/* Asks as NCCL does, with figures of its own that are all 0: what comes back is the tuner's. */
static void decide(const struct mn_tuning *t, struct mn_advice_row *row)
{
    float table[NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS];
    int best = -1, left = 0;

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            table[a * NCCL_NUM_PROTOCOLS + p] =
                is_offered(row->function, a, p) ? 0 : NCCL_ALGO_PROTO_IGNORE;
    mn_tuning_costs(t, row->function, row->bytes, 1, table, NCCL_NUM_ALGORITHMS, NCCL_NUM_PROTOCOLS,
                    &row->channels);
    for (int i = 0; i < NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS; i++)
        if (table[i] >= 0 && (best < 0 || table[i] < table[best]))
            best = i;
    row->algorithm = row->protocol = -1;
    if (!t->barred && !(t->predicts && t->rule >= MN_TUNING_UNEQUAL))
        return;
    for (int i = 0; i < NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS; i++)
        left += table[i] >= 0 && i / NCCL_NUM_PROTOCOLS != best / NCCL_NUM_PROTOCOLS;
    if (!t->predicts && left)
        return;
    row->algorithm = best / NCCL_NUM_PROTOCOLS;
    if (!t->predicts)
        return;
    row->protocol = best % NCCL_NUM_PROTOCOLS;
    row->time_us = (double)table[best];
    row->busbw = (double)row->bytes / (row->time_us * 1e-6) *
                 mn_model_bus_factor(op_of(row->function), t->ranks);
}

/* Each way with its best protocol. */
static void compare(const struct mn_tuning *t, struct mn_advice_row *row)
{
    for (enum mn_tuning_way way = 0; way < MN_TUNING_WAYS; way++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
            double us =
                mn_tuning_time(t, row->function, row->bytes, 1, mn_advice_algorithms[way], p);
            if (is_offered(row->function, mn_advice_algorithms[way], p) && us > 0 &&
                (!row->ways_us[way] || us < row->ways_us[way]))
                row->ways_us[way] = us;
        }
}

void mn_advice_ask(const struct mn_tuning *tuning, struct mn_advice_row *row)
{
    decide(tuning, row);
    compare(tuning, row);
}
