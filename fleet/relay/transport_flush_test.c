/* GPU memory over relays, on the double of libibverbs: what a NIC has written into a DMA-BUF is
 * seen only after a read of the same NIC, so that a flush left out, or done too early, is wrong
 * data. */
#define NODES 4
#include "fleet/relay/transport_kit.h"

#include <sys/mman.h>

#define SIZE     (1u << 20)
#define MESSAGES 2

static const size_t sizes[MESSAGES] = {600000, 4096};

struct gpu {
    struct flow flow;
    int fd[MESSAGES];
    uint8_t *in[MESSAGES], *out;
    void *mh_in[MESSAGES], *mh_out;
    uint8_t value;
};

static int set_up(void **state)
{
    (void)state;
    kit_open(18660);
    for (int i = 0; i < NODES; i++)
        configs[i].pointers = NCCL_PTR_HOST | NCCL_PTR_DMABUF;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kit_stop(1);
    kit_close();
    return 0;
}

static void gpu_open(struct gpu *g)
{
    memset(g, 0, sizeof *g);
    kit_start(1);
    flow_open(&g->flow, 0, 2);
    g->out = malloc(SIZE);
    assert_int_equal(mn_transport_relay.reg_mr(g->flow.comm[1], g->out, SIZE, NCCL_PTR_HOST,
                                               &g->mh_out),
                     MN_OK);
    for (int i = 0; i < MESSAGES; i++) {
        g->fd[i] = memfd_create("gpu", MFD_CLOEXEC);
        assert_int_equal(ftruncate(g->fd[i], SIZE), 0);
        g->in[i] = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, g->fd[i], 0);
        assert_ptr_not_equal(g->in[i], MAP_FAILED);
        assert_int_equal(mn_transport_relay.reg_dmabuf(g->flow.comm[0], g->in[i], SIZE,
                                                       NCCL_PTR_CUDA, 0, g->fd[i], &g->mh_in[i]),
                         MN_OK);
    }
}

static void gpu_close(struct gpu *g)
{
    for (int i = 0; i < MESSAGES; i++) {
        assert_int_equal(mn_transport_relay.dereg_mr(g->flow.comm[0], g->mh_in[i]), MN_OK);
        munmap(g->in[i], SIZE);
        close(g->fd[i]);
    }
    assert_int_equal(mn_transport_relay.dereg_mr(g->flow.comm[1], g->mh_out), MN_OK);
    free(g->out);
    flow_close(&g->flow);
    kit_stop(1);
}

static int is_there(const struct gpu *g, int i)
{
    for (size_t at = 0; at < sizes[i]; at++)
        if (g->in[i][at] != g->value)
            return 0;
    return 1;
}

/* Both messages, each received and its send complete. */
static void gpu_carry(struct gpu *g)
{
    struct mn_request *recv[MESSAGES], *send[MESSAGES] = {NULL};
    uint64_t end = mn_now_ms() + PATIENCE_MS;
    int received[MESSAGES] = {0}, sent[MESSAGES] = {0}, tag = 0;

    memset(g->out, ++g->value, SIZE);
    for (int i = 0; i < MESSAGES; i++) {
        void *data = g->in[i];
        assert_int_equal(mn_transport_relay.irecv(g->flow.comm[0], 1, &data, &sizes[i], &tag,
                                                  &g->mh_in[i], &recv[i]),
                         MN_OK);
        assert_non_null(recv[i]);
    }
    for (int left = 2 * MESSAGES; left;) {
        for (int i = 0; i < MESSAGES; i++) {
            int size;
            if (!send[i] && (!i || send[i - 1]))
                assert_int_equal(mn_transport_relay.isend(g->flow.comm[1], g->out, sizes[i], tag,
                                                          g->mh_out, &send[i]),
                                 MN_OK);
            if (send[i] && !sent[i]) {
                assert_int_equal(mn_transport_relay.test(send[i], &sent[i], &size), MN_OK);
                left -= sent[i];
            }
            if (!received[i]) {
                assert_int_equal(mn_transport_relay.test(recv[i], &received[i], &size), MN_OK);
                left -= received[i];
            }
        }
        assert_true(mn_now_ms() < end);
    }
}

static struct mn_request *gpu_flush(struct gpu *g, int i)
{
    struct mn_request *request = NULL;

    assert_int_equal(mn_transport_relay.flush(g->flow.comm[0], g->in[i], g->mh_in[i], &request),
                     MN_OK);
    return request;
}

static void gpu_finish(struct mn_request *request)
{
    uint64_t end = mn_now_ms() + PATIENCE_MS;

    for (int done = !request; !done;) {
        assert_int_equal(mn_transport_relay.test(request, &done, NULL), MN_OK);
        assert_true(mn_now_ms() < end);
    }
}

static void what_is_flushed_is_there(void **state)
{
    struct gpu g;

    (void)state;
    gpu_open(&g);
    for (int round = 0; round < 10; round++) {
        gpu_carry(&g);
        assert_false(is_there(&g, 0) && is_there(&g, 1));
        gpu_finish(gpu_flush(&g, round % MESSAGES));
        assert_true(is_there(&g, 0) && is_there(&g, 1));
    }
    gpu_close(&g);
}

/* The second asks for nothing that the first does not. It is not done before that is. */
static void a_flush_behind_another_waits_for_it(void **state)
{
    struct gpu g;

    (void)state;
    gpu_open(&g);
    for (int round = 0; round < 10; round++) {
        gpu_carry(&g);
        struct mn_request *first = gpu_flush(&g, 0), *second = gpu_flush(&g, 1);
        gpu_finish(second);
        assert_true(is_there(&g, 0) && is_there(&g, 1));
        gpu_finish(first);
    }
    gpu_close(&g);
}

/* … before it is flushed, or while it is: then no NIC could be asked any more. */
static void what_came_over_a_way_that_goes_is_there(void **state)
{
    (void)state;
    for (int flushing = 0; flushing < 2; flushing++) {
        struct gpu g;
        uint64_t end = mn_now_ms() + PATIENCE_MS;
        gpu_open(&g);
        gpu_carry(&g);
        struct mn_request *request = flushing ? gpu_flush(&g, 0) : NULL;
        kit_stop(1);
        while (flow_ways(&g.flow, 0)) {
            flow_progress(&g.flow, 0);
            assert_true(mn_now_ms() < end);
        }
        gpu_finish(request);
        gpu_finish(gpu_flush(&g, 1));
        assert_true(is_there(&g, 0) && is_there(&g, 1));
        gpu_close(&g);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_flushed_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_flush_behind_another_waits_for_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_came_over_a_way_that_goes_is_there, set_up, tear_down),
    };
    char devices[128];

    (void)argc;
    if (kit_on_verbs())
        return cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(devices, sizeof devices, "seed=1,strict=0,dmabuf=2,delay=20,dev=fv0:lo:127.%d.%d.200",
             20 + getpid() / 251 % 200, getpid() % 251);
    setenv("FAKEVERBS", devices, 1);
    setenv("LD_LIBRARY_PATH", LIB_DIR "/../tests/fakeverbs", 1);
    execv("/proc/self/exe", argv);
    return 1;
}
