/* What happens when the library is loaded, and in init. */
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/broken/ref.h"

static ncclDebugLogger_t logger;
static int inits;

ncclResult_t ref_refuse(const char *why)
{
    if (logger)
        logger(NCCL_LOG_WARN, NCCL_NET, __FILE__, __LINE__, "ref: %s", why);
    return ncclInvalidUsage;
}

void ref_nap(void)
{
    struct timespec ts = {.tv_nsec = 100000};

    nanosleep(&ts, NULL);
}

void ref_hang(void)
{
    for (;;)
        pause();
}

static void *idle(void *arg)
{
    (void)arg;
    ref_hang();
}

void ref_leave_thread(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, idle, NULL) == 0)
        pthread_detach(thread);
}

__attribute__((constructor)) static void at_load(void)
{
    if (IS(THREAD_AT_LOAD))
        ref_leave_thread();
    if (IS(SIGNAL_AT_LOAD))
        signal(SIGTERM, SIG_IGN);
    if (IS(CRASH_AT_LOAD))
        abort();
}

ncclResult_t ref_init(ncclDebugLogger_t log)
{
    logger = log;
    if (IS(INIT_FAILS))
        return ref_refuse("init refuses");
    if (inits++ && IS(INIT_ONCE))
        return ref_refuse("already initialised");
    if (IS(BLOCKS_SIGNAL)) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
    }
    return ncclSuccess;
}
