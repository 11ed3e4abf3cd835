/* The cache of registered memory: DMA-BUFs, which come with a new file each time. */
#include "plugin/transport/verbs/memory_kit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

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
    struct verbs_range range = {(void *)0x7001080, 100, NCCL_PTR_CUDA, 0, one, 0x80, 0};
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
    struct verbs_range range = {(void *)0x7000000, 4096, NCCL_PTR_CUDA, 0, -1, 0, 7};
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
    range = (struct verbs_range){(void *)0x7000000, 4096, NCCL_PTR_CUDA, 0, -1, 0, 7};
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
    struct verbs_range range = {(void *)0x7001080, 100, NCCL_PTR_CUDA, 0, -1, 0x80, 0};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_dma_buf_is_told_apart_by_its_file),
        TEST(one_allocation_is_one_region_whatever_its_files),
        TEST(a_dma_buf_that_is_none_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
