/* Every algorithm for every number of ranks, in one process: all ranks' runs take turns, messages
 * travel through memory and a send ends only when it was received, as rendezvous may have it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bench/coll/algorithm.h"

#ifdef __SANITIZE_THREAD__ /* there is one thread, and it is slow */
#define MOST_RANKS 4
#else
#define MOST_RANKS 9
#endif
#define GUARD 32
#define UNSET 0x77

/* --- messages through memory --- */

struct message {
    void *data;
    size_t bytes, got;
    int done;
};

struct box {
    struct message *sends[4096], *recvs[4096];
    int n_sends, n_recvs, n_done;
};

static struct box boxes[MOST_RANKS][MOST_RANKS]; /* from, to */
static uint32_t random_state;

static uint32_t any_number(void)
{
    random_state = random_state * 1664525 + 1013904223;
    return random_state >> 8;
}

struct end {
    int rank;
};

static struct message *message_new(void *data, size_t bytes)
{
    struct message *m = calloc(1, sizeof *m);

    assert_non_null(m);
    *m = (struct message){.data = data, .bytes = bytes};
    return m;
}

static int wire_send(void *ctx, int peer, void *data, size_t bytes, enum mn_step_buffer buffer,
                     void **request)
{
    struct box *box = &boxes[((struct end *)ctx)->rank][peer];

    (void)buffer;
    assert_true(box->n_sends < 4096);
    *request = box->sends[box->n_sends++] = message_new(data, bytes);
    return 0;
}

static int wire_recv(void *ctx, int peer, void *data, size_t bytes, enum mn_step_buffer buffer,
                     void **request)
{
    struct box *box = &boxes[peer][((struct end *)ctx)->rank];

    (void)buffer;
    assert_true(box->n_recvs < 4096);
    *request = box->recvs[box->n_recvs++] = message_new(data, bytes);
    return 0;
}

/* A message that both ends know of travels at any time. */
static void deliver(struct box *box)
{
    while (box->n_done < box->n_sends && box->n_done < box->n_recvs && any_number() % 4) {
        struct message *s = box->sends[box->n_done], *r = box->recvs[box->n_done];
        memcpy(r->data, s->data, s->bytes < r->bytes ? s->bytes : r->bytes);
        r->got = s->got = s->bytes;
        s->done = r->done = 1;
        box->n_done++;
    }
}

static int wire_test(void *ctx, void *request, int *done, size_t *bytes)
{
    const struct message *m = request;

    (void)ctx;
    *done = m->done;
    *bytes = m->got;
    return 0;
}

static void empty_boxes(int nranks)
{
    for (int a = 0; a < nranks; a++)
        for (int b = 0; b < nranks; b++) {
            struct box *box = &boxes[a][b];
            assert_int_equal(box->n_sends, box->n_recvs);
            for (int i = 0; i < box->n_sends; i++) {
                free(box->sends[i]);
                free(box->recvs[i]);
            }
            box->n_sends = box->n_recvs = box->n_done = 0;
        }
}

/* --- one collective on all ranks --- */

struct side {
    struct mn_coll_job job;
    struct mn_schedule schedule;
    struct mn_run *run;
    struct end end;
    uint8_t *memory, *bufs[MN_BUFFERS];
    size_t in, out, memory_bytes;
    int done;
};

/* Of the data of a block-sparse collective a third of the blocks is there, at every other rank. */
static int is_zero(const struct mn_coll_job *job, int rank, size_t i)
{
    size_t block = job->block ? i / job->block : 0;

    return job->block && (block % 3 || (block / 3 + (size_t)rank) % 2);
}

static int type = MN_TYPE_INT32; /* or float32 */

static void value_of(void *ctx, int rank, size_t i, void *element)
{
    size_t value = i * 1000003 + (size_t)rank * 7919 + 1;
    int32_t whole = (int32_t)value;
    float fraction = 1.0f / (float)(value % 1000 + 1);

    if (is_zero(ctx, rank, i))
        memset(element, 0, 4);
    else if (type == MN_TYPE_INT32)
        memcpy(element, &whole, sizeof whole);
    else
        memcpy(element, &fraction, sizeof fraction);
}

/* Sums of fractions may be rounded in any order. */
static int is_close(const void *a, const void *b)
{
    double x = mn_type_get(type, a), y = mn_type_get(type, b);

    return type == MN_TYPE_INT32 ? x == y : fabs(x - y) <= 1e-5 * fabs(y);
}

static void prepare(struct side *side, const struct mn_algorithm *a, int in_place)
{
    size_t in_at, out_at, at = GUARD;

    side->in = mn_collective_in(a->collective, &side->job) * 4;
    side->out = mn_collective_out(a->collective, &side->job) * 4;
    side->memory_bytes = side->in + side->out + side->schedule.tmp_bytes + 4 * GUARD;
    side->memory = malloc(side->memory_bytes);
    assert_non_null(side->memory);
    memset(side->memory, UNSET, side->memory_bytes);
    if (in_place) {
        assert_true(mn_collective_in_place(a->collective, &side->job, &in_at, &out_at));
        side->bufs[MN_IN] = side->memory + at + in_at;
        side->bufs[MN_OUT] = side->memory + at + out_at;
    } else {
        side->bufs[MN_IN] = side->memory + at;
        side->bufs[MN_OUT] = side->memory + at + side->in + GUARD;
    }
    at += side->in + side->out + 2 * GUARD;
    side->bufs[MN_TMP] = side->memory + at;
    for (size_t i = 0; i < side->in / 4; i++)
        value_of(&side->job, side->job.rank, i, side->bufs[MN_IN] + 4 * i);
}

static int is_within(const struct side *side, const uint8_t *byte)
{
    return (byte >= side->bufs[MN_IN] && byte < side->bufs[MN_IN] + side->in) ||
           (byte >= side->bufs[MN_OUT] && byte < side->bufs[MN_OUT] + side->out) ||
           (byte >= side->bufs[MN_TMP] && byte < side->bufs[MN_TMP] + side->schedule.tmp_bytes);
}

static void check(struct side *side, const struct mn_algorithm *a, int in_place)
{
    uint8_t element[4];

    for (size_t i = 0; i < side->out / 4; i++) {
        mn_collective_expect(a->collective, &side->job, mn_reduce_kernel(type, MN_REDOP_SUM),
                             value_of, &side->job, i, element);
        if (!is_close(side->bufs[MN_OUT] + 4 * i, element))
            fail_msg("%s %s, rank %d of %d, root %d, %zu elements: element %zu is wrong",
                     mn_collective_name(a->collective), a->name, side->job.rank, side->job.nranks,
                     side->job.root, side->job.count, i);
    }
    for (size_t i = 0; i < side->in / 4 && !in_place; i++) {
        value_of(&side->job, side->job.rank, i, element);
        if (memcmp(side->bufs[MN_IN] + 4 * i, element, 4))
            fail_msg("%s %s: wrote into its input", mn_collective_name(a->collective), a->name);
    }
    for (size_t i = 0; i < side->memory_bytes; i++)
        if (side->memory[i] != UNSET && !is_within(side, side->memory + i))
            fail_msg("%s %s: wrote beside its buffers", mn_collective_name(a->collective), a->name);
}

static void begin(struct side *side, const struct mn_algorithm *a, int in_place)
{
    const struct mn_wire wire = {&side->end, wire_send, wire_recv, wire_test, NULL};

    a->write(&side->job, &side->schedule);
    assert_int_equal(side->schedule.err, MN_OK);
    prepare(side, a, in_place);
    side->run = mn_run_new(&side->schedule, &wire, side->job.nranks,
                           mn_reduce_kernel(type, MN_REDOP_SUM), 4);
    assert_non_null(side->run);
    mn_run_start(side->run, (void *const *)side->bufs);
}

/* Ranks take turns and messages arrive in any order. */
static void run_all(const struct mn_algorithm *a, const struct mn_coll_job *job, int in_place)
{
    static struct side sides[MOST_RANKS];
    int n = job->nranks, left = n, still = 0;

    for (int r = 0; r < n; r++) {
        sides[r] = (struct side){.job = *job, .end = {r}};
        sides[r].job.rank = r;
        begin(&sides[r], a, in_place);
    }
    while (left) {
        uint64_t moved = 0;
        struct side *side = &sides[any_number() % (uint32_t)n];
        for (int k = 0; k < n; k++)
            deliver(&boxes[side->job.rank][any_number() % (uint32_t)n]);
        if (!side->done) {
            enum mn_err err = mn_run_poll(side->run, &moved);
            assert_true(err == MN_OK || err == MN_ERR_AGAIN);
            side->done = err == MN_OK;
            left -= side->done;
        }
        still = moved ? 0 : still + 1;
        if (still > n * 1000)
            fail_msg("%s %s, %d ranks, root %d, %zu elements in %zu: stuck",
                     mn_collective_name(a->collective), a->name, n, job->root, job->count,
                     job->chunk);
    }
    for (int r = 0; r < n; r++)
        check(&sides[r], a, in_place);
    for (int r = 1; r < n; r++)
        if (mn_collective_reduces(a->collective) && sides[r].out == sides[0].out &&
            a->collective != MN_REDUCESCATTER)
            assert_memory_equal(sides[r].bufs[MN_OUT], sides[0].bufs[MN_OUT], sides[0].out);
    for (int r = 0; r < n; r++) {
        mn_run_free(sides[r].run);
        mn_schedule_free(&sides[r].schedule);
        free(sides[r].memory);
    }
    empty_boxes(n);
}

/* --- what is special about some jobs --- */

static void set_counts(struct mn_coll_job *job, size_t *counts)
{
    size_t n = (size_t)job->nranks;

    for (size_t i = 0; i < n * n; i++)
        counts[i] = i % 4 == 3 ? 0 : (job->count * (i % 5) + i) / 3;
    job->counts = counts;
}

/* As callers do: each rank marks its blocks, and all agree upon all marks. */
static void set_blocks(struct mn_coll_job *job, size_t block, uint8_t *blocks)
{
    int32_t *values = calloc(job->count + 1, sizeof *values);

    assert_non_null(values);
    job->block = block;
    for (int r = 0; r < job->nranks; r++) {
        for (size_t i = 0; i < job->count; i++)
            value_of(job, r, i, &values[i]);
        mn_coll_mark(values, job, blocks);
    }
    job->blocks = blocks;
    for (size_t b = 0; b * block < job->count; b++) {
        int present = 0;
        for (int r = 0; r < job->nranks; r++)
            present |= !is_zero(job, r, b * block);
        assert_int_equal(mn_coll_present(job, b), present);
    }
    free(values);
}

static void set_hosts(struct mn_coll_job *job, size_t way, int *hosts)
{
    for (int r = 0; r < job->nranks; r++)
        hosts[r] = way == 1 ? r / 2 : way == 2 ? r % 3 : way == 3 ? 7 : r / 4;
    job->hosts = way ? hosts : NULL;
}

static void run_one(const struct mn_algorithm *a, int n, size_t way, size_t count)
{
    static const size_t chunks[] = {4096, 64, 20};
    size_t counts[MOST_RANKS * MOST_RANKS], unused;
    uint8_t blocks[256] = {0};
    int hosts[MOST_RANKS];
    struct mn_coll_job job = {.nranks = n,
                              .root = (int)way % n,
                              .count = count,
                              .element = 4,
                              .chunk = chunks[way % 3]};

    if (count > 100 && job.chunk < 64)
        job.chunk = 256;
    set_hosts(&job, way % 5, hosts);
    if (a->collective == MN_ALLTOALLV && way)
        set_counts(&job, counts);
    if (a->collective == MN_SPARSE_ALLREDUCE && way)
        set_blocks(&job, way * 3, blocks);
    if (a->refuses && a->refuses(&job))
        return;
    run_all(a, &job, 0);
    if (mn_collective_in_place(a->collective, &job, &unused, &unused))
        run_all(a, &job, 1);
}

static void every_algorithm(void **state)
{
    static const size_t counts[] = {0, 1, 3, 8, 100, 1001, 7, 250, 64};

    (void)state;
    for (const struct mn_algorithm *a = mn_algorithms; a->name; a++)
        for (int n = 1; n <= MOST_RANKS; n++)
            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
                run_one(a, n, i, counts[i]);
}

/* However sums are rounded, it is the same at every rank. */
static void same_bits(void **state)
{
    (void)state;
    type = MN_TYPE_FLOAT32;
    for (const struct mn_algorithm *a = mn_algorithms; a->name; a++)
        for (int n = 2; n <= MOST_RANKS && mn_collective_reduces(a->collective); n++)
            for (size_t way = 0; way < 4; way++)
                run_one(a, n, way, 200);
    type = MN_TYPE_INT32;
}

static void names_and_factors(void **state)
{
    struct mn_coll_job job = {.rank = 1, .nranks = 4, .root = 1, .count = 10, .element = 4};

    (void)state;
    assert_string_equal(mn_collective_name(MN_ALLREDUCE), "all-reduce");
    assert_string_equal(mn_collective_title(MN_ALLTOALL), "alltoall");
    assert_true(mn_collective_bus_factor(MN_ALLREDUCE, 4) == 1.5);
    assert_true(mn_collective_bus_factor(MN_ALLGATHER, 4) == 0.75);
    assert_true(mn_collective_bus_factor(MN_BROADCAST, 4) == 1);
    assert_int_equal(mn_collective_bytes(MN_ALLGATHER, &job), 160);
    assert_int_equal(mn_collective_in(MN_SCATTER, &job), 40);
    job.rank = 0;
    assert_int_equal(mn_collective_in(MN_SCATTER, &job), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(names_and_factors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
