/* The thread of a process in a shared fabric, or with a completion channel. It keeps out of the way
 * of a process that calls verbs often, costs nothing while nothing happens, and ends with the last
 * context or channel. */
#include "tests/fakeverbs/fv.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define QUIET_NS 2000000u  /* without news for so long, it sleeps until it is woken */
#define SLEEP_NS 10000000L /* dead peers are looked for that often */

static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER;
static pthread_t thread;
static int running;
static atomic_int stop;

static void nap(long us)
{
    if (us > 0)
        nanosleep(&(struct timespec){0, us * 1000}, NULL);
    else
        sched_yield();
}

static void sleep_until_woken(void)
{
    struct fv_proc *proc = fv.proc;
    atomic_store(&proc->sleeping, 1);
    pthread_mutex_lock(&fv.lock);
    int idle = fv.channels == 0 || fv.n_active == 0;
    pthread_mutex_unlock(&fv.lock);
    if (idle && atomic_load(&proc->bell) == 0)
        syscall(SYS_futex, &proc->sleeping, FUTEX_WAIT, 1, &(struct timespec){0, SLEEP_NS}, NULL,
                0);
    atomic_store(&proc->sleeping, 0);
}

void fv_helper_wake(struct fv_proc *proc)
{
    uint32_t asleep = 1;
    if (atomic_compare_exchange_strong(&proc->sleeping, &asleep, 0))
        syscall(SYS_futex, &proc->sleeping, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void *run(void *unused)
{
    (void)unused;
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    uint64_t tick = 0, last_news = fv_now();
    long nap_us = 20;
    while (!atomic_load(&stop)) {
        /* Held by a caller: packets move without this thread. */
        int busy = pthread_mutex_trylock(&fv.lock) != 0;
        long us = nap_us;
        if (!busy) {
            us = nap_us = fv.config.nap;
            busy = fv.tick != tick;
            if (!busy && (fv.n_active > 0 || atomic_load(&fv.proc->bell))) {
                fv_run();
                busy = 1;
            } else if (!busy) {
                fv_watch();
            }
            tick = fv.tick;
            pthread_mutex_unlock(&fv.lock);
        }
        uint64_t now = fv_now();
        if (busy)
            last_news = now;
        if (now - last_news > QUIET_NS)
            sleep_until_woken();
        else
            nap(us);
    }
    return NULL;
}

void fv_helper_start(void)
{
    sigset_t all, old;
    pthread_mutex_lock(&life);
    if (!running) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        if (pthread_create(&thread, NULL, run, NULL) != 0)
            fv_die("no thread for the shared fabric");
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        running = 1;
    }
    pthread_mutex_unlock(&life);
}

void fv_helper_stop(void)
{
    pthread_mutex_lock(&life);
    fv_lock();
    int needed = fv.channels > 0 || (fv_is_shared() && fv.contexts);
    fv_unlock();
    if (running && !needed) {
        atomic_store(&stop, 1);
        pthread_join(thread, NULL); /* it looks up every SLEEP_NS */
        atomic_store(&stop, 0);
        running = 0;
    }
    pthread_mutex_unlock(&life);
}
