#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/plugin_path.h"

#define LIBRARY "libnccl-net-mesh.so"
#ifndef MN_LIBDIR /* where CMake installs it */
#define MN_LIBDIR "lib"
#endif

void mn_plugin_path(const char *given, char *path, size_t size)
{
    static const char *const places[] = {"../lib/", "", "../" MN_LIBDIR "/"};
    char exe[512];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

    if (given) {
        snprintf(path, size, "%s", given);
        return;
    }
    exe[n > 0 ? n : 0] = 0;
    char *slash = strrchr(exe, '/');
    for (int i = 0; slash && i < 3; i++) {
        slash[1] = 0;
        snprintf(path, size, "%s%s%s", exe, places[i], LIBRARY);
        if (access(path, R_OK) == 0)
            return;
    }
    snprintf(path, size, "%s", LIBRARY);
}
