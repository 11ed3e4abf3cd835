/* Contexts that begin and end beside each other: on the libibverbs double, which ctest puts before
 * the library (LD_LIBRARY_PATH). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/context.h"
#include "plugin/relay/hop.h"

static uint64_t (*counter)(const char *name);
static void (*set)(const char *settings);

static void find_double(void)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);
    void *symbols[] = {library ? dlsym(library, "fakeverbs_counter") : NULL,
                       library ? dlsym(library, "fakeverbs_set") : NULL};

    memcpy(&counter, &symbols[0], sizeof counter);
    memcpy(&set, &symbols[1], sizeof set);
}

static uint16_t port_of(const void *handle)
{
    struct mn_handle h;

    assert_int_equal(mn_handle_read(handle, NULL, &h, NULL), MN_OK);
    return h.port;
}

/* Somebody listens there. */
static int listens(uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    int answer = connect(fd, (struct sockaddr *)&at, sizeof at);
    close(fd);
    return answer == 0;
}

/* Both ends of a connection ask for neighbours that do not answer. */
static uint16_t begin_to_connect(struct mn_net *net)
{
    char handle[MN_HANDLE_SIZE];
    void *listener, *send = NULL, *recv = NULL;

    assert_int_equal(mn_net_listen(net, 0, handle, &listener), 0);
    uint16_t port = port_of(handle);
    while (counter("modify_qp") < 4) {
        if (!send)
            assert_int_equal(mn_net_connect(net, 0, -1, handle, &send), 0);
        if (!recv)
            assert_int_equal(mn_net_accept(listener, &recv), 0);
    }
    return port;
}

static atomic_int ended;

static void *finalize(void *net)
{
    mn_net_finalize(net);
    atomic_store(&ended, 1);
    return NULL;
}

static void one_contexts_end_does_not_hold_up_anothers_beginning(void **state)
{
    struct mn_net *first, *second, *third;
    pthread_t thread;

    (void)state;
    if (!set)
        skip();
    alarm(120);
    set("drop_rtr=1000000");
    assert_int_equal(mn_net_open(NULL, -1, &first), 0);
    uint16_t port = begin_to_connect(first);
    assert_int_equal(pthread_create(&thread, NULL, finalize, first), 0);
    while (listens(port))
        usleep(1000);
    /* It has closed what it had and waits for its neighbours. */
    assert_int_equal(mn_net_open(NULL, -1, &second), 0);
    assert_int_equal(mn_net_finalize(second), 0);
    assert_int_equal(mn_net_open(NULL, -1, &third), 0);
    assert_int_equal(atomic_load(&ended), 0);
    set("drop_rtr=0");
    pthread_join(thread, NULL);
    assert_int_equal(counter("qps"), 0);
    /* The devices are there as long as one context is, and go with the last. */
    assert_true(counter("pds") > 0);
    assert_int_equal(mn_net_finalize(third), 0);
    assert_int_equal(counter("pds"), 0);
    alarm(0);
}

/* They have no comm, nor are they the context's own: what is left of a relay's. */
static void the_last_contexts_hops_do_not_hold_up_a_beginning(void **state)
{
    static const uint8_t key[MN_KEY_SIZE] = {1};
    struct mn_diag diag = {.text = ""};
    struct mn_hop *listens_at, *dials_it;
    uint8_t handle[MN_HANDLE_SIZE];
    struct mn_net *first, *second;
    struct mn_comm *comm;
    pthread_t thread;

    (void)state;
    if (!set)
        skip();
    alarm(120);
    set("drop_rtr=1000000");
    atomic_store(&ended, 0);
    uint64_t before = counter("modify_qp");
    assert_int_equal(mn_net_open(NULL, -1, &first), 0);
    const struct mn_device *device = &first->config.devices[0];
    assert_int_equal(mn_hop_listen(&first->config, device, key, handle, &listens_at, &diag), 0);
    assert_int_equal(mn_hop_dial(&first->config, device, key, handle, &dials_it, &diag), 0);
    while (counter("modify_qp") < before + 4) {
        assert_int_equal(mn_hop_step(listens_at, &comm, &diag), MN_ERR_AGAIN);
        assert_int_equal(mn_hop_step(dials_it, &comm, &diag), MN_ERR_AGAIN);
    }
    mn_hop_close(listens_at);
    mn_hop_close(dials_it);
    assert_int_equal(pthread_create(&thread, NULL, finalize, first), 0);
    usleep(300000); /* else it may not have begun, and the test would show nothing */
    assert_int_equal(mn_net_open(NULL, -1, &second), 0);
    assert_int_equal(atomic_load(&ended), 0);
    set("drop_rtr=0");
    pthread_join(thread, NULL);
    assert_int_equal(counter("qps"), 0);
    assert_int_equal(mn_net_finalize(second), 0);
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_contexts_end_does_not_hold_up_anothers_beginning),
        cmocka_unit_test(the_last_contexts_hops_do_not_hold_up_a_beginning),
    };
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_SOCKET_FAMILY", "AF_INET", 1);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    unsetenv("MESHNET_CONFIG");
    find_double();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
