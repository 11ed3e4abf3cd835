/* CollNet of the reference plugin: all ranks are in this process; who comes last to an operation
 * does it for all. */
#include <stdlib.h>
#include <string.h>

#include "plugin/abi/nccl_coll_abi.h"
#include "plugin/reduce.h"
#include "tests/broken/shapes.h"

#define MOST_RANKS 16
#define MOST_OPS   64

/* One rank's part of an operation. */
struct part {
    const char *send;
    char *recv;
    int done, size;
};

struct op {
    int posted; /* ranks */
    int kind;   /* of iallreduce, iallgather, ireducescatter */
    size_t bytes, per_rank, offset;
    int type, op;
    struct part parts[MOST_RANKS];
};

struct team {
    struct team *next;
    uint64_t id; /* of the first rank's listener */
    int nranks, joined, left;
    struct op ops[MOST_OPS];
};

struct coll {
    struct team *team;
    int rank;
    unsigned posted, out;
};

struct coll_request {
    struct op *op;
    struct part *part;
    struct coll *coll;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct team *teams;
static uint64_t next_id = 1;

static ncclResult_t coll_listen(int dev, void *handle, void **listen_comm)
{
    uint64_t id;

    if (dev < 0 || dev >= N_DEVICES)
        return ncclInvalidArgument;
    pthread_mutex_lock(&lock);
    id = next_id++;
    pthread_mutex_unlock(&lock);
    memcpy(handle, &id, sizeof id);
    *listen_comm = malloc(1);
    return *listen_comm ? ncclSuccess : ncclSystemError;
}

static ncclResult_t coll_listen_v11(void *ctx, int dev, void *handle, void **listen_comm)
{
    (void)ctx;
    return coll_listen(dev, handle, listen_comm);
}

static ncclResult_t coll_close_listen(void *listen_comm)
{
    free(listen_comm);
    return ncclSuccess;
}

static struct team *team_of(uint64_t id, int nranks)
{
    struct team *team = teams;

    while (team && team->id != id)
        team = team->next;
    if (!team)
        team = calloc(1, sizeof *team);
    if (team && !team->id) {
        team->id = id;
        team->nranks = nranks;
        team->next = teams;
        teams = team;
    }
    return team;
}

static ncclResult_t coll_connect(void **handles, int nranks, int rank, void *listen_comm,
                                 void **coll_comm)
{
    struct coll *coll = calloc(1, sizeof *coll);
    uint64_t id;

    (void)listen_comm;
    if (!coll || nranks > MOST_RANKS)
        return ncclSystemError;
    memcpy(&id, handles[0], sizeof id);
    pthread_mutex_lock(&lock);
    coll->team = team_of(id, nranks);
    coll->rank = rank;
    if (coll->team)
        coll->team->joined++;
    pthread_mutex_unlock(&lock);
    if (!coll->team) {
        free(coll);
        return ncclSystemError;
    }
    *coll_comm = IS(COLL_NO_COMM) ? NULL : coll;
    return ncclSuccess;
}

static ncclResult_t coll_close(void *comm)
{
    struct coll *coll = comm;
    struct team *team = coll->team;

    pthread_mutex_lock(&lock);
    if (++team->left == team->nranks) {
        struct team **at = &teams;
        while (*at != team)
            at = &(*at)->next;
        *at = team->next;
        free(team);
    }
    pthread_mutex_unlock(&lock);
    free(coll);
    return ncclSuccess;
}

static ncclResult_t coll_support(ncclDataType_t type, ncclRedOp_t op, int *supported)
{
    if (IS(COLL_SUPPORT_UNWRITTEN) && op == ncclAvg)
        return ncclSuccess;
    *supported = mn_reduce_kernel((int)type, (int)op) != NULL;
    return ncclSuccess;
}

static ncclResult_t coll_reg(void *comm, void *data, size_t size, int type, void **mhandle)
{
    (void)comm;
    (void)data;
    (void)size;
    *mhandle = &lock;
    return type == NCCL_PTR_HOST ? ncclSuccess : ncclInvalidArgument;
}

static ncclResult_t coll_dereg(void *comm, void *mhandle)
{
    (void)comm;
    return mhandle == (void *)&lock ? ncclSuccess : ncclInvalidArgument;
}

/* --- doing it --------------------------------------------------------------------------------- */

/* The part of a rank's block that lies in the window; *from is its start in the window. */
static size_t own_part(const struct op *op, int rank, size_t *from)
{
    size_t start = (size_t)rank * op->per_rank, to = start + op->per_rank;
    size_t offset = IS(COLL_WINDOW_IGNORED) ? 0 : op->offset, end = offset + op->bytes;

    start = start > offset ? start : offset;
    to = to < end ? to : end;
    *from = start - offset;
    return start < to ? to - start : 0;
}

static void reduce_all(const struct team *team, const struct op *op, size_t from, size_t bytes,
                       char *to)
{
    int kind = IS(COLL_PROD_IS_SUM) && op->op == ncclProd ? ncclSum : op->op;
    int type = IS(COLL_FP8_AS_INT) && op->type == MN_TYPE_FLOAT8E4M3 ? MN_TYPE_UINT8 : op->type;

    memcpy(to, op->parts[0].send + from, bytes);
    for (int r = 1; r < team->nranks - IS(COLL_FORGETS_LAST); r++)
        mn_reduce_kernel(type, kind)(to, op->parts[r].send + from, bytes / mn_type_size(type));
}

static void gather(const struct team *team, struct op *op)
{
    for (int r = 0; r < team->nranks; r++)
        for (int source = 0; source < team->nranks; source++) {
            size_t from, bytes = own_part(op, source, &from);
            if (bytes)
                memmove(op->parts[r].recv + from,
                        op->parts[IS(COLL_GATHER_ROTATED) ? (source + 1) % team->nranks : source]
                            .send,
                        bytes);
        }
}

static void scatter(const struct team *team, struct op *op, char *all)
{
    reduce_all(team, op, 0, op->bytes, all);
    for (int r = 0; r < team->nranks; r++) {
        size_t from, bytes = own_part(op, r, &from);
        memcpy(op->parts[r].recv, all + from, bytes);
        op->parts[r].size = (int)bytes;
    }
}

static void do_op(const struct team *team, struct op *op)
{
    char *all = malloc(op->bytes + 1);

    for (int r = 0; r < team->nranks; r++)
        op->parts[r].size = (int)op->bytes;
    if (op->kind == 1) {
        gather(team, op);
    } else if (op->kind == 2) {
        scatter(team, op, all);
    } else {
        reduce_all(team, op, 0, op->bytes, all);
        for (int r = 0; r < team->nranks; r++)
            memcpy(op->parts[r].recv, all, op->bytes + IS(COLL_WRITES_BEHIND));
    }
    free(all);
    for (int r = 0; r < team->nranks; r++)
        op->parts[r].done = 1;
}

static ncclResult_t post(struct coll *coll, struct op what, const void *send, void *recv,
                         void **request)
{
    struct team *team = coll->team;
    struct coll_request *r = calloc(1, sizeof *r);
    struct op *op = &team->ops[coll->posted % MOST_OPS];

    *request = NULL;
    if (!r)
        return ncclSystemError;
    pthread_mutex_lock(&lock);
    if (!op->posted)
        *op = what;
    if (IS(COLL_FIFTH_WRONG) && coll->out >= 4)
        send = team->ops[(coll->posted - 1) % MOST_OPS].parts[coll->rank].send;
    op->parts[coll->rank] = (struct part){.send = send, .recv = recv};
    *r = (struct coll_request){op, &op->parts[coll->rank], coll};
    coll->posted++;
    coll->out++;
    if (++op->posted == team->nranks) {
        do_op(team, op);
        op->posted = 0;
    }
    pthread_mutex_unlock(&lock);
    *request = r;
    return ncclSuccess;
}

static ncclResult_t coll_iallreduce(void *comm, void *send, void *recv, size_t count,
                                    ncclDataType_t type, ncclRedOp_t op, void *send_mhandle,
                                    void *recv_mhandle, void **request)
{
    (void)send_mhandle;
    (void)recv_mhandle;
    return post(comm,
                (struct op){.bytes = count * mn_type_size((int)type),
                            .type = (int)type,
                            .op = (int)op},
                send, recv, request);
}

static ncclResult_t coll_iallgather(void *comm, void *send, int n, ncclNetSGE_v9_t *parts,
                                    size_t per_rank, size_t offset, size_t bytes,
                                    void *send_mhandle, void **request)
{
    (void)n;
    (void)send_mhandle;
    return post(comm,
                (struct op){.kind = 1, .bytes = bytes, .per_rank = per_rank, .offset = offset},
                send, parts->address, request);
}

static ncclResult_t coll_ireducescatter(void *comm, int n, ncclNetSGE_v9_t *parts, void *recv,
                                        size_t per_rank, size_t offset, size_t bytes,
                                        ncclDataType_t type, ncclRedOp_t op, void *recv_mhandle,
                                        void **request)
{
    (void)n;
    (void)recv_mhandle;
    return post(comm,
                (struct op){.kind = 2,
                            .bytes = bytes,
                            .per_rank = per_rank,
                            .offset = offset,
                            .type = (int)type,
                            .op = (int)op},
                parts->address, recv, request);
}

static ncclResult_t coll_iflush(void *comm, void *data, int size, void *mhandle, void **request)
{
    (void)comm;
    (void)data;
    (void)size;
    (void)mhandle;
    *request = NULL;
    return ncclSuccess;
}

static ncclResult_t coll_test(void *request, int *done, int *size)
{
    struct coll_request *r = request;

    pthread_mutex_lock(&lock);
    *done = r->part->done;
    if (*done && size)
        *size = r->part->size;
    r->coll->out -= (unsigned)*done;
    pthread_mutex_unlock(&lock);
    if (*done)
        free(r);
    return ncclSuccess;
}

/* --- the vtables, changed while loading where a fault is in them --------------------------------
 */

static ncclResult_t v8_iallreduce(void *comm, void *send, void *recv, int count,
                                  ncclDataType_t type, ncclRedOp_t op, void *send_mhandle,
                                  void *recv_mhandle, void **request)
{
    return coll_iallreduce(comm, send, recv, (size_t)count, type, op, send_mhandle, recv_mhandle,
                           request);
}

static ncclResult_t v8_iallgather(void *comm, void *send, int n, ncclNetSGE_v8_t *parts,
                                  size_t per_rank, size_t offset, size_t bytes, void *send_mhandle,
                                  void **request)
{
    ncclNetSGE_v9_t part = {parts->mhandle, parts->address, parts->size};
    return coll_iallgather(comm, send, n, &part, per_rank, offset, bytes, send_mhandle, request);
}

static ncclResult_t v8_ireducescatter(void *comm, int n, ncclNetSGE_v8_t *parts, void *recv,
                                      size_t per_rank, size_t offset, size_t bytes,
                                      ncclDataType_t type, ncclRedOp_t op, void *recv_mhandle,
                                      void **request)
{
    ncclNetSGE_v9_t part = {parts->mhandle, parts->address, parts->size};
    return coll_ireducescatter(comm, n, &part, recv, per_rank, offset, bytes, type, op,
                               recv_mhandle, request);
}

static ncclResult_t init_v11(void **ctx, uint64_t comm_id, ncclDebugLogger_t logger)
{
    (void)comm_id;
    (void)logger;
    *ctx = NULL;
    return ncclSuccess;
}

static ncclResult_t init(ncclDebugLogger_t logger)
{
    (void)logger;
    return ncclSuccess;
}

static ncclResult_t finalize(void *ctx)
{
    (void)ctx;
    return ncclSuccess;
}

static ncclResult_t v12_properties(int dev, ncclNetProperties_v12_t *props)
{
    ncclResult_t result = ref_properties_v12(dev, props);

    if (IS(COLL_MAX_ZERO))
        props->maxCollBytes = 0;
    return result;
}

#define EXPORT __attribute__((visibility("default")))
#define COLL(v)                                                                                    \
    EXPORT extern ncclCollNet_v##v##_t ncclCollNetPlugin_v##v;                                     \
    ncclCollNet_v##v##_t ncclCollNetPlugin_v##v
#define COMMON                                                                                     \
    .name = "ref", .devices = ref_devices, .connect = coll_connect, .reduceSupport = coll_support, \
    .regMr = coll_reg, .deregMr = coll_dereg, .iflush = coll_iflush, .test = coll_test,            \
    .closeColl = coll_close, .closeListen = coll_close_listen
#define WIDE                                                                                       \
    COMMON, .iallreduce = coll_iallreduce, .iallgather = coll_iallgather,                          \
            .ireducescatter = coll_ireducescatter

COLL(8) = {COMMON,
           .init = init,
           .listen = coll_listen,
           .getProperties = ref_properties_v8,
           .iallreduce = v8_iallreduce,
           .iallgather = v8_iallgather,
           .ireducescatter = v8_ireducescatter};
COLL(9) = {WIDE, .init = init, .listen = coll_listen, .getProperties = ref_properties_v9};
COLL(10) = {WIDE, .init = init, .listen = coll_listen, .getProperties = ref_properties_v9};
COLL(11) = {WIDE, .init = init_v11, .listen = coll_listen_v11, .getProperties = ref_properties_v11,
            .finalize = finalize};
COLL(12) = {WIDE, .init = init_v11, .listen = coll_listen_v11, .getProperties = v12_properties,
            .finalize = finalize};

__attribute__((constructor)) static void spoil(void)
{
    if (IS(COLL_NAME_NULL))
        ncclCollNetPlugin_v12.name = NULL;
    if (IS(COLL_SLOT_NULL))
        ncclCollNetPlugin_v11.iallgather = NULL;
}
