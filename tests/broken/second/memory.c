/* Registrations: of one comm, each with its own record. */
#include <stdlib.h>
#include <unistd.h>

#include "tests/broken/second/alt.h"

int alt_covered(const struct alt_mr *mr, const void *data, size_t size)
{
    size_t from;

    if (!mr || (const char *)data < mr->data)
        return 0;
    from = (size_t)((const char *)data - mr->data);
    if (WRONG(REG_END_OFF))
        return from + size < mr->size;
    return from <= mr->size && size <= mr->size - from;
}

static struct alt_mr *cached(struct alt_comm *c, const char *data, size_t size)
{
    struct alt_mr *mr = c->mrs;

    while (mr && (mr->data != data || (WRONG(REG_CACHE_ONCE) && mr->size != size)))
        mr = mr->next;
    return mr;
}

static void touch(char *data, size_t size)
{
    for (size_t at = 0; at < size; at += (size_t)sysconf(_SC_PAGESIZE))
        ((volatile char *)data)[at] = 0;
}

ncclResult_t alt_reg(void *comm, void *data, size_t size, int type, void **mhandle)
{
    struct alt_comm *c = comm;
    struct alt_mr *mr = NULL;

    if (type != NCCL_PTR_HOST) {
        alt_warn("memory other than the host's");
        return ncclInvalidArgument;
    }
    pthread_mutex_lock(&c->lock);
    if (WRONG(REG_BY_ADDRESS) || WRONG(REG_CACHE_ONCE))
        mr = cached(c, data, size);
    if (WRONG(REG_CYCLES) && c->serial++ >= 256) {
        pthread_mutex_unlock(&c->lock);
        return ncclInternalError;
    }
    if (!mr) {
        mr = calloc(1, sizeof *mr);
        if (mr) {
            *mr = (struct alt_mr){.next = c->mrs, .comm = c, .data = data, .size = size};
            if (WRONG(REG_SIZE_INT) && (int)size < 0)
                mr->size = 0;
            else if (WRONG(REG_SIZE_INT))
                mr->size = (size_t)(int)size;
            c->mrs = mr;
        }
    } else {
        mr->slot++; /* users besides the first */
    }
    pthread_mutex_unlock(&c->lock);
    if (WRONG(REG_TOUCHES))
        touch(data, size);
    *mhandle = mr;
    return mr ? ncclSuccess : ncclSystemError;
}

static int is_posted(const struct alt_comm *c, const struct alt_mr *mr)
{
    for (const struct alt_request *r = c->head; r; r = r->next)
        for (int i = 0; i < r->n; i++)
            if (r->mr[i] == mr)
                return 1;
    return 0;
}

ncclResult_t alt_dereg(void *comm, void *mhandle)
{
    struct alt_comm *c = comm;
    struct alt_mr **at, *mr = mhandle;

    pthread_mutex_lock(&c->lock);
    while (WRONG(DEREG_DRAINS) && is_posted(c, mr)) {
        pthread_mutex_unlock(&c->lock);
        alt_nap(1000);
        pthread_mutex_lock(&c->lock);
    }
    for (at = &c->mrs; *at && *at != mr; at = &(*at)->next)
        ;
    if (!*at) {
        pthread_mutex_unlock(&c->lock);
        alt_warn("deregMr of what is not registered");
        return ncclInvalidArgument;
    }
    if (WRONG(REG_BY_ADDRESS) && mr->slot-- > 0) {
        pthread_mutex_unlock(&c->lock);
        return ncclSuccess;
    }
    *at = mr->next;
    /* Nothing may come into that memory, or from it, any more. */
    if (!WRONG(DEREG_STILL_WRITTEN) && is_posted(c, mr))
        c->broken = ncclInvalidUsage;
    pthread_mutex_unlock(&c->lock);
    free(mr);
    return ncclSuccess;
}
