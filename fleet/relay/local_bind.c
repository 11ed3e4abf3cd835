/* The socket itself, and asking it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fleet/relay/daemon.h"
#include "fleet/relay/local_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

#define BACKLOG   128
#define STATE_MAX (16u << 20)

static enum mn_err address_of(const char *path, struct sockaddr_un *at, struct mn_diag *diag)
{
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (path[0] != '/')
        return mn_fail(diag, MN_ERR_CONFIG,
                       "relay.socket: '%s': expected a path that begins with /", path);
    if (!mn_strlcpy(at->sun_path, path, sizeof at->sun_path))
        return mn_fail(
            diag, MN_ERR_CONFIG,
            "relay.socket: %s: too long for a socket's name, which has at most %zu bytes", path,
            sizeof at->sun_path - 1);
    return MN_OK;
}

static int new_socket(int flags, struct mn_diag *diag)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

    if (fd < 0)
        mn_fail_errno(diag, "a socket for this node's processes");
    return fd;
}

/* MN_OK: there was one that nobody listens at, and it is gone. */
static enum mn_err remove_stale(const struct sockaddr_un *at, struct mn_diag *diag)
{
    struct stat st;

    if (lstat(at->sun_path, &st))
        return errno == ENOENT ? MN_OK : mn_fail_errno(diag, "%s: looking at it", at->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return mn_fail(diag, MN_ERR_CONFIG,
                       "%s is a file and no socket: remove it, or give another path (--socket, or "
                       "relay.socket in the mesh file)",
                       at->sun_path);
    int fd = new_socket(SOCK_NONBLOCK, diag);
    if (fd < 0)
        return MN_ERR_SYS;
    int failed = connect(fd, (const struct sockaddr *)at, sizeof *at) ? errno : 0;
    close(fd);
    if (!failed || failed == EAGAIN)
        return mn_fail(diag, MN_ERR_EXISTS,
                       "%s: another relayd of this node listens there (systemctl status "
                       "meshnet-relayd, or meshnet relayd --status)",
                       at->sun_path);
    errno = failed;
    if (failed != ECONNREFUSED && failed != ENOENT)
        return mn_fail_errno(diag, "%s: finding out whether another relayd listens there",
                             at->sun_path);
    if (unlink(at->sun_path) && errno != ENOENT)
        return mn_fail_errno(diag, "%s: removing what a relayd before has left", at->sun_path);
    return MN_OK;
}

enum mn_err mn_local_bind(const char *path, struct mn_local_bound *bound, struct mn_diag *diag)
{
    struct sockaddr_un at;
    struct stat st;
    enum mn_err err = address_of(path, &at, diag);

    bound->fd = -1;
    if (!err)
        err = remove_stale(&at, diag);
    if (err)
        return err;
    bound->fd = new_socket(SOCK_NONBLOCK, diag);
    if (bound->fd < 0)
        return MN_ERR_SYS;
    /* Whoever asks is told why he is refused. */
    if (bind(bound->fd, (struct sockaddr *)&at, sizeof at))
        return mn_fail_errno(diag,
                             "%s: listening there for this node's processes (its folder has to be "
                             "there and this user's to write in; else --socket PATH)",
                             path);
    mn_strlcpy(bound->path, path, sizeof bound->path);
    if (lstat(path, &st) || chmod(path, 0666) || listen(bound->fd, BACKLOG)) {
        unlink(path);
        bound->path[0] = '\0';
        return mn_fail_errno(diag, "%s: listening there for this node's processes", path);
    }
    bound->device = st.st_dev;
    bound->inode = st.st_ino;
    return MN_OK;
}

enum mn_err mn_local_adopt(int fd, struct mn_diag *diag)
{
    int family = 0, type = 0, listens = 0;
    socklen_t len = sizeof family;

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len))
        return mn_fail_errno(diag, "descriptor %d, handed over as a socket", fd);
    if (family != AF_UNIX || type != SOCK_STREAM || !listens)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "descriptor %d, handed over as the local socket, is no listening stream of "
                       "family unix: ListenStream=/run/meshnet/relay.sock makes one",
                       fd);
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC))
        return mn_fail_errno(diag, "descriptor %d, handed over as a socket", fd);
    return MN_OK;
}

void mn_local_unbind(struct mn_local_bound *bound)
{
    struct stat st;

    if (bound->fd < 0)
        return;
    close(bound->fd);
    if (bound->path[0] && !lstat(bound->path, &st) && st.st_dev == bound->device &&
        st.st_ino == bound->inode)
        unlink(bound->path);
}

/* --- asking ----------------------------------------------------------------------------------- */

static enum mn_err dial(const char *path, int *fd, struct mn_diag *diag)
{
    struct sockaddr_un at;
    struct timeval bound = {.tv_sec = MN_ASK_MS / 1000};
    enum mn_err err = address_of(path, &at, diag);

    if (err)
        return err;
    *fd = new_socket(0, diag);
    if (*fd < 0)
        return MN_ERR_SYS;
    (void)setsockopt(*fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound);
    (void)setsockopt(*fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    if (!connect(*fd, (struct sockaddr *)&at, sizeof at))
        return MN_OK;
    if (errno == ENOENT || errno == ENOTDIR || errno == ECONNREFUSED)
        err = mn_fail(diag, MN_ERR_NOTFOUND,
                      "%s: no relayd of this node listens there: systemctl enable --now "
                      "meshnet-relayd, or start meshnet relayd",
                      path);
    else
        err = mn_fail_errno(diag, "%s: asking the relayd of this node", path);
    close(*fd);
    return err;
}

/* Until the end of the connection; *len may be 0. */
static enum mn_err read_all(int fd, const char *path, char **text, size_t *len,
                            struct mn_diag *diag)
{
    size_t room = 1u << 16;
    double until = mn_seconds() + MN_ASK_MS / 1000.0;
    char *buf = mn_zalloc(room);
    ssize_t n;

    *len = 0;
    while ((n = recv(fd, buf + *len, room - 1 - *len, 0)) > 0 && mn_seconds() < until) {
        *len += (size_t)n;
        if (*len + 1 < room)
            continue;
        char *more = room < STATE_MAX ? realloc(buf, room *= 2) : NULL;
        if (!more)
            break;
        buf = more;
    }
    buf[*len] = '\0';
    if (!n && *len) {
        *text = buf;
        return MN_OK;
    }
    free(buf);
    return mn_fail(diag, MN_ERR_TIMEOUT,
                   "%s: the relayd of this node gave %s answer within %d s: is it stopped, or very "
                   "busy? systemctl status meshnet-relayd",
                   path, *len ? "half an" : "no", MN_ASK_MS / 1000);
}

static enum mn_err ask(const char *path, const void *question, size_t size, char **text,
                       size_t *len, struct mn_diag *diag)
{
    int fd;
    enum mn_err err = dial(path, &fd, diag);

    *text = NULL;
    if (err)
        return err;
    if (send(fd, question, size, MSG_NOSIGNAL) != (ssize_t)size)
        err = mn_fail_errno(diag, "%s: asking the relayd of this node", path);
    else
        err = read_all(fd, path, text, len, diag);
    close(fd);
    return err;
}

/* What it said is no answer. */
static enum mn_err refused(const char *path, char **text, struct mn_diag *diag)
{
    mn_fail(diag, MN_ERR_FAILED, "%s: relayd says: %.*s", path, MN_ASK_WORDS, *text);
    free(*text);
    *text = NULL;
    return MN_ERR_FAILED;
}

enum mn_err mn_relay_ask_state(const char *socket, char **json, struct mn_diag *diag)
{
    size_t len;
    enum mn_err err = ask(socket, "state", 5, json, &len, diag);

    return !err && **json != '{' ? refused(socket, json, diag) : err;
}

enum mn_err mn_relay_ask_same(const char *socket, const uint8_t challenge[MN_KEY_SIZE],
                              uint8_t made[MN_MAC_SIZE], struct mn_diag *diag)
{
    uint8_t question[4 + MN_KEY_SIZE] = "same";
    size_t len;
    char *text;

    memcpy(question + 4, challenge, MN_KEY_SIZE);
    enum mn_err err = ask(socket, question, sizeof question, &text, &len, diag);
    if (!err && len != MN_MAC_SIZE)
        return refused(socket, &text, diag);
    if (!err)
        memcpy(made, text, MN_MAC_SIZE);
    free(text);
    return err;
}
