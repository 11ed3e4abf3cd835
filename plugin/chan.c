#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/bytes.h"
#include "plugin/conn.h"

#define FRAME_MAGIC 0x3146534du /* "MSF1" */
#define HEADER      8

void mn_chan_init(struct mn_chan *chan, int fd)
{
    chan->fd = fd;
    chan->rx_len = chan->tx_len = chan->tx_off = 0;
    chan->lost = 0;
}

void mn_chan_close(struct mn_chan *chan)
{
    if (chan->fd >= 0)
        close(chan->fd);
    chan->fd = -1;
}

enum mn_err mn_chan_put(struct mn_chan *chan, enum mn_frame type, const void *payload, size_t len)
{
    struct mn_bytes b = {chan->tx + chan->tx_len, chan->tx + sizeof chan->tx, 0};

    mn_put(&b, FRAME_MAGIC, 4);
    mn_put(&b, type, 1);
    mn_put(&b, 0, 1);
    mn_put(&b, len, 2);
    mn_put_raw(&b, payload, len);
    if (b.bad)
        return MN_ERR_INTERNAL;
    chan->tx_len = (size_t)(b.at - chan->tx);
    return MN_OK;
}

enum mn_err mn_chan_flush(struct mn_chan *chan, struct mn_diag *diag)
{
    while (chan->tx_off < chan->tx_len) {
        ssize_t n = send(chan->fd, chan->tx + chan->tx_off, chan->tx_len - chan->tx_off,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return MN_ERR_AGAIN;
        if (n < 0) {
            /* EPIPE: the peer has closed, as reading tells. */
            if (errno != EPIPE)
                chan->lost = errno;
            return mn_fail_errno(diag, "sending a handshake frame");
        }
        chan->tx_off += (size_t)n;
    }
    chan->tx_len = chan->tx_off = 0;
    return MN_OK;
}

/* Reads until rx holds want bytes. */
static enum mn_err fill(struct mn_chan *chan, size_t want, struct mn_diag *diag)
{
    while (chan->rx_len < want) {
        ssize_t n = recv(chan->fd, chan->rx + chan->rx_len, want - chan->rx_len, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return MN_ERR_AGAIN;
        if (n < 0)
            return mn_fail_errno(diag, "reading a handshake frame");
        if (n == 0 && chan->lost) {
            /* A socket tells once why it was reset; then it looks like one that the peer closed. */
            errno = chan->lost;
            return mn_fail_errno(diag, "reading a handshake frame");
        }
        if (n == 0)
            return mn_fail(diag, MN_ERR_PEER_DEAD, "peer closed the connection in the handshake");
        chan->rx_len += (size_t)n;
    }
    return MN_OK;
}

/* MN_OK when the header is whole and good; MN_ERR_AGAIN when what is there of it is good. */
static enum mn_err parse_header(const uint8_t *bytes, size_t n, enum mn_frame *type, size_t *len)
{
    uint8_t header[HEADER], good[4];
    struct mn_bytes magic = {good, good + sizeof good, 0};
    struct mn_bytes b = {header + 4, header + HEADER, 0};

    mn_put(&magic, FRAME_MAGIC, sizeof good);
    if (memcmp(bytes, good, n < sizeof good ? n : sizeof good))
        return MN_ERR_PROTO;
    if (n < HEADER)
        return MN_ERR_AGAIN;
    memcpy(header, bytes, HEADER);
    *type = (enum mn_frame)mn_get(&b, 1);
    uint64_t zero = mn_get(&b, 1);
    *len = mn_get(&b, 2);
    return zero || *len > MN_FRAME_MAX - HEADER ? MN_ERR_PROTO : MN_OK;
}

enum mn_err mn_chan_peek(int fd, uint8_t *bytes, size_t size, enum mn_frame *type,
                         const uint8_t **payload, size_t *len)
{
    ssize_t n = recv(fd, bytes, size, MSG_PEEK | MSG_DONTWAIT);

    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? MN_ERR_AGAIN
                                                                         : MN_ERR_PEER_DEAD;
    if (n == 0)
        return MN_ERR_PEER_DEAD;
    enum mn_err err = parse_header(bytes, (size_t)n, type, len);
    if (!err && *len > size - HEADER)
        err = MN_ERR_PROTO;
    if (err)
        return err;
    *payload = bytes + HEADER;
    return HEADER + *len <= (size_t)n ? MN_OK : MN_ERR_AGAIN;
}

enum mn_err mn_chan_get(struct mn_chan *chan, enum mn_frame *type, uint8_t **payload, size_t *len,
                        struct mn_diag *diag)
{
    enum mn_err err = fill(chan, HEADER, diag);

    if (err)
        return err;
    if (parse_header(chan->rx, HEADER, type, len))
        return mn_fail(diag, MN_ERR_PROTO, "not a meshnet handshake frame");
    err = fill(chan, HEADER + *len, diag);
    if (err)
        return err;
    *payload = chan->rx + HEADER;
    chan->rx_len = 0;
    return MN_OK;
}
