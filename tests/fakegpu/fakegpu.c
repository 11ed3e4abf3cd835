#include "tests/fakegpu/fakegpu.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE   ((size_t)64 << 10)
#define BLOCKS 4096

static struct block {
    uint8_t *view, *backing; /* what the process gets; what copies and NICs see */
    size_t asked, size;
    int fd, device;
    enum fakegpu_kind kind;
    uint64_t id;
} blocks[BLOCKS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct fakegpu_config config =
    {.devices = 1, .dmabuf = 1, .direct = 1, .major = 8, .anew = 1, .hip = 60000000};

static void read_config(void)
{
    static const struct {
        const char *name;
        size_t offset;
    } keys[] = {
#define KEY(name) {#name, offsetof(struct fakegpu_config, name)}
        KEY(devices), KEY(dmabuf), KEY(direct), KEY(integrated), KEY(major), KEY(cpu),
        KEY(init),    KEY(open),   KEY(export), KEY(hip),        KEY(anew),
    };
    const char *text = getenv("FAKEGPU");
    char *copy = strdup(text ? text : ""), *rest = copy, *item;

    while ((item = strsep(&rest, ",")) != NULL) {
        char *value = strchr(item, '=');
        size_t k = 0;
        if (!*item)
            continue;
        if (value)
            *value++ = 0;
        while (k < sizeof keys / sizeof *keys && strcmp(keys[k].name, item) != 0)
            k++;
        if (!value || k == sizeof keys / sizeof *keys) {
            fprintf(stderr, "FAKEGPU: unknown key %s\n", item);
            abort();
        }
        *(long *)((char *)&config + keys[k].offset) = strtol(value, NULL, 0);
    }
    free(copy);
}

const struct fakegpu_config *fakegpu(void)
{
    pthread_once(&once, read_config);
    return &config;
}

static pthread_key_t thread_key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void make_key(void)
{
    (void)pthread_key_create(&thread_key, free);
}

struct fakegpu_thread *fakegpu_thread(void)
{
    pthread_once(&key_once, make_key);
    struct fakegpu_thread *thread = pthread_getspecific(thread_key);
    if (!thread) {
        thread = calloc(1, sizeof *thread);
        if (!thread)
            abort();
        pthread_setspecific(thread_key, thread);
    }
    return thread;
}

static struct block *find(const void *p)
{
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].view && (const uint8_t *)p >= blocks[i].view &&
            (const uint8_t *)p < blocks[i].view + blocks[i].size)
            return &blocks[i];
    return NULL;
}

static int map(struct block *b, int touchable)
{
    b->fd = memfd_create("fakegpu", MFD_CLOEXEC);
    if (b->fd < 0 || ftruncate(b->fd, (off_t)b->size) != 0)
        return 0;
    b->backing = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
    b->view =
        mmap(NULL, b->size, touchable ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, b->fd, 0);
    return b->backing != MAP_FAILED && b->view != MAP_FAILED;
}

void *fakegpu_alloc(int device, enum fakegpu_kind kind, size_t size)
{
    static uint64_t ids;
    struct block *b = blocks;

    pthread_mutex_lock(&lock);
    while (b < blocks + BLOCKS && b->view)
        b++;
    if (b == blocks + BLOCKS || !size) {
        pthread_mutex_unlock(&lock);
        return NULL;
    }
    *b = (struct block){.asked = size,
                        .size = (size + PAGE - 1) / PAGE * PAGE,
                        .device = device,
                        .kind = kind,
                        .id = ++ids};
    if (!map(b, kind == FAKEGPU_MANAGED || fakegpu()->cpu))
        *b = (struct block){.view = NULL};
    void *view = b->view;
    pthread_mutex_unlock(&lock);
    return view;
}

int fakegpu_free(void *p)
{
    pthread_mutex_lock(&lock);
    struct block *b = find(p);
    int wrong = !b || b->view != p;
    if (!wrong) {
        munmap(b->view, b->size);
        munmap(b->backing, b->size);
        close(b->fd);
        *b = (struct block){.view = NULL};
    }
    pthread_mutex_unlock(&lock);
    return wrong;
}

enum fakegpu_kind fakegpu_where(const void *p, int *device, void **base, size_t *size)
{
    pthread_mutex_lock(&lock);
    const struct block *b = find(p);
    enum fakegpu_kind kind = b ? b->kind : FAKEGPU_NONE;
    *device = b ? b->device : -1;
    if (b && base)
        *base = b->view;
    if (b && size)
        *size = b->asked;
    pthread_mutex_unlock(&lock);
    return kind;
}

/* Where the bytes of a range are; NULL: the range leaves its allocation. */
static void *bytes_of(const void *p, size_t size)
{
    const struct block *b = find(p);

    if (!b)
        return (void *)(uintptr_t)p;
    size_t at = (size_t)((const uint8_t *)p - b->view);
    return size <= b->asked && at <= b->asked - size ? b->backing + at : NULL;
}

int fakegpu_copy(void *to, const void *from, size_t size)
{
    pthread_mutex_lock(&lock);
    void *t = bytes_of(to, size), *f = bytes_of(from, size);
    if (t && f)
        memmove(t, f, size);
    pthread_mutex_unlock(&lock);
    return !t || !f;
}

int fakegpu_fill(void *p, int byte, size_t size)
{
    pthread_mutex_lock(&lock);
    void *t = bytes_of(p, size);
    if (t)
        memset(t, byte, size);
    pthread_mutex_unlock(&lock);
    return !t;
}

int fakegpu_export(const void *p, size_t size, uint64_t *offset)
{
    int fd = -1;

    pthread_mutex_lock(&lock);
    const struct block *b = find(p);
    if (b && b->kind == FAKEGPU_DEVICE && fakegpu()->dmabuf &&
        size <= b->size - (size_t)((const uint8_t *)p - b->view)) {
        *offset = (uint64_t)((const uint8_t *)p - b->view);
        fd = fcntl(b->fd, F_DUPFD_CLOEXEC, 0);
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

uint64_t fakegpu_id(const void *p)
{
    pthread_mutex_lock(&lock);
    const struct block *b = find(p);
    uint64_t id = b ? b->id : 0;
    pthread_mutex_unlock(&lock);
    return id;
}

int fakegpu_export_anew(const void *p, size_t size, uint64_t *offset)
{
    int fd = -1, behind = fakegpu_export(p, size, offset);

    if (behind < 0)
        return -1;
    close(behind);
    pthread_mutex_lock(&lock);
    const struct block *b = find(p);
    if (b)
        fd = memfd_create("fakegpu-dmabuf", MFD_CLOEXEC);
    if (fd >= 0)
        (void)dprintf(fd, FAKEGPU_ALIAS "%d", b->fd);
    pthread_mutex_unlock(&lock);
    return fd;
}
