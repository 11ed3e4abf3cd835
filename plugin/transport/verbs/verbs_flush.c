/* Flushes: what a NIC wrote into GPU memory is visible to the GPU once a read that followed it on
 * the same way has come back (PCI Express ordering; NCCL src/transport/net_ib/p2p.cc does the
 * same). Every link has a device of its own and so needs a read of its own: a queue pair connected
 * to itself fetches a byte from the memory received into, on each link that delivered bytes.
 *
 * On AMD GPUs a page of GPU memory is written and read back instead, as AMD's own plugin does, and
 * no memory is registered with relaxed ordering: its reads may pass writes. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/gpu.h"
#include "plugin/transport/verbs/pages.h"
#include "plugin/transport/verbs/verbs.h"
#include "topo/base/log.h"

#define READS 8 /* of a link under way; further flushes wait for the next */
#define PAGE  ((size_t)64 << 10)

#define LANDING    64
#define HUNG_TIMES 4 /* as for writes */

struct flusher {
    struct ibv_cq *cq;
    struct verbs_qp qp; /* to itself */
    struct ibv_mr *mr;  /* of landing */
    uint64_t address;   /* what the next read fetches */
    uint32_t rkey;
    uint32_t wanted, covered, done; /* flushes asked for; by a read that is posted; finished */
    unsigned under_way;
};

struct verbs_flushing {
    struct flusher links[VERBS_LINKS];
    struct verbs_flush flushes[VERBS_SLOTS];
    unsigned next;
    uint64_t *landing; /* LANDING bytes that were read; nobody looks at them */
    int disabled;
    /* AMD */
    void *page;
    int gpu;
    struct verbs_memory *page_memory;
};

/* --- making ----------------------------------------------------------------------------------- */

static enum mn_err make_flusher(struct verbs_comm *comm, struct verbs_flushing *f, int i,
                                struct mn_diag *diag)
{
    struct verbs_link *link = &comm->links[i];
    struct flusher *own = &f->links[i];
    const struct mn_ibv *ibv = link->device->ibv;

    own->cq = ibv->create_cq(link->device->context, 2 * READS, &link->watch, NULL, 0);
    own->mr = ibv->reg_mr(link->device->pd, f->landing, LANDING, IBV_ACCESS_LOCAL_WRITE);
    if (!own->cq || !own->mr)
        return mn_fail_errno(diag, "making a queue to flush GPU memory on %s", link->device->name);
    struct ibv_qp_init_attr init = {
        .qp_context = &link->watch,
        .send_cq = own->cq,
        .recv_cq = own->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 2 * READS, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };
    own->qp.qp = ibv->create_qp(link->device->pd, &init);
    if (!own->qp.qp)
        return mn_fail_errno(diag, "making a queue pair to flush GPU memory on %s",
                             link->device->name);
    own->qp.number = own->qp.peer_number = own->qp.qp->qp_num;
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT,
                             .pkey_index = (uint16_t)comm->config->settings.partition,
                             .port_num = link->self.port,
                             .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                                IBV_ACCESS_REMOTE_READ};
    int error =
        ibv->modify_qp(own->qp.qp, &to,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (!error)
        error = verbs_qp_ready(comm, link, &link->self, &own->qp);
    if (!error)
        return MN_OK;
    errno = error;
    return mn_fail_errno(diag, "connecting %s port %u (%s) to itself to flush GPU memory",
                         link->device->name, link->self.port, link->from);
}

/* The page for AMD's rule. Without it the memory itself is read, as on NVIDIA's GPUs. */
static void make_page(struct verbs_comm *comm, struct verbs_flushing *f, const void *data)
{
    const struct mn_gpu_driver *hip = &mn_gpu_hip;
    struct mn_gpu_place place;
    struct mn_diag diag;
    uint64_t offset = 0;
    int fd = -1;

    if (hip->open(0, NULL) || hip->where(data, &place, NULL) || place.kind != MN_GPU_DEVICE)
        return;
    f->gpu = place.device;
    enum mn_err err = hip->alloc(f->gpu, MN_GPU_DEVICE, PAGE, &f->page, &diag);
    if (err)
        f->page = NULL;
    /* By its address where it cannot be exported but a peer memory module is there. */
    if (!err && comm->config->pointers & NCCL_PTR_DMABUF)
        err = hip->dmabuf(f->gpu, f->page, PAGE, &fd, &offset, &diag);
    if (f->page && fd < 0 && comm->config->pointers & NCCL_PTR_CUDA)
        err = MN_OK;
    if (!err)
        err = verbs_memory_get(comm->devices, f->page, PAGE, NCCL_PTR_CUDA, 0, fd, offset, 0,
                               &f->page_memory, &diag);
    if (fd >= 0)
        close(fd);
    if (err) {
        f->page_memory = NULL;
        MN_INFO("peer %s: flushes read the received memory itself: %s", comm->peer, diag.text);
    }
}

static void unmake(struct verbs_comm *comm, struct verbs_flushing *f)
{
    for (int i = 0; i < comm->n_links; i++) {
        const struct mn_ibv *ibv = comm->links[i].device ? comm->links[i].device->ibv : NULL;
        if (f->links[i].qp.qp)
            ibv->destroy_qp(f->links[i].qp.qp);
        if (f->links[i].cq)
            ibv->destroy_cq(f->links[i].cq);
        if (f->links[i].mr)
            ibv->dereg_mr(f->links[i].mr);
    }
    if (f->page_memory)
        (void)verbs_memory_put(f->page_memory, NULL);
    if (f->page)
        (void)mn_gpu_hip.free(f->gpu, f->page, NULL);
    verbs_pages_free(f->landing, LANDING);
    free(f);
}

enum mn_err verbs_flush_prepare(struct verbs_comm *comm, void *data, struct mn_diag *diag)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const char *disable = getenv("NCCL_GDR_FLUSH_DISABLE");
    enum mn_err err = MN_OK;

    pthread_mutex_lock(&lock);
    if (!atomic_load(&comm->flushing)) {
        struct verbs_flushing *f = calloc(1, sizeof *f);
        if (f)
            f->landing = verbs_pages_new(LANDING);
        if (!f || !f->landing)
            err = mn_fail(diag, MN_ERR_NOMEM, "no memory to flush GPU memory");
        else if (disable && atoi(disable))
            f->disabled = 1;
        else
            make_page(comm, f, data);
        for (int i = 0; i < comm->n_links && !err && !f->disabled; i++)
            err = make_flusher(comm, f, i, diag);
        if (f && err)
            unmake(comm, f);
        else
            atomic_store(&comm->flushing, f);
    }
    pthread_mutex_unlock(&lock);
    return err;
}

void verbs_flush_free(struct verbs_comm *comm)
{
    struct verbs_flushing *f = atomic_load(&comm->flushing);

    if (f)
        unmake(comm, f);
}

/* --- the data path ---------------------------------------------------------------------------- */

static enum mn_err post(struct verbs_comm *comm, struct verbs_flushing *f, int i)
{
    struct flusher *own = &f->links[i];
    struct ibv_sge sge = {.addr = (uintptr_t)f->landing, .length = 1, .lkey = own->mr->lkey};
    struct ibv_send_wr *bad,
        read =
            {
                .wr_id = own->wanted,
                .sg_list = &sge,
                .num_sge = 1,
                .opcode = IBV_WR_RDMA_READ,
                .send_flags = IBV_SEND_SIGNALED,
                .wr.rdma = {own->address, own->rkey},
            },
        write = read;

    write.next = &read;
    write.opcode = IBV_WR_RDMA_WRITE;
    write.send_flags = 0;
    int error = ibv_post_send(own->qp.qp, f->page_memory ? &write : &read, &bad);
    if (error)
        return verbs_fail(comm, i, MN_ERR_SYS, "posting a flush of GPU memory: %s",
                          strerror(error));
    own->covered = own->wanted;
    own->under_way++;
    return MN_OK;
}

static enum mn_err poll(struct verbs_comm *comm, struct verbs_flushing *f, int i)
{
    struct flusher *own = &f->links[i];
    struct ibv_wc wcs[READS];
    /* The read went to the GPU's memory behind the writes before it; its completion's barrier is
     * the provider's. */
    int n = own->under_way ? ibv_poll_cq(own->cq, READS, wcs) : 0;

    if (n < 0)
        return verbs_fail(comm, i, MN_ERR_SYS, "the completion queue of flushes cannot be read");
    for (int k = 0; k < n; k++) {
        if (wcs[k].status != IBV_WC_SUCCESS)
            return verbs_fail(comm, i, MN_ERR_LINK_DEAD,
                              "a flush of GPU memory failed (completion status %d, vendor 0x%x)",
                              (int)wcs[k].status, wcs[k].vendor_err);
        own->done = (uint32_t)wcs[k].wr_id;
        own->under_way--;
    }
    return own->covered != own->wanted && own->under_way < READS ? post(comm, f, i) : MN_OK;
}

enum mn_err verbs_flush(struct mn_comm *base, void *data, void *mhandle,
                        struct mn_request **request)
{
    struct verbs_comm *comm = (struct verbs_comm *)base;
    struct verbs_flushing *f = atomic_load_explicit(&comm->flushing, memory_order_acquire);
    const struct verbs_memory *memory = mhandle, *read = memory;
    enum mn_err err = MN_OK;
    int waits = 0;

    *request = NULL;
    if (!f || f->disabled || memory->type == NCCL_PTR_HOST)
        return MN_OK;
    if (!verbs_covers(comm, memory, data, 1))
        return verbs_fail(comm, -1, MN_ERR_USAGE, "a flush of %p is outside the registered memory",
                          data);
    struct verbs_flush *flush = &f->flushes[f->next % VERBS_SLOTS];
    if (flush->posted)
        return verbs_fail(comm, -1, MN_ERR_USAGE, "more than %d flushes at once", VERBS_SLOTS);
    if (f->page_memory) {
        read = f->page_memory;
        data = f->page;
    }
    for (int i = 0; i < comm->n_links && !err; i++) {
        struct flusher *own = &f->links[i];
        if (comm->delivered >> i & 1) {
            own->address = (uintptr_t)data;
            own->rkey = read->mrs[comm->links[i].device->index]->rkey;
            own->wanted++;
            err = poll(comm, f, i);
        }
        flush->target[i] = own->wanted;
        waits |= own->done != own->wanted;
    }
    comm->delivered = 0;
    if (err || !waits)
        return err;
    flush->base.comm = base;
    flush->posted = 1;
    flush->since_ms = 0;
    f->next++;
    *request = &flush->base;
    return MN_OK;
}

int verbs_is_flush(struct verbs_comm *comm, const struct mn_request *request)
{
    const struct verbs_flushing *f = atomic_load_explicit(&comm->flushing, memory_order_acquire);
    const uint8_t *at = (const uint8_t *)request;

    return f && at >= (const uint8_t *)f->flushes &&
           at < (const uint8_t *)(f->flushes + VERBS_SLOTS);
}

/* What has arrived is flushed though its sender has closed or died since: the reads need no peer.
 */
enum mn_err verbs_flush_test(struct verbs_comm *comm, struct verbs_flush *flush, int *done)
{
    struct verbs_flushing *f = atomic_load_explicit(&comm->flushing, memory_order_acquire);
    enum mn_err err = MN_OK;
    int waits = 0;

    *done = 0;
    for (int i = 0; i < comm->n_links && !err; i++) {
        struct flusher *own = &f->links[i];
        if ((int32_t)(own->done - flush->target[i]) < 0)
            err = poll(comm, f, i);
        waits |= (int32_t)(own->done - flush->target[i]) < 0;
    }
    if (err)
        return err;
    if (!waits) {
        *done = 1;
        flush->posted = 0;
        return MN_OK;
    }
    /* Ports and devices are looked at; what the peer does is no matter here. */
    if (!verbs_error(comm))
        (void)verbs_idle(comm);
    uint64_t now = mn_now_ms();
    if (!flush->since_ms)
        flush->since_ms = now;
    if (now - flush->since_ms <= HUNG_TIMES * comm->config->settings.rdma_silence_ms)
        return MN_OK;
    return verbs_fail(comm, -1, MN_ERR_LINK_DEAD,
                      "the device has not read GPU memory back for %u s, as a flush asks",
                      HUNG_TIMES * comm->config->settings.rdma_silence_ms / 1000);
}
