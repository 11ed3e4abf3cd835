/* Devices that only count, for the tests of the cache of registered memory. */
#ifndef MN_VERBS_MEMORY_KIT_H
#define MN_VERBS_MEMORY_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/transport/verbs/device_impl.h"

#define N     3
#define PAGE  ((uint64_t)sysconf(_SC_PAGESIZE))
#define WRITE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* A registration as the library saw it. */
struct region {
    struct ibv_mr mr;
    int access, fd;
    uint64_t iova, offset;
    int relaxed_call;
};

static struct ibv_pd pds[N];
static struct verbs_device devices[N];
static atomic_int calls, live, deregistered, fail_calls;
static atomic_int fail_with, fail_relaxed, fail_device = -1, fail_dereg;
static atomic_int gated;
static sem_t entered, gate;

static inline struct ibv_mr *make(struct ibv_pd *pd, void *addr, size_t length, struct region as)
{
    atomic_fetch_add(&calls, 1);
    if (atomic_exchange(&gated, 0)) {
        sem_post(&entered);
        sem_wait(&gate);
    }
    int failing = atomic_load(&fail_device);
    if (atomic_load(&fail_with) && (failing < 0 || pd == &pds[failing]) &&
        atomic_fetch_sub(&fail_calls, 1) > 0) {
        errno = atomic_load(&fail_with);
        return NULL;
    }
    struct region *region = malloc(sizeof *region);
    assert_non_null(region);
    *region = as;
    region->mr.pd = pd;
    region->mr.addr = addr;
    region->mr.length = length;
    atomic_fetch_add(&live, 1);
    return &region->mr;
}

static inline struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return make(pd, addr, length, (struct region){.access = access, .fd = -1});
}

static inline struct ibv_mr *reg_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                       unsigned access)
{
    if (atomic_load(&fail_relaxed)) {
        errno = atomic_load(&fail_relaxed);
        return NULL;
    }
    return make(pd, addr, length,
                (struct region){.access = (int)access, .fd = -1, .iova = iova, .relaxed_call = 1});
}

static inline struct ibv_mr *reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length,
                                        uint64_t iova, int fd, int access)
{
    if ((access & IBV_ACCESS_RELAXED_ORDERING) && atomic_load(&fail_relaxed)) {
        errno = atomic_load(&fail_relaxed);
        return NULL;
    }
    return make(pd, NULL, length,
                (struct region){.access = access, .fd = fd, .iova = iova, .offset = offset});
}

static inline int dereg(struct ibv_mr *mr)
{
    atomic_fetch_sub(&live, 1);
    atomic_fetch_add(&deregistered, 1);
    free(mr);
    return atomic_load(&fail_dereg);
}

static const struct mn_ibv library = {
    .reg_mr = reg,
    .reg_mr_iova2 = reg_iova2,
    .reg_dmabuf_mr = reg_dmabuf,
    .dereg_mr = dereg,
};

static inline int reset(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++) {
        devices[i] = (struct verbs_device){.ibv = &library, .pd = &pds[i], .index = i};
        snprintf(devices[i].name, sizeof devices[i].name, "rxe%d", i);
    }
    calls = live = deregistered = fail_with = fail_relaxed = fail_dereg = gated = 0;
    fail_calls = 1 << 30;
    fail_device = -1;
    sem_init(&entered, 0, 0);
    sem_init(&gate, 0, 0);
    return 0;
}

static inline int nothing_left(void **state)
{
    (void)state;
    return verbs_memory_count() != 0 || live != 0;
}

static inline const struct region *region(const struct ibv_mr *mr)
{
    return (const struct region *)mr;
}

static inline enum mn_err get(uint32_t bits, uintptr_t data, size_t size,
                              struct verbs_memory **memory, struct mn_diag *diag)
{
    const struct verbs_range range = {(void *)data, size, NCCL_PTR_HOST, 0, -1, 0, 0};
    return verbs_memory_get_on(devices, bits, &range, 0, memory, diag);
}

static inline struct verbs_memory *must_get(uint32_t bits, uintptr_t data, size_t size)
{
    struct verbs_memory *memory = NULL;
    struct mn_diag diag = {0};
    assert_int_equal(get(bits, data, size, &memory, &diag), MN_OK);
    return memory;
}

static inline void put(struct verbs_memory *memory)
{
    struct mn_diag diag;
    assert_int_equal(verbs_memory_put(memory, &diag), MN_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, reset, nothing_left)

#endif
