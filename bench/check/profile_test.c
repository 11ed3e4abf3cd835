#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench/check/profile.h"

static const struct mn_check_profile *find(const char *name)
{
    const struct mn_check_profile *profile = NULL;
    struct mn_diag diag;

    return mn_check_profile_find(name, &profile, &diag) == MN_OK ? profile : NULL;
}

static void test_releases(void **state)
{
    static const struct {
        const char *name;
        int newest, oldest;
    } rows[] = {
        {"nccl-2.8", 4, 4},   {"nccl-2.11", 4, 4},  {"nccl-2.12", 5, 4},  {"nccl-2.18", 6, 4},
        {"nccl-2.19", 7, 5},  {"nccl-2.21", 8, 5},  {"nccl-2.23", 8, 5},  {"nccl-2.25", 9, 5},
        {"nccl-2.27", 10, 6}, {"nccl-2.28", 11, 6}, {"nccl-2.29", 11, 6}, {"nccl-2.30", 12, 6},
        {"rccl-5.2", 4, 4},   {"rccl-5.3", 5, 4},   {"rccl-6.1", 6, 4},   {"rccl-6.2", 8, 5},
        {"rccl-7", 10, 6},    {"rccl-7.1", 10, 6},  {"rccl-2.28", 11, 6}, {"rccl-2.30", 12, 6},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct mn_check_profile *profile = find(rows[i].name);
        assert_non_null(profile);
        assert_int_equal(profile->newest, rows[i].newest);
        assert_int_equal(profile->oldest, rows[i].oldest);
        assert_true(strncmp(profile->library, rows[i].name, 4) == 0);
    }
}

static void test_no_release(void **state)
{
    static const char *const names[] = {"",          "nccl",       "nccl-",       "nccl-2",
                                        "nccl-2.7",  "nccl-2.31",  "nccl-2.27.3", "nccl-2.27x",
                                        "nccl-2.",   "nccl-2.2 7", "nccl--2.27",  "rccl-1",
                                        "NCCL-2.27", "mccl-2.27",  "rccl-3",      "nccl-2.-7"};
    struct mn_diag diag;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct mn_check_profile *profile = NULL;
        if (mn_check_profile_find(names[i], &profile, &diag) == MN_OK)
            fail_msg("\"%s\" was taken for %s", names[i], profile->title);
        assert_int_equal(diag.code, MN_ERR_USAGE);
        assert_non_null(strstr(diag.text, "nccl-2.30"));
    }
}

/* A name belongs to one row, and a version a row drives has a release that exports it. */
static void test_rows(void **state)
{
    (void)state;
    for (const struct mn_check_profile *a = mn_check_profiles; a->library; a++) {
        assert_true(a->first <= a->last && a->oldest <= a->newest);
        assert_true(a->oldest >= 4 && a->newest <= 12);
        for (const struct mn_check_profile *b = a + 1; b->library; b++)
            assert_true(strcmp(a->library, b->library) != 0 || a->last < b->first ||
                        b->last < a->first);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_releases),
        cmocka_unit_test(test_no_release),
        cmocka_unit_test(test_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
