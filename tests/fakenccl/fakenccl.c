#include "tests/fakenccl/fakenccl.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plugin/reduce.h"

#define X(member, symbol, parameters) ncclResult_t symbol parameters;
MN_NCCL_FUNCTIONS(X)
#undef X
const char *ncclGetErrorString(ncclResult_t result);

#define RANKS  8
#define PIECES 64
#define ROOM   ((size_t)64 << 20)
#define WAIT_S 20

/* What a rank gives the others in a step. */
struct slot {
    char host[96];
    int device, n;
    struct piece {
        int to; /* -1: all */
        size_t at, bytes;
    } pieces[PIECES];
    _Alignas(4096) uint8_t data[ROOM];
};

struct shared {
    atomic_int here, round;
    struct slot slots[RANKS];
};

struct ncclComm {
    struct shared *shared;
    char name[64], network[64];
    int rank, nranks, device;
    ncclResult_t failed;
    size_t used;
};

static struct {
    int depth, n;
    struct ncclComm *comm;
    struct operation {
        int sending, peer;
        void *data;
        size_t bytes;
    } operations[2 * PIECES];
} group;

static int at_fault(const struct ncclComm *comm)
{
    return fakenccl()->rank < 0 || fakenccl()->rank == comm->rank;
}

static void stay(void)
{
    for (;;)
        pause();
}

static ncclResult_t meet(struct ncclComm *comm)
{
    struct shared *s = comm->shared;
    int round = atomic_load(&s->round);

    if (atomic_fetch_add(&s->here, 1) + 1 == comm->nranks) {
        atomic_store(&s->here, 0);
        atomic_fetch_add(&s->round, 1);
        return ncclSuccess;
    }
    for (int i = 0; i < WAIT_S * 20000; i++) {
        if (atomic_load(&s->round) != round)
            return ncclSuccess;
        usleep(50);
    }
    return ncclRemoteError;
}

/* --- communicators ---------------------------------------------------------------------------- */

ncclResult_t ncclGetVersion(int *version)
{
    *version = (int)fakenccl()->version;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclInvalidUsage ? "invalid usage" : "unhandled system error";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    int fd = memfd_create("fakenccl", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, sizeof(struct shared)))
        return ncclSystemError;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "/proc/%d/fd/%d", (int)getpid(), fd);
    return ncclSuccess;
}

/* Ranks of one host may not share a GPU. */
static ncclResult_t compare(struct ncclComm *comm)
{
    for (int a = 0; a < comm->nranks; a++)
        for (int b = 0; b < a; b++) {
            const struct slot *x = &comm->shared->slots[a], *y = &comm->shared->slots[b];
            int together = !strcmp(x->host, y->host);
            if (together && x->device == y->device) {
                fakenccl_log(
                    "WARN Duplicate GPU detected : rank %d and rank %d both on CUDA device "
                    "1a000",
                    b, a);
                return ncclInvalidUsage;
            }
            if (a != comm->rank && b != comm->rank)
                continue;
            if (!fakenccl()->shy)
                fakenccl_log("INFO Channel 00/0 : %d[0] -> %d[0] %s%s%s", comm->rank,
                             a + b - comm->rank, together ? "via P2P/CUMEM" : "[send] via NET/",
                             together ? "" : comm->network, together ? "" : "/0");
        }
    return ncclSuccess;
}

static ncclResult_t open_shared(struct ncclComm *comm)
{
    int fd = open(comm->name, O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return ncclSystemError;
    comm->shared = mmap(NULL, sizeof *comm->shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return comm->shared == MAP_FAILED ? ncclSystemError : ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *result, int nranks, ncclUniqueId id, int rank)
{
    struct ncclComm *comm = calloc(1, sizeof *comm);
    const char *host = getenv("NCCL_HOSTID");

    if (!comm || nranks > RANKS)
        abort();
    comm->rank = rank;
    comm->nranks = nranks;
    comm->device = fakenccl_device();
    snprintf(comm->name, sizeof comm->name, "%.63s", id.internal);
    if (at_fault(comm) && fakenccl()->init) {
        fakenccl_log("WARN Cuda failure 35 'CUDA driver version is insufficient for CUDA runtime "
                     "version'");
        free(comm);
        return (ncclResult_t)fakenccl()->init;
    }
    if (at_fault(comm) && fakenccl()->hang == 1)
        stay();
    ncclResult_t err = fakenccl_network(comm->network, sizeof comm->network);
    if (!err)
        err = open_shared(comm);
    if (!err) {
        struct slot *slot = &comm->shared->slots[rank];
        snprintf(slot->host, sizeof slot->host, "%s", host ? host : "here");
        slot->device = comm->device;
        err = meet(comm);
    }
    if (!err)
        err = compare(comm);
    *result = comm;
    return err;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (at_fault(comm) && fakenccl()->hang == 3)
        stay();
    munmap(comm->shared, sizeof *comm->shared);
    free(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    *error = at_fault(comm) ? (ncclResult_t)fakenccl()->async : ncclSuccess;
    return ncclSuccess;
}

/* --- a step: each gives, all meet, each takes, all meet --------------------------------------- */

static ncclResult_t give(struct ncclComm *comm, int to, const void *data, size_t bytes)
{
    struct slot *slot = &comm->shared->slots[comm->rank];

    if (slot->n == PIECES || bytes > ROOM - comm->used)
        return ncclInvalidArgument;
    if (bytes && fakenccl_copy(slot->data + comm->used, data, bytes))
        return ncclUnhandledCudaError;
    slot->pieces[slot->n++] = (struct piece){to, comm->used, bytes};
    comm->used += bytes;
    return ncclSuccess;
}

/* The k-th that a rank gave to this one. */
static const uint8_t *given(const struct ncclComm *comm, int from, int k, size_t bytes)
{
    const struct slot *slot = &comm->shared->slots[from];

    for (int i = 0; i < slot->n; i++)
        if ((slot->pieces[i].to == comm->rank || slot->pieces[i].to < 0) && !k--)
            return slot->pieces[i].bytes == bytes ? slot->data + slot->pieces[i].at : NULL;
    return NULL;
}

static ncclResult_t take(const struct ncclComm *comm, int from, int k, void *to, size_t bytes)
{
    const uint8_t *data = given(comm, from, k, bytes);

    return !data                                     ? ncclInvalidArgument
           : bytes && fakenccl_copy(to, data, bytes) ? ncclUnhandledCudaError
                                                     : ncclSuccess;
}

static ncclResult_t begin(struct ncclComm *comm, cudaStream_t stream)
{
    if (!stream || fakenccl_device() != comm->device)
        return ncclInvalidArgument; /* a call with another GPU current */
    if (at_fault(comm) && fakenccl()->call) {
        fakenccl_log("WARN Call to ibv_reg_mr failed with error Cannot allocate memory");
        return (ncclResult_t)fakenccl()->call;
    }
    if (at_fault(comm) && (fakenccl()->hang == 2 || fakenccl()->async))
        stay();
    comm->used = 0;
    comm->shared->slots[comm->rank].n = 0;
    return ncclSuccess;
}

/* bytes of every rank from offset on, reduced. */
static ncclResult_t take_reduced(struct ncclComm *comm, void *out, size_t offset, size_t count,
                                 size_t all, ncclDataType_t type, ncclRedOp_t op)
{
    mn_reduce_fn *reduce = mn_reduce_kernel((int)type, (int)op);
    size_t bytes = count * mn_type_size((int)type);
    uint8_t *sum = malloc(bytes + 1);
    ncclResult_t err = ncclSuccess;

    for (int r = 0; r < comm->nranks && !err; r++) {
        const uint8_t *data = given(comm, r, 0, all);
        if (!data)
            err = ncclInvalidArgument;
        else if (!r)
            memcpy(sum, data + offset, bytes);
        else
            reduce(sum, data + offset, count);
    }
    if (at_fault(comm) && fakenccl()->wrong && bytes)
        sum[bytes / 2] ^= 0x40;
    if (!err && bytes && fakenccl_copy(out, sum, bytes))
        err = ncclUnhandledCudaError;
    free(sum);
    return err;
}

/* Gives before and meets; the caller takes and ends it. */
static ncclResult_t give_all(struct ncclComm *comm, const void *in, size_t bytes,
                             cudaStream_t stream)
{
    ncclResult_t err = begin(comm, stream);

    if (!err)
        err = give(comm, -1, in, bytes);
    return err ? err : meet(comm);
}

static ncclResult_t end(struct ncclComm *comm, ncclResult_t err)
{
    ncclResult_t met = meet(comm);

    return err ? err : met;
}

/* --- calls ------------------------------------------------------------------------------------ */

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * mn_type_size((int)type);
    ncclResult_t err = give_all(comm, in, bytes, stream);

    return err ? err : end(comm, take_reduced(comm, out, 0, count, bytes, type, op));
}

ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * mn_type_size((int)type);
    ncclResult_t err = give_all(comm, in, bytes, stream);

    if (err)
        return err;
    return end(comm, comm->rank == root ? take_reduced(comm, out, 0, count, bytes, type, op)
                                        : ncclSuccess);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * mn_type_size((int)type), all = bytes * (size_t)comm->nranks;
    ncclResult_t err = give_all(comm, in, all, stream);

    if (err)
        return err;
    return end(comm, take_reduced(comm, out, bytes * (size_t)comm->rank, count, all, type, op));
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * mn_type_size((int)type);
    ncclResult_t err = give_all(comm, in, bytes, stream);

    if (err)
        return err;
    for (int r = 0; r < comm->nranks && !err; r++)
        err = take(comm, r, 0, (uint8_t *)out + (size_t)r * bytes, bytes);
    return end(comm, err);
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * mn_type_size((int)type);
    ncclResult_t err = give_all(comm, in, comm->rank == root ? bytes : 0, stream);

    return err ? err : end(comm, take(comm, root, 0, out, bytes));
}

ncclResult_t ncclGroupStart(void)
{
    if (!group.depth++)
        group.n = 0;
    return ncclSuccess;
}

static ncclResult_t add(int sending, void *data, size_t bytes, int peer, ncclComm_t comm)
{
    if (!group.depth || group.n == 2 * PIECES)
        return ncclInvalidUsage;
    group.comm = comm;
    group.operations[group.n++] = (struct operation){sending, peer, data, bytes};
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    (void)stream;
    return add(1, (void *)(uintptr_t)data, count * mn_type_size((int)type), peer, comm);
}

ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    (void)stream;
    return add(0, data, count * mn_type_size((int)type), peer, comm);
}

/* All ranks meet: callers have one group of every rank at a time, and every rank has its part. */
ncclResult_t ncclGroupEnd(void)
{
    int taken[RANKS] = {0};

    struct ncclComm *comm = group.comm;

    if (--group.depth || !group.n)
        return ncclSuccess;
    ncclResult_t err = begin(comm, (cudaStream_t)comm);
    for (int i = 0; i < group.n && !err; i++)
        if (group.operations[i].sending)
            err = give(comm, group.operations[i].peer, group.operations[i].data,
                       group.operations[i].bytes);
    if (!err)
        err = meet(comm);
    if (err)
        return err;
    for (int i = 0; i < group.n && !err; i++) {
        const struct operation *o = &group.operations[i];
        if (!o->sending)
            err = take(comm, o->peer, taken[o->peer]++, o->data, o->bytes);
    }
    return end(comm, err);
}
