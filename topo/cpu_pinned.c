/* The kernel's answer, without hwloc. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "topo/cpu.h"

#define MOST 8192

void mn_cpu_pinned(char text[MN_CPU_TEXT])
{
    cpu_set_t *set = CPU_ALLOC(MOST);
    size_t size = CPU_ALLOC_SIZE(MOST), used = 0;

    text[0] = 0;
    if (set && !sched_getaffinity(0, size, set) &&
        CPU_COUNT_S(size, set) < sysconf(_SC_NPROCESSORS_ONLN))
        for (int cpu = 0, last; cpu < MOST && used < MN_CPU_TEXT; cpu = last + 1) {
            last = cpu;
            if (!CPU_ISSET_S((size_t)cpu, size, set))
                continue;
            while (last + 1 < MOST && CPU_ISSET_S((size_t)last + 1, size, set))
                last++;
            used += (size_t)snprintf(text + used, MN_CPU_TEXT - used,
                                     last > cpu ? "%s%d-%d" : "%s%d", used ? "," : "", cpu, last);
        }
    CPU_FREE(set);
}
