/* Memory that messages lie in: the host's, or a GPU's through its driver (plugin/gpu.h). */
#ifndef MN_AREA_H
#define MN_AREA_H

#include <stdint.h>

#include "bench/host.h"
#include "plugin/gpu.h"

enum mn_memory_kind { MN_MEMORY_HOST, MN_MEMORY_CUDA, MN_MEMORY_HIP, MN_MEMORY_MANAGED };
#define MN_MEMORY_KINDS   4
#define MN_MEMORY_CHOICES "host|cuda|hip|managed" /* in that order */
extern const char *const mn_memory_names[MN_MEMORY_KINDS];

struct mn_memory {
    const char *name;                /* of the kind: "host" */
    const struct mn_gpu_driver *gpu; /* NULL: the host's own */
    enum mn_gpu_kind kind;
    int device;
};

/* Opens the driver, if one is needed: before the plugin's init, which looks what drivers are loaded
 * already. device -1: the first; numbers above the last one begin again (a rank's, modulo GPUs).
 * Otherwise why there is no such memory here. */
enum mn_err mn_memory_open(enum mn_memory_kind kind, int device, struct mn_memory *memory,
                           struct mn_diag *diag);
/* 1: the process cannot touch it; only mn_area_copy() can. */
int mn_memory_is_apart(const struct mn_memory *memory);

/* Real pages, each byte 0x5a. NULL with *diag filled. Freed with the same size. */
void *mn_area_new(const struct mn_memory *memory, size_t size, struct mn_diag *diag);
void mn_area_free(const struct mn_memory *memory, void *area, size_t size);
/* Registers [area, area + size) as NCCL would: a GPU's as a DMA-BUF where the plugin's device takes
 * them, else by its address where it takes that; MN_ERR_FAILED, with the reason, when it takes host
 * memory alone (NCCL would copy through the host then). *result: of the plugin's call, not 0 when
 * that failed and *diag is not filled. */
enum mn_err mn_area_register(const struct mn_memory *memory, struct mn_plugin *plugin, int dev,
                             void *comm, void *area, size_t size, void **mhandle, int *result,
                             struct mn_diag *diag);
/* Bytes into it, out of it or within it, whoever may touch it; done when it returns. */
enum mn_err mn_area_copy(const struct mn_memory *memory, void *to, const void *from, size_t size,
                         struct mn_diag *diag);

#endif
