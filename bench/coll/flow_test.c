/* What steps wait for, found from the memory they use. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "bench/coll/flow.h"

static struct mn_flow *begin(enum mn_collective c, int nranks, struct mn_schedule *s)
{
    struct mn_coll_job job = {.nranks = nranks, .count = 16, .element = 4, .chunk = 64};
    struct mn_flow *f = mn_flow_new(c, &job, s);

    assert_non_null(f);
    return f;
}

static int waits(const struct mn_schedule *s, int step, int after)
{
    for (int i = 0; i < 3; i++)
        if (s->steps[step].after[i] == after)
            return 1;
    return 0;
}

/* A step waits for the writer of what it reads, and for the readers of what it writes. */
static void waits_for_memory(void **state)
{
    struct mn_schedule s = {0};
    struct mn_flow *f = begin(MN_ALLREDUCE, 3, &s);

    (void)state;
    mn_flow_recv(f, 1, mn_at(MN_TMP, 0), 8);
    mn_flow_recv(f, 2, mn_at(MN_TMP, 8), 8);
    mn_flow_send(f, 1, mn_at(MN_TMP, 4), 8);
    mn_flow_recv(f, 2, mn_at(MN_TMP, 0), 6);
    mn_flow_send(f, 2, mn_at(MN_TMP, 12), 4);
    assert_int_equal(s.err, MN_OK);
    assert_int_equal(s.n, 5);
    assert_int_equal(s.tmp_bytes, 16);
    assert_int_equal(s.steps[1].after[0], MN_NO_STEP);
    assert_true(waits(&s, 2, 0) && waits(&s, 2, 1));
    assert_true(waits(&s, 3, 2));
    assert_true(waits(&s, 4, 1) && !waits(&s, 4, 2) && !waits(&s, 4, 3));
    mn_flow_free(f);
    mn_schedule_free(&s);
}

/* The input and the output are the same memory where they may be, and are not elsewhere. */
static void waits_for_in_place(void **state)
{
    struct mn_schedule same = {0}, other = {0};
    struct mn_flow *f = begin(MN_ALLREDUCE, 2, &same), *g = begin(MN_ALLTOALL, 2, &other);

    (void)state;
    mn_flow_send(f, 1, mn_at(MN_IN, 0), 4);
    mn_flow_recv(f, 1, mn_at(MN_OUT, 0), 4);
    assert_true(waits(&same, 1, 0));
    mn_flow_send(g, 1, mn_at(MN_IN, 0), 4);
    mn_flow_recv(g, 1, mn_at(MN_OUT, 0), 4);
    assert_int_equal(other.steps[1].after[0], MN_NO_STEP);
    mn_flow_free(f);
    mn_flow_free(g);
    mn_schedule_free(&same);
    mn_schedule_free(&other);
}

/* Six sends from one place end before anything else is written there, three waits a step or not. */
static void waits_for_many(void **state)
{
    struct mn_schedule s = {0};
    struct mn_flow *f = begin(MN_ALLREDUCE, 7, &s);
    int waited[7] = {0};

    (void)state;
    for (int peer = 1; peer < 7; peer++)
        mn_flow_send(f, peer, mn_at(MN_TMP, 0), 4);
    mn_flow_recv(f, 1, mn_at(MN_TMP, 0), 4);
    assert_int_equal(s.err, MN_OK);
    assert_int_equal(s.steps[s.n - 1].kind, MN_STEP_RECV);
    for (int i = s.n - 1; i >= 0; i--)
        for (int k = 0; k < 3 && (i == s.n - 1 || s.steps[i].kind == MN_STEP_COPY); k++)
            if (s.steps[i].after[k] >= 0 && s.steps[i].after[k] < 6)
                waited[s.steps[i].after[k]] = 1;
    for (int i = 0; i < 6; i++)
        assert_true(waited[i]);
    assert_true(waits(&s, s.n - 1, s.n - 2));
    mn_flow_free(f);
    mn_schedule_free(&s);
}

static void cuts_chunks(void **state)
{
    struct mn_schedule s = {0};
    struct mn_flow *f = begin(MN_ALLREDUCE, 2, &s);

    (void)state;
    mn_flow_send(f, 1, mn_at(MN_IN, 4), 150);
    mn_flow_send(f, 1, mn_at(MN_IN, 0), 0);
    assert_int_equal(s.n, 3);
    assert_int_equal(s.steps[1].from.offset, 68);
    assert_int_equal(s.steps[2].bytes, 22);
    mn_flow_free(f);
    mn_schedule_free(&s);
}

/* What would go wrong in place is found when it is written. */
static void input_after_output(void **state)
{
    struct mn_coll_job job = {.nranks = 2, .count = 4, .element = 4, .chunk = 64};
    struct mn_schedule s = {0};
    struct mn_flow *f = mn_flow_new(MN_ALLREDUCE, &job, &s);

    (void)state;
    assert_non_null(f);
    mn_flow_copy(f, mn_at(MN_IN, 0), mn_at(MN_OUT, 0), 8);
    mn_flow_send(f, 1, mn_at(MN_IN, 8), 8);
    assert_int_equal(s.err, MN_OK);
    mn_flow_send(f, 1, mn_at(MN_IN, 4), 4);
    assert_int_equal(s.err, MN_ERR_INTERNAL);
    mn_flow_free(f);
    mn_schedule_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_for_memory),   cmocka_unit_test(waits_for_in_place),
        cmocka_unit_test(waits_for_many),     cmocka_unit_test(cuts_chunks),
        cmocka_unit_test(input_after_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
