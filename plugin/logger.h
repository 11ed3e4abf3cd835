/* The logger that NCCL or RCCL hands over at init, and how its owner counts levels. */
#ifndef MN_LOGGER_H
#define MN_LOGGER_H

#include "plugin/abi/nccl_abi.h"
#include "topo/base/log.h"

/* RCCL has counted an ERROR of its own since ROCm 7.2 (RCCL 2.27.7): all levels after it are one
 * higher than NCCL's. Who calls is told by the object that the logger lies in and what that is
 * linked with. May ask the dynamic loader: called from init only. */
struct mn_logger_levels {
    ncclDebugLogLevel of[MN_LOG_DEBUG + 1];
};
const struct mn_logger_levels *mn_logger_levels(ncclDebugLogger_t logger);

#endif
