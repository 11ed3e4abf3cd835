/* A set-up by the relay that fails: both sides remember it, and the next attempt may go without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/relay/able.h"
#include "plugin/transport.h"

static struct mn_config config;

static enum mn_err fails(struct mn_conn *conn, struct mn_diag *diag)
{
    (void)conn;
    return mn_fail(diag, MN_ERR_PEER_DEAD, "meshnet relayd on b: connection refused");
}
static enum mn_err waits(struct mn_conn *conn, struct mn_diag *diag)
{
    (void)conn, (void)diag;
    return MN_ERR_AGAIN;
}
static const struct mn_transport failing = {.step = fails}, waiting = {.step = waits};

/* Both ends of one in its SETUP; peers: as which node each sees the other. */
static void make(struct mn_conn *ends[2], enum mn_transport_kind kind, const uint64_t peers[2])
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    mn_settings_default(&config.settings);
    for (int i = 0; i < 2; i++) {
        struct mn_conn *conn = ends[i] = calloc(1, sizeof *conn);
        assert_non_null(conn);
        mn_chan_init(&conn->chan, fds[i]);
        conn->config = &config;
        conn->connector = i;
        conn->state = MN_CONN_SETUP;
        conn->plan.kind = kind;
        conn->setup_got = 1;
        conn->transport = i ? &failing : &waiting;
        conn->side[!i].node_id = peers[i];
        conn->stepped_ms = mn_now_ms();
    }
}

static void fail_one(enum mn_transport_kind kind, const uint64_t peers[2], int noted)
{
    struct mn_conn *ends[2];
    struct mn_diag diag = {.text = ""};

    make(ends, kind, peers);
    assert_int_equal(mn_conn_step(ends[0], &diag), MN_ERR_AGAIN);
    assert_int_equal(mn_conn_step(ends[1], &diag), MN_ERR_PEER_DEAD);
    assert_int_equal(ends[1]->relay_failed, noted);
    assert_int_equal(ends[1]->again, noted);
    assert_int_equal(mn_conn_step(ends[0], &diag), MN_ERR_PROTO);
    assert_non_null(strstr(diag.text, "refused: meshnet relayd on b: connection refused"));
    assert_int_equal(ends[0]->relay_failed, noted);
    mn_conn_close(ends[0]);
    mn_conn_close(ends[1]);
}

static void both_ends_remember(void **state)
{
    const uint64_t peers[2] = {71, 72}, others[2] = {81, 82};
    char why[256];

    (void)state;
    fail_one(MN_TRANSPORT_VERBS, others, 0);
    assert_false(mn_relay_lately_failed(81, NULL, 0) || mn_relay_lately_failed(82, NULL, 0));
    fail_one(MN_TRANSPORT_RELAY, peers, 1);
    assert_true(mn_relay_lately_failed(71, why, sizeof why));
    assert_non_null(strstr(why, "meshnet relayd on b"));
    assert_true(mn_relay_lately_failed(72, why, sizeof why));
    assert_non_null(strstr(why, "meshnet relayd on b"));
}

/* A peer that ends is no fault of the relay's. */
static void a_peer_that_ends_is_another_matter(void **state)
{
    const uint64_t peers[2] = {91, 92};
    struct mn_conn *ends[2];
    struct mn_diag diag = {.text = ""};

    (void)state;
    make(ends, MN_TRANSPORT_RELAY, peers);
    mn_conn_close(ends[1]);
    assert_int_equal(mn_conn_step(ends[0], &diag), MN_ERR_PEER_DEAD);
    assert_false(ends[0]->relay_failed);
    assert_false(mn_relay_lately_failed(91, NULL, 0));
    mn_conn_close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_remember),
        cmocka_unit_test(a_peer_that_ends_is_another_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
