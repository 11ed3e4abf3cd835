#include "bench/check/coll_team.h"

#include <stdlib.h>
#include <string.h>

#include "plugin/reduce.h"

#define GUARD  64
#define FILLER 0x6b

static void quiet(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                  const char *fmt, ...)
{
    (void)level;
    (void)flags;
    (void)file;
    (void)line;
    (void)fmt;
}

void mn_team_find(struct mn_check *check, struct mn_coll_raw *coll)
{
    mn_check_load(check);
    if (!mn_coll_raw_find(&check->raw, coll))
        mn_check_skip(check, "the library exports no CollNet that goes with v%d",
                      check->raw.version->version);
}

static void *run_rank(void *arg)
{
    struct mn_team_rank *rank = arg;
    struct mn_team *team = rank->team;
    const struct mn_coll_raw *coll = &rank->coll;
    void *listen = NULL, *handles[MN_TEAM_MOST];

    MN_TEAM_OK(rank, "listen", mn_coll_raw_listen(coll, 0, team->handles[rank->rank], &listen));
    pthread_barrier_wait(&team->barrier);
    for (int i = 0; i < team->nranks; i++)
        handles[i] = team->handles[i];
    if (!rank->wrong[0])
        MN_TEAM_OK(rank, "connect",
                   mn_coll_raw_connect(coll, handles, team->nranks, rank->rank, listen,
                                       &rank->comm));
    if (!rank->wrong[0] && !rank->comm)
        MN_TEAM_WRONG(rank, "connect returned success and no communicator");
    if (listen)
        MN_TEAM_OK(rank, "closeListen", mn_coll_raw_close_listen(coll, listen));
    pthread_barrier_wait(&team->barrier);
    if (rank->comm)
        team->body(rank);
    pthread_barrier_wait(&team->barrier);
    if (rank->comm)
        MN_TEAM_OK(rank, "closeColl", mn_coll_raw_close(coll, rank->comm));
    return NULL;
}

void mn_team_run(struct mn_check *check, struct mn_team *team, int nranks,
                 void (*body)(struct mn_team_rank *rank))
{
    struct mn_team_rank ranks[MN_TEAM_MOST] = {{.rank = 0}};
    pthread_t threads[MN_TEAM_MOST];
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

struct mn_team_piece mn_team_piece(struct mn_team_rank *rank, size_t size)
{
    struct mn_team_piece piece = {.data = malloc(size + 2 * GUARD), .size = size};

    if (!piece.data)
        mn_check_skip(rank->team->check, "no memory for %zu bytes", size);
    memset(piece.data, FILLER, size + 2 * GUARD);
    piece.data += GUARD;
    MN_TEAM_OK(rank, "regMr",
               mn_coll_raw_reg(&rank->coll, rank->comm, piece.data, size, &piece.mhandle));
    return piece;
}

void mn_team_piece_free(struct mn_team_rank *rank, struct mn_team_piece *piece)
{
    for (size_t i = 0; i < GUARD; i++)
        if (piece->data[piece->size + i] != FILLER || piece->data[-1 - (long)i] != FILLER)
            MN_TEAM_WRONG(rank, "a byte outside of the buffer was written");
    MN_TEAM_OK(rank, "deregMr", mn_coll_raw_dereg(&rank->coll, rank->comm, piece->mhandle));
    free(piece->data - GUARD);
}

void mn_team_wait(struct mn_team_rank *rank, void *request)
{
    int done = 0, result = 0;

    if (!request) {
        MN_TEAM_WRONG(rank, "no request with nothing outstanding");
        return;
    }
    while (!result && !done) {
        int size = 0;
        done = 2;
        result = mn_coll_raw_test(&rank->coll, request, &done, &size);
        if (!result && done != 0 && done != 1) {
            MN_TEAM_WRONG(rank, "test left done unwritten");
            return;
        }
        if (!done && mn_check_expired(rank->team->check))
            mn_check_fail(rank->team->check, "rank %d of %d: an operation is never done",
                          rank->rank, rank->team->nranks);
        mn_check_pause(rank->team->check);
    }
    MN_TEAM_OK(rank, "test", result);
}

double mn_team_value(int rank, size_t i)
{
    return (double)((i * 5 + (size_t)rank * 3) % 3);
}

void mn_team_expect(struct mn_team_rank *rank, const unsigned char *at, size_t i)
{
    const struct mn_team *team = rank->team;
    unsigned char all[8] = {0}, one[8] = {0};

    mn_type_set(team->type, all, mn_team_value(0, i));
    for (int r = 1; r < team->nranks; r++) {
        mn_type_set(team->type, one, mn_team_value(r, i));
        mn_reduce_kernel(team->type, team->op)(all, one, 1);
    }
    if (memcmp(at, all, mn_type_size(team->type)))
        MN_TEAM_WRONG(rank, "element %zu is %g, %s of all ranks' is %g", i,
                      mn_type_get(team->type, at), mn_redop_name(team->op),
                      mn_type_get(team->type, all));
}
