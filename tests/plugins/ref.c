/* A small, correct network plugin for the tests of verify-plugin: both ends live in one process and
 * bytes move by memcpy. Compiled once as it is and once for each fault of faults.def: in that copy
 * FAULT is the fault's number and one spot is wrong. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"

enum fault {
    F_NONE,
#define FAULT_ROW(name, rule, text) F_##name,
#include "tests/plugins/faults.def"
#undef FAULT_ROW
};
#ifndef FAULT
#define FAULT F_NONE
#endif
#define IS(name) (FAULT == F_##name)

#define EXPORT    __attribute__((visibility("default")))
#define N_DEVICES 2
#define MAX_RECVS 8
#define SLOTS     (NCCL_NET_MAX_REQUESTS * MAX_RECVS)
#define HASH      0x6c6f6f706261636bu

enum kind { SEND, RECV };

struct message {
    struct message *next;
    size_t size;
    int tag;
    unsigned char *data; /* a copy: done once copied */
};

struct request {
    int used, n, filled, error, done, owed;
    enum kind kind;
    struct comm *comm;
    unsigned long serial;
    void *data[MAX_RECVS];
    size_t room[MAX_RECVS], got[MAX_RECVS];
    int tags[MAX_RECVS], full[MAX_RECVS];
    const void *source; /* copied late, by one fault only */
    struct message *late;
};

/* What both ends share; freed with the second of them. */
struct channel {
    struct channel *next;
    uint64_t id;
    struct message *head, **tail;
    struct comm *ends[2];
    int closed[2], fds;
};

struct comm {
    enum kind kind;
    struct channel *channel;
    struct request requests[SLOTS];
    unsigned first, tests; /* first: oldest request a receive is matched against */
    int out;
};

struct listener {
    struct listener *next;
    uint64_t id;
    struct channel *waiting, *given;
    int idle_calls, accepted;
};

struct handle {
    uint64_t hash, id, check;
};

struct registration {
    void *data;
    size_t size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct listener *listeners;
static uint64_t next_id = 1;
static unsigned long next_serial = 1;
static ncclDebugLogger_t logger;
static int inits;
static atomic_int inside;
static struct comm *live[1 << 16]; /* by serial; one fault only */

static ncclResult_t refuse(const char *why)
{
    if (logger)
        logger(NCCL_LOG_WARN, NCCL_NET, __FILE__, __LINE__, "ref: %s", why);
    return ncclInvalidUsage;
}

static void nap(void)
{
    struct timespec ts = {.tv_nsec = 100000};

    nanosleep(&ts, NULL);
}

static void *idle(void *arg)
{
    (void)arg;
    for (;;)
        pause();
    return NULL;
}

static void leave_thread(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, idle, NULL) == 0)
        pthread_detach(thread);
}

__attribute__((constructor)) static void at_load(void)
{
    if (IS(THREAD_AT_LOAD))
        leave_thread();
    if (IS(SIGNAL_AT_LOAD))
        signal(SIGTERM, SIG_IGN);
    if (IS(CRASH_AT_LOAD))
        abort();
}

#if FAULT == 1
/* The first row: a symbol nobody defines. */
extern int ref_nobody_defines_this(void);
#endif

static ncclResult_t start(ncclDebugLogger_t log)
{
#if FAULT == 1
    inits += ref_nobody_defines_this();
#endif
    logger = log;
    if (IS(INIT_FAILS))
        return refuse("init refuses");
    if (inits++ && IS(INIT_ONCE))
        return refuse("already initialised");
    if (IS(BLOCKS_SIGNAL)) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
    }
    return ncclSuccess;
}

static ncclResult_t init_v8(ncclDebugLogger_t log)
{
    return start(log);
}

static ncclResult_t init_v10(ncclDebugLogger_t log, ncclProfilerCallback_t profiler)
{
    (void)profiler;
    return start(log);
}

static ncclResult_t devices(int *ndev)
{
    *ndev = IS(DEVICES_ZERO) ? 0 : IS(DEVICES_MANY) ? 200 : N_DEVICES;
    return ncclSuccess;
}

static char *device_name(int dev)
{
    static char names[N_DEVICES][16] = {"ref0", "ref1"};
    static char changing[32];
    static unsigned calls;

    if (IS(DEVICE_NAME_NULL))
        return NULL;
    if (IS(DEVICE_NAMES_SAME))
        return names[0];
    if (IS(NAME_CHANGES)) {
        snprintf(changing, sizeof changing, "ref%d-%u", dev, calls++);
        return changing;
    }
    return names[dev % N_DEVICES];
}

static void common_v8(int dev, ncclNetProperties_v8_t *p)
{
    static char pci[] = "/sys/devices/", gone[] = "/sys/devices/none";
    int racing = atomic_fetch_add(&inside, 1);

    if (IS(PROPERTIES_RACE))
        sched_yield();
    *p = (ncclNetProperties_v8_t){
        .name = device_name(dev),
        .pciPath = IS(PCI_SLASH)  ? pci
                   : IS(PCI_GONE) ? gone
                                  : NULL,
        .guid = (uint64_t)dev + 1,
        .ptrSupport = IS(NO_HOST_POINTERS) ? NCCL_PTR_CUDA : NCCL_PTR_HOST,
        .speed = IS(SPEED_NEGATIVE)              ? -1
                 : racing && IS(PROPERTIES_RACE) ? 1
                                                 : 100000,
        .port = 1,
        .maxComms = IS(MAX_COMMS_ZERO) ? 0 : 65536,
        .maxRecvs = IS(MAX_RECVS_ZERO) ? 0 : MAX_RECVS,
        .netDeviceType = IS(DEVICE_TYPE) ? NCCL_NET_DEVICE_UNPACK : NCCL_NET_DEVICE_HOST,
    };
    atomic_fetch_sub(&inside, 1);
}

static ncclResult_t properties_v8(int dev, ncclNetProperties_v8_t *p)
{
    int port = p->port;

    common_v8(dev, p);
    if (IS(FIELD_UNWRITTEN))
        p->port = port;
    return ncclSuccess;
}

static ncclResult_t properties_v9(int dev, ncclNetProperties_v9_t *p)
{
    ncclNetProperties_v8_t v8;
    int port = p->port;

    common_v8(dev, &v8);
    memset(p, 0, sizeof *p);
    if (IS(PROPERTIES_OVERRUN))
        memset(p + 1, 0, 4);
    p->name = v8.name;
    p->pciPath = v8.pciPath;
    p->guid = v8.guid;
    p->ptrSupport = v8.ptrSupport;
    p->speed = v8.speed;
    p->port = IS(FIELD_UNWRITTEN) ? port : v8.port;
    p->maxComms = v8.maxComms;
    p->maxRecvs = v8.maxRecvs;
    p->netDeviceType = v8.netDeviceType;
    p->vProps.ndevs = IS(VPROPS_GARBAGE) ? 77 : 1;
    p->vProps.devs[0] = dev;
    p->maxP2pBytes = IS(P2P_BYTES_ZERO) ? 0 : 1u << 30;
    p->maxCollBytes = 1u << 29;
    return ncclSuccess;
}

/* --- connections -------------------------------------------------------------------------------
 */

static ncclResult_t do_listen(int dev, void *out, void **comm)
{
    struct listener *l = calloc(1, sizeof *l);
    struct handle h = {.hash = HASH};

    (void)dev;
    if (!l)
        return ncclSystemError;
    pthread_mutex_lock(&lock);
    l->id = next_id++;
    l->next = listeners;
    listeners = l;
    pthread_mutex_unlock(&lock);
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

static int bad_handle(const struct handle *h, const void *where)
{
    if (IS(BAD_HANDLE_CRASH) && h->hash != HASH)
        return *(volatile int *)(uintptr_t)(h->hash | 1) & 0;
    if (IS(HANDLE_POINTER))
        return h->check != (uint64_t)(uintptr_t)where;
    return h->hash != HASH || h->check != ~h->id;
}

static ncclResult_t do_connect(void *handle, void **comm, void **device_handle)
{
    struct channel *channel;
    struct listener *l;
    struct handle h;

    memcpy(&h, handle, sizeof h);
    if (bad_handle(&h, handle))
        return refuse("not a handle of this plugin");
    if (IS(SELF_REFUSED))
        return refuse("cannot connect to this very process");
    if (IS(WRITES_DEVICE_HANDLE) && device_handle)
        *device_handle = NULL;
    if (IS(DEVICE_HANDLE_NULL) && *(void *volatile *)device_handle == comm)
        return ncclInternalError;
    if (IS(CONNECT_SLEEPS))
        nap();
    pthread_mutex_lock(&lock);
    l = find_listener(h.id);
    if (l && IS(PAIRING_MIXED) && listeners->id > l->id + 8)
        l = listeners;
    if (!l || (IS(CONNECT_NEEDS_ACCEPT) && !l->idle_calls)) {
        pthread_mutex_unlock(&lock);
        return refuse("nobody listens");
    }
    if (IS(CONNECT_SLEEPS) && !l->idle_calls) {
        pthread_mutex_unlock(&lock);
        return ncclSuccess;
    }
    channel = calloc(1, sizeof *channel);
    *comm = channel ? new_comm(SEND, channel) : NULL;
    if (*comm) {
        channel->tail = &channel->head;
        channel->next = l->waiting;
        channel->fds = IS(FD_LEAK) ? open("/dev/null", O_RDONLY) : 0;
        l->waiting = channel;
    }
    pthread_mutex_unlock(&lock);
    if (IS(CONNECT_HANGS))
        while (!l->accepted)
            nap();
    if (IS(THREAD_LEAK))
        leave_thread();
    return *comm ? ncclSuccess : ncclSystemError;
}

static ncclResult_t connect_v8(int dev, void *handle, void **comm, ncclNetDeviceHandle_v8_t **dh)
{
    (void)dev;
    return do_connect(handle, comm, (void **)dh);
}

static ncclResult_t connect_v10(int dev, ncclNetCommConfig_v10_t *config, void *handle, void **comm,
                                ncclNetDeviceHandle_v10_t **dh)
{
    (void)dev;
    (void)config;
    return do_connect(handle, comm, (void **)dh);
}

static ncclResult_t accept_one(void *listen, void **comm, ncclNetDeviceHandle_v8_t **dh)
{
    struct listener *l = listen;
    struct channel *channel;

    if (IS(WRITES_DEVICE_HANDLE) && dh)
        *dh = NULL;
    if (IS(ACCEPT_SLEEPS))
        nap();
    if (IS(ACCEPT_HANGS))
        while (!l->waiting)
            nap();
    pthread_mutex_lock(&lock);
    channel = l->waiting;
    if (!channel && IS(ACCEPT_EARLY)) {
        channel = calloc(1, sizeof *channel);
        channel->tail = &channel->head;
        l->waiting = channel;
    }
    if (channel) {
        *comm = new_comm(RECV, channel);
        l->waiting = NULL;
        l->given = channel;
        l->accepted = 1;
    } else if (++l->idle_calls > 50 && IS(ACCEPT_GIVES_UP)) {
        pthread_mutex_unlock(&lock);
        return refuse("nobody came");
    }
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

static ncclResult_t reg(void *comm, void *data, size_t size, int type, void **mhandle)
{
    struct registration *r = calloc(1, sizeof *r);

    if (!r || type != NCCL_PTR_HOST)
        return ncclSystemError;
    if (IS(REGISTER_BUSY) && size == 65536 && ((struct comm *)comm)->out) {
        free(r);
        return refuse("cannot register while requests are out");
    }
    r->data = data;
    r->size = size;
    *mhandle = r;
    return ncclSuccess;
}

static ncclResult_t reg_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset,
                               int fd, void **mhandle)
{
    (void)offset;
    (void)fd;
    return reg(comm, data, size, type, mhandle);
}

static ncclResult_t dereg(void *comm, void *mhandle)
{
    (void)comm;
    free(mhandle);
    return ncclSuccess;
}

/* --- transfers ---------------------------------------------------------------------------------
 */

static struct request *take(struct comm *comm, enum kind kind)
{
    int limit = IS(FEW_REQUESTS) ? 8 : SLOTS;

    for (int i = 0; i < limit; i++)
        if (!comm->requests[i].used) {
            struct request *r = &comm->requests[i];
            *r = (struct request){.used = 1, .kind = kind, .comm = comm, .serial = next_serial++};
            comm->out++;
            live[r->serial % (1 << 16)] = comm;
            return r;
        }
    return NULL;
}

static struct request *oldest(struct comm *comm)
{
    struct request *best = NULL;

    for (int i = 0; i < SLOTS; i++) {
        struct request *r = &comm->requests[i];
        if (r->used && !r->done && r->kind == RECV && r->filled < r->n &&
            (!best || (IS(LIFO) ? r->serial > best->serial : r->serial < best->serial)))
            best = r;
    }
    return best;
}

static int pick_slot(const struct request *r, int tag)
{
    if (r->n == 1)
        return r->full[0] ? -1 : 0;
    for (int k = 0; k < r->n; k++) {
        int i = IS(EQUAL_REVERSED) ? r->n - 1 - k : k;
        if (!r->full[i] && (r->tags[i] == tag || IS(IGNORES_TAGS)))
            return i;
    }
    return -1;
}

static void copy(unsigned char *to, const unsigned char *from, size_t n)
{
    if (IS(DROPS_LAST_BYTE) && n > 4000)
        n--;
    if (IS(ALIGNS) && (uintptr_t)to % 8)
        to -= (uintptr_t)to % 8;
    if (n)
        memcpy(to, from, n);
    if (IS(GUARD_OVERRUN))
        to[n] = 0;
}

static void deliver(struct request *r, int slot, const struct message *m)
{
    size_t n = m->size;

    if (n > r->room[slot]) {
        if (!IS(OVERRUNS))
            n = r->room[slot];
        if (!IS(TRUNCATES))
            r->error = 1;
    }
    copy(r->data[slot], m->data, n);
    r->got[slot] = IS(SIZE_POSTED) ? r->room[slot] : n;
    r->full[slot] = 1;
    r->filled++;
}

static struct request *match(struct comm *recv, const struct message *m, int *slot)
{
    struct request *head = oldest(recv);

    *slot = head ? pick_slot(head, m->tag) : -1;
    if (*slot >= 0 || !head || !IS(SKIPS_HEAD))
        return *slot >= 0 ? head : NULL;
    for (int i = 0; i < SLOTS; i++) {
        struct request *r = &recv->requests[i];
        if (r != head && r->used && !r->done && r->kind == RECV && r->filled < r->n) {
            *slot = 0;
            return r;
        }
    }
    return NULL;
}

/* Gives waiting messages to posted receives as far as the tags allow. */
static void progress(struct channel *channel)
{
    struct comm *recv = channel->ends[RECV];

    while (recv && channel->head) {
        struct message **at = &channel->head, *m;
        struct request *r = NULL;
        int slot = -1;
        for (; *at && !(r = match(recv, *at, &slot)); at = &(*at)->next)
            ;
        if (!r)
            return;
        m = *at;
        *at = m->next;
        if (!*at)
            channel->tail = at;
        deliver(r, slot, m);
        free(m->data);
        free(m);
    }
}

static void *offset_data(void *data, void *mhandle)
{
    return IS(MR_BASE) && mhandle ? ((struct registration *)mhandle)->data : data;
}

static ncclResult_t do_send(struct comm *comm, void *data, size_t size, int tag, void *mhandle,
                            void **request)
{
    struct channel *channel = comm->channel;
    struct message *m;
    struct request *r;

    if (IS(OPTIONAL_KEPT) && *request == (void *)0x1)
        return ncclSuccess;
    pthread_mutex_lock(&lock);
    if ((channel->closed[RECV] && !IS(RECEIVER_GONE_SILENT)) ||
        (IS(EARLY_SEND_REFUSED) && channel->ends[RECV] && !oldest(channel->ends[RECV]))) {
        pthread_mutex_unlock(&lock);
        return ncclRemoteError;
    }
    r = take(comm, SEND);
    if (!r) {
        pthread_mutex_unlock(&lock);
        if (!IS(REQUEST_NOT_WRITTEN))
            *request = NULL;
        return ncclSuccess;
    }
    *request = r;
    m = calloc(1, sizeof *m);
    m->size = size;
    m->tag = tag;
    m->data = malloc(size + 1);
    data = offset_data(data, mhandle);
    if (IS(SEND_COPIED_LATE)) {
        r->source = data;
        r->late = m;
        r->owed = 30;
    }
    if (size)
        memcpy(m->data, data, size);
    if (IS(ZERO_SKIPPED) && size == 0) {
        free(m->data);
        free(m);
    } else if (!r->late) {
        *channel->tail = m;
        channel->tail = &m->next;
        progress(channel);
    }
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

static ncclResult_t isend_v8(void *comm, void *data, int size, int tag, void *mhandle,
                             void **request)
{
    return do_send(comm, data, (size_t)size, tag, mhandle, request);
}

static ncclResult_t isend_v9(void *comm, void *data, size_t size, int tag, void *mhandle,
                             void **request)
{
    return do_send(comm, data, size, tag, mhandle, request);
}

static ncclResult_t isend_v10(void *comm, void *data, size_t size, int tag, void *mhandle,
                              void *phandle, void **request)
{
    (void)phandle;
    return do_send(comm, data, size, tag, mhandle, request);
}

static ncclResult_t do_recv(struct comm *comm, int n, void **data, const size_t *sizes,
                            const int *tags, void **mhandles, void **request)
{
    struct request *r;

    if (n < 1 || n > MAX_RECVS)
        return ncclInvalidArgument;
    if (IS(OPTIONAL_KEPT) && *request == (void *)0x1)
        return ncclSuccess;
    pthread_mutex_lock(&lock);
    r = take(comm, RECV);
    if (r || !IS(REQUEST_NOT_WRITTEN))
        *request = r;
    if (r) {
        r->n = n;
        for (int i = 0; i < n; i++) {
            r->data[i] = offset_data(data[i], mhandles[i]);
            r->room[i] = sizes[i];
            r->tags[i] = tags[i];
        }
        progress(comm->channel);
    }
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

static ncclResult_t irecv_v8(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles,
                             void **request)
{
    size_t wide[MAX_RECVS];

    for (int i = 0; i < n && i < MAX_RECVS; i++)
        wide[i] = (size_t)sizes[i];
    return do_recv(comm, n, data, wide, tags, mhandles, request);
}

static ncclResult_t irecv_v9(void *comm, int n, void **data, size_t *sizes, int *tags,
                             void **mhandles, void **request)
{
    return do_recv(comm, n, data, sizes, tags, mhandles, request);
}

static ncclResult_t irecv_v10(void *comm, int n, void **data, size_t *sizes, int *tags,
                              void **mhandles, void **phandles, void **request)
{
    (void)phandles;
    return do_recv(comm, n, data, sizes, tags, mhandles, request);
}

static ncclResult_t iflush(void *comm, int n, void **data, int *sizes, void **mhandles,
                           void **request)
{
    (void)comm;
    (void)n;
    (void)data;
    (void)sizes;
    (void)mhandles;
    *request = NULL;
    return ncclSuccess;
}

static int older_out(const struct request *r)
{
    for (int i = 0; i < SLOTS; i++) {
        const struct request *o = &r->comm->requests[i];
        if (o->used && o->serial < r->serial && o->kind == r->kind)
            return 1;
    }
    return 0;
}

static void push_late(struct request *r)
{
    struct channel *channel = r->comm->channel;

    memcpy(r->late->data, r->source, r->late->size);
    *channel->tail = r->late;
    channel->tail = &r->late->next;
    r->late = NULL;
    progress(channel);
}

static int complete(struct request *r)
{
    struct channel *channel = r->comm->channel;

    if (IS(TEST_IN_ORDER) && older_out(r))
        return 0;
    if (IS(TEST_IN_GLOBAL_ORDER))
        for (unsigned long s = 1; s < r->serial; s++)
            if (live[s % (1 << 16)] && live[s % (1 << 16)] != r->comm->channel->ends[SEND] &&
                live[s % (1 << 16)] != r->comm->channel->ends[RECV])
                return 0;
    if (r->kind == SEND)
        return 1;
    progress(channel);
    if (r->filled >= r->n - (IS(GROUP_EARLY) && r->n > 1))
        return 1;
    if (channel->closed[SEND] && !channel->head && !IS(SENDER_GONE_SILENT))
        r->error = 2;
    return 0;
}

static void report_sizes(const struct request *r, int *sizes)
{
    int n = IS(SIZES_EXTRA) ? MAX_RECVS : r->n;

    if (!sizes && !IS(SIZES_NULL_CRASH))
        return;
    for (int i = 0; i < n; i++)
        sizes[i] = (int)r->got[i];
}

static void late_senders(struct channel *channel)
{
    for (int i = 0; channel->ends[SEND] && i < SLOTS; i++) {
        struct request *r = &channel->ends[SEND]->requests[i];
        if (r->late && --r->owed == 0)
            push_late(r);
        if (r->late == NULL && r->done)
            r->used = 0;
    }
}

static ncclResult_t test(void *request, int *done, int *sizes)
{
    struct request *r = request;
    int finished;

    if (IS(TEST_SLEEPS))
        nap();
    if (IS(TEST_HANGS))
        idle(NULL);
    pthread_mutex_lock(&lock);
    finished = complete(r);
    if (IS(SEND_COPIED_LATE) && r->kind == RECV)
        late_senders(r->comm->channel);
    if (r->error) {
        pthread_mutex_unlock(&lock);
        return r->error == 1 ? refuse("message longer than the receive") : ncclRemoteError;
    }
    if (finished || !IS(DONE_NOT_WRITTEN))
        *done = IS(DONE_TWO) && finished ? 2 : finished;
    if (finished && r->kind == RECV)
        report_sizes(r, sizes);
    if (finished) {
        live[r->serial % (1 << 16)] = NULL;
        r->done = 1;
        r->used = r->late != NULL;
        r->comm->out--;
    }
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

/* --- close -------------------------------------------------------------------------------------
 */

static void drop_messages(struct channel *channel)
{
    while (channel->head) {
        struct message *m = channel->head;
        channel->head = m->next;
        free(m->data);
        free(m);
    }
    channel->tail = &channel->head;
}

static ncclResult_t close_end(struct comm *comm)
{
    struct channel *channel = comm->channel;
    enum kind kind = comm->kind;

    if (IS(CLOSE_CRASHES) && kind == SEND)
        abort();
    if (IS(CLOSE_BUSY) && comm->out)
        return refuse("requests are out");
    if (IS(CLOSE_WAITS) && kind == SEND)
        while (!channel->closed[RECV])
            nap();
    pthread_mutex_lock(&lock);
    channel->closed[kind] = 1;
    if (!(IS(CLOSE_KEEPS_BUFFERS) && kind == RECV)) {
        channel->ends[kind] = NULL;
        free(comm);
    } else {
        channel->closed[kind] = 0;
    }
    if (kind == SEND && IS(CLOSE_DROPS))
        drop_messages(channel);
    if (channel->closed[SEND] && channel->closed[RECV]) {
        drop_messages(channel);
        free(channel);
    }
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

static ncclResult_t close_comm(void *comm)
{
    return close_end(comm);
}

static ncclResult_t close_listen(void *listen)
{
    struct listener *l = listen, **at = &listeners;
    struct channel *channel = l->waiting;

    if (IS(UNUSED_LISTEN_CRASH) && !l->accepted && !channel)
        abort();
    if (IS(HALF_OPEN_CRASH) && channel)
        abort();
    pthread_mutex_lock(&lock);
    while (*at && *at != l)
        at = &(*at)->next;
    if (*at)
        *at = l->next;
    if (channel)
        channel->closed[RECV] = 1;
    if (IS(LISTEN_OWNS) && l->given)
        l->given->closed[RECV] = 1;
    pthread_mutex_unlock(&lock);
    free(l);
    return ncclSuccess;
}

#define VTABLE(v, init_fn, properties_fn, connect_fn, send_fn, recv_fn)                            \
    .name = IS(NAME_NULL)       ? NULL                                                             \
            : IS(NAME_RESERVED) ? "RCCL-ANP"                                                       \
                                : "ref",                                                           \
    .init = init_fn, .devices = devices, .getProperties = properties_fn, .listen = do_listen,      \
    .connect = connect_fn, .accept = accept_one, .regMr = reg,                                     \
    .regMrDmaBuf = IS(DMABUF_WITHOUT_BIT) ? reg_dmabuf : NULL, .deregMr = dereg, .isend = send_fn, \
    .irecv = recv_fn, .iflush = IS(SLOT_NULL) ? NULL : iflush, .test = test,                       \
    .closeSend = close_comm, .closeRecv = close_comm, .closeListen = close_listen

#if FAULT != 2 /* the second row: no symbol at all */
EXPORT const ncclNet_v8_t ncclNetPlugin_v8 = {
    VTABLE(8, init_v8, properties_v8, connect_v8, isend_v8, irecv_v8)};
EXPORT const ncclNet_v9_t ncclNetPlugin_v9 = {
    VTABLE(9, init_v8, properties_v9, connect_v8, isend_v9, irecv_v9)};
#if FAULT == 3 /* the third row: as short as v8's */
EXPORT const ncclNet_v8_t ncclNetPlugin_v10 = {
    VTABLE(8, init_v8, properties_v8, connect_v8, isend_v8, irecv_v8)};
#else
EXPORT const ncclNet_v10_t ncclNetPlugin_v10 = {
    VTABLE(10, init_v10, properties_v9, connect_v10, isend_v10, irecv_v10)};
#endif
#endif

#if FAULT == 4 /* the fourth row */
EXPORT int ref_stray_symbol(void);
int ref_stray_symbol(void)
{
    return 0;
}
#endif
