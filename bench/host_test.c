#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/host.h"
#include "bench/host/host_impl.h"

#define MESH LIB_DIR "/libnccl-net-mesh.so"

static void test_open(void **state)
{
    static const int expected[] = {12, 11, 10, 9, 8, 7, 6, 5, 4, 0};
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
    assert_int_equal(info->version, 12);
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
    for (int version = MN_HOST_OLDEST; version <= MN_HOST_NEWEST; version++) {
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
    refused("libm.so.6", 0, "ncclNetPlugin_v12");
    refused("libm.so.6", 4, "ncclNetPlugin_v4");
    refused(MESH, 3, "ncclNetPlugin_v3");
    refused(MESH, 13, "ncclNetPlugin_v13");
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
    for (int version = MN_HOST_OLDEST; version <= MN_HOST_NEWEST; version++) {
        struct mn_plugin_props props;
        assert_int_equal(mn_plugin_open(MESH, version, &plugin, &diag), MN_OK);
        mn_plugin_set_log(plugin, count_line, &lines);
        assert_int_equal(mn_plugin_init(plugin), 0);
        assert_int_equal(mn_plugin_devices(plugin, &devices), 0);
        assert_int_equal(devices, 1);
        assert_int_equal(mn_plugin_properties(plugin, 0, &props), 0);
        assert_non_null(props.net.name);
        assert_int_equal(props.net.max_recvs, version == 4 ? 1 : MN_HOST_MAX_RECVS);
        assert_true(props.net.speed_mbps > 0);
        assert_int_not_equal(mn_plugin_properties(plugin, devices, &props), 0);
        mn_plugin_set_log(plugin, NULL, NULL);
        mn_plugin_close(plugin);
    }
    assert_true(lines > 0);
}

#define SIZE 100000

struct ends {
    struct mn_plugin *plugin;
    void *listen, *send, *recv;
    _Alignas(8) char handle[MN_HANDLE_SIZE];
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void connect_ends(struct mn_plugin *p, struct ends *e)
{
    double end = now() + 20;

    *e = (struct ends){.plugin = p};
    assert_int_equal(mn_plugin_listen(p, 0, e->handle, &e->listen), 0);
    while (!e->send || !e->recv) {
        if (!e->recv)
            assert_int_equal(mn_plugin_accept(p, e->listen, &e->recv), 0);
        if (!e->send)
            assert_int_equal(mn_plugin_connect(p, 0, e->handle, &e->send), 0);
        assert_true(now() < end);
    }
    assert_int_equal(mn_plugin_close_listen(p, e->listen), 0);
}

static void pass(struct ends *e)
{
    struct mn_plugin *p = e->plugin;
    char *from = calloc(1, SIZE), *to = calloc(1, SIZE + 1);
    void *mh[2], *requests[2] = {NULL}, *data = to;
    size_t room = SIZE + 1;
    int tag = 3, done[2] = {0}, sizes[2][1] = {{0}};
    double end = now() + 20;

    assert_true(from && to);
    for (int i = 0; i < SIZE; i++)
        from[i] = (char)(i * 7 + i / 251);
    assert_int_equal(mn_plugin_reg_mr(p, e->send, from, SIZE, NCCL_PTR_HOST, &mh[0]), 0);
    assert_int_equal(mn_plugin_reg_mr(p, e->recv, to, SIZE + 1, NCCL_PTR_HOST, &mh[1]), 0);
    while (!done[0] || !done[1]) {
        if (!requests[1])
            assert_int_equal(mn_plugin_irecv(p, e->recv, 1, &data, &room, &tag, &mh[1],
                                             &requests[1]),
                             0);
        if (!requests[0])
            assert_int_equal(mn_plugin_isend(p, e->send, from, SIZE, tag, mh[0], &requests[0]), 0);
        for (int i = 0; i < 2; i++)
            if (requests[i] && !done[i])
                assert_int_equal(mn_plugin_test(p, requests[i], &done[i], sizes[i]), 0);
        assert_true(now() < end);
    }
    assert_int_equal(sizes[1][0], SIZE);
    assert_memory_equal(from, to, SIZE);
    assert_int_equal(mn_plugin_dereg_mr(p, e->send, mh[0]), 0);
    assert_int_equal(mn_plugin_dereg_mr(p, e->recv, mh[1]), 0);
    free(from);
    free(to);
}

static void close_ends(struct ends *e)
{
    assert_int_equal(mn_plugin_close_send(e->plugin, e->send), 0);
    assert_int_equal(mn_plugin_close_recv(e->plugin, e->recv), 0);
}

/* Both ends from one thread, whatever blocks, as each library calls. */
static void test_message_in_each_version(void **state)
{
    (void)state;
    for (int version = MN_HOST_OLDEST; version <= MN_HOST_NEWEST; version++)
        for (int rccl = 0; rccl < 2; rccl++) {
            struct mn_plugin *p;
            struct mn_diag diag;
            struct ends e;
            assert_int_equal(mn_plugin_open(MESH, version, &p, &diag), MN_OK);
            mn_plugin_set_mode(p, rccl ? MN_HOST_RCCL : MN_HOST_NCCL);
            assert_int_equal(mn_plugin_init(p), 0);
            connect_ends(p, &e);
            pass(&e);
            close_ends(&e);
            mn_plugin_close(p);
        }
}

/* By the names that NCCL and RCCL make of NCCL_NET_PLUGIN; the loader's search path is that of a
 * process that starts with it. */
static void test_names(void **state)
{
    static const struct {
        const char *name;
        int found;
    } rows[] = {{"mesh", 1},      {"libnccl-net.so", 1}, {"librccl-net-mesh.so", 1},
                {"rccl-only", 1}, {"libmesh.so", 0},     {"./mesh", 0},
                {"nccl", 0}};
    char dir[] = "/tmp/mn-names-XXXXXX", alias[64];

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(alias, sizeof alias, "%s/librccl-net-rccl-only.so", dir);
    assert_int_equal(symlink(MESH, alias), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status = 0;
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            char path[1200];
            snprintf(path, sizeof path, "%s:%s", LIB_DIR, dir);
            setenv("LD_LIBRARY_PATH", path, 1);
            execl("/proc/self/exe", "host_test", rows[i].name, (char *)NULL);
            _exit(2);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != !rows[i].found)
            fail_msg("%s: status %d", rows[i].name, status);
    }
    unlink(alias);
    rmdir(dir);
}

static int open_name(const char *name)
{
    struct mn_plugin *plugin;
    struct mn_diag diag;

    if (mn_plugin_open(name, 0, &plugin, &diag))
        return strstr(diag.text, name) ? 1 : 3;
    mn_plugin_close(plugin);
    return 0;
}

/* From v11 on a library goes with its last communicator; an older one stays, for its threads. */
static void test_unmapped(void **state)
{
    static const char path[] = LIB_DIR "/../tests/broken/libnccl-net-ref.so";

    (void)state;
    if (access(path, R_OK))
        skip();
    /* The last is v10: what is mapped for it never goes. */
    for (int version = MN_HOST_NEWEST; version >= 10; version--) {
        struct mn_plugin *p, *other;
        struct mn_diag diag;
        assert_int_equal(mn_plugin_open(path, version, &p, &diag), MN_OK);
        other = mn_plugin_context(p);
        assert_int_equal(mn_plugin_init(p), 0);
        assert_int_equal(mn_plugin_init(other), 0);
        mn_plugin_close(p);
        void *there = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
        assert_non_null(there);
        dlclose(there);
        mn_plugin_close(other);
        there = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
        assert_int_equal(there == NULL, version >= 11);
    }
}

/* One communicator's end is not the other's. */
static void test_two_communicators(void **state)
{
    (void)state;
    for (int version = 10; version <= MN_HOST_NEWEST; version++) {
        struct mn_plugin *p, *other;
        struct mn_diag diag;
        struct ends e, more;
        assert_int_equal(mn_plugin_open(MESH, version, &p, &diag), MN_OK);
        other = mn_plugin_context(p);
        mn_plugin_set_config(other, 1, 104);
        assert_int_equal(mn_plugin_init(p), 0);
        assert_int_equal(mn_plugin_init(other), 0);
        connect_ends(p, &e);
        connect_ends(other, &more);
        pass(&e);
        pass(&more);
        close_ends(&more);
        mn_plugin_close(other);
        pass(&e);
        close_ends(&e);
        mn_plugin_close(p);
    }
}

/* Two files are two libraries, with state of their own, and talk to each other. */
static void test_two_libraries(void **state)
{
    char copy[] = "/tmp/mn-host-XXXXXX", command[1200];
    struct mn_plugin *a, *b;
    struct mn_diag diag;
    struct ends e = {.plugin = NULL};

    (void)state;
    int fd = mkstemp(copy);
    assert_true(fd >= 0);
    close(fd);
    snprintf(command, sizeof command, "cp '%s' %s", MESH, copy);
    assert_int_equal(system(command), 0);
    assert_int_equal(mn_plugin_open(MESH, 12, &a, &diag), MN_OK);
    assert_int_equal(mn_plugin_open(copy, 6, &b, &diag), MN_OK);
    unlink(copy);
    assert_string_equal(mn_plugin_info(a)->hash, mn_plugin_info(b)->hash);
    assert_string_not_equal(mn_plugin_info(a)->path, mn_plugin_info(b)->path);
    assert_int_equal(mn_plugin_init(a), 0);
    assert_int_equal(mn_plugin_init(b), 0);
    assert_int_equal(mn_plugin_listen(a, 0, e.handle, &e.listen), 0);
    double end = now() + 20;
    while (!e.send || !e.recv) {
        if (!e.recv)
            assert_int_equal(mn_plugin_accept(a, e.listen, &e.recv), 0);
        if (!e.send)
            assert_int_equal(mn_plugin_connect(b, 0, e.handle, &e.send), 0);
        assert_true(now() < end);
    }
    assert_int_equal(mn_plugin_close_listen(a, e.listen), 0);
    assert_int_equal(mn_plugin_close_send(b, e.send), 0);
    assert_int_equal(mn_plugin_close_recv(a, e.recv), 0);
    mn_plugin_close(a);
    mn_plugin_close(b);
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

int main(int argc, char **argv)
{
    if (argc == 2)
        return open_name(argv[1]);

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_each_version),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_log_and_devices),
        cmocka_unit_test(test_message_in_each_version),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_unmapped),
        cmocka_unit_test(test_two_communicators),
        cmocka_unit_test(test_two_libraries),
        cmocka_unit_test(test_group_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
