/* The cache of registered memory, over devices that only count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

static struct ibv_mr *make(struct ibv_pd *pd, void *addr, size_t length, struct region as)
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

static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return make(pd, addr, length, (struct region){.access = access, .fd = -1});
}

static struct ibv_mr *reg_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned access)
{
    if (atomic_load(&fail_relaxed)) {
        errno = atomic_load(&fail_relaxed);
        return NULL;
    }
    return make(pd, addr, length,
                (struct region){.access = (int)access, .fd = -1, .iova = iova, .relaxed_call = 1});
}

static struct ibv_mr *reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access)
{
    if ((access & IBV_ACCESS_RELAXED_ORDERING) && atomic_load(&fail_relaxed)) {
        errno = atomic_load(&fail_relaxed);
        return NULL;
    }
    return make(pd, NULL, length,
                (struct region){.access = access, .fd = fd, .iova = iova, .offset = offset});
}

static int dereg(struct ibv_mr *mr)
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

static int reset(void **state)
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

static int nothing_left(void **state)
{
    (void)state;
    return verbs_memory_count() != 0 || live != 0;
}

static const struct region *region(const struct ibv_mr *mr)
{
    return (const struct region *)mr;
}

static enum mn_err get(uint32_t bits, uintptr_t data, size_t size, struct verbs_memory **memory,
                       struct mn_diag *diag)
{
    const struct verbs_range range = {(void *)data, size, NCCL_PTR_HOST, -1, 0, 0};
    return verbs_memory_get_on(devices, bits, &range, 0, memory, diag);
}

static struct verbs_memory *must_get(uint32_t bits, uintptr_t data, size_t size)
{
    struct verbs_memory *memory = NULL;
    struct mn_diag diag = {0};
    assert_int_equal(get(bits, data, size, &memory, &diag), MN_OK);
    return memory;
}

static void put(struct verbs_memory *memory)
{
    struct mn_diag diag;
    assert_int_equal(verbs_memory_put(memory, &diag), MN_OK);
}

static void ranges_are_whole_pages(void **state)
{
    (void)state;
    static const struct {
        uint64_t data, size, pages;
    } rows[] = {{0x10000, 1, 1},      {0x10000, 0, 1},      {0x10000, 0x1000, 1},
                {0x10fff, 1, 1},      {0x10fff, 2, 2},      {0x10001, 0x1000, 2},
                {0x10000, 0x1001, 2}, {0x10fff, 0x1002, 3}, {0x10000, 1u << 30, 1u << 18}};
    if (PAGE != 0x1000)
        skip();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct verbs_memory *memory = must_get(1, rows[i].data, rows[i].size);
        assert_int_equal(memory->base, 0x10000);
        assert_int_equal(memory->length, rows[i].pages * PAGE);
        assert_int_equal(memory->mrs[0]->length, memory->length);
        assert_ptr_equal(memory->mrs[0]->addr, (void *)0x10000);
        assert_int_equal(region(memory->mrs[0])->access, WRITE);
        put(memory);
    }
}

static void one_range_is_one_entry(void **state)
{
    (void)state;
    uintptr_t at = 16 * PAGE;
    struct verbs_memory *a = must_get(1, at, PAGE), *b = must_get(1, at + 8, 100);
    assert_ptr_equal(a, b);
    assert_int_equal(calls, 1);
    /* Another length or place is another entry. */
    struct verbs_memory *longer = must_get(1, at, 2 * PAGE), *later = must_get(1, at + PAGE, PAGE);
    assert_ptr_not_equal(longer, a);
    assert_ptr_not_equal(later, a);
    assert_int_equal(verbs_memory_count(), 3);
    put(a);
    assert_int_equal(live, 3);
    put(b);
    assert_int_equal(live, 2);
    put(later);
    put(longer);
    /* Nothing outlives the last release. */
    put(must_get(1, at, PAGE));
    assert_int_equal(calls, 4);
}

static void devices_join_when_asked_for(void **state)
{
    (void)state;
    struct verbs_memory *a = must_get(1, PAGE, PAGE);
    assert_null(a->mrs[1]);
    struct verbs_memory *b = must_get(5, PAGE, PAGE);
    assert_ptr_equal(a, b);
    assert_int_equal(calls, 2);
    assert_ptr_equal(a->mrs[0]->pd, &pds[0]);
    assert_null(a->mrs[1]);
    assert_ptr_equal(a->mrs[2]->pd, &pds[2]);
    put(a);
    assert_int_equal(live, 2);
    put(b);
    assert_int_equal(deregistered, 2);
}

static void a_failure_leaves_nothing(void **state)
{
    (void)state;
    struct verbs_memory *memory = NULL;
    struct mn_diag diag;
    fail_with = EINVAL;
    fail_device = 2;
    assert_int_equal(get(7, PAGE, PAGE, &memory, &diag), MN_ERR_SYS);
    assert_non_null(strstr(diag.text, "rxe2"));
    assert_null(memory);
    assert_int_equal(verbs_memory_count(), 0);
    assert_int_equal(deregistered, 2);

    /* Nor does it harm who has the range already. */
    struct verbs_memory *kept = must_get(1, PAGE, PAGE);
    assert_int_equal(get(7, PAGE, PAGE, &memory, &diag), MN_ERR_SYS);
    assert_non_null(kept->mrs[0]);
    assert_null(kept->mrs[1]);
    assert_int_equal(live, 1);
    put(kept);
}

static void errors_are_explained(void **state)
{
    (void)state;
    static const struct {
        int error;
        enum mn_err code;
        const char *text;
    } rows[] = {{ENOMEM, MN_ERR_NOMEM, "ulimit -l unlimited"},
                {EFAULT, MN_ERR_USAGE, "read-only"},
                {EOPNOTSUPP, MN_ERR_UNSUPPORTED, "not supported"},
                {EINVAL, MN_ERR_SYS, "Invalid argument"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct verbs_memory *memory = NULL;
        struct mn_diag diag = {0};
        fail_with = rows[i].error;
        assert_int_equal(get(2, 3 * PAGE, 5 * PAGE, &memory, &diag), rows[i].code);
        assert_int_equal(diag.code, rows[i].code);
        char address[32], bytes[32];
        snprintf(address, sizeof address, "0x%llx", (unsigned long long)(3 * PAGE));
        snprintf(bytes, sizeof bytes, "%llu bytes", (unsigned long long)(5 * PAGE));
        assert_non_null(strstr(diag.text, "rxe1"));
        assert_non_null(strstr(diag.text, address));
        assert_non_null(strstr(diag.text, bytes));
        assert_non_null(strstr(diag.text, rows[i].text));
        assert_int_equal(get(2, 3 * PAGE, 5 * PAGE, &memory, NULL), rows[i].code);
    }
    fail_with = 0;
    struct verbs_memory *memory = NULL;
    struct mn_diag diag;
    assert_int_equal(get(1, UINTPTR_MAX - 10, 100, &memory, &diag), MN_ERR_USAGE);
    assert_int_equal(get(1, PAGE, SIZE_MAX, &memory, &diag), MN_ERR_USAGE);
    assert_int_equal(get(1, UINTPTR_MAX - 2, 2, &memory, &diag), MN_ERR_USAGE);
    assert_int_equal(calls, 8);

    /* All regions are ended even when one of them cannot be. */
    memory = must_get(7, PAGE, PAGE);
    fail_dereg = EBUSY;
    assert_int_equal(verbs_memory_put(memory, &diag), MN_ERR_SYS);
    assert_non_null(strstr(diag.text, "busy"));
    assert_int_equal(deregistered, 3);
}

static void relaxed_ordering_is_a_wish(void **state)
{
    (void)state;
    static const int refusals[] = {0, EOPNOTSUPP, EINVAL};
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct verbs_range range =
            {(void *)(uintptr_t)(2 * PAGE), PAGE, NCCL_PTR_HOST, -1, 0, 0};
        struct verbs_memory *memory;
        struct mn_diag diag;
        fail_relaxed = refusals[i];
        assert_int_equal(verbs_memory_get_on(devices, 1, &range, 1, &memory, &diag), MN_OK);
        int relaxed = refusals[i] == 0;
        assert_int_equal(region(memory->mrs[0])->relaxed_call, relaxed);
        assert_int_equal(region(memory->mrs[0])->access,
                         relaxed ? WRITE | IBV_ACCESS_RELAXED_ORDERING : WRITE);
        if (relaxed)
            assert_int_equal(region(memory->mrs[0])->iova, 2 * PAGE);
        put(memory);
    }
    /* Any other refusal is one of the memory and not tried again. */
    const struct verbs_range range = {(void *)(uintptr_t)(2 * PAGE), PAGE, NCCL_PTR_HOST, -1, 0, 0};
    struct verbs_memory *memory;
    struct mn_diag diag;
    fail_relaxed = EFAULT;
    calls = 0;
    assert_int_equal(verbs_memory_get_on(devices, 1, &range, 1, &memory, &diag), MN_ERR_USAGE);
    assert_int_equal(calls, 0);
}

/* Descriptors that this process has open. */
static int count_open(void)
{
    int n = 0;
    for (int fd = 0; fd < 4096; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static struct verbs_memory *get_dmabuf(uint32_t bits, const struct verbs_range *range)
{
    struct verbs_memory *memory = NULL;
    struct mn_diag diag;
    assert_int_equal(verbs_memory_get_on(devices, bits, range, 1, &memory, &diag), MN_OK);
    return memory;
}

static void a_dma_buf_is_told_apart_by_its_file(void **state)
{
    (void)state;
    int one = memfd_create("one", MFD_CLOEXEC), two = memfd_create("two", MFD_CLOEXEC);
    assert_true(one >= 0 && two >= 0);
    struct verbs_range range = {(void *)0x7001080, 100, NCCL_PTR_CUDA, one, 0x80, 0};
    fail_relaxed = EINVAL;
    struct verbs_memory *a = get_dmabuf(1, &range);
    /* Not rounded: offset and address belong together. */
    const struct region *as = region(a->mrs[0]);
    assert_int_equal(as->iova, 0x7001080);
    assert_int_equal(as->mr.length, 100);
    assert_int_equal(as->offset, 0x80);
    assert_int_equal(as->access, WRITE);
    assert_int_equal(as->fd, one);

    /* Another device joins with the descriptor of who asked for it. */
    range.fd = dup(one);
    struct verbs_memory *b = get_dmabuf(3, &range);
    assert_ptr_equal(a, b);
    assert_int_equal(region(b->mrs[1])->fd, range.fd);
    close(range.fd);
    range.fd = two;
    struct verbs_memory *c = get_dmabuf(1, &range);
    assert_ptr_not_equal(a, c);
    range.fd = one;
    range.offset = 0x1080;
    struct verbs_memory *d = get_dmabuf(1, &range);
    assert_ptr_not_equal(a, d);
    /* The same place as memory of no DMA-BUF is another entry, too. */
    range.fd = -1;
    range.data = (void *)0x7001000;
    struct verbs_memory *e = get_dmabuf(1, &range);
    assert_int_equal(verbs_memory_count(), 4);
    close(one);
    close(two);
    put(a);
    assert_int_equal(live, 5);
    put(b);
    put(c);
    put(d);
    put(e);
}

/* CUDA makes a file anew for each export, and NCCL exports a buffer anew for each connection. */
static void one_allocation_is_one_region_whatever_its_files(void **state)
{
    (void)state;
    enum { CONNECTIONS = 64 };
    struct verbs_memory *held[CONNECTIONS];
    struct verbs_range range = {(void *)0x7000000, 4096, NCCL_PTR_CUDA, -1, 0, 7};
    int before = count_open();
    for (int i = 0; i < CONNECTIONS; i++) {
        range.fd = memfd_create("export", MFD_CLOEXEC);
        assert_true(range.fd >= 0);
        held[i] = get_dmabuf(3, &range);
        close(range.fd);
    }
    assert_int_equal(live, 2);
    assert_int_equal(verbs_memory_count(), 1);
    assert_int_equal(count_open(), before);

    /* Freed and allocated anew at the same address under a region that somebody forgot: not that
     * region. Nor where nobody knows. */
    for (uint64_t other = 0; other < 16; other += 8) {
        range.fd = memfd_create("export", MFD_CLOEXEC);
        range.allocation = other;
        struct verbs_memory *memory = get_dmabuf(1, &range);
        assert_ptr_not_equal(memory, held[0]);
        close(range.fd);
        put(memory);
    }
    for (int i = 0; i < CONNECTIONS; i++)
        put(held[i]);
    assert_int_equal(live, 0);

    /* By address alone, as peer memory modules take it. */
    range = (struct verbs_range){(void *)0x7000000, 4096, NCCL_PTR_CUDA, -1, 0, 7};
    held[0] = get_dmabuf(1, &range);
    held[1] = get_dmabuf(1, &range);
    range.allocation = 8;
    held[2] = get_dmabuf(1, &range);
    assert_ptr_equal(held[0], held[1]);
    assert_ptr_not_equal(held[0], held[2]);
    for (int i = 0; i < 3; i++)
        put(held[i]);
}

static void a_dma_buf_that_is_none_is_explained(void **state)
{
    (void)state;
    struct verbs_range range = {(void *)0x7001080, 100, NCCL_PTR_CUDA, -1, 0x80, 0};
    struct verbs_memory *a;
    struct mn_diag diag;
    /* A device without DMA-BUF, and a descriptor that is none. */
    range.fd = memfd_create("three", MFD_CLOEXEC);
    fail_with = EOPNOTSUPP;
    assert_int_equal(verbs_memory_get_on(devices, 1, &range, 0, &a, &diag), MN_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "DMA-BUF"));
    close(range.fd);
    assert_int_equal(verbs_memory_get_on(devices, 1, &range, 0, &a, &diag), MN_ERR_SYS);
    assert_int_equal(verbs_memory_get_on(devices, 1, &range, 0, &a, NULL), MN_ERR_SYS);
    assert_int_equal(verbs_memory_count(), 0);
}

struct caller {
    pthread_t thread;
    uint32_t bits;
    enum mn_err err;
    struct verbs_memory *memory;
    sem_t started;
};

static void *call_get(void *arg)
{
    struct caller *caller = arg;
    struct mn_diag diag;
    sem_post(&caller->started);
    caller->err = get(caller->bits, 32 * PAGE, PAGE, &caller->memory, &diag);
    return NULL;
}

static void start(struct caller *caller, uint32_t bits)
{
    caller->bits = bits;
    caller->memory = NULL;
    sem_init(&caller->started, 0, 0);
    assert_int_equal(pthread_create(&caller->thread, NULL, call_get, caller), 0);
    sem_wait(&caller->started);
}

static void the_lock_is_free_while_the_kernel_registers(void **state)
{
    (void)state;
    struct caller a, b;
    gated = 1;
    start(&a, 1);
    sem_wait(&entered);
    start(&b, 3);
    put(must_get(1, 64 * PAGE, PAGE));
    sem_post(&gate);
    pthread_join(a.thread, NULL);
    pthread_join(b.thread, NULL);
    assert_int_equal(a.err, MN_OK);
    assert_int_equal(b.err, MN_OK);
    assert_ptr_equal(a.memory, b.memory);
    assert_int_equal(calls, 3);
    assert_int_equal(verbs_memory_count(), 1);
    put(a.memory);
    assert_int_equal(live, 2);
    put(b.memory);
}

static void a_waiter_tries_itself_when_the_first_fails(void **state)
{
    (void)state;
    struct caller a, b;
    fail_with = ENOMEM;
    fail_calls = 1;
    gated = 1;
    start(&a, 1);
    sem_wait(&entered);
    start(&b, 1);
    sem_post(&gate);
    pthread_join(a.thread, NULL);
    pthread_join(b.thread, NULL);
    assert_int_equal(a.err, MN_ERR_NOMEM);
    assert_int_equal(b.err, MN_OK);
    put(b.memory);
}

static void *hammer(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    struct verbs_memory *held[8] = {0};
    for (int i = 0; i < 3000; i++) {
        int at = rand_r(&seed) % 8;
        struct mn_diag diag;
        if (held[at]) {
            if (verbs_memory_put(held[at], &diag) != MN_OK)
                abort();
            held[at] = NULL;
            continue;
        }
        uint32_t bits = 1 + (uint32_t)rand_r(&seed) % 7;
        uint64_t base = (1 + (uint64_t)(rand_r(&seed) % 4)) * PAGE;
        enum mn_err err = get(bits, base, PAGE, &held[at], &diag);
        if (err == MN_ERR_NOMEM)
            continue;
        if (err != MN_OK || held[at]->base != base)
            abort();
        for (int k = 0; k < N; k++)
            if ((bits >> k & 1) && (!held[at]->mrs[k] || held[at]->mrs[k]->pd != &pds[k]))
                abort();
    }
    for (int at = 0; at < 8; at++)
        if (held[at] && verbs_memory_put(held[at], NULL) != MN_OK)
            abort();
    return NULL;
}

static void many_threads_leave_nothing(void **state)
{
    (void)state;
    pthread_t threads[4];
    fail_with = ENOMEM;
    fail_device = 1;
    fail_calls = 200;
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(verbs_memory_count(), 0);
    assert_int_equal(live, 0);
    assert_true(deregistered > 0);
    assert_true(fail_calls < 200);
}

static void a_device_that_is_not_there_is_refused(void **state)
{
    (void)state;
    struct verbs_device *real;
    int n = verbs_devices(&real);
    struct verbs_memory *memory;
    struct mn_diag diag;
    if (n >= VERBS_MAX_DEVICES)
        skip();
    assert_int_equal(verbs_memory_get(UINT32_C(1) << n, &diag, 1, NCCL_PTR_HOST, -1, 0, 0, &memory,
                                      &diag),
                     MN_ERR_INTERNAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, reset, nothing_left)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ranges_are_whole_pages),
        TEST(one_range_is_one_entry),
        TEST(devices_join_when_asked_for),
        TEST(a_failure_leaves_nothing),
        TEST(errors_are_explained),
        TEST(relaxed_ordering_is_a_wish),
        TEST(a_dma_buf_is_told_apart_by_its_file),
        TEST(one_allocation_is_one_region_whatever_its_files),
        TEST(a_dma_buf_that_is_none_is_explained),
        TEST(the_lock_is_free_while_the_kernel_registers),
        TEST(a_waiter_tries_itself_when_the_first_fails),
        TEST(many_threads_leave_nothing),
        TEST(a_device_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
