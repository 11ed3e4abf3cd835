/* The host over vtables of the test's own: what each version is called with, what it is spared, and
 * what the host says of a plugin that breaks a rule. */
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "bench/host/host_impl.h"
#include "topo/base/alloc.h"

static struct mn_plugin *over(const struct mn_host_version *version, const void *table)
{
    struct mn_host_library *library = mn_zalloc(sizeof *library);
    struct mn_plugin first = {.library = library};

    library->version = version;
    library->table = table;
    library->log = mn_host_log_take(library);
    library->block = version->blocks ? mn_host_block_new() : NULL;
    pthread_mutex_init(&library->lock, NULL);
    return mn_plugin_context(&first);
}

/* --- what never changed ------------------------------------------------------------------------
 */

static int comms[64]; /* their addresses are comms; the values count closes */
static int calls;

static ncclResult_t init(ncclDebugLogger_t log)
{
    calls++;
    log(NCCL_LOG_INFO, NCCL_NET, __FILE__, __LINE__, "hello %d", calls);
    return ncclSuccess;
}

static ncclResult_t devices(int *n)
{
    *n = 3;
    return ncclSuccess;
}

static ncclResult_t listen_(int dev, void *handle, void **comm)
{
    assert_int_equal(dev, 2);
    strcpy(handle, "handle");
    *comm = &comms[0];
    return ncclSuccess;
}

static ncclResult_t dereg(void *comm, void *mh)
{
    return comm == &comms[1] && mh == &comms[5] ? ncclSuccess : ncclInvalidArgument;
}

static ncclResult_t test(void *request, int *done, int *sizes)
{
    *done = request == &comms[6];
    *sizes = 17;
    return ncclSuccess;
}

static ncclResult_t close_comm(void *comm)
{
    __atomic_add_fetch((int *)comm, 1, __ATOMIC_SEQ_CST);
    return ncclSuccess;
}

#define SLOTS                                                                                      \
    .devices = devices, .deregMr = dereg, .test = test, .closeSend = close_comm,                   \
    .closeRecv = close_comm, .closeListen = close_comm

/* --- v4 ----------------------------------------------------------------------------------------
 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
static int tickets; /* calls that may return */

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
    *comm = spoiled ? NULL : &comms[1];
    return dev == 2 && !spoiled ? ncclSuccess : ncclRemoteError;
}

static ncclResult_t accept_v4(void *listen, void **comm)
{
    block();
    *comm = listen == &comms[0] ? &comms[2] : NULL;
    return ncclSuccess;
}

static ncclResult_t reg_v4(void *comm, void *data, int size, int type, void **mh)
{
    assert_true(comm == &comms[1] && data == comms && size > 0 && type == NCCL_PTR_HOST);
    *mh = &comms[5];
    return ncclSuccess;
}

static ncclResult_t send_v4(void *comm, void *data, int size, void *mh, void **request)
{
    assert_true(comm == &comms[1] && data == comms && size == 100 && mh == &comms[5]);
    assert_null(*request);
    *request = &comms[6];
    return ncclSuccess;
}

static ncclResult_t properties_v4(int dev, ncclNetProperties_v4_t *props)
{
    *props = (ncclNetProperties_v4_t){.name = "four", .speed = 100 * dev, .maxComms = 9};
    return ncclSuccess;
}

static const ncclNet_v4_t v4 = {SLOTS,
                                .init = init,
                                .getProperties = properties_v4,
                                .listen = listen_,
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
    struct mn_plugin *p = over(&mn_host_v4, &v4);
    void *listener, *send, *recv;

    (void)state;
    memset(comms, 0, sizeof comms);
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
    assert_ptr_equal(send, &comms[1]);
    assert_ptr_equal(recv, &comms[2]);
    /* A call that is done is forgotten: the next one asks the plugin again. */
    assert_int_equal(mn_plugin_connect(p, 2, handle, &send), 0);
    assert_null(send);
    release(1);
    assert_int_equal(poll_until(connect_to, p, handle, &send), 0);
    assert_int_equal(mn_plugin_close_listen(p, listener), 0);
    assert_int_equal(comms[0], 1);
    mn_plugin_close(p);
}

static void test_blocking_errors(void **state)
{
    _Alignas(8) char handle[MN_HANDLE_SIZE] = "spoiled";
    struct mn_plugin *p = over(&mn_host_v4, &v4);
    void *comm;

    (void)state;
    assert_int_equal(mn_plugin_init(p), 0);
    release(1);
    assert_int_equal(poll_until(connect_to, p, handle, &comm), ncclRemoteError);
    assert_null(comm);
    /* Success without a comm is "not yet" from v5 on only. */
    release(1);
    assert_int_equal(poll_until(mn_plugin_accept, p, &comms[9], &comm), MN_HOST_BROKEN);
    assert_non_null(strstr(mn_plugin_fault(), "no comm"));
    assert_non_null(strstr(mn_nccl_result_name(MN_HOST_BROKEN), "no comm"));
    mn_plugin_close(p);
}

/* What the caller gives up is closed when the plugin returns: the listener after its accept, a send
 * comm whose handle has become another's, everything when the plugin is closed. */
static void test_blocking_given_up(void **state)
{
    _Alignas(8) char handle[MN_HANDLE_SIZE];
    struct mn_plugin *p = over(&mn_host_v4, &v4);
    void *listener, *comm;

    (void)state;
    memset(comms, 0, sizeof comms);
    assert_int_equal(mn_plugin_init(p), 0);
    assert_int_equal(mn_plugin_listen(p, 2, handle, &listener), 0);
    assert_int_equal(mn_plugin_accept(p, listener, &comm), 0);
    assert_int_equal(mn_plugin_close_listen(p, listener), 0);
    assert_int_equal(comms[0], 0);
    release(1);
    wait_for(&comms[0], 1);
    assert_int_equal(comms[2], 1);

    assert_int_equal(mn_plugin_connect(p, 2, handle, &comm), 0);
    strcpy(handle, "another");
    assert_int_equal(mn_plugin_connect(p, 2, handle, &comm), 0);
    release(2);
    assert_int_equal(poll_until(connect_to, p, handle, &comm), ncclRemoteError);
    wait_for(&comms[1], 1);

    strcpy(handle, "handle");
    assert_int_equal(mn_plugin_connect(p, 2, handle, &comm), 0);
    assert_int_equal(mn_plugin_accept(p, listener, &comm), 0);
    mn_plugin_close(p);
    release(2);
    wait_for(&comms[1], 2);
    wait_for(&comms[2], 2);
    assert_int_equal(comms[0], 1);
}

static void test_scalar_calls(void **state)
{
    struct mn_plugin *p = over(&mn_host_v4, &v4);
    struct mn_plugin_props props;
    void *data[2] = {comms, comms}, *mhs[2] = {&comms[5], &comms[5]}, *request, *mh;
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
    assert_int_equal(mn_plugin_reg_mr(p, &comms[1], comms, INT_MAX, NCCL_PTR_HOST, &mh), 0);
    assert_int_equal(mn_plugin_reg_mr(p, &comms[1], comms, (size_t)INT_MAX + 1, NCCL_PTR_HOST, &mh),
                     ncclInvalidArgument);
    assert_null(mh);
    request = comms;
    assert_int_equal(mn_plugin_isend(p, &comms[1], comms, 100, 5, mhs[0], &request), 0);
    assert_int_equal(mn_plugin_isend(p, &comms[1], comms, ((size_t)1 << 32) + 100, 5, mhs[0],
                                     &request),
                     ncclInvalidArgument);
    assert_null(request);
    assert_int_equal(mn_plugin_irecv(p, &comms[1], 1, data, sizes, tags, mhs, &request), 0);
    assert_int_equal(mn_plugin_test(p, request, &done, &got), 0);
    assert_true(done == 1 && got == 17);
    assert_int_equal(mn_plugin_irecv(p, &comms[1], 2, data, sizes, tags, mhs, &request),
                     ncclInvalidArgument);
    assert_int_equal(mn_plugin_iflush(p, &comms[1], 1, data, narrow, mhs, &request), 0);
    assert_int_equal(mn_plugin_iflush(p, &comms[1], 2, data, narrow, mhs, &request),
                     ncclInvalidArgument);
    assert_int_equal(mn_plugin_reg_dmabuf(p, &comms[1], comms, 100, NCCL_PTR_CUDA, 0, 3, &mh),
                     MN_HOST_ABSENT);
    assert_int_equal(mn_plugin_make_vdevice(p, 1, &(int){0}, &dev), MN_HOST_ABSENT);
    assert_int_equal(mn_plugin_set_attr(p, NULL), MN_HOST_ABSENT);
    mn_plugin_close(p);
}

/* --- v9: device handles, requests, virtual devices ----------------------------------------------
 */

static int writes, hint, ndevs;

static ncclResult_t connect_v9(int dev, void *handle, void **comm,
                               ncclNetDeviceHandle_v9_t **device)
{
    (void)dev;
    (void)handle;
    *comm = &comms[1];
    if (writes)
        memset(device, 0, sizeof *device);
    return ncclSuccess;
}

static ncclResult_t accept_v9(void *listen, void **comm, ncclNetDeviceHandle_v9_t **device)
{
    return connect_v9(0, listen, comm, device);
}

static ncclResult_t reg_v9(void *comm, void *data, size_t size, int type, void **mh)
{
    (void)comm;
    (void)data;
    (void)type;
    assert_int_equal(size, (size_t)1 << 40);
    *mh = &comms[5];
    return ncclSuccess;
}

static ncclResult_t send_v9(void *comm, void *data, size_t size, int tag, void *mh, void **request)
{
    (void)comm;
    (void)data;
    (void)mh;
    assert_true(size == (size_t)5 << 30 && tag == 7);
    hint = *request == (void *)(uintptr_t)1;
    if (!writes)
        *request = &comms[6];
    return ncclSuccess;
}

static ncclResult_t recv_v9(void *comm, int n, void **data, size_t *sizes, int *tags, void **mhs,
                            void **request)
{
    (void)n;
    return send_v9(comm, data[0], sizes[0], tags[0], mhs[0], request);
}

static ncclResult_t flush_v9(void *comm, int n, void **data, int *sizes, void **mhs, void **request)
{
    (void)comm;
    (void)data;
    (void)sizes;
    (void)mhs;
    *request = &comms[n];
    return ncclSuccess;
}

static ncclResult_t properties_v9(int dev, ncclNetProperties_v9_t *props)
{
    (void)dev;
    /* A struct of a later version, longer than this one. */
    memset(props, 0x77, sizeof(ncclNetProperties_v12_t));
    *props = (ncclNetProperties_v9_t){.name = "nine",
                                      .maxRecvs = 8,
                                      .netDeviceType = NCCL_NET_DEVICE_UNPACK,
                                      .netDeviceVersion = 7,
                                      .vProps = {.ndevs = ndevs, .devs = {4, 5, 6, 7}},
                                      .maxP2pBytes = 99};
    return ndevs == 13 ? ncclSystemError : ncclSuccess;
}

static ncclResult_t vdevice_v9(int *dev, ncclNetVDeviceProps_v9_t *props)
{
    *dev = 10 * props->ndevs + props->devs[props->ndevs - 1];
    return ncclSuccess;
}

static const ncclNet_v9_t v9 = {SLOTS,
                                .init = init,
                                .getProperties = properties_v9,
                                .listen = listen_,
                                .connect = connect_v9,
                                .accept = accept_v9,
                                .regMr = reg_v9,
                                .isend = send_v9,
                                .irecv = recv_v9,
                                .iflush = flush_v9,
                                .makeVDevice = vdevice_v9};

static void test_rccl(void **state)
{
    struct mn_plugin *p = over(&mn_host_v9, &v9);
    void *comm, *data = comms, *mh = NULL, *request;
    size_t size = (size_t)5 << 30;
    int tag = 7;

    (void)state;
    assert_int_equal(mn_plugin_init(p), 0);
    for (int rccl = 0; rccl < 2; rccl++)
        for (writes = 0; writes < 2; writes++) {
            int expected = rccl && writes ? MN_HOST_BROKEN : 0;
            mn_plugin_set_mode(p, rccl ? MN_HOST_RCCL : MN_HOST_NCCL);
            assert_int_equal(mn_plugin_connect(p, 2, comms, &comm), expected);
            if (expected)
                assert_non_null(strstr(mn_plugin_fault(), "device-handle"));
            assert_ptr_equal(comm, &comms[1]); /* the caller's to close */
            assert_int_equal(mn_plugin_accept(p, comms, &comm), expected);
            assert_int_equal(mn_plugin_isend(p, comm, data, size, tag, mh, &request), expected);
            assert_int_equal(hint, rccl);
            if (expected)
                assert_non_null(strstr(mn_plugin_fault(), "request"));
            assert_int_equal(mn_plugin_irecv(p, comm, 1, &data, &size, &tag, &mh, &request),
                             expected);
            assert_int_equal(hint, rccl);
        }
    writes = 0;
    mn_plugin_close(p);
}

static void test_virtual_devices(void **state)
{
    static const struct {
        int said, read;
    } rows[] = {{1, 1}, {4, 4}, {5, 4}, {INT_MAX, 4}, {0, 0}, {-3, 0}, {13, 1}};
    static const int devs[] = {3, 1, 4, 1, 5, 9, 2, 6};
    struct mn_plugin *p = over(&mn_host_v9, &v9);
    struct mn_plugin_props props;
    int dev;

    (void)state;
    assert_int_equal(mn_plugin_init(p), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ndevs = rows[i].said;
        int result = mn_plugin_properties(p, 0, &props);
        assert_int_equal(result, ndevs == 13 ? ncclSystemError : 0);
        assert_int_equal(props.n_devs, rows[i].read);
        for (int k = 0; k < props.n_devs && !result; k++)
            assert_int_equal(props.devs[k], 4 + k);
        if (!result)
            assert_true(props.net.max_recvs == 8 && props.device_type == 1 &&
                        props.device_version == 7 && props.net.max_p2p_bytes == 99 &&
                        props.net.max_multi_request_size == 1);
    }
    assert_int_equal(mn_plugin_make_vdevice(p, 3, devs, &dev), 0);
    assert_int_equal(dev, 34);
    assert_int_equal(mn_plugin_make_vdevice(p, 5, devs, &dev), ncclInvalidArgument);
    assert_int_equal(mn_plugin_make_vdevice(p, 0, devs, &dev), ncclInvalidArgument);
    assert_int_equal(dev, -1);
    mn_plugin_close(p);
}

/* Up to v10 a plugin is initialised once, however many communicators; again after the last. */
static void test_init_once(void **state)
{
    struct mn_plugin *p = over(&mn_host_v9, &v9), *other = mn_plugin_context(p);

    (void)state;
    calls = 0;
    assert_int_equal(mn_plugin_init(p), 0);
    assert_int_equal(mn_plugin_init(other), 0);
    assert_int_equal(calls, 1);
    assert_int_equal(mn_plugin_init(p), ncclInvalidUsage);
    mn_plugin_close(p);
    assert_int_equal(mn_plugin_finalize(other), 0);
    assert_int_equal(mn_plugin_init(other), 0);
    assert_int_equal(calls, 2);
    mn_plugin_close(other);
}

/* --- v12: contexts -----------------------------------------------------------------------------
 */

static ncclNet_v12_t v12;
static char contexts[4];
static int finalized[4], class_seen;
static uint64_t id_seen;
static void *ctx_seen;

static ncclResult_t listen_v12(void *ctx, int dev, void *handle, void **comm)
{
    ctx_seen = ctx;
    return listen_(dev, handle, comm);
}

static ncclResult_t connect_v12(void *ctx, int dev, void *handle, void **comm,
                                ncclNetDeviceHandle_v12_t **device)
{
    ctx_seen = ctx;
    return connect_v9(dev, handle, comm, device);
}

static ncclResult_t send_v12(void *comm, void *data, size_t size, int tag, void *mh, void *phandle,
                             void **request)
{
    assert_null(phandle);
    return send_v9(comm, data, size, tag, mh, request);
}

static ncclResult_t recv_v12(void *comm, int n, void **data, size_t *sizes, int *tags, void **mhs,
                             void **phandles, void **request)
{
    for (int i = 0; i < n; i++)
        assert_null(phandles[i]);
    return recv_v9(comm, n, data, sizes, tags, mhs, request);
}

static ncclResult_t properties_v12(int dev, ncclNetProperties_v12_t *props)
{
    *props = (ncclNetProperties_v12_t){.name = "twelve",
                                       .vProps = {.ndevs = 8, .devs = {0, 1, 2, 3, 4, 5, 6, 7}},
                                       .maxMultiRequestSize = 5,
                                       .railId = 6,
                                       .planeId = (int16_t)dev};
    return ncclSuccess;
}

static ncclResult_t vdevice_v12(int *dev, ncclNetVDeviceProps_v12_t *props)
{
    *dev = 10 * props->ndevs + props->devs[props->ndevs - 1];
    return ncclSuccess;
}

static ncclResult_t finalize(void *ctx)
{
    finalized[(char *)ctx - contexts]++;
    return ncclSuccess;
}

static ncclResult_t set_attr(void *ctx, ncclNetAttr_v12_t *attr)
{
    ctx_seen = ctx;
    return attr->op == 9 ? ncclSuccess : ncclInvalidArgument;
}

/* Fills its table only here, as plugins that choose a transport first do. */
static ncclResult_t init_v12(void **ctx, uint64_t id, ncclNetCommConfig_v12_t *config,
                             ncclDebugLogger_t log, ncclProfilerCallback_t profiler)
{
    void *event = NULL;

    assert_int_equal(profiler(&event, 0, NULL, 1 << 16, NULL), ncclSuccess);
    *ctx = &contexts[calls];
    id_seen = id;
    class_seen = config->trafficClass;
    v12 = (ncclNet_v12_t){SLOTS,
                          .init = init_v12,
                          .getProperties = properties_v12,
                          .listen = listen_v12,
                          .connect = connect_v12,
                          .accept = accept_v9,
                          .regMr = reg_v9,
                          .isend = send_v12,
                          .irecv = recv_v12,
                          .makeVDevice = vdevice_v12,
                          .finalize = calls == 3 ? NULL : finalize,
                          .setNetAttr = set_attr};
    return init(log);
}

static void test_contexts(void **state)
{
    ncclNetAttr_v11_t attr = {.op = 9};
    _Alignas(8) char handle[MN_HANDLE_SIZE];
    struct mn_plugin_props props;
    int sizes[1] = {0}, dev;
    void *comm, *request;

    (void)state;
    calls = 0;
    memset(finalized, 0, sizeof finalized);
    v12 = (ncclNet_v12_t){.init = init_v12};
    struct mn_plugin *p = over(&mn_host_v12, &v12), *other = mn_plugin_context(p);
    mn_plugin_set_config(p, 77, 104);
    assert_int_equal(mn_plugin_init(p), 0);
    assert_true(id_seen == 77 && class_seen == 104);
    assert_int_equal(mn_plugin_init(other), 0);
    assert_true(id_seen == 0 && class_seen == -1);
    assert_int_equal(mn_plugin_listen(p, 2, handle, &comm), 0);
    assert_ptr_equal(ctx_seen, &contexts[0]);
    assert_int_equal(mn_plugin_connect(other, 2, handle, &comm), 0);
    assert_ptr_equal(ctx_seen, &contexts[1]);
    assert_int_equal(mn_plugin_set_attr(p, &attr), 0);
    assert_ptr_equal(ctx_seen, &contexts[0]);
    assert_int_equal(mn_plugin_properties(p, 3, &props), 0);
    assert_true(props.n_devs == 8 && props.devs[7] == 7 && props.net.rail_id == 6 &&
                props.net.plane_id == 3 && props.net.max_multi_request_size == 5);
    assert_int_equal(mn_plugin_make_vdevice(p, 8, props.devs, &dev), 0);
    assert_int_equal(dev, 87);
    assert_int_equal(mn_plugin_iflush(p, comm, 1, &comm, sizes, &comm, &request), MN_HOST_ABSENT);
    mn_plugin_close(p);
    assert_true(finalized[0] == 1 && finalized[1] == 0);
    assert_int_equal(mn_plugin_finalize(other), 0);
    assert_int_equal(finalized[1], 1);
    assert_int_equal(mn_plugin_init(other), 0);
    assert_int_equal(mn_plugin_finalize(other), 0);
    assert_int_equal(finalized[2], 1);
    /* The fourth leaves finalize NULL, which NCCL calls without a look. */
    assert_int_equal(mn_plugin_init(other), MN_HOST_BROKEN);
    free(other->library);
    free(other);
}

static void test_refused_dialects(void **state)
{
    static const struct {
        const char *path, *name;
        int versions[4];
        int refused;
    } rows[] = {
        {"/opt/aws/libnccl-net.so", "AWS Libfabric", {6, 5, 4, 0}, 1},
        {"/opt/aws/libnccl-net.so", "AWS Libfabric", {7, 6, 5, 0}, 0},
        {"/opt/aws/libnccl-net.so", "Libfabric", {6, 5, 4, 0}, 0},
        {"libnccom-net.so.2", "Libfabric", {8, 0}, 1},
        {"/opt/neuron/libnccom-net.so", "Libfabric", {6, 0}, 1},
        {"/opt/libnccom-net/libnccl-net.so", "Libfabric", {6, 0}, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_plugin_info info = {.version = 6};
        struct mn_diag diag = {.text = ""};
        mn_strlcpy(info.path, rows[i].path, sizeof info.path);
        mn_strlcpy(info.name, rows[i].name, sizeof info.name);
        memcpy(info.versions, rows[i].versions, sizeof rows[i].versions);
        assert_int_equal(mn_host_refuse(&info, &diag) != MN_OK, rows[i].refused);
        assert_int_equal(strstr(diag.text, "Neuron") != NULL, rows[i].refused);
    }
}

static char heard[2][64];

static void hear(void *ctx, int level, const char *line)
{
    assert_int_equal(level, NCCL_LOG_INFO);
    mn_strlcpy(ctx, line, sizeof heard[0]);
}

/* Lines of two libraries do not mix. */
static void test_logs(void **state)
{
    struct mn_plugin *a = over(&mn_host_v9, &v9), *b = over(&mn_host_v9, &v9);

    (void)state;
    calls = 0;
    mn_plugin_set_log(a, hear, heard[0]);
    mn_plugin_set_log(b, hear, heard[1]);
    assert_int_equal(mn_plugin_init(a), 0);
    assert_string_equal(heard[0], "hello 1");
    assert_string_equal(heard[1], "");
    assert_int_equal(mn_plugin_init(b), 0);
    assert_string_equal(heard[0], "hello 1");
    assert_string_equal(heard[1], "hello 2");
    mn_plugin_close(a);
    mn_plugin_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocking_calls),
        cmocka_unit_test(test_blocking_errors),
        cmocka_unit_test(test_blocking_given_up),
        cmocka_unit_test(test_scalar_calls),
        cmocka_unit_test(test_rccl),
        cmocka_unit_test(test_virtual_devices),
        cmocka_unit_test(test_init_once),
        cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_refused_dialects),
        cmocka_unit_test(test_logs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
