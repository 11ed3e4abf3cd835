/* The cache of registered memory: ranges, devices, errors. */
#include "plugin/transport/verbs/memory_kit.h"

static void ranges_are_whole_pages(void **state)
{
    (void)state;
    static const struct {
        uint64_t data, size, pages;
    } rows[] = {{0x10000, 1, 1},      {0x10000, 0, 1},
                {0x10000, 0x1000, 1}, {0x10fff, 1, 1},
                {0x10fff, 0, 1},      {0x10fff, 2, 2},
                {0x10001, 0x1000, 2}, {0x10000, 0x1001, 2},
                {0x10fff, 0x1002, 3}, {0x10000, 1u << 30, 1u << 18}};
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
            {(void *)(uintptr_t)(2 * PAGE), PAGE, NCCL_PTR_HOST, 0, -1, 0, 0};
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
    const struct verbs_range range =
        {(void *)(uintptr_t)(2 * PAGE), PAGE, NCCL_PTR_HOST, 0, -1, 0, 0};
    struct verbs_memory *memory;
    struct mn_diag diag;
    fail_relaxed = EFAULT;
    calls = 0;
    assert_int_equal(verbs_memory_get_on(devices, 1, &range, 1, &memory, &diag), MN_ERR_USAGE);
    assert_int_equal(calls, 0);
}

static void what_no_peer_may_write_to_is_a_region_of_its_own(void **state)
{
    (void)state;
    const struct verbs_range range = {(void *)(uintptr_t)PAGE, PAGE, NCCL_PTR_HOST, 1, -1, 0, 0};
    struct verbs_memory *ours, *again, *theirs = must_get(1, PAGE, PAGE);
    assert_int_equal(verbs_memory_get_on(devices, 1, &range, 0, &ours, NULL), MN_OK);
    assert_int_equal(verbs_memory_get_on(devices, 1, &range, 0, &again, NULL), MN_OK);
    assert_ptr_not_equal(ours, theirs);
    assert_ptr_equal(ours, again);
    assert_int_equal(region(theirs->mrs[0])->access, WRITE);
    assert_int_equal(region(ours->mrs[0])->access, IBV_ACCESS_LOCAL_WRITE);
    put(ours);
    put(again);
    put(theirs);
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
    assert_int_equal(verbs_memory_get(UINT32_C(1) << n, &diag, 1, NCCL_PTR_HOST, 0, -1, 0, 0,
                                      &memory, &diag),
                     MN_ERR_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ranges_are_whole_pages),
        TEST(one_range_is_one_entry),
        TEST(devices_join_when_asked_for),
        TEST(a_failure_leaves_nothing),
        TEST(errors_are_explained),
        TEST(relaxed_ordering_is_a_wish),
        TEST(what_no_peer_may_write_to_is_a_region_of_its_own),
        TEST(a_device_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
