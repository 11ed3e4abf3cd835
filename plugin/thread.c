#include "plugin/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

int mn_thread_start(const char *name, void *(*run)(void *arg), void *arg, pthread_t *thread)
{
    cpu_set_t cpus;
    sigset_t everything, before;

    memset(&cpus, 0xff, sizeof cpus);
    sigfillset(&everything);
    pthread_sigmask(SIG_SETMASK, &everything, &before);
    int err = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err)
        return err;
    (void)pthread_setaffinity_np(*thread, sizeof cpus, &cpus);
    (void)pthread_setname_np(*thread, name);
    return 0;
}

const char *mn_thread_why(int error)
{
    switch (error) {
    case EAGAIN:
        return "there may be no more threads (see ulimit -u, and the limit of pids of the "
               "container or service)";
    case EMFILE:
    case ENFILE:
        return "Too many open files (see ulimit -n)";
    default:
        return strerror(error);
    }
}
