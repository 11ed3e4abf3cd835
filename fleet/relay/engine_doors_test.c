/* Where a relay listens: at what was handed over, and at what it binds itself. */
#include "fleet/relay/engine_kit.h"

#define RELAY 1

static int listens_at(const char *address)
{
    cJSON *state = kit_state(RELAY);
    const cJSON *at;
    int found = 0;

    cJSON_ArrayForEach(at, cJSON_GetObjectItem(state, "listening"))
    {
        const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(at, "address"));
        found |= text && !strcmp(text, address);
    }
    cJSON_Delete(state);
    return found;
}

static void a_family_that_was_not_handed_over_is_bound(void **state)
{
    char own_address[32];

    (void)state;
    if (access("/proc/net/if_inet6", F_OK))
        skip();
    kit_address(RELAY, 0, own_address);
    *strchr(own_address, '/') = '\0';
    kit_local(&configs[RELAY].devices[0], "::1/128");
    kit_start(RELAY);
    assert_true(listens_at(own_address));
    assert_true(listens_at("::1"));
    kit_stop(RELAY);
}

static int is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* Whatever was handed over with it is closed, too. */
static void refuse(int bad, const char *why)
{
    int fds[3] = {kit_listen(RELAY, 0, (unsigned)configs[RELAY].settings.relay_port), bad,
                  socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const struct mn_relay_plan plan = {.socket = "", .fds = fds, .n_fds = 3};
    struct mn_relay *relay = NULL;
    struct mn_diag diag = {.text = ""};

    assert_int_equal(mn_relay_open(&configs[RELAY], &plan, &relay, &diag), MN_ERR_CONFIG);
    if (!strstr(diag.text, why))
        fail_msg("%s", diag.text);
    for (int i = 0; i < 3; i++)
        assert_false(is_open(fds[i]));
}

static void what_is_no_door_is_refused(void **state)
{
    (void)state;
    refuse(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "does not listen");
    refuse(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0), "none of at most");
}

static int open_kit(void **state)
{
    (void)state;
    kit_open(18530);
    return 0;
}

static int close_kit(void **state)
{
    (void)state;
    kit_close();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_family_that_was_not_handed_over_is_bound, open_kit,
                                        close_kit),
        cmocka_unit_test_setup_teardown(what_is_no_door_is_refused, open_kit, close_kit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
