/* Registered memory: one cache a process. A registration is refcounted by range and holds one
 * memory region for each device that a connection using it has, made when that connection first
 * registers the range.
 *
 * Nothing outlives its last release: memory may be freed and mapped anew behind a cached entry, and
 * no hook into the allocator is worth having here. */
#ifndef MN_VERBS_MEMORY_H
#define MN_VERBS_MEMORY_H

#include <sys/types.h>

#include "plugin/transport/verbs/device.h"

struct verbs_memory {
    struct ibv_mr *mrs[VERBS_MAX_DEVICES]; /* NULL where no connection asked; written under the
                                              cache's lock before the registration is handed out */
    uint64_t base;                         /* page aligned */
    size_t length;
    int type;  /* NCCL_PTR_HOST, NCCL_PTR_CUDA */
    int local; /* no peer may write there, or read */
    /* private to memory.c */
    int dmabuf;          /* registered as one; its descriptor is the caller's and not kept */
    dev_t dev;           /* file of the DMA-BUF … */
    ino_t ino;           /* … which the kernel's regions keep alive */
    uint64_t offset;     /* in the DMA-BUF, of base */
    uint64_t allocation; /* the GPU driver's number for it, never used again; 0 = not known */
    int references;
    int busy; /* devices are being registered with the lock released */
    struct verbs_device *devices;
    struct verbs_memory *next;
};

/* Registers [data, data + size) with the devices whose bit is set, or takes another reference of an
 * entry for the very same range, type and memory (several registrations of one range by several
 * connections share one). That the memory behind an address is the same is told by the file of the
 * DMA-BUF or, where each export is a new one, by the GPU driver's number of the allocation; what
 * neither tells has an entry of its own. fd is not used after the call. Local and, unless local is
 * set, remote write and remote read; relaxed ordering where asked for and the library knows it. The
 * lock is not held while the kernel registers. On error nothing is left, *diag names device,
 * address, size and, for ENOMEM, the memlock limit. size 0 is registered as one page. Thread-safe.
 */
enum mn_err verbs_memory_get(uint32_t devices, void *data, size_t size, int type, int local, int fd,
                             uint64_t offset, int relaxed, struct verbs_memory **memory,
                             struct mn_diag *diag);
/* Gives one reference back; the last one ends all of its regions before it returns, so that no
 * device can write there any more. */
enum mn_err verbs_memory_put(struct verbs_memory *memory, struct mn_diag *diag);

/* Whether library, kernel and every device register DMA-BUFs: asked with a descriptor that is none,
 * as NCCL does (src/transport/net_ib/gdr.cc). */
int verbs_memory_takes_dmabuf(struct verbs_device *devices, int n);

/* Entries alive, for tests. */
int verbs_memory_count(void);

#endif
