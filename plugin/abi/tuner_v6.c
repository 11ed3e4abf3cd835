/* NCCL 2.30. Chunks stay NCCL's, which cuts them to its buffers: there is no getChunkSize. */
#include "plugin/abi/tuner_common.h"

extern MN_EXPORT ncclTuner_v6_t ncclTunerPlugin_v6;

ncclTuner_v6_t ncclTunerPlugin_v6 = {
    .name = MN_PLUGIN_NAME,
    .init = mn_abi_tuner_init_v5,
    .getCollInfo = mn_abi_tuner_get_coll_info,
    .finalize = mn_abi_tuner_end,
};
