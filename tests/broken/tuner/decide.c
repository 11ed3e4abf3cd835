#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/broken/tuner/tuner.h"

#define MANY (1u << 20) /* bytes: the whole bandwidth counts */

static struct choice usual(const struct context *c, ncclFunc_t func, size_t bytes)
{
    const int small = bytes < 4096;
    struct choice choice = {NCCL_ALGO_RING, small ? NCCL_PROTO_LL : NCCL_PROTO_SIMPLE,
                            small          ? 1
                            : bytes < MANY ? 4
                                           : 0};

    if (func == ncclFuncAllReduce && bytes < tuner_tables->tree_below * c->nodes)
        choice = (struct choice){NCCL_ALGO_TREE, NCCL_PROTO_LL, 2};
    else if (func == ncclFuncAllReduce && bytes < MANY)
        choice.proto = NCCL_PROTO_LL128;
    else if ((func == ncclFuncAllGather || func == ncclFuncReduceScatter) && bytes < MANY)
        choice.algo = c->nodes > 3 ? NCCL_ALGO_PAT : NCCL_ALGO_RING;
    if (choice.algo == NCCL_ALGO_PAT)
        choice.proto = NCCL_PROTO_SIMPLE;
    if (func > ncclFuncAllReduce)
        choice.algo = NCCL_ALGO_UNDEF;
    return choice;
}

static int odd_channels(struct context *c)
{
    static unsigned all;

    if (IS(EXPLORES))
        return 1 + (int)(c->calls++ % 7);
    if (IS(RANK_COUNTER))
        return 1 + (int)(__atomic_add_fetch(&all, 1, __ATOMIC_RELAXED) / 3 % 32);
    if (IS(RANK_VARIABLE) && tuner_is_rank_0())
        return 3;
    if (IS(RANK_PROCESS))
        return 1 + (int)((unsigned)getpid() % 61);
    if (IS(RANK_ADDRESS))
        return 1 + (int)(((uintptr_t)c >> 4) % 61);
    if (IS(CHANNELS_MANY))
        return 128;
    if (IS(CHANNELS_NEGATIVE))
        return -1;
    if (IS(RELOAD_FAILS) && getenv("REF_TUNER_WAS_HERE"))
        return 5;
    return 0;
}

static void delay(void)
{
    struct timespec now, start;

    if (IS(ASK_HANGS))
        tuner_wait_for_ever();
    if (IS(SLEEPS))
        usleep(20);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while (IS(BURNS) &&
           (now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < 500000);
}

static ncclResult_t decide(struct context *c, ncclFunc_t func, size_t bytes, struct choice *choice)
{
    static const char *const names[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                        "AllReduce"};
    static struct choice of_all;
    const char *volatile name = names[0];
    volatile size_t share = 1;
    int channels;

    delay();
    if (IS(UNKNOWN_ERROR) && func > ncclFuncAllReduce)
        return ncclInvalidArgument;
    if (IS(UNKNOWN_INDEX) && (size_t)func >= sizeof names / sizeof *names)
        name = *(const char *const volatile *)(uintptr_t)((uintptr_t)func * 8);
    if (IS(EMPTY_DIVIDES))
        share = MANY / bytes;
    if (IS(PRINTS))
        printf("ref tuner: %s of %zu bytes, %zu\n", name, bytes, share);
    *choice = usual(IS(SHAPE_SHARED) && tuner_newest ? tuner_newest : c, func, bytes);
    channels = odd_channels(c);
    if (channels)
        choice->channels = channels;
    if (IS(SCRATCH_SHARED)) {
        of_all = *choice;
        sched_yield(); /* as a log line would */
        *choice = of_all;
    }
    return ncclSuccess;
}

ncclResult_t tuner_pair(void *ctx, ncclFunc_t func, size_t bytes, int collnet, int nvls, int *algo,
                        int *proto, int *channels)
{
    struct choice choice;
    ncclResult_t result = decide(ctx, func, bytes, &choice);

    if (result)
        return result;
    if (IS(V2_ERROR) && bytes > MANY)
        return ncclInvalidArgument;
    *channels = choice.channels;
    if (IS(V2_CHANNELS_LONG))
        *(volatile int64_t *)(void *)channels = choice.channels;
    if (choice.algo == NCCL_ALGO_UNDEF || (choice.algo == NCCL_ALGO_PAT && !IS(PAIR_NEW)))
        return ncclSuccess;
    *algo = choice.algo;
    if (!IS(PAIR_HALF))
        *proto = choice.proto;
    if (func == ncclFuncAllReduce && bytes > MANY && (nvls || IS(PAIR_NVLS)) &&
        (collnet || IS(PAIR_NVLS)))
        *algo = NCCL_ALGO_NVLS;
    if (IS(PAIR_KERNEL) && func == ncclFuncBroadcast)
        *algo = NCCL_ALGO_TREE;
    return ncclSuccess;
}

/* The wrong ways to write a table. */
static void disturb(float **pointers, int n_algo, int n_proto, const struct choice *choice)
{
    float *table = (float *)(void *)pointers;
    volatile float zero = 0;

    if (IS(POINTERS))
        pointers[choice->algo][choice->proto] = 0;
    if (IS(V3_SEVENTH_ROW))
        table[6 * n_proto + 2] = 1e9f;
    if (IS(COLUMNS_FOUR))
        for (int a = 0; a < n_algo; a++)
            table[a * 4 + 3] = 1e9f;
    for (int i = 0; i < n_algo * n_proto; i++) {
        if (IS(ALL_FORBIDDEN) && i / n_proto != NCCL_ALGO_TREE)
            table[i] = NCCL_ALGO_PROTO_IGNORE;
        if (IS(ALL_NAN))
            table[i] = zero / zero;
        if (IS(FILLS_WHOLE))
            table[i] = 10.0f + (float)i;
    }
}

ncclResult_t tuner_table(void *ctx, ncclFunc_t func, size_t bytes, float **pointers, int n_algo,
                         int n_proto, int *channels)
{
    float *table = (float *)(void *)pointers, *cell;
    volatile float zero = 0;
    struct choice choice;
    ncclResult_t result = decide(ctx, func, bytes, &choice);

    if (result)
        return result;
    *channels = choice.channels;
    if (choice.algo == NCCL_ALGO_UNDEF || choice.algo >= n_algo)
        return ncclSuccess;
    cell = &table[choice.algo * n_proto + choice.proto];
    if (*cell < 0 && IS(ERROR_UNDECIDED))
        return ncclInvalidUsage;
    if (!(*cell < 0) || IS(REVIVES)) {
        *cell = 0;
        if (IS(COST_NEGATIVE))
            *cell = -100;
        if (IS(COST_NAN))
            *cell = zero / zero;
    }
    disturb(pointers, n_algo, n_proto, &choice);
    return ncclSuccess;
}

ncclResult_t tuner_chunk(void *ctx, ncclFunc_t func, size_t bytes, int algo, int proto,
                         int channels, size_t *size)
{
    static const size_t grains[] = {16, 1920, 512};

    (void)ctx;
    (void)func;
    (void)algo;
    (void)channels;
    if (IS(CHUNK_ERROR))
        return ncclInvalidArgument;
    if (bytes < MANY && *size / 2 >= grains[proto])
        *size /= 2;
    if (IS(CHUNK_ZERO) && bytes < 100)
        *size = 0;
    if (IS(CHUNK_ODD) && bytes < 4096)
        *size = 1024;
    if (IS(RANK_CHUNK) && tuner_is_rank_0())
        *size /= 2;
    return ncclSuccess;
}
