/* GPUs, through their drivers' own libraries, opened at run time: one row a vendor.
 *
 * The CUDA driver (libcuda.so.1) and the HIP runtime (libamdhip64.so) are neither linked nor needed
 * to build. A library or a device that is absent is normal and no error worth a line; one that is
 * there and does not work is explained, with what to do.
 *
 * All functions are thread-safe and may block in the driver: never called on the data path. None
 * but use() changes the calling thread's current device or context. */
#ifndef MN_GPU_H
#define MN_GPU_H

#include <stddef.h>
#include <stdint.h>

#include "topo/base/err.h"

enum mn_gpu_kind {
    MN_GPU_UNKNOWN, /* not the driver's: ordinary host memory, or nothing at all */
    MN_GPU_HOST,    /* host memory that the driver has pinned */
    MN_GPU_DEVICE,
    MN_GPU_MANAGED, /* moves between host and device as it is used */
};

struct mn_gpu_device {
    char name[64];
    char pci[16];   /* "0000:65:00.0", lower case, as in sysfs */
    int gpu_direct; /* a peer memory module (nvidia_peermem, amdgpu) can hand it to a NIC */
    int dmabuf;     /* its memory can be exported as a DMA-BUF */
    int unified;    /* it has no memory of its own (GB10, Strix Halo): host memory is as near */
    int capability; /* CUDA: major compute capability; 0 = not known */
    int flush;      /* what a NIC wrote may become visible after its completion: read it back */
};

struct mn_gpu_place {
    enum mn_gpu_kind kind;
    int device;    /* of device and managed memory */
    void *base;    /* of the allocation, for device memory */
    size_t length; /* from base */
};

struct mn_gpu_driver {
    const char *name;   /* "CUDA" */
    const char *option; /* "cuda" */
    /* The library in this process and initialised: loaded when it must be, else only when somebody
     * has loaded it already. MN_ERR_NOTFOUND: no library, or no device; else what is wrong. The
     * first call decides for all that follow, but that a library not found may come. */
    enum mn_err (*open)(int load, struct mn_diag *diag);
    /* --- what follows needs open() to have succeeded --- */
    enum mn_err (*count)(int *n, struct mn_diag *diag);
    enum mn_err (*describe)(int device, struct mn_gpu_device *info, struct mn_diag *diag);
    enum mn_err (*where)(const void *p, struct mn_gpu_place *place, struct mn_diag *diag);
    /* MN_GPU_DEVICE or MN_GPU_MANAGED; whole pages, whatever the size. The caller frees. */
    enum mn_err (*alloc)(int device, enum mn_gpu_kind kind, size_t size, void **p,
                         struct mn_diag *diag);
    enum mn_err (*free)(int device, void *p, struct mn_diag *diag);
    /* Between any two kinds of memory; done when it returns. device: whose memory takes part. */
    enum mn_err (*copy)(int device, void *to, const void *from, size_t size, struct mn_diag *diag);
    enum mn_err (*fill)(int device, void *p, int byte, size_t size, struct mn_diag *diag);
    /* A number that no other allocation of the process ever has, of the one that holds all of
     * [p, p + size); 0: not known. NULL: the driver has none, but exports a buffer as one file. */
    uint64_t (*allocation)(const void *p, size_t size);
    /* A descriptor, the caller's to close, for [p, p + size), which begins at *offset of it. p and
     * size are multiples of the page size. MN_ERR_UNSUPPORTED: what is missing. */
    enum mn_err (*dmabuf)(int device, void *p, size_t size, int *fd, uint64_t *offset,
                          struct mn_diag *diag);
    /* The calling thread's current device from now on, as libraries that work on one expect it. */
    enum mn_err (*use)(int device, struct mn_diag *diag);
    /* A stream that waits for no other: cudaStream_t or hipStream_t. */
    enum mn_err (*stream_new)(int device, void **stream, struct mn_diag *diag);
    /* Returns when all that it was given is done. */
    enum mn_err (*stream_wait)(int device, void *stream, struct mn_diag *diag);
    void (*stream_free)(int device, void *stream);
};

/* NULL-terminated. */
extern const struct mn_gpu_driver *const mn_gpu_drivers[];
/* By option name; NULL = none of that name. */
const struct mn_gpu_driver *mn_gpu_named(const char *option);

/* Bits of what GPU memory could be given to a NIC, from the drivers that are loaded in this process
 * already: looks, loads nothing. Says once at WARN when a driver is there and broken. */
enum { MN_GPU_CAN_PEER = 1, MN_GPU_CAN_DMABUF = 2 };
int mn_gpu_loaded(void);

/* Which allocation holds all of [p, p + size), as the loaded drivers number them; 0: not known. */
uint64_t mn_gpu_allocation(const void *p, size_t size);

/* Whether a kernel module is loaded that lets RDMA devices register GPU memory by its address: as
 * NCCL looks for it (src/transport/net_ib/gdr.cc), and RCCL. sysfs: NULL = "/sys". */
int mn_gpu_peer_module(const char *sysfs);

/* The rows. */
extern const struct mn_gpu_driver mn_gpu_cuda, mn_gpu_hip;

#endif
