/* Registered memory. */
#include <stdlib.h>

#include "tests/broken/ref.h"

ncclResult_t ref_reg(void *comm, void *data, size_t size, int type, void **mhandle)
{
    struct registration *r = calloc(1, sizeof *r);

    if (!r || type != NCCL_PTR_HOST) {
        free(r);
        return ncclSystemError;
    }
    if (IS(REGISTER_BUSY) && size == 65536 && ((struct comm *)comm)->out) {
        free(r);
        return ref_refuse("cannot register while requests are out");
    }
    r->data = data;
    r->size = size;
    *mhandle = r;
    return ncclSuccess;
}

ncclResult_t ref_reg_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
                            void **mhandle)
{
    (void)offset;
    (void)fd;
    return ref_reg(comm, data, size, type, mhandle);
}

ncclResult_t ref_dereg(void *comm, void *mhandle)
{
    (void)comm;
    free(mhandle);
    return ncclSuccess;
}

void *ref_offset(void *data, void *mhandle)
{
    return IS(MR_BASE) && mhandle ? ((struct registration *)mhandle)->data : data;
}
