#include "fleet/service.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "topo/base/alloc.h"

#define FIRST_SOCKET 3
#define MOST_SOCKETS 64

static int number(const char *name, long long most, long long *value)
{
    const char *text = getenv(name);
    char *end;

    if (!text || !*text)
        return 0;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return !errno && !*end && *value > 0 && *value <= most;
}

/* Meant for this process: without a pid it is for whoever has it. */
static int is_own(const char *name)
{
    const char *text = getenv(name);
    long long pid;

    return !text || !*text || (number(name, 1LL << 31, &pid) && pid == getpid());
}

static enum mn_err take_sockets(struct mn_service *s, struct mn_diag *diag)
{
    long long n;

    if (!getenv("LISTEN_PID") || !is_own("LISTEN_PID") || !getenv("LISTEN_FDS"))
        return MN_OK;
    if (!number("LISTEN_FDS", MOST_SOCKETS, &n))
        return mn_fail(diag, MN_ERR_CONFIG,
                       "LISTEN_FDS=%.40s: expected how many sockets the service manager hands "
                       "over, 1 to %d",
                       getenv("LISTEN_FDS"), MOST_SOCKETS);
    for (int fd = FIRST_SOCKET; fd < FIRST_SOCKET + n; fd++)
        if (fcntl(fd, F_SETFD, FD_CLOEXEC))
            return mn_fail(diag, MN_ERR_CONFIG,
                           "LISTEN_FDS=%lld: descriptor %d is not open: whoever started this "
                           "handed over fewer",
                           n, fd);
    s->first = FIRST_SOCKET;
    s->n = (int)n;
    return MN_OK;
}

static enum mn_err dial(struct mn_service *s, struct mn_diag *diag)
{
    const char *to = getenv("NOTIFY_SOCKET");
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    if (!to || !*to)
        return MN_OK;
    if ((to[0] != '/' && to[0] != '@') || !to[1] ||
        !mn_strlcpy(at.sun_path, to, sizeof at.sun_path))
        return mn_fail(diag, MN_ERR_CONFIG,
                       "NOTIFY_SOCKET=%.120s: expected the path of a socket, or @ and a name", to);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(to));
    if (to[0] == '@')
        at.sun_path[0] = '\0';
    s->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->fd < 0 || connect(s->fd, (struct sockaddr *)&at, len))
        return mn_fail_errno(diag, "NOTIFY_SOCKET=%.120s: telling the service manager", to);
    return MN_OK;
}

enum mn_err mn_service_read(struct mn_service *s, struct mn_diag *diag)
{
    static const char *const own[] = {"LISTEN_PID",    "LISTEN_FDS",   "LISTEN_FDNAMES",
                                      "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"};
    long long us;

    *s = (struct mn_service){.fd = -1};
    enum mn_err err = take_sockets(s, diag);
    if (!err)
        err = dial(s, diag);
    if (!err && s->fd >= 0 && is_own("WATCHDOG_PID") && number("WATCHDOG_USEC", 1LL << 42, &us))
        s->watchdog_ms = us < 1000 ? 1 : (unsigned)(us / 1000);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        unsetenv(own[i]);
    if (err)
        mn_service_close(s);
    return err;
}

void mn_service_tell(const struct mn_service *s, const char *format, ...)
{
    char text[512];
    va_list args;

    if (s->fd < 0)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)!send(s->fd, text, strlen(text), MSG_NOSIGNAL);
}

void mn_service_close(struct mn_service *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}
