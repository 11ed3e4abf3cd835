#include "plugin/transport/verbs/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/gpu.h"
#include "plugin/transport/verbs/device_impl.h"
#include "topo/base/alloc.h"

#define BUCKETS 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_busy = PTHREAD_COND_INITIALIZER;
static struct verbs_memory *buckets[BUCKETS];
static int alive;

static struct verbs_memory **bucket_of(uint64_t base)
{
    return &buckets[(base >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

/* The kernel registers whole pages anyway, and neighbours in one page then share an entry. A
 * DMA-BUF is taken as it is given: its offset and its address move together. */
static enum mn_err set_range(const struct verbs_range *range, struct verbs_memory *key,
                             struct mn_diag *diag)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    /* Of no bytes one page is taken: the next may not be there. */
    uint64_t least = range->fd < 0 ? 1 : page;
    uint64_t base = (uint64_t)(uintptr_t)range->data, size = range->size ? range->size : least;
    if (base + size < base || base + size > UINT64_MAX - page)
        return mn_fail(diag, MN_ERR_USAGE,
                       "memory at %p of %zu bytes cannot be registered: it ends beyond the address "
                       "space",
                       range->data, range->size);
    uint64_t end = base + size;
    if (range->fd < 0) {
        base &= ~(page - 1);
        end = (end + page - 1) & ~(page - 1);
    }
    key->base = base;
    key->length = end - base;
    key->type = range->type;
    key->local = range->local;
    key->allocation = range->allocation;
    if (range->fd < 0)
        return MN_OK;
    struct stat file;
    if (fstat(range->fd, &file) != 0)
        return mn_fail_errno(diag, "descriptor %d is no DMA-BUF of the memory at %p", range->fd,
                             range->data);
    key->dmabuf = 1;
    key->offset = range->offset;
    key->dev = file.st_dev;
    key->ino = file.st_ino;
    return MN_OK;
}

/* Descriptors differ from call to call. Each DMA-BUF has an inode of its own (Linux 5.3; RDMA takes
 * them since 5.12), whose number cannot come again while a region holds the buffer. */
static int same_memory(const struct verbs_memory *a, const struct verbs_memory *b)
{
    if (a->dmabuf != b->dmabuf)
        return 0;
    if (a->dmabuf && a->dev == b->dev && a->ino == b->ino && a->offset == b->offset)
        return 1;
    return a->allocation == b->allocation && (a->allocation || !a->dmabuf);
}

static struct verbs_memory *find(const struct verbs_memory *key)
{
    struct verbs_memory *memory = *bucket_of(key->base);
    while (memory &&
           !(memory->base == key->base && memory->length == key->length &&
             memory->type == key->type && memory->local == key->local && same_memory(memory, key)))
        memory = memory->next;
    return memory;
}

static enum mn_err insert(const struct verbs_memory *key, struct verbs_memory **result,
                          struct mn_diag *diag)
{
    struct verbs_memory *memory = malloc(sizeof *memory);
    if (!memory)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory to remember a registration");
    *memory = *key;
    struct verbs_memory **bucket = bucket_of(key->base);
    memory->next = *bucket;
    *bucket = memory;
    alive++;
    *result = memory;
    return MN_OK;
}

static void unlink_locked(struct verbs_memory *memory)
{
    struct verbs_memory **at = bucket_of(memory->base);
    while (*at != memory)
        at = &(*at)->next;
    *at = memory->next;
    alive--;
}

static enum mn_err explain(const struct verbs_device *device, const struct verbs_memory *memory,
                           int error, struct mn_diag *diag)
{
    char what[160], limit_text[32] = "unlimited";
    struct rlimit limit;
    snprintf(what, sizeof what, "%s cannot register %zu bytes at 0x%llx%s", device->name,
             memory->length, (unsigned long long)memory->base,
             memory->dmabuf ? " of a DMA-BUF" : "");
    switch (error) {
    case ENOMEM:
        if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
            mn_format_size(limit.rlim_cur, limit_text, sizeof limit_text);
        return mn_fail(diag, MN_ERR_NOMEM,
                       "%s: %s; locked memory (RLIMIT_MEMLOCK) is limited to %s: raise it with "
                       "\"ulimit -l unlimited\", memlock in /etc/security/limits.conf or "
                       "LimitMEMLOCK=infinity of the service",
                       what, strerror(error), limit_text);
    case EFAULT:
        return mn_fail(diag, MN_ERR_USAGE, "%s: %s; %s", what, strerror(error),
                       memory->type == NCCL_PTR_CUDA
                           ? "it is GPU memory, which needs DMA-BUF or the driver's peer memory "
                             "module (nvidia-peermem, amdgpu)"
                           : "it is not mapped, or mapped read-only");
    case EPERM:
    case EACCES:
        return mn_fail(diag, MN_ERR_SYS,
                       "%s: %s; in a container, pass /dev/infiniband through and lift the limit on "
                       "locked memory",
                       what, strerror(error));
    case ENODEV:
    case EIO:
    case EINVAL:
        return mn_fail(
            diag, MN_ERR_SYS, "%s: %s%s", what, strerror(error),
            memory->type != NCCL_PTR_CUDA
                ? ""
                : "; GPU and NIC may not reach each other: they need a common PCIe root, "
                  "an IOMMU that is off or in passthrough (iommu=pt), and no ACS "
                  "redirection between them; NCCL_DMABUF_ENABLE=0 and "
                  "NCCL_NET_GDR_LEVEL=LOC go round it");
    case EOPNOTSUPP:
    case EPROTONOSUPPORT:
        return mn_fail(diag, MN_ERR_UNSUPPORTED, "%s: %s", what, strerror(error));
    default:
        return mn_fail(diag, MN_ERR_SYS, "%s: %s", what, strerror(error));
    }
}

static struct ibv_mr *register_as(const struct verbs_device *device,
                                  const struct verbs_memory *memory, const struct verbs_range *from,
                                  int relaxed)
{
    const struct mn_ibv *ibv = device->ibv;
    int access = IBV_ACCESS_LOCAL_WRITE;
    void *base = (void *)(uintptr_t)memory->base;
    if (!memory->local)
        access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (relaxed)
        access |= IBV_ACCESS_RELAXED_ORDERING;
    if (memory->dmabuf)
        return ibv->reg_dmabuf_mr(device->pd, from->offset, memory->length, memory->base, from->fd,
                                  access);
    if (relaxed)
        return ibv->reg_mr_iova2(device->pd, base, memory->length, memory->base, (unsigned)access);
    return ibv->reg_mr(device->pd, base, memory->length, access);
}

static enum mn_err register_one(const struct verbs_device *device,
                                const struct verbs_memory *memory, const struct verbs_range *from,
                                int relaxed, struct ibv_mr **mr, struct mn_diag *diag)
{
    errno = 0;
    *mr = register_as(device, memory, from, relaxed);
    /* Relaxed ordering is a wish: old libraries, kernels and devices refuse it. */
    if (!*mr && relaxed && (errno == EOPNOTSUPP || errno == EINVAL))
        *mr = register_as(device, memory, from, 0);
    return *mr ? MN_OK : explain(device, memory, errno, diag);
}

static enum mn_err end_regions(const struct verbs_memory *memory,
                               struct ibv_mr *const mrs[VERBS_MAX_DEVICES], struct mn_diag *diag)
{
    enum mn_err err = MN_OK;
    for (int i = 0; i < VERBS_MAX_DEVICES; i++) {
        if (!mrs[i])
            continue;
        int result = memory->devices[i].ibv->dereg_mr(mrs[i]);
        if (result != 0)
            err = mn_fail(diag, MN_ERR_SYS,
                          "%s cannot end the registration of %zu bytes at 0x%llx: %s",
                          memory->devices[i].name, memory->length, (unsigned long long)memory->base,
                          strerror(result > 0 ? result : errno));
    }
    return err;
}

static uint32_t missing(const struct verbs_memory *memory, uint32_t bits)
{
    for (int i = 0; i < VERBS_MAX_DEVICES; i++)
        if (memory->mrs[i])
            bits &= ~(UINT32_C(1) << i);
    return bits;
}

/* Called and left with the lock held, and without it while the kernel works. All or nothing. */
static enum mn_err add_regions(struct verbs_memory *memory, const struct verbs_range *from,
                               uint32_t bits, int relaxed, struct mn_diag *diag)
{
    struct ibv_mr *mrs[VERBS_MAX_DEVICES] = {0};
    enum mn_err err = MN_OK;
    memory->busy = 1;
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < VERBS_MAX_DEVICES && err == MN_OK; i++)
        if (bits >> i & 1)
            err = register_one(&memory->devices[i], memory, from, relaxed, &mrs[i], diag);
    if (err != MN_OK)
        end_regions(memory, mrs, NULL);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < VERBS_MAX_DEVICES && err == MN_OK; i++)
        if (mrs[i])
            memory->mrs[i] = mrs[i];
    memory->busy = 0;
    pthread_cond_broadcast(&not_busy);
    return err;
}

static enum mn_err destroy(struct verbs_memory *memory, struct mn_diag *diag)
{
    enum mn_err err = end_regions(memory, memory->mrs, diag);
    free(memory);
    return err;
}

enum mn_err verbs_memory_get_on(struct verbs_device *devices, uint32_t bits,
                                const struct verbs_range *range, int relaxed,
                                struct verbs_memory **result, struct mn_diag *diag)
{
    struct verbs_memory key = {.devices = devices};
    enum mn_err err = set_range(range, &key, diag);
    if (err != MN_OK)
        return err;
    pthread_mutex_lock(&lock);
    struct verbs_memory *memory = find(&key);
    if (!memory)
        err = insert(&key, &memory, diag);
    if (err != MN_OK) {
        pthread_mutex_unlock(&lock);
        return err;
    }
    memory->references++;
    while (memory->busy)
        pthread_cond_wait(&not_busy, &lock);
    uint32_t wanted = missing(memory, bits);
    if (wanted)
        err = add_regions(memory, range, wanted, relaxed, diag);
    int last = err != MN_OK && --memory->references == 0;
    if (last)
        unlink_locked(memory);
    pthread_mutex_unlock(&lock);
    if (err == MN_OK)
        *result = memory;
    else if (last)
        destroy(memory, NULL);
    return err;
}

enum mn_err verbs_memory_get(uint32_t bits, void *data, size_t size, int type, int local, int fd,
                             uint64_t offset, int relaxed, struct verbs_memory **memory,
                             struct mn_diag *diag)
{
    struct verbs_device *devices;
    int n = verbs_devices(&devices);
    if (n < VERBS_MAX_DEVICES && bits >> n != 0)
        return mn_fail(diag, MN_ERR_INTERNAL, "devices 0x%x asked for, there are %d", bits, n);
    const struct verbs_range range = {data,
                                      size,
                                      type,
                                      local,
                                      fd,
                                      offset,
                                      type == NCCL_PTR_HOST ? 0 : mn_gpu_allocation(data, size)};
    return verbs_memory_get_on(devices, bits, &range, relaxed, memory, diag);
}

int verbs_memory_takes_dmabuf(struct verbs_device *devices, int n)
{
    for (int i = 0; i < n; i++) {
        errno = 0;
        struct ibv_mr *mr = devices[i].ibv->reg_dmabuf_mr(devices[i].pd, 0, 0, 0, -1, 0);
        if (mr)
            (void)devices[i].ibv->dereg_mr(mr);
        else if (errno == EOPNOTSUPP || errno == EPROTONOSUPPORT)
            return 0;
    }
    return n > 0;
}

enum mn_err verbs_memory_put(struct verbs_memory *memory, struct mn_diag *diag)
{
    pthread_mutex_lock(&lock);
    int last = --memory->references == 0;
    if (last)
        unlink_locked(memory);
    pthread_mutex_unlock(&lock);
    return last ? destroy(memory, diag) : MN_OK;
}

int verbs_memory_count(void)
{
    pthread_mutex_lock(&lock);
    int count = alive;
    pthread_mutex_unlock(&lock);
    return count;
}
