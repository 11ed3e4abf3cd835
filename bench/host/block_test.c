/* v4: calls that block, each on a thread of its own, and what an interface of scalars cannot carry.
 */
#include <limits.h>
#include <pthread.h>
#include <time.h>

#include "bench/host/fake.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
static int tickets; /* fake_inits that may return */

static void block(void)
{
    pthread_mutex_lock(&lock);
    while (!tickets)
        pthread_cond_wait(&woken, &lock);
    tickets--;
    pthread_mutex_unlock(&lock);
}

static void release(int n)
{
    pthread_mutex_lock(&lock);
    tickets += n;
    pthread_cond_broadcast(&woken);
    pthread_mutex_unlock(&lock);
}

static ncclResult_t connect_v4(int dev, void *handle, void **comm)
{
    int spoiled = strcmp(handle, "handle") != 0;

    block();
    *comm = spoiled ? NULL : &fake[1];
    return dev == 2 && !spoiled ? ncclSuccess : ncclRemoteError;
}

static ncclResult_t accept_v4(void *listen, void **comm)
{
    block();
    *comm = listen == &fake[0] ? &fake[2] : NULL;
    return ncclSuccess;
}

static ncclResult_t reg_v4(void *comm, void *data, int size, int type, void **mh)
{
    assert_true(comm == &fake[1] && data == fake && size > 0 && type == NCCL_PTR_HOST);
    *mh = &fake[5];
    return ncclSuccess;
}

static ncclResult_t send_v4(void *comm, void *data, int size, void *mh, void **request)
{
    assert_true(comm == &fake[1] && data == fake && size == 100 && mh == &fake[5]);
    assert_null(*request);
    *request = &fake[6];
    return ncclSuccess;
}

static ncclResult_t properties_v4(int dev, ncclNetProperties_v4_t *props)
{
    *props = (ncclNetProperties_v4_t){.name = "four", .speed = 100 * dev, .maxComms = 9};
    return ncclSuccess;
}

static const ncclNet_v4_t v4 = {FAKE_SLOTS,
                                .init = fake_init,
                                .getProperties = properties_v4,
                                .listen = fake_listen,
                                .connect = connect_v4,
                                .accept = accept_v4,
                                .regMr = reg_v4,
                                .isend = send_v4,
                                .irecv = send_v4,
                                .iflush = send_v4};

static int poll_until(int (*call)(struct mn_plugin *, void *, void **), struct mn_plugin *p,
                      void *what, void **comm)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int result = 0;

    *comm = NULL;
    for (int i = 0; i < 10000 && !result && !*comm; i++) {
        result = call(p, what, comm);
        nanosleep(&pause, NULL);
    }
    return result;
}

static int connect_to(struct mn_plugin *p, void *handle, void **comm)
{
    return mn_plugin_connect(p, 2, handle, comm);
}

static void wait_for(const int *count, int value)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    for (int i = 0; i < 10000 && __atomic_load_n(count, __ATOMIC_SEQ_CST) != value; i++)
        nanosleep(&pause, NULL);
    assert_int_equal(__atomic_load_n(count, __ATOMIC_SEQ_CST), value);
}

static void test_blocking_calls(void **state)
{
    _Alignas(8) char handle[MN_HANDLE_SIZE];
    struct mn_plugin *p = fake_open(&mn_host_v4, &v4);
    void *listener, *send, *recv;

    (void)state;
    memset(fake, 0, sizeof fake);
    memset(handle, 0xee, sizeof handle);
    assert_int_equal(mn_plugin_init(p), 0);
    assert_int_equal(mn_plugin_listen(p, 2, handle, &listener), 0);
    for (size_t i = sizeof "handle"; i < sizeof handle; i++)
        assert_int_equal(handle[i], 0);
    /* Both ends from one thread, neither there until the plugin returns. */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mn_plugin_accept(p, listener, &recv), 0);
        assert_int_equal(mn_plugin_connect(p, 2, handle, &send), 0);
        assert_null(send);
        assert_null(recv);
    }
    release(2);
    assert_int_equal(poll_until(connect_to, p, handle, &send), 0);
    assert_int_equal(poll_until(mn_plugin_accept, p, listener, &recv), 0);
    assert_ptr_equal(send, &fake[1]);
    assert_ptr_equal(recv, &fake[2]);
    /* A call that is done is forgotten: the next one asks the plugin again. */
    assert_int_equal(mn_plugin_connect(p, 2, handle, &send), 0);
    assert_null(send);
    release(1);
    assert_int_equal(poll_until(connect_to, p, handle, &send), 0);
    assert_int_equal(mn_plugin_close_listen(p, listener), 0);
    assert_int_equal(fake[0], 1);
    mn_plugin_close(p);
}

static void test_blocking_errors(void **state)
{
    _Alignas(8) char handle[MN_HANDLE_SIZE] = "spoiled";
    struct mn_plugin *p = fake_open(&mn_host_v4, &v4);
    void *comm;

    (void)state;
    assert_int_equal(mn_plugin_init(p), 0);
    release(1);
    assert_int_equal(poll_until(connect_to, p, handle, &comm), ncclRemoteError);
    assert_null(comm);
    /* Success without a comm is "not yet" from v5 on only. */
    release(1);
    assert_int_equal(poll_until(mn_plugin_accept, p, &fake[9], &comm), MN_HOST_BROKEN);
    assert_non_null(strstr(mn_plugin_fault(), "no comm"));
    assert_non_null(strstr(mn_nccl_result_name(MN_HOST_BROKEN), "no comm"));
    mn_plugin_close(p);
}

/* What the caller gives up is closed when the plugin returns: the listener after its accept, a send
 * comm whose handle has become another's, everything when the plugin is closed. */
static void test_blocking_given_up(void **state)
{
    _Alignas(8) char handle[MN_HANDLE_SIZE];
    struct mn_plugin *p = fake_open(&mn_host_v4, &v4);
    void *listener, *comm;

    (void)state;
    memset(fake, 0, sizeof fake);
    assert_int_equal(mn_plugin_init(p), 0);
    assert_int_equal(mn_plugin_listen(p, 2, handle, &listener), 0);
    assert_int_equal(mn_plugin_accept(p, listener, &comm), 0);
    assert_int_equal(mn_plugin_close_listen(p, listener), 0);
    assert_int_equal(fake[0], 0);
    release(1);
    wait_for(&fake[0], 1);
    assert_int_equal(fake[2], 1);

    assert_int_equal(mn_plugin_connect(p, 2, handle, &comm), 0);
    strcpy(handle, "another");
    assert_int_equal(mn_plugin_connect(p, 2, handle, &comm), 0);
    release(2);
    assert_int_equal(poll_until(connect_to, p, handle, &comm), ncclRemoteError);
    wait_for(&fake[1], 1);

    strcpy(handle, "handle");
    assert_int_equal(mn_plugin_connect(p, 2, handle, &comm), 0);
    assert_int_equal(mn_plugin_accept(p, listener, &comm), 0);
    mn_plugin_close(p);
    release(2);
    wait_for(&fake[1], 2);
    wait_for(&fake[2], 2);
    assert_int_equal(fake[0], 1);
}

static void test_scalar_calls(void **state)
{
    struct mn_plugin *p = fake_open(&mn_host_v4, &v4);
    struct mn_plugin_props props;
    void *data[2] = {fake, fake}, *mhs[2] = {&fake[5], &fake[5]}, *request, *mh;
    size_t sizes[2] = {100, 100};
    int narrow[2] = {100, 100}, tags[2] = {1, 2}, done, got = 0, dev;

    (void)state;
    assert_int_equal(mn_plugin_init(p), 0);
    assert_int_equal(mn_plugin_properties(p, 2, &props), 0);
    assert_string_equal(props.net.name, "four");
    assert_int_equal(props.net.speed_mbps, 200);
    assert_int_equal(props.net.max_comms, 9);
    assert_int_equal(props.net.max_recvs, 1);
    assert_int_equal(props.n_devs, 1);
    assert_int_equal(props.devs[0], 2);
    assert_int_equal(props.net.max_p2p_bytes, 1 << 30);
    assert_int_equal(props.net.max_coll_bytes, 512 << 20);
    assert_int_equal(props.net.rail_id, -1);
    assert_int_equal(mn_plugin_reg_mr(p, &fake[1], fake, INT_MAX, NCCL_PTR_HOST, &mh), 0);
    assert_int_equal(mn_plugin_reg_mr(p, &fake[1], fake, (size_t)INT_MAX + 1, NCCL_PTR_HOST, &mh),
                     ncclInvalidArgument);
    assert_null(mh);
    request = fake;
    assert_int_equal(mn_plugin_isend(p, &fake[1], fake, 100, 5, mhs[0], &request), 0);
    assert_int_equal(mn_plugin_isend(p, &fake[1], fake, ((size_t)1 << 32) + 100, 5, mhs[0],
                                     &request),
                     ncclInvalidArgument);
    assert_null(request);
    assert_int_equal(mn_plugin_irecv(p, &fake[1], 1, data, sizes, tags, mhs, &request), 0);
    assert_int_equal(mn_plugin_test(p, request, &done, &got), 0);
    assert_true(done == 1 && got == 17);
    assert_int_equal(mn_plugin_irecv(p, &fake[1], 2, data, sizes, tags, mhs, &request),
                     ncclInvalidArgument);
    assert_int_equal(mn_plugin_iflush(p, &fake[1], 1, data, narrow, mhs, &request), 0);
    assert_int_equal(mn_plugin_iflush(p, &fake[1], 2, data, narrow, mhs, &request),
                     ncclInvalidArgument);
    assert_int_equal(mn_plugin_reg_dmabuf(p, &fake[1], fake, 100, NCCL_PTR_CUDA, 0, 3, &mh),
                     MN_HOST_ABSENT);
    assert_int_equal(mn_plugin_make_vdevice(p, 1, &(int){0}, &dev), MN_HOST_ABSENT);
    assert_int_equal(mn_plugin_set_attr(p, NULL), MN_HOST_ABSENT);
    mn_plugin_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocking_calls),
        cmocka_unit_test(test_blocking_errors),
        cmocka_unit_test(test_blocking_given_up),
        cmocka_unit_test(test_scalar_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
