#include "tests/drivers/traffic/watch.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LONG_S 0.1

static const char *const calls[WT_N_CALLS] = {"listen", "connect", "accept", "regMr",
                                              "isend",  "irecv",   "test",   "close"};
static double longest[WT_N_CALLS], waited_before;
static volatile sig_atomic_t went_on, went_on_before;
static int schedstat = -1;

static void on_continue(int signal)
{
    (void)signal;
    went_on++;
}

void wt_begin(void)
{
    struct sigaction action = {.sa_handler = on_continue, .sa_flags = SA_RESTART};
    sigaction(SIGCONT, &action, NULL);
    schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    wt_look();
}

/* Seconds in which this thread was ready to run and had no processor. */
static double waited(void)
{
    char text[128], *at = text;
    ssize_t n = schedstat < 0 ? 0 : pread(schedstat, text, sizeof text - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    strtoull(text, &at, 10);
    return (double)strtoull(at, NULL, 10) * 1e-9;
}

void wt_look(void)
{
    waited_before = waited();
    went_on_before = went_on;
}

double wt_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* The time that passes, as time of the processor would not show a call that sleeps; without what
 * the thread waited for a processor, or its process was stopped by a signal, which is no fault of
 * the call's. */
void wt_took(enum wt_call call, double since)
{
    double took = wt_now() - since;
    if (took <= longest[call])
        return;
    if (took > LONG_S / 10) {
        took = went_on != went_on_before ? 0 : took - (waited() - waited_before);
        wt_look();
    }
    if (took <= longest[call])
        return;
    longest[call] = took;
    if (took >= LONG_S)
        printf("longest %s %.0f\n", calls[call], took * 1e3);
}

void wt_say(void)
{
    for (int i = 0; i < WT_N_CALLS; i++)
        if (longest[i] > 0)
            printf("longest %s %.0f\n", calls[i], longest[i] * 1e3);
}

const char *const wt_things[WT_N_THINGS] = {"descriptors",       "threads", "queue pairs",
                                            "completion queues", "regions", "channels"};

static uint64_t entries_of(const char *directory)
{
    DIR *dir = opendir(directory);
    uint64_t n = 0;
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n > 2 ? n - 2 : 0;
}

/* Without those that stay for a while in case of more work. */
static uint64_t threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry;
    uint64_t n = 0;
    while (dir && (entry = readdir(dir))) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        n += read(fd, name, sizeof name - 1) > 0 && strcmp(name, "mn-verbs-work\n") != 0;
        close(fd);
    }
    if (dir)
        closedir(dir);
    return n;
}

/* Stays open, as what it counts does. */
static uint64_t counter(const char *name)
{
    static uint64_t (*count)(const char *);
    static void *lib;
    if (!lib && (lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD))) {
        void *symbol = dlsym(lib, "fakeverbs_counter");
        memcpy(&count, &symbol, sizeof count);
    }
    return count ? count(name) : 0;
}

void wt_list(void)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    char path[300], to[300];
    while (dir && (entry = readdir(dir))) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t n = readlink(path, to, sizeof to - 1);
        int domain = -1, type = -1, fd = atoi(entry->d_name);
        socklen_t len = sizeof domain;
        getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len);
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len);
        if (n > 0 && domain < 0)
            fprintf(stderr, "descriptor %d: %.*s\n", fd, (int)n, to);
        else if (n > 0)
            fprintf(stderr, "descriptor %d: %.*s, domain %d type %d\n", fd, (int)n, to, domain,
                    type);
    }
    if (dir)
        closedir(dir);
}

void wt_count(uint64_t things[WT_N_THINGS])
{
    things[WT_DESCRIPTORS] = entries_of("/proc/self/fd");
    things[WT_THREADS] = threads();
    things[WT_QPS] = counter("qps");
    things[WT_CQS] = counter("cqs");
    things[WT_MRS] = counter("mrs");
    things[WT_CHANNELS] = counter("channels");
}

uint64_t wt_rss_kib(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%*u %llu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

uint64_t wt_rnr(void)
{
    return counter("rnr");
}
