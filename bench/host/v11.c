#include "bench/host/host_impl.h"

static void read_slots(const void *table, struct mn_host_slots *slots)
{
    const ncclNet_v11_t *t = table;

    *slots = (struct mn_host_slots){
        MN_HOST_SLOTS(t),
        .init_v11 = t->init,
        .listen_v11 = t->listen,
        .connect_v11 = t->connect,
        .accept_v7 = t->accept,
        .reg_v8 = t->regMr,
        .isend_v10 = t->isend,
        .irecv_v10 = t->irecv,
        .iflush_v5 = t->iflush,
        .reg_dmabuf = t->regMrDmaBuf,
        .make_vdevice_v9 = t->makeVDevice,
        .finalize = t->finalize,
        .set_attr = t->setNetAttr,
    };
}

static int properties(const void *table, int dev, struct mn_plugin_props *props)
{
    MN_HOST_PROPERTIES(ncclNetProperties_v11_t, u);
    int result = (int)((const ncclNet_v11_t *)table)->getProperties(dev, &u.p);

    if (result)
        return result;
    MN_HOST_PROPERTIES_V11(props, u.p);
    return result;
}

const struct mn_host_version mn_host_v11 = {
    .version = 11,
    .read = read_slots,
    .properties = properties,
};
