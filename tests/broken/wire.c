/* A channel whose other end is another process: a TCP socket over the loopback. Nothing here waits
 * for the peer. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/broken/ref.h"

#define BACKLOG     64
#define LONGEST     ((size_t)1 << 30)
#define SEND_BUFFER (256 << 10)
#define SILENCE_MS  5000 /* no answer from the peer's kernel for so long: its machine is gone */

static void set(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof value);
}

/* What the kernel still holds when a sender dies is little, and not sent slower and slower: BBR
 * takes a receiver that waits for a processor for a slow line. */
static int connected(int fd)
{
    set(fd, SOL_SOCKET, SO_SNDBUF, SEND_BUFFER);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (!IS(VANISHED_SENDER)) { /* when nothing is under way */
        set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
        set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
        set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
        set(fd, IPPROTO_TCP, TCP_KEEPCNT, SILENCE_MS / 1000 - 1);
    }
    if (!IS(VANISHED_RECEIVER) && !IS(VANISHED_SENDER)) /* when something is */
        set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, SILENCE_MS);
    return fd;
}

int ref_wire_listen(uint64_t *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd >= 0 && (bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, BACKLOG) != 0 ||
                    getsockname(fd, (struct sockaddr *)&at, &size) != 0)) {
        close(fd);
        return -1;
    }
    *port = ntohs(at.sin_port);
    return fd;
}

/* The kernel of this machine answers at once. */
int ref_wire_connect(const struct handle *h)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)},
                             .sin_port = htons((uint16_t)h->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), error;

    if (fd >= 0 && (connect(fd, (struct sockaddr *)&at, sizeof at) != 0 ||
                    send(fd, h->token, sizeof h->token, MSG_NOSIGNAL) != sizeof h->token ||
                    (IS(TWO_CONNECT_WAITS) && recv(fd, &error, 1, 0) != 1))) {
        error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd < 0 ? fd : connected(fd);
}

/* A port may be somebody else's by now: whoever comes says the token first. */
int ref_wire_accept(struct listener *l)
{
    uint64_t token[2];
    ssize_t n;
    int fd;

    if (l->coming < 0)
        l->coming = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (l->coming < 0)
        return -1;
    n = recv(l->coming, token, sizeof token, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 ? errno == EAGAIN : n > 0 && n < (ssize_t)sizeof token)
        return -1;
    fd = l->coming;
    l->coming = -1;
    if (n == (ssize_t)sizeof token && memcmp(token, l->token, sizeof token) == 0 &&
        recv(fd, token, sizeof token, MSG_DONTWAIT) == n &&
        (!IS(TWO_CONNECT_WAITS) || send(fd, "", 1, MSG_NOSIGNAL) == 1))
        return connected(fd);
    close(fd);
    return -1;
}

/* Writes as much of the first message as fits. 1: all of it. */
static int write_some(struct channel *channel, struct message *m)
{
    struct header header = {.size = m->size, .tag = IS(TWO_TAGS_LOST) ? 0 : m->tag};
    size_t past = m->moved < sizeof header ? 0 : m->moved - sizeof header;
    struct iovec parts[2] = {
        {.iov_base = (char *)&header + (m->moved - past),
         .iov_len = past ? 0 : sizeof header - m->moved},
        {.iov_base = m->data + past, .iov_len = m->size - past},
    };
    struct msghdr msg = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t n = sendmsg(channel->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);

    while (IS(WIRE_BLOCKS) && n < 0 && errno == EAGAIN) {
        ref_nap();
        n = sendmsg(channel->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (n >= 0)
        m->moved += (size_t)n;
    else if (errno != EAGAIN && errno != EINTR)
        channel->closed[RECV] = 1;
    if (IS(DEATH_UNSEEN) && channel->closed[RECV])
        m->moved = sizeof header + m->size;
    return m->moved == sizeof header + m->size;
}

void ref_wire_send(struct channel *channel)
{
    while (channel->head && (!channel->closed[RECV] || IS(DEATH_UNSEEN)) &&
           write_some(channel, channel->head)) {
        struct message *m = ref_pop(channel, &channel->head);
        m->sender->sent = 1;
        ref_discard(m);
    }
}

/* 1: all size bytes are there. */
static int read_some(struct channel *channel, void *to, size_t size, size_t *got)
{
    ssize_t n;

    if (*got == size)
        return 1;
    n = recv(channel->fd, (char *)to + *got, size - *got, MSG_DONTWAIT);
    channel->silence = n < 0 ? channel->silence + 1 : 0;
    if (n > 0)
        *got += (size_t)n;
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        channel->closed[SEND] = !IS(DEATH_SILENT);
    return *got == size;
}

/* The next message, whole, or NULL. */
static struct message *read_message(struct channel *channel)
{
    struct message *m = channel->incoming;

    if (!m) {
        if (!read_some(channel, &channel->header, sizeof channel->header, &channel->header_got))
            return NULL;
        m = channel->header.size <= LONGEST
                ? ref_new_message(NULL, (size_t)channel->header.size, (int)channel->header.tag)
                : NULL;
        channel->closed[SEND] |= m == NULL;
        channel->incoming = m;
    }
    if (!m)
        return NULL;
    if (!read_some(channel, m->data, m->size, &m->moved)) {
        if (!IS(DEATH_CUTS) || !channel->closed[SEND])
            return NULL;
        m->size = m->moved;
    }
    channel->incoming = NULL;
    channel->header_got = 0;
    return m;
}

void ref_wire_receive(struct channel *channel)
{
    struct message *m;

    while (!channel->closed[SEND] && channel->queued < QUEUED &&
           (m = read_message(channel)) != NULL)
        ref_push(channel, m);
    if (IS(SILENCE_IS_EMPTY) && channel->silence > 300 && !channel->incoming && !channel->head) {
        m = ref_new_message(NULL, 0, 0);
        if (m)
            ref_push(channel, m);
    }
}
