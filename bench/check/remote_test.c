/* The other machine's side of a connection's end believes nothing: calls that make no sense end its
 * rule with a skip, never with a crash, and leave a good call before them carried out. */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/check/remote_wire.h"
#include "bench/check/rule.h"
#include "bench/check/warden.h"

struct other {
    struct mn_warden warden;
    int fd;
};

static void never(struct mn_check *check)
{
    mn_check_fail(check, "the rule itself ran");
}

static const struct mn_check_rule rule = {.id = "connect.test",
                                          .run = never,
                                          .flags = MN_CHECK_ENDS,
                                          .since = 0};

static void start(struct other *other)
{
    struct mn_check_target target = {.version = 12, .limit_ms = 10000};
    struct mn_remote_answer hello;
    struct mn_diag diag;
    int fds[2];

    snprintf(target.path, sizeof target.path, "%s/libnccl-net-ref.so", PLUGIN_DIR);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    target.second_fd = fds[1];
    assert_int_equal(mn_warden_start(&target, &rule, &other->warden, &diag), MN_OK);
    close(fds[1]);
    other->fd = fds[0];
    assert_int_equal(recv(other->fd, &hello, sizeof hello, MSG_WAITALL), sizeof hello);
    assert_int_equal(hello.done, 2);
}

static struct mn_check_result end(struct other *other)
{
    struct mn_check_result result;

    while (!mn_warden_ended(&other->warden))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    mn_warden_collect(&other->warden, &rule, &result, NULL, NULL);
    close(other->fd);
    return result;
}

static void test_nonsense(void **state)
{
    static const struct mn_remote_call rows[] = {
        {.op = MN_REMOTE_N_OPS},
        {.op = UINT32_MAX},
        {.op = MN_REMOTE_CONNECT, .comm = MN_REMOTE_COMMS, .bytes = 128},
        {.op = MN_REMOTE_CONNECT, .comm = 0, .bytes = 127},
        {.op = MN_REMOTE_CONNECT, .comm = 0, .bytes = UINT32_MAX},
        {.op = MN_REMOTE_REG, .comm = 0, .size = 100},
        {.op = MN_REMOTE_REG, .comm = UINT32_MAX, .size = 100},
        {.op = MN_REMOTE_DEREG, .comm = 0, .mr = 0},
        {.op = MN_REMOTE_DEREG, .comm = 0, .mr = UINT32_MAX},
        {.op = MN_REMOTE_SEND, .comm = 0, .mr = 0, .size = 1, .bytes = 1},
        {.op = MN_REMOTE_SEND, .comm = MN_REMOTE_COMMS, .size = UINT64_MAX},
        {.op = MN_REMOTE_TEST, .request = 0},
        {.op = MN_REMOTE_TEST, .request = MN_REMOTE_REQUESTS},
        {.op = MN_REMOTE_CLOSE, .comm = 0},
        {.op = MN_REMOTE_COUNT, .number = 3},
        {.op = MN_REMOTE_COUNT, .number = -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mn_check_result result;
        struct other other;
        start(&other);
        assert_int_equal(send(other.fd, &rows[i], sizeof rows[i], MSG_NOSIGNAL), sizeof rows[i]);
        result = end(&other);
        if (result.status != MN_CHECK_SKIP || !strstr(result.seen, "cannot be"))
            fail_msg("row %zu: %s: %s", i, mn_check_status_name(result.status), result.seen);
    }
}

static struct mn_remote_answer ask(struct other *other, const struct mn_remote_call *call,
                                   const void *bytes)
{
    struct mn_remote_answer answer;

    assert_int_equal(send(other->fd, call, sizeof *call, MSG_NOSIGNAL), sizeof *call);
    if (call->bytes)
        assert_int_equal(send(other->fd, bytes, call->bytes, MSG_NOSIGNAL), call->bytes);
    assert_int_equal(recv(other->fd, &answer, sizeof answer, MSG_WAITALL), sizeof answer);
    return answer;
}

/* Where the tables are not empty: sizes and places outside of what was registered. */
static void test_outside(void **state)
{
    static const struct mn_remote_call rows[] = {
        {.op = MN_REMOTE_SEND, .size = 101, .bytes = 101},
        {.op = MN_REMOTE_SEND, .size = 100, .bytes = 99},
        {.op = MN_REMOTE_SEND, .size = 100, .given = 1, .bytes = 100},
        {.op = MN_REMOTE_SEND, .size = 101, .given = 1},
        {.op = MN_REMOTE_SEND, .size = 1, .offset = 100, .bytes = 1},
        {.op = MN_REMOTE_SEND, .size = UINT64_MAX, .offset = 50, .bytes = UINT32_MAX},
        {.op = MN_REMOTE_SEND, .size = 1, .offset = UINT64_MAX, .bytes = 1},
        {.op = MN_REMOTE_SEND, .size = 1, .request = MN_REMOTE_REQUESTS, .bytes = 1},
        {.op = MN_REMOTE_SEND, .mr = 1, .size = 1, .bytes = 1},
        {.op = MN_REMOTE_REG, .mr = 0, .size = 100},
        {.op = MN_REMOTE_REG, .mr = 1, .size = 0},
        {.op = MN_REMOTE_REG, .mr = 1, .size = UINT64_MAX},
        {.op = MN_REMOTE_REG, .mr = 1, .size = 100, .number = -1},
        {.op = MN_REMOTE_REG, .mr = 1, .size = 100, .number = MN_REMOTE_PAGE},
        {.op = MN_REMOTE_REG, .mr = MN_REMOTE_MRS, .size = 100},
    };
    struct mn_raw raw = {.lib = NULL};
    char path[4096];

    (void)state;
    snprintf(path, sizeof path, "%s/libnccl-net-ref.so", PLUGIN_DIR);
    raw.lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(raw.lib);
    assert_true(mn_raw_find(&raw, 12));
    assert_int_equal(mn_raw_init(&raw, NULL), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct mn_remote_call connect = {.op = MN_REMOTE_CONNECT, .bytes = 128},
                                    reg = {.op = MN_REMOTE_REG, .size = 100};
        unsigned char handle[128] = {0};
        struct mn_remote_answer answer;
        struct mn_check_result result;
        struct other other;
        void *listen = NULL;
        start(&other);
        assert_int_equal(mn_raw_listen(&raw, 0, handle, &listen), 0);
        answer = ask(&other, &connect, handle);
        assert_int_equal(answer.state, MN_REMOTE_GIVEN);
        assert_int_equal(recv(other.fd, handle, sizeof handle, MSG_WAITALL), sizeof handle);
        answer = ask(&other, &reg, NULL);
        assert_int_equal(answer.result, 0);
        assert_int_equal(send(other.fd, &rows[i], sizeof rows[i], MSG_NOSIGNAL), sizeof rows[i]);
        result = end(&other);
        if (result.status != MN_CHECK_SKIP || !strstr(result.seen, "cannot be"))
            fail_msg("row %zu: %s: %s", i, mn_check_status_name(result.status), result.seen);
        assert_int_equal(mn_raw_close_listen(&raw, listen), 0);
    }
    assert_int_equal(mn_raw_finalize(&raw), 0);
    dlclose(raw.lib);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_outside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
