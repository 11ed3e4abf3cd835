#include "plugin/gpu/hip.h"

#include <ctype.h>
#include <string.h>

#include "plugin/gpu.h"
#include "plugin/gpu/library.h"

static struct mn_gpu_once once = MN_GPU_ONCE;
static struct mn_hip hip;
static int runtime;

static const struct mn_gpu_advice advice[] = {
    {hipErrorOutOfMemory, MN_ERR_NOMEM, "the GPU's memory is used up; rocm-smi shows by whom"},
    {hipErrorInsufficientDriver, MN_ERR_SYS,
     "the kernel's amdgpu driver is older than this ROCm: update it, or use an older ROCm"},
    {hipErrorNoDevice, MN_ERR_NOTFOUND,
     "no GPU; check /dev/kfd and /dev/dri, the groups render and video, and HIP_VISIBLE_DEVICES"},
    {hipErrorNotSupported, MN_ERR_UNSUPPORTED, "this GPU or driver cannot"},
    {.text = NULL},
};

static enum mn_err failed(int code, const char *doing, struct mn_diag *diag)
{
    return mn_gpu_explain("HIP", doing, code, hip.error_name(code), advice, diag);
}

#define TRY(call, doing)                                                                           \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != hipSuccess)                                                                   \
            return failed(code_, doing, diag);                                                     \
    } while (0)

static enum mn_err begin(int load, struct mn_diag *diag)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                        "libamdhip64.so", NULL};
    static const char *const hsa_names[] = {"libhsa-runtime64.so.1", NULL};
    static const struct mn_gpu_symbol symbols[] = {
#define X(member, symbol, optional, parameters)                                                    \
    {#symbol, offsetof(struct mn_hip, member), optional},
        MN_HIP_FUNCTIONS(X)
#undef X
            {"hipGetErrorName", offsetof(struct mn_hip, error_name), 0}};
    static const struct mn_gpu_symbol hsa_symbols[] = {
#define X(member, symbol, optional, parameters)                                                    \
    {#symbol, offsetof(struct mn_hip, member), optional},
        MN_HSA_FUNCTIONS(X)
#undef X
    };
    int n = 0;
    enum mn_err err = mn_gpu_library_open(names, MN_GPU_HINT, load, symbols,
                                          sizeof symbols / sizeof *symbols, &hip, diag);

    if (err)
        return err;
    TRY(hip.init(0), "initialising the runtime");
    TRY(hip.device_count(&n), "counting GPUs");
    if (n < 1)
        return failed(hipErrorNoDevice, "counting GPUs", diag);
    TRY(hip.runtime_version(&runtime), "asking the runtime's version");
    if (mn_gpu_library_open(hsa_names, MN_GPU_HINT, load, hsa_symbols,
                            sizeof hsa_symbols / sizeof *hsa_symbols, &hip, NULL))
        hip.export_dmabuf = NULL;
    return MN_OK;
}

static enum mn_err hip_open(int load, struct mn_diag *diag)
{
    return mn_gpu_open_once(&once, begin, load, diag);
}

static enum mn_err hip_count(int *n, struct mn_diag *diag)
{
    TRY(hip.device_count(n), "counting GPUs");
    return MN_OK;
}

static enum mn_err check(int device, struct mn_diag *diag)
{
    int n;
    enum mn_err err = hip_count(&n, diag);

    return err ? err : mn_gpu_check_number("HIP", device, n, diag);
}

static enum mn_err hip_describe(int device, struct mn_gpu_device *info, struct mn_diag *diag)
{
    enum mn_err err = check(device, diag);

    if (err)
        return err;
    *info =
        (struct mn_gpu_device){.gpu_direct = 1, .dmabuf = hip.export_dmabuf != NULL, .flush = 1};
    TRY(hip.device_name(info->name, sizeof info->name, device), "naming a GPU");
    TRY(hip.device_pci(info->pci, sizeof info->pci, device), "finding a GPU's PCI address");
    for (char *c = info->pci; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return MN_OK;
}

static enum mn_err hip_where(const void *p, struct mn_gpu_place *place, struct mn_diag *diag)
{
    void *address = (void *)(uintptr_t)p;
    int type = 0, managed = 0, host = runtime < MN_HIP_6 ? MN_HIP5_HOST : MN_HIP6_HOST;
    int code = hip.pointer_attribute(&type, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, address);

    *place = (struct mn_gpu_place){.device = -1};
    /* HIP 6 knows pointers that are nobody's: type 0. */
    if (code == hipErrorInvalidValue || (!code && runtime >= MN_HIP_6 && !type))
        return MN_OK;
    TRY(code, "asking what a pointer is");
    (void)hip.pointer_attribute(&managed, HIP_POINTER_ATTRIBUTE_IS_MANAGED, address);
    place->kind = managed ? MN_GPU_MANAGED : type == host ? MN_GPU_HOST : MN_GPU_DEVICE;
    TRY(hip.pointer_attribute(&place->device, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address),
        "asking whose memory a pointer is");
    if (place->kind == MN_GPU_DEVICE)
        TRY(hip.address_range(&place->base, &place->length, address),
            "asking for an allocation's range");
    return MN_OK;
}

/* The thread's current device, for the length of one call. */
static enum mn_err enter(int device, int *before, struct mn_diag *diag)
{
    enum mn_err err = check(device, diag);

    if (err)
        return err;
    TRY(hip.device_current(before), "asking for the current GPU");
    TRY(hip.device_set(device), "choosing the GPU");
    return MN_OK;
}

static enum mn_err leave(int before, int code, const char *doing, struct mn_diag *diag)
{
    (void)hip.device_set(before);
    TRY(code, doing);
    return MN_OK;
}

static enum mn_err hip_alloc(int device, enum mn_gpu_kind kind, size_t size, void **p,
                             struct mn_diag *diag)
{
    int before;
    enum mn_err err = enter(device, &before, diag);

    *p = NULL;
    if (err)
        return err;
    return leave(before,
                 kind == MN_GPU_MANAGED ? hip.alloc_managed(p, size, hipMemAttachGlobal)
                                        : hip.alloc(p, size),
                 "allocating GPU memory", diag);
}

static enum mn_err hip_free(int device, void *p, struct mn_diag *diag)
{
    int before;
    enum mn_err err = enter(device, &before, diag);

    return err ? err : leave(before, hip.free(p), "freeing GPU memory", diag);
}

static enum mn_err hip_copy(int device, void *to, const void *from, size_t size,
                            struct mn_diag *diag)
{
    int before;
    enum mn_err err = enter(device, &before, diag);

    if (err)
        return err;
    int code = hip.copy(to, from, size, hipMemcpyDefault);
    return leave(before, code ? code : hip.device_sync(), "copying GPU memory", diag);
}

static enum mn_err hip_fill(int device, void *p, int byte, size_t size, struct mn_diag *diag)
{
    int before;
    enum mn_err err = enter(device, &before, diag);

    if (err)
        return err;
    int code = hip.fill(p, byte, size);
    return leave(before, code ? code : hip.device_sync(), "filling GPU memory", diag);
}

static enum mn_err hip_dmabuf(int device, void *p, size_t size, int *fd, uint64_t *offset,
                              struct mn_diag *diag)
{
    (void)device;
    int status = hip.export_dmabuf ? hip.export_dmabuf(p, size, fd, offset) : -1;
    if (status)
        return mn_fail(diag, MN_ERR_UNSUPPORTED,
                       "HIP: exporting GPU memory as a DMA-BUF (status 0x%x) needs ROCm 5.6 and a "
                       "kernel with CONFIG_PCI_P2PDMA and CONFIG_DMABUF_MOVE_NOTIFY",
                       (unsigned)status);
    return MN_OK;
}

static enum mn_err hip_use(int device, struct mn_diag *diag)
{
    enum mn_err err = check(device, diag);

    if (err)
        return err;
    TRY(hip.device_set(device), "choosing the GPU");
    return MN_OK;
}

static enum mn_err hip_stream_new(int device, void **stream, struct mn_diag *diag)
{
    hipStream_t new = NULL;
    int before;
    enum mn_err err = enter(device, &before, diag);

    if (err)
        return err;
    err = leave(before, hip.stream_create(&new, hipStreamNonBlocking), "making a stream", diag);
    *stream = new;
    return err;
}

static enum mn_err hip_stream_wait(int device, void *stream, struct mn_diag *diag)
{
    int before;
    enum mn_err err = enter(device, &before, diag);

    return err ? err : leave(before, hip.stream_sync(stream), "waiting for a stream", diag);
}

static void hip_stream_free(int device, void *stream)
{
    int before;

    if (!enter(device, &before, NULL))
        (void)leave(before, hip.stream_destroy(stream), "ending a stream", NULL);
}

const struct mn_gpu_driver mn_gpu_hip = {
    .name = "HIP",
    .option = "hip",
    .open = hip_open,
    .count = hip_count,
    .describe = hip_describe,
    .where = hip_where,
    .alloc = hip_alloc,
    .free = hip_free,
    .copy = hip_copy,
    .fill = hip_fill,
    .dmabuf = hip_dmabuf,
    .use = hip_use,
    .stream_new = hip_stream_new,
    .stream_wait = hip_stream_wait,
    .stream_free = hip_stream_free,
};
