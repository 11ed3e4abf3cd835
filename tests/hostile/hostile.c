/* A plugin that harms whoever loads it, in the way that the environment's HOSTILE names. It does so
 * in init, except where the name says load; what is left of the process then finds no device. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static _Noreturn void sleep_on(void)
{
    for (;;)
        pause();
}

static void crash(void)
{
    raise(SIGSEGV);
}

static void exit_good(void)
{
    exit(0);
}

static void exit_at_once(void)
{
    _exit(0);
}

static void exit_hangs(void)
{
    atexit((void (*)(void))sleep_on);
    exit(0);
}

static void hang(void)
{
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_IGN);
    sleep_on();
}

static void stop(void)
{
    raise(SIGSTOP);
}

static void *exit_good_elsewhere(void *arg)
{
    (void)arg;
    exit(0);
}

static void exit_from_thread(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, exit_good_elsewhere, NULL);
    sleep_on();
}

static void *sleep_thread(void *arg)
{
    (void)arg;
    sleep_on();
}

static void main_thread_ends(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, sleep_thread, NULL);
    pthread_exit(NULL);
}

static void child_stays(void)
{
    if (fork() == 0)
        sleep_on();
}

static void daemon_stays(void)
{
    if (fork() == 0) {
        setsid();
        signal(SIGTERM, SIG_IGN);
        if (fork() == 0)
            sleep_on();
        _exit(0);
    }
}

static void family_stays(void)
{
    for (int i = 0; i < 20; i++)
        if (fork() == 0) {
            setsid();
            if (fork() == 0 && fork() == 0)
                setsid();
            sleep_on();
        }
}

static void forks_and_returns_twice(void)
{
    fork();
}

static void child_hangs_parent_exits(void)
{
    if (fork() == 0)
        sleep_on();
    _exit(0);
}

static void closes_standard_input(void)
{
    close(0);
}

static void closes_everything(void)
{
    for (int fd = 0; fd < 1024; fd++)
        close(fd);
}

/* Whatever the judge would write to a descriptor goes here. */
static void takes_every_descriptor(void)
{
    for (int fd = 0; fd < 64; fd++) {
        close(fd);
        open("/dev/full", O_RDWR);
    }
}

static void writes_standard_output(void)
{
    for (int i = 0; i < 1000; i++)
        printf("{\"result\": \"pass\"}\nok 1 - everything\n");
    fflush(stdout);
}

static void changes_the_process(void)
{
    struct rlimit none = {0, 0};

    if (chdir("/") != 0)
        abort();
    umask(0777);
    setrlimit(RLIMIT_NOFILE, &none);
    setrlimit(RLIMIT_FSIZE, &none);
    setenv("LD_PRELOAD", "/nowhere.so", 1);
    signal(SIGCHLD, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
}

static void core_without_limit(void)
{
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};

    setrlimit(RLIMIT_CORE, &all);
    raise(SIGQUIT);
}

static void kills_its_group(void)
{
    kill(0, SIGKILL);
}

static void kills_its_parent(void)
{
    kill(getppid(), SIGKILL);
    sleep_on();
}

static void stops_its_parent(void)
{
    kill(getppid(), SIGSTOP);
}

static void outlives_its_parent(void)
{
    prctl(PR_SET_PDEATHSIG, 0);
    setsid();
    sleep_on();
}

static void logs_rubbish(void);

static int overflow(int depth)
{
    volatile char stack[65536];

    stack[0] = (char)depth;
    return depth < 1000000 ? overflow(depth + 1) + stack[0] : 0;
}

static void overflows_its_stack(void)
{
    overflow(0);
}

static const struct deed {
    const char *name;
    void (*run)(void);
} deeds[] = {
    {"crash", crash},
    {"exit", exit_good},
    {"exit-at-once", exit_at_once},
    {"exit-hangs", exit_hangs},
    {"exit-from-thread", exit_from_thread},
    {"hang", hang},
    {"stop", stop},
    {"main-thread-ends", main_thread_ends},
    {"child-stays", child_stays},
    {"daemon-stays", daemon_stays},
    {"family-stays", family_stays},
    {"returns-twice", forks_and_returns_twice},
    {"child-hangs", child_hangs_parent_exits},
    {"closes-input", closes_standard_input},
    {"closes-all", closes_everything},
    {"takes-all", takes_every_descriptor},
    {"writes-output", writes_standard_output},
    {"changes-process", changes_the_process},
    {"core", core_without_limit},
    {"kills-group", kills_its_group},
    {"kills-parent", kills_its_parent},
    {"stops-parent", stops_its_parent},
    {"outlives", outlives_its_parent},
    {"logs-rubbish", logs_rubbish},
    {"overflows", overflows_its_stack},
};

static ncclDebugLogger_t logger;

static void logs_rubbish(void)
{
    char line[2000];

    for (int i = 0; i < 1000; i++) {
        memset(line, i % 255 + 1, sizeof line - 1);
        line[sizeof line - 1] = '\0';
        logger(NCCL_LOG_WARN, ~0ul, __func__, __LINE__, "%s", line);
    }
    raise(SIGSEGV);
}

static void do_as_told(const char *prefix)
{
    const char *name = getenv("HOSTILE");
    size_t length = strlen(prefix);

    if (!name || strncmp(name, prefix, length) != 0)
        return;
    for (size_t i = 0; i < COUNT(deeds); i++)
        if (strcmp(name + length, deeds[i].name) == 0)
            deeds[i].run();
}

__attribute__((constructor)) static void loaded(void)
{
    do_as_told("load-");
}

static ncclResult_t init(ncclDebugLogger_t log)
{
    logger = log;
    do_as_told("");
    return ncclSuccess;
}

static ncclResult_t devices(int *n)
{
    *n = 0;
    return ncclSuccess;
}

__attribute__((visibility("default")))
const ncclNet_v8_t ncclNetPlugin_v8 = {.name = "hostile", .init = init, .devices = devices};
