#include "bench/trace/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "topo/base/alloc.h"

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

enum mn_err mn_trace_read(const char *path, struct mn_trace *t, struct mn_diag *diag)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    *t = (struct mn_trace){.map = NULL};
    if (fd < 0 || fstat(fd, &st)) {
        mn_fail(diag, MN_ERR_CONFIG, "%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return MN_ERR_CONFIG;
    }
    t->size = S_ISREG(st.st_mode) ? (size_t)st.st_size : 0;
    /* A copy: a trace that is still being written changes its end. */
    t->map = t->size ? mmap(NULL, t->size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) : NULL;
    close(fd);
    if (t->map == MAP_FAILED) {
        t->map = NULL;
        return mn_fail_errno(diag, "%s", path);
    }
    if (t->size >= sizeof t->head) {
        memcpy(&t->head, t->map, sizeof t->head);
        t->records = (const void *)((const char *)t->map + sizeof t->head);
        t->n = (t->size - sizeof t->head) / sizeof *t->records;
    }
    while (t->n && t->records[t->n - 1].op == MN_TRACE_NONE)
        t->n--;
    t->head.host[sizeof t->head.host - 1] = 0;
    t->head.plugin[sizeof t->head.plugin - 1] = 0;
    t->head.hash[sizeof t->head.hash - 1] = 0;
    enum mn_err err = check(path, t, diag);
    if (err)
        mn_trace_free(t);
    return err;
}

void mn_trace_free(struct mn_trace *t)
{
    if (t->map)
        munmap(t->map, t->size);
    t->map = NULL;
    t->n = 0;
}

/* --- addresses to numbers --------------------------------------------------------------------- */

/* Open addressing; an address that is not alive any more keeps its slot, with the number 0. */
struct ids {
    struct slot {
        uint64_t address;
        uint32_t id;
    } * slots;
    size_t used, size; /* size: a power of two */
    uint32_t last;
};

static struct slot *slot_of(struct ids *ids, uint64_t address)
{
    size_t at = (size_t)(address * 0x9e3779b97f4a7c15u >> 20) & (ids->size - 1);

    while (ids->slots[at].address && ids->slots[at].address != address)
        at = (at + 1) & (ids->size - 1);
    return &ids->slots[at];
}

static struct slot *find(struct ids *ids, uint64_t address)
{
    if (ids->used * 2 >= ids->size) {
        struct ids old = *ids;
        ids->size = old.size ? 2 * old.size : 256;
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
    struct ids comms = {.size = 0}, requests = {.size = 0};

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
