/* The relay's transport over one way: what is sent comes through whole, in order and once. */
#define NODES 4
#include "fleet/relay/transport_kit.h"

static int set_up(void **state)
{
    (void)state;
    kit_open(18610);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kit_close();
    return 0;
}

static void run(int to)
{
    struct flow flow;
    struct stream t;

    for (int i = 1; i < to; i++)
        kit_start(i);
    flow_open(&flow, 0, to);
    stream_begin(&t, &flow, 60, LARGEST);
    stream_all(&t);
    stream_end(&t);
    flow_close(&flow);
    for (int i = 1; i < to; i++)
        kit_stop(i);
}

static void through_one_relay(void **state)
{
    (void)state;
    run(2);
}

static void through_two_relays(void **state)
{
    (void)state;
    run(3);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(through_one_relay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(through_two_relays, set_up, tear_down),
    };

    (void)argc;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed ? failed : kit_again(argv, LIB_DIR "/../tests/fakeverbs");
}
