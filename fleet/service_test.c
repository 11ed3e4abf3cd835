/* A service manager played by this process: its socket, its variables, its descriptors. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "fleet/service.h"

static int clean(void **state)
{
    (void)state;
    unsetenv("NOTIFY_SOCKET");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("WATCHDOG_PID");
    unsetenv("WATCHDOG_USEC");
    return 0;
}

static void set_pid(const char *name, pid_t pid)
{
    char text[32];

    snprintf(text, sizeof text, "%d", pid);
    setenv(name, text, 1);
}

static void test_none(void **state)
{
    struct mn_service s;

    (void)state;
    setenv("WATCHDOG_USEC", "1000000", 1);
    assert_int_equal(mn_service_read(&s, NULL), MN_OK);
    assert_int_equal(s.fd, -1);
    assert_int_equal(s.n, 0);
    assert_int_equal(s.watchdog_ms, 0);
    mn_service_tell(&s, "READY=1");
    mn_service_close(&s);
}

/* folder: before its name, or "@". */
static void told(const char *folder)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct mn_service s;
    char got[128], path[64];
    ssize_t n;

    snprintf(path, sizeof path, "%smn-service-%d", folder, getpid());
    memcpy(to.sun_path, path, strlen(path));
    if (path[0] == '@')
        to.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&to,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))),
                     0);
    setenv("NOTIFY_SOCKET", path, 1);
    setenv("WATCHDOG_USEC", "30000000", 1);
    assert_int_equal(mn_service_read(&s, NULL), MN_OK);
    assert_null(getenv("NOTIFY_SOCKET"));
    assert_null(getenv("WATCHDOG_USEC"));
    assert_int_equal(s.watchdog_ms, 30000);
    mn_service_tell(&s, "READY=1\nSTATUS=%d flows", 3);
    n = recv(fd, got, sizeof got, 0);
    assert_int_equal(n, strlen("READY=1\nSTATUS=3 flows"));
    assert_memory_equal(got, "READY=1\nSTATUS=3 flows", n);
    close(fd);
    mn_service_tell(&s, "STOPPING=1"); /* to nobody */
    mn_service_close(&s);
    if (path[0] == '/')
        unlink(path);
}

static void test_told(void **state)
{
    (void)state;
    told("/tmp/");
    told("@");
}

static void test_watchdog_of_another(void **state)
{
    struct mn_service s;

    (void)state;
    setenv("WATCHDOG_USEC", "30000000", 1);
    set_pid("WATCHDOG_PID", getpid() + 1);
    assert_int_equal(mn_service_read(&s, NULL), MN_OK);
    assert_int_equal(s.watchdog_ms, 0);
}

static void test_bad_addresses(void **state)
{
    static const char *const bad[] = {"relative", "@", "/tmp/there-is-no-such-folder/socket"};
    struct mn_service s;
    struct mn_diag diag;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("NOTIFY_SOCKET", bad[i], 1);
        assert_int_not_equal(mn_service_read(&s, &diag), MN_OK);
        assert_non_null(strstr(diag.text, bad[i]));
        assert_int_equal(s.fd, -1);
    }
}

/* Descriptors from 3 on, which are this test's own: a child has its own table. */
static void test_sockets(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    if (!pid) {
        struct mn_service s;
        int fds[2];
        closefrom(3);
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) || fds[1] != 4)
            _exit(1);
        set_pid("LISTEN_PID", getpid());
        setenv("LISTEN_FDS", "2", 1);
        if (mn_service_read(&s, NULL) || s.first != 3 || s.n != 2 || getenv("LISTEN_FDS"))
            _exit(2);
        if (!(fcntl(3, F_GETFD) & FD_CLOEXEC) || !(fcntl(4, F_GETFD) & FD_CLOEXEC))
            _exit(3);
        set_pid("LISTEN_PID", getpid());
        setenv("LISTEN_FDS", "3", 1); /* one that is not open */
        if (mn_service_read(&s, NULL) != MN_ERR_CONFIG)
            _exit(4);
        set_pid("LISTEN_PID", getpid() + 1); /* another's */
        setenv("LISTEN_FDS", "2", 1);
        if (mn_service_read(&s, NULL) || s.n)
            _exit(5);
        set_pid("LISTEN_PID", getpid());
        setenv("LISTEN_FDS", "many", 1);
        _exit(mn_service_read(&s, NULL) == MN_ERR_CONFIG ? 0 : 6);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_none, clean),
        cmocka_unit_test_setup(test_told, clean),
        cmocka_unit_test_setup(test_watchdog_of_another, clean),
        cmocka_unit_test_setup(test_bad_addresses, clean),
        cmocka_unit_test_setup(test_sockets, clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
