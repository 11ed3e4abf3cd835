/* The data plane of a group: connections of the plugin between ranks, and requests over them. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "bench/group/group_impl.h"
#include "plugin/abi/nccl_abi.h"
#include "topo/base/alloc.h"

#define LOOK_EVERY 256   /* polls without progress between looks at the clock */
#define LOOK_S     0.020 /* between looks at the control plane */

static void on_log(void *ctx, int level, const char *line)
{
    struct mn_group *g = ctx;
    if (level == NCCL_LOG_WARN)
        mn_strlcpy(g->log, line, sizeof g->log);
}

/* peer -1: none in particular. */
static enum mn_err failed(const struct mn_group *g, int peer, const char *call, int result,
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
    if (link->receiving)
        result =
            mn_plugin_irecv(g->plugin, link->comm, 1, &data, &bytes, &tag, &link->mh, &r->request);
    else
        result = mn_plugin_isend(g->plugin, link->comm, data, bytes, tag, link->mh, &r->request);
    if (result) {
        failed(g, link->peer, link->receiving ? "irecv" : "isend", result, &g->wire_error);
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

static int wire_test(void *ctx, void *request, int *done, size_t *bytes)
{
    struct mn_group *g = ctx;
    struct mn_group_request *r = request;
    int sizes[MN_HOST_MAX_RECVS] = {0};
    int result = mn_plugin_test(g->plugin, r->request, done, sizes);

    if (result) {
        failed(g, r->link->peer, "test", result, &g->wire_error);
        return -1;
    }
    if (*done) {
        r->link->ended++;
        if (r->link->receiving)
            *bytes = (size_t)sizes[0];
    }
    return 0;
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
    g->wire = (struct mn_wire){g, wire_send, wire_recv, wire_test};
    for (int way = 0; way < 2; way++)
        g->links[way] = mn_zalloc((size_t)g->plan.nranks * sizeof *g->links[way]);
    mn_plugin_set_log(plugin, on_log, g);
    int result = mn_plugin_init(plugin);
    if (result)
        return failed(g, -1, "init", result, diag);
    result = mn_plugin_devices(plugin, &ndev);
    if (result)
        return failed(g, -1, "devices", result, diag);
    if (device >= ndev)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "the plugin offers %d devices, number %d was asked for%s%s", ndev, device,
                       g->log[0] ? "; it said: " : "", g->log);
    return MN_OK;
}

/* --- connecting ------------------------------------------------------------------------------- */

/* What the receiver of a connection tells its sender. */
struct offer {
    uint8_t made;
    _Alignas(8) uint8_t handle[MN_HANDLE_SIZE];
};

static struct mn_group_link *link_new(struct mn_group *g, int peer, int receiving)
{
    struct mn_group_link *link = mn_zalloc(sizeof *link);

    link->peer = peer;
    link->receiving = receiving;
    for (int i = 0; i < MN_GROUP_FLIGHT; i++)
        link->requests[i] = (struct mn_group_request){.group = g, .link = link};
    g->links[receiving][peer] = link;
    return link;
}

/* Makes the links a schedule needs and listens for those that receive. */
static enum mn_err add_links(struct mn_group *g, const struct mn_schedule *s, struct offer *offers,
                             struct mn_diag *diag)
{
    for (int i = 0; i < s->n; i++) {
        const struct mn_step *step = &s->steps[i];
        int receiving = step->kind == MN_STEP_RECV;
        if ((step->kind != MN_STEP_SEND && !receiving) || g->links[receiving][step->peer])
            continue;
        struct mn_group_link *link = link_new(g, step->peer, receiving);
        if (!receiving)
            continue;
        struct offer *offer = &offers[step->peer];
        int result = mn_plugin_listen(g->plugin, g->device, link->handle, &link->listen);
        if (result)
            return failed(g, step->peer, "listen", result, diag);
        offer->made = 1;
        memcpy(offer->handle, link->handle, sizeof offer->handle);
    }
    return MN_OK;
}

static enum mn_err take_offers(struct mn_group *g, const struct offer *offers, struct mn_diag *diag)
{
    for (int r = 0; r < g->plan.nranks; r++) {
        struct mn_group_link *link = g->links[0][r];
        int wanted = link && !link->comm;
        if (wanted != offers[r].made)
            return mn_fail(diag, MN_ERR_PROTO,
                           "%s: its schedule is another one; were they started with the same "
                           "options?",
                           g->peers[r].name);
        if (wanted)
            memcpy(link->handle, offers[r].handle, sizeof link->handle);
    }
    return MN_OK;
}

static enum mn_err add_registration(struct mn_group *g, struct mn_group_link *link,
                                    struct mn_diag *diag)
{
    if (!g->memory)
        return MN_OK;
    int result = mn_plugin_reg_mr(g->plugin, link->comm, g->memory, g->memory_bytes, NCCL_PTR_HOST,
                                  &link->mh);
    return result ? failed(g, link->peer, "regMr", result, diag) : MN_OK;
}

/* One call for a link that is not connected. */
static enum mn_err advance(struct mn_group *g, struct mn_group_link *link, struct mn_diag *diag)
{
    int result = link->receiving
                     ? mn_plugin_accept(g->plugin, link->listen, &link->comm)
                     : mn_plugin_connect(g->plugin, g->device, link->handle, &link->comm);

    if (result)
        return failed(g, link->peer, link->receiving ? "accept" : "connect", result, diag);
    if (!link->comm)
        return MN_OK;
    if (link->listen)
        mn_plugin_close_listen(g->plugin, link->listen);
    link->listen = NULL;
    return add_registration(g, link, diag);
}

static enum mn_err connect_all(struct mn_group *g, struct mn_diag *diag)
{
    uint64_t idle = 0;

    for (int left = 1; left;) {
        int moved = 0;
        left = 0;
        for (int i = 0; i < 2 * g->plan.nranks; i++) {
            struct mn_group_link *link = g->links[i & 1][i / 2];
            if (!link || link->comm)
                continue;
            enum mn_err err = advance(g, link, diag);
            if (err)
                return err;
            moved |= link->comm != NULL;
            left |= !link->comm;
        }
        if (moved)
            idle = 0;
        enum mn_err err = left && !moved ? mn_group_idle(g, &idle, diag) : MN_OK;
        if (err)
            return err;
    }
    return MN_OK;
}

/* Whether a schedule needs a link that there is not. */
static int lacks_link(const struct mn_group *g, const struct mn_schedule *s)
{
    for (int i = 0; i < s->n; i++) {
        const struct mn_step *step = &s->steps[i];
        if ((step->kind == MN_STEP_SEND || step->kind == MN_STEP_RECV) &&
            !g->links[step->kind == MN_STEP_RECV][step->peer])
            return 1;
    }
    return 0;
}

enum mn_err mn_group_connect(struct mn_group *g, const struct mn_schedule *s, struct mn_diag *diag)
{
    size_t n = (size_t)g->plan.nranks;
    float lacks = (float)lacks_link(g, s);
    enum mn_err err = mn_group_max(g, &lacks, 1, diag);

    if (err || lacks == 0)
        return err;
    struct offer *mine = mn_zalloc(n * sizeof *mine), *theirs = mn_zalloc(n * sizeof *theirs);
    err = add_links(g, s, mine, diag);
    if (!err)
        err = mn_group_exchange(g, mine, sizeof *mine, theirs, diag);
    if (!err)
        err = take_offers(g, theirs, diag);
    if (!err)
        err = connect_all(g, diag);
    free(theirs);
    free(mine);
    /* A rank that is done earlier would wait for the others in its first message. */
    return err ? err : mn_group_barrier(g, diag);
}

/* --- memory ----------------------------------------------------------------------------------- */

static void drop_memory(struct mn_group *g)
{
    for (int i = 0; g->memory && i < 2 * g->plan.nranks; i++) {
        struct mn_group_link *link = g->links[i & 1][i / 2];
        if (link && link->mh)
            mn_plugin_dereg_mr(g->plugin, link->comm, link->mh);
        if (link)
            link->mh = NULL;
    }
    if (g->memory)
        munmap(g->memory, g->memory_bytes);
    g->memory = NULL;
}

enum mn_err mn_group_memory(struct mn_group *g, size_t bytes, uint8_t **memory,
                            struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    if (!g->memory || bytes > g->memory_bytes) {
        drop_memory(g);
        void *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (area == MAP_FAILED)
            return mn_fail_errno(diag, "%zu bytes for message buffers; leave out the largest sizes",
                                 bytes);
        g->memory = area;
        g->memory_bytes = bytes;
        for (int i = 0; i < 2 * g->plan.nranks && !err; i++)
            if (g->links[i & 1][i / 2])
                err = add_registration(g, g->links[i & 1][i / 2], diag);
    }
    *memory = g->memory;
    return err;
}

void mn_group_close_wire(struct mn_group *g)
{
    if (!g->plugin)
        return;
    drop_memory(g);
    for (int i = 0; i < 2 * g->plan.nranks; i++) {
        struct mn_group_link *link = g->links[i & 1][i / 2];
        if (!link)
            continue;
        if (link->listen)
            mn_plugin_close_listen(g->plugin, link->listen);
        if (link->comm && link->receiving)
            mn_plugin_close_recv(g->plugin, link->comm);
        else if (link->comm)
            mn_plugin_close_send(g->plugin, link->comm);
        free(link);
    }
    for (int way = 0; way < 2; way++)
        free(g->links[way]);
    mn_plugin_set_log(g->plugin, NULL, NULL);
    g->plugin = NULL;
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
    double now = mn_group_now();
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
