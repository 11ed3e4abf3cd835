/* The double of libibverbs: opened by name as the plugin does, and what its devices are like. */
#include "tests/drivers/failover/failover.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t (*counter)(const char *name);
static void (*set)(const char *settings);

void fo_double_open(void)
{
    void *lib = dlopen("libibverbs.so.1", RTLD_NOW);
    void *symbols[2] = {lib ? dlsym(lib, "fakeverbs_counter") : NULL,
                        lib ? dlsym(lib, "fakeverbs_set") : NULL};
    memcpy(&counter, &symbols[0], sizeof counter);
    memcpy(&set, &symbols[1], sizeof set);
    if (counter && set)
        return;
    fprintf(stderr, "failover: libibverbs.so.1 is not the double: set LD_LIBRARY_PATH\n");
    exit(2);
}

uint64_t fo_counter(const char *name)
{
    return counter(name);
}

void fo_set(const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    set(text);
}

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static uint64_t node;

void fo_be_node(uint64_t number)
{
    node = number;
}

/* By this a library knows which host it is on. */
__attribute__((visibility("default"))) int getsockopt(int fd, int level, int name,
                                                      void *restrict value, socklen_t *restrict len)
{
    int result = (int)syscall(SYS_getsockopt, fd, level, name, value, len);
    if (result == 0 && node && level == SOL_SOCKET && name == SO_NETNS_COOKIE &&
        *len == sizeof node)
        memcpy(value, &node, sizeof node);
    return result;
}

/* Both ends are in one namespace: what is between them goes over loopback, whatever the link. */
__attribute__((visibility("default"))) int setsockopt(int fd, int level, int name,
                                                      const void *value, socklen_t len)
{
    if (level == SOL_SOCKET && (name == SO_BINDTODEVICE || name == SO_BINDTOIFINDEX))
        return 0;
    return (int)syscall(SYS_setsockopt, fd, level, name, value, len);
}

uint64_t fo_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t fo_below(struct fo_rng *rng, uint64_t n)
{
    rng->state += 0x9e3779b97f4a7c15u;
    return n > 1 ? fo_mix(rng->state) % n : 0;
}

/* What is read when a library starts. */
static const struct {
    const char *limits, *qps;
} worlds[] = {
    {"max_msg=1073741824", "0"},
    {"max_msg=131072", "2"},
    {"max_inline=0", "1"},
    {"max_qp_wr=128,max_msg=65536", "4"},
    {"inline_every=2", "2"},
    {"max_qp_wr=16", "1"},
    {"mtu=1024,max_sge=1,max_rd_atomic=0", "2"},
};

void fo_world(uint64_t block, const struct fo_options *options)
{
    char text[1024];
    int n = snprintf(text, sizeof text, "strict=0,%s",
                     worlds[block % (sizeof worlds / sizeof *worlds)].limits);
    for (int i = 0; i < FO_LINKS; i++)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      ",dev=a%d:fa%d:10.66.%d.1,dev=b%d:fb%d:10.66.%d.2", i, i, i, i, i, i);
    setenv("FAKEVERBS", text, 1);
    setenv("MESHNET_QPS_PER_LINK", worlds[block % (sizeof worlds / sizeof *worlds)].qps, 1);
    setenv("MESHNET_RDMA_SILENCE", "20s", 1);
    setenv("MESHNET_ALLOW_TCP", "false", 1);
    if (options->failover >= 0)
        setenv("MESHNET_FAILOVER", options->failover ? "true" : "false", 1);
}

void fo_set_ways(uint64_t seed, const struct fo_ways *w, int verbose)
{
    char text[512];
    int n = snprintf(text, sizeof text,
                     "seed=%llu,error=0,gidshift=0,gidmute=0,portmute=0,delay=%d,reorder=%d,"
                     "linger=%d,slowcq=%d,noflush=%d,timeout=%d,steps=%d",
                     (unsigned long long)seed + 1, w->delay, w->reorder, w->linger, w->slowcq,
                     w->noflush, w->timeout, w->steps);
    if (verbose)
        printf("# %s\n", text);
    for (int i = 0; i < FO_LINKS; i++)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      ",link=a%d:up,link=b%d:up,lost=a%d:none,lost=b%d:none", i, i, i, i);
    fo_set("%s", text);
    static const char *const verbs[] = {"create_cq", "create_qp", "modify_qp",
                                        "rtr",       "post_send", "post_recv"};
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        fo_set("fail=%s:0", verbs[i]);
}

/* One after the other: the same by every compiler. */
void fo_choose(struct fo_rng *rng, struct fo_ways *w)
{
    static const int delays[] = {0, 3, 20, 100}, lingers[] = {0, 0, 30, 300};
    w->delay = delays[fo_below(rng, 4)];
    w->steps = fo_below(rng, 2) ? 64 : 4;
    w->linger = lingers[fo_below(rng, 4)];
    w->reorder = (int)fo_below(rng, 2);
    w->slowcq = fo_below(rng, 4) == 0;
    w->noflush = fo_below(rng, 12) == 0;
    w->timeout = 200 + (int)fo_below(rng, 4000);
}
