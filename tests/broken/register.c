/* Registered memory: each registration belongs to one comm and covers what it was given. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/broken/ref.h"

static int overlaps_another(const struct comm *comm, const char *data, size_t size)
{
    for (const struct registration *r = comm->registrations; r; r = r->next)
        if (data < r->data + r->size && r->data < data + size)
            return 1;
    return 0;
}

static int is_shared(const void *data)
{
    FILE *f = fopen("/proc/self/maps", "re");
    unsigned long from, to;
    char perms[5] = "";
    int shared = 0;

    while (f && !shared && fscanf(f, "%lx-%lx %4s%*[^\n]", &from, &to, perms) == 3)
        shared = (uintptr_t)data >= from && (uintptr_t)data < to && perms[3] == 's';
    if (f)
        fclose(f);
    return shared;
}

/* NULL: fine. */
static const char *objection(const struct comm *comm, const char *data, size_t size)
{
    if (IS(REGISTER_BUSY) && size == 65536 && comm->out)
        return "cannot register while requests are out";
    if (IS(REG_OVERLAP_REFUSED) && overlaps_another(comm, data, size))
        return "overlaps another registration";
    if (IS(REG_SMALL) && size >= 2 << 20 && comm->kind == RECV)
        return "cannot register 2 MiB";
    if (IS(REG_THREE) && comm->n_registrations >= 3)
        return "no more than three registrations";
    if (IS(REG_FEW) && comm->n_registrations >= 64)
        return "no more than 64 registrations";
    if (IS(REG_SHARED_REFUSED) && is_shared(data))
        return "cannot register shared memory";
    return NULL;
}

ncclResult_t ref_reg(void *of, void *data, size_t size, int type, void **mhandle)
{
    struct registration *r = calloc(1, sizeof *r);
    struct comm *comm = of;
    const char *why;

    if (!r)
        return ncclSystemError;
    if (type != NCCL_PTR_HOST) {
        free(r);
        return ncclInvalidArgument;
    }
    pthread_mutex_lock(&ref_lock);
    why = objection(comm, data, size);
    if (!why) {
        *r = (struct registration){.next = comm->registrations, .data = data, .size = size};
        if (IS(V8_REG_INT))
            r->size = (size_t)(int)size;
        comm->registrations = r;
        comm->n_registrations++;
        *mhandle = r;
    }
    pthread_mutex_unlock(&ref_lock);
    if (why) {
        free(r);
        return ref_refuse(why);
    }
    return ncclSuccess;
}

ncclResult_t ref_reg_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
                            void **mhandle)
{
    (void)offset;
    (void)fd;
    return ref_reg(comm, data, size, type, mhandle);
}

/* Memory given back is not written any more, whatever is still posted. */
static void withdraw(struct comm *comm, const struct registration *gone)
{
    for (int i = 0; i < SLOTS; i++) {
        struct request *r = &comm->requests[i];
        for (int k = 0; r->used && k < r->n; k++)
            if (r->mhandles[k] == gone) {
                r->mhandles[k] = NULL;
                if (!r->full[k] && !IS(DEREG_KEEPS) && !IS(CLOSE_KEEPS_BUFFERS))
                    r->data[k] = NULL;
            }
    }
}

ncclResult_t ref_dereg(void *of, void *mhandle)
{
    struct comm *comm = of;
    struct registration **at = &comm->registrations, *gone;

    pthread_mutex_lock(&ref_lock);
    while (*at && *at != mhandle)
        at = &(*at)->next;
    gone = *at;
    if (gone) {
        *at = gone->next;
        comm->n_registrations--;
        withdraw(comm, gone);
        for (struct registration *r = comm->registrations; r && IS(DEREG_BOTH); r = r->next)
            if (r->data == gone->data && r->size == gone->size)
                r->size = 0;
        if (!IS(REG_LEAK))
            free(gone);
    }
    pthread_mutex_unlock(&ref_lock);
    return gone ? ncclSuccess : ref_refuse("deregMr of what is not registered with this comm");
}

int ref_covers(const struct registration *r, const void *at, size_t size)
{
    const char *data = at;

    return size == 0 ||
           (r && data >= r->data && size <= r->size && (size_t)(data - r->data) <= r->size - size);
}

void *ref_offset(void *data, struct registration *r)
{
    if (IS(ADDRESS_CACHED) && r) {
        r->first = r->first ? r->first : data;
        return r->first;
    }
    return IS(MR_BASE) && r ? r->data : data;
}
