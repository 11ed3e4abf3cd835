/* Scenarios of links that go and come back, by the thousand, on the double of libibverbs.
 *
 *   failover LIBRARY [from=SEED] [count=N] [class=NAME] [jobs=N] [failover=on|off|any] [verbose=1]
 *
 * The library is opened twice, as if by two nodes with two or three cables between them. A seed
 * says what the devices are like, what is sent and which faults come when; class: faults of one
 * kind. The plugin's clock is this program's: it stands still while anything is done and leaps when
 * nothing is, so that minutes of waiting take moments. One thread drives both ends; the libraries'
 * own threads are let come to rest at each fault, so that a seed replays nearly always.
 *
 * Of every scenario it is checked: each byte, by where it is and which message it is; bytes around
 * and after; nothing written once a receive is done; sizes; order by tag; no send done whose bytes
 * are not there; no RNR; no queue pair, region, descriptor or thread left; within a minute of the
 * plugin's time everything either goes on or ends with an error at both ends, which names a link.
 * failover=on (which is what is not said): nothing ends while a link was left alone. any: it may.
 *
 * Makes its own network namespace: needs root or user namespaces. Exit 0: all was right; 1: of each
 * seed that was not, a line and the command that runs it again; 77: no namespace. */
#include "tests/drivers/failover/failover.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "topo/base/alloc.h"

#define JOBS    64
#define WATCH_S 240

struct job {
    pid_t pid;
    uint64_t seed; /* under way */
    uint64_t scenes, bad, failed, messages, bytes, gone, back, again;
    char class[16];
};

static struct {
    const char *self, *library, *class;
    uint64_t from, count, jobs;
    struct fo_options options;
    struct job *shared; /* JOBS */
} run;

static void on_log(void *ctx, int level, const char *text)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct fo_end *end = ctx;
    if (level == NCCL_LOG_INFO && strstr(text, " queue pair(s)"))
        end->links++;
    if (level != NCCL_LOG_WARN)
        return;
    if (run.options.verbose)
        printf("# %llu ms: %s\n", (unsigned long long)fo_now_ms(), text);
    pthread_mutex_lock(&lock);
    mn_strlcpy(end->lines[end->n_lines++ % FO_LINES], text, sizeof end->lines[0]);
    pthread_mutex_unlock(&lock);
    const char *stood_still = strstr(text, " ms, and ");
    end->gone += strstr(text, "is given up: ") != NULL;
    if (strstr(text, "is back after ") && stood_still) {
        end->back++;
        end->again += strtoull(stood_still + strlen(" ms, and "), NULL, 10);
    }
}

static const struct fo_class *class_of(uint64_t seed)
{
    uint64_t n = 0;
    for (const struct fo_class *row = fo_classes; row->name; row++, n++)
        if (run.class && !strcmp(run.class, row->name))
            return row;
    return &fo_classes[seed % n];
}

static void again(uint64_t seed)
{
    printf("    LD_LIBRARY_PATH=%s %s %s from=%llu count=1 failover=%s%s%s verbose=1\n",
           getenv("LD_LIBRARY_PATH"), run.self, run.library, (unsigned long long)seed,
           run.options.failover < 0 ? "any"
           : run.options.failover   ? "on"
                                    : "off",
           run.class ? " class=" : "", run.class ? run.class : "");
}

/* --- a block of seeds, in a process of its own --- */

/* Libraries are the same only by their file. */
static void copy_library(char path[64])
{
    char buf[65536];
    int from = open(run.library, O_RDONLY | O_CLOEXEC), to;
    ssize_t n;
    strcpy(path, "/tmp/meshnet-failover-XXXXXX.so");
    to = mkstemps(path, 3);
    while ((n = read(from, buf, sizeof buf)) > 0)
        if (write(to, buf, (size_t)n) != n)
            break;
    if (from < 0 || to < 0 || n != 0) {
        fprintf(stderr, "failover: cannot copy %s\n", run.library);
        exit(2);
    }
    close(from);
    close(to);
}

static void open_end(struct fo_end *end, const char *path, char side)
{
    char list[64] = "="; /* those names and no others */
    int devices = 0;
    struct mn_diag diag;
    for (int i = 0, at = 1; i < FO_LINKS; i++)
        at += snprintf(list + at, sizeof list - (size_t)at, "%sf%c%d", i ? "," : "", side, i);
    setenv("NCCL_SOCKET_IFNAME", list, 1);
    fo_be_node((uint64_t)side);
    if (mn_plugin_open(path, 0, &end->plugin, &diag)) {
        fprintf(stderr, "failover: %s\n", diag.text);
        exit(2);
    }
    mn_plugin_set_log(end->plugin, on_log, end);
    if (mn_plugin_init(end->plugin) || mn_plugin_devices(end->plugin, &devices) || !devices) {
        fprintf(stderr, "failover: the library finds no device\n");
        exit(2);
    }
}

static int block(struct job *job, uint64_t from, uint64_t to)
{
    static struct fo_end ends[2];
    static struct fo_result result;
    char copy[64];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fo_clock_begin();
    fo_world(from / FO_BLOCK, &run.options);
    fo_double_open();
    copy_library(copy);
    open_end(&ends[0], run.library, 'a');
    open_end(&ends[1], copy, 'b');
    unlink(copy);
    /* Threads that stay begin with the first connection. */
    struct fo_options warming = {-1, 0, 1};
    fo_scene(ends, &fo_classes[0], 0, &warming, &result);
    for (uint64_t seed = from; seed < to; seed++) {
        const struct fo_class *row = class_of(seed);
        job->seed = seed;
        mn_strlcpy(job->class, row->name, sizeof job->class);
        alarm(WATCH_S);
        fo_scene(ends, row, seed, &run.options, &result);
        job->scenes++;
        job->failed += result.failed != 0;
        job->messages += result.messages;
        job->bytes += result.bytes;
        job->gone += result.gone;
        job->back += result.back;
        job->again += result.again;
        if (*result.why) {
            job->bad++;
            printf("not ok - seed %llu (%s): %s\n", (unsigned long long)seed, row->name,
                   result.why);
            again(seed);
            /* What it left is not the next one's. */
            fflush(stdout);
            _exit(3);
        }
    }
    alarm(0);
    mn_plugin_close(ends[0].plugin);
    mn_plugin_close(ends[1].plugin);
    return 0;
}

/* --- all of them --- */

static int make_links(void)
{
    if (unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return -1;
    FILE *ip = popen("ip -batch - >/dev/null 2>&1", "w");
    if (!ip)
        return -1;
    fprintf(ip, "link set lo up\n");
    for (int i = 0; i < FO_LINKS; i++)
        fprintf(ip,
                "link add fa%d type veth peer name fb%d\nlink set fa%d up\nlink set fb%d up\n"
                "addr add 10.66.%d.1/30 dev fa%d\naddr add 10.66.%d.2/30 dev fb%d\n",
                i, i, i, i, i, i, i, i);
    return pclose(ip);
}

/* The next block of what is left, from the seed on; where it ends. */
static uint64_t start(struct job *job, uint64_t from, uint64_t end)
{
    uint64_t to = (from / FO_BLOCK + 1) * FO_BLOCK;
    to = to < end ? to : end;
    job->seed = from;
    fflush(stdout);
    pid_t pid = fork(); /* the job is in both */
    if (pid < 0)
        abort();
    if (pid == 0)
        exit(block(job, from, to));
    job->pid = pid;
    return to;
}

/* One has ended: its process, and where its block goes on when a seed ended it. */
static uint64_t ended(struct job *job, int status)
{
    uint64_t seed = job->seed;
    job->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
        exit(2);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 3) {
        job->bad++;
        job->scenes++;
        printf("not ok - seed %llu (%s): the process ended with %s %d\n", (unsigned long long)seed,
               job->class, WIFSIGNALED(status) ? "signal" : "status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        again(seed);
    }
    return seed + 1;
}

static void run_all(void)
{
    uint64_t at = run.from, end = run.from + run.count, rests[JOBS];
    int running = 0, n_rests = 0, status;

    for (;;) {
        for (uint64_t i = 0; i < run.jobs && (at < end || n_rests); i++) {
            struct job *job = &run.shared[i];
            if (job->pid)
                continue;
            /* Of a block that was ended, what remains. */
            if (n_rests) {
                uint64_t rest = rests[--n_rests];
                uint64_t stop = (rest / FO_BLOCK + 1) * FO_BLOCK;
                start(job, rest, stop < end ? stop : end);
            } else {
                at = start(job, at, end);
            }
            running++;
        }
        if (!running)
            return;
        pid_t pid = wait(&status);
        for (uint64_t i = 0; i < run.jobs; i++) {
            struct job *job = &run.shared[i];
            if (pid <= 0 || job->pid != pid)
                continue;
            uint64_t rest = ended(job, status);
            if (rest && rest < end && rest % FO_BLOCK)
                rests[n_rests++] = rest;
            running--;
        }
    }
}

static int read_options(int argc, char **argv)
{
    run.count = 100;
    run.jobs = 1;
    run.options.failover = 1;
    for (int i = 2; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value)
            return 0;
        *value++ = '\0';
        if (!strcmp(argv[i], "from"))
            run.from = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "count"))
            run.count = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "jobs"))
            run.jobs = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "class"))
            run.class = value;
        else if (!strcmp(argv[i], "verbose"))
            run.options.verbose = atoi(value);
        else if (!strcmp(argv[i], "failover"))
            run.options.failover = !strcmp(value, "on") ? 1 : !strcmp(value, "off") ? 0 : -1;
        else
            return 0;
    }
    const struct fo_class *row = fo_classes;
    while (run.class && row->name && strcmp(row->name, run.class) != 0)
        row++;
    return row->name && run.jobs >= 1 && run.jobs <= JOBS && run.count > 0;
}

int main(int argc, char **argv)
{
    uint64_t scenes = 0, bad = 0, failed = 0, messages = 0, bytes = 0, gone = 0, back = 0,
             again_bytes = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    run.self = argv[0];
    run.library = argc > 1 ? argv[1] : NULL;
    if (argc < 2 || !read_options(argc, argv)) {
        fputs("usage: failover LIBRARY [from=SEED] [count=N] [class=NAME] [jobs=N] "
              "[failover=on|off|any] [verbose=1]\nclasses:",
              stderr);
        for (const struct fo_class *row = fo_classes; row->name; row++)
            fprintf(stderr, " %s", row->name);
        fputs("\n", stderr);
        return 2;
    }
    if (make_links() != 0) {
        puts("no network namespace with cables can be made here");
        return 77;
    }
    run.shared = mmap(NULL, JOBS * sizeof *run.shared, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run.shared == MAP_FAILED)
        abort();
    run_all();
    for (int i = 0; i < JOBS; i++) {
        scenes += run.shared[i].scenes;
        bad += run.shared[i].bad;
        failed += run.shared[i].failed;
        messages += run.shared[i].messages;
        bytes += run.shared[i].bytes;
        gone += run.shared[i].gone;
        back += run.shared[i].back;
        again_bytes += run.shared[i].again;
    }
    printf(
        "%llu scenarios: %llu failed; %llu messages, %llu MiB checked; links were given up %llu "
        "times and came back %llu, %llu MiB sent again; in %llu a connection ended with an error, "
        "as it may\n",
        (unsigned long long)scenes, (unsigned long long)bad, (unsigned long long)messages,
        (unsigned long long)(bytes >> 20), (unsigned long long)gone, (unsigned long long)back,
        (unsigned long long)(again_bytes >> 20), (unsigned long long)failed);
    return bad ? 1 : 0;
}
