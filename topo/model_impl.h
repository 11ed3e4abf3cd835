/* What algorithms write, and what is made of it. */
#ifndef MN_MODEL_IMPL_H
#define MN_MODEL_IMPL_H

#include "topo/load.h"

struct mn_model_flow {
    int from, to; /* nodes */
    double latency;
};

struct mn_model_sum {
    const struct mn_model *model;
    int n; /* ranks */
    int channels;
    double bytes, chunk;
    /* Of the round that is being written. */
    struct mn_load now;
    struct mn_model_flow *flows;
    size_t n_flows;
    double reduces; /* bytes that a rank reduces */
    /* Of those before: all they take, and what of it overlaps. */
    struct mn_load total, rest;
    double latency, first;
    int unknown; /* cable without a rate, -1: none */
    int no_way;
    int *path;
};

/* In this round, from rank to rank. */
void mn_model_flow(struct mn_model_sum *s, int from, int to, double bytes);
/* In this round a rank reduces so many bytes. */
void mn_model_reduce(struct mn_model_sum *s, int rank, double bytes);
/* In this round each rank sends each other one so many bytes. */
void mn_model_exchange(struct mn_model_sum *s, double bytes);
/* Ends the round: it has messages of so many bytes. What comes in it goes on in the next one, chunk
 * by chunk. */
void mn_model_round(struct mn_model_sum *s, double message);
/* Ends the round, which is done so many times; each rank waits for what the one before it in the
 * ring had in the round before. */
void mn_model_turns(struct mn_model_sum *s, double message, int times);

/* By algorithm and operation. */
typedef void mn_model_write(struct mn_model_sum *s);
extern mn_model_write *const mn_model_writers[MN_MODEL_ALGOS][MN_MODEL_OPS];

#endif
