/* A man in the middle: the handshake passes him unchanged, then he does with the records what he
 * likes. Whoever receives them says so and acts on nothing of them. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fleet/ctl.h"

#define HEAD     (3 + MN_SEAL_EXTRA)
#define FRAME    (HEAD + 7 + MN_SEAL_EXTRA) /* of {"n":0} */
#define MESSAGES 3

static const uint8_t token[MN_KEY_SIZE] = {1, 2, 3};
static struct mn_ctl client, server;
static int man[2]; /* his ends: towards the client, towards the server */

static void *prove(void *ctl)
{
    return (void *)(intptr_t)mn_ctl_authenticate(ctl, ctl == &server, token, 10000, NULL);
}

static void pass(int from, size_t len)
{
    uint8_t bytes[100];

    assert_int_equal(recv(man[from], bytes, len, MSG_WAITALL), len);
    assert_int_equal(write(man[!from], bytes, len), len);
}

static int setup(void **state)
{
    /* Two hellos, the client's proof, the server's verdict. */
    static const size_t words[] = {24, 24, MN_MAC_SIZE + MN_SEAL_HEADER,
                                   1 + MN_MAC_SIZE + MN_SEAL_HEADER};
    pthread_t threads[2];
    int fds[2][2];
    void *result;

    (void)state;
    for (int i = 0; i < 2; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds[i]))
            return -1;
        man[i] = fds[i][1];
    }
    client = (struct mn_ctl){.fd = fds[0][0], .peer = "peer b"};
    server = (struct mn_ctl){.fd = fds[1][0], .peer = "client a"};
    pthread_create(&threads[0], NULL, prove, &client);
    pthread_create(&threads[1], NULL, prove, &server);
    for (size_t step = 0; step < sizeof words / sizeof *words; step++)
        pass(step % 2, words[step]);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &result);
        if ((intptr_t)result != MN_OK)
            return -1;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mn_ctl_close(&client);
    mn_ctl_close(&server);
    for (int i = 0; i < 2; i++)
        if (man[i] >= 0)
            close(man[i]);
    return 0;
}

/* The client's messages {"n":0}, {"n":1} …, as he has them. */
static void take(uint8_t frames[MESSAGES][FRAME])
{
    for (int i = 0; i < MESSAGES; i++) {
        cJSON *m = cJSON_CreateObject();
        cJSON_AddNumberToObject(m, "n", i);
        assert_int_equal(mn_ctl_send(&client, m, NULL), MN_OK);
    }
    assert_int_equal(recv(man[0], frames, MESSAGES * FRAME, MSG_WAITALL), MESSAGES * FRAME);
}

static void give(int to, const void *bytes, size_t len)
{
    assert_int_equal(write(man[to], bytes, len), len);
}

static void expect(struct mn_ctl *ctl, int n)
{
    cJSON *m;
    double number;

    assert_int_equal(mn_ctl_receive(ctl, 10000, &m, NULL), MN_OK);
    assert_int_equal(mn_ctl_number(m, "n", n, n, &number, NULL), MN_OK);
    cJSON_Delete(m);
}

/* An error that names the peer, and again whatever comes behind. */
static void expect_tampered(struct mn_ctl *ctl)
{
    struct mn_diag diag;
    cJSON *m;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(mn_ctl_receive(ctl, 10000, &m, &diag), MN_ERR_AUTH);
        assert_null(m);
        assert_non_null(strstr(diag.text, ctl->peer));
        assert_non_null(strstr(diag.text, "tampered"));
    }
}

static void test_untouched(void **state)
{
    uint8_t frames[MESSAGES][FRAME];

    (void)state;
    take(frames);
    give(1, frames, sizeof frames);
    for (int i = 0; i < MESSAGES; i++)
        expect(&server, i);
}

static void test_any_byte_flipped(void **state)
{
    for (size_t at = 0; at < FRAME; at++) {
        uint8_t frames[MESSAGES][FRAME];
        take(frames);
        frames[1][at] ^= (uint8_t)(1u << at % 8);
        give(1, frames, sizeof frames);
        expect(&server, 0);
        expect_tampered(&server);
        teardown(state);
        assert_int_equal(setup(state), 0);
    }
}

static void test_other_order(void **state)
{
    /* Which messages pass, in which order, and how many are right. */
    static const struct {
        int n, order[MESSAGES + 1], right;
    } rows[] = {
        {2, {0, 2}, 1},       /* one is missing */
        {2, {1, 2}, 0},       /* the first is */
        {3, {0, 0, 1}, 1},    /* one twice */
        {3, {1, 0, 2}, 0},    /* two changed places */
        {4, {0, 1, 2, 1}, 3}, /* one comes again later */
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t frames[MESSAGES][FRAME];
        take(frames);
        for (int k = 0; k < rows[i].n; k++)
            give(1, frames[rows[i].order[k]], FRAME);
        for (int k = 0; k < rows[i].right; k++)
            expect(&server, k);
        expect_tampered(&server);
        teardown(state);
        assert_int_equal(setup(state), 0);
    }
}

/* The length of one message with the text of another as long. */
static void test_parts_mixed(void **state)
{
    uint8_t frames[MESSAGES][FRAME];

    (void)state;
    take(frames);
    give(1, frames[0], HEAD);
    give(1, frames[1] + HEAD, FRAME - HEAD);
    expect_tampered(&server);
}

static void test_sent_back(void **state)
{
    uint8_t frames[MESSAGES][FRAME];

    (void)state;
    take(frames);
    give(0, frames, sizeof frames);
    expect_tampered(&client);
}

/* What was recorded of one connection means nothing to the next, of the same token. */
static void test_of_another_connection(void **state)
{
    uint8_t frames[MESSAGES][FRAME];

    take(frames);
    teardown(state);
    assert_int_equal(setup(state), 0);
    give(1, frames, sizeof frames);
    expect_tampered(&server);
}

static void expect_end(size_t passed, const char *words)
{
    uint8_t frames[MESSAGES][FRAME], last[HEAD];
    struct mn_diag diag;
    cJSON *m;

    take(frames);
    mn_ctl_finish(&client);
    assert_int_equal(recv(man[0], last, sizeof last, MSG_WAITALL), HEAD);
    give(1, frames, passed < sizeof frames ? passed : sizeof frames);
    if (passed > sizeof frames)
        give(1, last, passed - sizeof frames);
    close(man[1]);
    man[1] = -1;
    for (size_t i = 0; i < MESSAGES && i < passed / FRAME; i++)
        expect(&server, (int)i);
    assert_int_equal(mn_ctl_receive(&server, 10000, &m, &diag), MN_ERR_PEER_DEAD);
    assert_null(m);
    assert_non_null(strstr(diag.text, words));
}

/* A connection that was cut is told from one that its peer closed. */
static void test_cut(void **state)
{
    static const size_t cuts[] = {0,         1,
                                  HEAD,      HEAD + 1,
                                  FRAME,     FRAME + HEAD,
                                  3 * FRAME, 3 * FRAME + HEAD - 1};

    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        expect_end(cuts[i], "without a word");
        teardown(state);
        assert_int_equal(setup(state), 0);
    }
    expect_end(MESSAGES * FRAME + HEAD, "closed the control connection");
}

/* Half a message and then nothing: what comes later is not taken for its beginning. */
static void test_late_rest(void **state)
{
    uint8_t frames[MESSAGES][FRAME];
    cJSON *m;

    (void)state;
    take(frames);
    give(1, frames, FRAME + 5);
    expect(&server, 0);
    assert_int_equal(mn_ctl_receive(&server, 1, &m, NULL), MN_ERR_TIMEOUT);
    give(1, (uint8_t *)frames + FRAME + 5, 2 * FRAME - 5);
    expect_tampered(&server);
}

static void test_gone(void **state)
{
    uint8_t frames[MESSAGES][FRAME], last[HEAD];

    (void)state;
    take(frames);
    mn_ctl_finish(&client);
    assert_int_equal(recv(man[0], last, sizeof last, MSG_WAITALL), HEAD);
    assert_false(mn_ctl_gone(&server));
    give(1, frames, sizeof frames);
    for (int i = 0; i < MESSAGES; i++) {
        assert_false(mn_ctl_gone(&server));
        expect(&server, i);
    }
    give(1, last, 4);
    assert_false(mn_ctl_gone(&server));
    give(1, last + 4, HEAD - 4);
    assert_true(mn_ctl_gone(&server));
    assert_true(mn_ctl_gone(&server));
    assert_int_not_equal(mn_ctl_send(&client, cJSON_CreateObject(), NULL), MN_OK);
    close(man[0]);
    man[0] = -1;
    assert_true(mn_ctl_gone(&client));
}

/* Of half a message the rest will not come. */
static void test_gone_in_the_middle(void **state)
{
    static const size_t cuts[] = {1, HEAD - 1, HEAD, FRAME - 1};

    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        uint8_t frames[MESSAGES][FRAME];
        take(frames);
        give(1, frames, FRAME + cuts[i]);
        expect(&server, 0);
        assert_false(mn_ctl_gone(&server));
        close(man[1]);
        man[1] = -1;
        assert_true(mn_ctl_gone(&server));
        teardown(state);
        assert_int_equal(setup(state), 0);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_untouched), T(test_any_byte_flipped),      T(test_other_order), T(test_parts_mixed),
        T(test_sent_back), T(test_of_another_connection), T(test_cut),         T(test_late_rest),
        T(test_gone),      T(test_gone_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
