/* One GPU buffer registered by many connections of one process, as NCCL does it: exported anew for
 * each, and the descriptor closed after the call.
 *
 *   regions LIBRARY COUNT
 *
 * On the doubles of libibverbs and of CUDA. Prints "regions N descriptors N": what COUNT senders
 * that hold a registration cost together. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/area.h"
#include "plugin/abi/nccl_abi.h"
#include "topo/base/alloc.h"

#define MOST  256
#define SIZE  ((size_t)1 << 20)
#define LIMIT 30 /* seconds for all */

static struct pair {
    void *listener, *send, *recv, *send_mh, *recv_mh;
} pairs[MOST];

static char warning[1024] = "no warning";

static void on_log(void *ctx, int level, const char *line)
{
    (void)ctx;
    if (level == NCCL_LOG_WARN)
        mn_strlcpy(warning, line, sizeof warning);
}

static int connect_pair(struct mn_plugin *p, struct pair *pair, time_t end)
{
    uint8_t handle[MN_HANDLE_SIZE] __attribute__((aligned(8))) = {0};
    int result = mn_plugin_listen(p, 0, handle, &pair->listener);

    while (!result && (!pair->send || !pair->recv) && time(NULL) < end) {
        if (!pair->send)
            result = mn_plugin_connect(p, 0, handle, &pair->send);
        if (!result && !pair->recv)
            result = mn_plugin_accept(p, pair->listener, &pair->recv);
    }
    if (pair->listener)
        mn_plugin_close_listen(p, pair->listener);
    return result ? result : pair->send && pair->recv ? 0 : ncclSystemError;
}

static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = -3; /* ".", ".." and its own */

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

static unsigned long long count_regions(void)
{
    void *lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
    unsigned long (*counter)(const char *) = NULL;
    void *symbol = lib ? dlsym(lib, "fakeverbs_counter") : NULL;

    memcpy(&counter, &symbol, sizeof symbol);
    if (!counter) {
        fprintf(stderr, "regions: libibverbs.so.1 is not the double\n");
        exit(2);
    }
    return counter("mrs");
}

static int run(struct mn_plugin *p, const struct mn_memory *memory, int count)
{
    struct mn_diag diag = {.text = ""};
    void *area = mn_area_new(memory, SIZE, &diag);
    int result = area ? 0 : ncclSystemError;
    time_t end = time(NULL) + LIMIT;

    for (int i = 0; i < count && !result; i++)
        result = connect_pair(p, &pairs[i], end);
    unsigned long long regions = count_regions();
    int descriptors = count_descriptors(), n = 0;
    for (; n < count && !result && !diag.code; n++)
        mn_area_register(memory, p, 0, pairs[n].send, area, SIZE, &pairs[n].send_mh, &result,
                         &diag);
    if (!result && !diag.code)
        printf("regions %llu descriptors %d\n", count_regions() - regions,
               count_descriptors() - descriptors);
    for (n = 0; n < count && !result && !diag.code; n++)
        mn_area_register(memory, p, 0, pairs[n].recv, area, SIZE, &pairs[n].recv_mh, &result,
                         &diag);
    if (result || diag.code)
        printf("failed at %d: %s: %s\n", n, mn_nccl_result_name(result),
               diag.code ? diag.text : warning);
    for (int i = 0; i < count; i++) {
        struct pair *pair = &pairs[i];
        if (pair->send_mh)
            mn_plugin_dereg_mr(p, pair->send, pair->send_mh);
        if (pair->recv_mh)
            mn_plugin_dereg_mr(p, pair->recv, pair->recv_mh);
        if (pair->send)
            mn_plugin_close_send(p, pair->send);
        if (pair->recv)
            mn_plugin_close_recv(p, pair->recv);
    }
    if (area)
        mn_area_free(memory, area, SIZE);
    return result || diag.code;
}

int main(int argc, char **argv)
{
    struct mn_memory memory;
    struct mn_plugin *p;
    struct mn_diag diag;

    int count = argc == 3 ? atoi(argv[2]) : 0;
    if (count < 1 || count > MOST)
        return 2;
    if (mn_memory_open(MN_MEMORY_CUDA, -1, &memory, &diag) ||
        mn_plugin_open(argv[1], 0, &p, &diag)) {
        puts(diag.text);
        return 2;
    }
    mn_plugin_set_log(p, on_log, NULL);
    int result = mn_plugin_init(p);
    if (result)
        printf("init: %s: %s\n", mn_nccl_result_name(result), warning);
    else
        result = run(p, &memory, count);
    mn_plugin_close(p);
    return result != 0;
}
