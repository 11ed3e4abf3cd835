/* Connects many pairs at once, all ends on one thread, and counts what that asks of the devices of
 * the libibverbs double:
 *
 *   setup LIBRARY PAIRS SECONDS
 *
 * Prints "connected N in S s" and a line for each kind of control verb: its name, how many there
 * were, and how many a connection. Fails when not all are connected after SECONDS. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/host.h"
#include "plugin/abi/nccl_abi.h"

#define MAX_PAIRS 1024

struct pair {
    char handle[MN_HANDLE_SIZE];
    void *listener, *send, *recv;
};

static const char *const verbs[] = {"query_port", "query_gids", "create_cq", "create_qp",
                                    "modify_qp",  "reg_mr",     "destroy"};
#define N_VERBS (sizeof verbs / sizeof *verbs)

static struct pair pairs[MAX_PAIRS];

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void on_log(void *ctx, int level, const char *line)
{
    (void)ctx;
    if (level == NCCL_LOG_WARN)
        fprintf(stderr, "setup: %s\n", line);
}

/* 0 when the plugin does not use the double. */
static int read_counters(uint64_t counts[N_VERBS])
{
    void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *symbol = library ? dlsym(library, "fakeverbs_counter") : NULL;
    uint64_t (*counter)(const char *name);

    if (!symbol)
        return 0;
    memcpy(&counter, &symbol, sizeof symbol);
    for (size_t i = 0; i < N_VERBS; i++)
        counts[i] = counter(verbs[i]);
    return 1;
}

/* One pass over all; the number that is connected, or -1. */
static int step(struct mn_plugin *plugin, int n)
{
    int done = 0;

    for (int i = 0; i < n; i++) {
        struct pair *p = &pairs[i];
        int err = p->send ? 0 : mn_plugin_connect(plugin, 0, p->handle, &p->send);
        if (!err && !p->recv)
            err = mn_plugin_accept(plugin, p->listener, &p->recv);
        if (err) {
            fprintf(stderr, "setup: pair %d: %s\n", i, mn_nccl_result_name(err));
            return -1;
        }
        done += p->send && p->recv;
    }
    return done;
}

static int run(struct mn_plugin *plugin, int n, double limit)
{
    uint64_t before[N_VERBS] = {0}, after[N_VERBS] = {0};
    int done = 0;

    if (mn_plugin_init(plugin) || !read_counters(before)) {
        fprintf(stderr, "setup: no plugin, or not on the libibverbs double\n");
        return 2;
    }
    double start = now();
    for (int i = 0; i < n; i++)
        if (mn_plugin_listen(plugin, 0, pairs[i].handle, &pairs[i].listener))
            return 1;
    while (done >= 0 && done < n && now() - start < limit)
        done = step(plugin, n);
    double seconds = now() - start;
    read_counters(after);
    printf("connected %d in %.2f s\n", done < 0 ? 0 : done, seconds);
    for (size_t i = 0; i < N_VERBS; i++)
        printf("%s %llu %.2f\n", verbs[i], (unsigned long long)(after[i] - before[i]),
               (double)(after[i] - before[i]) / n);
    return done < n;
}

int main(int argc, char **argv)
{
    struct mn_plugin *plugin;
    struct mn_diag diag;
    int n = argc == 4 ? atoi(argv[2]) : 0;
    double limit = argc == 4 ? atof(argv[3]) : 0;

    if (n < 1 || n > MAX_PAIRS || limit <= 0) {
        fprintf(stderr, "usage: setup LIBRARY PAIRS SECONDS\n");
        return 2;
    }
    if (mn_plugin_open(argv[1], 0, &plugin, &diag)) {
        fprintf(stderr, "setup: %s\n", diag.text);
        return 2;
    }
    mn_plugin_set_log(plugin, on_log, NULL);
    int result = run(plugin, n, limit);
    for (int i = 0; i < n; i++) {
        if (pairs[i].send)
            mn_plugin_close_send(plugin, pairs[i].send);
        if (pairs[i].recv)
            mn_plugin_close_recv(plugin, pairs[i].recv);
        if (pairs[i].listener)
            mn_plugin_close_listen(plugin, pairs[i].listener);
    }
    mn_plugin_close(plugin);
    return result;
}
