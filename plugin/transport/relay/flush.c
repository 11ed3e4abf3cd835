/* What the ways have delivered becomes visible in GPU memory: each hop's own flush, together. */
#include <string.h>
#include <time.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/transport/relay/flow.h"

#define LAST_MS 1000 /* for the device's read when a way goes */

/* Also a hop without anything new: the flush before, which covers what this one is asked for, may
 * be under way. */
static int has_to(const struct relay_way *way, const struct relay_hop *hop)
{
    return way->state == RELAY_IS_OPEN && (hop->fresh || hop->flushing);
}

static enum mn_err ask(struct relay_comm *comm, struct relay_flush *flush, struct relay_way *way,
                       int kind, void *data, struct relay_mem *mem)
{
    struct relay_hop *hop = &way->hops[kind];
    struct mn_request **request = &flush->requests[way->number][kind];
    enum mn_err err =
        hop->comm->ops->flush(hop->comm, data, mem->handles[way->number][kind], request);

    if (err)
        return relay_fail(comm, err, "flushing what came over relay %s has failed",
                          mn_line_peer(way->line));
    flush->pairs[way->number] = way->pair;
    hop->fresh = 0;
    hop->flushing += *request != NULL;
    return MN_OK;
}

enum mn_err relay_flush(struct mn_comm *base, void *data, void *mhandle,
                        struct mn_request **request)
{
    struct relay_comm *comm = (struct relay_comm *)base;
    struct relay_mem *mem = mhandle;
    struct relay_flush *flush = NULL;
    int any = 0;

    *request = NULL;
    if (relay_error(comm))
        return (enum mn_err)relay_error(comm);
    if (mem->type == NCCL_PTR_HOST)
        return MN_OK;
    for (int i = 0; i < RELAY_FLUSHES && !flush; i++)
        if (!comm->flushes[i].used)
            flush = &comm->flushes[i];
    if (!flush)
        return relay_fail(comm, MN_ERR_INTERNAL, "more than %d flushes at once", RELAY_FLUSHES);
    memset(flush, 0, sizeof *flush);
    flush->base.comm = base;
    flush->is_flush = 1;
    for (int i = 0; i < comm->n_ways; i++)
        for (int kind = 0; kind < MN_RELAY_KINDS; kind++) {
            struct relay_way *way = &comm->ways[i];
            if (!has_to(way, &way->hops[kind]))
                continue;
            enum mn_err err = ask(comm, flush, way, kind, data, mem);
            if (err)
                return err;
            any |= flush->requests[i][kind] != NULL;
        }
    if (!any)
        return MN_OK;
    flush->used = 1;
    *request = &flush->base;
    return MN_OK;
}

enum mn_err relay_flush_test(struct relay_comm *comm, struct relay_flush *flush, int *done)
{
    int left = 0;

    for (int i = 0; i < comm->n_ways; i++)
        for (int kind = 0; kind < MN_RELAY_KINDS; kind++) {
            struct mn_request **r = &flush->requests[i][kind];
            int now = 0;
            /* Of a way that is gone: relay_flush_way() has seen to it. */
            if (comm->ways[i].pair != flush->pairs[i])
                *r = NULL;
            if (!*r)
                continue;
            enum mn_err err = (*r)->comm->ops->test(*r, &now, NULL);
            if (err)
                return relay_fail(comm, err, "flushing has failed");
            if (now) {
                *r = NULL;
                comm->ways[i].hops[kind].flushing--;
            }
            left |= !now;
        }
    *done = !left;
    flush->used = (uint8_t)left;
    return relay_error(comm) ? (enum mn_err)relay_error(comm) : MN_OK;
}

static enum mn_err flush_hop(struct relay_hop *hop, void *data, void *handle)
{
    static const struct timespec pause = {.tv_nsec = 20000};
    uint64_t end = mn_now_ms() + LAST_MS;
    struct mn_request *request = NULL;
    enum mn_err err = hop->comm->ops->flush(hop->comm, data, handle, &request);

    for (int done = 0; !err && request && !done;) {
        err = hop->comm->ops->test(request, &done, NULL);
        if (!err && !done)
            err = mn_now_ms() > end ? MN_ERR_TIMEOUT : MN_OK;
        if (!err && !done)
            nanosleep(&pause, NULL);
    }
    return err;
}

void relay_flush_way(struct relay_comm *comm, struct relay_way *way)
{
    enum mn_err err = MN_OK;

    pthread_mutex_lock(&comm->memory);
    for (int kind = 0; kind < MN_RELAY_KINDS && !err; kind++) {
        struct relay_hop *hop = &way->hops[kind];
        struct relay_mem *mem = atomic_load_explicit(&hop->delivered, memory_order_relaxed);
        if (mem && mem->type != NCCL_PTR_HOST && has_to(way, hop))
            err = flush_hop(hop, mem->data, mem->handles[way->number][kind]);
    }
    pthread_mutex_unlock(&comm->memory);
    if (err)
        relay_fail(comm, MN_ERR_LINK_DEAD,
                   "what came over relay %s, whose way is gone, cannot be made visible to the GPU "
                   "(%s)",
                   mn_line_peer(way->line), mn_err_text(err));
}
