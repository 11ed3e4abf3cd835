/* The process belongs to the framework: its threads, its output, its processors. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench/check/device.h"
#include "bench/check/kit.h"

#define WINDOW_MS  100
#define WINDOWS    4
#define OWN_WAKES  500 /* of the rule itself in a window; on a full machine that takes long */
#define SHARE      10  /* 1 in so many of its own: far above any timer, on a full machine too */
#define RESTLESS   100 /* in each window; fewer are not */
#define PROPERTIES 200

static void use(struct mn_check *check)
{
    struct mn_pair pair;

    mn_kit_connect(check, &pair);
    for (unsigned i = 0; i < 4; i++)
        mn_kit_pass(check, &pair, 20000, 20000, i);
    mn_kit_close(check, &pair);
}

static void check_caller(struct mn_check *check)
{
    cpu_set_t cpus, cpus_after;
    sigset_t mask, mask_after;

    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        mn_check_skip(check, "more processors than can be looked at");
    mn_check_init(check);
    use(check);
    pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
    if (sched_getaffinity(0, sizeof cpus_after, &cpus_after) == 0 && !CPU_EQUAL(&cpus, &cpus_after))
        mn_check_fail(check, "the calling thread may use %d processors, before it were %d",
                      CPU_COUNT(&cpus_after), CPU_COUNT(&cpus));
    for (int s = 1; s < NSIG; s++)
        if (sigismember(&mask, s) != sigismember(&mask_after, s))
            mn_check_fail(check, "signal %d (%s) was %s on the calling thread", s,
                          sigabbrev_np(s) ? sigabbrev_np(s) : "real-time",
                          sigismember(&mask_after, s) ? "blocked" : "unblocked");
}

static void check_output(struct mn_check *check)
{
    char text[128] = "";
    int file = memfd_create("verify-plugin", MFD_CLOEXEC);

    fflush(stdout);
    if (file < 0 || dup2(file, STDOUT_FILENO) < 0)
        mn_check_skip(check, "standard output cannot be redirected");
    mn_check_init(check);
    use(check);
    fflush(stdout);
    if (pread(file, text, sizeof text - 1, 0) > 0)
        mn_check_fail(check, "it printed on standard output: \"%.*s\"", (int)strcspn(text, "\n"),
                      text);
}

static void *init_here(void *check)
{
    mn_check_init(check);
    return NULL;
}

static void check_init_thread(struct mn_check *check)
{
    pthread_t thread;

    mn_check_step(check, "init on a thread that ends");
    if (pthread_create(&thread, NULL, init_here, check) != 0)
        mn_check_skip(check, "no second thread can be started");
    pthread_join(thread, NULL);
    use(check);
}

static void ask_often(struct mn_check *check)
{
    struct mn_raw_props props;

    for (int i = 0; i < PROPERTIES; i++)
        mn_device_read(check, i % check->n_dev, &props);
}

static void check_properties(struct mn_check *check)
{
    int before, after;

    mn_check_init(check);
    ask_often(check);
    before = mn_check_count_fds();
    ask_often(check);
    after = mn_check_count_fds();
    if (after >= before + PROPERTIES / 2)
        mn_check_fail(check, "%d descriptors before %d calls of getProperties, %d after", before,
                      PROPERTIES, after);
}

/* Of all threads but this one. */
static long wakes(void)
{
    struct rusage all, own;

    getrusage(RUSAGE_SELF, &all);
    getrusage(RUSAGE_THREAD, &own);
    return all.ru_nvcsw - own.ru_nvcsw;
}

/* This thread naps as briefly as it can. Returns how often the others woke; *own: this one. */
static long window(const struct mn_check *check, long *own)
{
    const uint64_t end = mn_check_now_ns() + WINDOW_MS * 1000000u;
    const long before = wakes();

    for (*own = 0; !mn_check_expired(check) && (mn_check_now_ns() < end || *own < OWN_WAKES);
         ++*own)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    return wakes() - before;
}

static void check_wakes(struct mn_check *check)
{
    struct mn_pair pair;
    int restless = 0;
    long own, times, least = -1;

    mn_check_init(check);
    mn_kit_connect(check, &pair);
    mn_kit_pass(check, &pair, 1000, 1000, 1);
    mn_check_step(check, "nothing happens on a connection");
    for (int i = 0; i < WINDOWS; i++) {
        times = window(check, &own);
        restless += times > RESTLESS && times > own / SHARE;
        least = least < 0 || times < least ? times : least;
    }
    if (restless == WINDOWS)
        mn_check_fail(check,
                      "the plugin's threads woke at least %ld times in each of %d windows, with "
                      "nothing to do: nearly as often as a thread that naps for 20 us at a time",
                      least, WINDOWS);
    mn_check_note(check, "its threads wake %ld times in about %d ms", least, WINDOW_MS);
}

static const struct mn_check_rule rules[] = {
    {"guest.caller", "the calling thread stays as it is",
     "its processors and its signal mask are the program's, in every call", check_caller,
     .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL binds its threads to the processors of their GPU once, and asks nobody "
                 "afterwards; the thread of ncclCommInit is the user's",
     .breaks = "All the program's work ends up on one processor, or its signals are lost."},
    {"guest.output", "nothing is printed on standard output",
     "what a plugin has to say goes through the logger it is given", check_output,
     .grade = MN_CHECK_SHOULD,
     .evidence = "NCCL's own transports print through the logger alone, which NCCL_DEBUG and "
                 "NCCL_DEBUG_FILE turn and direct",
     .breaks = "Programs whose output is read by others break by a line they did not print."},
    {"guest.init_thread", "the thread that calls init may end",
     "init runs on a thread made for it; what it made stays", check_init_thread,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 group.cc, asyncJobLaunch: runs the init of a communicator on a thread "
                 "of its own and joins it",
     .breaks = "Connections fail as soon as a program initialises several GPUs at once."},
    {"guest.properties", "getProperties leaves nothing open",
     "it is called for each connection, on every service thread", check_properties,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/net.cc, sendProxySetup: asks for the properties for each "
                 "connection",
     .breaks = "A large job runs out of descriptors while it connects."},
    {"guest.wakes", "threads of an idle connection sleep",
     "what there is to do is done in test or on an event, not looked for all the time", check_wakes,
     .grade = MN_CHECK_SHOULD,
     .evidence = "Users see their cores taken from data loaders: each wake costs a switch and the "
                 "cache of whoever computed there",
     .breaks = "Every process of a job loses time to threads that look for work.",
     .flags = MN_CHECK_ALONE},
};

MN_CHECK_FAMILY(mn_check_guest_family, "guest", "the process it lives in", rules);
