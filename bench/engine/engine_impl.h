/* Inside of bench/engine. */
#ifndef MN_ENGINE_IMPL_H
#define MN_ENGINE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "bench/engine.h"
#include "bench/engine/nccl.h"

struct mn_engine;
typedef enum mn_err mn_engine_job(struct mn_engine *engine, struct mn_diag *diag);

struct mn_engine {
    struct mn_engine_plan plan;
    const struct mn_engine_vendor *vendor;
    struct mn_group *group; /* not the worker's: it may be gone before the worker is */
    struct mn_memory memory;
    int rank, nranks, capability; /* capability: of the oldest GPU; 0 = not known */
    struct mn_nccl nccl;
    int version; /* as ncclGetVersion has it */
    char version_text[32], library[512];
    ncclComm_t comm;
    void *stream;
    int log; /* the library's own words */

    pthread_t worker;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    mn_engine_job *job; /* NULL = none to do */
    enum mn_err result;
    struct mn_diag why;
    int working; /* there is a worker */
    int leave;   /* the worker is to end */
    int lost;    /* a job did not come back */
    atomic_ulong progress;

    /* What jobs work on: their own, since a job may outlive the call that asked for it. */
    ncclUniqueId id;
    struct mn_engine_work work;
    struct mn_coll_job collective;
    size_t *counts; /* of the collective, by pairs of ranks */
    unsigned long n;
    double seconds, each; /* of a run; of one of its iterations */
};

/* worker.c */
enum mn_err mn_engine_start_worker(struct mn_engine *engine, struct mn_diag *diag);
void mn_engine_end_worker(struct mn_engine *engine);
/* Has the worker do it. An error other than its own leaves it at work. comm: whose own word of
 * errors ends it too; NULL = none's. */
enum mn_err mn_engine_have_done(struct mn_engine *engine, const char *what, mn_engine_job *job,
                                ncclComm_t comm, struct mn_diag *diag);
/* What a call's result means, with the library's last warning. */
enum mn_err mn_engine_explain(const struct mn_engine *engine, const char *call, ncclResult_t result,
                              struct mn_diag *diag);

/* call.c: gives one collective to the stream. *call: what failed. */
ncclResult_t mn_engine_call(struct mn_engine *engine, const struct mn_engine_work *work,
                            const char **call);

/* log.c. Its log goes to a descriptor from now on: before the library is loaded. */
enum mn_err mn_engine_log_begin(struct mn_engine *engine, struct mn_diag *diag);
/* All of it, the caller's to free. */
char *mn_engine_log_read(const struct mn_engine *engine);
/* Nothing but lines: of a stranger's text, too. */
void mn_engine_log_tidy(char *text, size_t size);
/* The lines of a log that mn_engine_log_parse knows; text is cut down in place. */
void mn_engine_log_excerpt(char *text);
/* Adds what the log of one rank says. Any text will do. */
void mn_engine_log_parse(const char *text, int first, struct mn_engine_evidence *evidence);
/* The last warning of a log, and what to do about it ("" = nothing known). */
void mn_engine_log_warning(const char *text, char *warning, size_t size, const char **advice);

#endif
