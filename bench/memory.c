#include <stdint.h>
#include <stdio.h>

#include "bench/memory.h"

size_t mn_available_memory(void)
{
    unsigned long long kib = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "re");

    while (file && !kib && fgets(line, sizeof line, file))
        (void)sscanf(line, "MemAvailable: %llu kB", &kib);
    if (file)
        fclose(file);
    return kib && kib < SIZE_MAX / 1024 ? (size_t)kib * 1024 : SIZE_MAX;
}
