/* The memory that queue pairs meet in. */
#include "tests/fakeverbs/fv.h"

#include <string.h>
#include <sys/mman.h>

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

void fv_arena_open(void)
{
    void *memory = mmap(NULL, sizeof(struct fv_arena), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        fv_die("no memory for the fabric");
    fv.arena = memory;
    fv.proc_slot = 0;
    fv.proc = &fv.arena->procs[0];
    atomic_store(&fv.proc->used, 1);
    publish_gids(fv.proc);
}

int fv_gid_known(const union ibv_gid *gid)
{
    for (uint32_t p = 0; p < FV_PROCS; p++) {
        const struct fv_proc *proc = &fv.arena->procs[p];
        if (!atomic_load(&proc->used))
            continue;
        uint32_t n = atomic_load(&proc->n_gids);
        for (uint32_t i = 0; i < n; i++)
            if (memcmp(proc->gids[i].raw, gid->raw, sizeof gid->raw) == 0)
                return 1;
    }
    return 0;
}

int fv_proc_alive(uint32_t slot)
{
    return atomic_load(&fv.arena->procs[slot].used) != 0;
}
