/* Connects a plugin to itself, moves a message and closes, again and again, for tests that look for
 * what stays behind:
 *
 *   cycle LIBRARY COUNT COMMAND
 *
 * COMMAND is a shell line that shows what the process ($PPID there) and its devices hold. It runs
 * after the first cycles, by when the plugin has what it keeps, and after COUNT more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/host.h"
#include "plugin/abi/nccl_abi.h"
#include "topo/base/alloc.h"

#define FIRST 5
#define SIZE  (64u << 10)
#define LIMIT 30 /* seconds for one cycle */

struct ends {
    struct mn_plugin *plugin;
    void *listener, *send, *recv;
    double end;
};

static char warning[1024] = "no warning";

static void on_log(void *ctx, int level, const char *line)
{
    (void)ctx;
    if (level == NCCL_LOG_WARN)
        mn_strlcpy(warning, line, sizeof warning);
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Goes on while nothing failed and the time is not up. */
static int going(int result, const struct ends *e)
{
    return result == 0 && now() < e->end;
}

static int connect_ends(struct ends *e)
{
    uint8_t handle[MN_HANDLE_SIZE] = {0};
    int result = mn_plugin_listen(e->plugin, 0, handle, &e->listener);

    while (going(result, e) && (!e->send || !e->recv)) {
        if (!e->send)
            result = mn_plugin_connect(e->plugin, 0, handle, &e->send);
        if (!result && !e->recv)
            result = mn_plugin_accept(e->plugin, e->listener, &e->recv);
    }
    return result ? result : e->send && e->recv ? 0 : ncclSystemError;
}

static int pass(struct ends *e, uint8_t *from, uint8_t *to, void *from_mh, void *to_mh)
{
    void *requests[2] = {NULL, NULL}, *at = to;
    int done[2] = {0, 0}, sizes[MN_HOST_MAX_RECVS] = {0}, tag = 0, result = 0;
    size_t size = SIZE;

    while (going(result, e) && !requests[0])
        result = mn_plugin_irecv(e->plugin, e->recv, 1, &at, &size, &tag, &to_mh, &requests[0]);
    while (going(result, e) && !requests[1])
        result = mn_plugin_isend(e->plugin, e->send, from, SIZE, tag, from_mh, &requests[1]);
    while (going(result, e) && (!done[0] || !done[1]))
        for (int i = 0; i < 2 && !result; i++)
            if (!done[i])
                result = mn_plugin_test(e->plugin, requests[i], &done[i], sizes);
    if (!result && (!done[0] || !done[1] || memcmp(from, to, SIZE) != 0))
        result = ncclInternalError;
    return result;
}

static int cycle(struct mn_plugin *plugin, uint8_t number)
{
    static uint8_t from[SIZE], to[SIZE];
    struct ends e = {.plugin = plugin, .end = now() + LIMIT};
    void *from_mh = NULL, *to_mh = NULL;
    int result = connect_ends(&e);

    memset(from, number, SIZE);
    if (!result)
        result = mn_plugin_reg_mr(plugin, e.send, from, SIZE, NCCL_PTR_HOST, &from_mh);
    if (!result)
        result = mn_plugin_reg_mr(plugin, e.recv, to, SIZE, NCCL_PTR_HOST, &to_mh);
    if (!result)
        result = pass(&e, from, to, from_mh, to_mh);
    if (from_mh)
        mn_plugin_dereg_mr(plugin, e.send, from_mh);
    if (to_mh)
        mn_plugin_dereg_mr(plugin, e.recv, to_mh);
    if (e.send)
        mn_plugin_close_send(plugin, e.send);
    if (e.recv)
        mn_plugin_close_recv(plugin, e.recv);
    if (e.listener)
        mn_plugin_close_listen(plugin, e.listener);
    return result;
}

int main(int argc, char **argv)
{
    struct mn_plugin *plugin;
    struct mn_diag diag;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 4)
        return 2;
    if (mn_plugin_open(argv[1], 0, &plugin, &diag)) {
        puts(diag.text);
        return 2;
    }
    mn_plugin_set_log(plugin, on_log, NULL);
    int result = mn_plugin_init(plugin);
    unsigned long count = FIRST + strtoul(argv[2], NULL, 10);
    for (unsigned long i = 0; i < count && !result; i++) {
        result = cycle(plugin, (uint8_t)i);
        if (result)
            printf("failed in cycle %lu: %s: %s\n", i, mn_nccl_result_name(result), warning);
        else if ((i + 1 == FIRST || i + 1 == count) && system(argv[3]) != 0)
            return 2;
    }
    return result != 0;
}
