/* The ncclTuner plugin ABI, versions 2 to 6: what NCCL from 2.21 and RCCL expect behind the symbols
 * ncclTunerPlugin_vN, asked newest first. Layout facts from the headers published with NCCL 2.21 to
 * 2.30; LP64, natural alignment. NCCL 2.19 and 2.20 know version 1 alone, which is not here. */
#ifndef MN_TUNER_ABI_H
#define MN_TUNER_ABI_H

#include "plugin/abi/nccl_abi.h"

/* Those a tuner is asked about. RCCL's ids differ from 9 on. */
typedef enum {
    ncclFuncBroadcast = 0,
    ncclFuncReduce = 1,
    ncclFuncAllGather = 2,
    ncclFuncReduceScatter = 3,
    ncclFuncAllReduce = 4
} ncclFunc_t;
#define NCCL_TUNER_NUM_FUNCTIONS 5

enum {
    NCCL_ALGO_UNDEF = -1,
    NCCL_ALGO_TREE = 0,
    NCCL_ALGO_RING = 1,
    NCCL_ALGO_COLLNET_DIRECT = 2,
    NCCL_ALGO_COLLNET_CHAIN = 3,
    NCCL_ALGO_NVLS = 4,
    NCCL_ALGO_NVLS_TREE = 5,
    NCCL_ALGO_PAT = 6 /* NCCL 2.23 */
};
#define NCCL_NUM_ALGORITHMS_V3 6 /* in NCCL 2.22; 7 in what asks version 3 since */
#define NCCL_NUM_ALGORITHMS    7

enum { NCCL_PROTO_UNDEF = -1, NCCL_PROTO_LL = 0, NCCL_PROTO_LL128 = 1, NCCL_PROTO_SIMPLE = 2 };
#define NCCL_NUM_PROTOCOLS 3

/* In a cost table: cannot be had for this call. Whatever is negative is not chosen; it must stay
 * negative. */
#define NCCL_ALGO_PROTO_IGNORE (-1.0f)

/* Which of hwLatencies; which row of the bandwidths; its column is 1, 2 or 4 and more nodes. */
enum { NCCL_HW_NVLINK = 0, NCCL_HW_PCI = 1, NCCL_HW_NET = 2 };
#define NCCL_NUM_HW_LINKS      3
#define NCCL_NUM_COMPCAPS_V5   4 /* Volta, Ampere, Hopper, Blackwell */
#define NCCL_NUM_TUNING_SCALES 3

/* Counts of ranks that share an NVLink domain. */
typedef struct {
    int nNvlDomains;
    int minRanksPerNvlDomain;
    int maxRanksPerNvlDomain;
} ncclNvlDomainInfo_v5_t;
typedef ncclNvlDomainInfo_v5_t ncclNvlDomainInfo_v6_t;

/* NCCL's cost model, filled by NCCL when init is called: what init changes holds for this
 * communicator. Latencies in microseconds, bandwidths in GB/s. llMaxBws of jobs on several nodes is
 * indexed by the processor's maker, not by the GPU's generation. */
typedef struct {
    double baseLatencies[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];
    double hwLatencies[NCCL_NUM_HW_LINKS][NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];
    double llMaxBws[NCCL_NUM_COMPCAPS_V5][NCCL_NUM_TUNING_SCALES];
    double perChMaxRingLL128Bws[NCCL_NUM_COMPCAPS_V5][NCCL_NUM_TUNING_SCALES];
    double perChMaxTreeLL128Bws[NCCL_NUM_COMPCAPS_V5][NCCL_NUM_TUNING_SCALES];
    double perChMaxTreeBws[NCCL_NUM_COMPCAPS_V5][NCCL_NUM_TUNING_SCALES];
    double perChMaxNVLSTreeBws[NCCL_NUM_COMPCAPS_V5][NCCL_NUM_TUNING_SCALES];
} ncclTunerConstants_v5_t;
typedef ncclTunerConstants_v5_t ncclTunerConstants_v6_t;

/* algorithm and protocol are UNDEF when asked: both are set, or neither. */
typedef struct {
    const char *name;
    ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logFunction,
                         void **context);
    ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType, size_t nBytes,
                                int collNetSupport, int nvlsSupport, int numPipeOps, int *algorithm,
                                int *protocol, int *nChannels);
    ncclResult_t (*destroy)(void *context);
} ncclTuner_v2_t;

/* collCostTable is no array of pointers: it is the address of float[numAlgo][numProto], row after
 * row, of times in microseconds. */
typedef struct {
    const char *name;
    ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logFunction,
                         void **context);
    ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType, size_t nBytes, int numPipeOps,
                                float **collCostTable, int numAlgo, int numProto, int *nChannels);
    ncclResult_t (*destroy)(void *context);
} ncclTuner_v3_t;

typedef struct {
    const char *name;
    ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logFunction,
                         void **context);
    ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType, size_t nBytes, int numPipeOps,
                                float **collCostTable, int numAlgo, int numProto, int regBuff,
                                int *nChannels);
    ncclResult_t (*destroy)(void *context);
} ncclTuner_v4_t;

typedef struct {
    const char *name;
    ncclResult_t (*init)(void **context, uint64_t commId, size_t nRanks, size_t nNodes,
                         ncclDebugLogger_t logFunction, ncclNvlDomainInfo_v5_t *nvlDomainInfo,
                         ncclTunerConstants_v5_t *constants);
    ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType, size_t nBytes, int numPipeOps,
                                float **collCostTable, int numAlgo, int numProto, int regBuff,
                                int *nChannels);
    ncclResult_t (*finalize)(void *context);
} ncclTuner_v5_t;

/* getChunkSize may be NULL. *chunkSize is NCCL's when asked. */
typedef struct {
    const char *name;
    ncclResult_t (*init)(void **context, uint64_t commId, size_t nRanks, size_t nNodes,
                         ncclDebugLogger_t logFunction, ncclNvlDomainInfo_v6_t *nvlDomainInfo,
                         ncclTunerConstants_v6_t *constants);
    ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType, size_t nBytes, int numPipeOps,
                                float **collCostTable, int numAlgo, int numProto, int regBuff,
                                int *nChannels);
    ncclResult_t (*finalize)(void *context);
    ncclResult_t (*getChunkSize)(void *context, ncclFunc_t collType, size_t nBytes, int algorithm,
                                 int protocol, int nChannels, size_t *chunkSize);
} ncclTuner_v6_t;

#define MN_TUNER_SLOTS(type, end)                                                                  \
    MN_AT(type, name, 0);                                                                          \
    MN_AT(type, init, 8);                                                                          \
    MN_AT(type, getCollInfo, 16);                                                                  \
    MN_AT(type, end, 24)

MN_SIZE(ncclTuner_v2_t, 32);
MN_SIZE(ncclTuner_v3_t, 32);
MN_SIZE(ncclTuner_v4_t, 32);
MN_SIZE(ncclTuner_v5_t, 32);
MN_SIZE(ncclTuner_v6_t, 40);
MN_TUNER_SLOTS(ncclTuner_v2_t, destroy);
MN_TUNER_SLOTS(ncclTuner_v3_t, destroy);
MN_TUNER_SLOTS(ncclTuner_v4_t, destroy);
MN_TUNER_SLOTS(ncclTuner_v5_t, finalize);
MN_TUNER_SLOTS(ncclTuner_v6_t, finalize);
MN_AT(ncclTuner_v6_t, getChunkSize, 32);
MN_SIZE(ncclFunc_t, 4);
MN_SIZE(ncclNvlDomainInfo_v5_t, 12);
MN_AT(ncclNvlDomainInfo_v5_t, minRanksPerNvlDomain, 4);
MN_AT(ncclNvlDomainInfo_v5_t, maxRanksPerNvlDomain, 8);
MN_SIZE(ncclTunerConstants_v5_t, 1152);
MN_AT(ncclTunerConstants_v5_t, baseLatencies, 0);
MN_AT(ncclTunerConstants_v5_t, hwLatencies, 168);
MN_AT(ncclTunerConstants_v5_t, llMaxBws, 672);
MN_AT(ncclTunerConstants_v5_t, perChMaxRingLL128Bws, 768);
MN_AT(ncclTunerConstants_v5_t, perChMaxTreeLL128Bws, 864);
MN_AT(ncclTunerConstants_v5_t, perChMaxTreeBws, 960);
MN_AT(ncclTunerConstants_v5_t, perChMaxNVLSTreeBws, 1056);

#endif
