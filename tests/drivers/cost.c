/* What a plugin costs the processor.
 *
 *   cost PLUGIN idle CONNECTIONS SECONDS
 *       of a process that only waits, with connections to itself open and nothing sent: prints CPU
 *       milliseconds for each second waited
 *   cost PLUGIN devices COUNT
 *       nanoseconds of a call of devices: what a tracing plugin adds, beside the one it
 * traces cost PLUGIN messages SIZE COUNT of the calls for a message between two processes: prints
 * for each side and kind of call how many there were, how long one lasted in ns, and its
 * instructions in the plugin and what that calls ("-" where a process may not be traced).
 * test-waiting: nothing was done yet; isend-refused: no room was announced. Verbs are left out, of
 * the time with the libibverbs double only */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "tests/drivers/cost/cost.h"

#define MAX_CONNECTIONS 4096

static double cpu_ms(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e3 +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e3;
}

int cost_call(const char *what, int result)
{
    if (result)
        fprintf(stderr, "cost: %s: %s\n", what, mn_nccl_result_name(result));
    return result;
}

static int pair(struct mn_plugin *plugin, void **send, void **recv)
{
    char handle[MN_HANDLE_SIZE];
    void *listener = NULL;
    time_t deadline = time(NULL) + PATIENCE_S;
    int err = cost_call("listen", mn_plugin_listen(plugin, 0, handle, &listener));
    while (!err && (!*send || !*recv)) {
        if (!*send)
            err = cost_call("connect", mn_plugin_connect(plugin, 0, handle, send));
        if (!err && !*recv)
            err = cost_call("accept", mn_plugin_accept(plugin, listener, recv));
        if (!err && time(NULL) > deadline) {
            fprintf(stderr, "cost: no connection within %d s\n", PATIENCE_S);
            err = 1;
        }
    }
    if (listener)
        mn_plugin_close_listen(plugin, listener);
    return err;
}

static int idle(const char *library, long connections, long seconds)
{
    static void *send[MAX_CONNECTIONS], *recv[MAX_CONNECTIONS];
    struct mn_plugin *plugin = NULL;
    struct mn_diag diag;

    if (mn_plugin_open(library, 0, &plugin, &diag)) {
        fprintf(stderr, "cost: %s\n", diag.text);
        return 2;
    }
    int err = cost_call("init", mn_plugin_init(plugin));
    for (long i = 0; !err && i < connections; i++)
        err = pair(plugin, &send[i], &recv[i]);
    if (!err) {
        struct timespec wait = {.tv_sec = seconds};
        double before = cpu_ms();
        nanosleep(&wait, NULL);
        printf("%.3f\n", (cpu_ms() - before) / (double)seconds);
    }
    for (long i = 0; i < connections; i++) {
        if (send[i])
            mn_plugin_close_send(plugin, send[i]);
        if (recv[i])
            mn_plugin_close_recv(plugin, recv[i]);
    }
    mn_plugin_close(plugin);
    return err != 0;
}

/* A call that does nearly nothing, but which a tracing plugin records. */
static int devices(const char *library, long count)
{
    int n;
    struct mn_plugin *plugin;
    struct mn_diag diag;
    struct timespec start, end;

    if (mn_plugin_open(library, 0, &plugin, &diag)) {
        fprintf(stderr, "cost: %s\n", diag.text);
        return 1;
    }
    if (cost_call("init", mn_plugin_init(plugin)))
        return 1;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL); /* what it started settles */
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (long i = 0; i < count; i++)
        if (mn_plugin_devices(plugin, &n))
            return 1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.1f ns a call of devices\n",
           ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) /
               (double)count);
    mn_plugin_close(plugin);
    return 0;
}

int main(int argc, char **argv)
{
    long first = argc == 4 || argc == 5 ? strtol(argv[3], NULL, 10) : -1;
    long second = argc == 5 ? strtol(argv[4], NULL, 10) : 0;

    if (argc == 5 && first >= 0 && !strcmp(argv[2], "idle") && first <= MAX_CONNECTIONS &&
        second >= 1 && second <= 600)
        return idle(argv[1], first, second);
    if (first > 0 && !strcmp(argv[2], "messages") && first <= 1 << 24 && second >= 1 &&
        second <= 10000000)
        return cost_messages(argv[1], (size_t)first, second);
    if (argc == 4 && first > 0 && first <= 100000000 && !strcmp(argv[2], "devices"))
        return devices(argv[1], first);
    fprintf(stderr, "usage: cost PLUGIN idle CONNECTIONS SECONDS | cost PLUGIN messages SIZE COUNT "
                    "| cost PLUGIN devices COUNT\n");
    return 2;
}
