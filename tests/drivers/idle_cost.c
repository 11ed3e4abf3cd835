/* What idle connections cost a process: CPU seconds used while it only waits, with connections to
 * itself open and nothing sent.
 *
 *   idle_cost PLUGIN CONNECTIONS SECONDS     prints CPU milliseconds for each second waited */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "bench/host.h"

#define MAX_CONNECTIONS 4096
#define PATIENCE_S      20

static double cpu_ms(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e3 +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e3;
}

static int call(const char *what, int result)
{
    if (result)
        fprintf(stderr, "idle_cost: %s: %s\n", what, mn_nccl_result_name(result));
    return result;
}

static int pair(struct mn_plugin *plugin, void **send, void **recv)
{
    char handle[MN_HANDLE_SIZE];
    void *listener = NULL;
    time_t deadline = time(NULL) + PATIENCE_S;
    int err = call("listen", mn_plugin_listen(plugin, 0, handle, &listener));
    while (!err && (!*send || !*recv)) {
        if (!*send)
            err = call("connect", mn_plugin_connect(plugin, 0, handle, send));
        if (!err && !*recv)
            err = call("accept", mn_plugin_accept(plugin, listener, recv));
        if (!err && time(NULL) > deadline) {
            fprintf(stderr, "idle_cost: no connection within %d s\n", PATIENCE_S);
            err = 1;
        }
    }
    if (listener)
        mn_plugin_close_listen(plugin, listener);
    return err;
}

int main(int argc, char **argv)
{
    static void *send[MAX_CONNECTIONS], *recv[MAX_CONNECTIONS];
    struct mn_plugin *plugin = NULL;
    struct mn_diag diag;
    long connections = argc == 4 ? strtol(argv[2], NULL, 10) : -1;
    long seconds = argc == 4 ? strtol(argv[3], NULL, 10) : 0;
    if (connections < 0 || connections > MAX_CONNECTIONS || seconds < 1 || seconds > 600) {
        fprintf(stderr, "usage: idle_cost PLUGIN CONNECTIONS SECONDS\n");
        return 2;
    }
    if (mn_plugin_open(argv[1], 0, &plugin, &diag)) {
        fprintf(stderr, "idle_cost: %s\n", diag.text);
        return 2;
    }
    int err = call("init", mn_plugin_init(plugin));
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
