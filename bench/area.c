#include "bench/area.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NEW_BYTE 0x5a

const char *const mn_memory_names[MN_MEMORY_KINDS] = {"host", "cuda", "hip", "managed"};

enum mn_err mn_memory_open(enum mn_memory_kind kind, int device, struct mn_memory *memory,
                           struct mn_diag *diag)
{
    static const struct {
        const char *drivers[3]; /* the first that there is */
        enum mn_gpu_kind kind;
    } kinds[MN_MEMORY_KINDS] = {
        [MN_MEMORY_HOST] = {{NULL}, MN_GPU_HOST},
        [MN_MEMORY_CUDA] = {{"cuda"}, MN_GPU_DEVICE},
        [MN_MEMORY_HIP] = {{"hip"}, MN_GPU_DEVICE},
        [MN_MEMORY_MANAGED] = {{"cuda", "hip"}, MN_GPU_MANAGED},
    };
    enum mn_err err = MN_OK;
    int n;

    *memory = (struct mn_memory){.name = mn_memory_names[kind], .kind = kinds[kind].kind};
    for (int i = 0; kinds[kind].drivers[i]; i++) {
        const struct mn_gpu_driver *gpu = mn_gpu_named(kinds[kind].drivers[i]);
        err = gpu->open(1, diag);
        if (err == MN_ERR_NOTFOUND)
            continue;
        memory->gpu = gpu;
        break;
    }
    if (!err && memory->gpu)
        err = memory->gpu->count(&n, diag);
    if (!err && memory->gpu)
        memory->device = device < 0 ? 0 : device % n;
    return err;
}

int mn_memory_is_apart(const struct mn_memory *memory)
{
    return memory->kind == MN_GPU_DEVICE;
}

void *mn_area_new(const struct mn_memory *memory, size_t size, struct mn_diag *diag)
{
    void *area;

    if (memory->gpu) {
        if (memory->gpu->alloc(memory->device, memory->kind, size, &area, diag))
            return NULL;
        if (!memory->gpu->fill(memory->device, area, NEW_BYTE, size, diag))
            return area;
        (void)memory->gpu->free(memory->device, area, NULL);
        return NULL;
    }
    area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED) {
        mn_fail_errno(diag, "%zu bytes for message buffers (see --buffers)", size);
        return NULL;
    }
    memset(area, NEW_BYTE, size); /* real pages, not the shared zero page */
    return area;
}

void mn_area_free(const struct mn_memory *memory, void *area, size_t size)
{
    if (memory->gpu)
        (void)memory->gpu->free(memory->device, area, NULL);
    else
        munmap(area, size);
}

static enum mn_err register_dmabuf(const struct mn_memory *memory, struct mn_plugin *plugin,
                                   void *comm, void *area, size_t size, void **mhandle, int *result,
                                   struct mn_diag *diag)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t offset;
    int fd;
    /* Drivers export whole pages; an allocation ends with one. */
    enum mn_err err = memory->gpu->dmabuf(memory->device, area, (size + page - 1) / page * page,
                                          &fd, &offset, diag);

    if (err)
        return err;
    *result = mn_plugin_reg_dmabuf(plugin, comm, area, size, NCCL_PTR_CUDA, offset, fd, mhandle);
    close(fd);
    return MN_OK;
}

enum mn_err mn_area_register(const struct mn_memory *memory, struct mn_plugin *plugin, int dev,
                             void *comm, void *area, size_t size, void **mhandle, int *result,
                             struct mn_diag *diag)
{
    struct mn_plugin_props props = {.net = {.ptr_support = NCCL_PTR_HOST}};

    *result = 0;
    if (!mn_memory_is_apart(memory)) {
        *result = mn_plugin_reg_mr(plugin, comm, area, size, NCCL_PTR_HOST, mhandle);
        return MN_OK;
    }
    (void)mn_plugin_properties(plugin, dev, &props);
    if (props.net.ptr_support & NCCL_PTR_DMABUF && mn_plugin_has_dmabuf(plugin))
        return register_dmabuf(memory, plugin, comm, area, size, mhandle, result, diag);
    if (props.net.ptr_support & NCCL_PTR_CUDA) {
        *result = mn_plugin_reg_mr(plugin, comm, area, size, NCCL_PTR_CUDA, mhandle);
        return MN_OK;
    }
    return mn_fail(diag, MN_ERR_FAILED,
                   "--memory %s: the plugin's device %d takes host memory only (ptrSupport 0x%x), "
                   "so NCCL would copy through the host: RDMA on every NIC, and DMA-BUF or a peer "
                   "memory module (nvidia_peermem, amdgpu) are needed",
                   memory->name, dev, props.net.ptr_support);
}

enum mn_err mn_area_copy(const struct mn_memory *memory, void *to, const void *from, size_t size,
                         struct mn_diag *diag)
{
    if (mn_memory_is_apart(memory) && size)
        return memory->gpu->copy(memory->device, to, from, size, diag);
    if (size)
        memcpy(to, from, size);
    return MN_OK;
}
