/* The child's side of a rule: records, verdicts, and bringing the plugin up. */
#include "bench/check/rule.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "bench/check/record.h"
#include "bench/check/remote.h"
#include "bench/host.h"
#include "topo/base/alloc.h"
#include "topo/mesh_file.h"

#define LOG_WARN   2 /* ncclDebugLogLevel */
#define IDLE_LOOKS 1000
#define NAP_NS     4000000

static struct mn_check_shared *logs; /* the logger has no context argument */

static void write_log(const char *text)
{
    unsigned line = atomic_fetch_add(&logs->logs_begun, 1);

    if (line < MN_CHECK_LOG_LINES)
        mn_strlcpy(logs->log[line], text, sizeof *logs->log);
    else
        atomic_store(&logs->logs_begun, MN_CHECK_LOG_LINES);
}

/* A plugin that forks and returns twice would run the rule twice: the copy ends here. */
static void only_ours(const struct mn_check *check)
{
    if (getpid() != check->pid)
        _exit(0);
}

void mn_check_step(struct mn_check *check, const char *fmt, ...)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a rule may have threads */
    struct mn_check_shared *shared = check->shared;
    va_list ap;

    only_ours(check);
    pthread_mutex_lock(&lock);
    unsigned step = atomic_fetch_add(&shared->steps_begun, 1);
    va_start(ap, fmt);
    vsnprintf(shared->step[step % MN_CHECK_STEPS], sizeof *shared->step, fmt, ap);
    va_end(ap);
    atomic_store(&shared->steps, step + 1);
    pthread_mutex_unlock(&lock);
}

void mn_check_note(struct mn_check *check, const char *fmt, ...)
{
    va_list ap;

    only_ours(check);
    va_start(ap, fmt);
    vsnprintf(check->shared->note, sizeof check->shared->note, fmt, ap);
    va_end(ap);
}

static _Noreturn void end(struct mn_check *check, enum mn_check_verdict verdict, const char *fmt,
                          va_list ap) __attribute__((format(printf, 3, 0)));

static _Noreturn void end(struct mn_check *check, enum mn_check_verdict verdict, const char *fmt,
                          va_list ap)
{
    int expected = 0;

    only_ours(check);
    if (atomic_compare_exchange_strong(&check->shared->claimed, &expected, 1)) {
        vsnprintf(check->shared->seen, sizeof check->shared->seen, fmt, ap);
        atomic_store(&check->shared->verdict, verdict);
    } else { /* another thread, or another process of this rule: its verdict is being written */
        for (int i = 0; i < 1000 && !atomic_load(&check->shared->verdict); i++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    _exit(0);
}

void mn_check_fail(struct mn_check *check, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    end(check, MN_VERDICT_FAIL, fmt, ap);
}

void mn_check_warn(struct mn_check *check, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    end(check, MN_VERDICT_WARN, fmt, ap);
}

void mn_check_skip(struct mn_check *check, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    end(check, MN_VERDICT_SKIP, fmt, ap);
}

static _Noreturn void pass(struct mn_check *check, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static _Noreturn void pass(struct mn_check *check, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    end(check, MN_VERDICT_PASS, fmt, ap);
}

void mn_check_pass(struct mn_check *check)
{
    pass(check, "%s", "");
}

pid_t mn_check_fork(struct mn_check *check)
{
    pid_t parent = check->pid, pid = fork();

    if (pid < 0)
        mn_check_skip(check, "cannot start a second process: %s", strerror(errno));
    if (pid == 0) {
        check->pid = getpid();
        check->second = 1;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
    }
    return pid;
}

/* splitmix64: its whole state is one word, and any word is a good one to start from. */
uint64_t mn_check_random(struct mn_check *check)
{
    uint64_t x = check->random += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t mn_check_below(struct mn_check *check, uint64_t bound)
{
    return mn_check_random(check) % bound;
}

static uint64_t seed_of(const struct mn_check_target *target, const struct mn_check_rule *rule)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a of the id: rules of one seed differ */

    for (const char *c = rule->id; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    return hash ^ target->seed * 0x9e3779b97f4a7c15u;
}

int mn_check_dialect(const struct mn_check *check, unsigned dialect)
{
    return !check->target->profile || (check->target->profile->dialect & dialect) != 0;
}

uint64_t mn_check_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int mn_check_expired(const struct mn_check *check)
{
    return mn_check_now_ns() >= check->deadline_ns;
}

void mn_check_pause(const struct mn_check *check)
{
    static _Thread_local unsigned moves, idle;
    unsigned now = mn_check_moves(check->shared);

    idle = now != moves ? 0 : idle < 2 * IDLE_LOOKS ? idle + 1 : idle;
    moves = now;
    if (idle < IDLE_LOOKS)
        sched_yield();
    else /* longer each time */
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS / IDLE_LOOKS * (idle - IDLE_LOOKS)}, NULL);
}

static void capture_log(int level, unsigned long flags, const char *file, int line, const char *fmt,
                        ...) __attribute__((format(printf, 5, 6)));

static void capture_log(int level, unsigned long flags, const char *file, int line, const char *fmt,
                        ...)
{
    char text[512];
    va_list ap;

    (void)flags;
    (void)file;
    (void)line;
    if (level != LOG_WARN)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    write_log(text);
}

void mn_check_open(struct mn_check *check)
{
    mn_check_step(check, "dlopen");
    check->raw.lib = dlopen(check->target->path, RTLD_NOW | RTLD_LOCAL);
    if (!check->raw.lib)
        mn_check_skip(check, "the library does not load (rule load.open)");
}

void mn_check_load(struct mn_check *check)
{
    mn_check_open(check);
    if (!mn_raw_find(&check->raw, check->target->version))
        mn_check_skip(check, "no net symbol that is driven here (rule load.symbols)");
    if (!mn_check_applies(check->rule, check->raw.version->version))
        mn_check_skip(check, "does not apply to v%d", check->raw.version->version);
    if (check->rule->dialect && !mn_check_dialect(check, check->rule->dialect))
        mn_check_skip(check, "%s does not do this", check->target->profile->title);
}

void mn_check_ok(struct mn_check *check, const char *call, int result)
{
    if (result != 0)
        mn_check_fail(check, "%s returned %s", call, mn_nccl_result_name(result));
}

void mn_check_init(struct mn_check *check)
{
    _Alignas(16) unsigned char props[MN_RAW_PROPS_MAX] = {0};
    int ndev = 0, result;

    if ((check->target->far || (check->target->two && !check->second)) &&
        check->rule->flags & MN_CHECK_ENDS)
        mn_remote_start(check);
    mn_check_load(check);
    mn_check_step(check, "init");
    result = mn_raw_init(&check->raw, capture_log);
    if (result != 0)
        mn_check_skip(check, "init returned %s (rule device.init)", mn_nccl_result_name(result));
    mn_check_step(check, "devices");
    result = mn_raw_devices(&check->raw, &ndev);
    if (result != 0 || ndev < 1)
        mn_check_skip(check, "devices returned %s with %d devices (rule device.count)",
                      mn_nccl_result_name(result), ndev);
    check->n_dev = ndev;
    if (!check->raw.remote)
        check->n_dev_there = ndev;
    mn_check_step(check, "getProperties of device 0");
    result = mn_raw_properties(&check->raw, 0, props);
    if (result != 0)
        mn_check_skip(check, "getProperties returned %s (rule device.fields)",
                      mn_nccl_result_name(result));
    mn_raw_read_props(&check->raw, props, &check->props);
}

ncclDebugLogger_t mn_check_logger(void)
{
    return (ncclDebugLogger_t)(void (*)(void))capture_log;
}

static int find_tuner(struct mn_check *check)
{
    const struct mn_check_profile *p = check->target->profile;

    if (check->target->version || !p)
        return mn_tuner_find(check->raw.lib, check->target->version, &check->tuner);
    return mn_tuner_find_between(check->raw.lib, p->newest_tuner, p->oldest_tuner, &check->tuner);
}

/* "v6 v5 v2", those that are not driven here, too. */
static void list_tuners(void *lib, char *text, size_t size)
{
    for (int v = MN_TUNER_NEWEST + 4; v >= 1; v--) {
        char symbol[32];
        size_t used = strlen(text);
        mn_tuner_symbol(v, symbol);
        if (dlsym(lib, symbol))
            snprintf(text + used, size - used, "%sv%d", used ? " " : "", v);
    }
}

/* As its user would, which meshnet's tuner waits for; without a mesh file it refuses then. */
static void ask_for_tuner(const struct mn_check *check)
{
    char path[512];

    if (mn_mesh_find_file(path, sizeof path))
        (void)setenv("NCCL_TUNER_PLUGIN", check->target->path, 0);
}

void mn_check_load_tuner(struct mn_check *check)
{
    char versions[64] = "";

    mn_check_open(check);
    list_tuners(check->raw.lib, versions, sizeof versions);
    if (!versions[0])
        mn_check_skip(check, "the library exports no tuner (ncclTunerPlugin_vN)");
    if (!find_tuner(check) && check->target->profile && !check->target->version)
        mn_check_skip(check, "%s loads none of the tuner's versions %s",
                      check->target->profile->title, versions);
    if (!check->tuner.vtable)
        mn_check_skip(check, "no tuner that is driven here (rule tuner.symbols)");
    if (!mn_check_applies(check->rule, check->tuner.version))
        mn_check_skip(check, "does not apply to v%d of a tuner", check->tuner.version);
}

void mn_check_init_all(struct mn_check *check)
{
    ncclNvlDomainInfo_v5_t domain = {2, 1, 1};
    static ncclTunerConstants_v5_t constants;
    const struct mn_tuner_comm comm = {1, 2, 2, &domain, &constants};
    struct mn_tuner tuner;
    void *ctx = NULL;

    mn_check_open(check);
    if (mn_tuner_find(check->raw.lib, 0, &tuner) && !mn_tuner_absent(&tuner)) {
        mn_check_step(check, "init of the tuner");
        (void)mn_tuner_init(&tuner, &comm, mn_check_logger(), &ctx); /* rule tuner.init */
    }
    if (!tuner.vtable || mn_raw_find(&check->raw, check->target->version))
        mn_check_init(check);
}

static void probe_tuner(void *lib, struct mn_check_info *info)
{
    struct mn_tuner tuner;
    int n = 0;

    list_tuners(lib, info->tuner_versions, sizeof info->tuner_versions);
    for (int v = MN_TUNER_NEWEST; v >= MN_TUNER_OLDEST; v--)
        if (mn_tuner_find(lib, v, &tuner))
            info->tuner_driven[n++] = v;
    if (mn_tuner_find(lib, 0, &tuner) && mn_tuner_name(&tuner))
        mn_strlcpy(info->tuner_name, mn_tuner_name(&tuner), sizeof info->tuner_name);
}

void mn_check_probe_child(struct mn_check *check)
{
    struct mn_check_info *info = &check->shared->info;
    struct mn_raw raw = {.lib = dlopen(check->target->path, RTLD_NOW | RTLD_LOCAL)};
    void *const lib = raw.lib;
    struct link_map *map;
    int n_driven = 0;

    if (!lib) {
        mn_strlcpy(check->shared->error, dlerror(), sizeof check->shared->error);
        return;
    }
    if (dlinfo(lib, RTLD_DI_LINKMAP, &map) == 0) {
        char *real = realpath(map->l_name, NULL);
        mn_strlcpy(info->path, real ? real : map->l_name, sizeof info->path);
        free(real);
    }
    for (int v = 12; v >= 2; v--) {
        char symbol[32];
        size_t used = strlen(info->versions);
        snprintf(symbol, sizeof symbol, "ncclNetPlugin_v%d", v);
        if (dlsym(lib, symbol))
            snprintf(info->versions + used, sizeof info->versions - used, "%sv%d", used ? " " : "",
                     v);
    }
    for (const struct mn_raw_version *v = mn_raw_versions; v->version; v++)
        if (dlsym(lib, v->symbol) && n_driven < MN_CHECK_VERSIONS - 1)
            info->driven[n_driven++] = v->version;
    if (mn_raw_find(&raw, check->target->version)) {
        info->version = raw.version->version;
        if (mn_raw_name(&raw))
            mn_strlcpy(info->name, mn_raw_name(&raw), sizeof info->name);
    }
    probe_tuner(lib, info);
}

void mn_check_child(const struct mn_check_target *target, const struct mn_check_rule *rule,
                    struct mn_check_shared *shared)
{
    uint64_t limit_ns = (uint64_t)target->limit_ms * 1000000u;
    struct mn_check *check = calloc(1, sizeof *check);

    if (!check)
        _exit(1);
    logs = shared;
    check->target = target;
    check->rule = rule;
    check->shared = shared;
    check->pid = getpid();
    check->raw.watch = &shared->watch;
    check->random = seed_of(target, rule);
    /* A quarter is left for the verdict, so that a wait that found nothing says so itself. */
    check->deadline_ns = mn_check_now_ns() + limit_ns / 4 * 3;
    if ((target->far || target->two) && rule->here)
        mn_check_skip(check, "not %s: %s", target->far ? "on two machines" : "in two processes",
                      rule->here);
    if (target->second_fd && rule->flags & MN_CHECK_ENDS)
        mn_remote_serve(check, target->second_fd);
    ask_for_tuner(check);
    rule->run(check);
    mn_check_pass(check);
}
