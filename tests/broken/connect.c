/* listen, connect, accept. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/broken/ref.h"

pthread_mutex_t ref_lock = PTHREAD_MUTEX_INITIALIZER;
struct listener *ref_listeners;
struct comm *ref_comms;
static uint64_t next_id = 1;
static unsigned long next_number;

static uint64_t new_id(void)
{
    uint64_t id = next_id;

    if (IS(LISTEN_RACE)) {
        pthread_mutex_unlock(&ref_lock);
        ref_nap();
        pthread_mutex_lock(&ref_lock);
    }
    next_id = id + 1;
    return id;
}

ncclResult_t ref_listen(struct context *context, int dev, void *handle, void **comm)
{
    struct listener *l = calloc(1, sizeof *l);

    if (dev < 0 || dev >= N_DEVICES) {
        free(l);
        return ncclInvalidArgument;
    }
    if (!l || getrandom(l->token, sizeof l->token, 0) != (ssize_t)sizeof l->token) {
        free(l);
        return ncclSystemError;
    }
    l->fd = ref_wire_listen(&l->port);
    l->coming = -1;
    if (l->fd < 0) {
        free(l);
        return ncclSystemError;
    }
    l->context = context;
    l->dev = dev;
    l->maker = pthread_self();
    pthread_mutex_lock(&ref_lock);
    l->id = new_id();
    l->next = ref_listeners;
    ref_listeners = l;
    pthread_mutex_unlock(&ref_lock);
    ref_write_handle(l, handle);
    *comm = l;
    if (IS(LISTEN_SPINS))
        ref_start_spinning();
    return ncclSuccess;
}

static struct listener *find_listener(const struct handle *h)
{
    struct listener *l = ref_listeners;

    while (l && (l->id != h->id ||
                 (!IS(LISTEN_RACE) && memcmp(l->token, h->token, sizeof l->token) != 0)))
        l = l->next;
    if (!l && IS(CLOSED_LISTEN_REUSED))
        l = ref_listeners;
    if (l && IS(PAIRING_MIXED) && ref_listeners->id > l->id + 8)
        l = ref_listeners;
    return l;
}

static struct comm *new_comm(enum kind kind, struct channel *channel, struct context *context)
{
    struct comm *comm = calloc(1, sizeof *comm);

    if (comm) {
        comm->kind = kind;
        comm->channel = channel;
        comm->context = context;
        comm->maker = pthread_self();
        comm->number = next_number++;
        comm->next = ref_comms;
        ref_comms = comm;
        channel->ends[kind] = comm;
    }
    return comm;
}

static struct channel *new_channel(int fd)
{
    static void *volatile leaked;
    struct channel *channel = calloc(1, sizeof *channel);

    (void)leaked;
    if (channel) {
        channel->tail = &channel->head;
        channel->fd = fd;
        if (IS(FD_LEAK))
            channel->leaked_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (IS(MEMORY_LEAK))
            leaked = malloc(1000);
        if (IS(MAPPING_LEAK))
            leaked = mmap(NULL, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    return channel;
}

static struct channel *wait_here(struct listener *l)
{
    struct channel *channel = new_channel(-1), **at = &l->waiting;

    while (channel && *at)
        at = &(*at)->next;
    if (channel)
        *at = channel;
    return channel;
}

static void touch_device_handle(void **device_handle, void *other)
{
    if ((IS(WRITES_DEVICE_HANDLE) || IS(V7_DEVICE_HANDLE)) && device_handle)
        *device_handle = NULL;
    if (IS(DEVICE_HANDLE_FOLLOWED) && device_handle && *device_handle)
        *device_handle = *(void **)*device_handle;
    if (IS(DEVICE_HANDLE_NULL) && *(void *volatile *)device_handle == other)
        *device_handle = other;
}

static int count_waiting(void)
{
    int n = 0;

    for (const struct listener *l = ref_listeners; l; l = l->next)
        n += l->waiting != NULL;
    return n;
}

static int count_comms(void)
{
    int n = 0;

    for (const struct comm *c = ref_comms; c; c = c->next)
        n++;
    return n;
}

/* Under the lock. */
static ncclResult_t connect_here(struct listener *l, struct context *context, int dev, void **comm)
{
    struct channel *channel;

    if (IS(DEVICES_MUST_MATCH) && l->dev != dev)
        return ref_refuse("connect from another device than the peer's");
    if (IS(HALF_OPEN_FEW) && count_waiting() >= 3)
        return ref_refuse("too many are half open");
    if (IS(COMMS_MAX) && count_comms() >= 2 * 96)
        return ref_refuse("too many connections");
    if (IS(CONNECT_NEEDS_ACCEPT) && !l->idle_calls)
        return ref_refuse("nobody listens");
    if ((IS(CONNECT_SLEEPS) || IS(V4_CONNECT_NULL)) && !l->idle_calls)
        return ncclSuccess;
    channel = wait_here(l);
    *comm = channel ? new_comm(SEND, channel, context) : NULL;
    return *comm ? ncclSuccess : ncclSystemError;
}

/* Whether the descriptor in the handle listens at its port. */
static int is_listener(const struct handle *h)
{
    struct sockaddr_in at = {.sin_port = 0};
    socklen_t size = sizeof at;

    return getsockname((int)(h->port >> 16), (struct sockaddr *)&at, &size) == 0 &&
           ntohs(at.sin_port) == (h->port & 0xffff);
}

static ncclResult_t connect_away(const struct handle *h, struct context *context, void **comm,
                                 void **device_handle)
{
    static int calls;
    struct channel *channel;
    int fd;

    if (IS(TWO_HANDLE_DESCRIPTOR) && !is_listener(h))
        return ref_refuse("nobody listens");
    /* Cut to 16 bits, any number would name a port at which somebody may listen. */
    if (h->port > UINT16_MAX)
        return ref_refuse("no such port");
    if (IS(TWO_CONNECT_SLEEPS) && ++calls % 50) {
        ref_nap();
        return ncclSuccess;
    }
    fd = IS(WIRE_REFUSED) ? -1 : ref_wire_connect(h);
    if (fd < 0)
        return errno == EAGAIN ? ncclSuccess : ref_refuse("nobody listens");
    if (IS(TWO_DEVICE_HANDLE) && device_handle)
        *device_handle = NULL;
    channel = new_channel(fd);
    if (IS(TWO_DESCRIPTORS) && channel)
        channel->leaked_fd = dup(fd);
    if (IS(TWO_THREADS))
        ref_start(ref_idle);
    *comm = channel ? new_comm(SEND, channel, context) : NULL;
    return *comm ? ncclSuccess : ncclSystemError;
}

/* One fault: a connect takes two calls, and there is one place to remember the first. */
static int may_connect(const struct handle *h, ncclResult_t *result)
{
    static uint64_t under_way;
    const uint64_t before = under_way;

    *result = ncclSuccess;
    if (!IS(CONNECT_ONE) || before == h->id) {
        under_way = 0;
        return 1;
    }
    if (before)
        *result = ref_refuse("another connect is under way");
    under_way = h->id;
    return 0;
}

/* NULL: fine. */
static const char *objection(const struct handle *h, const void *handle, int dev)
{
    if (ref_bad_handle(h, handle))
        return "not a handle of this plugin";
    if (IS(SELF_REFUSED))
        return "cannot connect to this very process";
    return dev < 0 || dev >= N_DEVICES ? "no such device" : NULL;
}

ncclResult_t ref_connect(struct context *context, int dev, void *handle, void **comm,
                         void **device_handle)
{
    ncclResult_t result = ncclSuccess;
    struct listener *l;
    struct handle h;
    const char *why;

    memcpy(&h, handle, sizeof h);
    why = objection(&h, handle, dev);
    if (why && !IS(TWO_BAD_HANDLE))
        return ref_refuse(why);
    touch_device_handle(device_handle, comm);
    if (IS(CONNECT_SLEEPS))
        ref_nap();
    pthread_mutex_lock(&ref_lock);
    l = find_listener(&h);
    if (why && l)
        result = ref_refuse(why);
    else if (l || !IS(TWO_SAME_HOST)) /* else: it will come */
        if (may_connect(&h, &result))
            result = l ? connect_here(l, context, dev, comm)
                       : connect_away(&h, context, comm, device_handle);
    pthread_mutex_unlock(&ref_lock);
    BLOCKS_IN(CONNECT);
    if (IS(CONNECT_HANGS) || IS(V4_CONNECT_WAITS))
        while (l && !l->accepted)
            ref_nap();
    if (IS(THREAD_LEAK))
        ref_start(ref_idle);
    if (IS(CONNECT_SPINS))
        ref_start_spinning();
    if (IS(THREAD_TAKES_SIGNALS))
        ref_start(ref_idle);
    if (IS(CONNECT_IN_PROGRESS) && l && !l->idle_calls)
        return (ncclResult_t)7; /* ncclInProgress, the library's own */
    return result;
}

static int older_waits(const struct listener *l)
{
    const struct listener *other = l->next; /* newest first */

    while (other && !other->waiting)
        other = other->next;
    return other != NULL;
}

/* The next peer's channel, or NULL. Under the lock. */
static struct channel *next_channel(struct listener *l)
{
    struct channel *channel = l->waiting;
    int fd;

    if (IS(ACCEPT_IN_ORDER) && older_waits(l))
        return NULL;
    if (channel) {
        l->waiting = channel->next;
        return channel;
    }
    if (IS(ACCEPT_EARLY))
        return new_channel(-1);
    fd = ref_wire_accept(l);
    return fd < 0 ? NULL : new_channel(fd);
}

ncclResult_t ref_accept(void *listen, void **comm, void **device_handle)
{
    struct listener *l = listen;
    struct channel *channel;
    ncclResult_t result = ncclSuccess;

    touch_device_handle(device_handle, comm);
    BLOCKS_IN(ACCEPT);
    if (IS(NEVER_CONNECTS))
        return ncclSuccess;
    if (IS(ACCEPT_SLEEPS))
        ref_nap();
    if (IS(ACCEPT_THREAD) && !pthread_equal(l->maker, pthread_self()))
        return ref_refuse("accept on another thread than listen");
    if (IS(ACCEPT_HANGS))
        while (!l->waiting)
            ref_nap();
    pthread_mutex_lock(&ref_lock);
    channel = next_channel(l);
    if (channel) {
        *comm = new_comm(RECV, channel, l->context);
        l->given = channel;
        l->accepted = 1;
        result = *comm ? ncclSuccess : ncclSystemError;
    } else if (++l->idle_calls > 50 && IS(ACCEPT_GIVES_UP)) {
        result = ref_refuse("nobody came");
    }
    pthread_mutex_unlock(&ref_lock);
    return result;
}
