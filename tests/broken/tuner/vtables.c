/* The exported structs, compiled once for each library with the number of its fault; see row.h. */
#ifndef FAULT /* the correct one */
#define FAULT 0
#endif
#include "tests/broken/row.h"
#include "tests/broken/tuner/tuner.h"

#define EXPORT __attribute__((visibility("default")))

int tuner_fault = FAULT;
#if !FAULT
static const char *const rows[] = {
#define TUNER_ROW(name, version, rule, text) #name,
#include "tests/broken/tuner/faults.def"
#undef TUNER_ROW
};
BROKEN_FIND_ROW(tuner_fault, "libnccl-tuner-fault-")
#endif

static __attribute__((unused)) ncclResult_t init_v2(size_t ranks, size_t nodes,
                                                    ncclDebugLogger_t log, void **ctx)
{
    (void)log;
    return tuner_open(ctx, ranks, nodes, NULL, NULL);
}

static __attribute__((unused)) ncclResult_t init_v5(void **ctx, uint64_t id, size_t ranks,
                                                    size_t nodes, ncclDebugLogger_t log,
                                                    ncclNvlDomainInfo_v5_t *domain,
                                                    ncclTunerConstants_v5_t *constants)
{
    (void)id;
    (void)log;
    return tuner_open(ctx, ranks, nodes, domain, constants);
}

static __attribute__((unused)) ncclResult_t ask_v2(void *ctx, ncclFunc_t func, size_t bytes,
                                                   int collnet, int nvls, int pipe_ops, int *algo,
                                                   int *proto, int *channels)
{
    (void)pipe_ops;
    return tuner_pair(ctx, func, bytes, collnet, nvls, algo, proto, channels);
}

static __attribute__((unused)) ncclResult_t ask_v3(void *ctx, ncclFunc_t func, size_t bytes,
                                                   int pipe_ops, float **table, int n_algo,
                                                   int n_proto, int *channels)
{
    (void)pipe_ops;
    return tuner_table(ctx, func, bytes, table, n_algo, n_proto, channels);
}

static __attribute__((unused)) ncclResult_t ask_v4(void *ctx, ncclFunc_t func, size_t bytes,
                                                   int pipe_ops, float **table, int n_algo,
                                                   int n_proto, int reg_buff, int *channels)
{
    (void)reg_buff;
    return ask_v3(ctx, func, bytes, pipe_ops, table, n_algo, n_proto, channels);
}

#define NAME IS(NAME_NULL) ? NULL : "ref tuner"

/* The preprocessor knows the first four rows of faults.def by number. */
#if FAULT == 1
EXPORT const ncclTuner_v2_t ncclTunerPlugin_v1 = {NAME, init_v2, ask_v2, tuner_close};
#elif FAULT != 2
EXPORT const ncclTuner_v2_t ncclTunerPlugin_v2 = {NAME, init_v2, ask_v2, tuner_close};
EXPORT const ncclTuner_v3_t ncclTunerPlugin_v3 = {IS(NAMES_DIFFER) ? "ref tuner 3" : NAME, init_v2,
                                                  IS(V3_SLOT_NULL) ? NULL : ask_v3, tuner_close};
#if FAULT == 4
EXPORT ncclResult_t ncclTunerPlugin_v4(void);
ncclResult_t ncclTunerPlugin_v4(void)
{
    return ncclSuccess;
}
#else
EXPORT const ncclTuner_v4_t ncclTunerPlugin_v4 = {NAME, init_v2, ask_v4, tuner_close};
#endif
EXPORT const ncclTuner_v5_t ncclTunerPlugin_v5 = {NAME, init_v5, ask_v4, tuner_close};
#if FAULT == 3
EXPORT const ncclTuner_v5_t ncclTunerPlugin_v6 = {NAME, init_v5, ask_v4, tuner_close};
#else
EXPORT const ncclTuner_v6_t ncclTunerPlugin_v6 = {NAME, init_v5, ask_v4,
                                                  IS(SLOT_NULL) ? NULL : tuner_close, tuner_chunk};
#endif
#endif
