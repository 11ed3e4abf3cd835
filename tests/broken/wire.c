/* A channel whose other end is another process: a unix socket in the abstract name space. Nothing
 * here waits. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/broken/ref.h"

#define BACKLOG     64
#define LONGEST     ((size_t)1 << 30)
#define STREAM_KIND (SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC)

static int with_address(const uint64_t token[2], int fd,
                        int (*call)(int, const struct sockaddr *, socklen_t))
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int n = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "ref-%016llx%016llx",
                     (unsigned long long)token[0], (unsigned long long)token[1]);

    return call(fd, (struct sockaddr *)&at,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n));
}

int ref_wire_listen(const uint64_t token[2])
{
    int fd = socket(AF_UNIX, STREAM_KIND, 0);

    if (fd >= 0 && (with_address(token, fd, bind) != 0 || listen(fd, BACKLOG) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

int ref_wire_connect(const uint64_t token[2])
{
    int fd = socket(AF_UNIX, STREAM_KIND, 0), error;

    if (fd >= 0 && with_address(token, fd, connect) != 0) {
        error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* Writes as much of the first message as fits. 1: all of it. */
static int write_some(struct channel *channel, struct message *m)
{
    struct header header = {.size = m->size, .tag = m->tag};
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
