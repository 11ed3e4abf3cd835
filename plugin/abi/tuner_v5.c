/* NCCL 2.28 and 2.29: its constants come along. */
#include "plugin/abi/tuner_common.h"

extern MN_EXPORT ncclTuner_v5_t ncclTunerPlugin_v5;

ncclTuner_v5_t ncclTunerPlugin_v5 = {
    .name = MN_PLUGIN_NAME,
    .init = mn_abi_tuner_init_v5,
    .getCollInfo = mn_abi_tuner_get_coll_info,
    .finalize = mn_abi_tuner_end,
};
