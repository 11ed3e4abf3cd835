#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "plugin/relay/able.h"

static void what_it_takes(void **state)
{
    struct mn_config config = {.uncabled = 1};

    (void)state;
    mn_settings_default(&config.settings);
    strcpy(config.settings.relay_socket, "/nonexistent/relay.sock");
    assert_int_equal(mn_relay_able(&config, 1), MN_RELAY_KEYLESS);
    config.has_key = 1;
    assert_int_equal(mn_relay_able(&config, 1), MN_RELAY_ABLE);
    config.uncabled = 0;
    assert_int_equal(mn_relay_able(&config, 1), MN_RELAY_OFF);
    /* A detour is for neighbours too, by a mesh file. */
    config.settings.detour = MN_DETOUR_SPARE;
    assert_int_equal(mn_relay_able(&config, 1), MN_RELAY_OFF);
    config.relay = &(struct mn_relay_own){.node = 1};
    assert_int_equal(mn_relay_able(&config, 1), MN_RELAY_ABLE);
    config.settings.detour = MN_DETOUR_OFF;
    assert_int_equal(mn_relay_able(&config, 1), MN_RELAY_OFF);
    config.relay = NULL;
    config.uncabled = 1;
    for (int reach = MN_REACH_AUTO; reach <= MN_REACH_RELAY; reach++) {
        config.settings.reach = (enum mn_reach)reach;
        assert_int_equal(mn_relay_able(&config, 1),
                         reach == MN_REACH_AUTO || reach == MN_REACH_RELAY ? MN_RELAY_ABLE
                                                                           : MN_RELAY_OFF);
    }
}

/* A relayd that is asked to sign is a socket there; a file is none. */
static void the_local_socket_stands_for_the_key(void **state)
{
    struct mn_config config = {.uncabled = 1};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char path[] = "/tmp/meshnet-able-test-XXXXXX";
    int file = mkstemp(path), fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    assert_true(file >= 0 && fd >= 0);
    close(file);
    mn_settings_default(&config.settings);
    strcpy(config.settings.relay_socket, path);
    assert_int_equal(mn_relay_able(&config, 1), MN_RELAY_KEYLESS);
    unlink(path);
    strcpy(at.sun_path, path);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(mn_relay_able(&config, 1), MN_RELAY_ABLE);
    close(fd);
    unlink(path);
}

static void a_failure_is_remembered(void **state)
{
    struct mn_config config = {.uncabled = 1, .has_key = 1};
    char why[64];

    (void)state;
    mn_settings_default(&config.settings);
    assert_false(mn_relay_lately_failed(5, NULL, 0));
    mn_relay_note_failed(5, "b is out");
    mn_relay_note_failed(5, "b is out of memory");
    assert_true(mn_relay_lately_failed(5, why, sizeof why));
    assert_string_equal(why, "b is out of memory");
    assert_false(mn_relay_lately_failed(6, NULL, 0));
    assert_int_equal(mn_relay_able(&config, 5), MN_RELAY_LATELY);
    assert_int_equal(mn_relay_able(&config, 6), MN_RELAY_ABLE);
    config.settings.reach = MN_REACH_RELAY; /* there is nothing else to take */
    assert_int_equal(mn_relay_able(&config, 5), MN_RELAY_ABLE);
    /* Of very many the last are. */
    for (uint64_t peer = 100; peer < 300; peer++)
        mn_relay_note_failed(peer, "");
    assert_true(mn_relay_lately_failed(299, why, sizeof why));
    assert_false(mn_relay_lately_failed(100, why, sizeof why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_takes),
        cmocka_unit_test(the_local_socket_stands_for_the_key),
        cmocka_unit_test(a_failure_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
