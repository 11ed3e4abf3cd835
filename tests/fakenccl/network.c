#include "tests/fakenccl/fakenccl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 1: it says that it works. */
static int initialise(void *library)
{
    const ncclNet_v11_t *net = dlsym(library, "ncclNetPlugin_v11");
    ncclNetCommConfig_v11_t config = {.trafficClass = -1};
    void *context = NULL;

    if (!net || net->init(&context, 1, &config, fakenccl_logger, NULL))
        return 0;
    net->finalize(context);
    return 1;
}

/* Its name; NULL: there is no such plugin. */
static const char *load(const char *plugin)
{
    char path[600], symbol[32];

    snprintf(path, sizeof path, strchr(plugin, '/') ? "%s" : "libnccl-net-%s.so", plugin);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fakenccl_log("INFO NET/Plugin: Could not find: %s", path);
        return NULL;
    }
    for (int version = 11; version >= 8; version--) {
        snprintf(symbol, sizeof symbol, "ncclNetPlugin_v%d", version);
        const char **table = dlsym(library, symbol);
        if (!table)
            continue;
        if (fakenccl()->plugin && !initialise(library))
            return NULL;
        if (!fakenccl()->shy)
            fakenccl_log("INFO NET/Plugin: Loaded net plugin %s (v%d)", *table, version);
        return *table;
    }
    return NULL;
}

ncclResult_t fakenccl_network(char *network, size_t size)
{
    const char *plugin = getenv("NCCL_NET_PLUGIN"), *wanted = getenv("NCCL_NET");
    const char *name = plugin && strcmp(plugin, "none") != 0 ? load(plugin) : NULL;

    if (fakenccl()->version < 22100 && plugin && strchr(plugin, '/'))
        name = NULL; /* it took names only */
    if (!name || (wanted && strcmp(wanted, name) != 0))
        name = "Socket";
    if (wanted && strcmp(wanted, name) != 0) {
        fakenccl_log("WARN Failed to initialize any NET plugin: NCCL_NET=%s was asked for", wanted);
        return ncclInvalidUsage;
    }
    snprintf(network, size, "%s", name);
    if (!fakenccl()->shy)
        fakenccl_log("INFO Using network %s", name);
    return ncclSuccess;
}
