/* isend: requests of a comm go into its socket one after the other. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "tests/broken/second/alt.h"

#define LARGE ((size_t)1 << 20)

static ssize_t write_some(struct alt_comm *comm, struct alt_request *r)
{
    const size_t head = sizeof r->header, past = r->moved < head ? 0 : r->moved - head;
    struct iovec parts[2] = {
        {.iov_base = (char *)&r->header + (r->moved - past),
         .iov_len = r->moved < head ? head - r->moved : 0},
        {.iov_base = r->data[0] + past, .iov_len = r->header.size - past},
    };
    struct msghdr msg = {.msg_iov = parts, .msg_iovlen = 2};
    int flags = WRONG(SEND_SIGPIPE) ? 0 : MSG_NOSIGNAL;

    if (!WRONG(TEST_BLOCKS) || r->moved == 0)
        return sendmsg(comm->owned.fd, &msg, flags | MSG_DONTWAIT);
    poll(&(struct pollfd){.fd = comm->owned.fd, .events = POLLOUT}, 1, -1);
    return sendmsg(comm->owned.fd, &msg, flags | MSG_DONTWAIT);
}

static void pop(struct alt_comm *comm)
{
    struct alt_request *r = comm->head;

    comm->head = r->next;
    if (!comm->head)
        comm->tail = &comm->head;
    r->done = 1;
    if (WRONG(TEST_RECYCLES) || r->filled) /* filled: reported already */
        r->used = 0;
}

void alt_send_progress(struct alt_comm *comm)
{
    while (comm->head && !comm->broken) {
        struct alt_request *r = comm->head;
        ssize_t n = write_some(comm, r);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || WRONG(SEND_ERRNO)))
            return;
        if (n < 0) {
            alt_warn("the peer closed the connection");
            comm->broken = ncclRemoteError;
            return;
        }
        r->moved += (size_t)n;
        if (WRONG(SEND_DONE_EARLY) && r->header.size >= LARGE)
            r->done = 1;
        if (r->moved == sizeof r->header + r->header.size)
            pop(comm);
    }
}

/* Nobody sends to a sender: what can be read is the end. */
static int peer_is_there(struct alt_comm *comm)
{
    char c;

    return WRONG(SEND_SIGPIPE) || WRONG(SEND_ERRNO) || WRONG(V4_CONNECT_ACK) ||
           recv(comm->owned.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

static void *helper(void *arg)
{
    struct alt_comm *comm = arg;
    int idle;

    for (;;) {
        idle = __atomic_load_n(&comm->head, __ATOMIC_ACQUIRE) == NULL;
        /* As long as a slow sender may take for its next. */
        alt_nap(WRONG(LOST_WAKEUP) && idle ? 50000 : 200);
        pthread_mutex_lock(&comm->lock);
        if (WRONG(LOST_WAKEUP) && idle && !comm->stop)
            pthread_cond_wait(&comm->work, &comm->lock);
        if (comm->stop)
            break;
        if (comm->owned.kind == ALT_SEND)
            alt_send_progress(comm);
        else
            alt_recv_progress(comm);
        pthread_mutex_unlock(&comm->lock);
    }
    pthread_mutex_unlock(&comm->lock);
    return NULL;
}

void alt_help(struct alt_comm *comm)
{
    comm->helped = pthread_create(&comm->helper, NULL, helper, comm) == 0;
}

static void queue(struct alt_comm *comm, struct alt_request *r)
{
    r->next = NULL;
    *comm->tail = r;
    comm->tail = &r->next;
}

static void fill(struct alt_request *r, void *data, size_t size, int tag, void *mr)
{
    size_t former = r->last[0];

    r->last[0] = size;
    if (WRONG(SEND_STALE_SIZE) && former && former < size)
        size = former;
    r->n = 1;
    r->header = (struct alt_header){.size = size, .tag = tag};
    r->data[0] = data;
    r->mr[0] = mr;
}

/* One fault: what is small waits for company. */
static int withhold(struct alt_comm *comm, struct alt_request *r)
{
    struct alt_request *before = comm->withheld;
    static char kept[64];

    comm->withheld = NULL;
    if (before)
        queue(comm, before);
    if (r->header.size > sizeof kept || r->header.size == 0)
        return 0;
    memcpy(kept, r->data[0], r->header.size);
    r->data[0] = kept;
    r->done = 1;
    comm->withheld = r;
    return 1;
}

static void send_beyond(struct alt_comm *comm, void *data, size_t size, int tag)
{
    static struct alt_request extra[64];
    static int n;
    struct alt_request *r = &extra[n++ % 64];

    memset(r, 0, sizeof *r);
    r->comm = comm;
    fill(r, data, size, tag, NULL);
    queue(comm, r);
}

ncclResult_t alt_isend(void *send_comm, void *data, size_t size, int tag, void *mr, void **request)
{
    struct alt_comm *comm = send_comm;
    struct alt_request *r = NULL;
    ncclResult_t result = ncclSuccess;

    pthread_mutex_lock(&comm->lock);
    if (!comm->broken && !peer_is_there(comm))
        comm->broken = ncclRemoteError;
    if (!alt_covered(mr, data, size)) {
        alt_warn("isend outside of the registration");
        result = ncclInvalidArgument;
    } else {
        result = comm->broken;
    }
    if (result == ncclSuccess && *request == (void *)NCCL_NET_OPTIONAL_RECV_COMPLETION &&
        !comm->asked) {
        comm->asked = 1; /* as one that waits for the receiver's buffers: no room yet */
        *request = NULL;
        pthread_mutex_unlock(&comm->lock);
        return result;
    }
    r = result == ncclSuccess ? alt_take(comm) : NULL;
    if (r) {
        fill(r, data, size, WRONG(TAG_SHORT) ? (int16_t)tag : tag, mr);
        if (WRONG(ZERO_BUSY_LOST) && size == 0 && comm->head)
            r->done = 1;
        else if (!WRONG(SEND_COALESCES) || !withhold(comm, r))
            queue(comm, r);
        if (WRONG(LOST_WAKEUP))
            pthread_cond_signal(&comm->work);
        else
            alt_send_progress(comm);
    } else if (result == ncclSuccess && WRONG(SEND_FULL_SENDS)) {
        send_beyond(comm, data, size, tag);
    }
    *request = r;
    pthread_mutex_unlock(&comm->lock);
    return result;
}
