/* Contexts of the core, over TCP on loopback, both ends in one thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/net.h"
#include "plugin/tasks_kit.h"

#define TRIES 20000 /* of a millisecond's sleep at most: the bound of every wait */

static void nap(void)
{
    nanosleep(&(struct timespec){0, 100000}, NULL);
}

static int sockets_of_class(int traffic_class)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++) {
        int tos = -1;
        socklen_t len = sizeof tos;
        n += !getsockopt(fd, IPPROTO_IP, IP_TOS, &tos, &len) && tos == traffic_class;
    }
    return n;
}

static struct mn_net *open_net(int traffic_class)
{
    struct mn_net *net = NULL;
    int devices = 0;

    assert_int_equal(mn_net_open(NULL, traffic_class, &net), ncclSuccess);
    assert_non_null(net);
    assert_int_equal(mn_net_devices(&devices), ncclSuccess);
    assert_true(devices >= 1);
    return net;
}

struct pair {
    void *listen_comm, *send_comm, *recv_comm;
};

static struct pair join(struct mn_net *from, struct mn_net *to)
{
    struct pair p = {0};
    uint8_t handle[MN_HANDLE_SIZE];

    assert_int_equal(mn_net_listen(to, 0, handle, &p.listen_comm), ncclSuccess);
    for (int i = 0; i < TRIES && (!p.send_comm || !p.recv_comm); i++, nap()) {
        if (!p.send_comm)
            assert_int_equal(mn_net_connect(from, 0, -1, handle, &p.send_comm), ncclSuccess);
        if (!p.recv_comm)
            assert_int_equal(mn_net_accept(p.listen_comm, &p.recv_comm), ncclSuccess);
    }
    assert_non_null(p.send_comm);
    assert_non_null(p.recv_comm);
    return p;
}

static void leave(struct pair p)
{
    assert_int_equal(mn_net_close_send(p.send_comm), ncclSuccess);
    assert_int_equal(mn_net_close_recv(p.recv_comm), ncclSuccess);
    assert_int_equal(mn_net_close_listen(p.listen_comm), ncclSuccess);
}

static void transfer(struct pair p)
{
    static char from[100000], to[100000];
    void *into = to, *send_mr, *recv_mr, *send = NULL, *recv = NULL;
    size_t size = sizeof to;
    int tag = 7, sent = 0, received = 0, got = 0;

    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (char)(i * 31);
    memset(to, 0, sizeof to);
    assert_int_equal(mn_net_reg_mr(p.send_comm, from, sizeof from, NCCL_PTR_HOST, &send_mr), 0);
    assert_int_equal(mn_net_reg_mr(p.recv_comm, to, sizeof to, NCCL_PTR_HOST, &recv_mr), 0);
    for (int i = 0; i < TRIES && !recv; i++)
        assert_int_equal(mn_net_irecv(p.recv_comm, 1, &into, &size, &tag, &recv_mr, &recv), 0);
    for (int i = 0; i < TRIES && !(sent && received); i++, nap()) {
        if (!send)
            assert_int_equal(mn_net_isend(p.send_comm, from, sizeof from, tag, send_mr, &send), 0);
        if (send && !sent)
            assert_int_equal(mn_net_test(send, &sent, NULL), 0);
        if (!received)
            assert_int_equal(mn_net_test(recv, &received, &got), 0);
    }
    assert_true(sent && received);
    assert_int_equal(got, sizeof from);
    assert_memory_equal(from, to, sizeof from);
    assert_int_equal(mn_net_dereg_mr(p.send_comm, send_mr), 0);
    assert_int_equal(mn_net_dereg_mr(p.recv_comm, recv_mr), 0);
}

static void finalize_without_a_context_is_harmless(void **state)
{
    struct mn_net *net = NULL;
    int devices = 7;

    (void)state;
    assert_int_equal(mn_net_finalize(NULL), ncclSuccess);
    setenv("MESHNET_CONFIG", "/nowhere/mesh.yaml", 1);
    assert_int_not_equal(mn_net_open(NULL, -1, &net), ncclSuccess);
    unsetenv("MESHNET_CONFIG");
    assert_null(net);
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
    assert_int_equal(mn_net_devices(&devices), ncclSuccess);
    assert_int_equal(devices, 0);

    net = open_net(-1);
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
}

static void a_traffic_class_is_one_context_s(void **state)
{
    struct mn_net *low = open_net(0x20), *high = open_net(0x48), *plain = open_net(-1), *bad;

    (void)state;
    assert_int_equal(mn_net_open(NULL, 256, &bad), ncclInvalidUsage);
    assert_null(bad);
    struct pair p = join(low, plain);
    assert_true(sockets_of_class(0x20) >= 1);
    assert_int_equal(sockets_of_class(0x48), 0);
    struct pair q = join(high, plain);
    assert_true(sockets_of_class(0x48) >= 1);
    int at_low = sockets_of_class(0x20);
    struct pair r = join(plain, low);
    assert_int_equal(sockets_of_class(0x20), at_low);
    transfer(p);
    transfer(q);
    transfer(r);
    leave(q);
    assert_int_equal(mn_net_finalize(high), ncclSuccess);
    transfer(p);
    leave(p);
    leave(r);
    assert_int_equal(mn_net_finalize(low), ncclSuccess);
    assert_int_equal(mn_net_finalize(plain), ncclSuccess);
}

/* An abort: nothing was closed, a receive is posted, one handshake is half done, one not begun. */
static void leave_in_a_mess(struct mn_net *net)
{
    static char buffer[4096];
    void *into = buffer, *mr, *request = NULL, *listen_comm, *comm;
    uint8_t handle[MN_HANDLE_SIZE];
    size_t size = sizeof buffer;
    int tag = 1;
    struct pair p = join(net, net);

    assert_int_equal(mn_net_reg_mr(p.recv_comm, buffer, size, NCCL_PTR_HOST, &mr), ncclSuccess);
    for (int i = 0; i < TRIES && !request; i++)
        assert_int_equal(mn_net_irecv(p.recv_comm, 1, &into, &size, &tag, &mr, &request), 0);
    assert_int_equal(mn_net_listen(net, 0, handle, &listen_comm), ncclSuccess);
    for (int i = 0; i < 5; i++, nap())
        assert_int_equal(mn_net_connect(net, 0, -1, handle, &comm), ncclSuccess);
    assert_int_equal(mn_net_accept(listen_comm, &comm), ncclSuccess);
    assert_null(comm);
    assert_int_equal(mn_net_listen(net, 0, handle, &listen_comm), ncclSuccess);
}

/* Lengths that no buffer has: refused, with nothing to be given back. */
static void no_buffer_is_that_long(void **state)
{
    static char buffer[16];
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4096, (size_t)PTRDIFF_MAX + 1};
    struct mn_net *net = open_net(-1);
    struct pair p = join(net, net);

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *mr = buffer;
        assert_int_equal(mn_net_reg_mr(p.send_comm, buffer, sizes[i], NCCL_PTR_HOST, &mr),
                         ncclInvalidArgument);
        assert_null(mr);
        assert_int_equal(mn_net_reg_mr(p.recv_comm, buffer, sizes[i], NCCL_PTR_HOST, &mr),
                         ncclInvalidArgument);
    }
    void *end = (void *)(UINTPTR_MAX - 100), *mr;
    assert_int_equal(mn_net_reg_mr(p.send_comm, end, 200, NCCL_PTR_HOST, &mr), ncclInvalidArgument);
    leave(p);
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
}

static void finalize_closes_what_was_left(void **state)
{
    struct mn_net *stays = open_net(-1);
    struct pair p = join(stays, stays);

    (void)state;
    transfer(p);
    leave_in_a_mess(stays); /* what opens once is open now */
    int before = mn_descriptors();
    for (int i = 0; i < 20; i++) {
        struct mn_net *net = open_net(-1);
        leave_in_a_mess(net);
        assert_true(mn_descriptors() > before);
        assert_int_equal(mn_net_finalize(net), ncclSuccess);
        assert_int_equal(mn_descriptors(), before);
    }
    transfer(p);
    assert_int_equal(mn_net_finalize(stays), ncclSuccess);
}

static void nothing_is_left_of_the_last_context(void **state)
{
    int first = 0;
    struct mn_net_props props = {0}, again = {0};

    (void)state;
    for (int i = 0; i < 5; i++) {
        struct mn_net *a = open_net(-1), *b = open_net(-1);
        assert_int_equal(mn_net_properties(0, i ? &again : &props), ncclSuccess);
        leave_in_a_mess(a);
        transfer(join(a, b));
        assert_int_equal(mn_net_finalize(a), ncclSuccess);
        assert_int_equal(mn_net_finalize(b), ncclSuccess);
        assert_int_equal(mn_tasks_left("mn-"), 0);
        if (i == 0)
            first = mn_descriptors();
        assert_int_equal(mn_descriptors(), first);
    }
    struct mn_net_props none;
    assert_int_equal(mn_net_properties(0, &none), ncclInvalidArgument);
    /* NCCL keeps the pointer, not the name. */
    assert_ptr_equal(props.name, again.name);
    assert_true(strlen(props.name) > 0);
}

/* The shared context cannot end, so it comes last. */
static void contexts_and_the_shared_one_do_not_mind_each_other(void **state)
{
    struct mn_net *net = open_net(-1);
    uint8_t handle[MN_HANDLE_SIZE];
    void *listen_comm;

    (void)state;
    assert_int_equal(mn_net_listen(NULL, 0, handle, &listen_comm), ncclInvalidArgument);
    assert_int_equal(mn_net_init(NULL), ncclSuccess);
    assert_int_equal(mn_net_init(NULL), ncclSuccess);
    struct pair p = join(NULL, NULL), q = join(NULL, net);
    leave_in_a_mess(net);
    transfer(q);
    assert_int_equal(mn_net_finalize(net), ncclSuccess);
    transfer(p);
    assert_int_equal(mn_net_close_send(q.send_comm), ncclSuccess);
    leave(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finalize_without_a_context_is_harmless),
        cmocka_unit_test(a_traffic_class_is_one_context_s),
        cmocka_unit_test(no_buffer_is_that_long),
        cmocka_unit_test(finalize_closes_what_was_left),
        cmocka_unit_test(nothing_is_left_of_the_last_context),
        cmocka_unit_test(contexts_and_the_shared_one_do_not_mind_each_other),
    };

    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_SOCKET_FAMILY", "AF_INET", 1);
    unsetenv("MESHNET_CONFIG");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
