#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/broken/tuner/tuner.h"

static struct tables usual = {65536};
struct tables *tuner_tables = &usual;
struct context *tuner_newest;
char *tuner_lost; /* but for the newest */

void tuner_wait_for_ever(void)
{
    for (;;)
        usleep(2000);
}

static void *stay(void *arg)
{
    tuner_wait_for_ever();
    return arg;
}

static void leave_thread(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, stay, NULL) == 0)
        pthread_detach(thread);
}

int tuner_is_rank_0(void)
{
    const char *rank = getenv("RANK");

    return rank && strcmp(rank, "0") == 0;
}

/* Written once, as a build that forgot to look. */
static void note_ranks(size_t ranks)
{
    static char *known;

    if (!known)
        known = calloc(1024, 1);
    for (size_t i = 0; i < ranks; i += 64)
        if (i >= 1024)
            abort(); /* what the sanitizers, or chance, would make of it */
        else if (known)
            known[i] = 1;
}

static void change(ncclTunerConstants_v5_t *constants, ncclNvlDomainInfo_v5_t *domain)
{
    double *latency = &constants->baseLatencies[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE];
    volatile double zero = 0;

    *latency += 2;
    if (IS(CONSTANTS_NAN))
        *latency = zero / zero;
    if (IS(CONSTANTS_NEGATIVE))
        *latency = -3;
    if (IS(RANK_CONSTANTS) && tuner_is_rank_0())
        *latency += 1;
    if (IS(CONSTANTS_LONG))
        memset((void *)(constants + 1), 0, 5 * 3 * sizeof(double));
    if (IS(DOMAIN_WRITTEN))
        domain->maxRanksPerNvlDomain = 72;
}

ncclResult_t tuner_open(void **ctx, size_t ranks, size_t nodes, ncclNvlDomainInfo_v5_t *domain,
                        ncclTunerConstants_v5_t *constants)
{
    static unsigned number;
    struct context *c;

    if (IS(INIT_HANGS))
        tuner_wait_for_ever();
    if ((IS(ONE_RANK_REFUSED) && ranks == 1) || (IS(UNEVEN_REFUSED) && ranks % nodes))
        return ncclInvalidArgument;
    if (IS(MANY_RANKS))
        note_ranks(ranks);
    if (IS(FD_LEAK) && open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
        return ncclSystemError;
    if (IS(THREAD_LEAK) || IS(THREAD_STAYS))
        leave_thread();
    if (IS(MEMORY_LEAK))
        tuner_lost = strdup("a communicator that was here, a while ago");
    c = calloc(1, sizeof *c);
    if (!c)
        return ncclSystemError;
    *c = (struct context){.ranks = ranks,
                          .nodes = nodes,
                          .number = __atomic_add_fetch(&number, 1, __ATOMIC_RELAXED)};
    if (IS(SHAPE_SHARED))
        tuner_newest = c;
    if (constants)
        change(constants, domain);
    *ctx = c;
    return ncclSuccess;
}

ncclResult_t tuner_close(void *ctx)
{
    static unsigned ended;
    struct context *c = ctx;

    if (IS(PRINTS_END))
        printf("ref tuner: done\n");
    if (IS(DESTROY_SHARED) && c->number > 1)
        tuner_tables = NULL;
    if (IS(DESTROY_ORDER) && c->number < ended)
        return ncclInternalError;
    if (IS(DESTROY_ORDER))
        ended = c->number;
    if (!IS(SHAPE_SHARED))
        free(c);
    if (IS(RELOAD_FAILS))
        setenv("REF_TUNER_WAS_HERE", "1", 1);
    return ncclSuccess;
}
