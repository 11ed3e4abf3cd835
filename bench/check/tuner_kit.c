#include "bench/check/tuner_kit.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
#define GUARD        0x7a51c3e9u
#define SERIES_STEP  7 /* of all questions, every so many */

static const struct shape {
    size_t ranks, nodes;
} shapes[] = {{2, 2}, {3, 3}, {4, 4}, {8, 1}, {16, 2}, {64, 8}, {1024, 128}};

static const size_t sizes[] = {1,       8,       1000,         4096,      65536,
                               1000000, 8388608, 1073741824ul, 1ul << 40, 1ul << 44};

const char *mn_tune_func_name(int func)
{
    static const char *const names[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                        "AllReduce"};
    static _Thread_local char other[32];

    if (func >= 0 && func < COUNT(names))
        return names[func];
    snprintf(other, sizeof other, "function %d", func);
    return other;
}

const char *mn_tune_cell_name(int algo, int proto, char text[32])
{
    static const char *const algos[] = {"Tree",     "Ring", "CollNetDirect", "CollNetChain", "NVLS",
                                        "NVLSTree", "PAT"};
    static const char *const protos[] = {"LL", "LL128", "Simple"};

    if (algo >= 0 && algo < COUNT(algos) && proto >= 0 && proto < COUNT(protos))
        snprintf(text, 32, "%s/%s", algos[algo], protos[proto]);
    else if (algo == NCCL_ALGO_UNDEF && proto == NCCL_PROTO_UNDEF)
        snprintf(text, 32, "no choice");
    else
        snprintf(text, 32, "algorithm %d/protocol %d", algo, proto);
    return text;
}

const char *mn_tune_name(const struct mn_tune_question *question, char text[160])
{
    static const char *const kinds[] = {"", " with CollNet and NVLS", " with rings alone",
                                        " with Simple alone", " with one way alone"};
    const struct mn_tuner_call *call = &question->call;

    snprintf(text, 160, "%s of %zu bytes%s, numPipeOps %d%s", mn_tune_func_name(call->func),
             call->bytes, kinds[question->kind], call->pipe_ops,
             call->reg_buff ? ", registered" : "");
    return text;
}

/* Ring and tree everywhere a kernel for them is, the rest of Simple alone. */
static int is_possible(int func, int algo, int proto, enum mn_tune_kind kind)
{
    const int gathers = func == ncclFuncAllGather || func == ncclFuncReduceScatter;

    if (kind == MN_TUNE_ONE)
        return algo == NCCL_ALGO_RING && proto == NCCL_PROTO_SIMPLE;
    if ((kind == MN_TUNE_RING && algo != NCCL_ALGO_RING) ||
        (kind == MN_TUNE_SIMPLE && proto != NCCL_PROTO_SIMPLE))
        return 0;
    if (algo == NCCL_ALGO_RING)
        return 1;
    if (algo == NCCL_ALGO_TREE)
        return func == ncclFuncAllReduce;
    if (proto != NCCL_PROTO_SIMPLE)
        return 0;
    if (algo == NCCL_ALGO_PAT)
        return gathers;
    if (kind != MN_TUNE_ALL)
        return 0;
    if (algo == NCCL_ALGO_NVLS || algo == NCCL_ALGO_COLLNET_DIRECT)
        return gathers || func == ncclFuncAllReduce;
    return func == ncclFuncAllReduce;
}

/* Microseconds; of no network in particular. */
static float cost(const struct mn_tuner_call *call, int algo, int proto, enum mn_tune_kind kind)
{
    static const float latency[] = {4, 7, 30}, rate[] = {6, 20, 24}; /* GB/s */

    if (kind == MN_TUNE_ONE)
        return 3e8f;
    return latency[proto] * (float)(2 + algo) +
           (float)call->bytes / (1000 * rate[proto] / (float)(1 + algo % 3));
}

static void fill(const struct mn_tune_question *question, float *table)
{
    for (int a = 0; a < question->call.n_algo; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            table[a * NCCL_NUM_PROTOCOLS + p] =
                is_possible(question->call.func, a, p, question->kind)
                    ? cost(&question->call, a, p, question->kind)
                    : NCCL_ALGO_PROTO_IGNORE;
}

void mn_tune_constants(ncclTunerConstants_v5_t *constants)
{
    double *value = (double *)(void *)constants;

    for (size_t i = 0; i < sizeof *constants / sizeof *value; i++)
        value[i] = 1.5 + (double)(i % 17);
}

static int guards_hold(const unsigned *guards, int n)
{
    for (int i = 0; i < n; i++)
        if (guards[i] != GUARD)
            return 0;
    return 1;
}

static void set_guards(unsigned *guards, int n)
{
    for (int i = 0; i < n; i++)
        guards[i] = GUARD;
}

int mn_tune_init(struct mn_check *check, struct mn_tune_comm *comm, const char **overrun)
{
    struct {
        unsigned front[32];
        ncclTunerConstants_v5_t constants;
        unsigned back[32];
        ncclNvlDomainInfo_v5_t domain;
        unsigned last[32];
    } args;
    const int per_node = (int)(comm->ranks / comm->nodes);
    const ncclNvlDomainInfo_v5_t domain = {(int)comm->nodes, per_node, per_node};
    const struct mn_tuner_comm told = {comm->id, comm->ranks, comm->nodes, &args.domain,
                                       &args.constants};
    int result;

    set_guards(args.front, COUNT(args.front));
    set_guards(args.back, COUNT(args.back));
    set_guards(args.last, COUNT(args.last));
    args.domain = domain;
    mn_tune_constants(&args.constants);
    comm->ctx = NULL;
    mn_raw_enter(check->raw.watch, MN_RAW_TUNER);
    result = mn_raw_leave(check->raw.watch, MN_RAW_TUNER,
                          mn_tuner_init(&check->tuner, &told, mn_check_logger(), &comm->ctx), 1);
    comm->constants = args.constants;
    if (overrun)
        *overrun = !guards_hold(args.front, COUNT(args.front))    ? "before the constants"
                   : !guards_hold(args.back, COUNT(args.back))    ? "behind the constants"
                   : !guards_hold(args.last, COUNT(args.last))    ? "behind the NVLink domains"
                   : memcmp(&args.domain, &domain, sizeof domain) ? "over the NVLink domains"
                                                                  : NULL;
    return result;
}

int mn_tune_end(struct mn_check *check, struct mn_tune_comm *comm)
{
    mn_raw_enter(check->raw.watch, MN_RAW_TUNER);
    return mn_raw_leave(check->raw.watch, MN_RAW_TUNER, mn_tuner_end(&check->tuner, comm->ctx), 1);
}

void mn_tune_open(struct mn_check *check, size_t ranks, size_t nodes, uint64_t id,
                  struct mn_tune_comm *comm)
{
    const char *absent = mn_tuner_absent(&check->tuner);
    int result;

    *comm = (struct mn_tune_comm){.id = id, .ranks = ranks, .nodes = nodes};
    if (absent)
        mn_check_skip(check, "%s is NULL (rule tuner.slots)", absent);
    mn_check_step(check, "init of %zu ranks on %zu nodes", ranks, nodes);
    result = mn_tune_init(check, comm, NULL);
    if (result)
        mn_check_skip(check, "init returned %s (rule tuner.init)", mn_nccl_result_name(result));
}

void mn_tune_close(struct mn_check *check, struct mn_tune_comm *comm)
{
    int result;

    mn_check_step(check, "destroy");
    result = mn_tune_end(check, comm);
    if (result)
        mn_check_skip(check, "destroy returned %s (rule tuner.destroy)",
                      mn_nccl_result_name(result));
}

/* As topoGetAlgoInfo: the first of the lowest. */
static void choose(const float *table, int n_algo, struct mn_tune_choice *choice)
{
    float least = FLT_MAX;

    for (int i = 0; i < n_algo * NCCL_NUM_PROTOCOLS; i++)
        if (table[i] >= 0 && table[i] < least) {
            choice->algo = i / NCCL_NUM_PROTOCOLS;
            choice->proto = i % NCCL_NUM_PROTOCOLS;
            least = table[i];
        }
}

void mn_tune_ask(struct mn_check *check, const struct mn_tune_comm *comm,
                 const struct mn_tune_question *question, struct mn_tune_reply *reply)
{
    /* As on NCCL's stack, each with others' memory around it. */
    struct {
        unsigned front[MN_TUNE_GUARDS];
        float table[MN_TUNER_CELLS];
        unsigned back[MN_TUNE_GUARDS];
        int algo;
        unsigned second[2];
        int proto;
        unsigned third[2];
        int channels;
        unsigned last[2];
    } args = {.algo = NCCL_ALGO_UNDEF, .proto = NCCL_PROTO_UNDEF};
    const struct mn_tuner_answer answer = {args.table, &args.algo, &args.proto, &args.channels};
    const int cells = question->call.n_algo * NCCL_NUM_PROTOCOLS;

    memset(reply, 0, sizeof *reply);
    set_guards(args.front, MN_TUNE_GUARDS);
    set_guards(args.back, MN_TUNE_GUARDS);
    set_guards(args.second, 2);
    set_guards(args.third, 2);
    set_guards(args.last, 2);
    memset(args.table, 0x7a, sizeof args.table);
    fill(question, args.table);
    memcpy(reply->before, args.table, sizeof args.table);
    mn_raw_enter(check->raw.watch, MN_RAW_TUNER);
    reply->result =
        mn_raw_leave(check->raw.watch, MN_RAW_TUNER,
                     mn_tuner_ask(&check->tuner, comm->ctx, &question->call, &answer), 1);
    memcpy(reply->after, args.table, sizeof args.table);
    reply->choice = (struct mn_tune_choice){args.algo, args.proto, args.channels, 0};
    if (check->tuner.version >= 3)
        choose(args.table, question->call.n_algo, &reply->choice);
    if (!guards_hold(args.front, MN_TUNE_GUARDS))
        reply->overrun = "before the cost table";
    else if (!guards_hold(args.back, MN_TUNE_GUARDS) ||
             memcmp(args.table + cells, reply->before + cells,
                    sizeof args.table - (size_t)cells * sizeof *args.table) != 0)
        reply->overrun = "behind the cost table";
    else if (!guards_hold(args.second, 2) || !guards_hold(args.third, 2) ||
             !guards_hold(args.last, 2))
        reply->overrun = "beside algorithm, protocol or nChannels";
}

struct mn_tune_choice mn_tune_choose(struct mn_check *check, const struct mn_tune_comm *comm,
                                     const struct mn_tune_question *question)
{
    static const size_t slices[] = {65536, 76800, 524288}; /* by protocol */
    struct mn_tune_reply reply;
    struct mn_tune_choice *choice = &reply.choice;

    mn_tune_ask(check, comm, question, &reply);
    if (reply.result)
        mn_check_skip(check, "getCollInfo returned %s (rule tuner.success)",
                      mn_nccl_result_name(reply.result));
    if (!mn_tuner_has_chunks(&check->tuner) || choice->proto < 0)
        return *choice;
    choice->chunk = slices[choice->proto];
    mn_raw_enter(check->raw.watch, MN_RAW_TUNER);
    reply.result =
        mn_raw_leave(check->raw.watch, MN_RAW_TUNER,
                     mn_tuner_chunk(&check->tuner, comm->ctx, &question->call, choice->algo,
                                    choice->proto, choice->channels > 0 ? choice->channels : 2,
                                    &choice->chunk),
                     1);
    if (reply.result)
        mn_check_skip(check, "getChunkSize returned %s (rule tuner.chunk)",
                      mn_nccl_result_name(reply.result));
    return *choice;
}

int mn_tune_question(const struct mn_check *check, int i, struct mn_tune_question *question)
{
    static const int pipe_ops[] = {1, 4, 64};
    const int v3 = check->tuner.version == 3, n = COUNT(sizes);
    struct mn_tuner_call *call = &question->call;

    memset(question, 0, sizeof *question);
    call->func = i % NCCL_TUNER_NUM_FUNCTIONS;
    i /= NCCL_TUNER_NUM_FUNCTIONS;
    call->bytes = sizes[i % n];
    i /= n;
    question->kind = (enum mn_tune_kind)(i % MN_TUNE_N_KINDS);
    i /= MN_TUNE_N_KINDS;
    if (check->tuner.version == 2 && question->kind != MN_TUNE_ALL)
        question->kind = MN_TUNE_PLAIN; /* it is not told of settings */
    call->pipe_ops = pipe_ops[i % COUNT(pipe_ops)];
    i /= COUNT(pipe_ops);
    /* What asked for v3 without registration asked for six algorithms, too. */
    call->reg_buff = !v3 && i % 2;
    call->n_algo = v3 && i % 2 ? NCCL_NUM_ALGORITHMS_V3 : NCCL_NUM_ALGORITHMS;
    call->collnet = call->nvls = question->kind == MN_TUNE_ALL;
    return i < 2;
}

void mn_tune_each(struct mn_check *check,
                  void (*judge)(struct mn_check *check, const struct mn_tune_comm *comm,
                                const struct mn_tune_question *question,
                                const struct mn_tune_reply *reply))
{
    for (int s = 0; s < COUNT(shapes); s++) {
        struct mn_tune_question question;
        struct mn_tune_reply reply;
        struct mn_tune_comm comm;
        char text[160];
        mn_tune_open(check, shapes[s].ranks, shapes[s].nodes, 1000 + (uint64_t)s, &comm);
        for (int i = 0; mn_tune_question(check, i, &question); i++) {
            mn_check_step(check, "getCollInfo: %s; %zu ranks on %zu nodes",
                          mn_tune_name(&question, text), comm.ranks, comm.nodes);
            mn_tune_ask(check, &comm, &question, &reply);
            judge(check, &comm, &question, &reply);
        }
        mn_tune_close(check, &comm);
    }
}

void mn_tune_series(struct mn_check *check, const struct mn_tune_comm *comm,
                    struct mn_tune_choice choices[MN_TUNE_SERIES])
{
    struct mn_tune_question question;

    for (int i = 0; i < MN_TUNE_SERIES; i++) {
        (void)mn_tune_question(check, i * SERIES_STEP, &question);
        choices[i] = mn_tune_choose(check, comm, &question);
    }
}

static void describe(const struct mn_tune_choice *choice, char text[96])
{
    char cell[32];
    int used = snprintf(text, 96, "%s with nChannels %d",
                        mn_tune_cell_name(choice->algo, choice->proto, cell), choice->channels);

    if (choice->chunk)
        snprintf(text + used, 96 - (size_t)used, " and chunk size %zu", choice->chunk);
}

void mn_tune_same(struct mn_check *check, const struct mn_tune_choice one[MN_TUNE_SERIES],
                  const struct mn_tune_choice other[MN_TUNE_SERIES], const char *when)
{
    for (int i = 0; i < MN_TUNE_SERIES; i++) {
        const struct mn_tune_choice *a = &one[i], *b = &other[i];
        struct mn_tune_question question;
        char first[96], second[96], text[160];
        if (a->algo == b->algo && a->proto == b->proto && a->channels == b->channels &&
            a->chunk == b->chunk)
            continue;
        (void)mn_tune_question(check, i * SERIES_STEP, &question);
        describe(a, first);
        describe(b, second);
        mn_check_fail(check, "%s: %s, but %s %s", mn_tune_name(&question, text), first, second,
                      when);
    }
}
