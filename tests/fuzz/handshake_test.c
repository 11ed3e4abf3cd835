/* What the fuzzer of the handshake begins with is what this version sends, and leads it on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/conn_impl.h"
#include "tests/fuzz/fuzz_handshake.c"
#include "topo/base/alloc.h"

#define CORPUS SOURCE_DIR "/tests/fuzz/corpus/handshake/"
#define RENEW  "MESHNET_RENEW=1 fuzz_handshake_test"

enum { ACCEPTOR, CONNECTOR };

static uint8_t role(int connector, enum mn_conn_state state)
{
    return (uint8_t)(connector | (int)(state - MN_CONN_HELLO) << 1);
}

struct frames {
    uint8_t bytes[2 + MN_FRAME_MAX];
    size_t len;
};

/* What a connection sends once it was put into a state by put and has got frames (NULL: none). */
static void sent(uint8_t of, enum mn_err (*put)(struct mn_conn *), const struct frames *got,
                 struct frames *out)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    struct mn_conn *conn = conn_new(of, pair[0]);
    if (put)
        assert_int_equal(put(conn), MN_OK);
    if (got)
        assert_int_equal(write(pair[1], got->bytes + 2, got->len - 2), got->len - 2);
    assert_int_equal(mn_conn_step(conn, NULL), MN_ERR_AGAIN);
    ssize_t n = read(pair[1], out->bytes + 2, sizeof out->bytes - 2);
    assert_true(n > 0);
    out->len = 2 + (size_t)n;
    mn_conn_close(conn);
    close(pair[1]);
}

static enum mn_err say_hello(struct mn_conn *conn)
{
    memset(conn->random[1], 'r', sizeof conn->random[1]);
    conn->state = MN_CONN_CONNECT;
    return MN_OK;
}

static enum mn_err say_lanes(struct mn_conn *conn)
{
    static const uint8_t first_of_two[8] = {1};

    return mn_chan_put(&conn->chan, MN_FRAME_LANES, first_of_two, sizeof first_of_two);
}

/* The file is these frames for who has that role; another version's is an error. */
static void is_current(const char *name, uint8_t to, struct frames *f, enum mn_conn_state leads_to)
{
    char *path = mn_asprintf(CORPUS "%s", name), *text = NULL;
    struct mn_diag diag = {.text = ""};
    size_t len = 0;

    f->bytes[0] = to;
    f->bytes[1] = 0xff;
    if (getenv("MESHNET_RENEW"))
        assert_int_equal(mn_file_write(path, (const char *)f->bytes, f->len, 1, &diag), MN_OK);
    if (mn_file_read(path, sizeof f->bytes, &text, &len, &diag))
        fail_msg("%s", diag.text);
    if (len != f->len || memcmp(text, f->bytes, len) != 0)
        fail_msg("%s is of another version; renew it: " RENEW, path);
    assert_int_equal(handshake((const uint8_t *)text, len), leads_to);
    free(text);
    free(path);
}

static void what_the_fuzzer_begins_with_is_of_this_version(void **state)
{
    struct mn_mesh_digest own = config.mesh.digest;
    struct frames hello, links, answer, lanes, ready;

    (void)state;
    sent(role(CONNECTOR, MN_CONN_HELLO), say_hello, NULL, &hello);
    is_current("hello", role(ACCEPTOR, MN_CONN_HELLO), &hello, MN_CONN_PROOF);
    config.mesh.digest.hash++;
    config.mesh.digest.items[1].value++;
    sent(role(CONNECTOR, MN_CONN_LINKS), mn_conn_send_links, NULL, &links);
    config.mesh.digest = own;
    is_current("links-a", role(ACCEPTOR, MN_CONN_LINKS), &links, MN_CONN_PLAN);
    config.mesh.digest = (struct mn_mesh_digest){.hash = 0};
    sent(role(ACCEPTOR, MN_CONN_LINKS), NULL, &links, &answer);
    config.mesh.digest = own;
    /* The PLAN behind it is of another mixture: this connector has sent no LINKS. */
    is_current("links-c", role(CONNECTOR, MN_CONN_LINKS), &answer, MN_CONN_PLAN);
    sent(role(CONNECTOR, MN_CONN_LANES), say_lanes, NULL, &lanes);
    is_current("lanes", role(ACCEPTOR, MN_CONN_LANES), &lanes, MN_CONN_READY);
    sent(role(ACCEPTOR, MN_CONN_LANES), mn_conn_send_ready, NULL, &ready);
    is_current("ready", role(CONNECTOR, MN_CONN_LANES), &ready, MN_CONN_READY);
}

/* Of the first address; the plan multiplies speeds. */
static void a_speed_that_no_link_has_is_refused(void **state)
{
    static const uint8_t address[] = {127, 9, 0, 1}, speed[] = {0xff, 0xff, 0xff, 0xff};
    struct frames links;

    (void)state;
    sent(role(CONNECTOR, MN_CONN_LINKS), mn_conn_send_links, NULL, &links);
    links.bytes[0] = role(ACCEPTOR, MN_CONN_LINKS);
    links.bytes[1] = 0xff;
    uint8_t *at = memmem(links.bytes, links.len, address, sizeof address);
    assert_non_null(at);
    assert_int_equal(handshake(links.bytes, links.len), MN_CONN_PLAN);
    memcpy(at + 19, speed, sizeof speed);
    assert_int_equal(handshake(links.bytes, links.len), MN_CONN_LINKS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_speed_that_no_link_has_is_refused),
        cmocka_unit_test(what_the_fuzzer_begins_with_is_of_this_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
