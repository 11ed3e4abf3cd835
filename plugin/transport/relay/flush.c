/* What the ways have delivered becomes visible in GPU memory: each hop's own flush, together. */
#include <string.h>

#include "plugin/transport/relay/flow.h"

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
            struct relay_hop *hop = &way->hops[kind];
            if (way->state != RELAY_IS_OPEN || !hop->delivered)
                continue;
            enum mn_err err =
                hop->comm->ops->flush(hop->comm, data, mem->handles[way->number][kind],
                                      &flush->requests[i][kind]);
            if (err)
                return relay_fail(comm, err, "flushing what came over relay %s has failed",
                                  mn_line_peer(way->line));
            flush->pairs[i] = way->pair;
            hop->delivered = 0;
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
            int now = 1;
            /* Of a way that is gone: its device has written all before its connection was closed.
             */
            if (comm->ways[i].pair != flush->pairs[i])
                *r = NULL;
            enum mn_err err = *r ? (*r)->comm->ops->test(*r, &now, NULL) : MN_OK;
            if (err)
                return relay_fail(comm, err, "flushing has failed");
            if (now)
                *r = NULL;
            left |= *r != NULL;
        }
    *done = !left;
    flush->used = (uint8_t)left;
    return MN_OK;
}
