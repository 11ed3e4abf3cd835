/* The scheduler: runs inside verbs calls, with the lock held. A queue pair is on the list while it
 * may have something to do; its peer puts it there by a bell in the arena. */
#include "tests/fakeverbs/fv.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void fv_activate(struct fv_qp *qp)
{
    if (qp->active)
        return;
    fv.active[fv.n_active++] = qp;
    qp->active = fv.n_active;
}

void fv_deactivate(struct fv_qp *qp)
{
    if (!qp->active)
        return;
    struct fv_qp *last = fv.active[--fv.n_active];
    fv.active[qp->active - 1] = last;
    last->active = qp->active;
    qp->active = 0;
}

void fv_bell(struct fv_wire *wire)
{
    uint32_t owner = atomic_load(&wire->owner), slot = (uint32_t)(wire - fv.arena->wires);
    if (!owner) /* gone since it was looked at */
        return;
    struct fv_proc *proc = &fv.arena->procs[owner - 1];
    atomic_fetch_or(&proc->bells[slot / 64], 1ull << slot % 64);
    atomic_fetch_or(&proc->bell, 1ull << slot / 64);
    if (proc != fv.proc && atomic_load(&proc->sleeping))
        fv_helper_wake(proc);
}

static void answer_bells(void)
{
    if (atomic_load_explicit(&fv.proc->bell, memory_order_relaxed) == 0)
        return;
    uint64_t words = atomic_exchange(&fv.proc->bell, 0);
    for (; words; words &= words - 1) {
        int w = __builtin_ctzll(words);
        uint64_t bits = atomic_exchange(&fv.proc->bells[w], 0);
        for (; bits; bits &= bits - 1) {
            struct fv_qp *qp = fv.qps[w * 64 + __builtin_ctzll(bits)];
            if (qp)
                fv_activate(qp);
        }
    }
}

struct fv_wire *fv_peer(const struct fv_qp *qp)
{
    return &fv.arena->wires[qp->attr.dest_qp_num & (FV_SLOTS - 1)];
}

static int same_gid(const union ibv_gid *a, const union ibv_gid *b)
{
    return memcmp(a->raw, b->raw, sizeof a->raw) == 0;
}

int fv_passes(const struct fv_wire *from, const struct fv_wire *to)
{
    return !(atomic_load(&from->lost) & FV_LOST_OUT) && !(atomic_load(&to->lost) & FV_LOST_IN);
}

struct fv_wire *fv_datagram_to(const struct fv_qp *qp, const struct fv_swqe *w)
{
    struct fv_wire *peer = &fv.arena->wires[w->dest_qpn & (FV_SLOTS - 1)];
    uint32_t state = atomic_load_explicit(&peer->state, memory_order_acquire);
    if (atomic_load(&peer->qpn) != w->dest_qpn || peer->type != IBV_QPT_UD ||
        (state != IBV_QPS_RTR && state != IBV_QPS_RTS) || !atomic_load(&peer->link_up) ||
        !atomic_load(&qp->wire->link_up) || !fv_passes(qp->wire, peer))
        return NULL;
    uint32_t owner = atomic_load(&peer->owner);
    return owner && fv_gid_of(&fv.arena->procs[owner - 1], &w->dgid) ? peer : NULL;
}

struct fv_wire *fv_reachable(const struct fv_qp *qp)
{
    struct fv_wire *peer = fv_peer(qp);
    const struct fv_wire *wire = qp->wire;
    uint32_t state = atomic_load_explicit(&peer->state, memory_order_acquire);
    if (fv.muted ||
        atomic_load_explicit(&peer->qpn, memory_order_acquire) != qp->attr.dest_qp_num ||
        (state != IBV_QPS_RTR && state != IBV_QPS_RTS) || !atomic_load(&peer->link_up) ||
        !atomic_load(&wire->link_up) || !fv_passes(wire, peer))
        return NULL;
    return peer->type == wire->type && peer->dest_qpn == qp->base.qp_num &&
                   peer->rq_psn == wire->sq_psn && peer->path_mtu == wire->path_mtu &&
                   peer->gid_type == wire->gid_type && same_gid(&peer->dgid, &wire->sgid) &&
                   same_gid(&peer->sgid, &wire->dgid)
               ? peer
               : NULL;
}

uint64_t fv_ready(struct fv_qp *qp)
{
    return fv.config.delay ? fv.tick + fv_below(&qp->rng, (uint64_t)fv.config.delay + 1) : 0;
}

/* The finished work at the front of either queue. */
static int release_step(struct fv_qp *qp)
{
    int moved = 0, waits = qp->lingers > fv.tick;
    if (qp->lingers && !waits)
        fv_qp_flush_receives(qp);
    while (qp->sq_released < qp->sq_acked) {
        const struct fv_swqe *w = &qp->sq[qp->sq_released % qp->cap.max_send_wr];
        if (w->status == IBV_WC_SUCCESS && !(w->flags & IBV_SEND_SIGNALED)) {
            qp->sq_released++;
            continue;
        }
        if (w->ready > fv.tick) {
            waits = 1;
            break;
        }
        static const enum ibv_wc_opcode opcodes[] = {
            [IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
            [IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
            [IBV_WR_SEND] = IBV_WC_SEND,
            [IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
            [IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
        };
        struct ibv_wc wc = {.wr_id = w->wr_id, .status = w->status, .opcode = opcodes[w->opcode]};
        if (w->opcode == IBV_WR_RDMA_READ)
            wc.byte_len = (uint32_t)w->length;
        fv_cq_put((struct fv_cq *)qp->base.send_cq, qp, &wc, 1, qp->sq_released++, 0);
        moved = 1;
    }
    while (qp->rq_released < qp->rq_used) {
        const struct fv_rwqe *w = &qp->rq[qp->rq_released % qp->cap.max_recv_wr];
        if (w->ready > fv.tick) {
            waits = 1;
            break;
        }
        fv_cq_put((struct fv_cq *)qp->base.recv_cq, qp, &w->wc, 0, qp->rq_released++, w->solicited);
        moved = 1;
    }
    return moved ? 1 : waits ? -1 : 0;
}

/* 1 something moved, 0 idle, -1 waits for time or for others. */
static int step(struct fv_qp *qp)
{
    static int (*const steps[])(struct fv_qp *) = {fv_answer_step, fv_request_step, fv_send_step,
                                                   release_step};
    enum { N = sizeof steps / sizeof *steps };
    int first = fv.config.reorder ? (int)fv_below(&qp->rng, N) : 0, moved = 0, waits = 0;
    for (int i = 0; i < N; i++) {
        int did = steps[(first + i) % N](qp);
        moved |= did > 0;
        waits |= did < 0;
        if (moved && fv.config.reorder)
            break; /* one small thing, then another queue pair's turn */
    }
    return moved ? 1 : waits ? -1 : 0;
}

uint64_t fv_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* How long a queue pair tries: calls in a fabric of one process, which has no clock, and ns with
 * several, as the attributes say but not for ever. */
static uint64_t patience(const struct fv_qp *qp)
{
    const uint64_t least = 10000000u, most = 60000000000u;
    if (!fv_is_shared())
        return (uint64_t)fv.config.timeout;
    if (qp->attr.timeout == 0)
        return most;
    uint64_t ns = (4096ull << qp->attr.timeout) * (qp->attr.retry_cnt + 1u);
    return ns < least ? least : ns > most ? most : ns;
}

/* Work that waits for a peer that cannot be reached fails after a while. */
static void watch(struct fv_qp *qp, uint64_t now)
{
    if (qp->base.qp_type != IBV_QPT_RC || qp->base.state != IBV_QPS_RTS ||
        qp->sq_acked == qp->sq_posted || (fv_reachable(qp) && fv_passes(fv_peer(qp), qp->wire))) {
        qp->lost_since = 0;
        return;
    }
    if (qp->lost_since == 0)
        qp->lost_since = now;
    else if (now - qp->lost_since >= patience(qp))
        fv_send_fail(qp, IBV_WC_RETRY_EXC_ERR);
}

/* Whether such a file is there, and the words in it: "" for all devices. */
static int words_of(const char *path, char words[256])
{
    int fd = *path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, words, 255);
    words[n > 0 ? n : 0] = '\0';
    close(fd);
    return 1;
}

static int has_word(const char *words, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = words; (at = strstr(at, name)); at += len)
        if ((at == words || at[-1] <= ' ') && at[len] <= ' ')
            return 1;
    return 0;
}

/* What files say of the cables. */
static void look_at_files(uint64_t now)
{
    const struct fv_config *c = &fv.config;
    if (now - fv.files_seen < 10000000u)
        return;
    fv.files_seen = now;
    char words[256] = "";
    int was = fv.muted, there = words_of(c->muted, words);
    fv.muted = there && !*words;
    for (int i = 0; i < fv.live_qps && was && !fv.muted; i++)
        fv_activate(fv.live[i]);
    for (int i = 0; i < c->n_devices && *c->muted; i++) {
        fv.config.devices[i].lost =
            there && has_word(words, c->devices[i].name) ? FV_LOST_IN | FV_LOST_OUT : 0;
        fv_loss_set(&fv.devices[i]);
    }
    *words = '\0';
    there = words_of(c->pulled, words);
    for (int i = 0; i < c->n_devices && *c->pulled; i++) {
        int pulled = there && (!*words || has_word(words, c->devices[i].name));
        fv_port_set(&fv.devices[i], !pulled && !c->devices[i].down);
    }
}

void fv_watch(void)
{
    uint64_t now = fv_is_shared() ? fv_now() : fv.tick;
    fv.watched = fv.tick;
    if (fv_is_shared() && (*fv.config.pulled || *fv.config.muted))
        look_at_files(now);
    for (int i = 0; i < fv.config.n_devices; i++) {
        struct fv_device *device = &fv.devices[i];
        if (device->up_at && fv.tick >= device->up_at) {
            device->up_at = 0;
            fv_port_set(device, 1);
        }
    }
    if (fv_is_shared() && now - fv.buried > 50000000u) {
        fv.buried = now;
        fv_bury();
    }
    for (int i = 0; i < fv.live_qps && !fv.silent; i++)
        watch(fv.live[i], now);
}

void fv_run(void)
{
    if (++fv.tick - fv.watched >= 16)
        fv_watch();
    answer_bells();
    int still = 0;
    for (long n = 0; n < fv.config.steps && fv.n_active > 0 && still < fv.n_active; n++) {
        int at = fv.config.reorder ? (int)fv_below(&fv.rng, (uint64_t)fv.n_active)
                                   : fv.cursor++ % fv.n_active;
        struct fv_qp *qp = fv.active[at];
        int did = step(qp);
        still = did > 0 ? 0 : did < 0 ? still + 1 : still;
        if (did == 0)
            fv_deactivate(qp);
        answer_bells();
    }
    /* Whoever called may sleep from now on. */
    if (fv.channels > 0 && fv.n_active > 0)
        fv_helper_wake(fv.proc);
}
