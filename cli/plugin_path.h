/* Which plugin file a command drives. */
#ifndef MN_PLUGIN_PATH_H
#define MN_PLUGIN_PATH_H

#include <stddef.h>

#include "bench/host.h"
#include "topo/base/opt.h"

/* given, when not NULL; else libnccl-net-mesh.so beside this program (., ../lib), else its bare
 * name for the loader's own search. */
void mn_plugin_path(const char *given, char *path, size_t size);

/* What a process here would not find of the libraries that a plugin is linked with, and of their
 * versions: "libX.so.1, GLIBC_2.38". NULL = nothing, or not known; else the caller frees it. */
char *mn_plugin_lacks(const char *path);

/* The rows of commands that drive a plugin: owner has const char *plugin, long abi and device. */
#define MN_PLUGIN_OPTIONS(owner)                                                                   \
    {.name = "plugin",                                                                             \
     .type = MN_OPT_STRING,                                                                        \
     .arg = "FILE",                                                                                \
     .offset = offsetof(owner, plugin),                                                            \
     .help = "Network plugin to drive; default: meshnet's own."},                                  \
        {.name = "abi",                                                                            \
         .type = MN_OPT_INT,                                                                       \
         .arg = "N",                                                                               \
         .offset = offsetof(owner, abi),                                                           \
         .min = MN_HOST_OLDEST,                                                                    \
         .max = MN_HOST_NEWEST,                                                                    \
         .help = "Drive this ABI version; default: the newest the plugin has."},                   \
    {                                                                                              \
        .name = "device", .type = MN_OPT_INT, .arg = "N", .def = "0",                              \
        .offset = offsetof(owner, device), .min = 0, .max = 127, .help = "Device of the plugin."   \
    }

#endif
