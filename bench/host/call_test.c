/* The host over vtables of the test's own: what each version is called with, what it is spared, and
 * what the host says of a plugin that breaks a rule. */
#include <limits.h>

#include "bench/host/fake.h"

/* --- v9: device handles, requests, virtual devices ----------------------------------------------
 */

static int writes, hint, ndevs;

static ncclResult_t connect_v9(int dev, void *handle, void **comm,
                               ncclNetDeviceHandle_v9_t **device)
{
    (void)dev;
    (void)handle;
    *comm = &fake[1];
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
    *mh = &fake[5];
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
        *request = &fake[6];
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
    *request = &fake[n];
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

static const ncclNet_v9_t v9 = {FAKE_SLOTS,
                                .init = fake_init,
                                .getProperties = properties_v9,
                                .listen = fake_listen,
                                .connect = connect_v9,
                                .accept = accept_v9,
                                .regMr = reg_v9,
                                .isend = send_v9,
                                .irecv = recv_v9,
                                .iflush = flush_v9,
                                .makeVDevice = vdevice_v9};

static void test_rccl(void **state)
{
    struct mn_plugin *p = fake_open(&mn_host_v9, &v9);
    void *comm, *data = fake, *mh = NULL, *request;
    size_t size = (size_t)5 << 30;
    int tag = 7;

    (void)state;
    assert_int_equal(mn_plugin_init(p), 0);
    for (int rccl = 0; rccl < 2; rccl++)
        for (writes = 0; writes < 2; writes++) {
            int expected = rccl && writes ? MN_HOST_BROKEN : 0;
            mn_plugin_set_mode(p, rccl ? MN_HOST_RCCL : MN_HOST_NCCL);
            assert_int_equal(mn_plugin_connect(p, 2, fake, &comm), expected);
            if (expected)
                assert_non_null(strstr(mn_plugin_fault(), "device-handle"));
            assert_ptr_equal(comm, &fake[1]); /* the caller's to close */
            assert_int_equal(mn_plugin_accept(p, fake, &comm), expected);
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
    struct mn_plugin *p = fake_open(&mn_host_v9, &v9);
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
    struct mn_plugin *p = fake_open(&mn_host_v9, &v9), *other = mn_plugin_context(p);

    (void)state;
    fake_inits = 0;
    assert_int_equal(mn_plugin_init(p), 0);
    assert_int_equal(mn_plugin_init(other), 0);
    assert_int_equal(fake_inits, 1);
    assert_int_equal(mn_plugin_init(p), ncclInvalidUsage);
    mn_plugin_close(p);
    assert_int_equal(mn_plugin_finalize(other), 0);
    assert_int_equal(mn_plugin_init(other), 0);
    assert_int_equal(fake_inits, 2);
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
    return fake_listen(dev, handle, comm);
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
    *ctx = &contexts[fake_inits];
    id_seen = id;
    class_seen = config->trafficClass;
    v12 = (ncclNet_v12_t){FAKE_SLOTS,
                          .init = init_v12,
                          .getProperties = properties_v12,
                          .listen = listen_v12,
                          .connect = connect_v12,
                          .accept = accept_v9,
                          .regMr = reg_v9,
                          .isend = send_v12,
                          .irecv = recv_v12,
                          .makeVDevice = vdevice_v12,
                          .finalize = fake_inits == 3 ? NULL : finalize,
                          .setNetAttr = set_attr};
    return fake_init(log);
}

static void test_contexts(void **state)
{
    ncclNetAttr_v11_t attr = {.op = 9};
    _Alignas(8) char handle[MN_HANDLE_SIZE];
    struct mn_plugin_props props;
    int sizes[1] = {0}, dev;
    void *comm, *request;

    (void)state;
    fake_inits = 0;
    memset(finalized, 0, sizeof finalized);
    v12 = (ncclNet_v12_t){.init = init_v12};
    struct mn_plugin *p = fake_open(&mn_host_v12, &v12), *other = mn_plugin_context(p);
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
    /* The fourth leaves finalize NULL, which NCCL fake_inits without a look. */
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
    struct mn_plugin *a = fake_open(&mn_host_v9, &v9), *b = fake_open(&mn_host_v9, &v9);

    (void)state;
    fake_inits = 0;
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
        cmocka_unit_test(test_rccl),
        cmocka_unit_test(test_virtual_devices),
        cmocka_unit_test(test_init_once),
        cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_refused_dialects),
        cmocka_unit_test(test_logs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
