/* Connecting by RDMA where a neighbour does not answer at first, or for ever: both ends in one
 * thread, on the libibverbs double, which ctest puts before the library (LD_LIBRARY_PATH). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/context.h"
#include "topo/base/log.h"

static uint64_t (*counter)(const char *name);
static void (*set)(const char *settings);
static char warnings[16384];

static void keep_warning(enum mn_log_level level, const char *file, int line, const char *text)
{
    size_t used = strlen(warnings);

    (void)file, (void)line;
    if (level <= MN_LOG_WARN)
        snprintf(warnings + used, sizeof warnings - used, "%s\n", text);
}

static void find_double(void)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);
    void *symbols[] = {library ? dlsym(library, "fakeverbs_counter") : NULL,
                       library ? dlsym(library, "fakeverbs_set") : NULL};

    memcpy(&counter, &symbols[0], sizeof counter);
    memcpy(&set, &symbols[1], sizeof set);
}

struct ends {
    char handle[MN_HANDLE_SIZE];
    void *listener, *send, *recv;
};

/* Until both ends are there or one has failed. */
static int connect_ends(struct mn_net *net, struct ends *e)
{
    int result = mn_net_listen(net, 0, e->handle, &e->listener);

    while (!result && !(e->send && e->recv)) {
        if (!e->send)
            result = mn_net_connect(net, 0, -1, e->handle, &e->send);
        if (!result && !e->recv)
            result = mn_net_accept(e->listener, &e->recv);
    }
    return result;
}

/* A context and an empty list of warnings; skips without the double. */
static struct mn_net *begin(void)
{
    struct mn_net *net = NULL;

    if (!set)
        skip();
    alarm(120);
    assert_int_equal(mn_net_open(NULL, -1, &net), 0);
    mn_log_set_sink(keep_warning);
    warnings[0] = 0;
    return net;
}

static void end(struct mn_net *net)
{
    assert_int_equal(mn_net_finalize(net), 0);
    assert_int_equal(counter("qps"), 0);
    alarm(0);
}

/* Of one end three moves of its queue pair time out, and so do some of the other's. */
static void a_neighbour_silent_at_first_is_asked_again(void **state)
{
    struct ends e = {.listener = NULL};
    struct mn_net *net = begin();

    (void)state;
    set("rtr_silent=5");
    assert_int_equal(connect_ends(net, &e), 0);
    assert_non_null(strstr(warnings, "its address is not answered for"));
    assert_non_null(strstr(warnings, "trying again"));
    end(net);
}

static void a_neighbour_silent_for_ever_is_asked_until_connect_has_passed(void **state)
{
    struct ends e = {.listener = NULL};
    struct mn_net *net = begin();

    (void)state;
    set("rtr_silent=1000000000");
    assert_int_equal(connect_ends(net, &e), ncclRemoteError);
    assert_non_null(strstr(warnings, "trying again"));
    assert_non_null(strstr(warnings, "its address is not answered for"));
    assert_non_null(strstr(warnings, "Not connected within 2 s"));
    end(net);
    set("rtr_silent=0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_neighbour_silent_at_first_is_asked_again),
        cmocka_unit_test(a_neighbour_silent_for_ever_is_asked_until_connect_has_passed),
    };

    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_SOCKET_FAMILY", "AF_INET", 1);
    setenv("MESHNET_CONNECT", "2s", 1);
    setenv("MESHNET_ALLOW_TCP", "false", 1);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    unsetenv("MESHNET_CONFIG");
    find_double();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
