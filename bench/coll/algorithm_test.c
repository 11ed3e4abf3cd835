/* Every algorithm for every number of ranks, in one process: all ranks' runs take turns, messages
 * travel through memory and a send ends only when it was received, as rendezvous may have it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bench/coll/algorithm.h"

#define MOST_RANKS 9
#define GUARD      32
#define UNSET      0x77

/* --- messages through memory --- */

struct message {
    void *data;
    size_t bytes, got;
    int done;
};

struct box {
    struct message *sends[4096], *recvs[4096];
    int n_sends, n_recvs;
};

static struct box boxes[MOST_RANKS][MOST_RANKS]; /* from, to */

struct end {
    int rank;
};

static void match(struct box *box)
{
    int n = box->n_sends < box->n_recvs ? box->n_sends : box->n_recvs;

    for (int i = 0; i < n; i++) {
        struct message *s = box->sends[i], *r = box->recvs[i];
        if (s->done)
            continue;
        memcpy(r->data, s->data, s->bytes < r->bytes ? s->bytes : r->bytes);
        r->got = s->bytes;
        s->got = s->bytes;
        s->done = r->done = 1;
    }
}

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
    match(box);
    return 0;
}

static int wire_recv(void *ctx, int peer, void *data, size_t bytes, enum mn_step_buffer buffer,
                     void **request)
{
    struct box *box = &boxes[peer][((struct end *)ctx)->rank];

    (void)buffer;
    assert_true(box->n_recvs < 4096);
    *request = box->recvs[box->n_recvs++] = message_new(data, bytes);
    match(box);
    return 0;
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
            box->n_sends = box->n_recvs = 0;
        }
}

/* --- one collective on all ranks --- */

struct side {
    struct mn_coll_job job;
    struct mn_schedule schedule;
    struct mn_run *run;
    struct end end;
    uint8_t *memory, *bufs[MN_BUFFERS];
    int done;
};

/* What NCCL calls in place: where the smaller buffer lies in the larger one. */
static size_t in_place_offset(enum mn_collective c, const struct mn_coll_job *job)
{
    return c == MN_ALLGATHER || c == MN_REDUCESCATTER ||
                   ((c == MN_GATHER || c == MN_SCATTER) && job->rank == job->root)
               ? (size_t)job->rank * job->count * job->element
               : 0;
}

static void value_of(void *ctx, int rank, size_t i, void *element)
{
    int32_t value = (int32_t)(i * 1000003 + (size_t)rank * 7919);

    (void)ctx;
    memcpy(element, &value, sizeof value);
}

static void prepare(struct side *side, const struct mn_algorithm *a, int in_place)
{
    size_t in = mn_collective_in(a->collective, &side->job) * 4;
    size_t out = mn_collective_out(a->collective, &side->job) * 4;
    size_t offset = in_place ? in_place_offset(a->collective, &side->job) : 0;
    size_t tmp = side->schedule.tmp_bytes;
    size_t larger = in > out ? in : out;

    side->memory = malloc(in + out + tmp + 4 * GUARD);
    assert_non_null(side->memory);
    memset(side->memory, UNSET, in + out + tmp + 4 * GUARD);
    side->bufs[MN_IN] = side->memory + GUARD;
    side->bufs[MN_OUT] = side->bufs[MN_IN] + in + GUARD;
    if (in_place) {
        side->bufs[MN_IN] = side->memory + GUARD + (in < out ? offset : 0);
        side->bufs[MN_OUT] = side->memory + GUARD + (in < out ? 0 : offset);
    }
    side->bufs[MN_TMP] = side->memory + 3 * GUARD + in + out;
    (void)larger;
    for (size_t i = 0; i < in / 4; i++)
        value_of(NULL, side->job.rank, i, side->bufs[MN_IN] + 4 * i);
}

static void check(const struct side *side, const struct mn_algorithm *a)
{
    size_t out = mn_collective_out(a->collective, &side->job);

    for (size_t i = 0; i < out; i++) {
        uint8_t element[4];
        mn_collective_expect(a->collective, &side->job,
                             mn_reduce_kernel(MN_TYPE_INT32, MN_REDOP_SUM), value_of, NULL, i,
                             element);
        if (memcmp(side->bufs[MN_OUT] + 4 * i, element, 4))
            fail_msg("%s %s, rank %d of %d, root %d, %zu elements: element %zu is wrong",
                     mn_collective_name(a->collective), a->name, side->job.rank, side->job.nranks,
                     side->job.root, side->job.count, i);
    }
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(side->memory[i], UNSET);
}

static void run_all(const struct mn_algorithm *a, int nranks, int root, size_t count, size_t chunk,
                    int in_place)
{
    static struct side sides[MOST_RANKS];
    int left = nranks, still = 0;

    for (int r = 0; r < nranks; r++) {
        struct side *side = &sides[r];
        *side = (struct side){.job = {.rank = r,
                                      .nranks = nranks,
                                      .root = root,
                                      .count = count,
                                      .element = 4,
                                      .chunk = chunk},
                              .end = {r}};
        a->write(&side->job, &side->schedule);
        assert_int_equal(side->schedule.err, MN_OK);
        prepare(side, a, in_place);
        struct mn_wire wire = {&side->end, wire_send, wire_recv, wire_test};
        side->run = mn_run_new(&side->schedule, &wire, nranks,
                               mn_reduce_kernel(MN_TYPE_INT32, MN_REDOP_SUM), 4);
        assert_non_null(side->run);
        mn_run_start(side->run, (void *const *)side->bufs);
    }
    while (left) {
        uint64_t moved = 0;
        for (int i = 0; i < nranks; i++) {
            struct side *side = &sides[(i * 5 + still) % nranks];
            if (side->done)
                continue;
            enum mn_err err = mn_run_poll(side->run, &moved);
            assert_true(err == MN_OK || err == MN_ERR_AGAIN);
            side->done = err == MN_OK;
            left -= side->done;
        }
        still = moved ? 0 : still + 1;
        if (still > nranks * 3)
            fail_msg("%s %s, %d ranks, root %d, %zu elements in %zu: stuck",
                     mn_collective_name(a->collective), a->name, nranks, root, count, chunk);
    }
    for (int r = 0; r < nranks; r++) {
        check(&sides[r], a);
        mn_run_free(sides[r].run);
        mn_schedule_free(&sides[r].schedule);
        free(sides[r].memory);
    }
    empty_boxes(nranks);
}

static void every_algorithm(void **state)
{
    static const size_t counts[] = {0, 1, 3, 8, 100, 1001};

    (void)state;
    for (const struct mn_algorithm *a = mn_algorithms; a->name; a++)
        for (int n = 1; n <= MOST_RANKS; n++)
            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
                for (int in_place = 0; in_place < 2; in_place++) {
                    struct mn_coll_job job = {.nranks = n, .count = counts[i], .element = 4};
                    int root = (int)i % n;
                    if (in_place && (a->collective == MN_ALLTOALL || a->collective == MN_SENDRECV))
                        continue;
                    if (a->refuses && a->refuses(&job))
                        continue;
                    run_all(a, n, root, counts[i], i % 2 ? 64 : 4096, in_place);
                }
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
        cmocka_unit_test(names_and_factors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
