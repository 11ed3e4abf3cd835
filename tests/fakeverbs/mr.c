/* Protection domains and memory regions. */
#include "tests/fakeverbs/fv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fakegpu/fakegpu.h"

#undef ibv_reg_mr

#define RKEY_BIT 0x80000000u /* an lkey used as an rkey, or the reverse, must not work */
#define KNOWN_ACCESS                                                                               \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                   \
     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_OPTIONAL_RANGE)

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct fv_pd *pd = calloc(1, sizeof *pd);
    if (!pd)
        return NULL;
    fv_lock();
    pd->base.context = context;
    fv_context_of(context)->children++;
    fv.live_pds++;
    fv_unlock();
    return &pd->base;
}

int ibv_dealloc_pd(struct ibv_pd *base)
{
    struct fv_pd *pd = (struct fv_pd *)base;
    fv_lock();
    int busy = pd->children > 0;
    if (!busy) {
        fv_context_of(base->context)->children--;
        fv.live_pds--;
        free(pd);
    }
    fv_unlock();
    return busy ? EBUSY : 0;
}

/* A free key index; the key's low byte changes with every use of it. */
static int new_key(struct fv_mr *mr)
{
    static uint8_t uses[1 << 16];
    if (!fv.mrs) {
        fv.mrs = calloc(1 << 16, sizeof(struct fv_mr *));
        if (!fv.mrs)
            return ENOMEM;
    }
    if (fv.live_mrs >= fv.config.max_mr)
        return ENOMEM;
    for (uint32_t tried = 0; tried < 1 << 16; tried++) {
        uint32_t i = fv.n_mrs++ & 0xffff;
        if (i == 0 || fv.mrs[i])
            continue;
        mr->base.lkey = i << 8 | ++uses[i];
        mr->base.rkey = mr->base.lkey | RKEY_BIT;
        fv.mrs[i] = mr;
        return 0;
    }
    return ENOMEM;
}

static struct ibv_mr *reg(struct ibv_pd *base, void *addr, size_t length, uint64_t iova,
                          unsigned int access)
{
    struct fv_pd *pd = (struct fv_pd *)base;
    fv_control(FV_REG_MR);
    struct fv_mr *mr = calloc(1, sizeof *mr);
    if (!mr)
        return NULL;
    fv_lock();
    fv.counters[FV_REG]++;
    int err = 0;
    if (length == 0 || (access & ~(unsigned int)KNOWN_ACCESS) ||
        ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
         !(access & IBV_ACCESS_LOCAL_WRITE)))
        err = EINVAL;
    else if (fv.config.nomem && (long)fv.counters[FV_REG] == fv.config.nomem)
        err = ENOMEM;
    else
        err = new_key(mr);
    if (err == 0) {
        mr->base.context = base->context;
        mr->base.pd = base;
        mr->base.addr = addr;
        mr->base.length = length;
        mr->iova = iova;
        mr->access = access;
        pd->children++;
        fv.live_mrs++;
    }
    fv_unlock();
    if (err == 0)
        return &mr->base;
    free(mr);
    errno = err;
    return NULL;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return reg(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned int access)
{
    return reg(pd, addr, length, iova, access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access)
{
    fv_lock();
    int offered = fv.config.dmabuf != 0 && !fv_context_of(pd->context)->device->config->bare;
    fv_unlock();
    if (!offered) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    long page = 4096;
    uint64_t start = offset & ~(uint64_t)(page - 1);
    size_t bytes = length + (size_t)(offset - start);
    int file = fakegpu_file(fd);
    uint8_t *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)start);
    if (file >= 0)
        close(file);
    if (map == MAP_FAILED)
        return NULL;
    struct ibv_mr *mr = reg(pd, map + (offset - start), length, iova, (unsigned int)access);
    if (mr)
        ((struct fv_mr *)mr)->mapped = bytes, ((struct fv_mr *)mr)->map = map;
    else
        munmap(map, bytes);
    return mr;
}

/* Writes on their way from the device to a GPU's memory. */
static struct late {
    struct late *next;
    const struct fv_mr *mr;
    uint8_t *to;
    size_t length;
    uint8_t data[];
} * late, **last_late = &late;

static void settle(int wanted(const struct late *, const void *), const void *what, int write)
{
    struct late **at = &late;

    while (*at) {
        struct late *l = *at;
        if (!wanted(l, what)) {
            at = &l->next;
            continue;
        }
        if (write)
            fv_dma(l->to, l->data, l->length);
        *at = l->next;
        free(l);
    }
    last_late = at;
}

static int of_context(const struct late *l, const void *context)
{
    return l->mr->base.context == context;
}

static int of_mr(const struct late *l, const void *mr)
{
    return l->mr == mr;
}

void fv_mr_settle(const struct ibv_context *context)
{
    settle(of_context, context, 1);
}

static int uses(const struct ibv_sge *sge, int n, uint32_t lkey)
{
    for (int i = 0; i < n; i++)
        if (sge[i].length > 0 && sge[i].lkey == lkey)
            return 1;
    return 0;
}

static void dangles(const struct fv_mr *mr, const struct fv_qp *qp, const char *what,
                    uint64_t wr_id)
{
    fv.counters[FV_DANGLING]++;
    if (fv.config.strict)
        fv_die("ibv_dereg_mr of %p+%zu, which the %s request with wr_id %#llx on queue pair %u "
               "still uses",
               mr->base.addr, mr->base.length, what, (unsigned long long)wr_id, qp->base.qp_num);
}

/* Work in flight on a region that goes away fails or has already moved what nobody wanted moved. */
static void check_idle(const struct fv_mr *mr)
{
    for (int q = 0; q < fv.live_qps; q++) {
        const struct fv_qp *qp = fv.live[q];
        for (uint64_t i = qp->sq_acked; i < qp->sq_posted; i++) {
            const struct fv_swqe *w = &qp->sq[i % qp->cap.max_send_wr];
            if (!(w->flags & IBV_SEND_INLINE) && uses(w->sge, w->n_sge, mr->base.lkey))
                dangles(mr, qp, "send", w->wr_id);
        }
        for (uint64_t i = qp->rq_used; i < qp->rq_memory; i++) {
            const struct fv_rwqe *w = &qp->rq[i % qp->cap.max_recv_wr];
            if (uses(w->sge, w->n_sge, mr->base.lkey))
                dangles(mr, qp, "receive", w->wr_id);
        }
    }
}

int ibv_dereg_mr(struct ibv_mr *base)
{
    struct fv_mr *mr = (struct fv_mr *)base;
    fv_control(FV_DESTROY);
    fv_lock();
    uint32_t i = base->lkey >> 8;
    if (i >= 1 << 16 || fv.mrs[i] != mr)
        fv_die("ibv_dereg_mr of a memory region that does not exist");
    check_idle(mr);
    settle(of_mr, mr, 0);
    fv.mrs[i] = NULL;
    ((struct fv_pd *)base->pd)->children--;
    fv.live_mrs--;
    fv_unlock();
    if (mr->map)
        munmap(mr->map, mr->mapped);
    free(mr);
    return 0;
}

static struct fv_mr *find(struct ibv_pd *pd, uint32_t key, uint64_t addr, uint64_t length,
                          unsigned int access)
{
    struct fv_mr *mr = key >> 8 < 1 << 16 && fv.mrs ? fv.mrs[key >> 8] : NULL;
    if (!mr || mr->base.lkey != key || mr->base.pd != pd || (mr->access & access) != access)
        return NULL;
    return addr >= mr->iova && length <= mr->base.length &&
                   addr - mr->iova <= mr->base.length - length
               ? mr
               : NULL;
}

struct fv_mr *fv_mr_by_lkey(struct ibv_pd *pd, const struct ibv_sge *sge, unsigned int access)
{
    return find(pd, sge->lkey, sge->addr, sge->length, access);
}

uint8_t *fv_mr_by_rkey(struct ibv_pd *pd, uint32_t rkey, uint64_t addr, uint64_t length,
                       unsigned int access)
{
    if (!(rkey & RKEY_BIT))
        return NULL;
    struct fv_mr *mr = find(pd, rkey & ~RKEY_BIT, addr, length, access);
    return mr ? fv_mr_local(mr, addr) : NULL;
}

void fv_mr_write(uint32_t rkey, uint8_t *to, const void *from, size_t length)
{
    const struct fv_mr *mr = fv.mrs[(rkey & ~RKEY_BIT) >> 8];
    struct late *l = mr->map && fv.config.dmabuf == 2 ? malloc(sizeof *l + length) : NULL;

    if (!l) {
        fv_dma(to, from, length);
        return;
    }
    *l = (struct late){.mr = mr, .to = to, .length = length};
    memcpy(l->data, from, length);
    *last_late = l;
    last_late = &l->next;
}

uint8_t *fv_mr_local(const struct fv_mr *mr, uint64_t addr)
{
    return (uint8_t *)mr->base.addr + (addr - mr->iova);
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNSEEN __attribute__((no_sanitize("thread")))
#endif
#elif defined(__SANITIZE_THREAD__)
#define UNSEEN __attribute__((no_sanitize_thread))
#endif
#ifndef UNSEEN
#define UNSEEN
#endif

/* Sources have any alignment. */
struct any64 {
    uint64_t value;
} __attribute__((packed, may_alias));

UNSEEN void fv_dma(void *to, const void *from, size_t length)
{
    /* volatile: not to become a call of memcpy, which race detectors do see. */
    volatile uint8_t *t = to;
    const volatile uint8_t *f = from;
    for (; length > 0 && ((uintptr_t)t & 7); length--)
        *t++ = *f++;
    for (; length >= 8; length -= 8, t += 8, f += 8)
        ((volatile struct any64 *)t)->value = ((const volatile struct any64 *)f)->value;
    for (; length > 0; length--)
        *t++ = *f++;
    atomic_thread_fence(memory_order_release);
}
