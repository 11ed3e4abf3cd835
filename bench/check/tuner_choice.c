#include <math.h>
#include <stdio.h>

#include "bench/check/tuner_rules.h"

/* What this file's rules say first: what was asked. */
#define FAIL(check, comm, question, fmt, ...)                                                      \
    do {                                                                                           \
        char asked[160];                                                                           \
        mn_check_fail(check, "%s, %zu ranks on %zu nodes: " fmt, mn_tune_name(question, asked),    \
                      (comm)->ranks, (comm)->nodes, __VA_ARGS__);                                  \
    } while (0)
#define JUDGE(name)                                                                                \
    static void name(struct mn_check *check, const struct mn_tune_comm *comm,                      \
                     const struct mn_tune_question *question, const struct mn_tune_reply *reply)

JUDGE(judge_success)
{
    if (reply->result)
        FAIL(check, comm, question, "getCollInfo returned %s", mn_nccl_result_name(reply->result));
}

void mn_tune_check_success(struct mn_check *check)
{
    mn_check_load_tuner(check);
    mn_tune_each(check, judge_success);
}

JUDGE(judge_bounds)
{
    if (reply->overrun)
        FAIL(check, comm, question, "getCollInfo wrote %s (%d algorithms, %d protocols)",
             reply->overrun, question->call.n_algo, NCCL_NUM_PROTOCOLS);
}

void mn_tune_check_bounds(struct mn_check *check)
{
    mn_check_load_tuner(check);
    mn_tune_each(check, judge_bounds);
}

JUDGE(judge_choice)
{
    if (!reply->result && reply->choice.algo < 0)
        FAIL(check, comm, question, "%s", "no cell is left that can be chosen");
}

void mn_tune_check_choice(struct mn_check *check)
{
    mn_check_load_tuner(check);
    mn_tune_each(check, judge_choice);
}

JUDGE(judge_possible)
{
    const struct mn_tune_choice *choice = &reply->choice;
    char cell[32];

    if (!reply->result && choice->algo >= 0 &&
        reply->before[choice->algo * NCCL_NUM_PROTOCOLS + choice->proto] < 0)
        FAIL(check, comm, question, "%s is chosen, which NCCL had marked as impossible",
             mn_tune_cell_name(choice->algo, choice->proto, cell));
}

void mn_tune_check_possible(struct mn_check *check)
{
    mn_check_load_tuner(check);
    mn_tune_each(check, judge_possible);
}

/* NCCL 2.21 has six algorithms. */
JUDGE(judge_pair)
{
    const int algo = reply->choice.algo, proto = reply->choice.proto;
    char cell[32];

    if (reply->result || algo == NCCL_ALGO_UNDEF || proto == NCCL_PROTO_UNDEF)
        return;
    mn_tune_cell_name(algo, proto, cell);
    if (algo < 0 || algo >= NCCL_NUM_ALGORITHMS_V3 || proto < 0 || proto >= NCCL_NUM_PROTOCOLS)
        FAIL(check, comm, question, "%s is chosen, which is not there", cell);
    if (reply->before[algo * NCCL_NUM_PROTOCOLS + proto] < 0)
        FAIL(check, comm, question,
             "%s is chosen, for which NCCL has no kernel, or with collNetSupport %d and "
             "nvlsSupport %d no connections",
             cell, question->call.collnet, question->call.nvls);
}

void mn_tune_check_pair(struct mn_check *check)
{
    mn_check_load_tuner(check);
    mn_tune_each(check, judge_pair);
}

JUDGE(judge_pair_whole)
{
    if ((reply->choice.algo == NCCL_ALGO_UNDEF) != (reply->choice.proto == NCCL_PROTO_UNDEF))
        FAIL(check, comm, question,
             "algorithm is %d and protocol %d: one of them was left as it "
             "was",
             reply->choice.algo, reply->choice.proto);
}

void mn_tune_check_pair_whole(struct mn_check *check)
{
    mn_check_load_tuner(check);
    mn_tune_each(check, judge_pair_whole);
}

JUDGE(judge_numbers)
{
    char cell[32];

    for (int i = 0; i < question->call.n_algo * NCCL_NUM_PROTOCOLS; i++) {
        const float cost = reply->after[i];
        if (isnan(cost) || (cost < 0 && cost != NCCL_ALGO_PROTO_IGNORE))
            FAIL(check, comm, question, "the cost of %s is %g",
                 mn_tune_cell_name(i / NCCL_NUM_PROTOCOLS, i % NCCL_NUM_PROTOCOLS, cell),
                 (double)cost);
    }
}

void mn_tune_check_numbers(struct mn_check *check)
{
    mn_check_load_tuner(check);
    mn_tune_each(check, judge_numbers);
}

JUDGE(judge_channels)
{
    if (!reply->result &&
        (reply->choice.channels < 0 || reply->choice.channels > MN_TUNER_CHANNELS))
        FAIL(check, comm, question, "nChannels is %d; 0 leaves it to NCCL, and %d is the most",
             reply->choice.channels, MN_TUNER_CHANNELS);
}

void mn_tune_check_channels(struct mn_check *check)
{
    mn_check_load_tuner(check);
    mn_tune_each(check, judge_channels);
}

/* NCCL rounds down to the grain of the protocol. */
void mn_tune_check_chunk(struct mn_check *check)
{
    static const size_t grains[] = {16, 1920, 512};
    struct mn_tune_question question;
    struct mn_tune_comm comm;
    char text[160], cell[32];

    mn_check_load_tuner(check);
    mn_tune_open(check, 16, 2, 1, &comm);
    if (!mn_tuner_has_chunks(&check->tuner)) {
        mn_check_note(check, "getChunkSize is NULL: NCCL's own sizes hold");
        return;
    }
    for (int i = 0; mn_tune_question(check, i, &question); i++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
            static const size_t slices[] = {16, 4096, 131072}; /* grains */
            const int channels = 1 + i % 32;
            const int algo = p < NCCL_PROTO_SIMPLE ? NCCL_ALGO_RING : i % NCCL_NUM_ALGORITHMS;
            size_t size = slices[i % 3] * grains[p];
            int result;
            mn_check_step(check, "getChunkSize: %s as %s", mn_tune_name(&question, text),
                          mn_tune_cell_name(algo, p, cell));
            mn_raw_enter(check->raw.watch, MN_RAW_TUNER);
            result = mn_raw_leave(check->raw.watch, MN_RAW_TUNER,
                                  mn_tuner_chunk(&check->tuner, comm.ctx, &question.call, algo, p,
                                                 channels, &size),
                                  1);
            if (result)
                mn_check_fail(check, "%s as %s: getChunkSize returned %s", text, cell,
                              mn_nccl_result_name(result));
            if (size < grains[p])
                mn_check_fail(check,
                              "%s as %s: the chunk size is %zu; less than %zu is rounded "
                              "down to none",
                              text, cell, size, grains[p]);
        }
    mn_tune_close(check, &comm);
}

void mn_tune_check_edges(struct mn_check *check)
{
    static const int funcs[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 31, 255, 65536};
    static const size_t sizes[] = {0, 3, 1ul << 31, 1ul << 32, 1ul << 62, SIZE_MAX};
    static const int pipe_ops[] = {1, 1000000};
    struct mn_tune_comm comm;

    mn_check_load_tuner(check);
    mn_tune_open(check, 16, 4, 1, &comm);
    for (size_t i = 0; i < sizeof funcs / sizeof *funcs; i++)
        for (size_t k = 0; k < 2 * sizeof sizes / sizeof *sizes; k++) {
            struct mn_tune_question question = {.call = {.func = funcs[i],
                                                         .bytes = sizes[k / 2],
                                                         .pipe_ops = pipe_ops[k % 2],
                                                         .n_algo = NCCL_NUM_ALGORITHMS}};
            struct mn_tune_reply reply;
            char text[160];
            mn_check_step(check, "getCollInfo: %s", mn_tune_name(&question, text));
            mn_tune_ask(check, &comm, &question, &reply);
            judge_success(check, &comm, &question, &reply);
            judge_bounds(check, &comm, &question, &reply);
            judge_channels(check, &comm, &question, &reply);
            if (check->tuner.version == 2)
                continue;
            judge_choice(check, &comm, &question, &reply);
            judge_possible(check, &comm, &question, &reply);
        }
    mn_tune_close(check, &comm);
}
