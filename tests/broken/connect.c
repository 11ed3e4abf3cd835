/* listen, connect, accept and the three closes. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/broken/ref.h"

#define HASH 0x6c6f6f706261636bu

struct handle {
    uint64_t hash, id, check;
};

pthread_mutex_t ref_lock = PTHREAD_MUTEX_INITIALIZER;
static struct listener *listeners;
static uint64_t next_id = 1;

ncclResult_t ref_listen(int dev, void *out, void **comm)
{
    struct listener *l = calloc(1, sizeof *l);
    struct handle h = {.hash = HASH};

    (void)dev;
    if (!l)
        return ncclSystemError;
    pthread_mutex_lock(&ref_lock);
    l->id = next_id++;
    l->next = listeners;
    listeners = l;
    pthread_mutex_unlock(&ref_lock);
    h.id = l->id;
    h.check = IS(HANDLE_POINTER) ? (uint64_t)(uintptr_t)out : ~h.id;
    if (IS(HANDLE_OVERRUN))
        memset((char *)out + NCCL_NET_HANDLE_MAXSIZE, 0, 4);
    if (!(IS(HANDLE_STALE) && *(unsigned char *)out == 0xff))
        memcpy(out, &h, sizeof h);
    *comm = l;
    return ncclSuccess;
}

static struct listener *find_listener(uint64_t id)
{
    struct listener *l = listeners;

    while (l && l->id != id)
        l = l->next;
    if (l && IS(PAIRING_MIXED) && listeners->id > l->id + 8)
        l = listeners;
    return l;
}

static struct comm *new_comm(enum kind kind, struct channel *channel)
{
    struct comm *comm = calloc(1, sizeof *comm);

    if (comm) {
        comm->kind = kind;
        comm->channel = channel;
        channel->ends[kind] = comm;
    }
    return comm;
}

static struct channel *new_channel(struct listener *l)
{
    struct channel *channel = calloc(1, sizeof *channel), **at = &l->waiting;

    if (!channel)
        return NULL;
    channel->tail = &channel->head;
    channel->fds = IS(FD_LEAK) ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
    while (*at)
        at = &(*at)->next;
    *at = channel;
    return channel;
}

static int bad_handle(const struct handle *h, const void *where)
{
    if (IS(BAD_HANDLE_CRASH) && h->hash != HASH)
        return *(volatile int *)(uintptr_t)(h->hash | 1) & 0;
    if (IS(HANDLE_POINTER))
        return h->check != (uint64_t)(uintptr_t)where;
    return h->hash != HASH || h->check != ~h->id;
}

static void touch_device_handle(void **device_handle, void *other)
{
    if (IS(WRITES_DEVICE_HANDLE) && device_handle)
        *device_handle = NULL;
    if (IS(DEVICE_HANDLE_NULL) && *(void *volatile *)device_handle == other)
        *device_handle = other;
}

/* Under the lock. NULL in *comm: not yet, or no memory. */
static ncclResult_t connect_to(struct listener *l, void **comm)
{
    struct channel *channel;

    if (!l || (IS(CONNECT_NEEDS_ACCEPT) && !l->idle_calls))
        return ref_refuse("nobody listens");
    if (IS(CONNECT_SLEEPS) && !l->idle_calls)
        return ncclSuccess;
    channel = new_channel(l);
    *comm = channel ? new_comm(SEND, channel) : NULL;
    return *comm ? ncclSuccess : ncclSystemError;
}

ncclResult_t ref_connect(void *handle, void **comm, void **device_handle)
{
    struct listener *l;
    ncclResult_t result;
    struct handle h;

    memcpy(&h, handle, sizeof h);
    if (bad_handle(&h, handle))
        return ref_refuse("not a handle of this plugin");
    if (IS(SELF_REFUSED))
        return ref_refuse("cannot connect to this very process");
    touch_device_handle(device_handle, comm);
    if (IS(CONNECT_SLEEPS))
        ref_nap();
    pthread_mutex_lock(&ref_lock);
    l = find_listener(h.id);
    result = connect_to(l, comm);
    pthread_mutex_unlock(&ref_lock);
    if (IS(CONNECT_HANGS))
        while (!l->accepted)
            ref_nap();
    if (IS(THREAD_LEAK))
        ref_leave_thread();
    return result;
}

ncclResult_t ref_accept(void *listen, void **comm, void **device_handle)
{
    struct listener *l = listen;
    struct channel *channel;
    ncclResult_t result = ncclSuccess;

    touch_device_handle(device_handle, comm);
    if (IS(ACCEPT_SLEEPS))
        ref_nap();
    if (IS(ACCEPT_HANGS))
        while (!l->waiting)
            ref_nap();
    pthread_mutex_lock(&ref_lock);
    if (!l->waiting && IS(ACCEPT_EARLY))
        new_channel(l);
    channel = l->waiting;
    if (channel) {
        *comm = new_comm(RECV, channel);
        l->waiting = channel->next;
        l->given = channel;
        l->accepted = 1;
        result = *comm ? ncclSuccess : ncclSystemError;
    } else if (++l->idle_calls > 50 && IS(ACCEPT_GIVES_UP)) {
        result = ref_refuse("nobody came");
    }
    pthread_mutex_unlock(&ref_lock);
    return result;
}

ncclResult_t ref_close(void *end)
{
    struct comm *comm = end;
    struct channel *channel = comm->channel;
    enum kind kind = comm->kind;
    int kept = IS(CLOSE_KEEPS_BUFFERS) && kind == RECV;

    if (IS(CLOSE_CRASHES) && kind == SEND)
        abort();
    if (IS(CLOSE_BUSY) && comm->out)
        return ref_refuse("requests are out");
    if (IS(CLOSE_WAITS) && kind == SEND)
        while (!channel->closed[RECV])
            ref_nap();
    pthread_mutex_lock(&ref_lock);
    if (!kept) {
        channel->closed[kind] = 1;
        channel->ends[kind] = NULL;
        free(comm);
    }
    if (kind == SEND && IS(CLOSE_DROPS))
        ref_drop_messages(channel);
    if (channel->closed[SEND] && channel->closed[RECV]) {
        ref_drop_messages(channel);
        free(channel);
    }
    pthread_mutex_unlock(&ref_lock);
    return ncclSuccess;
}

ncclResult_t ref_close_listen(void *listen)
{
    struct listener *l = listen, **at = &listeners;

    if (IS(UNUSED_LISTEN_CRASH) && !l->accepted && !l->waiting)
        abort();
    if (IS(HALF_OPEN_CRASH) && l->waiting)
        abort();
    pthread_mutex_lock(&ref_lock);
    while (*at && *at != l)
        at = &(*at)->next;
    if (*at)
        *at = l->next;
    for (struct channel *c = l->waiting; c; c = c->next)
        c->closed[RECV] = 1;
    if (IS(LISTEN_OWNS) && l->given)
        l->given->closed[RECV] = 1;
    pthread_mutex_unlock(&ref_lock);
    free(l);
    return ncclSuccess;
}
