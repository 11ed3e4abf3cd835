#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plugin/abi/nccl_abi.h"
#include "plugin/coll_ring.h"
#include "plugin/conn.h"
#include "plugin/fence.h"
#include "topo/base/log.h"

#define JOIN_MS 90000

/* --- life ------------------------------------------------------------------------------------- */

/* Connecting has no context of its own: what the listener was given serves both. */
struct listener {
    struct mn_net *net;
    int dev;
    void *listen_comm;
};

int mn_coll_listen(struct mn_net *net, int dev, void *handle, void **listen_comm)
{
    struct listener *l = calloc(1, sizeof *l);
    int result = ncclSystemError;

    *listen_comm = NULL;
    if (l) {
        *l = (struct listener){.net = net, .dev = dev};
        result = mn_net_listen(net, dev, handle, &l->listen_comm);
    }
    if (result)
        free(l);
    else
        *listen_comm = l;
    return result;
}

int mn_coll_close_listen(void *listen_comm)
{
    struct listener *l = listen_comm;
    int result = l ? mn_net_close_listen(l->listen_comm) : ncclSuccess;

    free(l);
    return result;
}

/* Both neighbours are asked in turn. The core bounds connecting; that the left one never comes is
 * noticed here. */
static int join_ring(struct mn_coll *coll, void *const handles[], const struct listener *l)
{
    uint64_t end = mn_now_ms() + JOIN_MS;
    char handle[MN_HANDLE_SIZE];
    int result = 0;

    memcpy(handle, handles[(coll->rank + 1) % coll->nranks], sizeof handle);
    while (!result && !(coll->send_comm && coll->recv_comm)) {
        if (!coll->send_comm)
            result = mn_net_connect(l->net, l->dev, -1, handle, &coll->send_comm);
        if (!result && !coll->recv_comm)
            result = mn_net_accept(l->listen_comm, &coll->recv_comm);
        if (!result && mn_now_ms() > end) {
            MN_WARN("collectives: rank %d of %d: rank %d did not connect within %d s", coll->rank,
                    coll->nranks, (coll->rank + coll->nranks - 1) % coll->nranks, JOIN_MS / 1000);
            result = ncclRemoteError;
        }
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return result;
}

int mn_coll_connect(void *const handles[], int nranks, int rank, void *listen_comm, void **out)
{
    struct mn_coll *coll;
    int result = ncclSuccess;

    *out = NULL;
    if (nranks < 1 || rank < 0 || rank >= nranks)
        return ncclInvalidArgument;
    coll = calloc(1, sizeof *coll);
    if (!coll)
        return ncclSystemError;
    coll->rank = rank;
    coll->nranks = nranks;
    coll->free_slots = (1u << COLL_SLOTS) - 1;
    coll->slots = aligned_alloc(4096, (size_t)COLL_SLOTS * COLL_CHUNK);
    if (!coll->slots)
        result = ncclSystemError;
    if (!result && nranks > 1)
        result = join_ring(coll, handles, listen_comm);
    if (!result && nranks > 1)
        result = mn_net_reg_mr(coll->send_comm, coll->slots, (size_t)COLL_SLOTS * COLL_CHUNK,
                               NCCL_PTR_HOST, &coll->slots_send);
    if (!result && nranks > 1)
        result = mn_net_reg_mr(coll->recv_comm, coll->slots, (size_t)COLL_SLOTS * COLL_CHUNK,
                               NCCL_PTR_HOST, &coll->slots_recv);
    if (result)
        mn_coll_close(coll);
    else
        *out = coll;
    return result;
}

int mn_coll_close(void *comm)
{
    struct mn_coll *coll = comm;

    if (!coll)
        return ncclSuccess;
    if (coll->slots_send)
        mn_net_dereg_mr(coll->send_comm, coll->slots_send);
    if (coll->slots_recv)
        mn_net_dereg_mr(coll->recv_comm, coll->slots_recv);
    mn_net_close_send(coll->send_comm);
    mn_net_close_recv(coll->recv_comm);
    free(coll->slots);
    free(coll);
    return ncclSuccess;
}

int mn_coll_reduce_support(int type, int op, int *supported)
{
    *supported = mn_reduce_kernel(type, op) != NULL;
    return ncclSuccess;
}

int mn_coll_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
    struct mn_coll *coll = comm;
    struct coll_mr *mr = calloc(1, sizeof *mr);
    int result = mr ? ncclSuccess : ncclSystemError;

    *mhandle = NULL;
    if (!result && coll->nranks > 1)
        result = mn_net_reg_mr(coll->send_comm, data, size, type, &mr->send);
    if (!result && coll->nranks > 1) {
        result = mn_net_reg_mr(coll->recv_comm, data, size, type, &mr->recv);
        if (result)
            mn_net_dereg_mr(coll->send_comm, mr->send);
    }
    if (result)
        free(mr);
    else
        *mhandle = mr;
    return result;
}

int mn_coll_dereg_mr(void *comm, void *mhandle)
{
    struct mn_coll *coll = comm;
    struct coll_mr *mr = mhandle;
    int result = ncclSuccess;

    if (!mr)
        return ncclSuccess;
    if (coll->nranks > 1) {
        int other = mn_net_dereg_mr(coll->send_comm, mr->send);
        result = mn_net_dereg_mr(coll->recv_comm, mr->recv);
        result = result ? result : other;
    }
    free(mr);
    return result;
}

/* --- operations ------------------------------------------------------------------------------- */

static struct coll_op *op_new(struct mn_coll *coll)
{
    struct coll_op *op = &coll->ops[coll->posted % MN_COLL_REQUESTS];

    if (op->used)
        return NULL;
    mn_read_fence(); /* as in mn_net_isend(): sums are the processor's */
    *op = (struct coll_op){.coll = coll, .used = 1, .element = 1};
    return op;
}

static void advance(struct mn_coll *coll)
{
    while (!coll->error && coll->finished != coll->posted) {
        const struct coll_op *turn = &coll->ops[coll->finished % MN_COLL_REQUESTS];
        coll->error = coll_ring_advance(coll);
        if (!turn->done)
            return;
        coll->finished++;
    }
}

static int op_post(struct coll_op *op, void **request)
{
    struct mn_coll *coll = op->coll;

    coll_ring_begin(op);
    coll->posted++;
    *request = op;
    advance(coll);
    return coll->error;
}

int mn_coll_allreduce(void *comm, struct mn_coll_part send, struct mn_coll_part recv, int type,
                      int redop, void **request)
{
    struct mn_coll *coll = comm;
    mn_reduce_fn *reduce = mn_reduce_kernel(type, redop);
    size_t element = mn_type_size(type);

    *request = NULL;
    if (coll->error)
        return coll->error;
    if (!reduce || send.size != recv.size || send.size % element || send.size > MN_COLL_MAX_BYTES)
        return ncclInvalidArgument;
    struct coll_op *op = op_new(coll);
    if (!op)
        return ncclSuccess;
    size_t count = send.size / element, n = (size_t)coll->nranks;
    op->reducing = op->gathering = coll->nranks - 1;
    op->first = coll->rank;
    op->reduce = reduce;
    op->element = element;
    op->block = (count + n - 1) / n * element;
    op->bytes = send.size;
    op->in = send.data;
    op->in_mhandle = send.mhandle;
    op->out = recv.data;
    op->out_mhandle = recv.mhandle;
    op->result = (int)send.size;
    if (coll->nranks == 1 && send.data != recv.data)
        memcpy(recv.data, send.data, send.size);
    return op_post(op, request);
}

static int bad_window(const struct mn_coll *coll, struct mn_coll_part whole, size_t block,
                      size_t offset, size_t bytes)
{
    size_t n = (size_t)coll->nranks;

    return bytes > MN_COLL_MAX_BYTES || block > SIZE_MAX / n || offset > n * block ||
           bytes > n * block - offset || whole.size < bytes;
}

int mn_coll_allgather(void *comm, struct mn_coll_part own, struct mn_coll_part whole,
                      size_t bytes_per_rank, size_t offset, size_t bytes, void **request)
{
    struct mn_coll *coll = comm;
    size_t start, length;

    *request = NULL;
    if (coll->error)
        return coll->error;
    if (bad_window(coll, whole, bytes_per_rank, offset, bytes))
        return ncclInvalidArgument;
    struct coll_op *op = op_new(coll);
    if (!op)
        return ncclSuccess;
    op->gathering = coll->nranks - 1;
    op->first = coll->rank;
    op->block = bytes_per_rank;
    op->window = offset;
    op->bytes = bytes;
    op->in = own.data;
    op->in_mhandle = own.mhandle;
    op->out = whole.data;
    op->out_mhandle = whole.mhandle;
    op->result = (int)bytes;
    start = coll_slice(op, coll->rank, &length);
    if (length && op->out + start != op->in)
        memmove(op->out + start, op->in, length);
    return op_post(op, request);
}

int mn_coll_reducescatter(void *comm, struct mn_coll_part whole, struct mn_coll_part own,
                          size_t bytes_per_rank, size_t offset, size_t bytes, int type, int redop,
                          void **request)
{
    struct mn_coll *coll = comm;
    mn_reduce_fn *reduce = mn_reduce_kernel(type, redop);
    size_t element = mn_type_size(type), start, length;

    *request = NULL;
    if (coll->error)
        return coll->error;
    if (!reduce || bad_window(coll, whole, bytes_per_rank, offset, bytes) ||
        bytes_per_rank % element || offset % element || bytes % element)
        return ncclInvalidArgument;
    struct coll_op *op = op_new(coll);
    if (!op)
        return ncclSuccess;
    op->reducing = coll->nranks - 1;
    op->first = (coll->rank + coll->nranks - 1) % coll->nranks;
    op->reduce = reduce;
    op->element = element;
    op->block = bytes_per_rank;
    op->window = offset;
    op->bytes = bytes;
    op->in = whole.data;
    op->in_mhandle = whole.mhandle;
    op->out = own.data;
    op->out_mhandle = own.mhandle;
    start = coll_slice(op, coll->rank, &length);
    op->result = (int)length;
    if (coll->nranks == 1 && length && op->out != op->in + start)
        memmove(op->out, op->in + start, length);
    return op_post(op, request);
}

int mn_coll_test(void *request, int *done, int *size)
{
    struct coll_op *op = request;
    struct mn_coll *coll = op->coll;

    *done = 0;
    if (!op->done)
        advance(coll);
    if (!op->done)
        return coll->error;
    *done = 1;
    if (size)
        *size = op->result;
    op->used = 0;
    return ncclSuccess;
}
