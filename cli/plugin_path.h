/* Which plugin file a command drives. */
#ifndef MN_PLUGIN_PATH_H
#define MN_PLUGIN_PATH_H

#include <stddef.h>

/* given, when not NULL; else libnccl-net-mesh.so beside this program (., ../lib), else its bare
 * name for the loader's own search. */
void mn_plugin_path(const char *given, char *path, size_t size);

#endif
