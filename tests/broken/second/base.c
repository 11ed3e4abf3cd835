/* init, contexts, and what the faults' threads do. */
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "tests/broken/second/alt.h"

#define SLOTS 32

pthread_mutex_t alt_lock = PTHREAD_MUTEX_INITIALIZER;
static struct alt_context old_versions, *shared;
static struct alt_context *by_id[64];
static ncclDebugLogger_t log_call;
static int inits, slots_used;
static volatile int quiet; /* tells the idle helpers to end */
static pthread_key_t owner;
static pthread_t waker;
static int wakes;

void alt_warn(const char *text)
{
    if (log_call)
        log_call(NCCL_LOG_WARN, NCCL_NET, __FILE__, __LINE__, "alt: %s", text);
}

void alt_nap(long us)
{
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

static void thread_ended(void *value)
{
    (void)value;
    inits = -1;
}

static void *wake_often(void *arg)
{
    (void)arg;
    while (!quiet)
        alt_nap(20);
    return NULL;
}

static void *survive(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++)
        alt_nap(20000);
    return NULL;
}

void alt_helper_idle(void)
{
    if (wakes)
        return;
    wakes = pthread_create(&waker, NULL, WRONG(THREAD_SURVIVES) ? survive : wake_often, NULL) == 0;
    if (wakes && WRONG(THREAD_SURVIVES))
        pthread_detach(waker);
}

ncclResult_t alt_init(ncclDebugLogger_t logger)
{
    cpu_set_t one;

    log_call = logger;
    if (inits++ > 0)
        return WRONG(INIT_AGAIN_REFUSED) ? ncclInvalidUsage : ncclSuccess;
    if (WRONG(INIT_PINS)) {
        CPU_ZERO(&one);
        CPU_SET((size_t)sched_getcpu(), &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    if (WRONG(INIT_THREAD_OWNS) && pthread_key_create(&owner, thread_ended) == 0)
        pthread_setspecific(owner, &owner);
    return ncclSuccess;
}

static ncclResult_t context_make(struct alt_context **made, uint64_t comm_id)
{
    struct alt_context *c;

    if (WRONG(CTX_SLOTS) && slots_used++ >= SLOTS)
        return ncclInternalError;
    if (WRONG(CTX_SHARED) && shared) {
        *made = shared;
        return ncclSuccess;
    }
    if (WRONG(CTX_BY_COMM_ID) && by_id[comm_id % 64] && by_id[comm_id % 64]->comm_id == comm_id) {
        *made = by_id[comm_id % 64];
        return ncclSuccess;
    }
    c = calloc(1, sizeof *c);
    if (!c)
        return ncclSystemError;
    c->comm_id = comm_id;
    by_id[comm_id % 64] = c;
    shared = c;
    *made = c;
    return ncclSuccess;
}

ncclResult_t alt_context_new(void **ctx, uint64_t comm_id, ncclDebugLogger_t logger)
{
    struct alt_context *c = NULL;
    ncclResult_t result;

    if (WRONG(INIT_AGAIN_RESETS) && shared)
        alt_forget_dials(shared);
    pthread_mutex_lock(&alt_lock);
    result = alt_init(logger);
    if (result == ncclSuccess)
        result = context_make(&c, comm_id);
    pthread_mutex_unlock(&alt_lock);
    *ctx = c;
    return result;
}

struct alt_context *alt_context_of(void *ctx)
{
    if (WRONG(INIT_THREAD_OWNS) && inits < 0)
        return NULL;
    return ctx ? ctx : &old_versions;
}

void alt_own(struct alt_context *c, struct alt_owned *o, enum alt_kind kind, int fd)
{
    o->context = c;
    o->kind = kind;
    o->fd = fd;
    pthread_mutex_lock(&alt_lock);
    o->next = c->owned;
    c->owned = o;
    pthread_mutex_unlock(&alt_lock);
}

void alt_disown(struct alt_owned *o)
{
    struct alt_owned **at = &o->context->owned;

    pthread_mutex_lock(&alt_lock);
    while (*at && *at != o)
        at = &(*at)->next;
    if (*at)
        *at = o->next;
    pthread_mutex_unlock(&alt_lock);
}

static void free_owned(struct alt_context *c)
{
    struct alt_owned *o, *next;

    for (o = c->owned; o; o = next) {
        next = o->next;
        if (!WRONG(FINALIZE_HALF_OPEN) || o->kind != ALT_DIAL)
            alt_free(o);
    }
    c->owned = NULL;
}

ncclResult_t alt_finalize(void *ctx)
{
    struct alt_context *c = ctx;

    if (!c)
        return ncclSuccess;
    if (WRONG(FINALIZE_LATE_FD))
        for (int i = 0; i < c->n_old; i++)
            alt_free(&(struct alt_owned){.kind = ALT_DIAL, .fd = c->old[i]});
    free_owned(c);
    pthread_mutex_lock(&alt_lock);
    if (shared == c)
        shared = NULL;
    if (by_id[c->comm_id % 64] == c)
        by_id[c->comm_id % 64] = NULL;
    pthread_mutex_unlock(&alt_lock);
    if (!WRONG(CTX_SHARED) && !WRONG(CTX_BY_COMM_ID)) /* whoever shares it still looks at it */
        free(c);
    return ncclSuccess;
}

__attribute__((destructor)) static void unloaded(void)
{
    quiet = 1;
    if (wakes && WRONG(THREAD_WAKES))
        pthread_join(waker, NULL);
    free_owned(&old_versions);
}
