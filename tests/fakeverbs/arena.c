/* The memory that queue pairs meet in: of this process, or a file shared with others. A process
 * that uses a file holds a record lock on one byte of it, which the kernel drops when the process
 * dies. */
#include "tests/fakeverbs/fv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x66766d657368ull

static int arena_fd = -1;

static void publish_gids(struct fv_proc *proc)
{
    uint32_t n = 0;
    for (int d = 0; d < fv.config.n_devices; d++) {
        for (int i = 0; i < FV_GIDS; i++) {
            int type;
            if (n < sizeof proc->gids / sizeof *proc->gids &&
                fv_gid_at(&fv.devices[d], i, &proc->gids[n], &type) == 0)
                n++;
        }
    }
    atomic_store(&proc->n_gids, n);
}

static struct flock byte_of(uint32_t slot)
{
    return (
        struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)slot, .l_len = 1};
}

/* What a process that died left in its slot is not worth keeping. */
static void clear_slot(uint32_t slot)
{
    struct fv_arena *arena = fv.arena;
    for (uint32_t i = 0; i < FV_SLOTS; i++)
        if (atomic_load(&arena->wires[i].qpn) && atomic_load(&arena->wires[i].owner) == 1 + slot)
            fv_wire_free(&arena->wires[i]);
    memset(&arena->procs[slot], 0, sizeof arena->procs[slot]);
}

static void take_slot(void)
{
    for (uint32_t slot = 0; slot < FV_PROCS; slot++) {
        struct flock lock = byte_of(slot);
        if (fcntl(arena_fd, F_SETLK, &lock) != 0)
            continue;
        clear_slot(slot);
        fv.proc_slot = slot;
        fv.proc = &fv.arena->procs[slot];
        return;
    }
    fv_die("FAKEVERBS: %s is used by %d processes already", fv.config.shm, FV_PROCS);
}

static void *map(int flags, int fd)
{
    void *memory =
        mmap(NULL, sizeof(struct fv_arena), PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0);
    if (memory == MAP_FAILED)
        fv_die("no memory for the fabric");
    return memory;
}

void fv_arena_open(void)
{
    if (!*fv.config.shm) {
        fv.arena = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
        fv.proc = &fv.arena->procs[0];
    } else {
        arena_fd = open(fv.config.shm, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (arena_fd < 0 || ftruncate(arena_fd, sizeof(struct fv_arena)) != 0)
            fv_die("FAKEVERBS: shm=%s: %s", fv.config.shm, strerror(errno));
        fv.arena = map(MAP_SHARED, arena_fd);
        uint64_t none = 0, magic = MAGIC + sizeof(struct fv_arena);
        if (!atomic_compare_exchange_strong(&fv.arena->magic, &none, magic) && none != magic)
            fv_die("FAKEVERBS: shm=%s is no fabric of this library", fv.config.shm);
        take_slot();
    }
    publish_gids(fv.proc);
    atomic_store(&fv.proc->used, 1);
}

int fv_gid_of(const struct fv_proc *proc, const union ibv_gid *gid)
{
    uint32_t n = atomic_load(&proc->used) ? atomic_load(&proc->n_gids) : 0;
    for (uint32_t i = 0; i < n; i++)
        if (memcmp(proc->gids[i].raw, gid->raw, sizeof gid->raw) == 0)
            return 1;
    return 0;
}

int fv_gid_known(const union ibv_gid *gid)
{
    for (uint32_t p = 0; p < FV_PROCS; p++)
        if (fv_gid_of(&fv.arena->procs[p], gid))
            return 1;
    return 0;
}

void fv_bury(void)
{
    for (uint32_t slot = 0; slot < FV_PROCS; slot++) {
        struct flock lock = byte_of(slot);
        if (slot == fv.proc_slot || !atomic_load(&fv.arena->procs[slot].used) ||
            fcntl(arena_fd, F_SETLK, &lock) != 0)
            continue;
        clear_slot(slot);
        lock.l_type = F_UNLCK;
        fcntl(arena_fd, F_SETLK, &lock);
    }
}

int fv_is_shared(void)
{
    return arena_fd >= 0;
}

void fv_wire_free(struct fv_wire *wire)
{
    /* Slots are used in turn, so that the pages of all would be touched in the end. */
    if (atomic_load(&wire->req.head) > 4 * 4096 || atomic_load(&wire->rsp.head) > 4 * 4096)
        madvise(wire->req_data, sizeof wire->req_data + sizeof wire->rsp_data,
                arena_fd < 0 ? MADV_DONTNEED : MADV_REMOVE);
    atomic_store(&wire->state, IBV_QPS_RESET);
    atomic_store(&wire->owner, 0); /* first: with the number gone it is the next one's */
    atomic_store(&wire->qpn, 0);
}
