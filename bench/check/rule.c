/* The child's side of a rule: records, verdicts, and bringing the plugin up. */
#include "bench/check/rule.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/check/record.h"
#include "bench/host.h"
#include "topo/base/alloc.h"

#define LOG_WARN 2 /* ncclDebugLogLevel */

static int log_fd = -1; /* the logger has no context argument */

static void write_record(int fd, char kind, const char *text)
{
    struct mn_check_record record = {.kind = kind};

    snprintf(record.text, sizeof record.text, "%s", text);
    for (char *c = record.text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
    while (write(fd, &record, sizeof record) < 0 && errno == EINTR)
        ;
}

void mn_check_send(struct mn_check *check, char kind, const char *text)
{
    write_record(check->fd, kind, text);
    if (kind == MN_RECORD_PASS || kind == MN_RECORD_WARN || kind == MN_RECORD_FAIL ||
        kind == MN_RECORD_SKIP)
        _exit(0);
}

#define SEND(check, kind, fmt)                                                                     \
    do {                                                                                           \
        char text[1023];                                                                           \
        va_list ap;                                                                                \
        va_start(ap, fmt);                                                                         \
        vsnprintf(text, sizeof text, fmt, ap);                                                     \
        va_end(ap);                                                                                \
        mn_check_send(check, kind, text);                                                          \
    } while (0)

void mn_check_step(struct mn_check *check, const char *fmt, ...)
{
    SEND(check, MN_RECORD_STEP, fmt);
}

void mn_check_note(struct mn_check *check, const char *fmt, ...)
{
    SEND(check, MN_RECORD_NOTE, fmt);
}

void mn_check_tell(struct mn_check *check, const char *fmt, ...)
{
    SEND(check, MN_RECORD_TELL, fmt);
}

void mn_check_fail(struct mn_check *check, const char *fmt, ...)
{
    SEND(check, MN_RECORD_FAIL, fmt);
    _exit(0);
}

void mn_check_warn(struct mn_check *check, const char *fmt, ...)
{
    SEND(check, MN_RECORD_WARN, fmt);
    _exit(0);
}

void mn_check_skip(struct mn_check *check, const char *fmt, ...)
{
    SEND(check, MN_RECORD_SKIP, fmt);
    _exit(0);
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
    write_record(log_fd, MN_RECORD_LOG, text);
}

static const void *find_vtable(void *lib, int wanted, const struct mn_raw_version **version)
{
    for (const struct mn_raw_version *v = mn_raw_versions; v->version; v++) {
        const void *vtable = wanted && wanted != v->version ? NULL : dlsym(lib, v->symbol);
        if (vtable) {
            *version = v;
            return vtable;
        }
    }
    return NULL;
}

void mn_check_load(struct mn_check *check)
{
    mn_check_step(check, "dlopen");
    check->raw.lib = dlopen(check->target->path, RTLD_NOW | RTLD_LOCAL);
    if (!check->raw.lib)
        mn_check_skip(check, "the library does not load (rule load.open)");
    check->raw.vtable = find_vtable(check->raw.lib, check->target->version, &check->raw.version);
    if (!check->raw.vtable)
        mn_check_skip(check, "no net symbol that is driven here (rule load.symbols)");
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
    mn_check_step(check, "getProperties of device 0");
    result = mn_raw_properties(&check->raw, 0, props);
    if (result != 0)
        mn_check_skip(check, "getProperties returned %s (rule device.fields)",
                      mn_nccl_result_name(result));
    mn_raw_read_props(&check->raw, props, &check->props);
}

static void tell_name(struct mn_check *check, const char *name)
{
    char text[256] = "";

    if (name)
        mn_strlcpy(text, name, sizeof text);
    for (char *c = text; *c; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
    mn_check_tell(check, "name=%s", text);
}

void mn_check_probe_child(struct mn_check *check)
{
    const struct mn_raw_version *version = NULL;
    const void *vtable;
    struct link_map *map;
    void *lib = dlopen(check->target->path, RTLD_NOW | RTLD_LOCAL);

    if (!lib) {
        mn_check_tell(check, "error=%s", dlerror());
        return;
    }
    if (dlinfo(lib, RTLD_DI_LINKMAP, &map) == 0) {
        char *real = realpath(map->l_name, NULL);
        mn_check_tell(check, "path=%s", real ? real : map->l_name);
        free(real);
    }
    for (int v = 12; v >= 2; v--) {
        char symbol[32];
        snprintf(symbol, sizeof symbol, "ncclNetPlugin_v%d", v);
        if (dlsym(lib, symbol))
            mn_check_tell(check, "exports=v%d", v);
    }
    vtable = find_vtable(lib, check->target->version, &version);
    if (vtable) {
        mn_check_tell(check, "version=%d", version->version);
        tell_name(check, *(const char *const *)vtable);
    }
}

void mn_check_child(const struct mn_check_target *target, int fd, const struct mn_check_rule *rule)
{
    uint64_t limit_ns = (uint64_t)target->limit_ms * 1000000u;
    struct mn_check *check = calloc(1, sizeof *check);

    if (!check)
        _exit(1);
    log_fd = fd;
    check->target = target;
    check->rule = rule;
    check->random = seed_of(target, rule);
    check->fd = fd;
    /* A quarter is left for the verdict, so that a wait that found nothing says so itself. */
    check->deadline_ns = mn_check_now_ns() + limit_ns / 4 * 3;
    rule->run(check);
    mn_check_send(check, MN_RECORD_PASS, "");
    _exit(0);
}
