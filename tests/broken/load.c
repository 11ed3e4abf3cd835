/* What happens when the library is loaded, and in every init. */
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
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

void *ref_idle(void *arg)
{
    for (;;)
        pause();
    return arg;
}

void *ref_wander(void *arg)
{
    for (;;)
        ref_nap();
    return arg;
}

static void *spin(void *arg)
{
    for (volatile unsigned n = 0;; n++)
        ;
    return arg;
}

struct start {
    void *(*run)(void *);
    atomic_int is_up;
};

static void *begin(void *arg)
{
    struct start *start = arg;
    void *(*run)(void *) = start->run;

    atomic_store(&start->is_up, 1);
    return run(NULL);
}

/* Back when the thread runs: before, it blocks every signal and takes no CPU. */
void ref_start(void *(*run)(void *))
{
    struct start start = {.run = run};
    pthread_t thread;

    if (pthread_create(&thread, NULL, begin, &start) != 0)
        return;
    pthread_detach(thread);
    while (!atomic_load(&start.is_up))
        ref_nap();
}

void ref_start_spinning(void)
{
    for (int i = 0; i < 4; i++)
        ref_start(spin);
}

__attribute__((constructor)) static void at_load(void)
{
    if (IS(THREAD_AT_LOAD))
        ref_start(ref_idle);
    if (IS(SIGNAL_AT_LOAD))
        signal(SIGTERM, SIG_IGN);
    if (IS(CRASH_AT_LOAD))
        abort();
    if (IS(EXITS_AT_LOAD))
        exit(0);
    if (IS(HANGS_AT_LOAD))
        ref_idle(NULL);
    if (IS(FORKS_AT_LOAD) && fork() == 0)
        ref_idle(NULL);
    if (IS(CLOSES_STDIN))
        close(0);
    if (IS(CHANGES_DIRECTORY) && chdir("/") != 0)
        abort();
    if (IS(CHANGES_UMASK))
        umask(0);
    if (IS(CHANGES_ENVIRONMENT))
        setenv("NCCL_DEBUG", "TRACE", 1);
}

/* When the process exits, and at dlclose. */
__attribute__((destructor)) static void at_unload(void)
{
    if (IS(EXIT_CRASHES) && ref_comms)
        abort();
    if (IS(EXIT_HANGS) && ref_comms)
        ref_idle(NULL);
}

static void break_comms(void)
{
    for (struct comm *c = ref_comms; c; c = c->next)
        c->channel->closed[SEND] = c->channel->closed[RECV] = 1;
}

ncclResult_t ref_init(ncclDebugLogger_t log)
{
    logger = log;
    BLOCKS_IN(INIT);
    if (IS(FORK_BREAKS))
        pthread_atfork(NULL, break_comms, NULL);
    if (IS(INIT_FAILS))
        return ref_refuse("init refuses");
    if (IS(V8_UNLOAD_CRASH))
        ref_start(ref_wander);
    if (IS(INIT_EXITS))
        exit(0);
    if (IS(INIT_CLOSES_ALL))
        closefrom(0);
    if (IS(INIT_SPINS))
        ref_start_spinning();
    if (inits++ && IS(INIT_ONCE))
        return ref_refuse("already initialised");
    if (inits > 1 && IS(INIT_RESETS))
        ref_lose_messages();
    if (IS(BLOCKS_SIGNAL)) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
    }
    return ncclSuccess;
}
