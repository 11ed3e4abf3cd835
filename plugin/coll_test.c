#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "plugin/coll.h"
#include "plugin/net.h"
#include "plugin/reduce.h"

#define MOST_RANKS 8
#ifdef __SANITIZE_THREAD__ /* ranks that poll share few processors, and each is slow */
#define RANKS      3
#define MANY_RANKS 4
#else
#define RANKS      5
#define MANY_RANKS MOST_RANKS
#endif

/* A rank is a thread; what goes wrong in it is told to the main one. */
struct rank;
static struct world {
    int nranks;
    pthread_barrier_t barrier;
    char handles[MOST_RANKS][MN_HANDLE_SIZE];
    void (*body)(struct rank *rank);
    size_t bytes, offset, block;
    int type, op, in_place;
} world;

struct rank {
    int rank;
    void *coll;
    char wrong[160];
};

#define CHECK(rank, what, condition)                                                               \
    do {                                                                                           \
        if (!(condition) && !(rank)->wrong[0])                                                     \
            snprintf((rank)->wrong, sizeof(rank)->wrong, "rank %d of %d, %zu bytes: %s",           \
                     (rank)->rank, world.nranks, world.bytes, what);                               \
    } while (0)

static void *run_rank(void *arg)
{
    struct rank *rank = arg;
    void *listen_comm = NULL, *handles[MOST_RANKS];

    CHECK(rank, "listen", !mn_coll_listen(NULL, 0, world.handles[rank->rank], &listen_comm));
    pthread_barrier_wait(&world.barrier);
    for (int i = 0; i < world.nranks; i++)
        handles[i] = world.handles[i];
    CHECK(rank, "connect",
          !mn_coll_connect(handles, world.nranks, rank->rank, listen_comm, &rank->coll));
    CHECK(rank, "close listen", !mn_coll_close_listen(listen_comm));
    if (!rank->wrong[0])
        world.body(rank);
    pthread_barrier_wait(&world.barrier);
    mn_coll_close(rank->coll);
    return NULL;
}

static void run(int nranks, void (*body)(struct rank *rank))
{
    struct rank ranks[MOST_RANKS] = {{.rank = 0}};
    pthread_t threads[MOST_RANKS];

    world.nranks = nranks;
    world.body = body;
    pthread_barrier_init(&world.barrier, NULL, (unsigned)nranks);
    for (int i = 0; i < nranks; i++) {
        ranks[i].rank = i;
        assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < nranks; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&world.barrier);
    for (int i = 0; i < nranks; i++)
        if (ranks[i].wrong[0])
            fail_msg("%s", ranks[i].wrong);
}

/* Small numbers, so that sums are exact in every type but the narrowest. */
static double value(int rank, size_t i)
{
    return (double)((i * 7 + (size_t)rank * 3 + 1) % 5);
}

static struct mn_coll_part part_new(struct rank *rank, size_t size)
{
    struct mn_coll_part part = {.data = malloc(size + 64), .size = size};

    memset(part.data, 0x5a, size + 64);
    CHECK(rank, "regMr", !mn_coll_reg_mr(rank->coll, part.data, size + 64, 1, &part.mhandle));
    return part;
}

static void part_free(struct rank *rank, struct mn_coll_part *part)
{
    for (int i = 0; i < 64; i++)
        CHECK(rank, "a byte behind the buffer was written",
              ((uint8_t *)part->data)[part->size + (size_t)i] == 0x5a);
    CHECK(rank, "deregMr", !mn_coll_dereg_mr(rank->coll, part->mhandle));
    free(part->data);
}

static void wait_for(struct rank *rank, void *request, size_t bytes)
{
    int done = 0, size = -1, result = 0;

    while (!done && !result)
        result = mn_coll_test(request, &done, &size);
    CHECK(rank, "test", !result);
    CHECK(rank, "size", size == (int)bytes);
}

/* Element i of the sum over all ranks. */
static void expect_sum(struct rank *rank, const uint8_t *at, size_t i, int type)
{
    uint8_t sum[8] = {0}, one[8] = {0};

    for (int r = 0; r < world.nranks; r++) {
        mn_type_set(type, one, value(r, i));
        if (r)
            mn_reduce_kernel(type, MN_REDOP_SUM)(sum, one, 1);
        else
            memcpy(sum, one, sizeof sum);
    }
    CHECK(rank, "an element is wrong", !memcmp(at, sum, mn_type_size(type)));
}

/* --- cases ------------------------------------------------------------------------------------ */

static void allreduce(struct rank *rank)
{
    size_t size = mn_type_size(world.type), count = world.bytes / size;
    struct mn_coll_part send = part_new(rank, count * size), recv = part_new(rank, count * size);
    void *request;

    for (size_t i = 0; i < count; i++)
        mn_type_set(world.type, (uint8_t *)send.data + i * size, value(rank->rank, i));
    if (world.in_place)
        memcpy(recv.data, send.data, count * size);
    CHECK(rank, "allreduce",
          !mn_coll_allreduce(rank->coll, world.in_place ? recv : send, recv, world.type,
                             MN_REDOP_SUM, &request));
    wait_for(rank, request, count * size);
    for (size_t i = 0; i < count; i++)
        expect_sum(rank, (uint8_t *)recv.data + i * size, i, world.type);
    part_free(rank, &send);
    part_free(rank, &recv);
}

static void every_type_and_size(void **state)
{
    static const size_t bytes[] = {0, 8, 72, 40000, 1100008, 9000000};

    (void)state;
    for (int n = 1; n <= RANKS; n++)
        for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
            world.bytes = bytes[i];
            world.type = n == 3 && bytes[i] < 100000 ? MN_TYPE_INT8 : MN_TYPE_FLOAT32;
            world.in_place = n % 2;
            run(n, allreduce);
        }
    world.bytes = 50000;
    for (world.type = 0; world.type < MN_TYPES; world.type++)
        run(3, allreduce);
    world.type = MN_TYPE_BFLOAT16;
    world.bytes = 3000002;
    run(MANY_RANKS, allreduce);
}

/* The window's bytes of the virtual array: block r holds rank r's values. */
static void allgather(struct rank *rank)
{
    size_t start = (size_t)rank->rank * world.block, end = world.offset + world.bytes;
    size_t from = start > world.offset ? start : world.offset, to = start + world.block;
    struct mn_coll_part whole = part_new(rank, world.bytes), own;
    void *request;

    to = to < end ? to : end;
    own = part_new(rank, from < to ? to - from : 0);
    for (size_t i = from; i < to; i++)
        ((uint8_t *)own.data)[i - from] = (uint8_t)(i * 31 >> 3);
    CHECK(rank, "allgather",
          !mn_coll_allgather(rank->coll, own, whole, world.block, world.offset, world.bytes,
                             &request));
    wait_for(rank, request, world.bytes);
    for (size_t i = 0; i < world.bytes; i++)
        CHECK(rank, "a byte is wrong",
              ((uint8_t *)whole.data)[i] == (uint8_t)((i + world.offset) * 31 >> 3));
    part_free(rank, &own);
    part_free(rank, &whole);
}

static void reducescatter(struct rank *rank)
{
    size_t size = mn_type_size(world.type), end = world.offset + world.bytes;
    size_t start = (size_t)rank->rank * world.block, to = start + world.block;
    size_t from = start > world.offset ? start : world.offset;
    struct mn_coll_part whole = part_new(rank, world.bytes), own;
    void *request;

    to = to < end ? to : end;
    own = part_new(rank, from < to ? to - from : 0);
    for (size_t i = 0; i < world.bytes / size; i++)
        mn_type_set(world.type, (uint8_t *)whole.data + i * size,
                    value(rank->rank, i + world.offset / size));
    CHECK(rank, "reducescatter",
          !mn_coll_reducescatter(rank->coll, whole, own, world.block, world.offset, world.bytes,
                                 world.type, MN_REDOP_SUM, &request));
    wait_for(rank, request, own.size);
    for (size_t i = 0; i < own.size / size; i++)
        expect_sum(rank, (uint8_t *)own.data + i * size, from / size + i, world.type);
    part_free(rank, &own);
    part_free(rank, &whole);
}

static void windows_of_gather_and_scatter(void **state)
{
    static const size_t blocks[] = {0, 16, 4096, 700000, 2500000};

    (void)state;
    world.type = MN_TYPE_INT32;
    for (int n = 1; n <= RANKS; n += n < 3 ? 1 : 2)
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
            world.block = blocks[i];
            world.offset = 0;
            world.bytes = world.block * (size_t)n;
            run(n, allgather);
            run(n, reducescatter);
            world.offset = world.block / 8 * 4;
            world.bytes = world.block ? (world.bytes - world.offset) / 16 * 8 + 8 : 0;
            run(n, allgather);
            run(n, reducescatter);
        }
}

/* Posted together, asked for in another order, done in order. */
static void many_at_once(struct rank *rank)
{
    enum { MANY = MN_COLL_REQUESTS };
    struct mn_coll_part bufs[MANY];
    void *requests[MANY + 1];

    for (int k = 0; k < MANY; k++) {
        bufs[k] = part_new(rank, (size_t)k * 4000);
        for (size_t i = 0; i < (size_t)k * 1000; i++)
            mn_type_set(MN_TYPE_INT32, (uint8_t *)bufs[k].data + i * 4, value(rank->rank, i));
        CHECK(rank, "allreduce",
              !mn_coll_allreduce(rank->coll, bufs[k], bufs[k], MN_TYPE_INT32, MN_REDOP_SUM,
                                 &requests[k]) &&
                  requests[k]);
    }
    CHECK(rank, "one more than there is room for is refused, politely",
          !mn_coll_allreduce(rank->coll, bufs[0], bufs[0], MN_TYPE_INT32, MN_REDOP_SUM,
                             &requests[MANY]) &&
              !requests[MANY]);
    for (int k = MANY - 1; k >= 0; k--) {
        wait_for(rank, requests[k], bufs[k].size);
        for (size_t i = 0; i < bufs[k].size / 4; i++)
            expect_sum(rank, (uint8_t *)bufs[k].data + i * 4, i, MN_TYPE_INT32);
        part_free(rank, &bufs[k]);
    }
}

static void operations_wait_their_turn(void **state)
{
    (void)state;
    world.bytes = 0;
    run(3, many_at_once);
}

static void another_size(struct rank *rank)
{
    struct mn_coll_part part = part_new(rank, 80);
    int done = 0, result;
    void *request;

    part.size = rank->rank ? 80 : 40;
    result = mn_coll_allreduce(rank->coll, part, part, MN_TYPE_INT32, MN_REDOP_SUM, &request);
    while (!result && !done)
        result = mn_coll_test(request, &done, NULL);
    CHECK(rank, "ranks that disagree about the size are not told", result);
    part.size = 80;
    memset((uint8_t *)part.data + 80, 0x5a, 64);
    part_free(rank, &part);
}

static void disagreement_is_an_error(void **state)
{
    (void)state;
    run(2, another_size);
}

static void wrong_arguments(void **state)
{
    int supported;
    void *coll, *request, *handles[1] = {NULL};
    struct mn_coll_part part = {.data = &supported, .size = 4}, half = {.data = &coll, .size = 2};

    (void)state;
    assert_int_not_equal(mn_coll_connect(handles, 0, 0, NULL, &coll), 0);
    assert_int_not_equal(mn_coll_connect(handles, 1, 1, NULL, &coll), 0);
    assert_int_equal(mn_coll_connect(handles, 1, 0, NULL, &coll), 0);
    assert_int_not_equal(mn_coll_allreduce(coll, part, half, MN_TYPE_INT32, 0, &request), 0);
    assert_int_not_equal(mn_coll_allreduce(coll, half, half, MN_TYPE_INT32, 0, &request), 0);
    assert_int_not_equal(mn_coll_allreduce(coll, part, part, MN_TYPES, 0, &request), 0);
    assert_int_not_equal(mn_coll_allreduce(coll, part, part, MN_TYPE_INT32, 4, &request), 0);
    assert_int_not_equal(mn_coll_allgather(coll, part, part, 4, 0, 5, &request), 0);
    assert_int_not_equal(mn_coll_allgather(coll, part, part, 4, 5, 0, &request), 0);
    assert_int_not_equal(mn_coll_allgather(coll, part, half, 4, 0, 4, &request), 0);
    assert_int_not_equal(mn_coll_reducescatter(coll, part, part, 4, 1, 2, MN_TYPE_INT32, 0,
                                               &request),
                         0);
    mn_coll_reduce_support(MN_TYPE_FLOAT8E4M3, MN_REDOP_MIN, &supported);
    assert_int_equal(supported, 1);
    mn_coll_reduce_support(MN_TYPE_FLOAT32, 4, &supported);
    assert_int_equal(supported, 0);
    mn_coll_close(coll);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_size),
        cmocka_unit_test(windows_of_gather_and_scatter),
        cmocka_unit_test(operations_wait_their_turn),
        cmocka_unit_test(disagreement_is_an_error),
        cmocka_unit_test(wrong_arguments),
    };

    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    unsetenv("MESHNET_CONFIG");
    assert_int_equal(mn_net_init(NULL), 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
