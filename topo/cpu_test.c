#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "topo/cpu.h"

/* What part of parts gets of within on a host made up of words. */
static void share(const char *host, const char *within, int part, int parts, int enough,
                  const char *want)
{
    hwloc_topology_t topology;
    hwloc_bitmap_t all = hwloc_bitmap_alloc(), got = hwloc_bitmap_alloc();
    char *text;

    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_set_synthetic(topology, host), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    hwloc_bitmap_list_sscanf(all, within);
    assert_int_equal(mn_cpu_share(topology, all, part, parts, got), enough);
    hwloc_bitmap_list_asprintf(&text, got);
    assert_string_equal(text, want);
    free(text);
    hwloc_bitmap_free(all);
    hwloc_bitmap_free(got);
    hwloc_topology_destroy(topology);
}

static void cores_are_shared_out(void **state)
{
    /* Two NUMA nodes of four cores with two threads: processors 0 to 7 and 8 to 15. */
    static const char host[] = "numa:2 core:4 pu:2";

    (void)state;
    share(host, "0-15", 0, 1, 1, "0-15");
    share(host, "0-15", 1, 2, 1, "8-15");
    share(host, "8-15", 0, 4, 1, "8-9");
    share(host, "8-15", 3, 4, 1, "14-15");
    share(host, "8-15", 0, 3, 1, "8-9");
    share(host, "8-15", 1, 3, 1, "10-11");
    share(host, "8-15", 2, 3, 1, "12-15");
    /* More than cores: nobody gets his own. */
    share(host, "8-15", 2, 5, 0, "8-15");
}

static void unknown_device_is_near_all(void **state)
{
    hwloc_topology_t topology;
    hwloc_bitmap_t near = hwloc_bitmap_alloc();
    static const char *const paths[] = {NULL, "", "eth0", "/sys/devices/nonsense",
                                        "/sys/devices/pci0000:00/0000:ff:1f.7"};

    (void)state;
    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_set_synthetic(topology, "numa:2 core:2 pu:1"), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        mn_cpu_near(topology, paths[i], near);
        assert_int_equal(hwloc_bitmap_weight(near), 4);
    }
    hwloc_bitmap_free(near);
    hwloc_topology_destroy(topology);
}

static void what_may_be_said(void **state)
{
    static const char *const good[] = {"auto", "none"};
    static const char *const elsewhere[] = {"99999", "0,99998-99999", "99999-99999"};
    static const char *const bad[] = {"",     "all", "1-",  "-1",  "3-1",
                                      "1,,2", "1,",  "0x1", "1 2", "99999999999"};
    struct mn_diag diag;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(mn_cpu_check(good[i], &diag), MN_OK);
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        assert_int_equal(mn_cpu_check(elsewhere[i], &diag), MN_ERR_CONFIG);
        assert_non_null(strstr(diag.text, "this process may use the CPUs"));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(mn_cpu_check(bad[i], &diag), MN_ERR_USAGE);
        assert_non_null(strstr(diag.text, "expected auto, none or CPUs"));
    }
}

/* On this host, in a process of its own: 0 when it went as expected. */
static int pinned_here(void)
{
    char text[MN_CPU_TEXT], only[16];
    struct mn_diag diag;
    cpu_set_t set;
    int cpu = 0;

    if (sched_getaffinity(0, sizeof set, &set))
        return 1;
    while (!CPU_ISSET(cpu, &set))
        cpu++;
    snprintf(only, sizeof only, "%d", cpu);
    if (mn_cpu_pin("1048575", NULL, 0, 1, &diag) != MN_ERR_CONFIG ||
        !strstr(diag.text, "--pin 1048575: this process may use the CPUs "))
        return 2;
    if (mn_cpu_check(only, &diag) || mn_cpu_pin("none", NULL, 0, 1, &diag) ||
        mn_cpu_pin(only, NULL, 1, 2, &diag))
        return 3;
    mn_cpu_pinned(text);
    if (sysconf(_SC_NPROCESSORS_ONLN) > 1 && strcmp(text, only) != 0)
        return 4;
    /* Bound already: auto respects it. */
    if (mn_cpu_pin("auto", NULL, 0, 1, &diag) || sched_getaffinity(0, sizeof set, &set) ||
        CPU_COUNT(&set) != 1)
        return 5;
    return 0;
}

static void this_host(void **state)
{
    int status;
    pid_t child = fork();

    (void)state;
    if (!child)
        _exit(pinned_here());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_are_shared_out),
        cmocka_unit_test(unknown_device_is_near_all),
        cmocka_unit_test(what_may_be_said),
        cmocka_unit_test(this_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
