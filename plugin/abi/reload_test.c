/* The built library loaded, used, unloaded and loaded again in one process, as NCCL does: without a
 * word up to v10, after finalize from v11 on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/tasks_kit.h"

#define TRIES  200000
#define ROUNDS 4

static int lines;

static void count_lines(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                        const char *fmt, ...)
{
    (void)level, (void)flags, (void)file, (void)line, (void)fmt;
    lines++;
}

static void nap(void)
{
    nanosleep(&(struct timespec){0, 100000}, NULL);
}

/* v10 or v12, which differ in what is per communicator only. */
struct loaded {
    void *library;
    const ncclNet_v10_t *v10;
    const ncclNet_v12_t *v12;
    void *ctx;
};

static struct loaded load(int version)
{
    struct loaded l = {.library = dlopen(LIB_DIR "/libnccl-net-mesh.so", RTLD_NOW | RTLD_LOCAL)};
    ncclNetCommConfig_v12_t config = {NCCL_NET_TRAFFIC_CLASS_UNDEF};
    int devices = 0;

    assert_non_null(l.library);
    l.v10 = dlsym(l.library, "ncclNetPlugin_v10");
    l.v12 = version == 12 ? dlsym(l.library, "ncclNetPlugin_v12") : NULL;
    assert_non_null(l.v10);
    if (version == 12)
        assert_int_equal(l.v12->init(&l.ctx, 1, &config, count_lines, NULL), ncclSuccess);
    else
        assert_int_equal(l.v10->init(count_lines, NULL), ncclSuccess);
    config.trafficClass = 255; /* the stack of the caller is his again */
    assert_int_equal(l.v10->devices(&devices), ncclSuccess);
    assert_true(devices >= 1);
    return l;
}

static void listen_at(const struct loaded *l, void *handle, void **comm)
{
    assert_int_equal(l->v12 ? l->v12->listen(l->ctx, 0, handle, comm)
                            : l->v10->listen(0, handle, comm),
                     ncclSuccess);
}

static void connect_to(const struct loaded *l, void *handle, void **comm)
{
    assert_int_equal(l->v12 ? l->v12->connect(l->ctx, 0, handle, comm, NULL)
                            : l->v10->connect(0, NULL, handle, comm, NULL),
                     ncclSuccess);
}

/* Connects to itself, passes one message, and closes all but what an abort leaves. */
static void use(const struct loaded *l)
{
    const ncclNet_v10_t *net = l->v10;
    _Alignas(8) char handle[NCCL_NET_HANDLE_MAXSIZE];
    char from[1000], to[1000];
    void *listening, *left, *sending = NULL, *receiving = NULL, *into = to, *phandle = NULL;
    void *send_mr, *recv_mr, *send = NULL, *recv = (void *)1; /* the hint of 2.24 and later */
    size_t size = sizeof to;
    int tag = 3, sent = 0, received = 0, got = 0;

    memset(from, 'x', sizeof from);
    listen_at(l, handle, &listening);
    for (int i = 0; i < TRIES && !(sending && receiving); i++, nap()) {
        if (!sending)
            connect_to(l, handle, &sending);
        if (!receiving)
            assert_int_equal(net->accept(listening, &receiving, NULL), ncclSuccess);
    }
    assert_true(sending && receiving);
    assert_int_equal(net->regMr(sending, from, sizeof from, NCCL_PTR_HOST, &send_mr), 0);
    assert_int_equal(net->regMr(receiving, to, sizeof to, NCCL_PTR_HOST, &recv_mr), 0);
    assert_int_equal(net->irecv(receiving, 1, &into, &size, &tag, &recv_mr, &phandle, &recv), 0);
    assert_non_null(recv);
    assert_ptr_not_equal(recv, (void *)1);
    for (int i = 0; i < TRIES && !(sent && received); i++, nap()) {
        if (!send)
            assert_int_equal(net->isend(sending, from, 1000, tag, send_mr, NULL, &send), 0);
        if (send && !sent)
            assert_int_equal(net->test(send, &sent, NULL), ncclSuccess);
        if (!received)
            assert_int_equal(net->test(recv, &received, &got), ncclSuccess);
    }
    assert_true(sent && received && got == 1000);
    assert_memory_equal(from, to, sizeof to);
    if (l->v12) {
        listen_at(l, handle, &left);
        connect_to(l, handle, &left);
        return;
    }
    assert_int_equal(net->deregMr(sending, send_mr), ncclSuccess);
    assert_int_equal(net->deregMr(receiving, recv_mr), ncclSuccess);
    assert_int_equal(net->closeSend(sending), ncclSuccess);
    assert_int_equal(net->closeRecv(receiving), ncclSuccess);
    assert_int_equal(net->closeListen(listening), ncclSuccess);
}

static void finalize_leaves_nothing_and_the_library_can_come_again(void **state)
{
    int before = 0;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        struct loaded l = load(12);
        use(&l);
        assert_int_equal(l.v12->setNetAttr(l.ctx, NULL), ncclSuccess);
        assert_int_equal(l.v12->finalize(l.ctx), ncclSuccess);
        assert_int_equal(mn_tasks_left("mn-"), 0);
        assert_int_equal(dlclose(l.library), 0);
        if (i == 0)
            before = mn_descriptors();
        assert_int_equal(mn_descriptors(), before);
    }
}

static void unloading_without_a_word_is_survived(void **state)
{
    int before = 0;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        struct loaded l = load(10);
        use(&l);
        assert_int_equal(dlclose(l.library), 0);
        /* Its threads, if it has any, run on. */
        for (int k = 0; k < 20; k++)
            nap();
        if (i == 0)
            before = mn_descriptors();
        assert_int_equal(mn_descriptors(), before);
    }
    assert_true(lines > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finalize_leaves_nothing_and_the_library_can_come_again),
        cmocka_unit_test(unloading_without_a_word_is_survived),
    };

    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    unsetenv("MESHNET_CONFIG");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
