#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fleet/ctl.h"

static const uint8_t right[MN_KEY_SIZE] = {1, 2, 3}, wrong[MN_KEY_SIZE] = {1, 2, 4};
static int fds[2];
static struct mn_ctl here, there;

static int setup(void **state)
{
    (void)state;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
        return -1;
    here = (struct mn_ctl){.fd = fds[0], .peer = "client"};
    there = (struct mn_ctl){.fd = fds[1], .peer = "server"};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close(fds[0]);
    close(fds[1]);
    return 0;
}

/* The client's side; it hangs up afterwards when refused, as bench does. */
static void *client(void *token)
{
    enum mn_err err = mn_ctl_authenticate(&there, 0, token, 5000, NULL);
    if (err)
        shutdown(fds[1], SHUT_RDWR);
    return (void *)(intptr_t)err;
}

static void authenticate(const uint8_t *token, enum mn_err want_here, enum mn_err want_there)
{
    struct mn_diag diag;
    pthread_t thread;
    void *result;

    assert_int_equal(pthread_create(&thread, NULL, client, (void *)(uintptr_t)token), 0);
    enum mn_err err = mn_ctl_authenticate(&here, 1, right, 5000, &diag);
    if (err)
        shutdown(fds[0], SHUT_RDWR);
    pthread_join(thread, &result);
    assert_int_equal(err, want_here);
    assert_int_equal((intptr_t)result, want_there);
}

static void test_right_token(void **state)
{
    (void)state;
    authenticate(right, MN_OK, MN_OK);
}

static void test_wrong_token(void **state)
{
    (void)state;
    authenticate(wrong, MN_ERR_AUTH, MN_ERR_AUTH);
}

static void test_garbage(void **state)
{
    struct mn_diag diag;

    (void)state;
    assert_int_equal(write(fds[1], "GET / HTTP/1.1\r\nHost: nobody\r\n", 30), 30);
    assert_int_equal(mn_ctl_authenticate(&here, 1, right, 5000, &diag), MN_ERR_PROTO);
}

/* What only a peer with the token can send. */
static void send_sealed(size_t announced, const char *text)
{
    uint8_t record[200],
        length[3] = {(uint8_t)announced, (uint8_t)(announced >> 8), (uint8_t)(announced >> 16)};
    size_t head = sizeof length + MN_SEAL_EXTRA, body = strlen(text) + MN_SEAL_EXTRA;

    mn_seal_put(&there.out, length, sizeof length, 0, record);
    mn_seal_put(&there.out, text, strlen(text), 0, record + head);
    assert_int_equal(write(fds[1], record, head + body), head + body);
}

static void test_frames(void **state)
{
    static const size_t wrong_sizes[] = {0, MN_CTL_FRAME_MAX + 1, 0xffffff};
    struct mn_diag diag;
    cJSON *message;

    for (size_t i = 0; i < sizeof wrong_sizes / sizeof *wrong_sizes; i++) {
        authenticate(right, MN_OK, MN_OK);
        send_sealed(wrong_sizes[i], "{}");
        assert_int_equal(mn_ctl_receive(&here, 5000, &message, &diag), MN_ERR_PROTO);
        teardown(state);
        setup(state);
    }
    authenticate(right, MN_OK, MN_OK);
    send_sealed(3, "{x}");
    assert_int_equal(mn_ctl_receive(&here, 5000, &message, &diag), MN_ERR_PROTO);
    assert_null(message);
    assert_int_equal(mn_ctl_receive(&here, 1, &message, &diag), MN_ERR_TIMEOUT);
    send_sealed(2, "{}");
    assert_int_equal(mn_ctl_receive(&here, 5000, &message, &diag), MN_OK);
    cJSON_Delete(message);
}

static void test_nothing_before_proof(void **state)
{
    struct mn_diag diag;
    cJSON *message;

    (void)state;
    assert_int_not_equal(mn_ctl_send(&there, cJSON_CreateObject(), &diag), MN_OK);
    assert_int_equal(write(fds[1], "\x02\0\0\0{}", 6), 6);
    assert_int_equal(mn_ctl_receive(&here, 5000, &message, &diag), MN_ERR_INTERNAL);
    assert_null(message);
}

static void test_error_message(void **state)
{
    struct mn_diag diag;
    cJSON *message = cJSON_CreateObject();

    (void)state;
    authenticate(right, MN_OK, MN_OK);
    cJSON_AddStringToObject(message, "error", "no such device");
    assert_int_equal(mn_ctl_send(&there, message, &diag), MN_OK);
    assert_int_equal(mn_ctl_receive(&here, 5000, &message, &diag), MN_ERR_FAILED);
    assert_non_null(strstr(diag.text, "no such device"));
    assert_null(message);
}

/* Two writes would be two packets, of which TCP holds back the second for 40 ms. */
static void test_one_packet(void **state)
{
    cJSON *message = cJSON_CreateObject();
    char got[100];

    teardown(state);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    here.fd = fds[0];
    there.fd = fds[1];
    authenticate(right, MN_OK, MN_OK);
    cJSON_AddStringToObject(message, "op", "ready");
    assert_int_equal(mn_ctl_send(&here, message, NULL), MN_OK);
    assert_int_equal(recv(fds[1], got, sizeof got, MSG_DONTWAIT), 3 + 14 + 2 * MN_SEAL_EXTRA);
}

static void test_no_delay(void **state)
{
    struct sockaddr_in in = {.sin_port = 0};
    struct mn_addr addr;
    socklen_t len = sizeof in;
    int fd, one[2] = {0, 0};

    (void)state;
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(mn_addr_parse("127.0.0.1", &addr, NULL), MN_OK);
    assert_int_equal(mn_ctl_listen(&addr, 0, &fd, NULL), MN_OK);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
    assert_int_equal(mn_ctl_connect("127.0.0.1", ntohs(in.sin_port), 5000, &there, NULL), MN_OK);
    here.fd = accept(fd, NULL, NULL);
    assert_true(here.fd >= 0);
    close(fd);
    fds[0] = here.fd;
    fds[1] = there.fd;
    authenticate(right, MN_OK, MN_OK);
    for (int i = 0; i < 2; i++) {
        len = sizeof one[i];
        assert_int_equal(getsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one[i], &len), 0);
        assert_int_equal(one[i], 1);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_right_token),          T(test_wrong_token),   T(test_garbage),    T(test_frames),
        T(test_nothing_before_proof), T(test_error_message), T(test_one_packet), T(test_no_delay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
