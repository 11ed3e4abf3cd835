#include "bench/trace/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/base/mac.h"

static enum mn_err check(const char *path, struct mn_trace *t, struct mn_diag *diag)
{
    const struct mn_trace_head *head = &t->head;

    if (t->size < sizeof *head || memcmp(head->magic, MN_TRACE_MAGIC, sizeof head->magic) != 0)
        return mn_fail(diag, MN_ERR_CONFIG, "%s: is no trace of libnccl-net-meshtrace.so", path);
    if (head->endian != MN_TRACE_ENDIAN || head->record_size != sizeof *t->records)
        return mn_fail(diag, MN_ERR_CONFIG,
                       "%s: is of another kind of machine or another meshnet; read it there", path);
    for (size_t i = 0; i < t->n; i++) {
        const struct mn_trace_record *r = &t->records[i];
        if (r->op >= MN_TRACE_N_OPS || r->count > 8)
            return mn_fail(diag, MN_ERR_CONFIG, "%s: record %zu is damaged", path, i);
    }
    return MN_OK;
}

/* Of a large trace half the time of reading went into the faults of small pages. free() takes it.
 */
static void *in_huge_pages(size_t size)
{
    const size_t page = 2u << 20;
    void *memory;

    if (size < 2 * page)
        return malloc(size);
    if (posix_memalign(&memory, page, size))
        return NULL;
    (void)madvise(memory, size, MADV_HUGEPAGE);
    return memory;
}

/* As much as a trace can be: its file may still be written, or grow while it is read. */
static enum mn_err read_file(const char *path, struct mn_trace *t, struct mn_diag *diag)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* no waiting for a pipe's writer */
    struct stat st;

    if (fd < 0 || fstat(fd, &st)) {
        mn_fail(diag, MN_ERR_CONFIG, "%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return MN_ERR_CONFIG;
    }
    size_t size = S_ISREG(st.st_mode) && st.st_size > 0 ? (size_t)st.st_size : 0;
    size = size < MN_TRACE_FILE_MAX ? size : MN_TRACE_FILE_MAX;
    t->map = in_huge_pages(size + 1);
    while (t->map && t->size < size) {
        ssize_t n = read(fd, (char *)t->map + t->size, size - t->size);
        if (n <= 0)
            break;
        t->size += (size_t)n;
    }
    close(fd);
    return t->map ? MN_OK : mn_fail(diag, MN_ERR_NOMEM, "%s: no memory for %zu bytes", path, size);
}

static void mend(char *text, size_t size)
{
    text[size - 1] = 0;
    mn_clean(text);
}

enum mn_err mn_trace_read(const char *path, struct mn_trace *t, struct mn_diag *diag)
{
    *t = (struct mn_trace){.map = NULL};
    enum mn_err err = read_file(path, t, diag);
    if (err)
        return err;
    if (t->size >= sizeof t->head) {
        memcpy(&t->head, t->map, sizeof t->head);
        t->records = (const void *)((const char *)t->map + sizeof t->head);
        t->n = (t->size - sizeof t->head) / sizeof *t->records;
    }
    while (t->n && t->records[t->n - 1].op == MN_TRACE_NONE)
        t->n--;
    mend(t->head.host, sizeof t->head.host);
    mend(t->head.plugin, sizeof t->head.plugin);
    mend(t->head.hash, sizeof t->head.hash);
    err = check(path, t, diag);
    if (err)
        mn_trace_free(t);
    return err;
}

void mn_trace_free(struct mn_trace *t)
{
    free(t->map);
    t->map = NULL;
    t->n = 0;
}

/* --- addresses to numbers --------------------------------------------------------------------- */

/* Open addressing; an address that is not alive any more keeps its slot, with the number 0. What is
 * called an address may be any number of a plugin's, or made to collide: the seed is random. */
struct ids {
    struct slot {
        uint64_t address;
        uint32_t id;
    } * slots;
    size_t used, size; /* size: a power of two */
    uint32_t last;
    uint64_t seed;
};

/* Each bit of the address turns about half of all. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xd1342543de82ef95u;
    return x ^ x >> 32;
}

static struct slot *slot_of(struct ids *ids, uint64_t address)
{
    size_t at = (size_t)mix(address ^ ids->seed) & (ids->size - 1);

    while (ids->slots[at].address && ids->slots[at].address != address)
        at = (at + 1) & (ids->size - 1);
    return &ids->slots[at];
}

static struct slot *find(struct ids *ids, uint64_t address)
{
    if (ids->used * 2 >= ids->size) {
        struct ids old = *ids;
        ids->size = old.size ? 2 * old.size : 256;
        ids->slots = in_huge_pages(ids->size * sizeof *ids->slots);
        if (ids->slots)
            memset(ids->slots, 0, ids->size * sizeof *ids->slots);
        else
            ids->slots = mn_zalloc(ids->size * sizeof *ids->slots);
        for (size_t i = 0; i < old.size; i++)
            if (old.slots[i].address)
                *slot_of(ids, old.slots[i].address) = old.slots[i];
        free(old.slots);
    }
    struct slot *slot = slot_of(ids, address);
    if (!slot->address) {
        slot->address = address;
        ids->used++;
    }
    return slot;
}

static uint32_t begin(struct ids *ids, uint64_t address)
{
    return address ? find(ids, address)->id = ++ids->last : 0;
}

static uint32_t look(struct ids *ids, uint64_t address, int ends)
{
    struct slot *slot = address ? find(ids, address) : NULL;
    uint32_t id = slot ? slot->id : 0;

    if (slot && ends)
        slot->id = 0;
    return id;
}

void mn_trace_walk(const struct mn_trace *t,
                   void (*visit)(void *ctx, const struct mn_trace_event *event), void *ctx)
{
    struct ids comms = {.size = 0}, requests;

    /* Without randomness it reads as well. */
    (void)mn_random(&comms.seed, sizeof comms.seed, NULL);
    requests = comms;
    for (size_t i = 0; i < t->n; i++) {
        const struct mn_trace_record *r = &t->records[i];
        struct mn_trace_event event = {.record = r};
        switch ((enum mn_trace_op)r->op) {
        case MN_TRACE_LISTEN:
        case MN_TRACE_CONNECT:
        case MN_TRACE_ACCEPT:
            event.comm = begin(&comms, r->a);
            break;
        case MN_TRACE_CLOSE_SEND:
        case MN_TRACE_CLOSE_RECV:
        case MN_TRACE_CLOSE_LISTEN:
            event.comm = look(&comms, r->a, 1);
            break;
        case MN_TRACE_ISEND:
        case MN_TRACE_IRECV:
        case MN_TRACE_IFLUSH:
            event.comm = look(&comms, r->a, 0);
            event.request = begin(&requests, r->c);
            break;
        case MN_TRACE_PART:
            event.comm = look(&comms, r->a, 0);
            event.request = look(&requests, r->c, 0);
            break;
        case MN_TRACE_DONE:
            event.request = look(&requests, r->a, 1);
            break;
        case MN_TRACE_REG_MR:
        case MN_TRACE_DEREG_MR:
            event.comm = look(&comms, r->a, 0);
            break;
        case MN_TRACE_NONE:
            continue;
        default:
            break;
        }
        visit(ctx, &event);
    }
    free(comms.slots);
    free(requests.slots);
}
