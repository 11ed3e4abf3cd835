/* The drivers' table over the double of tests/fakegpu, and the places of peer memory modules. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "plugin/gpu.h"

static const struct mn_gpu_driver *drivers(int i, struct mn_diag *diag)
{
    assert_int_equal(mn_gpu_drivers[i]->open(1, diag), MN_OK);
    return mn_gpu_drivers[i];
}

static void tells_memory_apart(void **state)
{
    static char host[64];
    struct mn_diag diag;
    struct mn_gpu_place place;

    (void)state;
    for (int i = 0; mn_gpu_drivers[i]; i++) {
        const struct mn_gpu_driver *gpu = drivers(i, &diag);
        void *device, *managed;
        assert_int_equal(gpu->alloc(1, MN_GPU_DEVICE, 100000, &device, &diag), MN_OK);
        assert_int_equal(gpu->alloc(0, MN_GPU_MANAGED, 5000, &managed, &diag), MN_OK);
        assert_int_equal(gpu->where(host, &place, &diag), MN_OK);
        assert_int_equal(place.kind, MN_GPU_UNKNOWN);
        assert_int_equal(gpu->where((char *)device + 70000, &place, &diag), MN_OK);
        assert_int_equal(place.kind, MN_GPU_DEVICE);
        assert_int_equal(place.device, 1);
        assert_ptr_equal(place.base, device);
        assert_true(place.length >= 100000);
        assert_int_equal(gpu->where(managed, &place, &diag), MN_OK);
        assert_int_equal(place.kind, MN_GPU_MANAGED);
        assert_int_equal(gpu->free(1, device, &diag), MN_OK);
        assert_int_equal(gpu->free(0, managed, &diag), MN_OK);
        assert_int_equal(gpu->where(device, &place, &diag), MN_OK);
        assert_int_equal(place.kind, MN_GPU_UNKNOWN);
    }
}

static void *use_and_wait(void *arg)
{
    const struct mn_gpu_driver *gpu = arg;
    struct mn_diag diag;
    void *stream = NULL;

    assert_int_equal(gpu->use(1, &diag), MN_OK);
    assert_int_equal(gpu->use(7, &diag), MN_ERR_CONFIG);
    assert_int_equal(gpu->stream_new(1, &stream, &diag), MN_OK);
    assert_non_null(stream);
    assert_int_equal(gpu->stream_wait(1, stream, &diag), MN_OK);
    gpu->stream_free(1, stream);
    return NULL;
}

/* On a thread of its own, since use() stays. */
static void a_thread_has_a_device_and_streams(void **state)
{
    struct mn_diag diag;
    pthread_t thread;

    (void)state;
    for (int i = 0; mn_gpu_drivers[i]; i++) {
        assert_int_equal(pthread_create(&thread, NULL, use_and_wait, (void *)drivers(i, &diag)), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

static void an_allocation_has_a_number_of_its_own(void **state)
{
    struct mn_diag diag;
    void *one, *two;
    int on_host;

    (void)state;
    const struct mn_gpu_driver *gpu = drivers(0, &diag);
    assert_int_equal(gpu->alloc(0, MN_GPU_DEVICE, 4096, &one, &diag), MN_OK);
    assert_int_equal(gpu->alloc(0, MN_GPU_DEVICE, 4096, &two, &diag), MN_OK);
    uint64_t id = mn_gpu_allocation(one, 4096);
    assert_int_not_equal(id, 0);
    assert_int_equal(mn_gpu_allocation((char *)one + 100, 10), id);
    assert_int_not_equal(mn_gpu_allocation(two, 4096), id);
    /* Beyond its end, and no GPU's. */
    assert_int_equal(mn_gpu_allocation(one, (size_t)1 << 40), 0);
    assert_int_equal(mn_gpu_allocation(&on_host, sizeof on_host), 0);
    assert_int_equal(gpu->free(0, one, &diag), MN_OK);
    assert_int_equal(gpu->alloc(0, MN_GPU_DEVICE, 4096, &one, &diag), MN_OK);
    assert_int_not_equal(mn_gpu_allocation(one, 4096), id);
    assert_int_equal(gpu->free(0, one, &diag), MN_OK);
    assert_int_equal(gpu->free(0, two, &diag), MN_OK);
}

static void copies_fills_and_exports(void **state)
{
    struct mn_diag diag;
    char out[4096], in[4096];

    (void)state;
    for (int i = 0; mn_gpu_drivers[i]; i++) {
        const struct mn_gpu_driver *gpu = drivers(i, &diag);
        void *device;
        uint64_t offset;
        int fd;
        memset(out, 0x31, sizeof out);
        assert_int_equal(gpu->alloc(0, MN_GPU_DEVICE, 64 << 10, &device, &diag), MN_OK);
        assert_int_equal(gpu->fill(0, device, 0x77, 64 << 10, &diag), MN_OK);
        assert_int_equal(gpu->copy(0, (char *)device + 1000, out, sizeof out, &diag), MN_OK);
        assert_int_equal(gpu->copy(0, in, (char *)device + 1000, sizeof in, &diag), MN_OK);
        assert_memory_equal(in, out, sizeof in);
        assert_int_equal(gpu->dmabuf(0, device, 64 << 10, &fd, &offset, &diag), MN_OK);
        char *map = mmap(NULL, 64 << 10, PROT_READ, MAP_SHARED, fd, (off_t)offset);
        assert_ptr_not_equal(map, MAP_FAILED);
        assert_int_equal(map[999], 0x77);
        assert_int_equal(map[1000], 0x31);
        munmap(map, 64 << 10);
        close(fd);
        struct mn_gpu_place place;
        assert_int_equal(gpu->where(device, &place, &diag), MN_OK);
        char *end = (char *)place.base + place.length;
        assert_int_not_equal(gpu->copy(0, end - 10, out, sizeof out, &diag), MN_OK);
        assert_int_equal(gpu->free(0, device, &diag), MN_OK);
    }
}

static void describes_devices(void **state)
{
    struct mn_diag diag;
    struct mn_gpu_device info;
    int n;

    (void)state;
    for (int i = 0; mn_gpu_drivers[i]; i++) {
        const struct mn_gpu_driver *gpu = drivers(i, &diag);
        assert_ptr_equal(mn_gpu_named(gpu->option), gpu);
        assert_int_equal(gpu->count(&n, &diag), MN_OK);
        assert_int_equal(n, 2);
        assert_int_equal(gpu->describe(1, &info, &diag), MN_OK);
        assert_string_equal(info.pci, i ? "0000:c2:00.0" : "0000:1b:00.0");
        assert_string_equal(info.name, "Double 1");
        assert_true(info.dmabuf && info.gpu_direct && info.flush && !info.unified);
        assert_int_equal(gpu->describe(2, &info, &diag), MN_ERR_CONFIG);
        assert_non_null(strstr(diag.text, "no GPU 2"));
    }
    assert_null(mn_gpu_named("opencl"));
    assert_int_equal(mn_gpu_loaded(), MN_GPU_CAN_PEER | MN_GPU_CAN_DMABUF);
}

/* Each in a process of its own, since a driver is opened once. */
static void open_again(const char *settings, int (*check)(void))
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        setenv("FAKEGPU", settings, 1);
        _exit(check());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* 0 when every driver refuses with err and says text. */
static int refuses(enum mn_err err, const char *text, int device)
{
    struct mn_diag diag = {.text = ""};
    void *p;
    enum mn_err got = mn_gpu_cuda.open(1, &diag);

    if (!got && device)
        got = mn_gpu_cuda.alloc(0, MN_GPU_DEVICE, 4096, &p, &diag);
    if (got == err && strstr(diag.text, text))
        return 0;
    print_error("%s: %s\n", mn_err_name(got), diag.text);
    return 1;
}

static int no_device(void)
{
    return refuses(MN_ERR_NOTFOUND, "no GPU", 0) || mn_gpu_loaded() != 0;
}

static int mismatch(void)
{
    return refuses(MN_ERR_SYS, "different releases", 0) || mn_gpu_loaded() != 0 ||
           refuses(MN_ERR_SYS, "different releases", 0);
}

static int exclusive(void)
{
    return refuses(MN_ERR_SYS, "exclusive compute mode", 1);
}

static int no_export(void)
{
    struct mn_diag diag = {.text = ""};
    uint64_t offset;
    void *p;
    int fd;

    return mn_gpu_cuda.open(1, &diag) || mn_gpu_cuda.alloc(0, MN_GPU_DEVICE, 65536, &p, &diag) ||
           mn_gpu_cuda.dmabuf(0, p, 65536, &fd, &offset, &diag) != MN_ERR_UNSUPPORTED ||
           !strstr(diag.text, "open kernel modules") || mn_gpu_hip.open(1, &diag) ||
           mn_gpu_hip.alloc(0, MN_GPU_DEVICE, 65536, &p, &diag) ||
           mn_gpu_hip.dmabuf(0, p, 65536, &fd, &offset, &diag) != MN_ERR_UNSUPPORTED;
}

static int unified(void)
{
    struct mn_gpu_device info;

    return mn_gpu_cuda.open(1, NULL) || mn_gpu_cuda.describe(0, &info, NULL) || !info.unified ||
           info.gpu_direct || info.dmabuf || info.flush || mn_gpu_loaded() != 0;
}

static int hip5(void)
{
    struct mn_gpu_place place;
    void *p;

    return mn_gpu_hip.open(1, NULL) || mn_gpu_hip.alloc(0, MN_GPU_DEVICE, 4096, &p, NULL) ||
           mn_gpu_hip.where(p, &place, NULL) || place.kind != MN_GPU_DEVICE ||
           mn_gpu_hip.where(&place, &place, NULL) || place.kind != MN_GPU_UNKNOWN;
}

static int only_loads_when_told(void)
{
    struct mn_diag diag;

    return mn_gpu_loaded() != 0 || mn_gpu_cuda.open(0, &diag) != MN_ERR_NOTFOUND ||
           mn_gpu_cuda.open(1, &diag) || mn_gpu_loaded() == 0;
}

static void peer_modules(void **state)
{
    char root[] = "/tmp/gpu_test-XXXXXX", path[128];

    (void)state;
    assert_non_null(mkdtemp(root));
    assert_int_equal(mn_gpu_peer_module(root), 0);
    snprintf(path, sizeof path,
             "mkdir -p %s/module/nvidia_peermem && touch %s/module/nvidia_peermem/version", root,
             root);
    assert_int_equal(system(path), 0);
    assert_int_equal(mn_gpu_peer_module(root), 1);
    snprintf(path, sizeof path, "rm -r %s", root);
    assert_int_equal(system(path), 0);
}

static void bad_states(void **state)
{
    (void)state;
    open_again("devices=0", no_device);
    open_again("init=803", mismatch);
    open_again("open=46", exclusive);
    open_again("export=801", no_export);
    open_again("integrated=1,direct=0,dmabuf=0,major=12", unified);
    open_again("hip=50200000", hip5);
    open_again("", only_loads_when_told);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_states), /* before any driver is open here */
        cmocka_unit_test(tells_memory_apart),
        cmocka_unit_test(a_thread_has_a_device_and_streams),
        cmocka_unit_test(an_allocation_has_a_number_of_its_own),
        cmocka_unit_test(copies_fills_and_exports),
        cmocka_unit_test(describes_devices),
        cmocka_unit_test(peer_modules),
    };
    char path[1024];

    (void)argc;
    /* The loader reads its variable at the start. */
    if (!getenv("FAKEGPU")) {
        snprintf(path, sizeof path, "%s/../tests/fakegpu", LIB_DIR);
        setenv("LD_LIBRARY_PATH", path, 1);
        setenv("FAKEGPU", "devices=2,anew=0", 1);
        execv("/proc/self/exe", argv);
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
