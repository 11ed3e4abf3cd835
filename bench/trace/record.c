#include "bench/trace/record.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "bench/trace/clock.h"
#include "plugin/thread.h"
#include "topo/base/alloc.h"

/* The file grows by pieces that the file system has promised: a write into a mapped hole of a full
 * disk would be a signal, in somebody's job. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PIECE 4096u        /* records, 256 KiB */
#define LOW   (4 * PIECE)  /* free records of which the thread is told */
#define AHEAD (16 * PIECE) /* that it makes then */
#define MOST  MN_TRACE_MOST

enum { CLOSED, OPEN, FULL };

static struct {
    int fd;
    char path[512];
    struct mn_trace_head *head;
    struct mn_trace_record *records;
    _Atomic uint64_t next, limit;
    _Atomic uint32_t threads;
    _Atomic int state;
    struct mn_trace_clock clock;
    pthread_mutex_t growth;
    /* The thread that makes room before it is needed, so that no call waits for the disk. */
    pthread_t thread;
    int running;
    sem_t wanted;
    _Atomic int asked, ending;
} trace = {.fd = -1, .growth = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local uint32_t own_thread, own_empty;

static size_t bytes_of(uint64_t records)
{
    return sizeof *trace.head + (size_t)records * sizeof *trace.records;
}

static void *page_of(uint64_t record)
{
    uintptr_t at = (uintptr_t)&trace.records[record], page = (uintptr_t)sysconf(_SC_PAGESIZE);

    return (void *)(at / page * page);
}

/* Room up to a record, or the end of it. needed: a call waits for it. */
static int grow(uint64_t to, int needed)
{
    uint64_t limit;

    pthread_mutex_lock(&trace.growth);
    limit = atomic_load(&trace.limit);
    while (limit < to && atomic_load(&trace.state) == OPEN) {
        uint64_t piece = MOST - limit < PIECE ? MOST - limit : PIECE;
        if (!piece || posix_fallocate(trace.fd, (off_t)bytes_of(limit),
                                      (off_t)(piece * sizeof *trace.records))) {
            if (needed)
                atomic_store(&trace.state, FULL);
            break;
        }
        /* One call for all pages, instead of a fault for each 64 records. Older kernels fault. */
        (void)madvise(page_of(limit), piece * sizeof *trace.records, MADV_POPULATE_WRITE);
        limit += piece;
        atomic_store(&trace.limit, limit);
    }
    pthread_mutex_unlock(&trace.growth);
    return limit >= to;
}

static void *make_room(void *arg)
{
    (void)arg;
    while (!atomic_load(&trace.ending)) {
        /* A disk that is full is not asked again for every record. */
        if (grow(atomic_load(&trace.next) + AHEAD, 0))
            atomic_store(&trace.asked, 0);
        while (sem_wait(&trace.wanted) && errno == EINTR)
            ;
    }
    return NULL;
}

/* Without the thread, for want of one, calls make their room themselves. */
void mn_trace_begin(void)
{
    if (trace.fd < 0 || trace.running)
        return;
    if (atomic_load(&trace.state) == CLOSED)
        atomic_store(&trace.state, OPEN);
    atomic_store(&trace.ending, 0);
    atomic_store(&trace.asked, 0);
    (void)sem_init(&trace.wanted, 0, 0);
    trace.running = !mn_thread_start("mn-trace", make_room, NULL, &trace.thread);
}

/* A thread may be at its last record, which is counted: what it took is kept. */
void mn_trace_end(void)
{
    if (trace.fd < 0) /* a forked copy, whose lock nobody may hold any more */
        return;
    if (trace.running) {
        atomic_store(&trace.ending, 1);
        (void)sem_post(&trace.wanted);
        (void)pthread_join(trace.thread, NULL);
        trace.running = 0;
    }
    pthread_mutex_lock(&trace.growth);
    int state = atomic_exchange(&trace.state, CLOSED);
    if (state != CLOSED) {
        uint64_t used = atomic_exchange(&trace.next, (uint64_t)MOST * 2); /* beyond any limit */
        used = used < atomic_load(&trace.limit) ? used : atomic_load(&trace.limit);
        (void)!ftruncate(trace.fd, (off_t)bytes_of(used));
        atomic_store(&trace.limit, used);
        atomic_store(&trace.next, used);
        if (state == FULL)
            atomic_store(&trace.state, FULL);
    }
    pthread_mutex_unlock(&trace.growth);
}

/* The path, with the host's name for %h and the process number for %p. */
static void expand(const char *path, const char *host)
{
    size_t used = 0, most = sizeof trace.path;

    for (; *path && used < most - 1; path++) {
        int mark = path[0] == '%' ? path[1] : 0;
        if (mark == 'h')
            used += (size_t)snprintf(trace.path + used, most - used, "%s", host);
        else if (mark == 'p')
            used += (size_t)snprintf(trace.path + used, most - used, "%ld", (long)getpid());
        else
            trace.path[used++] = *path;
        path += mark == 'h' || mark == 'p';
    }
    trace.path[used < most ? used : most - 1] = 0;
}

/* A forked copy shares the file with its parent, whose trace it is. */
static void in_copy(void)
{
    atomic_store(&trace.state, CLOSED);
    trace.running = 0;
    close(trace.fd);
    trace.fd = -1;
}

enum mn_err mn_trace_open(const char *path, struct mn_diag *diag)
{
    char host[64] = "";

    gethostname(host, sizeof host - 1);
    expand(path ? path : "meshtrace.%h.%p", host);
    trace.fd = open(trace.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (trace.fd < 0)
        return mn_fail_errno(diag, "the trace %s", trace.path);
    int error = posix_fallocate(trace.fd, 0, (off_t)bytes_of(0));
    void *map = error ? MAP_FAILED
                      : mmap(NULL, bytes_of(MOST), PROT_READ | PROT_WRITE, MAP_SHARED, trace.fd, 0);
    if (map == MAP_FAILED) {
        errno = error ? error : errno;
        enum mn_err err = mn_fail_errno(diag, "the trace %s", trace.path);
        (void)unlink(trace.path);
        close(trace.fd);
        trace.fd = -1;
        return err;
    }
    trace.head = map;
    trace.records = (struct mn_trace_record *)(void *)((char *)map + sizeof *trace.head);
    trace.clock = mn_trace_clock_start();
    *trace.head = (struct mn_trace_head){.endian = MN_TRACE_ENDIAN,
                                         .record_size = sizeof *trace.records,
                                         .wall_ns = mn_kernel_ns(CLOCK_REALTIME),
                                         .started_ns = mn_kernel_ns(CLOCK_MONOTONIC),
                                         .pid = (int32_t)getpid()};
    memcpy(trace.head->magic, MN_TRACE_MAGIC, sizeof trace.head->magic);
    mn_strlcpy(trace.head->host, host, sizeof trace.head->host);
    atomic_store(&trace.state, OPEN);
    (void)pthread_atfork(NULL, NULL, in_copy);
    (void)grow(1, 1);
    mn_trace_begin();
    return MN_OK;
}

void mn_trace_describe(const char *plugin, const char *hash, int version)
{
    if (!trace.head)
        return;
    mn_strlcpy(trace.head->plugin, plugin, sizeof trace.head->plugin);
    mn_strlcpy(trace.head->hash, hash, sizeof trace.head->hash);
    trace.head->version = version;
}

uint64_t mn_trace_now(void)
{
    return mn_trace_clock_ns(&trace.clock);
}

struct mn_trace_record *mn_trace_take(int n, uint64_t start_ns)
{
    int state = atomic_load_explicit(&trace.state, memory_order_relaxed);
    uint64_t at;

    if (state == CLOSED)
        return NULL;
    at = state == OPEN ? atomic_fetch_add_explicit(&trace.next, (uint64_t)n, memory_order_relaxed)
                       : 0;
    uint64_t limit = atomic_load_explicit(&trace.limit, memory_order_acquire);
    if (at + LOW > limit && !atomic_load_explicit(&trace.asked, memory_order_relaxed) &&
        !atomic_exchange(&trace.asked, 1))
        (void)sem_post(&trace.wanted);
    if (state == FULL || (at + (uint64_t)n > limit && !grow(at + (uint64_t)n, 1))) {
        __atomic_fetch_add(&trace.head->lost, (uint64_t)n, __ATOMIC_RELAXED);
        return NULL;
    }
    if (!own_thread)
        own_thread = atomic_fetch_add(&trace.threads, 1) + 1;
    struct mn_trace_record *record = &trace.records[at];
    uint64_t took = mn_trace_now() - start_ns;
    record->thread = own_thread;
    record->start_ns = start_ns;
    record->took_ns = took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
    record->empty = own_empty;
    own_empty = 0;
    return record;
}

void mn_trace_put(struct mn_trace_record *record, enum mn_trace_op op)
{
    __atomic_store_n(&record->op, (uint8_t)op, __ATOMIC_RELEASE);
}

void mn_trace_empty(void)
{
    own_empty++;
}
