/* What the kept GID tables ask of the devices, and when they are read again: on the libibverbs
 * double, which ctest puts before the library (LD_LIBRARY_PATH). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <net/if.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/transport/verbs/device_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

static uint64_t (*counter)(const char *name);
static void (*set)(const char *settings);

static int find_double(void **state)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);
    void *symbols[] = {library ? dlsym(library, "fakeverbs_counter") : NULL,
                       library ? dlsym(library, "fakeverbs_set") : NULL};

    (void)state;
    memcpy(&counter, &symbols[0], sizeof counter);
    memcpy(&set, &symbols[1], sizeof set);
    return 0;
}

/* Nothing is known, the table is where it was. */
static int reset(void **state)
{
    struct verbs_device *devices;

    (void)state;
    if (!set)
        return 0;
    set("gidshift=0,gidmute=0,link=fv1:up");
    verbs_devices(&devices);
    verbs_cache_renew();
    return 0;
}

static struct mn_local local_of(const char *addr, const char *device)
{
    struct mn_local local = {.ifindex = if_nametoindex("lo"),
                             .rdma_port = 1,
                             .gid_index = -1,
                             .netdev = "lo"};

    if (!set)
        skip();
    assert_int_equal(mn_addr_parse(addr, &local.addr, NULL), MN_OK);
    mn_strlcpy(local.rdma_device, device, sizeof local.rdma_device);
    return local;
}

static int index_of(const struct mn_local *local)
{
    struct verbs_place place;
    struct mn_diag diag;

    return verbs_place_find(local, &place, &diag) == MN_OK ? place.gid_index : -(int)diag.code;
}

/* Until an event has come through its thread; for ever would be 20 s. */
static void expect_soon(const struct mn_local *local, int index)
{
    for (int i = 0; i < 20000 && index_of(local) != index; i++)
        usleep(1000);
    assert_int_equal(index_of(local), index);
}

static void the_named_device_alone_is_asked_once(void **state)
{
    struct mn_local local = local_of("127.0.0.2", "fv1");
    uint64_t gids = counter("query_gids"), ports = counter("query_port");

    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(index_of(&local), 3);
    assert_int_equal(counter("query_gids") - gids, 1);
    assert_int_equal(counter("query_port") - ports, 1);
}

static void all_devices_are_asked_once_when_none_is_named(void **state)
{
    struct mn_local local = local_of("127.0.0.3", "");
    uint64_t gids = counter("query_gids"), ports = counter("query_port");

    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(index_of(&local), 3);
    assert_int_equal(counter("query_gids") - gids, 3);
    assert_int_equal(counter("query_port") - ports, 3);
}

static void an_event_has_its_device_alone_asked_again(void **state)
{
    struct mn_local local = local_of("127.0.0.2", ""), other = local_of("127.0.0.1", "fv0");

    (void)state;
    assert_int_equal(index_of(&local), 3);
    set("gidshift=1"); /* all tables shift, each with its event */
    expect_soon(&local, 4);
    expect_soon(&other, 4);
    uint64_t gids = counter("query_gids");
    set("link=fv1:down");
    expect_soon(&local, -MN_ERR_LINK_DEAD);
    set("link=fv1:up");
    expect_soon(&local, 4);
    assert_true(counter("query_gids") > gids);
    gids = counter("query_gids");
    assert_int_equal(index_of(&other), 4);
    assert_int_equal(counter("query_gids"), gids);
}

/* An event that never came: whoever is refused the GID asks for what the device says now. */
static void who_is_refused_a_gid_reads_it_again(void **state)
{
    struct mn_local local = local_of("127.0.0.2", "fv1");
    struct verbs_place place;

    (void)state;
    assert_int_equal(index_of(&local), 3);
    set("gidmute=1,gidshift=1");
    assert_int_equal(verbs_place_renew(&local, &place, NULL), MN_OK);
    assert_int_equal(place.gid_index, 4);
    assert_int_equal(index_of(&local), 4);
}

/* Another address of the NIC is what the table lacks: the device is not asked at every lookup. */
static void a_gid_that_is_not_there_is_not_asked_for_at_every_lookup(void **state)
{
    struct mn_local local = local_of("127.0.0.9", "fv1");
    uint64_t gids = counter("query_gids");

    (void)state;
    for (int i = 0; i < 10000; i++)
        assert_int_equal(index_of(&local), -MN_ERR_CONFIG);
    assert_true(counter("query_gids") - gids < 10000);
}

static void *look(void *arg)
{
    const struct mn_local *local = arg;

    for (int i = 0; i < 2000; i++) {
        int index = index_of(local);
        assert_true(index == 3 || index == 4);
    }
    return NULL;
}

static void threads_look_while_tables_change(void **state)
{
    struct mn_local locals[] = {local_of("127.0.0.1", "fv0"), local_of("127.0.0.2", ""),
                                local_of("127.0.0.3", "fv2"), local_of("127.0.0.3", "")};
    pthread_t threads[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look, &locals[i]), 0);
    for (int i = 0; i < 50; i++)
        set(i % 2 ? "gidshift=0" : "gidshift=1");
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++)
        expect_soon(&locals[i], 3);
}

static int quit(void **state)
{
    (void)state;
    verbs_devices_quit();
    return 0;
}

static void quiet(enum mn_log_level level, const char *file, int line, const char *msg)
{
    (void)level, (void)file, (void)line, (void)msg;
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_named_device_alone_is_asked_once),
        TEST(all_devices_are_asked_once_when_none_is_named),
        TEST(an_event_has_its_device_alone_asked_again),
        TEST(who_is_refused_a_gid_reads_it_again),
        TEST(a_gid_that_is_not_there_is_not_asked_for_at_every_lookup),
        TEST(threads_look_while_tables_change),
    };
    setenv("FAKEVERBS", "dev=fv0:lo:127.0.0.1,dev=fv1:lo:127.0.0.2,dev=fv2:lo:127.0.0.3,leaks=2",
           1);
    mn_log_set_sink(quiet);
    return cmocka_run_group_tests(tests, find_double, quit);
}
