/* Frames over a socket whose other end goes: closed by a process, or reset as by a cable. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/conn.h"

static struct mn_chan chan;
static int other;

static int begin(void **state)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    (void)state;
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, len), 0);
    other = accept(listener, NULL, NULL);
    assert_true(other >= 0);
    close(listener);
    mn_chan_init(&chan, fd);
    return 0;
}

static int end(void **state)
{
    (void)state;
    mn_chan_close(&chan);
    return 0;
}

static void go(int reset)
{
    const struct linger at_once = {1, 0};
    if (reset)
        assert_int_equal(setsockopt(other, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close(other);
    struct pollfd fd = {.fd = chan.fd, .events = POLLIN};
    assert_int_equal(poll(&fd, 1, 20000), 1);
}

static enum mn_err say(void)
{
    assert_int_equal(mn_chan_put(&chan, MN_FRAME_BYE, "1234", 4), MN_OK);
    return mn_chan_flush(&chan, NULL);
}

static enum mn_err hear(void)
{
    enum mn_frame type;
    uint8_t *payload;
    size_t len;
    return mn_chan_get(&chan, &type, &payload, &len, NULL);
}

static void a_peer_that_closes_is_gone(void **state)
{
    (void)state;
    go(0);
    assert_int_equal(hear(), MN_ERR_PEER_DEAD);
    /* The first is answered by a reset. */
    (void)say();
    for (int i = 0; i < 20000 && say() == MN_OK; i++)
        usleep(1000);
    assert_int_equal(hear(), MN_ERR_PEER_DEAD);
}

static void a_reset_says_nothing_of_the_peer(void **state)
{
    (void)state;
    go(1);
    assert_int_not_equal(hear(), MN_ERR_PEER_DEAD);
}

static void a_reset_that_sending_found_neither(void **state)
{
    (void)state;
    go(1);
    assert_int_not_equal(say(), MN_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_not_equal(say(), MN_OK);
        enum mn_err err = hear();
        assert_int_not_equal(err, MN_ERR_PEER_DEAD);
        assert_int_not_equal(err, MN_ERR_AGAIN);
        assert_int_not_equal(err, MN_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_peer_that_closes_is_gone, begin, end),
        cmocka_unit_test_setup_teardown(a_reset_says_nothing_of_the_peer, begin, end),
        cmocka_unit_test_setup_teardown(a_reset_that_sending_found_neither, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
