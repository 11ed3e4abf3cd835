#include "bench/host/host_impl.h"

static void read_slots(const void *table, struct mn_host_slots *slots)
{
    const ncclNet_v4_t *t = table;

    *slots = (struct mn_host_slots){
        MN_HOST_SLOTS(t),         .init_v4 = t->init,     .listen_v4 = t->listen,
        .connect_v4 = t->connect, .accept_v4 = t->accept, .reg_v4 = t->regMr,
        .isend_v4 = t->isend,     .irecv_v4 = t->irecv,   .iflush_v4 = t->iflush,
    };
}

static int properties(const void *table, int dev, struct mn_plugin_props *props)
{
    MN_HOST_PROPERTIES(ncclNetProperties_v4_t, u);
    int result = (int)((const ncclNet_v4_t *)table)->getProperties(dev, &u.p);

    if (result)
        return result;
    MN_HOST_PROPERTIES_V4(props, u.p);
    return result;
}

const struct mn_host_version mn_host_v4 = {
    .version = 4,
    .blocks = 1,
    .read = read_slots,
    .properties = properties,
};
