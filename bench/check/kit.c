/* Buffers with guards, and what a rule can see of its own process. */
#include "bench/check/kit.h"

#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define GUARD      4096
#define GUARD_BYTE 0xc3
#define FILL_BYTE  0x3c

const char *mn_check_text_problem(const char *text, size_t max)
{
    static char problem[64];

    if (!text)
        return "is NULL";
    if (!text[0])
        return "is empty";
    if (strnlen(text, max + 1) > max) {
        snprintf(problem, sizeof problem, "is longer than %zu bytes", max);
        return problem;
    }
    for (const char *c = text; *c; c++)
        if (!isprint((unsigned char)*c) || strchr("<>&\"'", *c)) {
            snprintf(problem, sizeof problem, "has byte 0x%02x, which XML or a log cannot hold",
                     (unsigned char)*c);
            return problem;
        }
    return NULL;
}

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;

    if (!dir)
        return 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

int mn_check_count_threads(void)
{
    return count_entries("/proc/self/task") - 2;
}

int mn_check_count_fds(void)
{
    return count_entries("/proc/self/fd") - 3;
}

void mn_check_resolve(struct mn_check *check, char *path, size_t size)
{
    struct link_map *map;

    path[0] = '\0';
    if (dlinfo(check->raw.lib, RTLD_DI_LINKMAP, &map) == 0)
        snprintf(path, size, "%s", map->l_name);
}

long mn_check_sleeps(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

#define SLOT_WORD 0x5a5a5a5a00000003u /* the lower half: a channel's number */

static int small_slot(const struct mn_check *check)
{
    return check->target->profile && mn_check_dialect(check, MN_DIALECT_SMALL_SLOT);
}

void **mn_kit_slot(const struct mn_check *check, struct mn_kit_slot *slot)
{
    for (int i = 0; i < 3; i++)
        slot->words[i] = SLOT_WORD;
    if (!small_slot(check))
        slot->words[1] = 0;
    return (void **)(void *)&slot->words[1];
}

void mn_kit_slot_kept(struct mn_check *check, const struct mn_kit_slot *slot, const char *call)
{
    if (slot->words[0] != SLOT_WORD || slot->words[2] != SLOT_WORD ||
        (small_slot(check) && slot->words[1] != SLOT_WORD))
        mn_check_fail(check, "%s wrote through the device handle argument", call);
}

void *mn_kit_old_request(const struct mn_check *check, int n)
{
    enum mn_check_dialect dialect = n ? MN_DIALECT_OPTIONAL_RECV : MN_DIALECT_OPTIONAL_SEND;

    if (check->target->profile && mn_check_dialect(check, dialect) && n <= 1 &&
        check->raw.version->version >= 9)
        return MN_KIT_OPTIONAL;
    return MN_KIT_STALE;
}

/* Depends on the address inside the message and on the message: a shifted, repeated or foreign
 * piece shows. */
static unsigned char pattern(size_t i, unsigned seed)
{
    uint32_t x = (uint32_t)(i / 4) * 2654435761u + seed * 40503u + 12345u;

    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (unsigned char)(x >> (8 * (i % 4)));
}

unsigned char *mn_kit_alias(size_t size)
{
    int fd = memfd_create("verify-plugin", MFD_CLOEXEC);
    unsigned char *at =
        mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (fd < 0 || ftruncate(fd, (off_t)MN_KIT_ALIAS) != 0 || at == MAP_FAILED)
        return NULL;
    for (size_t i = 0; i < size; i += MN_KIT_ALIAS)
        if (mmap(at + i, MN_KIT_ALIAS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
            MAP_FAILED)
            return NULL;
    close(fd);
    return at;
}

void mn_kit_buf(struct mn_check *check, void *comm, size_t size, size_t offset, struct mn_buf *buf)
{
    *buf = (struct mn_buf){.size = size, .room = GUARD + offset + size + GUARD, .comm = comm};
    if (posix_memalign((void **)&buf->base, 4096, buf->room) != 0)
        mn_check_skip(check, "no memory for a buffer of %zu bytes", buf->room);
    memset(buf->base, GUARD_BYTE, buf->room);
    buf->data = buf->base + GUARD + offset;
    memset(buf->data, FILL_BYTE, size);
    mn_check_step(check, "regMr of %zu bytes", size);
    mn_check_ok(check, "regMr",
                mn_raw_reg(&check->raw, comm, buf->data, size ? size : 1, &buf->mhandle));
}

void mn_kit_free(struct mn_check *check, struct mn_buf *buf)
{
    mn_check_step(check, "deregMr of %zu bytes", buf->size);
    mn_check_ok(check, "deregMr", mn_raw_dereg(&check->raw, buf->comm, buf->mhandle));
    free(buf->base);
    buf->base = NULL;
}

void mn_kit_fill(struct mn_buf *buf, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        buf->data[i] = pattern(i, seed);
}

void mn_kit_untouched(struct mn_check *check, const struct mn_buf *buf, size_t from,
                      const char *what)
{
    const unsigned char *end = buf->base + buf->room;

    for (const unsigned char *p = buf->base; p < buf->data; p++)
        if (*p != GUARD_BYTE)
            mn_check_fail(check, "%s: byte %td before the buffer was written (0x%02x)", what,
                          buf->data - p, *p);
    for (size_t i = from; i < buf->size; i++)
        if (buf->data[i] != FILL_BYTE)
            mn_check_fail(check, "%s: byte %zu of the buffer was written, the message ends at %zu",
                          what, i, from);
    for (const unsigned char *p = buf->data + buf->size; p < end; p++)
        if (*p != GUARD_BYTE)
            mn_check_fail(check, "%s: byte %td behind the buffer of %zu bytes was written (0x%02x)",
                          what, p - buf->data - (ptrdiff_t)buf->size, buf->size, *p);
}

void mn_kit_expect(struct mn_check *check, const struct mn_buf *buf, size_t size, unsigned seed,
                   const char *what)
{
    for (size_t i = 0; i < size; i++)
        if (buf->data[i] != pattern(i, seed))
            mn_check_fail(check, "%s: byte %zu of %zu arrived as 0x%02x, sent was 0x%02x", what, i,
                          size, buf->data[i], pattern(i, seed));
    mn_kit_untouched(check, buf, size, what);
}

/* --- communicators ---------------------------------------------------------------------------- */

void mn_kit_quiet(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
    (void)level;
    (void)flags;
    (void)file;
    (void)line;
    (void)fmt;
}

struct mn_check mn_kit_communicator(struct mn_check *check, uint64_t id)
{
    struct mn_check other = *check;

    mn_check_step(check, "init of a further communicator");
    mn_check_ok(check, "init", mn_raw_init_as(&other.raw, id, -1, mn_kit_quiet));
    return other;
}

void mn_kit_finalize(struct mn_check *check)
{
    mn_check_step(check, "finalize");
    mn_check_ok(check, "finalize", mn_raw_finalize(&check->raw));
}
