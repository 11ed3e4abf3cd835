/* NCCL 2.22 and 2.23. */
#include "plugin/abi/tuner_common.h"

extern MN_EXPORT ncclTuner_v3_t ncclTunerPlugin_v3;

static ncclResult_t get_coll_info(void *context, ncclFunc_t function, size_t bytes, int pipelined,
                                  float **table, int algorithms, int protocols, int *channels)
{
    return mn_abi_tuner_get_coll_info(context, function, bytes, pipelined, table, algorithms,
                                      protocols, 0, channels);
}

ncclTuner_v3_t ncclTunerPlugin_v3 = {
    .name = MN_PLUGIN_NAME,
    .init = mn_abi_tuner_init,
    .getCollInfo = get_coll_info,
    .destroy = mn_abi_tuner_end,
};
