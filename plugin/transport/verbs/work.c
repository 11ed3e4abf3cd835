#include "plugin/transport/verbs/work.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "plugin/thread.h"

#define MAX_THREADS 4
#define IDLE_S      5

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t waiting = PTHREAD_COND_INITIALIZER; /* threads, for a job */
static pthread_cond_t settled = PTHREAD_COND_INITIALIZER;
static struct verbs_job *first, **last = &first;
static int n_threads, n_idle, n_queued, ending;

static struct worker {
    pthread_t thread;
    int working;       /* to be joined; one that leaves because nothing came detaches itself */
    int running;       /* a job … */
    const void *owner; /* … of this one */
} workers[MAX_THREADS];

static struct verbs_job *take(void)
{
    struct verbs_job *job = first;

    if (!job)
        return NULL;
    first = job->next;
    n_queued--;
    if (!first)
        last = &first;
    return job;
}

/* 0: nothing came for a while. */
static int wait_for_job(void)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += IDLE_S;
    n_idle++;
    int late = pthread_cond_clockwait(&waiting, &lock, CLOCK_MONOTONIC, &until);
    n_idle--;
    return !late || first;
}

static void *work(void *arg)
{
    struct worker *self = arg;

    pthread_mutex_lock(&lock);
    for (;;) {
        struct verbs_job *job = take();
        if (job) {
            self->running = 1;
            self->owner = job->owner;
            pthread_mutex_unlock(&lock);
            job->run(job);
            pthread_mutex_lock(&lock);
            self->running = 0;
            pthread_cond_broadcast(&settled);
        } else if (ending || !wait_for_job()) {
            break;
        }
    }
    n_threads--;
    if (!ending) {
        self->working = 0;
        pthread_detach(self->thread);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static int start_worker(void)
{
    struct worker *worker = workers;

    while (worker->working)
        worker++;
    int error = mn_thread_start("mn-verbs-work", work, worker, &worker->thread);
    if (error)
        return error;
    worker->working = 1;
    n_threads++;
    return 0;
}

int verbs_work(struct verbs_job *job)
{
    int error = 0;

    pthread_mutex_lock(&lock);
    if (n_queued >= n_idle && n_threads < MAX_THREADS)
        error = start_worker();
    if (error && n_threads)
        error = 0; /* the others will come to it */
    if (!error) {
        job->next = NULL;
        *last = job;
        last = &job->next;
        n_queued++;
        pthread_cond_signal(&waiting);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

static int has_job(const void *owner)
{
    for (const struct verbs_job *job = first; job; job = job->next)
        if (job->owner == owner)
            return 1;
    for (int i = 0; i < MAX_THREADS; i++)
        if (workers[i].running && workers[i].owner == owner)
            return 1;
    return 0;
}

void verbs_work_settle(const void *owner)
{
    pthread_mutex_lock(&lock);
    while (has_job(owner))
        pthread_cond_wait(&settled, &lock);
    pthread_mutex_unlock(&lock);
}

int verbs_work_has(const void *owner)
{
    pthread_mutex_lock(&lock);
    int has = has_job(owner);
    pthread_mutex_unlock(&lock);
    return has;
}

void verbs_work_end(void)
{
    pthread_mutex_lock(&lock);
    ending = 1;
    pthread_cond_broadcast(&waiting);
    for (int i = 0; i < MAX_THREADS; i++) {
        if (!workers[i].working)
            continue;
        pthread_mutex_unlock(&lock);
        pthread_join(workers[i].thread, NULL);
        pthread_mutex_lock(&lock);
        workers[i].working = 0;
    }
    ending = 0;
    pthread_mutex_unlock(&lock);
}
