/* Bodies that several versions of the ncclTuner ABI share. */
#ifndef MN_ABI_TUNER_COMMON_H
#define MN_ABI_TUNER_COMMON_H

#include "plugin/abi/common.h"
#include "plugin/abi/tuner_abi.h"

/* v2 to v4; v5 to v6, whose domains and constants are one type */
ncclResult_t mn_abi_tuner_init(size_t ranks, size_t nodes, ncclDebugLogger_t logger,
                               void **context);
ncclResult_t mn_abi_tuner_init_v5(void **context, uint64_t comm_id, size_t ranks, size_t nodes,
                                  ncclDebugLogger_t logger, ncclNvlDomainInfo_v5_t *domains,
                                  ncclTunerConstants_v5_t *constants);
/* v4 to v6 */
ncclResult_t mn_abi_tuner_get_coll_info(void *context, ncclFunc_t function, size_t bytes,
                                        int pipelined, float **table, int algorithms, int protocols,
                                        int registered, int *channels);
/* destroy and finalize; v2 to v6 */
ncclResult_t mn_abi_tuner_end(void *context);

#endif
