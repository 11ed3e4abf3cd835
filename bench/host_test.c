#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/host.h"
#include "bench/host/host_impl.h"

#define MESH LIB_DIR "/libnccl-net-mesh.so"

/* FIPS 180-4's examples, and the lengths around its padding. */
static void test_sha256(void **state)
{
    static const struct {
        const char *text, *hash;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
         "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t digest[32];
        char hex[65];
        mn_sha256(rows[i].text, strlen(rows[i].text), digest);
        for (int j = 0; j < 32; j++)
            snprintf(hex + 2 * j, 3, "%02x", digest[j]);
        assert_string_equal(hex, rows[i].hash);
    }
}

static void test_open(void **state)
{
    static const int expected[] = {10, 9, 8, 0};
    struct mn_plugin *plugin;
    struct mn_diag diag;
    char command[1024], sum[65];

    (void)state;
    /* Through an alias: the path is the file behind it. */
    assert_int_equal(mn_plugin_open(LIB_DIR "/librccl-net.so", 0, &plugin, &diag), MN_OK);
    const struct mn_plugin_info *info = mn_plugin_info(plugin);
    char *real = realpath(MESH, NULL);
    assert_non_null(real);
    assert_string_equal(info->path, real);
    assert_string_equal(info->name, "meshnet");
    assert_int_equal(info->version, 10);
    assert_memory_equal(info->versions, expected, sizeof expected);
    snprintf(command, sizeof command, "sha256sum '%s'", real);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%64s", sum), 1);
    pclose(pipe);
    assert_string_equal(info->hash, sum);
    free(real);
    mn_plugin_close(plugin);
}

static void test_each_version(void **state)
{
    (void)state;
    for (int version = 8; version <= 10; version++) {
        struct mn_plugin *plugin;
        struct mn_diag diag;
        assert_int_equal(mn_plugin_open(MESH, version, &plugin, &diag), MN_OK);
        assert_int_equal(mn_plugin_info(plugin)->version, version);
        mn_plugin_close(plugin);
    }
}

static void refused(const char *path, int version, const char *said)
{
    struct mn_plugin *plugin;
    struct mn_diag diag;

    assert_int_not_equal(mn_plugin_open(path, version, &plugin, &diag), MN_OK);
    if (!strstr(diag.text, said) ||
        !strstr(diag.text, strrchr(path, '/') ? strrchr(path, '/') + 1 : "lib"))
        fail_msg("\"%s\" does not name %s and \"%s\"", diag.text, path, said);
}

static void test_refusals(void **state)
{
    (void)state;
    refused("/nonexistent/libnccl-net-none.so", 0, "cannot open shared object file");
    refused("libm.so.6", 0, "ncclNetPlugin_v10");
    refused(MESH, 7, "ncclNetPlugin_v7");
    refused(MESH, 12, "ncclNetPlugin_v12");
    refused(SOURCE_DIR "/CMakeLists.txt", 0, "CMakeLists.txt");
}

static int lines;

static void count_line(void *ctx, int level, const char *line)
{
    assert_ptr_equal(ctx, &lines);
    assert_true(level >= 0 && line[0]);
    lines++;
}

static void test_log_and_devices(void **state)
{
    struct mn_plugin *plugin;
    struct mn_diag diag;
    int devices = 0;

    (void)state;
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    for (int version = 8; version <= 10; version++) {
        struct mn_net_props props;
        assert_int_equal(mn_plugin_open(MESH, version, &plugin, &diag), MN_OK);
        mn_plugin_set_log(plugin, count_line, &lines);
        assert_int_equal(mn_plugin_init(plugin), 0);
        assert_int_equal(mn_plugin_devices(plugin, &devices), 0);
        assert_int_equal(devices, 1);
        assert_int_equal(mn_plugin_properties(plugin, 0, &props), 0);
        assert_non_null(props.name);
        assert_int_equal(props.max_recvs, MN_HOST_MAX_RECVS);
        assert_true(props.speed_mbps > 0);
        assert_int_not_equal(mn_plugin_properties(plugin, devices, &props), 0);
        mn_plugin_set_log(plugin, NULL, NULL);
        mn_plugin_close(plugin);
    }
    assert_true(lines > 0);
}

static void test_group_bounds(void **state)
{
    struct mn_plugin *plugin;
    struct mn_diag diag;
    void *request = &diag;

    (void)state;
    assert_int_equal(mn_plugin_open(MESH, 0, &plugin, &diag), MN_OK);
    for (int n = -1; n <= MN_HOST_MAX_RECVS + 1; n += MN_HOST_MAX_RECVS + 2) {
        request = &diag;
        assert_string_equal(mn_nccl_result_name(
                                mn_plugin_irecv(plugin, NULL, n, NULL, NULL, NULL, NULL, &request)),
                            "ncclInvalidArgument");
        assert_null(request);
    }
    assert_string_equal(mn_nccl_result_name(0), "ncclSuccess");
    assert_string_equal(mn_nccl_result_name(99), "unknown result");
    mn_plugin_close(plugin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256),          cmocka_unit_test(test_open),
        cmocka_unit_test(test_each_version),    cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_log_and_devices), cmocka_unit_test(test_group_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
