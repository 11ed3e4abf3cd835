/* The thread that makes the library's calls, and who waits for it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/engine/engine_impl.h"
#include "topo/base/clock.h"

#define LOOK_MS 50

static void *work(void *arg)
{
    struct mn_engine *e = arg;
    const struct mn_memory *memory = &e->memory;
    struct mn_diag diag = {.text = ""};
    enum mn_err ready = memory->gpu->use(memory->device, &diag);

    pthread_mutex_lock(&e->lock);
    for (;;) {
        while (!e->job && !e->leave)
            pthread_cond_wait(&e->changed, &e->lock);
        if (!e->job)
            break;
        pthread_mutex_unlock(&e->lock);
        enum mn_err result = ready ? ready : e->job(e, &diag);
        pthread_mutex_lock(&e->lock);
        e->result = result;
        e->why = diag;
        e->job = NULL;
        pthread_cond_broadcast(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* Waits a little for the job's end. */
static int ended(struct mn_engine *e)
{
    struct timespec until;
    int busy;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&e->lock);
    for (int rc = 0; (busy = e->job != NULL) && rc != ETIMEDOUT;)
        rc = pthread_cond_timedwait(&e->changed, &e->lock, &until);
    pthread_mutex_unlock(&e->lock);
    return !busy;
}

static enum mn_err failed(const struct mn_engine *e, const char *call, const char *what,
                          struct mn_diag *diag)
{
    char *log = mn_engine_log_read(e), warning[512];
    const char *advice;

    mn_engine_log_warning(log, warning, sizeof warning, &advice);
    free(log);
    return mn_fail(diag, MN_ERR_FAILED, "%s %s: %s: %s%s%s%s%s", e->vendor->name, e->version_text,
                   call, what, *warning ? "; it said: " : "", warning, *advice ? "; " : "", advice);
}

enum mn_err mn_engine_explain(const struct mn_engine *e, const char *call, ncclResult_t result,
                              struct mn_diag *diag)
{
    return failed(e, call, e->nccl.error_string(result), diag);
}

/* The group is looked after while the job goes on, and so is the library's own word of errors once
 * there is a communicator. */
static enum mn_err look_after(struct mn_engine *e, const char *what, ncclComm_t comm,
                              struct mn_diag *diag)
{
    unsigned timeout_ms = mn_group_timeout_ms(e->group);
    unsigned long before = atomic_load(&e->progress);
    double since = mn_seconds();
    enum mn_err err = MN_OK;
    char text[96];

    while (!err && !ended(e)) {
        ncclResult_t result = ncclSuccess;
        if (comm && !e->nccl.async_error(comm, &result) && result && result != ncclInProgress)
            return failed(e, what, e->nccl.error_string(result), diag);
        err = mn_group_look(e->group, diag);
        double now = mn_seconds();
        unsigned long progress = atomic_load(&e->progress);
        if (progress != before)
            since = now;
        before = progress;
        if (!err && now - since > timeout_ms / 1000.0) {
            snprintf(text, sizeof text, "nothing moved for %u s (--timeout)", timeout_ms / 1000);
            return failed(e, what, text, diag);
        }
    }
    return err;
}

enum mn_err mn_engine_have_done(struct mn_engine *e, const char *what, mn_engine_job *job,
                                ncclComm_t comm, struct mn_diag *diag)
{
    pthread_mutex_lock(&e->lock);
    e->job = job;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    enum mn_err err = look_after(e, what, comm, diag);
    if (err) {
        e->lost = 1;
        return err;
    }
    if (e->result && diag)
        *diag = e->why;
    return e->result;
}

enum mn_err mn_engine_start_worker(struct mn_engine *e, struct mn_diag *diag)
{
    pthread_condattr_t clock;

    pthread_mutex_init(&e->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&e->changed, &clock);
    pthread_condattr_destroy(&clock);
    int rc = pthread_create(&e->worker, NULL, work, e);
    e->working = !rc;
    return rc ? mn_fail(diag, MN_ERR_SYS, "a thread for %s: %s", e->vendor->name, strerror(rc))
              : MN_OK;
}

void mn_engine_end_worker(struct mn_engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->leave = 1;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->worker, NULL);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
}
