/* NCCL 2.21: one algorithm and protocol instead of a table of costs. */
#include "plugin/abi/tuner_common.h"
#include "plugin/tuner/tuning.h"

extern MN_EXPORT ncclTuner_v2_t ncclTunerPlugin_v2;

static ncclResult_t get_coll_info(void *context, ncclFunc_t function, size_t bytes, int collnet,
                                  int nvls, int pipelined, int *algorithm, int *protocol,
                                  int *channels)
{
    (void)nvls;
    mn_tuning_choose(context, (int)function, bytes, pipelined, collnet, algorithm, protocol,
                     channels);
    return ncclSuccess;
}

ncclTuner_v2_t ncclTunerPlugin_v2 = {
    .name = MN_PLUGIN_NAME,
    .init = mn_abi_tuner_init,
    .getCollInfo = get_coll_info,
    .destroy = mn_abi_tuner_end,
};
