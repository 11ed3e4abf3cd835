/* The one lock, the chances, the counters, and what is checked when the process ends. */
#include "tests/fakeverbs/fakeverbs.h"
#include "tests/fakeverbs/fv.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fv_global fv = {.lock = PTHREAD_MUTEX_INITIALIZER};
static pid_t started; /* the process that did: a forked copy of it ends nothing */
static __thread struct {
    int asked;
    uint64_t since, ns;
} inside;

const char *const fv_counter_names[FV_N_COUNTERS] = {
    [FV_OPS] = "ops",
    [FV_BYTES] = "bytes",
    [FV_POLLS] = "polls",
    [FV_RNR] = "rnr",
    [FV_FLUSHES] = "flushes",
    [FV_STALE] = "stale",
    [FV_ERRORS] = "errors",
    [FV_REG] = "registrations",
    [FV_EVENTS] = "events",
    [FV_DANGLING] = "dangling",
    [FV_FORK_INITS] = "fork_inits",
    [FV_RTR] = "rtr",
    [FV_QUERY_PORT] = "query_port",
    [FV_QUERY_GIDS] = "query_gids",
    [FV_CREATE_CQ] = "create_cq",
    [FV_CREATE_QP] = "create_qp",
    [FV_MODIFY_QP] = "modify_qp",
    [FV_REG_MR] = "reg_mr",
    [FV_DESTROY] = "destroy",
};

void fv_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "fakeverbs: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    abort();
}

/* splitmix64 */
uint64_t fv_rand(struct fv_rng *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t fv_below(struct fv_rng *rng, uint64_t n)
{
    return n > 1 ? fv_rand(rng) % n : 0;
}

struct fv_rng fv_split(struct fv_rng *rng)
{
    return (struct fv_rng){fv_rand(rng)};
}

static void start(void)
{
    fv_config_read(&fv.config, getenv("FAKEVERBS"));
    fv.rng = (struct fv_rng){fv.config.seed};
    for (int i = 0; i < fv.config.n_devices; i++) {
        struct fv_device *device = &fv.devices[i];
        device->config = &fv.config.devices[i];
        device->port_up = !device->config->down;
        device->base.node_type = IBV_NODE_CA;
        device->base.transport_type = IBV_TRANSPORT_IB;
        snprintf(device->base.name, sizeof device->base.name, "%s", device->config->name);
        snprintf(device->base.dev_name, sizeof device->base.dev_name, "uverbs%d", i);
    }
    fv_arena_open();
}

void fv_lock(void)
{
    if (inside.asked)
        inside.since = fv_now();
    pthread_mutex_lock(&fv.lock);
    if (!started) {
        started = getpid();
        start();
    }
}

void fv_unlock(void)
{
    pthread_mutex_unlock(&fv.lock);
    if (inside.asked)
        inside.ns += fv_now() - inside.since;
}

uint64_t fakeverbs_ns(void)
{
    inside.asked = 1;
    return inside.ns;
}

static const struct {
    const char *name;
    const uint64_t *counts;
    size_t n;
} lists[] = {{"class", fv.classes, 256},
             {"level", fv.levels, 16},
             {"timeout", fv.timeouts, 32},
             {"retries", fv.retries, 8},
             {"ece", fv.eces, 32}};
#define N_LISTS (sizeof lists / sizeof *lists)

uint64_t fakeverbs_counter(const char *name)
{
    static const struct {
        const char *name;
        const int *value;
    } live[] = {{"qps", &fv.live_qps},
                {"cqs", &fv.live_cqs},
                {"mrs", &fv.live_mrs},
                {"pds", &fv.live_pds},
                {"channels", &fv.channels}};
    fv_lock();
    for (size_t i = 0; i < N_LISTS; i++) {
        size_t len = strlen(lists[i].name);
        unsigned long value = 0;
        if (!strncmp(name, lists[i].name, len) && name[len] == '.' &&
            (value = strtoul(name + len + 1, NULL, 10)) < lists[i].n) {
            uint64_t count = lists[i].counts[value];
            fv_unlock();
            return count;
        }
    }
    for (int i = 0; i < FV_N_COUNTERS; i++) {
        if (strcmp(fv_counter_names[i], name) == 0) {
            uint64_t value = fv.counters[i];
            fv_unlock();
            return value;
        }
    }
    for (size_t i = 0; i < sizeof live / sizeof *live; i++) {
        if (strcmp(live[i].name, name) == 0) {
            uint64_t value = (uint64_t)*live[i].value;
            fv_unlock();
            return value;
        }
    }
    fv_die("there is no counter %s", name);
}

void fakeverbs_set(const char *settings)
{
    fv_lock();
    int n = fv.config.n_devices;
    fv_config_change(&fv.config, settings);
    if (strstr(settings, "seed="))
        fv.rng = (struct fv_rng){fv.config.seed};
    if (fv.config.n_devices != n)
        fv_die("devices cannot be added while running");
    for (int i = 0; i < n; i++) {
        if (!fv.devices[i].up_at)
            fv_port_set(&fv.devices[i], !fv.config.devices[i].down);
        fv_gid_used(&fv.devices[i], 0);
        fv_loss_set(&fv.devices[i]);
    }
    fv_unlock();
}

static void write_stats(void)
{
    FILE *file = fopen(fv.config.stats, "w");
    if (!file)
        fv_die("cannot write %s", fv.config.stats);
    for (int i = 0; i < FV_N_COUNTERS; i++)
        fprintf(file, "%s %llu\n", fv_counter_names[i], (unsigned long long)fv.counters[i]);
    for (size_t l = 0; l < N_LISTS; l++)
        for (size_t i = 0; i < lists[l].n; i++)
            if (lists[l].counts[i])
                fprintf(file, "%s.%zu %llu\n", lists[l].name, i,
                        (unsigned long long)lists[l].counts[i]);
    for (int i = 0; i < fv.config.n_devices; i++)
        fprintf(file, "%s.ops %llu\n%s.bytes %llu\n", fv.devices[i].base.name,
                (unsigned long long)fv.devices[i].ops, fv.devices[i].base.name,
                (unsigned long long)fv.devices[i].bytes);
    if (fclose(file) != 0)
        fv_die("cannot write %s", fv.config.stats);
}

__attribute__((destructor)) static void finish(void)
{
    if (started && started != getpid())
        return;
    pthread_mutex_lock(&fv.lock);
    if (started) {
        /* Peers in other processes see this one's queue pairs go. */
        for (int i = 0; i < fv.live_qps; i++)
            fv_wire_free(fv.live[i]->wire);
        int contexts = 0;
        for (struct fv_context *c = fv.contexts; c; c = c->next)
            contexts++;
        if (*fv.config.stats)
            write_stats();
        if ((fv.config.leaks >= 1 && fv.live_qps + fv.live_cqs + fv.live_mrs + fv.channels > 0) ||
            (fv.config.leaks >= 2 && fv.live_pds + contexts > 0))
            fv_die("left at exit: %d queue pairs, %d completion queues, %d memory regions, "
                   "%d completion channels, %d protection domains, %d contexts",
                   fv.live_qps, fv.live_cqs, fv.live_mrs, fv.channels, fv.live_pds, contexts);
    }
    pthread_mutex_unlock(&fv.lock);
}
