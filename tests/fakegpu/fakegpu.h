/* A double of GPU drivers: device memory that no load or store of the process may touch, copies in
 * and out of it, and DMA-BUFs of it that the libibverbs double can map (FAKEVERBS=dmabuf=1).
 *
 * LD_LIBRARY_PATH=build/<preset>/tests/fakegpu offers libcuda.so.1, libamdhip64.so.6 and
 * libhsa-runtime64.so.1. FAKEGPU="key=value,…" with the keys of struct fakegpu_config. */
#ifndef FAKEGPU_H
#define FAKEGPU_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

struct fakegpu_config {
    long devices;    /* 1; 0: a driver without a GPU */
    long dmabuf;     /* 1: memory can be exported */
    long direct;     /* 1: the device says that peer memory modules can have it */
    long integrated; /* 0 */
    long major;      /* 8: compute capability */
    long cpu;        /* 0; 1: device memory may be touched, as where a BAR is mapped */
    long init;       /* code that initialising returns */
    long open;       /* code that opening a device returns */
    long export;     /* code that exporting returns */
    long anew; /* 1: each export of CUDA is a file of its own, as the driver's is; 0: the bytes */
    long hip;  /* 60000000: version of the HIP runtime */
};

enum fakegpu_kind { FAKEGPU_NONE, FAKEGPU_DEVICE, FAKEGPU_MANAGED };

const struct fakegpu_config *fakegpu(void);

/* What a driver keeps for each thread. No thread-local variable: LeakSanitizer loses its way in
 * those of libraries opened at run time. */
struct fakegpu_thread {
    int stack[8], depth; /* CUDA's contexts */
    int current;         /* HIP's device */
};
struct fakegpu_thread *fakegpu_thread(void);

/* NULL: none left. */
void *fakegpu_alloc(int device, enum fakegpu_kind kind, size_t size);
/* 0, or 1 when p is not what an allocation gave. */
int fakegpu_free(void *p);
/* Of any pointer; base and size may be NULL. */
enum fakegpu_kind fakegpu_where(const void *p, int *device, void **base, size_t *size);
/* 0, or 1 when a range is neither ordinary memory nor inside one allocation. */
int fakegpu_copy(void *to, const void *from, size_t size);
int fakegpu_fill(void *p, int byte, size_t size);
/* A number that no other allocation has; 0: not device memory. */
uint64_t fakegpu_id(const void *p);
/* A descriptor of the whole allocation, and where p lies in it; -1: not device memory. */
int fakegpu_export(const void *p, size_t size, uint64_t *offset);
/* The same as a file of its own each time, which begins with FAKEGPU_ALIAS and the descriptor that
 * it stands for: the libibverbs double looks behind it, as the kernel does. */
#define FAKEGPU_ALIAS "DMA-BUF of descriptor "
int fakegpu_export_anew(const void *p, size_t size, uint64_t *offset);
/* The file with the bytes, to be closed: of the descriptor itself, or what it stands for. */
static inline int fakegpu_file(int fd)
{
    char text[64] = "", path[48];
    int behind;

    if (pread(fd, text, sizeof text - 1, 0) <= 0 || sscanf(text, FAKEGPU_ALIAS "%d", &behind) != 1)
        return fcntl(fd, F_DUPFD_CLOEXEC, 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", behind);
    return open(path, O_RDWR | O_CLOEXEC);
}

#endif
