/* Which processes are on one host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugin/config.h"

static char place[] = "/tmp/meshnet-node-id-test-XXXXXX";

static void write_boot_id(const char *text)
{
    char path[128];
    static const char *const folders[] = {"/sys", "/sys/kernel", "/sys/kernel/random"};

    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", place, folders[i]);
        mkdir(path, 0700);
    }
    snprintf(path, sizeof path, "%s/sys/kernel/random/boot_id", place);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void host_names_do_not_part_what_one_kernel_runs(void **state)
{
    (void)state;
    assert_true(mn_node_id("/proc", "a") == mn_node_id("/proc", "b"));
    write_boot_id("8a7a1f0e-0000-4000-8000-000000000001\n");
    uint64_t first = mn_node_id(place, "a");
    assert_true(first == mn_node_id(place, "b"));
    write_boot_id("8a7a1f0e-0000-4000-8000-000000000002\n");
    assert_true(first != mn_node_id(place, "a"));
}

static void without_a_boot_id_the_host_name_counts(void **state)
{
    (void)state;
    static const char *const masked[] = {"", "\n"};
    assert_true(mn_node_id("/nonexistent", "a") == mn_node_id("/nonexistent", "a"));
    assert_true(mn_node_id("/nonexistent", "a") != mn_node_id("/nonexistent", "b"));
    for (size_t i = 0; i < 2; i++) {
        write_boot_id(masked[i]);
        assert_true(mn_node_id(place, "a") != mn_node_id(place, "b"));
    }
    char longest[MN_NAME_MAX];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    assert_true(mn_node_id("/nonexistent", longest) != mn_node_id("/nonexistent", "x"));
}

static void network_namespaces_are_hosts_of_their_own(void **state)
{
    (void)state;
    int ends[2];
    uint64_t theirs = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (unshare(CLONE_NEWNET) == 0) {
            theirs = mn_node_id("/proc", "a");
            if (write(ends[1], &theirs, sizeof theirs) != sizeof theirs)
                _exit(1);
        }
        _exit(0);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], &theirs, sizeof theirs);
    close(ends[0]);
    waitpid(child, NULL, 0);
    if (got == 0)
        skip(); /* not root */
    assert_int_equal(got, sizeof theirs);
    assert_true(theirs != mn_node_id("/proc", "a"));
}

static int make_place(void **state)
{
    (void)state;
    return mkdtemp(place) == NULL;
}

static int remove_place(void **state)
{
    static const char *const paths[] = {"/sys/kernel/random/boot_id", "/sys/kernel/random",
                                        "/sys/kernel", "/sys", ""};
    int left = 0;

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", place, paths[i]);
        left |= remove(path);
    }
    return left;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_names_do_not_part_what_one_kernel_runs),
        cmocka_unit_test(without_a_boot_id_the_host_name_counts),
        cmocka_unit_test(network_namespaces_are_hosts_of_their_own),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
