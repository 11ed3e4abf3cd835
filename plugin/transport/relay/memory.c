/* What is registered: on the data connections of every way, also of those that open later. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/transport/relay/flow.h"

static enum mn_err enter(struct relay_mem *mem, struct relay_way *way, int kind)
{
    struct mn_comm *comm = way->hops[kind].comm;
    void **handle = &mem->handles[way->number][kind];
    enum mn_err err = mem->fd < 0 ? comm->ops->reg_mr(comm, mem->data, mem->size, mem->type, handle)
                                  : comm->ops->reg_dmabuf(comm, mem->data, mem->size, mem->type,
                                                          mem->offset, mem->fd, handle);

    mem->known[way->number][kind] = !err;
    return err;
}

static void leave(struct relay_mem *mem, struct relay_way *way, int kind)
{
    struct mn_comm *comm = way->hops[kind].comm;

    if (mem->known[way->number][kind])
        (void)comm->ops->dereg_mr(comm, mem->handles[way->number][kind]);
    mem->known[way->number][kind] = 0;
}

static enum mn_err enter_way(struct relay_mem *mem, struct relay_way *way)
{
    enum mn_err err = MN_OK;

    for (int kind = 0; kind < MN_RELAY_KINDS && !err; kind++)
        err = enter(mem, way, kind);
    return err;
}

static void leave_way(struct relay_mem *mem, struct relay_way *way)
{
    for (int kind = 0; kind < MN_RELAY_KINDS; kind++)
        leave(mem, way, kind);
}

enum mn_err relay_memory_open(struct relay_comm *comm, struct relay_way *way)
{
    pthread_mutex_lock(&comm->memory);
    enum mn_err err = enter_way(&comm->heads_mem, way);
    for (struct relay_mem *mem = comm->mems; mem && !err; mem = mem->next)
        err = enter_way(mem, way);
    way->takes = !err;
    pthread_mutex_unlock(&comm->memory);
    return err;
}

void relay_memory_close(struct relay_comm *comm, struct relay_way *way)
{
    pthread_mutex_lock(&comm->memory);
    way->takes = 0;
    leave_way(&comm->heads_mem, way);
    for (struct relay_mem *mem = comm->mems; mem; mem = mem->next)
        leave_way(mem, way);
    pthread_mutex_unlock(&comm->memory);
}

static void release(struct relay_mem *mem)
{
    if (mem->fd >= 0)
        close(mem->fd);
    free(mem);
}

/* Ways that do not take what another does are given up at the next step: the flow has the other. */
static enum mn_err add(struct relay_comm *comm, struct relay_mem *mem, void **mhandle)
{
    enum mn_err err = MN_OK;
    int unfit[MN_RELAY_WAYS] = {0}, taken = 0;

    pthread_mutex_lock(&comm->memory);
    for (int i = 0; i < comm->n_ways; i++) {
        struct relay_way *way = &comm->ways[i];
        enum mn_err refused = way->takes ? enter_way(mem, way) : MN_OK;
        taken += way->takes && !refused;
        unfit[i] = refused != MN_OK;
        if (refused) {
            leave_way(mem, way);
            err = refused;
        }
    }
    if (taken || !err) {
        err = MN_OK;
        mem->next = comm->mems;
        comm->mems = mem;
        for (int i = 0; i < comm->n_ways; i++)
            if (unfit[i])
                atomic_store_explicit(&comm->ways[i].unfit, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&comm->memory);
    if (err)
        release(mem);
    else
        *mhandle = mem;
    return err;
}

static struct relay_mem *describe(void *data, size_t size, int type)
{
    struct relay_mem *mem = calloc(1, sizeof *mem);

    if (!mem)
        return NULL;
    mem->data = data;
    mem->size = size;
    mem->type = type;
    mem->fd = -1;
    return mem;
}

enum mn_err relay_reg_mr(struct mn_comm *base, void *data, size_t size, int type, void **mhandle)
{
    struct relay_mem *mem = describe(data, size, type);

    return mem ? add((struct relay_comm *)base, mem, mhandle) : MN_ERR_NOMEM;
}

enum mn_err relay_reg_dmabuf(struct mn_comm *base, void *data, size_t size, int type,
                             uint64_t offset, int fd, void **mhandle)
{
    struct relay_mem *mem = describe(data, size, type);

    if (!mem)
        return MN_ERR_NOMEM;
    mem->offset = offset;
    mem->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* for ways that open later */
    if (mem->fd < 0) {
        release(mem);
        return MN_ERR_SYS;
    }
    return add((struct relay_comm *)base, mem, mhandle);
}

static void forget_delivered(struct relay_way *way, struct relay_mem *mem)
{
    for (int kind = 0; kind < MN_RELAY_KINDS; kind++) {
        struct relay_mem *is = mem;
        atomic_compare_exchange_strong(&way->hops[kind].delivered, &is, NULL);
    }
}

enum mn_err relay_dereg_mr(struct mn_comm *base, void *mhandle)
{
    struct relay_comm *comm = (struct relay_comm *)base;
    struct relay_mem **at = &comm->mems, *mem;

    pthread_mutex_lock(&comm->memory);
    while (*at && *at != mhandle)
        at = &(*at)->next;
    if ((mem = *at)) {
        *at = mem->next;
        for (int i = 0; i < comm->n_ways; i++) {
            forget_delivered(&comm->ways[i], mem);
            if (comm->ways[i].takes)
                leave_way(mem, &comm->ways[i]);
        }
    }
    pthread_mutex_unlock(&comm->memory);
    if (!mem)
        return MN_ERR_USAGE;
    release(mem);
    return MN_OK;
}
