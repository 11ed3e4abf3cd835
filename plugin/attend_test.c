/* Who stands in for an owner that makes no call, and that the two are never at it together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <time.h>
#include <unistd.h>

#include "plugin/attend.h"
#include "plugin/conn.h"
#include "plugin/tasks_kit.h"

#define PATIENCE_MS 20000

struct thing {
    struct mn_attended attended;
    unsigned ms; /* what a look returns */
    atomic_uint looks;
    unsigned at_it, by_owner; /* whoever is at it counts */
};

static unsigned look(struct mn_attended *attended)
{
    struct thing *thing = (struct thing *)attended;

    thing->at_it++;
    atomic_fetch_add(&thing->looks, 1);
    return thing->ms;
}

static void until_looks(struct thing *thing, unsigned n)
{
    for (uint64_t end = mn_now_ms() + PATIENCE_MS; atomic_load(&thing->looks) < n;) {
        assert_true(mn_now_ms() < end);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

static void call(struct thing *thing)
{
    mn_attend_enter(&thing->attended);
    thing->at_it++;
    thing->by_owner++;
    mn_attend_exit(&thing->attended);
}

/* Many looks of the thread, while the owner calls all the time. */
static void owner_and_thread_are_never_at_it_together(void **state)
{
    for (int fences = 0; fences < 2; fences++) {
        struct thing thing = {.attended.look = look, .ms = 1};
        (void)state;
        assert_int_equal(mn_attend_join(&thing.attended, "thing"), 0);
        int had = atomic_exchange(&mn_attend_fences, fences || atomic_load(&mn_attend_fences));
        mn_attend_wake(&thing.attended);
        uint64_t end = mn_now_ms() + 1500;
        for (unsigned n = 0; mn_now_ms() < end; n++) {
            for (int i = 0; i < 2000; i++)
                call(&thing);
            if (n % 16 == 0)
                nanosleep(&(struct timespec){0, 1000}, NULL);
        }
        until_looks(&thing, 2);
        mn_attend_leave(&thing.attended);
        atomic_store(&mn_attend_fences, had);
        assert_int_equal(thing.at_it, thing.by_owner + atomic_load(&thing.looks));
        assert_int_equal(thing.attended.calls, thing.by_owner);
    }
}

/* By a descriptor, by anybody, and by a call of its owner's; otherwise nobody looks. */
static void it_is_looked_at_when_it_is_woken(void **state)
{
    struct thing thing = {.attended.look = look}, other = {.attended.look = look};
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(mn_attend_join(&thing.attended, "thing"), 0);
    assert_int_equal(mn_attend_join(&other.attended, "other"), 0);
    assert_int_equal(mn_attend_watch(&thing.attended, ends[0]), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    until_looks(&thing, 1);
    mn_attend_wake(&thing.attended);
    until_looks(&thing, 2);
    nanosleep(&(struct timespec){1, 500000000}, NULL); /* it rests */
    assert_int_equal(atomic_load(&thing.looks), 2);
    mn_attend_enter(&thing.attended);
    mn_attend_soon(&thing.attended);
    mn_attend_exit(&thing.attended);
    until_looks(&thing, 3);
    assert_int_equal(atomic_load(&other.looks), 0);
    mn_attend_leave(&other.attended);
    mn_attend_leave(&thing.attended);
    close(ends[0]);
    close(ends[1]);
}

static void nobody_is_left_when_all_have_left(void **state)
{
    struct thing thing = {.attended.look = look};

    (void)state;
    call(&thing); /* nothing, before it has joined */
    assert_int_equal(thing.attended.calls, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mn_attend_join(&thing.attended, "thing"), 0);
        mn_attend_leave(&thing.attended);
    }
    mn_attend_leave(&thing.attended);
    assert_int_equal(mn_tasks_left("mn-attend"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owner_and_thread_are_never_at_it_together),
        cmocka_unit_test(it_is_looked_at_when_it_is_woken),
        cmocka_unit_test(nobody_is_left_when_all_have_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
