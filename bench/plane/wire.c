/* The data plane of a group: connections of the plugin between ranks, and requests over them. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench/plane/plane_impl.h"
#include "plugin/abi/nccl_abi.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"
#include "topo/base/log.h"

#define LOOK_EVERY 256   /* polls without progress between looks at the clock */
#define LOOK_S     0.020 /* between looks at the control plane */

static void on_log(void *ctx, int level, const char *line)
{
    struct mn_plane *p = ctx;
    if (level == NCCL_LOG_WARN)
        mn_strlcpy(p->log, line, sizeof p->log);
    if (level == NCCL_LOG_WARN || level == NCCL_LOG_INFO)
        MN_INFO("plugin: %s: %s", level == NCCL_LOG_WARN ? "WARN" : "INFO", line);
}

enum mn_err mn_group_call_failed(const struct mn_group *g, int peer, const char *call, int result,
                                 struct mn_diag *diag)
{
    const struct mn_plane *p = mn_plane_seen(g);
    const char *fault = result == MN_HOST_BROKEN ? mn_plugin_fault() : mn_nccl_result_name(result);

    return mn_fail(diag, MN_ERR_FAILED, "%s%s%s of the plugin: %s%s%s",
                   peer < 0 ? "" : mn_group_name(g, peer), peer < 0 ? "" : ": ", call, fault,
                   p->log[0] ? "; it said: " : "", p->log);
}

static int wire_begin(struct mn_plane_link *link, void *data, size_t bytes, void **request)
{
    struct mn_plane_request *r = &link->requests[link->begun % MN_PLANE_FLIGHT];
    struct mn_plane *p = r->plane;
    int tag = 0, result;

    if (link->begun - link->ended == MN_PLANE_FLIGHT)
        return 0;
    r->request = NULL;
    r->data = data;
    r->flushing = 0;
    if (link->receiving)
        result =
            mn_plugin_irecv(p->plugin, link->comm, 1, &data, &bytes, &tag, &link->mh, &r->request);
    else
        result = mn_plugin_isend(p->plugin, link->comm, data, bytes, tag, link->mh, &r->request);
    if (result) {
        mn_group_call_failed(p->group, link->peer, link->receiving ? "irecv" : "isend", result,
                             &p->wire_error);
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
    struct mn_plane *p = ctx;
    (void)buffer;
    return wire_begin(p->links[0][peer], data, bytes, request);
}

static int wire_recv(void *ctx, int peer, void *data, size_t bytes, enum mn_step_buffer buffer,
                     void **request)
{
    struct mn_plane *p = ctx;
    (void)buffer;
    return wire_begin(p->links[1][peer], data, bytes, request);
}

/* A receive into a GPU's memory is done when it is flushed, too. */
static int flush(struct mn_plane_request *r, int size)
{
    struct mn_plane *p = r->plane;
    void *data = r->data, *mh = r->link->mh;

    r->received = (size_t)size;
    r->flushing = 1;
    r->request = NULL;
    return size ? mn_plugin_iflush(p->plugin, r->link->comm, 1, &data, &size, &mh, &r->request) : 0;
}

static int wire_test(void *ctx, void *request, int *done, size_t *bytes)
{
    struct mn_plane *p = ctx;
    struct mn_plane_request *r = request;
    int sizes[MN_HOST_MAX_RECVS] = {0};
    const char *call = "test";
    int result = mn_plugin_test(p->plugin, r->request, done, sizes);

    if (!result && *done && r->link->receiving) {
        if (!r->flushing)
            r->received = (size_t)sizes[0];
        if (!r->flushing && mn_memory_is_apart(&p->kind)) {
            call = "iflush";
            result = flush(r, sizes[0]);
            *done = !r->request;
        }
        *bytes = r->received;
    }
    if (result) {
        mn_group_call_failed(p->group, r->link->peer, call, result, &p->wire_error);
        return -1;
    }
    r->link->ended += *done != 0;
    return 0;
}

/* Sums are made by the processor: there and back again. */
static int wire_local(void *ctx, void *to, const void *from, size_t bytes, mn_reduce_fn *reduce,
                      size_t element)
{
    struct mn_plane *p = ctx;
    struct mn_diag *diag = &p->wire_error;
    enum mn_err err = MN_OK;

    if (!reduce)
        return mn_area_copy(&p->kind, to, from, bytes, diag) ? -1 : 0;
    if (bytes > p->staging_bytes) {
        for (int i = 0; i < 2; i++) {
            free(p->staging[i]);
            p->staging[i] = mn_zalloc(bytes);
        }
        p->staging_bytes = bytes;
    }
    err = mn_area_copy(&p->kind, p->staging[0], to, bytes, diag);
    if (!err)
        err = mn_area_copy(&p->kind, p->staging[1], from, bytes, diag);
    if (err)
        return -1;
    reduce(p->staging[0], p->staging[1], bytes / element);
    return mn_area_copy(&p->kind, to, p->staging[0], bytes, diag) ? -1 : 0;
}

const struct mn_wire *mn_group_wire(const struct mn_group *g)
{
    const struct mn_plane *p = mn_plane_seen(g);
    return &p->wire;
}

enum mn_err mn_group_wire_error(const struct mn_group *g, struct mn_diag *diag)
{
    const struct mn_plane *p = mn_plane_seen(g);
    *diag = p->wire_error;
    return diag->code;
}

enum mn_err mn_group_use(struct mn_group *g, struct mn_plugin *plugin, int device,
                         struct mn_diag *diag)
{
    struct mn_plane *p = mn_plane(g);
    struct rlimit files;
    int ndev = 0;

    /* Every connection takes several sockets. */
    if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    p->plugin = plugin;
    p->device = device;
    p->wire = (struct mn_wire){p, wire_send, wire_recv, wire_test,
                               mn_memory_is_apart(&p->kind) ? wire_local : NULL};
    for (int way = 0; way < 2; way++)
        p->links[way] = mn_zalloc((size_t)mn_group_size(g) * sizeof *p->links[way]);
    mn_plugin_set_log(plugin, on_log, p);
    int result = mn_plugin_init(plugin);
    if (result)
        return mn_group_call_failed(g, -1, "init", result, diag);
    result = mn_plugin_devices(plugin, &ndev);
    if (result)
        return mn_group_call_failed(g, -1, "devices", result, diag);
    if (device >= ndev)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "the plugin offers %d devices, number %d was asked for%s%s", ndev, device,
                       p->log[0] ? "; it said: " : "", p->log);
    return MN_OK;
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* Whom this rank waits for, and for what. */
static const struct mn_plane_link *waits_for(const struct mn_plane *p, const char **what)
{
    for (int i = 0; i < 2 * mn_group_size(p->group); i++) {
        const struct mn_plane_link *link = p->links[!(i & 1)][i / 2];
        if (!link || (link->comm && link->begun == link->ended))
            continue;
        *what = link->comm ? link->receiving ? "receiving from" : "sending to" : "connecting with";
        return link;
    }
    return NULL;
}

enum mn_err mn_group_idle(struct mn_group *g, uint64_t *idle, struct mn_diag *diag)
{
    struct mn_plane *p = mn_plane(g);
    const char *what = "";

    sched_yield(); /* as NCCL's progress thread does when nothing progressed */
    if (++*idle % LOOK_EVERY)
        return MN_OK;
    double now = mn_seconds();
    if (*idle == LOOK_EVERY)
        p->still_since = now;
    if (now - p->looked < LOOK_S)
        return MN_OK;
    p->looked = now;
    if (now - p->still_since > mn_group_timeout_ms(g) / 1000.0) {
        const struct mn_plane_link *link = waits_for(p, &what);
        return mn_fail(diag, MN_ERR_TIMEOUT, "nothing moved for %u s while %s %s",
                       mn_group_timeout_ms(g) / 1000, link ? what : "working",
                       link ? mn_group_name(g, link->peer) : "alone");
    }
    return mn_group_look(g, diag);
}
