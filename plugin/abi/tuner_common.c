#include "plugin/abi/tuner_common.h"

#include <stdio.h>

#include "plugin/logger.h"
#include "plugin/net.h"
#include "plugin/tuner/tuning.h"

#define NCCL_TUNING 0x40ul /* its subsystem bit, for the log */

static void say(ncclDebugLogger_t logger, enum mn_log_level level, int line, const char *text)
{
    if (logger)
        logger(mn_logger_levels(logger)->of[level], NCCL_INIT | NCCL_TUNING, __FILE__, line,
               "TUNER/meshnet: %s", text);
}

static void say_rule(ncclDebugLogger_t logger, const struct mn_tuning *t)
{
    char text[320];

    snprintf(text, sizeof text, "%d ranks on %d nodes (%s): %s%s", t->ranks, t->nodes,
             mn_tuning_rule_text(t->rule),
             t->barred ? "rings where trees or PAT would leave the cables" : "any algorithm",
             t->predicts ? ", times as the cables allow" : ", times are NCCL's");
    say(logger, MN_LOG_INFO, __LINE__, text);
}

static ncclResult_t open_tuner(const struct mn_tuning_asked *asked, ncclDebugLogger_t logger,
                               void **context)
{
    struct mn_tuning *tuner;
    struct mn_diag diag = {.text = ""};
    enum mn_err err = mn_tuning_open(asked, &tuner, &diag);

    *context = tuner;
    if (err) {
        say(logger, MN_LOG_WARN, __LINE__, diag.text);
        return err == MN_ERR_CONFIG ? ncclInvalidUsage : ncclSystemError;
    }
    say_rule(logger, tuner);
    return ncclSuccess;
}

ncclResult_t mn_abi_tuner_init(size_t ranks, size_t nodes, ncclDebugLogger_t logger, void **context)
{
    const struct mn_tuning_asked asked = {.ranks = ranks, .nodes = nodes};

    return open_tuner(&asked, logger, context);
}

ncclResult_t mn_abi_tuner_init_v5(void **context, uint64_t comm_id, size_t ranks, size_t nodes,
                                  ncclDebugLogger_t logger, ncclNvlDomainInfo_v5_t *domains,
                                  ncclTunerConstants_v5_t *constants)
{
    const struct mn_tuning_asked asked = {.ranks = ranks,
                                          .nodes = nodes,
                                          .nvlink_domains = domains ? domains->nNvlDomains : 0,
                                          .constants = constants};

    (void)comm_id;
    return open_tuner(&asked, logger, context);
}

/* The table's type is a lie: plugin/abi/tuner_abi.h. */
ncclResult_t mn_abi_tuner_get_coll_info(void *context, ncclFunc_t function, size_t bytes,
                                        int pipelined, float **table, int algorithms, int protocols,
                                        int registered, int *channels)
{
    (void)registered;
    mn_tuning_costs(context, (int)function, bytes, pipelined, (float *)(void *)table, algorithms,
                    protocols, channels);
    return ncclSuccess;
}

ncclResult_t mn_abi_tuner_end(void *context)
{
    mn_tuning_free(context);
    return ncclSuccess;
}
