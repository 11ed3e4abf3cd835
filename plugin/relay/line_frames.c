#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "plugin/conn.h"
#include "plugin/relay/line_impl.h"

#define TX_FIRST 4096u

/* --- sending ---------------------------------------------------------------------------------- */

void mn_line_flush(struct mn_line *line)
{
    while (line->tx_off < line->tx_len) {
        ssize_t n = send(line->fd, line->tx + line->tx_off, line->tx_len - line->tx_off,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n < 0) {
            line->tx_error = errno; /* what the peer has said before is still to be read */
            line->tx_len = line->tx_off = 0;
            return;
        }
        line->tx_off += (size_t)n;
    }
    line->tx_len = line->tx_off = 0;
}

/* Room for so many bytes more. The queue is moved when half of it is sent, so seldom. */
static enum mn_err make_room(struct mn_line *line, size_t more)
{
    if (line->tx_len + more <= line->tx_room)
        return MN_OK;
    if (line->tx_off && line->tx_off >= line->tx_len / 2) {
        memmove(line->tx, line->tx + line->tx_off, line->tx_len - line->tx_off);
        line->tx_len -= line->tx_off;
        line->tx_off = 0;
    }
    size_t room = line->tx_room ? line->tx_room : TX_FIRST;
    while (room < line->tx_len + more)
        room *= 2;
    uint8_t *tx = room > line->tx_room ? realloc(line->tx, room) : line->tx;
    if (!tx)
        return MN_ERR_NOMEM;
    line->tx = tx;
    line->tx_room = room;
    return MN_OK;
}

size_t mn_line_waits(const struct mn_line *line)
{
    return line->tx_len - line->tx_off;
}

enum mn_err mn_line_put(struct mn_line *line, enum mn_line_frame type, const void *payload,
                        size_t len)
{
    size_t waits = mn_line_waits(line);

    if (line->over || line->tx_error)
        return line->over ? line->why.code : MN_ERR_PEER_DEAD;
    if (type < MN_LINE_PING || type >= MN_LINE_FRAMES || len > MN_LINE_MAX)
        return MN_ERR_INTERNAL;
    if (waits + MN_LINE_HEADER + len > MN_LINE_QUEUE)
        return MN_ERR_AGAIN;
    enum mn_err err = make_room(line, MN_LINE_HEADER + len);
    if (err)
        return err;
    struct mn_bytes b = {line->tx + line->tx_len, line->tx + line->tx_room, 0};
    mn_put(&b, len, 2);
    mn_put(&b, type, 1);
    mn_put(&b, 0, 1);
    mn_put_raw(&b, payload, len);
    line->tx_len += MN_LINE_HEADER + len;
    if (line->state == MN_LINE_UP && !line->held)
        mn_line_flush(line);
    return MN_OK;
}

void mn_line_hold(struct mn_line *line, int held)
{
    line->held = held;
    if (!held && line->state == MN_LINE_UP && !line->over)
        mn_line_flush(line);
}

/* --- reading ---------------------------------------------------------------------------------- */

void mn_line_read(struct mn_line *line)
{
    if (line->rx_off) {
        memmove(line->rx, line->rx + line->rx_off, line->rx_len - line->rx_off);
        line->rx_len -= line->rx_off;
        line->rx_off = 0;
    }
    while (line->rx_len < sizeof line->rx && !line->over) {
        size_t room = sizeof line->rx - line->rx_len;
        ssize_t n = recv(line->fd, line->rx + line->rx_len, room, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n < 0)
            (void)mn_line_end_errno(line, errno);
        else if (!n && line->tx_error)
            return; /* which has told first, and ends it */
        else if (!n)
            line->closed =
                mn_line_end(line, MN_ERR_PEER_DEAD, "%s: the other end has closed the line",
                            line->peer) == MN_ERR_PEER_DEAD;
        else
            line->since_ms = 0;
        line->rx_len += n > 0 ? (size_t)n : 0;
        if (n > 0 && (size_t)n < room)
            return; /* more wakes again */
    }
}

/* The frame at rx_off. MN_ERR_AGAIN: not whole yet. */
static enum mn_err frame_at(const struct mn_line *line, enum mn_line_frame *type, size_t *len)
{
    const uint8_t *at = line->rx + line->rx_off;
    size_t left = line->rx_len - line->rx_off;

    if (left < MN_LINE_HEADER)
        return MN_ERR_AGAIN;
    *len = at[0] | (size_t)at[1] << 8;
    *type = (enum mn_line_frame)at[2];
    if (*len > MN_LINE_MAX || *type < MN_LINE_PING || *type >= MN_LINE_FRAMES || at[3] ||
        (*type <= MN_LINE_PONG && *len != 4))
        return MN_ERR_PROTO;
    return left < MN_LINE_HEADER + *len ? MN_ERR_AGAIN : MN_OK;
}

int mn_line_has_frame(const struct mn_line *line)
{
    enum mn_line_frame type;
    size_t len;

    return frame_at(line, &type, &len) != MN_ERR_AGAIN;
}

enum mn_err mn_line_get(struct mn_line *line, enum mn_line_frame *type, uint8_t **payload,
                        size_t *len)
{
    for (;;) {
        enum mn_err err = line->state == MN_LINE_UP ? frame_at(line, type, len) : MN_ERR_AGAIN;
        if (err == MN_ERR_PROTO) {
            line->rx_len = line->rx_off = 0; /* nothing behind it means anything */
            return mn_line_end(line, MN_ERR_PROTO,
                               "%s: sends what is no frame of the relay's protocol", line->peer);
        }
        if (err)
            return err;
        *payload = line->rx + line->rx_off + MN_LINE_HEADER;
        line->rx_off += MN_LINE_HEADER + *len;
        if (*type == MN_LINE_PING) {
            /* Whatever is read is a sign of life: who does not read what waits gets no more. */
            if (mn_line_waits(line) < TX_FIRST)
                (void)mn_line_put(line, MN_LINE_PONG, *payload, *len);
        } else if (*type != MN_LINE_PONG)
            return MN_OK;
    }
}

/* --- signs of life ---------------------------------------------------------------------------- */

void mn_line_ping(struct mn_line *line)
{
    uint64_t now = mn_now_ms();
    uint8_t number[4];
    struct mn_bytes b = {number, number + sizeof number, 0};

    if (line->state != MN_LINE_UP || (line->pings && now - line->pinged_ms < MN_RELAY_PING_MS))
        return;
    mn_put(&b, ++line->pings, 4);
    line->pinged_ms = now;
    if (!line->since_ms)
        line->since_ms = now;
    (void)mn_line_put(line, MN_LINE_PING, number, sizeof number);
}

unsigned mn_line_silent_ms(const struct mn_line *line)
{
    return line->since_ms ? (unsigned)(mn_now_ms() - line->since_ms) : 0;
}
