/* NCCL 2.24 to 2.27. */
#include "plugin/abi/tuner_common.h"

extern MN_EXPORT ncclTuner_v4_t ncclTunerPlugin_v4;

ncclTuner_v4_t ncclTunerPlugin_v4 = {
    .name = MN_PLUGIN_NAME,
    .init = mn_abi_tuner_init,
    .getCollInfo = mn_abi_tuner_get_coll_info,
    .destroy = mn_abi_tuner_end,
};
