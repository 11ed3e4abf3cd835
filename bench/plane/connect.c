/* Connections of the plugin between ranks, and the memory registered with them. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "bench/memory.h"
#include "bench/plane/plane_impl.h"
#include "plugin/abi/nccl_abi.h"
#include "topo/base/alloc.h"

/* Without a connection that got ready for so many rounds, each next one waits before it. */
#define CONNECT_TURNS  32
#define CONNECT_NAP_NS 200000

/* What the receiver of a connection tells its sender. */
struct offer {
    uint8_t made;
    _Alignas(8) uint8_t handle[MN_HANDLE_SIZE];
};

static struct mn_plane_link *link_new(struct mn_plane *p, int peer, int receiving)
{
    struct mn_plane_link *link = mn_zalloc(sizeof *link);

    link->peer = peer;
    link->receiving = receiving;
    for (int i = 0; i < MN_PLANE_FLIGHT; i++)
        link->requests[i] = (struct mn_plane_request){.plane = p, .link = link};
    p->links[receiving][peer] = link;
    return link;
}

/* Makes the links a schedule needs and listens for those that receive. */
static enum mn_err add_links(struct mn_plane *p, const struct mn_schedule *s, struct offer *offers,
                             struct mn_diag *diag)
{
    for (int i = 0; i < s->n; i++) {
        const struct mn_step *step = &s->steps[i];
        int receiving = step->kind == MN_STEP_RECV;
        if ((step->kind != MN_STEP_SEND && !receiving) || p->links[receiving][step->peer])
            continue;
        struct mn_plane_link *link = link_new(p, step->peer, receiving);
        if (!receiving)
            continue;
        struct offer *offer = &offers[step->peer];
        int result = mn_plugin_listen(p->plugin, p->device, link->handle, &link->listen);
        if (result)
            return mn_group_call_failed(p->group, step->peer, "listen", result, diag);
        offer->made = 1;
        memcpy(offer->handle, link->handle, sizeof offer->handle);
    }
    return MN_OK;
}

static enum mn_err take_offers(struct mn_plane *p, const struct offer *offers, struct mn_diag *diag)
{
    for (int r = 0; r < mn_group_size(p->group); r++) {
        struct mn_plane_link *link = p->links[0][r];
        int wanted = link && !link->comm;
        if (wanted != offers[r].made)
            return mn_fail(diag, MN_ERR_PROTO,
                           "%s: its schedule is another one; were they started with the same "
                           "options?",
                           mn_group_name(p->group, r));
        if (wanted)
            memcpy(link->handle, offers[r].handle, sizeof link->handle);
    }
    return MN_OK;
}

static enum mn_err add_registration(struct mn_plane *p, struct mn_plane_link *link,
                                    struct mn_diag *diag)
{
    if (!p->memory)
        return MN_OK;
    int result;
    enum mn_err err = mn_area_register(&p->kind, p->plugin, p->device, link->comm, p->memory,
                                       p->memory_bytes, &link->mh, &result, diag);
    if (err)
        return err;
    return result ? mn_group_call_failed(p->group, link->peer, "regMr", result, diag) : MN_OK;
}

/* One call for a link that is not connected. */
static enum mn_err advance(struct mn_plane *p, struct mn_plane_link *link, struct mn_diag *diag)
{
    int result = link->receiving
                     ? mn_plugin_accept(p->plugin, link->listen, &link->comm)
                     : mn_plugin_connect(p->plugin, p->device, link->handle, &link->comm);

    if (result)
        return mn_group_call_failed(p->group, link->peer, link->receiving ? "accept" : "connect",
                                    result, diag);
    if (!link->comm)
        return MN_OK;
    if (link->listen)
        mn_plugin_close_listen(p->plugin, link->listen);
    link->listen = NULL;
    return add_registration(p, link, diag);
}

static enum mn_err connect_all(struct mn_plane *p, struct mn_diag *diag)
{
    uint64_t idle = 0;

    for (int left = 1; left;) {
        int moved = 0;
        left = 0;
        for (int i = 0; i < 2 * mn_group_size(p->group); i++) {
            struct mn_plane_link *link = p->links[i & 1][i / 2];
            if (!link || link->comm)
                continue;
            enum mn_err err = advance(p, link, diag);
            if (err)
                return err;
            moved |= link->comm != NULL;
            left |= !link->comm;
        }
        if (moved)
            idle = 0;
        enum mn_err err = left && !moved ? mn_group_idle(p->group, &idle, diag) : MN_OK;
        if (err)
            return err;
        /* Nobody measures this, and ranks that share a host would take each other's time. */
        if (idle > CONNECT_TURNS)
            nanosleep(&(struct timespec){.tv_nsec = CONNECT_NAP_NS}, NULL);
    }
    return MN_OK;
}

/* Whether a schedule needs a link that there is not. */
static int lacks_link(const struct mn_plane *p, const struct mn_schedule *s)
{
    for (int i = 0; i < s->n; i++) {
        const struct mn_step *step = &s->steps[i];
        if ((step->kind == MN_STEP_SEND || step->kind == MN_STEP_RECV) &&
            !p->links[step->kind == MN_STEP_RECV][step->peer])
            return 1;
    }
    return 0;
}

enum mn_err mn_group_connect(struct mn_group *g, const struct mn_schedule *s, struct mn_diag *diag)
{
    struct mn_plane *p = mn_plane(g);
    size_t n = (size_t)mn_group_size(g);
    float lacks = (float)lacks_link(p, s);
    enum mn_err err = mn_group_max(g, &lacks, 1, diag);

    if (err || lacks == 0)
        return err;
    struct offer *mine = mn_zalloc(n * sizeof *mine), *theirs = mn_zalloc(n * sizeof *theirs);
    err = add_links(p, s, mine, diag);
    if (!err)
        err = mn_group_exchange(g, mine, sizeof *mine, theirs, diag);
    if (!err)
        err = take_offers(p, theirs, diag);
    if (!err)
        err = connect_all(p, diag);
    free(theirs);
    free(mine);
    /* A rank that is done earlier would wait for the others in its first message. */
    return err ? err : mn_group_barrier(g, diag);
}

/* --- memory ----------------------------------------------------------------------------------- */

static void deregister(struct mn_plane *p)
{
    for (int i = 0; p->plugin && i < 2 * mn_group_size(p->group); i++) {
        struct mn_plane_link *link = p->links[i & 1][i / 2];
        if (link && link->mh)
            mn_plugin_dereg_mr(p->plugin, link->comm, link->mh);
        if (link)
            link->mh = NULL;
    }
}

static void unmap(struct mn_plane *p)
{
    if (p->memory)
        mn_area_free(&p->kind, p->memory, p->memory_bytes);
    p->memory = NULL;
    p->memory_bytes = 0;
}

enum mn_err mn_group_choose_memory(struct mn_group *g, enum mn_memory_kind kind, int gpu,
                                   struct mn_diag *diag)
{
    struct mn_plane *p = mn_plane(g);
    int hosts[MN_GROUP_RANKS], before = 0;

    mn_group_hosts(g, hosts);
    for (int r = 0; r < mn_group_rank(g); r++)
        before += hosts[r] == hosts[mn_group_rank(g)];
    return mn_memory_open(kind, gpu < 0 ? before : gpu, &p->kind, diag);
}

const struct mn_memory *mn_group_memory_kind(const struct mn_group *g)
{
    const struct mn_plane *p = mn_plane_seen(g);
    return &p->kind;
}

enum mn_err mn_group_room(const struct mn_group *g, size_t bytes, struct mn_diag *diag)
{
    const struct mn_plane *p = mn_plane_seen(g);
    int hosts[MN_GROUP_RANKS];
    size_t here = 0, free_bytes = mn_available_memory();

    mn_group_hosts(g, hosts);
    for (int r = 0; r < mn_group_size(g); r++)
        here += hosts[r] == hosts[mn_group_rank(g)];
    /* What an earlier size took will be given back. */
    if (free_bytes == SIZE_MAX || bytes < free_bytes / here + p->memory_bytes)
        return MN_OK;
    return mn_fail(diag, MN_ERR_FAILED,
                   "buffers of %zu bytes for each of %zu ranks: this host can spare %zu; leave out "
                   "the largest of --sizes",
                   bytes, here, free_bytes);
}

enum mn_err mn_group_memory(struct mn_group *g, size_t bytes, uint8_t **memory,
                            struct mn_diag *diag)
{
    struct mn_plane *p = mn_plane(g);
    enum mn_err err = MN_OK;

    if (!p->memory || bytes > p->memory_bytes) {
        deregister(p);
        unmap(p);
        p->memory = mn_area_new(&p->kind, bytes, diag);
        if (!p->memory)
            return MN_ERR_FAILED;
        p->memory_bytes = bytes;
        for (int i = 0; p->plugin && i < 2 * mn_group_size(g) && !err; i++)
            if (p->links[i & 1][i / 2])
                err = add_registration(p, p->links[i & 1][i / 2], diag);
    }
    *memory = p->memory;
    return err;
}

void mn_group_forsake_memory(struct mn_group *g)
{
    struct mn_plane *p = mn_plane(g);
    p->memory = NULL;
}

static void close_plane(void *plane)
{
    struct mn_plane *p = plane;

    for (int i = 0; i < 2; i++)
        free(p->staging[i]);
    if (p->plugin)
        deregister(p);
    for (int i = 0; p->plugin && i < 2 * mn_group_size(p->group); i++) {
        struct mn_plane_link *link = p->links[i & 1][i / 2];
        if (!link)
            continue;
        if (link->listen)
            mn_plugin_close_listen(p->plugin, link->listen);
        if (link->comm && link->receiving)
            mn_plugin_close_recv(p->plugin, link->comm);
        else if (link->comm)
            mn_plugin_close_send(p->plugin, link->comm);
        free(link);
    }
    unmap(p); /* not before: after a failure requests are still under way */
    for (int way = 0; way < 2; way++)
        free(p->links[way]);
    if (p->plugin)
        mn_plugin_set_log(p->plugin, NULL, NULL);
    free(p);
}

struct mn_plane *mn_plane(struct mn_group *g)
{
    struct mn_plane *p = mn_group_companion(g);

    if (!p) {
        p = mn_zalloc(sizeof *p);
        p->group = g;
        mn_group_accompany(g, p, close_plane);
    }
    return p;
}

const struct mn_plane *mn_plane_seen(const struct mn_group *g)
{
    static const struct mn_plane none;
    const struct mn_plane *p = mn_group_companion(g);

    return p ? p : &none;
}
