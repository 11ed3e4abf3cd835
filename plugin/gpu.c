#include "plugin/gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "topo/base/log.h"

const struct mn_gpu_driver *const mn_gpu_drivers[] = {&mn_gpu_cuda, &mn_gpu_hip, NULL};

const struct mn_gpu_driver *mn_gpu_named(const char *option)
{
    const struct mn_gpu_driver *const *row = mn_gpu_drivers;

    while (*row && strcmp((*row)->option, option) != 0)
        row++;
    return *row;
}

static int bits_of(const struct mn_gpu_driver *gpu)
{
    struct mn_gpu_device info;
    struct mn_diag diag;
    int n = 0, bits = 0;
    enum mn_err err = gpu->count(&n, &diag);

    for (int i = 0; i < n && !err; i++) {
        err = gpu->describe(i, &info, &diag);
        if (err)
            break;
        bits |= (info.gpu_direct ? MN_GPU_CAN_PEER : 0) | (info.dmabuf ? MN_GPU_CAN_DMABUF : 0);
        MN_INFO("%s GPU %d %s (%s): %s", gpu->name, i, info.pci, info.name,
                info.dmabuf       ? "exports DMA-BUFs"
                : info.gpu_direct ? "GPUDirect by a peer memory module only"
                                  : "no GPUDirect, host memory is the way");
    }
    if (err)
        MN_WARN("GPU memory is left to the host: %s", diag.text);
    return err ? 0 : bits;
}

int mn_gpu_loaded(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int said;
    struct mn_diag diag;
    int bits = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; mn_gpu_drivers[i]; i++) {
        enum mn_err err = mn_gpu_drivers[i]->open(0, &diag);
        if (!err)
            bits |= bits_of(mn_gpu_drivers[i]);
        else if (err != MN_ERR_NOTFOUND && !(said >> i & 1)) {
            MN_WARN("GPU memory is left to the host: %s", diag.text);
            said |= 1 << i;
        }
    }
    pthread_mutex_unlock(&lock);
    return bits;
}

uint64_t mn_gpu_allocation(const void *p, size_t size)
{
    uint64_t id = 0;

    for (int i = 0; mn_gpu_drivers[i] && !id; i++)
        if (mn_gpu_drivers[i]->allocation && !mn_gpu_drivers[i]->open(0, NULL))
            id = mn_gpu_drivers[i]->allocation(p, size);
    return id;
}

int mn_gpu_peer_module(const char *sysfs)
{
    static const char *const places[] = {
        "module/nvidia_peermem/version",
        "kernel/mm/memory_peers/nv_mem/version",
        "kernel/mm/memory_peers/nv_mem_nc/version",
        "kernel/mm/memory_peers/amdkfd/version",
        "memory_peers/amdkfd/version",
    };
    char path[512];

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/%s", sysfs ? sysfs : "/sys", places[i]);
        if (access(path, F_OK) == 0)
            return 1;
    }
    return 0;
}
