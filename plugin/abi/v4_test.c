/* What v4 asks of the built library beyond the later versions: every send is connected before
 * anything is accepted, registrations come before the handshake, handles are of 64 bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"

#define TRIES   200000
#define SIZE    300000
#define BOUND_S 120 /* of what has a bound of its own, far below */

static const ncclNet_v4_t *net;

static void quiet(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                  const char *fmt, ...)
{
    (void)level, (void)flags, (void)file, (void)line, (void)fmt;
}

static int load(void **state)
{
    void *library = dlopen(LIB_DIR "/libnccl-net-mesh.so", RTLD_NOW | RTLD_LOCAL);
    int devices = 0;

    (void)state;
    assert_non_null(library);
    net = dlsym(library, "ncclNetPlugin_v4");
    assert_non_null(net);
    assert_int_equal(net->init(quiet), ncclSuccess);
    assert_int_equal(net->devices(&devices), ncclSuccess);
    return devices < 1;
}

static void nap(void)
{
    nanosleep(&(struct timespec){0, 100000}, NULL);
}

struct end {
    _Alignas(8) char handle[NCCL_NET_HANDLE_MAXSIZE_V4];
    void *listen, *send, *recv, *send_mr, *recv_mr;
    char from[SIZE], to[SIZE];
};

static void begin(struct end *end, int seed)
{
    memset(end, 0, sizeof *end);
    for (int i = 0; i < SIZE; i++)
        end->from[i] = (char)(i * 7 + seed);
    assert_int_equal(net->listen(0, end->handle, &end->listen), ncclSuccess);
}

/* To the peer's listener; the registration as NCCL makes it, at once. */
static void connect_to(struct end *end, struct end *peer)
{
    assert_int_equal(net->connect(0, peer->handle, &end->send), ncclSuccess);
    assert_non_null(end->send);
    assert_int_equal(net->regMr(end->send, end->from, SIZE, NCCL_PTR_HOST, &end->send_mr), 0);
}

static void accept_one(struct end *end)
{
    assert_int_equal(net->accept(end->listen, &end->recv), ncclSuccess);
    assert_non_null(end->recv);
    assert_int_equal(net->closeListen(end->listen), ncclSuccess);
    assert_int_equal(net->regMr(end->recv, end->to, SIZE, NCCL_PTR_HOST, &end->recv_mr), 0);
}

static void pass(struct end *from, struct end *to, int size)
{
    void *send = NULL, *recv = NULL;
    int sent = 0, received = 0, got = -1;

    memset(to->to, 0, sizeof to->to);
    for (int i = 0; i < TRIES && !(sent && received); i++, nap()) {
        if (!recv)
            assert_int_equal(net->irecv(to->recv, to->to, SIZE, to->recv_mr, &recv), 0);
        if (!send)
            assert_int_equal(net->isend(from->send, from->from, size, from->send_mr, &send), 0);
        if (send && !sent)
            assert_int_equal(net->test(send, &sent, NULL), ncclSuccess);
        if (recv && !received)
            assert_int_equal(net->test(recv, &received, &got), ncclSuccess);
    }
    assert_true(sent && received);
    assert_int_equal(got, size);
    assert_memory_equal(from->from, to->to, size);
}

static void finish(struct end *end)
{
    assert_int_equal(net->deregMr(end->send, end->send_mr), ncclSuccess);
    assert_int_equal(net->deregMr(end->recv, end->recv_mr), ncclSuccess);
    assert_int_equal(net->closeSend(end->send), ncclSuccess);
    assert_int_equal(net->closeRecv(end->recv), ncclSuccess);
}

static void all_connect_before_anyone_accepts(void **state)
{
    enum { RING = 5 };
    struct end *ring = calloc(RING, sizeof *ring);

    (void)state;
    assert_non_null(ring);
    for (int i = 0; i < RING; i++)
        begin(&ring[i], i);
    for (int i = 0; i < RING; i++)
        connect_to(&ring[i], &ring[(i + 1) % RING]);
    void *request = ring;
    assert_int_equal(net->isend(ring[0].send, ring[0].from, SIZE, ring[0].send_mr, &request), 0);
    assert_null(request);
    for (int i = 0; i < RING; i++)
        accept_one(&ring[i]);
    for (int i = 0; i < RING; i++) {
        pass(&ring[i], &ring[(i + 1) % RING], SIZE);
        pass(&ring[i], &ring[(i + 1) % RING], 0);
    }
    for (int i = 0; i < RING; i++)
        finish(&ring[i]);
    free(ring);
}

struct rank {
    struct end self, *peer;
    pthread_t thread;
};

static void *run_rank(void *arg)
{
    struct rank *rank = arg;

    connect_to(&rank->self, rank->peer);
    accept_one(&rank->self);
    return NULL;
}

/* Whoever is through with its accept makes no more calls, and yet its peer gets through. */
static void ranks_wait_in_accept_alone(void **state)
{
    struct rank *ranks = calloc(2, sizeof *ranks);

    (void)state;
    assert_non_null(ranks);
    for (int i = 0; i < 2; i++) {
        begin(&ranks[i].self, i);
        ranks[i].peer = &ranks[!i].self;
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
    for (int i = 0; i < 2; i++)
        pass(&ranks[i].self, ranks[i].peer, SIZE);
    for (int i = 0; i < 2; i++)
        finish(&ranks[i].self);
    free(ranks);
}

static void registrations_come_and_go_at_any_time(void **state)
{
    struct end *end = malloc(sizeof *end);
    void *early, *late;

    (void)state;
    begin(end, 3);
    connect_to(end, end);
    assert_int_equal(net->regMr(end->send, end->to, SIZE, NCCL_PTR_HOST, &early), ncclSuccess);
    assert_int_equal(net->deregMr(end->send, early), ncclSuccess);
    assert_int_not_equal(net->regMr(end->send, end->to, SIZE, NCCL_PTR_CUDA, &early), ncclSuccess);
    assert_int_equal(net->regMr(end->send, end->to, SIZE, NCCL_PTR_HOST, &early), ncclSuccess);
    accept_one(end);
    pass(end, end, SIZE);
    assert_int_equal(net->regMr(end->send, end->to, SIZE, NCCL_PTR_HOST, &late), ncclSuccess);
    assert_int_equal(net->deregMr(end->send, early), ncclSuccess);
    assert_int_equal(net->deregMr(end->send, late), ncclSuccess);
    pass(end, end, 1);
    finish(end);
    free(end);
}

static void what_was_never_accepted_can_be_closed(void **state)
{
    struct end *end = malloc(sizeof *end);

    (void)state;
    for (int i = 0; i < 20; i++) {
        begin(end, i);
        connect_to(end, end);
        if (i % 2)
            nap();
        assert_int_equal(net->closeSend(end->send), ncclSuccess); /* with its registration */
        assert_int_equal(net->closeListen(end->listen), ncclSuccess);
    }
    free(end);
}

/* closeListen, and then nobody can be reached. */
static void nobody_there_is_an_error_of_connect(void **state)
{
    struct end *end = malloc(sizeof *end);
    void *comm = end;

    (void)state;
    begin(end, 0);
    assert_int_equal(net->closeListen(end->listen), ncclSuccess);
    assert_int_not_equal(net->connect(0, end->handle, &comm), ncclSuccess);
    assert_null(comm);
    memset(end->handle, 0x5a, sizeof end->handle);
    assert_int_not_equal(net->connect(0, end->handle, &comm), ncclSuccess);
    assert_int_equal(net->connect(99, end->handle, &comm), ncclInvalidArgument);
    free(end);
}

static void waiting_is_bounded(void **state)
{
    struct end *end = malloc(sizeof *end);
    void *request = NULL;
    int result = ncclSuccess;

    (void)state;
    begin(end, 0);
    /* Ten times as long as its connect, which tells one that is late from one that does not come.
     */
    time_t began = time(NULL);
    assert_int_equal(net->accept(end->listen, &end->recv), ncclRemoteError);
    assert_true(time(NULL) - began >= 5);
    assert_null(end->recv);
    connect_to(end, end);
    for (time_t last = time(NULL) + BOUND_S; time(NULL) < last && result == ncclSuccess; nap()) {
        result = net->isend(end->send, end->from, 1, end->send_mr, &request);
        assert_null(request);
    }
    assert_int_equal(result, ncclRemoteError);
    assert_int_equal(net->deregMr(end->send, end->send_mr), ncclSuccess);
    assert_int_equal(net->closeSend(end->send), ncclSuccess);
    assert_int_equal(net->closeListen(end->listen), ncclSuccess);
    free(end);
}

/* The timeouts are read once a process. */
static int run_impatient(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_is_bounded),
        cmocka_unit_test(nobody_there_is_an_error_of_connect),
    };
    int status = 1;
    pid_t child = fork();

    if (child == 0) {
        setenv("MESHNET_CONNECT", "1s", 1);
        setenv("MESHNET_HANDSHAKE", "1s", 1);
        exit(cmocka_run_group_tests(tests, load, NULL));
    }
    return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_connect_before_anyone_accepts),
        cmocka_unit_test(ranks_wait_in_accept_alone),
        cmocka_unit_test(registrations_come_and_go_at_any_time),
        cmocka_unit_test(what_was_never_accepted_can_be_closed),
    };

    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    unsetenv("MESHNET_CONFIG");
    int failed = run_impatient();
    return cmocka_run_group_tests(tests, load, NULL) + failed;
}
