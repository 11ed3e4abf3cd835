/* A team of ranks for the rules of CollNet: each rank is a thread with a context of its own, since
 * connect may wait for the others. */
#ifndef MN_CHECK_COLL_TEAM_H
#define MN_CHECK_COLL_TEAM_H

#include <pthread.h>
#include <stdio.h>

#include "bench/check/coll_raw.h"
#include "bench/check/rule.h"
#include "plugin/net.h"

#define MN_TEAM_MOST 4

struct mn_team;
struct mn_team_rank {
    struct mn_team *team;
    int rank;
    struct mn_coll_raw coll; /* its own context */
    void *comm;
    char wrong[200];
};

struct mn_team {
    struct mn_check *check;
    int nranks;
    pthread_barrier_t barrier;
    _Alignas(16) char handles[MN_TEAM_MOST][MN_HANDLE_SIZE];
    void (*body)(struct mn_team_rank *rank);
    /* of the operation */
    int type, op, in_place;
    size_t bytes, per_rank, offset;
};

/* The first thing that goes wrong on a rank; it goes on as far as it can, for the others' sake. */
#define MN_TEAM_WRONG(rank, ...)                                                                   \
    do {                                                                                           \
        if (!(rank)->wrong[0])                                                                     \
            snprintf((rank)->wrong, sizeof(rank)->wrong, __VA_ARGS__);                             \
    } while (0)
#define MN_TEAM_OK(rank, call, result)                                                             \
    do {                                                                                           \
        int code = (result);                                                                       \
        if (code)                                                                                  \
            MN_TEAM_WRONG(rank, "%s returned %d", call, code);                                     \
    } while (0)

struct mn_team_piece {
    unsigned char *data;
    size_t size;
    void *mhandle;
};

/* Loads the library; skips when it exports no CollNet that goes with the version. */
void mn_team_find(struct mn_check *check, struct mn_coll_raw *coll);
/* Connects nranks, runs body on each, closes; fails with what went wrong first on any of them.
 * Contexts are made and ended on one thread, as NCCL does under its lock. */
void mn_team_run(struct mn_check *check, struct mn_team *team, int nranks,
                 void (*body)(struct mn_team_rank *rank));

/* Registered memory with guard bytes around it; freeing looks at them. */
struct mn_team_piece mn_team_piece(struct mn_team_rank *rank, size_t size);
void mn_team_piece_free(struct mn_team_rank *rank, struct mn_team_piece *piece);
void mn_team_wait(struct mn_team_rank *rank, void *request);

/* Numbers that every type holds exactly, their sums and products too. */
double mn_team_value(int rank, size_t i);
/* Element i of the reduction over all ranks. */
void mn_team_expect(struct mn_team_rank *rank, const unsigned char *at, size_t i);

#endif
