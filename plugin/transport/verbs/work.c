#include "plugin/transport/verbs/work.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define MAX_THREADS 4
#define IDLE_S      5

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t waiting = PTHREAD_COND_INITIALIZER;
static struct verbs_job *first, **last = &first;
static int n_threads, n_idle, n_queued;

/* NCCL's threads are pinned to the cores near their GPU; this one belongs to nobody. */
static void unpin(void)
{
    cpu_set_t all;

    memset(&all, 0xff, sizeof all);
    (void)pthread_setaffinity_np(pthread_self(), sizeof all, &all);
    (void)pthread_setname_np(pthread_self(), "mn-verbs-work");
}

static void *work(void *none)
{
    (void)none;
    unpin();
    pthread_mutex_lock(&lock);
    for (;;) {
        struct verbs_job *job = first;
        if (job) {
            first = job->next;
            n_queued--;
            if (!first)
                last = &first;
            pthread_mutex_unlock(&lock);
            job->run(job);
            pthread_mutex_lock(&lock);
            continue;
        }
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += IDLE_S;
        n_idle++;
        int late = pthread_cond_timedwait(&waiting, &lock, &until);
        n_idle--;
        if (late && !first)
            break;
    }
    n_threads--;
    pthread_mutex_unlock(&lock);
    return NULL;
}

static int start_thread(void)
{
    sigset_t all, before;
    pthread_t thread;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, work, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return error;
    pthread_detach(thread);
    n_threads++;
    return 0;
}

int verbs_work(struct verbs_job *job)
{
    int error = 0;

    pthread_mutex_lock(&lock);
    if (n_queued >= n_idle && n_threads < MAX_THREADS)
        error = start_thread();
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
