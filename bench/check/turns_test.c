/* Who waits comes before who comes again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <time.h>

#include "bench/check/turns.h"

#define WAITERS 8
#define TRIES   20000 /* of a millisecond */

static struct mn_turns turns = MN_TURNS;
static int order[WAITERS + 1], n;

static void *wait_once(void *arg)
{
    mn_turns_take(&turns);
    order[n++] = *(const int *)arg;
    mn_turns_pass(&turns);
    return NULL;
}

static unsigned long taken(void)
{
    unsigned long so_far;

    pthread_mutex_lock(&turns.lock);
    so_far = turns.taken;
    pthread_mutex_unlock(&turns.lock);
    return so_far;
}

static void whoever_waits_comes_before_whoever_comes_again(void **state)
{
    static const int numbers[WAITERS] = {0, 1, 2, 3, 4, 5, 6, 7};
    pthread_t threads[WAITERS];

    (void)state;
    mn_turns_take(&turns);
    for (int i = 0; i < WAITERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, wait_once,
                                        (void *)(uintptr_t)&numbers[i]),
                         0);
        for (int try = 0; try < TRIES && taken() < (unsigned long)i + 2; try++)
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        assert_int_equal(taken(), i + 2);
    }
    mn_turns_pass(&turns);
    mn_turns_take(&turns); /* at once, while most of them have not woken up */
    order[n++] = WAITERS;
    mn_turns_pass(&turns);
    for (int i = 0; i < WAITERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(n, WAITERS + 1);
    for (int i = 0; i <= WAITERS; i++)
        assert_int_equal(order[i], i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_waits_comes_before_whoever_comes_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
