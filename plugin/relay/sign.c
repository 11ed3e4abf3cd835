#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "plugin/bytes.h"
#include "plugin/relay/sign.h"
#include "topo/base/alloc.h"

void mn_line_hello_put(const struct mn_line_hello *hello, uint8_t out[MN_LINE_HELLO_SIZE])
{
    struct mn_bytes b = {out, out + MN_LINE_HELLO_SIZE, 0};

    mn_put_raw(&b, hello->random, sizeof hello->random);
    mn_put(&b, hello->relay_node, 4);
    mn_put(&b, hello->kind, 1);
    mn_put(&b, hello->node, 4);
    mn_put(&b, hello->uid, 4);
    mn_put(&b, hello->pid, 4);
}

int mn_line_hello_get(const uint8_t in[MN_LINE_HELLO_SIZE], struct mn_line_hello *hello)
{
    struct mn_bytes b = {(uint8_t *)in, (uint8_t *)in + MN_LINE_HELLO_SIZE, 0};

    mn_get_raw(&b, hello->random, sizeof hello->random);
    hello->relay_node = (uint32_t)mn_get(&b, 4);
    hello->kind = (uint8_t)mn_get(&b, 1);
    hello->node = (uint32_t)mn_get(&b, 4);
    hello->uid = (uint32_t)mn_get(&b, 4);
    hello->pid = (uint32_t)mn_get(&b, 4);
    return hello->kind == MN_LINE_PROCESS || hello->kind == MN_LINE_RELAY;
}

static void derive(const uint8_t cluster_key[MN_KEY_SIZE], const char *purpose,
                   const uint8_t hello[MN_LINE_HELLO_SIZE], uint8_t out[16])
{
    uint8_t derived[32];

    mn_derive(cluster_key, purpose, hello, MN_LINE_HELLO_SIZE, derived);
    memcpy(out, derived, 16);
    mn_wipe(derived, sizeof derived);
}

void mn_line_sign(const uint8_t cluster_key[MN_KEY_SIZE], const struct mn_line_hello *hello,
                  struct mn_line_signed *out)
{
    uint8_t bytes[MN_LINE_HELLO_SIZE];

    mn_line_hello_put(hello, bytes);
    derive(cluster_key, "line proof", bytes, out->proof);
    derive(cluster_key, "line welcome", bytes, out->welcome);
    derive(cluster_key, "line key", bytes, out->key);
}

/* --- asking the own node's relayd ------------------------------------------------------------- */

static enum mn_err not_asked(const char *path, int error, struct mn_diag *diag)
{
    const char *why = error == ENOENT || error == ECONNREFUSED
                          ? "meshnet relayd does not run on this node"
                      : error == EACCES ? "this user may not open it (meshnet relayd --users)"
                                        : strerror(error);

    return mn_fail(diag,
                   error == EAGAIN   ? MN_ERR_AGAIN
                   : error == EACCES ? MN_ERR_AUTH
                                     : MN_ERR_PEER_DEAD,
                   "%s: %s; a process without the cluster key (plugin.key_file) needs it to be let "
                   "in by the relays",
                   path, why);
}

enum mn_err mn_line_ask(const char *socket_path, const struct mn_line_hello *hello, int *fd,
                        struct mn_diag *diag)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    uint8_t ask[4 + MN_LINE_HELLO_SIZE] = "sign";
    int error = 0;

    *fd = -1;
    if (!mn_strlcpy(at.sun_path, socket_path, sizeof at.sun_path))
        return mn_fail(diag, MN_ERR_CONFIG, "relay.socket %s: longer than %zu characters",
                       socket_path, sizeof at.sun_path - 1);
    mn_line_hello_put(hello, ask + 4);
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return mn_fail_errno(diag, "opening a socket (see ulimit -n)");
    if (connect(*fd, (struct sockaddr *)&at, sizeof at) ||
        send(*fd, ask, sizeof ask, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof ask) {
        error = errno;
        close(*fd);
        *fd = -1;
        return not_asked(socket_path, error, diag);
    }
    return MN_OK;
}

/* What has come, of which the end is there. */
static size_t read_all(int fd, uint8_t *bytes, size_t size)
{
    size_t len = 0;
    ssize_t n;

    while (len < size && (n = recv(fd, bytes + len, size - len, MSG_DONTWAIT)) > 0)
        len += (size_t)n;
    return len;
}

static enum mn_err take_answer(const uint8_t *answer, size_t len, struct mn_line_hello *hello,
                               struct mn_line_signed *out, struct mn_diag *diag)
{
    struct mn_line_hello asked = *hello;
    const uint8_t *at = answer + 1;

    if (!len || len > MN_ASK_WORDS)
        return mn_fail(diag, len ? MN_ERR_PROTO : MN_ERR_PEER_DEAD,
                       "the relayd of this node has %s to what it was asked",
                       len ? "said too much" : "not answered");
    if (answer[0] != MN_ASK_SIGNED)
        return mn_fail(diag, MN_ERR_AUTH, "the relayd of this node says: %.*s", (int)len,
                       (const char *)answer);
    if (len != MN_ASK_ANSWER || !mn_line_hello_get(at, hello) ||
        memcmp(hello->random, asked.random, sizeof asked.random) != 0 ||
        hello->relay_node != asked.relay_node || hello->kind != MN_LINE_PROCESS) {
        *hello = asked;
        return mn_fail(diag, MN_ERR_PROTO,
                       "the relayd of this node has signed something else than it was asked to: "
                       "another version of meshnet?");
    }
    at += MN_LINE_HELLO_SIZE;
    memcpy(out->proof, at, sizeof out->proof);
    at += sizeof out->proof;
    memcpy(out->welcome, at, sizeof out->welcome);
    at += sizeof out->welcome;
    memcpy(out->key, at, sizeof out->key);
    return MN_OK;
}

enum mn_err mn_line_answer(int *fd, struct mn_line_hello *hello, struct mn_line_signed *out,
                           struct mn_diag *diag)
{
    struct pollfd ended = {.fd = *fd, .events = POLLIN | POLLRDHUP};
    uint8_t answer[MN_ASK_WORDS + 1];

    /* It is whole when the other side has closed, or would not fit. */
    if (poll(&ended, 1, 0) < 0 || !ended.revents)
        return MN_ERR_AGAIN;
    if (!(ended.revents & (POLLRDHUP | POLLHUP | POLLERR)) &&
        recv(*fd, answer, sizeof answer, MSG_PEEK | MSG_DONTWAIT) < (ssize_t)sizeof answer)
        return MN_ERR_AGAIN;
    size_t len = read_all(*fd, answer, sizeof answer);
    close(*fd);
    *fd = -1;
    enum mn_err err = take_answer(answer, len, hello, out, diag);
    mn_wipe(answer, sizeof answer);
    return err;
}
