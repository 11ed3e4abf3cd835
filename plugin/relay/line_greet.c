#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "plugin/bytes.h"
#include "plugin/conn.h"
#include "plugin/relay/line_impl.h"

/* A socket that has said nothing yet takes so few bytes whole. */
static enum mn_err say(struct mn_line *line, const uint8_t *bytes, size_t len)
{
    ssize_t n = send(line->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n == (ssize_t)len)
        return MN_OK;
    return mn_line_end_errno(line, n < 0 ? errno : EPIPE);
}

enum mn_err mn_line_fill(struct mn_line *line, size_t want)
{
    while (line->rx_len < want) {
        ssize_t n = recv(line->fd, line->rx + line->rx_len, want - line->rx_len, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return MN_ERR_AGAIN;
        if (n < 0)
            return mn_line_end_errno(line, errno);
        if (!n)
            return mn_line_end(line, MN_ERR_PEER_DEAD, "%s: left while the line was greeted",
                               line->peer);
        line->rx_len += (size_t)n;
    }
    return MN_OK;
}

/* --- the first two messages ------------------------------------------------------------------- */

static size_t put_first(const uint8_t random[16], uint8_t out[MN_LINE_FIRST])
{
    struct mn_bytes b = {out, out + MN_LINE_FIRST, 0};

    mn_put(&b, MN_LINE_MAGIC, 4);
    mn_put(&b, MN_RELAY_VERSION, 2);
    mn_put(&b, 0, 2);
    mn_put_raw(&b, random, 16);
    return MN_LINE_FIRST;
}

/* 0: no line begins so. As much of it as is there. */
static int begins(const uint8_t *bytes, size_t len)
{
    uint8_t magic[4];
    struct mn_bytes b = {magic, magic + sizeof magic, 0};

    mn_put(&b, MN_LINE_MAGIC, 4);
    return !memcmp(bytes, magic, len < sizeof magic ? len : sizeof magic);
}

/* Of its first 8 bytes. */
static unsigned version_of(const uint8_t *bytes)
{
    return bytes[4] | (unsigned)bytes[5] << 8;
}

static enum mn_err take_first(struct mn_line *line, uint8_t random[16])
{
    if (!begins(line->rx, line->rx_len))
        return mn_line_end(line, MN_ERR_PROTO, "%s: what answers there is no relayd", line->peer);
    if (version_of(line->rx) != MN_RELAY_VERSION)
        return mn_line_end(line, MN_ERR_AUTH,
                           "%s: speaks version %u of the relay's protocol, this end %d: install "
                           "the same release of meshnet on both",
                           line->peer, version_of(line->rx), MN_RELAY_VERSION);
    if (line->rx[6] || line->rx[7])
        return mn_line_end(line, MN_ERR_PROTO, "%s: a greeting that is none", line->peer);
    memcpy(random, line->rx + 8, 16);
    return MN_OK;
}

static enum mn_err say_second(struct mn_line *line)
{
    uint8_t out[MN_LINE_SECOND];
    struct mn_bytes b = {out + MN_LINE_FIRST, out + sizeof out, 0};

    put_first(line->hello.random[0], out);
    mn_put(&b, line->hello.relay_node, 4);
    return say(line, out, sizeof out);
}

enum mn_verdict mn_line_judge(int fd)
{
    uint8_t bytes[MN_LINE_SECOND] = {0};
    ssize_t n = recv(fd, bytes, MN_LINE_FIRST, MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return MN_ARRIVAL_WAITS;
    if (n <= 0 || !begins(bytes, (size_t)n))
        return MN_ARRIVAL_STRANGER;
    if (n >= 8 && version_of(bytes) != MN_RELAY_VERSION) {
        /* What it said is read, or closing would take the answer back. */
        (void)!recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        memset(bytes, 0, sizeof bytes);
        put_first(bytes + 8, bytes);
        (void)!send(fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        return MN_ARRIVAL_STRANGER;
    }
    return n < MN_LINE_FIRST ? MN_ARRIVAL_WAITS : MN_ARRIVAL_TAKEN;
}

/* --- the proofs ------------------------------------------------------------------------------- */

static enum mn_err say_third(struct mn_line *line)
{
    uint8_t out[MN_LINE_THIRD];
    struct mn_bytes b = {out, out + sizeof out, 0};

    mn_put(&b, line->hello.kind, 1);
    mn_put(&b, line->hello.node, 4);
    mn_put(&b, line->hello.uid, 4);
    mn_put(&b, line->hello.pid, 4);
    mn_put_raw(&b, line->signs.proof, MN_MAC_SIZE);
    line->state = MN_LINE_PROVED;
    return say(line, out, sizeof out);
}

static enum mn_err is_up(struct mn_line *line)
{
    line->state = MN_LINE_UP;
    line->rx_len = line->rx_off = 0;
    return MN_OK;
}

static enum mn_err refuse(struct mn_line *line, enum mn_line_refusal refusal)
{
    uint8_t out = (uint8_t)refusal;

    (void)!send(line->fd, &out, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    return mn_line_end(line, MN_ERR_AUTH,
                       "%s: did not prove that it has the cluster key: it has another one "
                       "(plugin.key_file there and here), or is a stranger",
                       line->peer);
}

static enum mn_err take_third(struct mn_line *line)
{
    struct mn_bytes b = {line->rx, line->rx + MN_LINE_THIRD, 0};
    uint8_t proof[MN_MAC_SIZE], out[MN_LINE_LAST] = {MN_LINE_LET_IN};

    line->hello.kind = (uint8_t)mn_get(&b, 1);
    line->hello.node = (uint32_t)mn_get(&b, 4);
    line->hello.uid = (uint32_t)mn_get(&b, 4);
    line->hello.pid = (uint32_t)mn_get(&b, 4);
    mn_get_raw(&b, proof, sizeof proof);
    mn_line_sign(line->config->cluster_key, &line->hello, &line->signs);
    if (!mn_mac_equal(proof, line->signs.proof, sizeof proof))
        return refuse(line, MN_LINE_WRONG_KEY);
    if (line->hello.kind != MN_LINE_PROCESS && line->hello.kind != MN_LINE_RELAY)
        return mn_line_end(line, MN_ERR_PROTO, "%s: is neither a process nor a relayd", line->peer);
    memcpy(out + 1, line->signs.welcome, MN_MAC_SIZE);
    enum mn_err err = say(line, out, sizeof out);
    return err ? err : is_up(line);
}

static enum mn_err take_last(struct mn_line *line)
{
    enum mn_err err = mn_line_fill(line, 1);

    if (err)
        return err;
    if (line->rx[0] == MN_LINE_WRONG_KEY)
        return mn_line_end(line, MN_ERR_AUTH,
                           "%s: its relayd refuses the proof of the cluster key: it has another "
                           "one than %s (plugin.key_file there and here)",
                           line->peer,
                           line->config->has_key ? "this process" : "the relayd of this node");
    if (line->rx[0] != MN_LINE_LET_IN)
        return mn_line_end(line, MN_ERR_AUTH, "%s: its relayd lets nobody in (reason %u)",
                           line->peer, line->rx[0]);
    err = mn_line_fill(line, MN_LINE_LAST);
    if (err)
        return err;
    if (!mn_mac_equal(line->rx + 1, line->signs.welcome, MN_MAC_SIZE))
        return mn_line_end(line, MN_ERR_AUTH,
                           "%s: what answers there has not the cluster key of this mesh",
                           line->peer);
    return is_up(line);
}

/* --- who dials -------------------------------------------------------------------------------- */

enum mn_err mn_line_say_first(struct mn_line *line)
{
    uint8_t out[MN_LINE_FIRST];

    line->state = MN_LINE_FIRST_SAID;
    return say(line, out, put_first(line->hello.random[1], out));
}

static enum mn_err take_second(struct mn_line *line)
{
    struct mn_bytes b = {line->rx + MN_LINE_FIRST, line->rx + MN_LINE_SECOND, 0};
    enum mn_err err = mn_line_fill(line, MN_LINE_SECOND);

    if (!err)
        err = take_first(line, line->hello.random[0]);
    if (err)
        return err;
    uint32_t node = (uint32_t)mn_get(&b, 4);
    if (node != line->hello.relay_node)
        return mn_line_end(line, MN_ERR_AUTH,
                           "%s: the relayd there is of node %u of its mesh file, here that address "
                           "is of node %u: are the mesh files the same?",
                           line->peer, node, line->hello.relay_node);
    line->rx_len = 0;
    if (line->config->has_key) {
        mn_line_sign(line->config->cluster_key, &line->hello, &line->signs);
        return say_third(line);
    }
    line->state = MN_LINE_ASKING;
    line->ask_due_ms = mn_now_ms() + MN_ASK_MS;
    return MN_OK;
}

static enum mn_err ask(struct mn_line *line)
{
    struct mn_diag why = {.text = ""};
    enum mn_err err =
        line->ask_fd >= 0
            ? mn_line_answer(&line->ask_fd, &line->hello, &line->signs, &why)
            : mn_line_ask(line->config->settings.relay_socket, &line->hello, &line->ask_fd, &why);

    if (err == MN_ERR_AGAIN && mn_now_ms() >= line->ask_due_ms)
        return mn_line_end(line, MN_ERR_TIMEOUT,
                           "%s: the relayd of this node was asked to sign at %s and does not "
                           "answer within %d s: is it stopped?",
                           line->peer, line->config->settings.relay_socket, MN_ASK_MS / 1000);
    if (err == MN_ERR_AGAIN)
        return err;
    if (err)
        return mn_line_end(line, err, "%s: %s", line->peer, why.text);
    if (line->ask_fd >= 0) /* asked, not answered */
        return MN_OK;
    return say_third(line);
}

enum mn_err mn_line_greet(struct mn_line *line)
{
    enum mn_err err;

    switch (line->state) {
    case MN_LINE_FIRST_SAID:
        return take_second(line);
    case MN_LINE_ASKING:
        return ask(line);
    case MN_LINE_PROVED:
        return take_last(line);
    case MN_LINE_HEARS:
        err = mn_line_fill(line, MN_LINE_FIRST);
        if (!err)
            err = take_first(line, line->hello.random[1]);
        line->rx_len = err ? line->rx_len : 0;
        line->state = err ? line->state : MN_LINE_DOUBTS;
        return err ? err : say_second(line);
    default:
        err = mn_line_fill(line, MN_LINE_THIRD);
        return err ? err : take_third(line);
    }
}
