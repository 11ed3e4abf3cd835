/* Relays in one process, over TCP on loopback: pieces come through whole and in order. */
#include "fleet/relay/engine_stream.h"

#include <dlfcn.h>

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

/* As a relay's hop sleeps for, where the double is. */
static void an_event_that_is_lost_stops_nothing(void **state)
{
    void *library = kit_on_verbs() ? dlopen("libibverbs.so.1", RTLD_NOW) : NULL;
    void *symbol = library ? dlsym(library, "fakeverbs_set") : NULL;
    void (*set)(const char *) = NULL;
    struct stream t;

    (void)state;
    if (!symbol)
        skip();
    memcpy(&set, &symbol, sizeof set);
    kit_start(1);
    kit_attach(&ends[0], &ends[1], 0, 2, 5);
    for (int round = 0; round < 2; round++) {
        t = stream_begin(&ends[0], &ends[1], 5, MN_RELAY_SMALL_ONES, 5);
        for (int i = 0; i < 200; i++)
            kit_nap();
        if (round)
            set("fail=event:1");
        stream_carry(&t, 1);
        stream_end(&t);
    }
    set("fail=event:0");
    kit_leave(&ends[0]);
    kit_leave(&ends[1]);
    kit_stop(1);
}

/* Both ways over the same cables, of every length, so that pieces of each class meet. */
static void flows_cross(void **state)
{
    static const int ways[8][2] = {{0, 4}, {4, 0}, {0, 3}, {4, 1}, {1, 4}, {3, 0}, {0, 2}, {4, 2}};
    struct stream t[16];

    (void)state;
    for (int i = 0; i < NODES; i++)
        kit_start(i);
    for (int i = 0; i < 8; i++) {
        struct kit_end *s = &ends[2 * i], *d = &ends[2 * i + 1];
        kit_attach(s, d, ways[i][0], ways[i][1], (unsigned)i + 1);
        t[2 * i] = stream_begin(s, d, (unsigned)i + 1, MN_RELAY_BULK, 100);
        t[2 * i + 1] = stream_begin(s, d, (unsigned)i + 1, MN_RELAY_SMALL_ONES, 100);
    }
    stream_carry(t, 16);
    for (int i = 0; i < 16; i++) {
        stream_end(&t[i]);
        kit_leave(&ends[i]);
    }
    for (int i = 0; i < NODES; i++)
        kit_stop(i);
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
        cmocka_unit_test(flows_cross),
        cmocka_unit_test(an_event_that_is_lost_stops_nothing),
    };
    int failed = cmocka_run_group_tests(tests, open_kit, close_kit);

    (void)argc;
    return failed ? failed : kit_again(argv, LIB_DIR "/../tests/fakeverbs");
}
