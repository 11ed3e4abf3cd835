/* Address handles of datagrams. */
#include "tests/fakeverbs/fv.h"

#include <errno.h>
#include <stdlib.h>

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct fv_ah *ah = calloc(1, sizeof *ah);
    union ibv_gid gid;
    int type, err = 0;
    if (!ah)
        return NULL;
    fv_lock();
    if (!attr->is_global || attr->port_num != 1 || attr->grh.sgid_index >= FV_GIDS ||
        fv_gid_at(fv_context_of(pd->context)->device, attr->grh.sgid_index, &gid, &type) != 0)
        err = EINVAL;
    else if (!fv_gid_known(&attr->grh.dgid))
        err = ETIMEDOUT;
    else
        ((struct fv_pd *)pd)->children++;
    fv_unlock();
    if (err) {
        free(ah);
        errno = err;
        return NULL;
    }
    ah->base.context = pd->context;
    ah->base.pd = pd;
    ah->dgid = attr->grh.dgid;
    return &ah->base;
}

int ibv_destroy_ah(struct ibv_ah *base)
{
    fv_lock();
    ((struct fv_pd *)base->pd)->children--;
    fv_unlock();
    free(base);
    return 0;
}
