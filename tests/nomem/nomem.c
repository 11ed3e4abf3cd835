#include "tests/nomem/nomem.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS (1u << 16)
#define FRAMES 24

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*memalign)(size_t, size_t);
    void (*free)(void *);
} real;

static atomic_int armed;
static atomic_long counted, fail_at;
static atomic_int fail_on;
static void *failed[FRAMES];
static atomic_int n_failed;

/* dlsym() itself allocates before the real functions are known. */
static _Alignas(16) char early[1 << 16];
static size_t early_used;

static void *early_alloc(size_t size)
{
    void *at = early + early_used;
    early_used += (size + 15) & ~(size_t)15;
    if (early_used > sizeof early)
        abort();
    return at;
}

static int is_early(const void *p)
{
    return (const char *)p >= early && (const char *)p < early + sizeof early;
}

static void find_real(void)
{
    static int finding;
    if (finding)
        return;
    finding = 1;
    void *symbols[] = {dlsym(RTLD_NEXT, "malloc"), dlsym(RTLD_NEXT, "calloc"),
                       dlsym(RTLD_NEXT, "realloc"), dlsym(RTLD_NEXT, "memalign"),
                       dlsym(RTLD_NEXT, "free")};
    memcpy(&real, symbols, sizeof real);
    finding = 0;
}

/* --- what is left -------------------------------------------------------------------------------
 */

/* Open addressing; a freed block leaves GONE, so that those behind it are still found. */
#define GONE ((void *)1)
static struct block {
    void *at, *caller;
    size_t size;
} blocks[BLOCKS];
static pthread_spinlock_t blocks_lock;
static atomic_int marked;

static size_t slot_of(const void *p)
{
    return (size_t)(((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15u >> 48) % BLOCKS;
}

static void *note(void *p, size_t size, void *caller)
{
    if (!p || !marked)
        return p;
    pthread_spin_lock(&blocks_lock);
    size_t i = slot_of(p);
    while (blocks[i].at && blocks[i].at != GONE)
        i = (i + 1) % BLOCKS;
    blocks[i] = (struct block){p, caller, size};
    pthread_spin_unlock(&blocks_lock);
    return p;
}

static void forget(void *p)
{
    if (!p || !marked)
        return;
    pthread_spin_lock(&blocks_lock);
    size_t i = slot_of(p);
    while (blocks[i].at && blocks[i].at != p)
        i = (i + 1) % BLOCKS;
    if (blocks[i].at == p)
        blocks[i].at = GONE;
    pthread_spin_unlock(&blocks_lock);
}

void nomem_mark(void)
{
    pthread_spin_lock(&blocks_lock);
    memset(blocks, 0, sizeof blocks);
    marked = 1;
    pthread_spin_unlock(&blocks_lock);
}

/* The loader notes which library needs which as calls are bound, for as long as they are loaded. */
static int of_loader(void *caller)
{
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "/ld-linux");
}

size_t nomem_left(void **caller, size_t *size)
{
    size_t left = 0;

    /* Without the lock, for dladdr() may free: nobody else allocates any more. */
    for (size_t i = 0; i < BLOCKS; i++)
        if (blocks[i].at && blocks[i].at != GONE && !of_loader(blocks[i].caller) && !left++) {
            *caller = blocks[i].caller;
            *size = blocks[i].size;
        }
    return left;
}

/* --- failing ------------------------------------------------------------------------------------
 */

static int fails(void)
{
    static _Thread_local int inside __attribute__((tls_model("initial-exec")));

    if (!armed || inside)
        return 0;
    long number = atomic_fetch_add(&counted, 1) + 1;
    if (!fail_at || (fail_on ? number < fail_at : number != fail_at))
        return 0;
    if (number == fail_at) {
        inside = 1;
        n_failed = backtrace(failed, FRAMES);
        inside = 0;
    }
    errno = ENOMEM;
    return 1;
}

void nomem_arm(long n, int on)
{
    counted = 0;
    n_failed = 0;
    fail_at = n;
    fail_on = on;
    armed = 1;
}

long nomem_disarm(void)
{
    armed = 0;
    return counted;
}

int nomem_failed_at(void **frames, int max)
{
    int n = n_failed < max ? n_failed : max;
    memcpy(frames, failed, (size_t)n * sizeof *frames);
    return n;
}

__attribute__((constructor)) static void start(void)
{
    const char *text = getenv("NOMEM");
    void *frames[FRAMES];
    char *end;

    pthread_spin_init(&blocks_lock, PTHREAD_PROCESS_PRIVATE);
    find_real();
    backtrace(frames, FRAMES); /* it loads a library at the first call */
    if (!text)
        return;
    long n = strtol(text, &end, 10);
    nomem_arm(n, *end == '+');
}

/* --- the C library's names ----------------------------------------------------------------------
 */

#define CALLER __builtin_return_address(0)

__attribute__((visibility("default"))) void *malloc(size_t size)
{
    if (!real.malloc)
        find_real();
    if (!real.malloc)
        return early_alloc(size);
    return fails() ? NULL : note(real.malloc(size), size, CALLER);
}

__attribute__((visibility("default"))) void *calloc(size_t n, size_t size)
{
    if (!real.calloc)
        find_real();
    if (!real.calloc)
        return early_alloc(n * size); /* never given twice, so zeroed */
    return fails() ? NULL : note(real.calloc(n, size), n * size, CALLER);
}

__attribute__((visibility("default"))) void *realloc(void *old, size_t size)
{
    if (!real.realloc)
        find_real();
    if (is_early(old)) {
        void *p = malloc(size);
        return p ? memcpy(p, old, size) : NULL;
    }
    if (fails())
        return NULL;
    forget(old); /* before another thread is given its address */
    return note(real.realloc(old, size), size, CALLER);
}

__attribute__((visibility("default"))) void *reallocarray(void *old, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    if (fails())
        return NULL;
    forget(old);
    return note(real.realloc(old, bytes), bytes, CALLER);
}

static void *aligned(size_t alignment, size_t size, void *caller)
{
    return fails() ? NULL : note(real.memalign(alignment, size), size, caller);
}

__attribute__((visibility("default"))) void *memalign(size_t alignment, size_t size)
{
    return aligned(alignment, size, CALLER);
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t size)
{
    return aligned(alignment, size, CALLER);
}

__attribute__((visibility("default"))) int posix_memalign(void **p, size_t alignment, size_t size)
{
    void *got = aligned(alignment, size, CALLER);

    if (!got)
        return ENOMEM;
    *p = got;
    return 0;
}

__attribute__((visibility("default"))) void free(void *p)
{
    if (is_early(p))
        return;
    forget(p);
    real.free(p);
}
