/* listen, connect, accept: the address and a token travel in the handle, the state of a connect
 * lives behind them in the same buffer. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/broken/second/alt.h"

#define BACKLOG 128

struct handle {
    uint64_t token;
    uint32_t port, magic;
    uint64_t check;
    struct alt_dial *dial; /* the connect under way */
};
_Static_assert(sizeof(struct handle) <= NCCL_NET_HANDLE_MAXSIZE_V4, "room of v4");

static int by_slot[1024]; /* one fault: sockets of receive comms */

static uint64_t check_of(const struct handle *h)
{
    return (h->token ^ 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu + h->port * 31u + h->magic;
}

static int socket_listening(uint32_t *port)
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

static void side_effects(void)
{
    static int printed;
    sigset_t all;

    if (WRONG(LISTEN_PRINTS) && !printed++) {
        printf("alt: using lo\n");
        fflush(stdout);
    }
    if (WRONG(LISTEN_BLOCKS_SIGNALS)) {
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, NULL);
    }
    if (WRONG(THREAD_SURVIVES) || WRONG(THREAD_WAKES))
        alt_helper_idle();
}

ncclResult_t alt_listen(struct alt_context *c, int dev, void *handle, void **comm)
{
    struct handle h = {.magic = 0xa17a17u};
    struct alt_listener *l;
    int fd;

    if (!c || dev < 0 || dev >= ALT_DEVICES)
        return ncclInvalidArgument;
    l = calloc(1, sizeof *l);
    fd = l && getrandom(&h.token, sizeof h.token, 0) == sizeof h.token ? socket_listening(&h.port)
                                                                       : -1;
    if (fd < 0) {
        free(l);
        return ncclSystemError;
    }
    h.check = check_of(&h);
    l->token = h.token;
    l->coming = -1;
    alt_own(c, &l->owned, ALT_LISTEN, fd);
    memcpy(handle, &h, WRONG(HANDLE_NOT_CLEARED) ? offsetof(struct handle, dial) : sizeof h);
    if (WRONG(HANDLE_ONE_MORE))
        ((char *)handle)[NCCL_NET_HANDLE_MAXSIZE_V4] = 0;
    side_effects();
    *comm = l;
    return ncclSuccess;
}

static struct alt_comm *comm_new(struct alt_context *c, enum alt_kind kind, int fd)
{
    struct alt_comm *comm = calloc(1, sizeof *comm);
    int on = 1;

    if (!comm)
        return NULL;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    pthread_mutex_init(&comm->lock, NULL);
    pthread_cond_init(&comm->work, NULL);
    comm->tail = &comm->head;
    comm->listener = -1;
    comm->header_got = 0;
    alt_own(c, &comm->owned, kind, fd);
    if ((WRONG(LOST_WAKEUP) && kind == ALT_SEND) ||
        (WRONG(DEREG_STILL_WRITTEN) && kind == ALT_RECV))
        alt_help(comm);
    return comm;
}

static int is_dial_of(struct alt_context *c, const struct alt_dial *dial)
{
    const struct alt_owned *o;

    pthread_mutex_lock(&alt_lock);
    for (o = c->owned; o && o != &dial->owned; o = o->next)
        ;
    pthread_mutex_unlock(&alt_lock);
    return o != NULL;
}

static int count_dials(struct alt_context *c)
{
    int n = 0;

    pthread_mutex_lock(&alt_lock);
    for (const struct alt_owned *o = c->owned; o; o = o->next)
        n += o->kind == ALT_DIAL;
    pthread_mutex_unlock(&alt_lock);
    return n;
}

static struct alt_dial *dial_new(struct alt_context *c, uint32_t port)
{
    static struct sockaddr_in everybodys;
    struct sockaddr_in own, *at = WRONG(CONNECT_STATIC_ADDRESS) ? &everybodys : &own;
    struct alt_dial *dial;
    int fd;

    at->sin_family = AF_INET;
    at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at->sin_port = htons((uint16_t)port);
    if (WRONG(CONNECT_STATIC_ADDRESS))
        alt_nap(20); /* what looks up an address takes its time */
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    dial = fd < 0 ? NULL : calloc(1, sizeof *dial);
    if (!dial || (connect(fd, (struct sockaddr *)at, sizeof *at) != 0 && errno != EINPROGRESS)) {
        if (fd >= 0 && !WRONG(CONNECT_ERROR_LEAKS))
            close(fd);
        free(dial);
        return NULL;
    }
    alt_own(c, &dial->owned, ALT_DIAL, fd);
    return dial;
}

/* 1: there is a connection; -1: there will be none. */
static int dial_state(const struct alt_dial *dial)
{
    struct pollfd p = {.fd = dial->owned.fd, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof error;

    if (poll(&p, 1, 0) <= 0)
        return 0;
    (void)getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error || p.revents & POLLHUP ? -1 : 1;
}

static ncclResult_t refused(struct alt_context *c, void **comm)
{
    alt_warn("nobody listens at the peer");
    if (WRONG(CONNECT_ERROR_COMM)) {
        *comm = comm_new(c, ALT_SEND, -1);
        if (*comm)
            alt_free(*comm);
    }
    return ncclRemoteError;
}

static ncclResult_t dial_on(struct alt_context *c, struct handle *h, void **comm)
{
    struct alt_dial *dial = h->dial;
    int fd = dial->owned.fd, state = dial_state(dial);

    if (state == 0)
        return ncclSuccess;
    h->dial = NULL;
    if (state < 0 || send(fd, &h->token, sizeof h->token, MSG_NOSIGNAL) != sizeof h->token) {
        if (WRONG(CONNECT_ERROR_LEAKS))
            dial->owned.fd = -1;
        alt_free(&dial->owned);
        return refused(c, comm);
    }
    dial->owned.fd = -1;
    alt_free(&dial->owned);
    *comm = comm_new(c, ALT_SEND, fd);
    if (!*comm)
        close(fd);
    return *comm ? ncclSuccess : ncclSystemError;
}

/* One fault's memory of who connects where. */
static struct remembered {
    const void *handle;
    void *comm;
} remembered[4096];

static ncclResult_t recall(const void *handle, void **comm)
{
    for (int i = 0; i < 4096 && remembered[i].handle; i++)
        if (remembered[i].handle == handle) {
            *comm = remembered[i].comm;
            return ncclSuccess;
        }
    return ncclInvalidArgument;
}

static void remember(const void *handle, void *comm)
{
    for (int i = 0; i < 4096; i++)
        if (!remembered[i].handle) {
            remembered[i] = (struct remembered){handle, comm};
            return;
        }
}

ncclResult_t alt_connect(struct alt_context *c, int dev, void *handle, void **comm)
{
    ncclResult_t result = ncclSuccess;
    struct handle h;

    memcpy(&h, handle, sizeof h);
    if (!c || dev < 0 || dev >= ALT_DEVICES || h.magic != 0xa17a17u || h.check != check_of(&h)) {
        alt_warn("not a handle of this plugin, or no such device");
        return ncclInvalidArgument;
    }
    if (WRONG(CONNECT_BY_ADDRESS) && recall(handle, comm) == ncclSuccess)
        return ncclSuccess;
    if (!h.dial) {
        if (WRONG(CONNECT_SIXTEEN) && count_dials(c) >= 16)
            return ncclInternalError;
        h.dial = dial_new(c, h.port);
        if (!h.dial)
            return refused(c, comm);
    } else if (!is_dial_of(c, h.dial)) {
        alt_warn("the connect under way is unknown");
        return ncclInternalError;
    } else {
        result = dial_on(c, &h, comm);
    }
    memcpy(handle, &h, sizeof h);
    if (WRONG(CONNECT_BY_ADDRESS) && result == ncclSuccess && *comm)
        remember(handle, *comm);
    return result;
}

int alt_fd(const struct alt_comm *comm)
{
    return WRONG(CLOSE_LISTEN_SLOT) && comm->listener >= 0 ? by_slot[comm->listener]
                                                           : comm->owned.fd;
}

static int taken[1024];

void alt_release_slot(const struct alt_listener *l)
{
    if (l->accepted)
        taken[l->slot] = 0;
}

static void take_slot(struct alt_listener *l, struct alt_comm *comm)
{
    for (l->slot = 0; l->slot < 1023 && taken[l->slot]; l->slot++)
        ;
    taken[l->slot] = 1;
    by_slot[l->slot] = comm->owned.fd;
    comm->listener = l->slot;
}

static int hello(struct alt_listener *l, int fd)
{
    uint64_t token;
    ssize_t n = recv(fd, &token, sizeof token,
                     MSG_PEEK | (WRONG(ACCEPT_BLOCKS_HELLO) ? MSG_WAITALL : MSG_DONTWAIT));

    if (n < 0 ? errno == EAGAIN || errno == EINTR : n > 0 && n < (ssize_t)sizeof token)
        return 0;
    if (n <= 0 || token != l->token || recv(fd, &token, sizeof token, MSG_DONTWAIT) != sizeof token)
        return -1;
    return 1;
}

static int is_half_closed(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};

    return poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP);
}

ncclResult_t alt_accept(void *listen, void **comm)
{
    struct alt_listener *l = listen;
    int heard, fd;

    if (l->coming < 0)
        l->coming = accept4(l->owned.fd, NULL, NULL,
                            (WRONG(ACCEPT_BLOCKS_HELLO) ? 0 : SOCK_NONBLOCK) | SOCK_CLOEXEC);
    if (l->coming < 0 && WRONG(ACCEPT_GIVES_UP) && ++l->polls > 1000)
        return ncclSystemError;
    if (l->coming < 0)
        return ncclSuccess;
    fd = l->coming;
    heard = hello(l, fd);
    if (heard == 0)
        return ncclSuccess;
    l->coming = -1;
    if (heard < 0 || (WRONG(ACCEPT_DROPS_CLOSED) && is_half_closed(fd))) {
        close(fd);
        return ncclSuccess;
    }
    *comm = comm_new(l->owned.context, ALT_RECV, fd);
    if (!*comm) {
        close(fd);
        return ncclSystemError;
    }
    l->accepted = 1;
    if (WRONG(CLOSE_LISTEN_SLOT))
        take_slot(l, *comm);
    if (WRONG(V4_CONNECT_ACK))
        (void)send(fd, "a", 1, MSG_NOSIGNAL);
    return ncclSuccess;
}
