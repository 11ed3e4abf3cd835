/* A double of NCCL and RCCL on the doubles of GPU drivers: ranks are processes of this machine,
 * bytes go through shared memory. It loads the plugin it is told to, as far as its name, and keeps
 * a log with NCCL's words, so that a wrong environment shows as it would there.
 *
 * LD_LIBRARY_PATH=build/<preset>/tests/fakenccl offers libnccl.so.2 and librccl.so.1; tests/fakegpu
 * is needed beside it. FAKENCCL="key=value,…" with the keys of struct fakenccl_config. */
#ifndef FAKENCCL_H
#define FAKENCCL_H

#include "bench/engine/nccl.h"

struct fakenccl_config {
    long version; /* 22809 */
    long rank;    /* -1: the faults below are every rank's, else this one's */
    long init;    /* result of ncclCommInitRank */
    long call;    /* result of the collectives */
    long async;   /* what ncclCommGetAsyncError finds; the collective does not end */
    long hang;    /* 1: ncclCommInitRank does not return; 2: ncclAllReduce; 3: ncclCommDestroy */
    long wrong;   /* 1: all-reduce spoils an element */
    long shy;     /* 1: the log says nothing of networks */
    long plugin;  /* 1: the plugin is initialised, with a logger */
    long errors;  /* 1: ERROR is a level of its own, as RCCL has it since ROCm 7.2 */
};
const struct fakenccl_config *fakenccl(void);

/* log.c: a line as NCCL writes it ("host:pid:tid [0] NCCL " before it). */
void fakenccl_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What a plugin gets: a line begins with the name of its level. */
void fakenccl_logger(ncclDebugLogLevel level, unsigned long flags, const char *source, int line,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));
/* network.c: loads the plugin that the environment names and chooses the network. */
ncclResult_t fakenccl_network(char *network, size_t size);

/* What of the driver's double is used: cuda.c or hip.c, by the library. */
int fakenccl_device(void);
int fakenccl_copy(void *to, const void *from, size_t size);

#endif
