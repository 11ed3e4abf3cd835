#include "bench/host/tuner.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define V2(t) ((const ncclTuner_v2_t *)(t)->vtable)
#define V3(t) ((const ncclTuner_v3_t *)(t)->vtable)
#define V4(t) ((const ncclTuner_v4_t *)(t)->vtable)
#define V5(t) ((const ncclTuner_v5_t *)(t)->vtable)
#define V6(t) ((const ncclTuner_v6_t *)(t)->vtable)

void mn_tuner_symbol(int version, char symbol[32])
{
    snprintf(symbol, 32, "ncclTunerPlugin_v%d", version);
}

int mn_tuner_find_between(void *lib, int newest, int oldest, struct mn_tuner *tuner)
{
    memset(tuner, 0, sizeof *tuner);
    for (int v = newest; v >= oldest && !tuner->vtable; v--) {
        char symbol[32];
        mn_tuner_symbol(v, symbol);
        tuner->vtable = dlsym(lib, symbol);
        tuner->version = tuner->vtable ? v : 0;
    }
    return tuner->vtable != NULL;
}

int mn_tuner_find(void *lib, int wanted, struct mn_tuner *tuner)
{
    return mn_tuner_find_between(lib, wanted ? wanted : MN_TUNER_NEWEST,
                                 wanted ? wanted : MN_TUNER_OLDEST, tuner);
}

size_t mn_tuner_vtable_size(int version)
{
    return version >= 6 ? sizeof(ncclTuner_v6_t) : sizeof(ncclTuner_v5_t);
}

const char *mn_tuner_serves(int version)
{
    static const char *const serves[] = {
        NULL,
        "2.19 and 2.20",
        "2.21 and newer",
        "2.22 and newer",
        "2.24 and newer",
        "2.28 and newer",
        "2.30 and newer",
        "2.32 and newer",
    };

    return version > 0 && version < (int)(sizeof serves / sizeof *serves) ? serves[version] : NULL;
}

/* Every version begins with the name, and has the same slots up to the fourth. */
const char *mn_tuner_name(const struct mn_tuner *tuner)
{
    return V2(tuner)->name;
}

const char *mn_tuner_absent(const struct mn_tuner *tuner)
{
    if (!V2(tuner)->init)
        return "init";
    if (!V2(tuner)->getCollInfo)
        return "getCollInfo";
    if (!V2(tuner)->destroy)
        return tuner->version >= 5 ? "finalize" : "destroy";
    return NULL;
}

int mn_tuner_has_chunks(const struct mn_tuner *tuner)
{
    return tuner->version >= 6 && V6(tuner)->getChunkSize;
}

int mn_tuner_init(const struct mn_tuner *tuner, const struct mn_tuner_comm *comm,
                  ncclDebugLogger_t logger, void **ctx)
{
    if (tuner->version >= 5)
        return (int)V5(tuner)->init(ctx, comm->id, comm->ranks, comm->nodes, logger, comm->domain,
                                    comm->constants);
    return (int)V2(tuner)->init(comm->ranks, comm->nodes, logger, ctx);
}

int mn_tuner_ask(const struct mn_tuner *tuner, void *ctx, const struct mn_tuner_call *call,
                 const struct mn_tuner_answer *answer)
{
    const ncclFunc_t func = (ncclFunc_t)call->func;
    float **table = (float **)(void *)answer->table;

    switch (tuner->version) {
    case 2:
        return (int)V2(tuner)->getCollInfo(ctx, func, call->bytes, call->collnet, call->nvls,
                                           call->pipe_ops, answer->algo, answer->proto,
                                           answer->channels);
    case 3:
        return (int)V3(tuner)->getCollInfo(ctx, func, call->bytes, call->pipe_ops, table,
                                           call->n_algo, NCCL_NUM_PROTOCOLS, answer->channels);
    default: /* the same from v4 on */
        return (int)V4(tuner)->getCollInfo(ctx, func, call->bytes, call->pipe_ops, table,
                                           call->n_algo, NCCL_NUM_PROTOCOLS, call->reg_buff,
                                           answer->channels);
    }
}

int mn_tuner_chunk(const struct mn_tuner *tuner, void *ctx, const struct mn_tuner_call *call,
                   int algo, int proto, int channels, size_t *size)
{
    return (int)V6(tuner)->getChunkSize(ctx, (ncclFunc_t)call->func, call->bytes, algo, proto,
                                        channels, size);
}

int mn_tuner_end(const struct mn_tuner *tuner, void *ctx)
{
    return (int)V2(tuner)->destroy(ctx);
}
