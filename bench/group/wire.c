/* The data plane of a group: connections of the plugin between ranks, and requests over them. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench/group/group_impl.h"
#include "plugin/abi/nccl_abi.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define LOOK_EVERY 256   /* polls without progress between looks at the clock */
#define LOOK_S     0.020 /* between looks at the control plane */

static void on_log(void *ctx, int level, const char *line)
{
    struct mn_group *g = ctx;
    if (level == NCCL_LOG_WARN)
        mn_strlcpy(g->log, line, sizeof g->log);
}

enum mn_err mn_group_call_failed(const struct mn_group *g, int peer, const char *call, int result,
                                 struct mn_diag *diag)
{
    const char *fault = result == MN_HOST_BROKEN ? mn_plugin_fault() : mn_nccl_result_name(result);

    return mn_fail(diag, MN_ERR_FAILED, "%s%s%s of the plugin: %s%s%s",
                   peer < 0 ? "" : g->peers[peer].name, peer < 0 ? "" : ": ", call, fault,
                   g->log[0] ? "; it said: " : "", g->log);
}

static int wire_begin(struct mn_group_link *link, void *data, size_t bytes, void **request)
{
    struct mn_group_request *r = &link->requests[link->begun % MN_GROUP_FLIGHT];
    struct mn_group *g = r->group;
    int tag = 0, result;

    if (link->begun - link->ended == MN_GROUP_FLIGHT)
        return 0;
    r->request = NULL;
    r->data = data;
    r->flushing = 0;
    if (link->receiving)
        result =
            mn_plugin_irecv(g->plugin, link->comm, 1, &data, &bytes, &tag, &link->mh, &r->request);
    else
        result = mn_plugin_isend(g->plugin, link->comm, data, bytes, tag, link->mh, &r->request);
    if (result) {
        mn_group_call_failed(g, link->peer, link->receiving ? "irecv" : "isend", result,
                             &g->wire_error);
        return -1;
    }
    if (r->request) {
        link->begun++;
        *request = r;
    }
    return 0;
}

static int wire_send(void *ctx, int peer, void *data, size_t bytes, enum mn_step_buffer buffer,
                     void **request)
{
    struct mn_group *g = ctx;
    (void)buffer;
    return wire_begin(g->links[0][peer], data, bytes, request);
}

static int wire_recv(void *ctx, int peer, void *data, size_t bytes, enum mn_step_buffer buffer,
                     void **request)
{
    struct mn_group *g = ctx;
    (void)buffer;
    return wire_begin(g->links[1][peer], data, bytes, request);
}

/* A receive into a GPU's memory is done when it is flushed, too. */
static int flush(struct mn_group_request *r, int size)
{
    struct mn_group *g = r->group;
    void *data = r->data, *mh = r->link->mh;

    r->received = (size_t)size;
    r->flushing = 1;
    r->request = NULL;
    return size ? mn_plugin_iflush(g->plugin, r->link->comm, 1, &data, &size, &mh, &r->request) : 0;
}

static int wire_test(void *ctx, void *request, int *done, size_t *bytes)
{
    struct mn_group *g = ctx;
    struct mn_group_request *r = request;
    int sizes[MN_HOST_MAX_RECVS] = {0};
    const char *call = "test";
    int result = mn_plugin_test(g->plugin, r->request, done, sizes);

    if (!result && *done && r->link->receiving) {
        if (!r->flushing)
            r->received = (size_t)sizes[0];
        if (!r->flushing && mn_memory_is_apart(&g->kind)) {
            call = "iflush";
            result = flush(r, sizes[0]);
            *done = !r->request;
        }
        *bytes = r->received;
    }
    if (result) {
        mn_group_call_failed(g, r->link->peer, call, result, &g->wire_error);
        return -1;
    }
    r->link->ended += *done != 0;
    return 0;
}

/* Sums are made by the processor: there and back again. */
static int wire_local(void *ctx, void *to, const void *from, size_t bytes, mn_reduce_fn *reduce,
                      size_t element)
{
    struct mn_group *g = ctx;
    struct mn_diag *diag = &g->wire_error;
    enum mn_err err = MN_OK;

    if (!reduce)
        return mn_area_copy(&g->kind, to, from, bytes, diag) ? -1 : 0;
    if (bytes > g->staging_bytes) {
        for (int i = 0; i < 2; i++) {
            free(g->staging[i]);
            g->staging[i] = mn_zalloc(bytes);
        }
        g->staging_bytes = bytes;
    }
    err = mn_area_copy(&g->kind, g->staging[0], to, bytes, diag);
    if (!err)
        err = mn_area_copy(&g->kind, g->staging[1], from, bytes, diag);
    if (err)
        return -1;
    reduce(g->staging[0], g->staging[1], bytes / element);
    return mn_area_copy(&g->kind, to, g->staging[0], bytes, diag) ? -1 : 0;
}

const struct mn_wire *mn_group_wire(const struct mn_group *g)
{
    return &g->wire;
}

enum mn_err mn_group_wire_error(const struct mn_group *g, struct mn_diag *diag)
{
    *diag = g->wire_error;
    return diag->code;
}

enum mn_err mn_group_use(struct mn_group *g, struct mn_plugin *plugin, int device,
                         struct mn_diag *diag)
{
    struct rlimit files;
    int ndev = 0;

    /* Every connection takes several sockets. */
    if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    g->plugin = plugin;
    g->device = device;
    g->wire = (struct mn_wire){g, wire_send, wire_recv, wire_test,
                               mn_memory_is_apart(&g->kind) ? wire_local : NULL};
    for (int way = 0; way < 2; way++)
        g->links[way] = mn_zalloc((size_t)g->plan.nranks * sizeof *g->links[way]);
    mn_plugin_set_log(plugin, on_log, g);
    int result = mn_plugin_init(plugin);
    if (result)
        return mn_group_call_failed(g, -1, "init", result, diag);
    result = mn_plugin_devices(plugin, &ndev);
    if (result)
        return mn_group_call_failed(g, -1, "devices", result, diag);
    if (device >= ndev)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "the plugin offers %d devices, number %d was asked for%s%s", ndev, device,
                       g->log[0] ? "; it said: " : "", g->log);
    return MN_OK;
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* Whom this rank waits for, and for what. */
static const struct mn_group_link *waits_for(const struct mn_group *g, const char **what)
{
    for (int i = 0; i < 2 * g->plan.nranks; i++) {
        const struct mn_group_link *link = g->links[!(i & 1)][i / 2];
        if (!link || (link->comm && link->begun == link->ended))
            continue;
        *what = link->comm ? link->receiving ? "receiving from" : "sending to" : "connecting with";
        return link;
    }
    return NULL;
}

enum mn_err mn_group_idle(struct mn_group *g, uint64_t *idle, struct mn_diag *diag)
{
    const char *what = "";

    sched_yield(); /* as NCCL's progress thread does when nothing progressed */
    if (++*idle % LOOK_EVERY)
        return MN_OK;
    double now = mn_seconds();
    if (*idle == LOOK_EVERY)
        g->still_since = now;
    if (now - g->looked < LOOK_S)
        return MN_OK;
    g->looked = now;
    if (now - g->still_since > g->plan.timeout_ms / 1000.0) {
        const struct mn_group_link *link = waits_for(g, &what);
        return mn_fail(diag, MN_ERR_TIMEOUT, "nothing moved for %u s while %s %s",
                       g->plan.timeout_ms / 1000, link ? what : "working",
                       link ? g->peers[link->peer].name : "alone");
    }
    return mn_group_look(g, diag);
}
