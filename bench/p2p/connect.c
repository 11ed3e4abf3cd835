#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "bench/memory.h"
#include "bench/p2p/message.h"
#include "bench/p2p/pump.h"
#include "plugin/abi/nccl_abi.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"
#include "topo/cpu.h"

#define LOOK_EVERY 4096 /* empty polls between looks at the clock and the control connection */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER; /* of every pump's log */

double mn_p2p_cpu_now(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

enum mn_err mn_p2p_failed(const struct mn_p2p_pump *pump, const char *call, int result,
                          struct mn_diag *diag)
{
    char log[sizeof pump->log];

    pthread_mutex_lock(&log_lock);
    mn_strlcpy(log, pump->log, sizeof log);
    pthread_mutex_unlock(&log_lock);
    return mn_fail(diag, MN_ERR_FAILED, "%s: the plugin's %s returned %s%s%s", pump->ctl->peer,
                   call, mn_nccl_result_name(result), log[0] ? "; it said: " : "", log);
}

enum mn_err mn_p2p_interrupted(const struct mn_p2p_pump *pump, struct mn_diag *diag)
{
    return pump->stop && *pump->stop ? mn_fail(diag, MN_ERR_FAILED, "interrupted") : MN_OK;
}

enum mn_err mn_p2p_start(const struct mn_p2p_pump *pump, cJSON *message, struct mn_diag *diag)
{
    enum mn_err err = mn_p2p_interrupted(pump, diag);

    if (!err)
        return mn_p2p_ask(pump->ctl, pump->timeout_ms, message, "ready", NULL, diag);
    cJSON_Delete(message);
    return err;
}

enum mn_err mn_p2p_idle(struct mn_p2p_watch *w, struct mn_diag *diag)
{
    sched_yield(); /* as NCCL's progress thread does when nothing progressed */
    if (++w->idle % LOOK_EVERY)
        return MN_OK;
    double now = mn_seconds();
    if (w->idle == LOOK_EVERY || w->since == 0)
        w->since = now;
    if (now - w->since > w->pump->timeout_ms / 1000.0)
        return mn_fail(diag, MN_ERR_TIMEOUT, "%s: nothing moved for %u s while %s",
                       w->pump->ctl->peer, w->pump->timeout_ms / 1000, w->what);
    if (mn_ctl_gone(w->pump->ctl))
        return mn_fail(diag, MN_ERR_PEER_DEAD, "%s: its process ended while %s", w->pump->ctl->peer,
                       w->what);
    return mn_p2p_interrupted(w->pump, diag);
}

static void on_log(void *ctx, int level, const char *line)
{
    struct mn_p2p_pump *pump = ctx;

    if (level != NCCL_LOG_WARN)
        return;
    pthread_mutex_lock(&log_lock);
    mn_strlcpy(pump->log, line, sizeof pump->log);
    pthread_mutex_unlock(&log_lock);
}

enum mn_err mn_p2p_open(struct mn_p2p_pump *pump, enum mn_memory_kind memory, int gpu,
                        struct mn_diag *diag)
{
    size_t n = (size_t)pump->connections;
    struct rlimit files;
    int ndev = 0;
    enum mn_err err = mn_memory_open(memory, gpu, &pump->memory, diag);

    if (err)
        return err;

    /* Every connection takes several sockets on each side. */
    if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    pump->flush |= mn_memory_is_apart(&pump->memory); /* as NCCL does */
    pump->listens = mn_zalloc(n * sizeof(void *));
    pump->sends = mn_zalloc(n * sizeof(void *));
    pump->recvs = mn_zalloc(n * sizeof(void *));
    pump->handles = mn_zalloc(n * MN_HANDLE_SIZE);
    pump->peer_handles = mn_zalloc(n * MN_HANDLE_SIZE);
    for (int i = 0; i < 2; i++)
        pump->mhs[i] = mn_zalloc(n * sizeof(void *));
    mn_plugin_set_log(pump->plugin, on_log, pump);
    int result = mn_plugin_init(pump->plugin);
    if (result)
        return mn_p2p_failed(pump, "init", result, diag);
    result = mn_plugin_devices(pump->plugin, &ndev);
    if (result || pump->device >= ndev)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "the plugin offers %d devices, number %d was asked for%s%s", ndev,
                       pump->device, pump->log[0] ? "; it said: " : "", pump->log);
    struct mn_plugin_props props = {.net = {.max_recvs = pump->group}};
    (void)mn_plugin_properties(pump->plugin, pump->device, &props);
    /* What the plugin has started by now comes along. */
    err = mn_cpu_pin(pump->pin, props.net.pci_path, 0, 1, diag);
    if (err)
        return err;
    if (pump->group > 1 && props.net.max_recvs < pump->group)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--messages-per-request %d: the plugin's receives have at most %d",
                       pump->group, props.net.max_recvs);
    for (int i = 0; i < pump->connections && !result; i++)
        result = mn_plugin_listen(pump->plugin, pump->device, pump->handles + i * MN_HANDLE_SIZE,
                                  &pump->listens[i]);
    return result ? mn_p2p_failed(pump, "listen", result, diag) : MN_OK;
}

/* What the plugin said may be why nothing moves. */
static void add_log(const struct mn_p2p_pump *pump, struct mn_diag *diag)
{
    size_t used = strlen(diag->text);

    pthread_mutex_lock(&log_lock);
    if (pump->log[0])
        snprintf(diag->text + used, sizeof diag->text - used, "; the plugin said: %.600s",
                 pump->log);
    pthread_mutex_unlock(&log_lock);
}

enum mn_err mn_p2p_connect(struct mn_p2p_pump *pump, struct mn_diag *diag)
{
    struct mn_p2p_watch w = {.pump = pump, .what = "connecting through the plugin"};
    int open = 0;

    while (open < 2 * pump->connections) {
        int before = open;
        for (int i = 0; i < pump->connections; i++) {
            int result;
            if (!pump->sends[i]) {
                result =
                    mn_plugin_connect(pump->plugin, pump->device,
                                      pump->peer_handles + i * MN_HANDLE_SIZE, &pump->sends[i]);
                if (result)
                    return mn_p2p_failed(pump, "connect", result, diag);
                open += pump->sends[i] != NULL;
            }
            if (!pump->recvs[i]) {
                result = mn_plugin_accept(pump->plugin, pump->listens[i], &pump->recvs[i]);
                if (result)
                    return mn_p2p_failed(pump, "accept", result, diag);
                open += pump->recvs[i] != NULL;
            }
        }
        if (open != before)
            w.since = 0;
        w.idle = 2 * LOOK_EVERY - 1; /* the clock is looked at each time: nothing is measured yet */
        enum mn_err err = open == before ? mn_p2p_idle(&w, diag) : MN_OK;
        if (err == MN_ERR_TIMEOUT)
            add_log(pump, diag);
        if (err)
            return err;
    }
    for (int i = 0; i < pump->connections; i++) {
        mn_plugin_close_listen(pump->plugin, pump->listens[i]);
        pump->listens[i] = NULL;
    }
    return MN_OK;
}

enum mn_err mn_p2p_buffers(struct mn_p2p_pump *pump, size_t largest, size_t bytes,
                           struct mn_diag *diag)
{
    size_t group = (size_t)pump->group;
    size_t slots = (size_t)pump->outstanding * (size_t)pump->connections * group;
    size_t one = (largest + MN_P2P_PAGE - 1) / MN_P2P_PAGE * MN_P2P_PAGE + MN_P2P_PAGE;
    /* Half of what is free: the other end may be a process of this host. */
    size_t most = mn_available_memory() / 2;

    if (2 * group * one > most)
        return mn_fail(diag, MN_ERR_FAILED,
                       "messages of %zu bytes need buffers of %zu bytes, this host can spare %zu; "
                       "leave out the largest of --sizes",
                       largest, 2 * group * one, most);
    if (bytes > most)
        bytes = most;
    if (slots * one > bytes / 2)
        slots = bytes / 2 / one > group ? bytes / 2 / one : group;
    pump->area_size = slots * one;
    for (int i = 0; i < 2; i++) {
        uint8_t *area = mn_area_new(&pump->memory, pump->area_size, diag);
        if (!area)
            return MN_ERR_FAILED;
        pump->area[i] = area;
        for (int c = 0; c < pump->connections; c++) {
            int result;
            enum mn_err err = mn_area_register(&pump->memory, pump->plugin, pump->device,
                                               i ? pump->recvs[c] : pump->sends[c], area,
                                               pump->area_size, &pump->mhs[i][c], &result, diag);
            if (err)
                return err;
            if (result)
                return mn_p2p_failed(pump, "regMr", result, diag);
        }
    }
    return MN_OK;
}

void mn_p2p_close(struct mn_p2p_pump *pump)
{
    mn_raw_end(pump); /* it uses the buffers */
    for (int c = 0; c < pump->connections && pump->sends; c++) {
        for (int i = 0; i < 2; i++) {
            void *comm = i ? pump->recvs[c] : pump->sends[c];
            if (comm && pump->area[i] && pump->mhs[i][c])
                mn_plugin_dereg_mr(pump->plugin, comm, pump->mhs[i][c]);
        }
        if (pump->sends[c])
            mn_plugin_close_send(pump->plugin, pump->sends[c]);
        if (pump->recvs[c])
            mn_plugin_close_recv(pump->plugin, pump->recvs[c]);
        if (pump->listens[c])
            mn_plugin_close_listen(pump->plugin, pump->listens[c]);
    }
    for (int i = 0; i < 2; i++) {
        if (pump->area[i])
            mn_area_free(&pump->memory, pump->area[i], pump->area_size);
        free(pump->mhs[i]);
    }
    free(pump->listens);
    free(pump->sends);
    free(pump->recvs);
    free(pump->handles);
    free(pump->peer_handles);
    mn_plugin_set_log(pump->plugin, NULL, NULL);
}
