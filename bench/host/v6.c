#include "bench/host/host_impl.h"

static void read_slots(const void *table, struct mn_host_slots *slots)
{
    const ncclNet_v6_t *t = table;

    *slots = (struct mn_host_slots){
        MN_HOST_SLOTS(t),       .init_v4 = t->init,
        .listen_v4 = t->listen, .connect_v4 = t->connect,
        .accept_v4 = t->accept, .reg_v4 = t->regMr,
        .isend_v5 = t->isend,   .irecv_v5 = t->irecv,
        .iflush_v5 = t->iflush, .reg_dmabuf = t->regMrDmaBuf,
    };
}

static int properties(const void *table, int dev, struct mn_plugin_props *props)
{
    MN_HOST_PROPERTIES(ncclNetProperties_v6_t, u);
    int result = (int)((const ncclNet_v6_t *)table)->getProperties(dev, &u.p);

    if (result)
        return result;
    MN_HOST_PROPERTIES_V5(props, u.p);
    return result;
}

const struct mn_host_version mn_host_v6 = {
    .version = 6,
    .read = read_slots,
    .properties = properties,
};
