/* CollNet, where the library exports it: one collective by many, in host memory. Each rank is a
 * thread, since connect may wait for the others. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/check/coll_raw.h"
#include "bench/check/rule.h"
#include "plugin/net.h"
#include "plugin/reduce.h"

#define MOST_RANKS 4
#define GUARD      64
#define FILLER     0x6b

struct team;
struct rank {
    struct team *team;
    int rank;
    struct mn_coll_raw coll; /* its own context */
    void *comm;
    char wrong[200];
};

struct team {
    struct mn_check *check;
    int nranks;
    pthread_barrier_t barrier;
    _Alignas(16) char handles[MOST_RANKS][MN_HANDLE_SIZE];
    void (*body)(struct rank *rank);
    /* of the operation */
    int type, op, in_place;
    size_t bytes, per_rank, offset;
};

static void quiet(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                  const char *fmt, ...)
{
    (void)level;
    (void)flags;
    (void)file;
    (void)line;
    (void)fmt;
}

/* The first thing that goes wrong on a rank; it goes on as far as it can, for the others' sake. */
#define WRONG(rank, ...)                                                                           \
    do {                                                                                           \
        if (!(rank)->wrong[0])                                                                     \
            snprintf((rank)->wrong, sizeof(rank)->wrong, __VA_ARGS__);                             \
    } while (0)
#define OK(rank, call, result)                                                                     \
    do {                                                                                           \
        int code = (result);                                                                       \
        if (code)                                                                                  \
            WRONG(rank, "%s returned %d", call, code);                                             \
    } while (0)

static void find(struct mn_check *check, struct mn_coll_raw *coll)
{
    mn_check_load(check);
    if (!mn_coll_raw_find(&check->raw, coll))
        mn_check_skip(check, "the library exports no CollNet that goes with v%d",
                      check->raw.version->version);
}

/* --- a team of ranks -------------------------------------------------------------------------- */

static void *run_rank(void *arg)
{
    struct rank *rank = arg;
    struct team *team = rank->team;
    const struct mn_coll_raw *coll = &rank->coll;
    void *listen = NULL, *handles[MOST_RANKS];

    OK(rank, "listen", mn_coll_raw_listen(coll, 0, team->handles[rank->rank], &listen));
    pthread_barrier_wait(&team->barrier);
    for (int i = 0; i < team->nranks; i++)
        handles[i] = team->handles[i];
    if (!rank->wrong[0])
        OK(rank, "connect",
           mn_coll_raw_connect(coll, handles, team->nranks, rank->rank, listen, &rank->comm));
    if (!rank->wrong[0] && !rank->comm)
        WRONG(rank, "connect returned success and no communicator");
    if (listen)
        OK(rank, "closeListen", mn_coll_raw_close_listen(coll, listen));
    pthread_barrier_wait(&team->barrier);
    if (rank->comm)
        team->body(rank);
    pthread_barrier_wait(&team->barrier);
    if (rank->comm)
        OK(rank, "closeColl", mn_coll_raw_close(coll, rank->comm));
    return NULL;
}

/* Contexts are made and ended on one thread, as NCCL does under its lock. */
static void run(struct mn_check *check, struct team *team, int nranks,
                void (*body)(struct rank *rank))
{
    struct rank ranks[MOST_RANKS] = {{.rank = 0}};
    pthread_t threads[MOST_RANKS];
    int ndev = 0;

    team->check = check;
    team->nranks = nranks;
    team->body = body;
    pthread_barrier_init(&team->barrier, NULL, (unsigned)nranks);
    mn_check_step(check, "%d ranks, %zu bytes", nranks, team->bytes);
    for (int i = 0; i < nranks; i++) {
        ranks[i].team = team;
        ranks[i].rank = i;
        if (!mn_coll_raw_find(&check->raw, &ranks[i].coll))
            mn_check_fail(check, "the CollNet symbol is gone");
        mn_check_ok(check, "CollNet init", mn_coll_raw_init(&ranks[i].coll, quiet));
    }
    mn_check_ok(check, "CollNet devices", mn_coll_raw_devices(&ranks[0].coll, &ndev));
    if (ndev < 1)
        mn_check_skip(check, "CollNet reports no device here");
    for (int i = 0; i < nranks; i++)
        if (pthread_create(&threads[i], NULL, run_rank, &ranks[i]) != 0)
            mn_check_skip(check, "no further thread can be started");
    for (int i = 0; i < nranks; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < nranks; i++)
        if (ranks[i].wrong[0])
            mn_check_fail(check, "rank %d of %d, %s of %zu bytes: %s", i, nranks,
                          mn_type_name(team->type), team->bytes, ranks[i].wrong);
    for (int i = 0; i < nranks; i++)
        mn_check_ok(check, "CollNet finalize", mn_coll_raw_finalize(&ranks[i].coll));
    pthread_barrier_destroy(&team->barrier);
}

struct piece {
    unsigned char *data;
    size_t size;
    void *mhandle;
};

static struct piece piece_new(struct rank *rank, size_t size)
{
    struct piece piece = {.data = malloc(size + 2 * GUARD), .size = size};

    if (!piece.data)
        mn_check_skip(rank->team->check, "no memory for %zu bytes", size);
    memset(piece.data, FILLER, size + 2 * GUARD);
    piece.data += GUARD;
    OK(rank, "regMr", mn_coll_raw_reg(&rank->coll, rank->comm, piece.data, size, &piece.mhandle));
    return piece;
}

static void piece_free(struct rank *rank, struct piece *piece)
{
    for (size_t i = 0; i < GUARD; i++)
        if (piece->data[piece->size + i] != FILLER || piece->data[-1 - (long)i] != FILLER)
            WRONG(rank, "a byte outside of the buffer was written");
    OK(rank, "deregMr", mn_coll_raw_dereg(&rank->coll, rank->comm, piece->mhandle));
    free(piece->data - GUARD);
}

static void wait_for(struct rank *rank, void *request)
{
    int done = 0, result = 0;

    if (!request) {
        WRONG(rank, "no request with nothing outstanding");
        return;
    }
    while (!result && !done) {
        int size = 0;
        done = 2;
        result = mn_coll_raw_test(&rank->coll, request, &done, &size);
        if (!result && done != 0 && done != 1) {
            WRONG(rank, "test left done unwritten");
            return;
        }
        if (!done && mn_check_expired(rank->team->check))
            mn_check_fail(rank->team->check, "rank %d of %d: an operation is never done",
                          rank->rank, rank->team->nranks);
        sched_yield();
    }
    OK(rank, "test", result);
}

/* Numbers that every type holds exactly, their sums and products too. */
static double value(int rank, size_t i)
{
    return (double)((i * 5 + (size_t)rank * 3) % 3);
}

static void expect(struct rank *rank, const unsigned char *at, size_t i)
{
    const struct team *team = rank->team;
    unsigned char all[8] = {0}, one[8] = {0};

    mn_type_set(team->type, all, value(0, i));
    for (int r = 1; r < team->nranks; r++) {
        mn_type_set(team->type, one, value(r, i));
        mn_reduce_kernel(team->type, team->op)(all, one, 1);
    }
    if (memcmp(at, all, mn_type_size(team->type)))
        WRONG(rank, "element %zu is %g, %s of all ranks' is %g", i, mn_type_get(team->type, at),
              mn_redop_name(team->op), mn_type_get(team->type, all));
}

/* --- the rules -------------------------------------------------------------------------------- */

static void check_slots(struct mn_check *check)
{
    struct mn_coll_raw coll;

    find(check, &coll);
    const char *absent = mn_coll_raw_absent(&coll);
    if (!mn_coll_raw_name(&coll))
        mn_check_fail(check, "ncclCollNetPlugin_v%d has no name", coll.version);
    if (absent)
        mn_check_fail(check, "%s of ncclCollNetPlugin_v%d is NULL", absent, coll.version);
}

static void check_properties(struct mn_check *check)
{
    struct mn_coll_raw coll;
    const char *name = NULL;
    size_t most = 0;
    int ndev = -1;

    find(check, &coll);
    mn_check_ok(check, "CollNet init", mn_coll_raw_init(&coll, quiet));
    mn_check_ok(check, "CollNet devices", mn_coll_raw_devices(&coll, &ndev));
    if (ndev < 0 || ndev > 128)
        mn_check_fail(check, "CollNet devices reported %d", ndev);
    for (int dev = 0; dev < ndev; dev++) {
        mn_check_ok(check, "CollNet getProperties",
                    mn_coll_raw_properties(&coll, dev, &name, &most));
        if (!name || !name[0])
            mn_check_fail(check, "CollNet device %d has no name", dev);
        if (!most || most > (size_t)1 << 40)
            mn_check_fail(check, "CollNet device %d has maxCollBytes %zu", dev, most);
    }
    mn_check_ok(check, "CollNet finalize", mn_coll_raw_finalize(&coll));
}

static void ask_support(struct rank *rank)
{
    int some = 0;

    for (int type = 0; type < MN_TYPES; type++)
        for (int op = 0; op < 5; op++) {
            int supported = 77;
            OK(rank, "reduceSupport", mn_coll_raw_support(&rank->coll, type, op, &supported));
            if (supported != 0 && supported != 1)
                WRONG(rank, "reduceSupport says %d for %s", supported, mn_type_name(type));
            some |= supported;
        }
    if (!some)
        WRONG(rank, "reduceSupport says no to everything");
}

static void check_support(struct mn_check *check)
{
    struct team team = {.bytes = 0};
    struct mn_coll_raw coll;

    find(check, &coll);
    run(check, &team, 1, ask_support);
}

static int supported(struct rank *rank)
{
    int yes = 0;

    OK(rank, "reduceSupport",
       mn_coll_raw_support(&rank->coll, rank->team->type, rank->team->op, &yes));
    return yes;
}

static void allreduce(struct rank *rank)
{
    const struct team *team = rank->team;
    size_t size = mn_type_size(team->type), count = team->bytes / size;
    struct piece send, recv;
    void *request = NULL;

    if (!supported(rank))
        return;
    send = piece_new(rank, count * size);
    recv = piece_new(rank, count * size);
    for (size_t i = 0; i < count; i++)
        mn_type_set(team->type, send.data + i * size, value(rank->rank, i));
    if (team->in_place)
        memcpy(recv.data, send.data, count * size);
    const struct piece *from = team->in_place ? &recv : &send;
    OK(rank, "iallreduce",
       mn_coll_raw_allreduce(&rank->coll, rank->comm, from->data, recv.data, count, team->type,
                             team->op, from->mhandle, recv.mhandle, &request));
    wait_for(rank, request);
    for (size_t i = 0; i < count; i++)
        expect(rank, recv.data + i * size, i);
    piece_free(rank, &send);
    piece_free(rank, &recv);
}

static void check_allreduce(struct mn_check *check)
{
    static const size_t bytes[] = {0, 8, 24, 4096, 100008, 3000000};
    struct team team = {.type = MN_TYPE_FLOAT32, .op = MN_REDOP_SUM};
    struct mn_coll_raw coll;

    find(check, &coll);
    for (int n = 1; n <= MOST_RANKS; n++)
        for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
            team.bytes = bytes[i];
            team.in_place = (int)i % 2;
            run(check, &team, n, allreduce);
        }
}

static void check_types(struct mn_check *check)
{
    struct team team = {.bytes = 7 * 64 * 8};
    struct mn_coll_raw coll;

    find(check, &coll);
    for (team.type = 0; team.type < MN_TYPES; team.type++)
        for (team.op = 0; team.op < MN_REDOPS; team.op++)
            run(check, &team, 3, allreduce);
}

/* This rank's block as far as it lies in the window; *from is where that begins in the whole. */
static size_t own_part(const struct rank *rank, size_t *from)
{
    const struct team *team = rank->team;
    size_t start = (size_t)rank->rank * team->per_rank, to = start + team->per_rank;
    size_t end = team->offset + team->bytes;

    *from = start > team->offset ? start : team->offset;
    to = to < end ? to : end;
    return *from < to ? to - *from : 0;
}

static void allgather(struct rank *rank)
{
    const struct team *team = rank->team;
    size_t from, length = own_part(rank, &from);
    struct piece own = piece_new(rank, length), whole = piece_new(rank, team->bytes);
    void *request = NULL;

    for (size_t i = 0; i < length; i++)
        own.data[i] = (unsigned char)((from + i) * 37 >> 2);
    OK(rank, "iallgather",
       mn_coll_raw_allgather(&rank->coll, rank->comm, own.data,
                             (ncclNetSGE_v9_t){whole.mhandle, whole.data, team->bytes},
                             team->per_rank, team->offset, team->bytes, own.mhandle, &request));
    wait_for(rank, request);
    for (size_t i = 0; i < team->bytes; i++)
        if (whole.data[i] != (unsigned char)((team->offset + i) * 37 >> 2))
            WRONG(rank, "byte %zu of the window from %zu on is not that of its rank", i,
                  team->offset);
    piece_free(rank, &own);
    piece_free(rank, &whole);
}

static void reducescatter(struct rank *rank)
{
    const struct team *team = rank->team;
    size_t size = mn_type_size(team->type), from, length = own_part(rank, &from);
    struct piece own, whole;
    void *request = NULL;

    if (!supported(rank))
        return;
    own = piece_new(rank, length);
    whole = piece_new(rank, team->bytes);
    for (size_t i = 0; i < team->bytes / size; i++)
        mn_type_set(team->type, whole.data + i * size, value(rank->rank, i + team->offset / size));
    OK(rank, "ireducescatter",
       mn_coll_raw_reducescatter(&rank->coll, rank->comm,
                                 (ncclNetSGE_v9_t){whole.mhandle, whole.data, team->bytes},
                                 own.data, team->per_rank, team->offset, team->bytes, team->type,
                                 team->op, own.mhandle, &request));
    wait_for(rank, request);
    for (size_t i = 0; i < length / size; i++)
        expect(rank, own.data + i * size, from / size + i);
    piece_free(rank, &own);
    piece_free(rank, &whole);
}

static void windows(struct mn_check *check, void (*body)(struct rank *rank))
{
    static const size_t blocks[] = {8, 4096, 1000000};
    struct team team = {.type = MN_TYPE_FLOAT32, .op = MN_REDOP_SUM};
    struct mn_coll_raw coll;

    find(check, &coll);
    for (int n = 1; n <= MOST_RANKS; n++)
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
            team.per_rank = blocks[i];
            team.offset = 0;
            team.bytes = (size_t)n * team.per_rank;
            run(check, &team, n, body);
            team.offset = team.per_rank / 8 * 4;
            team.bytes = (team.bytes - team.offset) / 8 * 4;
            run(check, &team, n, body);
        }
}

static void check_allgather(struct mn_check *check)
{
    windows(check, allgather);
}

static void check_reducescatter(struct mn_check *check)
{
    windows(check, reducescatter);
}

/* Eight steps in flight, as NCCL keeps them. */
static void post_many(struct rank *rank)
{
    enum { MANY = 8 };
    const struct team *team = rank->team;
    size_t size = mn_type_size(team->type), count = team->bytes / size;
    struct piece bufs[MANY];
    void *requests[MANY] = {NULL};

    for (int k = 0; k < MANY; k++) {
        bufs[k] = piece_new(rank, team->bytes);
        for (size_t i = 0; i < count; i++)
            mn_type_set(team->type, bufs[k].data + i * size, value(rank->rank, i + (size_t)k));
    }
    for (int k = 0; k < MANY && !rank->wrong[0]; k++) {
        int done, result = 0;
        while (!result && !requests[k]) {
            result = mn_coll_raw_allreduce(&rank->coll, rank->comm, bufs[k].data, bufs[k].data,
                                           count, team->type, team->op, bufs[k].mhandle,
                                           bufs[k].mhandle, &requests[k]);
            /* Without room the oldest moves on; that it is done is asked again below. */
            if (!result && !requests[k] && k == 0)
                WRONG(rank, "no room for the first operation");
            if (rank->wrong[0] || requests[k])
                break;
            if (mn_check_expired(team->check))
                mn_check_fail(team->check, "no room for %d operations", k + 1);
            result = mn_coll_raw_test(&rank->coll, requests[k - 1], &done, NULL);
            if (!result && done)
                mn_check_skip(team->check, "holds fewer than %d operations", k + 1);
        }
        OK(rank, "iallreduce", result);
    }
    for (int k = 0; k < MANY && !rank->wrong[0]; k++)
        wait_for(rank, requests[k]);
    for (int k = 0; k < MANY; k++) {
        for (size_t i = 0; i < count && !rank->wrong[0]; i++)
            expect(rank, bufs[k].data + i * size, i + (size_t)k);
        piece_free(rank, &bufs[k]);
    }
}

static void check_outstanding(struct mn_check *check)
{
    struct team team = {.type = MN_TYPE_INT32, .op = MN_REDOP_SUM, .bytes = 200000};
    struct mn_coll_raw coll;

    find(check, &coll);
    run(check, &team, 3, post_many);
}

#define SOURCE "NCCL 2.27 src/transport/coll_net.cc"

static const struct mn_check_rule rules[] = {
    {.id = "collnet.slots",
     .title = "every function is there",
     .needs = "Every function but regMrDmaBuf and makeVDevice must be filled: newer releases wrap "
              "older versions and call through iallgather and ireducescatter unchecked.",
     .run = check_slots,
     .source = "NCCL 2.27 src/plugin/net/net_v8.cc",
     .breaks = "the job crashes in a collective that the plugin does not have"},
    {.id = "collnet.properties",
     .title = "devices and their limits",
     .needs = "devices succeeds with 0 or more, each with a name and, from v9 on, maxCollBytes "
              "above 0.",
     .run = check_properties,
     .source = "NCCL 2.27 src/transport/coll_net.cc, src/graph/topo.cc",
     .breaks = "communicators fail at init, or CollNet is never used"},
    {.id = "collnet.support",
     .title = "reduceSupport answers for every type and operation",
     .needs =
         "reduceSupport writes 0 or 1 for any type and operation, also those it does not know.",
     .run = check_support,
     .source = SOURCE,
     .breaks = "a collective of an unsupported type is handed over and fails"},
    {.id = "collnet.allreduce",
     .title = "all-reduce gives every rank the sum",
     .needs = "iallreduce reduces over all ranks, for any count, in place and out of place, and "
              "writes nothing beside the result.",
     .run = check_allreduce,
     .source = SOURCE,
     .breaks = "gradients are wrong and nothing reports it"},
    {.id = "collnet.types",
     .title = "every supported type and operation",
     .needs = "What reduceSupport says yes to is reduced right.",
     .run = check_types,
     .source = SOURCE,
     .breaks = "one data type's results are wrong"},
    {.id = "collnet.allgather",
     .title = "all-gather of whole blocks and of windows",
     .needs =
         "iallgather fills the window [windowOffset, windowOffset + windowBytes) of all ranks' "
         "blocks of bytesPerRank, each rank giving what of its block lies in it.",
     .run = check_allgather,
     .source = SOURCE,
     .breaks = "parameters of one rank stand where another's should"},
    {.id = "collnet.reducescatter",
     .title = "reduce-scatter of whole blocks and of windows",
     .needs =
         "ireducescatter gives each rank the reduced part of the window that lies in its block.",
     .run = check_reducescatter,
     .source = SOURCE,
     .breaks = "shards of gradients are wrong"},
    {.id = "collnet.outstanding",
     .title = "eight operations at once",
     .needs = "Eight operations may be posted before the first is tested; they finish in order.",
     .run = check_outstanding,
     .source = SOURCE,
     .breaks = "the pipeline stalls or mixes its steps"},
};

MN_CHECK_FAMILY(mn_check_collnet_family, "collnet", "CollNet, where it is exported", rules);
