/* A client that leaves in the middle of a check, while the rule's process here does not listen:
 * serve's process ends, and its place is free. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/check/far.h"

#define PATIENCE_S 30
#define QUIET_MS   2000 /* more than a busy machine lets a process wait for its turn */

static const uint8_t token[MN_KEY_SIZE] = {1, 2, 3};

static pid_t start_server(int fd, int other)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct mn_ctl ctl = {.fd = fd, .peer = "client"};
        struct mn_diag diag;
        cJSON *first = NULL;
        close(other);
        enum mn_err err = mn_ctl_authenticate(&ctl, 1, token, 10000, &diag);
        if (!err)
            err = mn_ctl_receive(&ctl, 10000, &first, &diag);
        if (!err)
            err = mn_far_serve(PLUGIN_DIR "/libnccl-net-ref.so", &ctl, first, &diag);
        cJSON_Delete(first);
        mn_ctl_close(&ctl);
        _exit(err);
    }
    close(fd);
    return pid;
}

static void ask_for(struct mn_ctl *ctl, const char *rule)
{
    cJSON *m = cJSON_CreateObject();

    cJSON_AddStringToObject(m, "op", "check");
    cJSON_AddStringToObject(m, "rule", rule);
    cJSON_AddNumberToObject(m, "version", 12);
    cJSON_AddNumberToObject(m, "seed", 1);
    cJSON_AddNumberToObject(m, "limit_ms", 600000);
    assert_int_equal(mn_ctl_send(ctl, m, NULL), MN_OK);
}

static void expect(struct mn_ctl *ctl, const char *op)
{
    cJSON *m;

    assert_int_equal(mn_ctl_receive(ctl, PATIENCE_S * 1000, &m, NULL), MN_OK);
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(m, "op")->valuestring, op);
    cJSON_Delete(m);
}

/* Until the other side takes no more. */
static void send_without_end(struct mn_ctl *ctl)
{
    struct pollfd p = {.fd = ctl->fd, .events = POLLOUT};
    char hex[16385];

    memset(hex, '0', sizeof hex - 1);
    hex[sizeof hex - 1] = 0;
    while (poll(&p, 1, QUIET_MS) == 1) {
        cJSON *m = cJSON_CreateObject();
        cJSON_AddStringToObject(m, "op", "data");
        cJSON_AddStringToObject(m, "hex", hex);
        assert_int_equal(mn_ctl_send(ctl, m, NULL), MN_OK);
    }
    /* A moment without its turn is not the wait that is meant. */
    assert_int_equal(poll(&p, 1, QUIET_MS / 2), 0);
}

static int ends(pid_t pid, int *status)
{
    for (int i = 0; i < PATIENCE_S * 100; i++) {
        if (waitpid(pid, status, WNOHANG) == pid)
            return 1;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    kill(pid, SIGKILL);
    waitpid(pid, status, 0);
    return 0;
}

static void test_a_client_leaves_in_the_middle(void **state)
{
    struct mn_ctl ctl = {.peer = "serve"};
    int fds[2], status;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    pid_t pid = start_server(fds[1], fds[0]);
    ctl.fd = fds[0];
    assert_int_equal(mn_ctl_authenticate(&ctl, 0, token, 10000, NULL), MN_OK);
    ask_for(&ctl, "handshake.processes");
    expect(&ctl, "checking");
    /* The rule's process is there once it says something; it listens to nothing from then on. */
    expect(&ctl, "data");
    cJSON *m = cJSON_CreateObject();
    cJSON_AddStringToObject(m, "op", "signal");
    cJSON_AddNumberToObject(m, "number", SIGSTOP);
    assert_int_equal(mn_ctl_send(&ctl, m, NULL), MN_OK);
    send_without_end(&ctl);
    mn_ctl_close(&ctl);
    if (!ends(pid, &status))
        fail_msg("serve's process still holds its place %d s after its client left", PATIENCE_S);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == MN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_client_leaves_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
