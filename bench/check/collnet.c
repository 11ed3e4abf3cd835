/* CollNet, where the library exports it: one collective by many, in host memory. */
#include <stdlib.h>
#include <string.h>

#include "bench/check/coll_team.h"
#include "plugin/reduce.h"

static void quiet(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                  const char *fmt, ...)
{
    (void)level;
    (void)flags;
    (void)file;
    (void)line;
    (void)fmt;
}

static void check_slots(struct mn_check *check)
{
    struct mn_coll_raw coll;

    mn_team_find(check, &coll);
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

    mn_team_find(check, &coll);
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

static void ask_support(struct mn_team_rank *rank)
{
    int some = 0;

    for (int type = 0; type < MN_TYPES; type++)
        for (int op = 0; op < 5; op++) {
            int supported = 77;
            MN_TEAM_OK(rank, "reduceSupport",
                       mn_coll_raw_support(&rank->coll, type, op, &supported));
            if (supported != 0 && supported != 1)
                MN_TEAM_WRONG(rank, "reduceSupport says %d for %s", supported, mn_type_name(type));
            some |= supported;
        }
    if (!some)
        MN_TEAM_WRONG(rank, "reduceSupport says no to everything");
}

static void check_support(struct mn_check *check)
{
    struct mn_team team = {.bytes = 0};
    struct mn_coll_raw coll;

    mn_team_find(check, &coll);
    mn_team_run(check, &team, 1, ask_support);
}

static int supported(struct mn_team_rank *rank)
{
    int yes = 0;

    MN_TEAM_OK(rank, "reduceSupport",
               mn_coll_raw_support(&rank->coll, rank->team->type, rank->team->op, &yes));
    return yes;
}

static void allreduce(struct mn_team_rank *rank)
{
    const struct mn_team *team = rank->team;
    size_t size = mn_type_size(team->type), count = team->bytes / size;
    struct mn_team_piece send, recv;
    void *request = NULL;

    if (!supported(rank))
        return;
    send = mn_team_piece(rank, count * size);
    recv = mn_team_piece(rank, count * size);
    for (size_t i = 0; i < count; i++)
        mn_type_set(team->type, send.data + i * size, mn_team_value(rank->rank, i));
    if (team->in_place)
        memcpy(recv.data, send.data, count * size);
    const struct mn_team_piece *from = team->in_place ? &recv : &send;
    MN_TEAM_OK(rank, "iallreduce",
               mn_coll_raw_allreduce(&rank->coll, rank->comm, from->data, recv.data, count,
                                     team->type, team->op, from->mhandle, recv.mhandle, &request));
    mn_team_wait(rank, request);
    for (size_t i = 0; i < count; i++)
        mn_team_expect(rank, recv.data + i * size, i);
    mn_team_piece_free(rank, &send);
    mn_team_piece_free(rank, &recv);
}

static void check_allreduce(struct mn_check *check)
{
    static const size_t bytes[] = {0, 8, 24, 4096, 100008, 3000000};
    struct mn_team team = {.type = MN_TYPE_FLOAT32, .op = MN_REDOP_SUM};
    struct mn_coll_raw coll;

    mn_team_find(check, &coll);
    for (int n = 1; n <= MN_TEAM_MOST; n++)
        for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
            team.bytes = bytes[i];
            team.in_place = (int)i % 2;
            mn_team_run(check, &team, n, allreduce);
        }
}

static void check_types(struct mn_check *check)
{
    struct mn_team team = {.bytes = 7 * 64 * 8};
    struct mn_coll_raw coll;

    mn_team_find(check, &coll);
    for (team.type = 0; team.type < MN_TYPES; team.type++)
        for (team.op = 0; team.op < MN_REDOPS; team.op++)
            mn_team_run(check, &team, 3, allreduce);
}

/* This rank's block as far as it lies in the window; *from is where that begins in the whole. */
static size_t own_part(const struct mn_team_rank *rank, size_t *from)
{
    const struct mn_team *team = rank->team;
    size_t start = (size_t)rank->rank * team->per_rank, to = start + team->per_rank;
    size_t end = team->offset + team->bytes;

    *from = start > team->offset ? start : team->offset;
    to = to < end ? to : end;
    return *from < to ? to - *from : 0;
}

static void allgather(struct mn_team_rank *rank)
{
    const struct mn_team *team = rank->team;
    size_t from, length = own_part(rank, &from);
    struct mn_team_piece own = mn_team_piece(rank, length),
                         whole = mn_team_piece(rank, team->bytes);
    void *request = NULL;

    for (size_t i = 0; i < length; i++)
        own.data[i] = (unsigned char)((from + i) * 37 >> 2);
    MN_TEAM_OK(rank, "iallgather",
               mn_coll_raw_allgather(&rank->coll, rank->comm, own.data,
                                     (ncclNetSGE_v9_t){whole.mhandle, whole.data, team->bytes},
                                     team->per_rank, team->offset, team->bytes, own.mhandle,
                                     &request));
    mn_team_wait(rank, request);
    for (size_t i = 0; i < team->bytes; i++)
        if (whole.data[i] != (unsigned char)((team->offset + i) * 37 >> 2))
            MN_TEAM_WRONG(rank, "byte %zu of the window from %zu on is not that of its rank", i,
                          team->offset);
    mn_team_piece_free(rank, &own);
    mn_team_piece_free(rank, &whole);
}

static void reducescatter(struct mn_team_rank *rank)
{
    const struct mn_team *team = rank->team;
    size_t size = mn_type_size(team->type), from, length = own_part(rank, &from);
    struct mn_team_piece own, whole;
    void *request = NULL;

    if (!supported(rank))
        return;
    own = mn_team_piece(rank, length);
    whole = mn_team_piece(rank, team->bytes);
    for (size_t i = 0; i < team->bytes / size; i++)
        mn_type_set(team->type, whole.data + i * size,
                    mn_team_value(rank->rank, i + team->offset / size));
    MN_TEAM_OK(rank, "ireducescatter",
               mn_coll_raw_reducescatter(&rank->coll, rank->comm,
                                         (ncclNetSGE_v9_t){whole.mhandle, whole.data, team->bytes},
                                         own.data, team->per_rank, team->offset, team->bytes,
                                         team->type, team->op, own.mhandle, &request));
    mn_team_wait(rank, request);
    for (size_t i = 0; i < length / size; i++)
        mn_team_expect(rank, own.data + i * size, from / size + i);
    mn_team_piece_free(rank, &own);
    mn_team_piece_free(rank, &whole);
}

static void windows(struct mn_check *check, void (*body)(struct mn_team_rank *rank))
{
    static const size_t blocks[] = {8, 4096, 1000000};
    struct mn_team team = {.type = MN_TYPE_FLOAT32, .op = MN_REDOP_SUM};
    struct mn_coll_raw coll;

    mn_team_find(check, &coll);
    for (int n = 1; n <= MN_TEAM_MOST; n++)
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
            team.per_rank = blocks[i];
            team.offset = 0;
            team.bytes = (size_t)n * team.per_rank;
            mn_team_run(check, &team, n, body);
            team.offset = team.per_rank / 8 * 4;
            team.bytes = (team.bytes - team.offset) / 8 * 4;
            mn_team_run(check, &team, n, body);
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
static void post_many(struct mn_team_rank *rank)
{
    enum { MANY = 8 };
    const struct mn_team *team = rank->team;
    size_t size = mn_type_size(team->type), count = team->bytes / size;
    struct mn_team_piece bufs[MANY];
    void *requests[MANY] = {NULL};

    for (int k = 0; k < MANY; k++) {
        bufs[k] = mn_team_piece(rank, team->bytes);
        for (size_t i = 0; i < count; i++)
            mn_type_set(team->type, bufs[k].data + i * size,
                        mn_team_value(rank->rank, i + (size_t)k));
    }
    for (int k = 0; k < MANY && !rank->wrong[0]; k++) {
        int done, result = 0;
        while (!result && !requests[k]) {
            result = mn_coll_raw_allreduce(&rank->coll, rank->comm, bufs[k].data, bufs[k].data,
                                           count, team->type, team->op, bufs[k].mhandle,
                                           bufs[k].mhandle, &requests[k]);
            /* Without room the oldest moves on; that it is done is asked again below. */
            if (!result && !requests[k] && k == 0)
                MN_TEAM_WRONG(rank, "no room for the first operation");
            if (rank->wrong[0] || requests[k])
                break;
            if (mn_check_expired(team->check))
                mn_check_fail(team->check, "no room for %d operations", k + 1);
            result = mn_coll_raw_test(&rank->coll, requests[k - 1], &done, NULL);
            if (!result && done)
                mn_check_skip(team->check, "holds fewer than %d operations", k + 1);
        }
        MN_TEAM_OK(rank, "iallreduce", result);
    }
    for (int k = 0; k < MANY && !rank->wrong[0]; k++)
        mn_team_wait(rank, requests[k]);
    for (int k = 0; k < MANY; k++) {
        for (size_t i = 0; i < count && !rank->wrong[0]; i++)
            mn_team_expect(rank, bufs[k].data + i * size, i + (size_t)k);
        mn_team_piece_free(rank, &bufs[k]);
    }
}

static void check_outstanding(struct mn_check *check)
{
    struct mn_team team = {.type = MN_TYPE_INT32, .op = MN_REDOP_SUM, .bytes = 200000};
    struct mn_coll_raw coll;

    mn_team_find(check, &coll);
    mn_team_run(check, &team, 3, post_many);
}

static const struct mn_check_rule rules[] = {
    {.id = "collnet.slots",
     .title = "every function is there",
     .needs = "Every function but regMrDmaBuf and makeVDevice must be filled: newer releases wrap "
              "older versions and call through iallgather and ireducescatter unchecked.",
     .run = check_slots,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 plugin/net/net_v8.cc, getNcclCollNet_v8: puts functions of its own "
                 "over iallgather and ireducescatter, which call through NULL",
     .breaks = "the job crashes in a collective that the plugin does not have"},
    {.id = "collnet.properties",
     .title = "devices and their limits",
     .needs = "devices succeeds with 0 or more, each with a name and, from v9 on, maxCollBytes "
              "above 0.",
     .run = check_properties,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/coll_net.cc, sendProxySetup: ncclInternalError unless "
                 "maxCollBytes is between 1 and 2^40",
     .breaks = "communicators fail at init, or CollNet is never used"},
    {.id = "collnet.support",
     .title = "reduceSupport answers for every type and operation",
     .needs =
         "reduceSupport writes 0 or 1 for any type and operation, also those it does not know.",
     .run = check_support,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/coll_net.cc, ncclCollNetSetup: asks once for every type and "
                 "four operations, and believes it",
     .breaks = "a collective of an unsupported type is handed over and fails"},
    {.id = "collnet.allreduce",
     .title = "all-reduce gives every rank the sum",
     .needs = "iallreduce reduces over all ranks, for any count, in place and out of place, and "
              "writes nothing beside the result.",
     .run = check_allreduce,
     .profile = "nccl-2.27",
     .evidence =
         "NCCL 2.27 transport/coll_net.cc, sendProxyProgress: what iallreduce leaves is the result",
     .breaks = "gradients are wrong and nothing reports it"},
    {.id = "collnet.types",
     .title = "every supported type and operation",
     .needs = "What reduceSupport says yes to is reduced right.",
     .run = check_types,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/coll_net.cc, sendProxyProgress: passes on every type that "
                 "reduceSupport agreed to",
     .breaks = "one data type's results are wrong"},
    {.id = "collnet.allgather",
     .title = "all-gather of whole blocks and of windows",
     .needs =
         "iallgather fills the window [windowOffset, windowOffset + windowBytes) of all ranks' "
         "blocks of bytesPerRank, each rank giving what of its block lies in it.",
     .run = check_allgather,
     .profile = "nccl-2.27",
     .evidence =
         "NCCL 2.27 transport/coll_net.cc, collNetIallgather: gathers windows of the ranks' blocks",
     .breaks = "parameters of one rank stand where another's should"},
    {.id = "collnet.reducescatter",
     .title = "reduce-scatter of whole blocks and of windows",
     .needs =
         "ireducescatter gives each rank the reduced part of the window that lies in its block.",
     .run = check_reducescatter,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/coll_net.cc, collNetIreducescatter: reduces windows of the "
                 "ranks' blocks",
     .breaks = "shards of gradients are wrong"},
    {.id = "collnet.outstanding",
     .title = "eight operations at once",
     .needs = "Eight operations may be posted before the first is tested; they finish in order.",
     .run = check_outstanding,
     .profile = "nccl-2.27",
     .evidence = "NCCL 2.27 transport/coll_net.cc, sendProxyProgress: up to NCCL_STEPS operations "
                 "in flight, completed in order",
     .breaks = "the pipeline stalls or mixes its steps"},
};

MN_CHECK_FAMILY(mn_check_collnet_family, "collnet", "CollNet, where it is exported", rules);
