/* Drives the tuner (ncclTunerPlugin_vN) of any library through one interface, arguments and results
 * untouched, whatever version from 2 to 6 it exports. Prints nothing. Calls on different contexts
 * may come from different threads, as NCCL's do. */
#ifndef MN_HOST_TUNER_H
#define MN_HOST_TUNER_H

#include "plugin/abi/tuner_abi.h"

#define MN_TUNER_OLDEST   2
#define MN_TUNER_NEWEST   6
#define MN_TUNER_CELLS    (NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS)
#define MN_TUNER_CHANNELS 64 /* MAXCHANNELS of NCCL since 2.25.1; 32 before */

struct mn_tuner {
    const void *vtable; /* the library's own: read again at each call, since init may fill it */
    int version;        /* 0 = none */
};

/* What NCCL tells a communicator's tuner. */
struct mn_tuner_comm {
    uint64_t id; /* the same on all ranks; v5 */
    size_t ranks, nodes;
    ncclNvlDomainInfo_v5_t *domain;     /* v5 */
    ncclTunerConstants_v5_t *constants; /* v5, in and out */
};

/* One question of getCollInfo. */
struct mn_tuner_call {
    int func; /* ncclFunc_t, or a number that only others know */
    size_t bytes;
    int pipe_ops;      /* from 1 */
    int reg_buff;      /* v4 */
    int n_algo;        /* rows of the table */
    int collnet, nvls; /* v2: whether these may be chosen */
};

/* Where getCollInfo may write; filled by the caller as NCCL does. */
struct mn_tuner_answer {
    float *table;      /* n_algo rows of NCCL_NUM_PROTOCOLS; from v3 on */
    int *algo, *proto; /* v2 */
    int *channels;
};

/* lib: from dlopen. wanted: a version, 0 = the newest between oldest and newest that is there. 0
 * when there is none; *tuner says so too. */
int mn_tuner_find(void *lib, int wanted, struct mn_tuner *tuner);
/* The same of the versions that a release looks for. */
int mn_tuner_find_between(void *lib, int newest, int oldest, struct mn_tuner *tuner);
void mn_tuner_symbol(int version, char symbol[32]);
size_t mn_tuner_vtable_size(int version);
/* "2.24 and newer": the releases of NCCL that look for it; of version 1 and 7, too, else NULL. */
const char *mn_tuner_serves(int version);

const char *mn_tuner_name(const struct mn_tuner *tuner);
/* The first function that NCCL calls unchecked and that is not there, or NULL. */
const char *mn_tuner_absent(const struct mn_tuner *tuner);
int mn_tuner_has_chunks(const struct mn_tuner *tuner);

/* Return the plugin's ncclResult_t unchanged. */
int mn_tuner_init(const struct mn_tuner *tuner, const struct mn_tuner_comm *comm,
                  ncclDebugLogger_t logger, void **ctx);
int mn_tuner_ask(const struct mn_tuner *tuner, void *ctx, const struct mn_tuner_call *call,
                 const struct mn_tuner_answer *answer);
/* Only where mn_tuner_has_chunks. */
int mn_tuner_chunk(const struct mn_tuner *tuner, void *ctx, const struct mn_tuner_call *call,
                   int algo, int proto, int channels, size_t *size);
int mn_tuner_end(const struct mn_tuner *tuner, void *ctx); /* destroy, or finalize from v5 on */

#endif
