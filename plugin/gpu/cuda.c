#include "plugin/gpu/cuda.h"

#include <ctype.h>
#include <stdio.h>

#include "plugin/gpu.h"
#include "plugin/gpu/library.h"

#define MAX_DEVICES   64
#define BLOCK         ((size_t)2 << 20)
#define HOPPER        9 /* from this compute capability on, writes are visible in order */
#define DMABUF_NEEDED "DMA-BUF export needs CUDA 11.7, the open kernel modules and Linux 5.12"

static struct mn_gpu_once once = MN_GPU_ONCE;
static struct mn_cuda cu;
static CUcontext contexts[MAX_DEVICES];

static const struct mn_gpu_advice advice[] = {
    {CUDA_ERROR_OUT_OF_MEMORY, MN_ERR_NOMEM,
     "the GPU's memory is used up; nvidia-smi shows by whom"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, MN_ERR_SYS,
     "another process has the GPU for itself (exclusive compute mode), or it is prohibited; see "
     "nvidia-smi -q -d COMPUTE, and share it with nvidia-smi -c DEFAULT"},
    {CUDA_ERROR_NO_DEVICE, MN_ERR_NOTFOUND,
     "no GPU; CUDA_VISIBLE_DEVICES or the container may hide it"},
    {CUDA_ERROR_NOT_PERMITTED, MN_ERR_SYS, "not permitted; check the permissions of /dev/nvidia*"},
    {CUDA_ERROR_NOT_SUPPORTED, MN_ERR_UNSUPPORTED, "this GPU or driver cannot"},
    {CUDA_ERROR_SYSTEM_NOT_READY, MN_ERR_SYS,
     "the machine is still coming up; is nvidia-fabricmanager running where it is needed?"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, MN_ERR_SYS,
     "the kernel's driver and libcuda are of different releases: reboot after an update, and in a "
     "container use the host's libcuda"},
    {CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, MN_ERR_SYS,
     "a forward compatibility libcuda is loaded, which this GPU does not take: update the driver, "
     "or take cuda-compat off LD_LIBRARY_PATH"},
    {CUDA_ERROR_UNKNOWN, MN_ERR_SYS,
     "the driver failed; nvidia-uvm may not be loaded (nvidia-modprobe -u), and dmesg says more"},
    {.text = NULL},
};

static enum mn_err failed(int code, const char *doing, struct mn_diag *diag)
{
    const char *name = NULL;

    (void)cu.error_name(code, &name);
    return mn_gpu_explain("CUDA", doing, code, name, advice, diag);
}

#define TRY(call, doing)                                                                           \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != CUDA_SUCCESS)                                                                 \
            return failed(code_, doing, diag);                                                     \
    } while (0)

static enum mn_err begin(int load, struct mn_diag *diag)
{
    static const char *const names[] = {"libcuda.so.1", NULL};
    static const struct mn_gpu_symbol symbols[] = {
#define X(member, symbol, optional, parameters)                                                    \
    {#symbol, offsetof(struct mn_cuda, member), optional},
        MN_CUDA_FUNCTIONS(X)
#undef X
    };
    int n = 0;
    enum mn_err err = mn_gpu_library_open(names, MN_GPU_HINT, load, symbols,
                                          sizeof symbols / sizeof *symbols, &cu, diag);

    if (err)
        return err;
    TRY(cu.init(0), "initialising the driver");
    TRY(cu.device_count(&n), "counting GPUs");
    return n > 0 ? MN_OK : failed(CUDA_ERROR_NO_DEVICE, "counting GPUs", diag);
}

static enum mn_err cuda_open(int load, struct mn_diag *diag)
{
    return mn_gpu_open_once(&once, begin, load, diag);
}

static enum mn_err cuda_count(int *n, struct mn_diag *diag)
{
    TRY(cu.device_count(n), "counting GPUs");
    if (*n > MAX_DEVICES)
        *n = MAX_DEVICES;
    return MN_OK;
}

static enum mn_err handle_of(int ordinal, int *device, struct mn_diag *diag)
{
    int n;
    enum mn_err err = cuda_count(&n, diag);

    if (!err)
        err = mn_gpu_check_number("CUDA", ordinal, n, diag);
    if (err)
        return err;
    TRY(cu.device_get(device, ordinal), "finding a GPU");
    return MN_OK;
}

/* The device's primary context, which the runtime and NCCL use too. */
static enum mn_err primary(int ordinal, struct mn_diag *diag)
{
    int device;
    enum mn_err err = handle_of(ordinal, &device, diag);

    if (err)
        return err;
    pthread_mutex_lock(&once.lock);
    int code = contexts[ordinal] ? CUDA_SUCCESS : cu.context_retain(&contexts[ordinal], device);
    pthread_mutex_unlock(&once.lock);
    TRY(code, "opening the GPU");
    return MN_OK;
}

/* That context, for the length of one call. */
static enum mn_err enter(int ordinal, struct mn_diag *diag)
{
    enum mn_err err = primary(ordinal, diag);

    if (err)
        return err;
    TRY(cu.context_push(contexts[ordinal]), "entering the GPU's context");
    return MN_OK;
}

static enum mn_err leave(int code, const char *doing, struct mn_diag *diag)
{
    CUcontext context;
    int popped = cu.context_pop(&context);

    TRY(code, doing);
    TRY(popped, "leaving the GPU's context");
    return MN_OK;
}

static enum mn_err cuda_describe(int ordinal, struct mn_gpu_device *info, struct mn_diag *diag)
{
    int device;
    enum mn_err err = handle_of(ordinal, &device, diag);

    if (err)
        return err;
    *info = (struct mn_gpu_device){.name = ""};
    TRY(cu.device_name(info->name, sizeof info->name, device), "naming a GPU");
    TRY(cu.device_pci(info->pci, sizeof info->pci, device), "finding a GPU's PCI address");
    for (char *c = info->pci; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    TRY(cu.device_attribute(&info->unified, CU_DEVICE_ATTRIBUTE_INTEGRATED, device),
        "asking a GPU's kind");
    TRY(cu.device_attribute(&info->capability, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                            device),
        "asking a GPU's generation");
    info->flush = info->capability < HOPPER;
    /* Drivers older than these attributes can have the module, and say so by having it. */
    if (cu.device_attribute(&info->gpu_direct, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
                            device))
        info->gpu_direct = !info->unified;
    if (!cu.range_handle ||
        cu.device_attribute(&info->dmabuf, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device))
        info->dmabuf = 0;
    return MN_OK;
}

static enum mn_err cuda_where(const void *p, struct mn_gpu_place *place, struct mn_diag *diag)
{
    CUdeviceptr base, address = (uintptr_t)p;
    unsigned int type = 0, managed = 0;
    int code = cu.pointer_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);

    *place = (struct mn_gpu_place){.device = -1};
    if (code == CUDA_ERROR_INVALID_VALUE)
        return MN_OK;
    TRY(code, "asking what a pointer is");
    (void)cu.pointer_attribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
    place->kind = managed                      ? MN_GPU_MANAGED
                  : type == CU_MEMORYTYPE_HOST ? MN_GPU_HOST
                                               : MN_GPU_DEVICE;
    TRY(cu.pointer_attribute(&place->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address),
        "asking whose memory a pointer is");
    if (place->kind != MN_GPU_DEVICE)
        return MN_OK;
    TRY(cu.address_range(&base, &place->length, address), "asking for an allocation's range");
    place->base = (void *)(uintptr_t)base;
    return MN_OK;
}

/* Each export is a DMA-BUF of its own here: nothing but this tells that two are one buffer. */
static uint64_t cuda_allocation(const void *p, size_t size)
{
    CUdeviceptr first = (uintptr_t)p, last = first + (size ? size - 1 : 0);
    unsigned long long ids[2] = {0, 0};

    if (cu.pointer_attribute(&ids[0], CU_POINTER_ATTRIBUTE_BUFFER_ID, first) ||
        cu.pointer_attribute(&ids[1], CU_POINTER_ATTRIBUTE_BUFFER_ID, last))
        return 0;
    return ids[0] == ids[1] ? ids[0] : 0;
}

static enum mn_err cuda_alloc(int ordinal, enum mn_gpu_kind kind, size_t size, void **p,
                              struct mn_diag *diag)
{
    CUdeviceptr address = 0;
    enum mn_err err = enter(ordinal, diag);

    if (err)
        return err;
    /* Smaller ones may share a block, and then begin and end inside of pages. */
    size = (size + BLOCK - 1) / BLOCK * BLOCK;
    err = leave(kind == MN_GPU_MANAGED ? cu.alloc_managed(&address, size, CU_MEM_ATTACH_GLOBAL)
                                       : cu.alloc(&address, size),
                "allocating GPU memory", diag);
    *p = (void *)(uintptr_t)address;
    return err;
}

static enum mn_err cuda_free(int ordinal, void *p, struct mn_diag *diag)
{
    enum mn_err err = enter(ordinal, diag);

    return err ? err : leave(cu.free((uintptr_t)p), "freeing GPU memory", diag);
}

/* Copies from pageable memory return before they have arrived (CUDA Driver API, API
 * synchronization behavior). */
static enum mn_err cuda_copy(int ordinal, void *to, const void *from, size_t size,
                             struct mn_diag *diag)
{
    enum mn_err err = enter(ordinal, diag);

    if (err)
        return err;
    int code = cu.copy((uintptr_t)to, (uintptr_t)from, size);
    return leave(code ? code : cu.context_sync(), "copying GPU memory", diag);
}

static enum mn_err cuda_fill(int ordinal, void *p, int byte, size_t size, struct mn_diag *diag)
{
    enum mn_err err = enter(ordinal, diag);

    if (err)
        return err;
    int code = cu.fill((uintptr_t)p, (unsigned char)byte, size);
    return leave(code ? code : cu.context_sync(), "filling GPU memory", diag);
}

static enum mn_err cuda_dmabuf(int ordinal, void *p, size_t size, int *fd, uint64_t *offset,
                               struct mn_diag *diag)
{
    if (!cu.range_handle)
        return mn_fail(diag, MN_ERR_UNSUPPORTED,
                       "CUDA: the driver exports no DMA-BUF: " DMABUF_NEEDED);
    enum mn_err err = enter(ordinal, diag);
    if (err)
        return err;
    int code = cu.range_handle(fd, (uintptr_t)p, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    *offset = 0;
    return leave(code, "exporting GPU memory as a DMA-BUF (" DMABUF_NEEDED ")", diag);
}

static enum mn_err cuda_use(int ordinal, struct mn_diag *diag)
{
    enum mn_err err = primary(ordinal, diag);

    if (err)
        return err;
    TRY(cu.context_set(contexts[ordinal]), "entering the GPU's context");
    return MN_OK;
}

static enum mn_err cuda_stream_new(int ordinal, void **stream, struct mn_diag *diag)
{
    CUstream new = NULL;
    enum mn_err err = enter(ordinal, diag);

    if (err)
        return err;
    err = leave(cu.stream_create(&new, CU_STREAM_NON_BLOCKING), "making a stream", diag);
    *stream = new;
    return err;
}

static enum mn_err cuda_stream_wait(int ordinal, void *stream, struct mn_diag *diag)
{
    enum mn_err err = enter(ordinal, diag);

    return err ? err : leave(cu.stream_sync(stream), "waiting for a stream", diag);
}

static void cuda_stream_free(int ordinal, void *stream)
{
    if (!enter(ordinal, NULL))
        (void)leave(cu.stream_destroy(stream), "ending a stream", NULL);
}

const struct mn_gpu_driver mn_gpu_cuda = {
    .name = "CUDA",
    .option = "cuda",
    .open = cuda_open,
    .count = cuda_count,
    .describe = cuda_describe,
    .where = cuda_where,
    .allocation = cuda_allocation,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .dmabuf = cuda_dmabuf,
    .use = cuda_use,
    .stream_new = cuda_stream_new,
    .stream_wait = cuda_stream_wait,
    .stream_free = cuda_stream_free,
};
