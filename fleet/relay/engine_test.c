/* Relays in one process, over TCP on loopback: pieces come through whole and in order. */
#include "fleet/relay/engine_stream.h"

static struct kit_end ends[16];

static void pieces_pass(int first, int last)
{
    struct stream t[2];

    for (int i = first + 1; i < last; i++)
        kit_start(i);
    kit_attach(&ends[0], &ends[1], first, last, 5);
    t[0] = stream_begin(&ends[0], &ends[1], 5, MN_RELAY_BULK, 300);
    t[1] = stream_begin(&ends[0], &ends[1], 5, MN_RELAY_SMALL_ONES, 500);
    stream_carry(t, 2);
    stream_end(&t[0]);
    stream_end(&t[1]);
    kit_leave(&ends[0]);
    kit_leave(&ends[1]);
    for (int i = first + 1; i < last; i++)
        kit_stop(i);
}

static void pieces_pass_over_one_relay(void **state)
{
    (void)state;
    pieces_pass(0, 2);
}

static void pieces_pass_over_three_relays(void **state)
{
    (void)state;
    pieces_pass(0, 4);
}

static int open_kit(void **state)
{
    (void)state;
    kit_open(18525);
    return 0;
}

static int close_kit(void **state)
{
    (void)state;
    kit_close();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_pass_over_one_relay),
        cmocka_unit_test(pieces_pass_over_three_relays),
    };
    int failed = cmocka_run_group_tests(tests, open_kit, close_kit);

    (void)argc;
    return failed ? failed : kit_again(argv, LIB_DIR "/../tests/fakeverbs");
}
