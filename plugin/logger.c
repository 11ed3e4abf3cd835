#include "plugin/logger.h"

#include <dlfcn.h>
#include <string.h>

#define RCCL_SURE     22800    /* has ERROR */
#define RCCL_PERHAPS  22707    /* that of ROCm 7.1 has not, that of 7.2 has */
#define HIP_OF_ERRORS 70200000 /* ROCm 7.2 */

static const struct mn_logger_levels nccl = {{NCCL_LOG_WARN, NCCL_LOG_WARN, NCCL_LOG_INFO,
                                              NCCL_LOG_TRACE}},
                                     rccl = {{(ncclDebugLogLevel)1, (ncclDebugLogLevel)3,
                                              (ncclDebugLogLevel)4, (ncclDebugLogLevel)6}};

/* What a call of this name says in the object or in what it is linked with; 0: there is none. */
static int ask(void *object, const char *name)
{
    void *symbol = dlsym(object, name);
    int (*version)(int *) = NULL;
    int value = 0;

    memcpy(&version, &symbol, sizeof symbol);
    return version && version(&value) == 0 ? value : 0;
}

static int has_errors(void *object)
{
    if (!dlsym(object, "hipRuntimeGetVersion"))
        return 0; /* NCCL, or no library of collectives at all */
    int version = ask(object, "ncclGetVersion");
    return version >= RCCL_SURE ||
           (version == RCCL_PERHAPS && ask(object, "hipRuntimeGetVersion") >= HIP_OF_ERRORS);
}

const struct mn_logger_levels *mn_logger_levels(ncclDebugLogger_t logger)
{
    void *address;
    Dl_info info;

    memcpy(&address, &logger, sizeof address);
    if (!address || !dladdr(address, &info))
        return &nccl;
    /* The program itself is not found by the name it was started with. */
    void *object = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!object)
        object = dlopen(NULL, RTLD_LAZY);
    if (!object)
        return &nccl;
    const struct mn_logger_levels *levels = has_errors(object) ? &rccl : &nccl;
    dlclose(object);
    return levels;
}
