/* The cache of registered memory: several threads at once. */
#include "plugin/transport/verbs/memory_kit.h"

#include <pthread.h>

struct caller {
    pthread_t thread;
    uint32_t bits;
    enum mn_err err;
    struct verbs_memory *memory;
    sem_t started;
};

static void *call_get(void *arg)
{
    struct caller *caller = arg;
    struct mn_diag diag;
    sem_post(&caller->started);
    caller->err = get(caller->bits, 32 * PAGE, PAGE, &caller->memory, &diag);
    return NULL;
}

static void start(struct caller *caller, uint32_t bits)
{
    caller->bits = bits;
    caller->memory = NULL;
    sem_init(&caller->started, 0, 0);
    assert_int_equal(pthread_create(&caller->thread, NULL, call_get, caller), 0);
    sem_wait(&caller->started);
}

static void the_lock_is_free_while_the_kernel_registers(void **state)
{
    (void)state;
    struct caller a, b;
    gated = 1;
    start(&a, 1);
    sem_wait(&entered);
    start(&b, 3);
    put(must_get(1, 64 * PAGE, PAGE));
    sem_post(&gate);
    pthread_join(a.thread, NULL);
    pthread_join(b.thread, NULL);
    assert_int_equal(a.err, MN_OK);
    assert_int_equal(b.err, MN_OK);
    assert_ptr_equal(a.memory, b.memory);
    assert_int_equal(calls, 3);
    assert_int_equal(verbs_memory_count(), 1);
    put(a.memory);
    assert_int_equal(live, 2);
    put(b.memory);
}

static void a_waiter_tries_itself_when_the_first_fails(void **state)
{
    (void)state;
    struct caller a, b;
    fail_with = ENOMEM;
    fail_calls = 1;
    gated = 1;
    start(&a, 1);
    sem_wait(&entered);
    start(&b, 1);
    sem_post(&gate);
    pthread_join(a.thread, NULL);
    pthread_join(b.thread, NULL);
    assert_int_equal(a.err, MN_ERR_NOMEM);
    assert_int_equal(b.err, MN_OK);
    put(b.memory);
}

static void *hammer(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    struct verbs_memory *held[8] = {0};
    for (int i = 0; i < 3000; i++) {
        int at = rand_r(&seed) % 8;
        struct mn_diag diag;
        if (held[at]) {
            if (verbs_memory_put(held[at], &diag) != MN_OK)
                abort();
            held[at] = NULL;
            continue;
        }
        uint32_t bits = 1 + (uint32_t)rand_r(&seed) % 7;
        uint64_t base = (1 + (uint64_t)(rand_r(&seed) % 4)) * PAGE;
        enum mn_err err = get(bits, base, PAGE, &held[at], &diag);
        if (err == MN_ERR_NOMEM)
            continue;
        if (err != MN_OK || held[at]->base != base)
            abort();
        for (int k = 0; k < N; k++)
            if ((bits >> k & 1) && (!held[at]->mrs[k] || held[at]->mrs[k]->pd != &pds[k]))
                abort();
    }
    for (int at = 0; at < 8; at++)
        if (held[at] && verbs_memory_put(held[at], NULL) != MN_OK)
            abort();
    return NULL;
}

static void many_threads_leave_nothing(void **state)
{
    (void)state;
    pthread_t threads[4];
    fail_with = ENOMEM;
    fail_device = 1;
    fail_calls = 200;
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(verbs_memory_count(), 0);
    assert_int_equal(live, 0);
    assert_true(deregistered > 0);
    assert_true(fail_calls < 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_lock_is_free_while_the_kernel_registers),
        TEST(a_waiter_tries_itself_when_the_first_fails),
        TEST(many_threads_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
