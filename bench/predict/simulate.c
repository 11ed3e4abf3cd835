/* Schedules in time: what bench/coll/run.c does, with bytes that flow instead of requests. Messages
 * from one rank to another go one behind the other; those of several pairs that meet on a part of
 * the fabric share it evenly, as long as nothing else holds one of them back more (max-min). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/predict/predict_impl.h"
#include "topo/base/alloc.h"

/* A part of the fabric that a flow uses: seconds of it a byte. */
struct use {
    size_t part;
    double cost;
};

/* The messages from a rank to another one. */
struct pair {
    int from, to;
    int *sends, *recvs; /* steps, in the list's order */
    int n;
    int sent_begun, recv_begun, moved, ended; /* how many; moved: their last byte has left */
    double left;                              /* bytes of the one that moves */
    double rate;                              /* bytes/s; INFINITY: within a node */
    double latency;
    double *arrive; /* by message: when its last byte is there */
    struct use *uses;
    size_t n_uses;
    int flows; /* has a share of what it uses, by the last count */
};

struct rank {
    const struct mn_schedule *schedule;
    char *done; /* by step */
    int *local; /* steps */
    int n, ended;
    double until; /* the one under way ends; INFINITY: none is */
};

struct simulation {
    const struct mn_model *model;
    struct rank *ranks;
    struct pair *pairs;
    size_t n_pairs;
    struct mn_load *parts;
    double *free, *weight; /* of parts, while shares are counted */
    double now;
    int left; /* steps */
};

/* --- what there is to do -------------------------------------------------------------------- */

/* Seconds of each part a byte, from a load that was empty and is so again. */
static void find_uses(struct simulation *s, struct pair *p, int *path)
{
    int unknown, from = mn_model_node(s->model, p->from), to = mn_model_node(s->model, p->to);
    struct mn_load one;

    mn_load_make(s->model->fabric, &one);
    mn_load_flow(&one, s->model, from, to, 1, path, &p->latency, &unknown);
    p->latency = from == to ? 0 : p->latency;
    for (size_t i = 0; i < one.n_parts; i++)
        if (one.parts[i] > 0) {
            struct use *use = mn_grow((void **)&p->uses, &p->n_uses, sizeof *use);
            *use = (struct use){i, one.parts[i]};
        }
    mn_load_free(&one);
}

static struct pair *pair_of(struct simulation *s, int *index, int from, int to)
{
    int *at = &index[from * s->model->n_ranks + to];

    if (!*at) {
        struct pair *p = mn_grow((void **)&s->pairs, &s->n_pairs, sizeof *p);
        *p = (struct pair){.from = from, .to = to};
        *at = (int)s->n_pairs;
    }
    return &s->pairs[*at - 1];
}

static void add_step(int **list, int *n, int step)
{
    size_t count = (size_t)*n;

    *(int *)mn_grow((void **)list, &count, sizeof step) = step;
    *n = (int)count;
}

static void sort_steps(struct simulation *s, int *index)
{
    for (int r = 0; r < s->model->n_ranks; r++) {
        struct rank *rank = &s->ranks[r];
        rank->done = mn_zalloc((size_t)rank->schedule->n + 1);
        rank->until = INFINITY;
        s->left += rank->schedule->n;
        for (int i = 0; i < rank->schedule->n; i++) {
            const struct mn_step *step = &rank->schedule->steps[i];
            if (step->kind == MN_STEP_SEND) {
                struct pair *p = pair_of(s, index, r, step->peer);
                add_step(&p->sends, &p->n, i);
            } else if (step->kind == MN_STEP_RECV) {
                struct pair *p = pair_of(s, index, step->peer, r);
                add_step(&p->recvs, &p->recv_begun, i);
            } else
                add_step(&rank->local, &rank->n, i);
        }
    }
}

/* 0: what one sends the other does not wait for. */
static int set_up(struct simulation *s)
{
    size_t n = (size_t)s->model->n_ranks;
    int *index = mn_zalloc((n * n + 1) * sizeof *index), good = 1;
    int *path = mn_zalloc(((size_t)s->model->fabric->n + 1) * sizeof *path);

    sort_steps(s, index);
    for (size_t i = 0; i < s->n_pairs; i++) {
        struct pair *p = &s->pairs[i];
        good &= p->n == p->recv_begun;
        p->recv_begun = 0;
        p->arrive = mn_zalloc(((size_t)p->n + 1) * sizeof *p->arrive);
        find_uses(s, p, path);
    }
    s->free = mn_zalloc((s->parts->n_parts + 1) * sizeof *s->free);
    s->weight = mn_zalloc((s->parts->n_parts + 1) * sizeof *s->weight);
    free(path);
    free(index);
    return good;
}

static void tear_down(struct simulation *s)
{
    for (size_t i = 0; i < s->n_pairs; i++) {
        free(s->pairs[i].sends);
        free(s->pairs[i].recvs);
        free(s->pairs[i].arrive);
        free(s->pairs[i].uses);
    }
    for (int r = 0; r < s->model->n_ranks; r++) {
        free(s->ranks[r].done);
        free(s->ranks[r].local);
    }
    free(s->pairs);
    free(s->ranks);
    free(s->free);
    free(s->weight);
}

/* --- beginning ------------------------------------------------------------------------------ */

static int may_begin(const struct rank *rank, int step)
{
    const int *after = rank->schedule->steps[step].after;

    for (int i = 0; i < 3 && after[i] != MN_NO_STEP; i++)
        if (!rank->done[after[i]])
            return 0;
    return 1;
}

static int begin_messages(const struct simulation *s, struct pair *p)
{
    int before = p->sent_begun + p->recv_begun;

    while (p->sent_begun < p->n && p->sent_begun - p->ended < MN_RUN_FLIGHT &&
           may_begin(&s->ranks[p->from], p->sends[p->sent_begun]))
        p->sent_begun++;
    while (p->recv_begun < p->n && p->recv_begun - p->ended < MN_RUN_FLIGHT &&
           may_begin(&s->ranks[p->to], p->recvs[p->recv_begun]))
        p->recv_begun++;
    return p->sent_begun + p->recv_begun != before;
}

static int moves(const struct pair *p)
{
    return p->moved < p->sent_begun && p->moved < p->recv_begun;
}

/* The next message of a pair begins to move, or one that is empty has moved. */
static void next_message(struct simulation *s, struct pair *p)
{
    const struct mn_schedule *schedule = s->ranks[p->from].schedule;

    while (moves(p) && !(p->left > 0)) {
        p->left = (double)schedule->steps[p->sends[p->moved]].bytes;
        for (size_t i = 0; i < p->n_uses; i++)
            s->parts->parts[p->uses[i].part] += p->uses[i].cost * p->left;
        if (p->left > 0)
            break;
        p->arrive[p->moved++] = s->now + p->latency;
    }
}

static double cost_of(const struct simulation *s, const struct mn_step *step)
{
    const struct mn_model_host *host = &s->model->host;
    double rate = step->kind == MN_STEP_REDUCE ? host->reduce : host->copy;

    return rate > 0 ? (double)step->bytes / rate : 0;
}

static int begin_local(struct simulation *s, struct rank *rank)
{
    if (isfinite(rank->until) || rank->ended == rank->n ||
        !may_begin(rank, rank->local[rank->ended]))
        return 0;
    rank->until = s->now + cost_of(s, &rank->schedule->steps[rank->local[rank->ended]]);
    return 1;
}

/* --- time ----------------------------------------------------------------------------------- */

/* What has happened by now is done. Returns whether anything was. */
static int finish(struct simulation *s)
{
    double now = s->now * (1 + 1e-12);
    int any = 0;

    for (size_t i = 0; i < s->n_pairs; i++) {
        struct pair *p = &s->pairs[i];
        for (; p->ended < p->moved && p->arrive[p->ended] <= now; p->ended++, any = 1) {
            s->ranks[p->from].done[p->sends[p->ended]] = 1;
            s->ranks[p->to].done[p->recvs[p->ended]] = 1;
            s->left -= 2;
        }
    }
    for (int r = 0; r < s->model->n_ranks; r++) {
        struct rank *rank = &s->ranks[r];
        if (rank->until > now)
            continue;
        rank->done[rank->local[rank->ended++]] = 1;
        rank->until = INFINITY;
        s->left--;
        any = 1;
    }
    return any;
}

static void begin_what_may(struct simulation *s)
{
    int any;

    do {
        any = 0;
        for (size_t i = 0; i < s->n_pairs; i++) {
            any |= begin_messages(s, &s->pairs[i]);
            next_message(s, &s->pairs[i]);
        }
        for (int r = 0; r < s->model->n_ranks; r++)
            any |= begin_local(s, &s->ranks[r]);
        any |= finish(s);
    } while (any);
}

/* The part that leaves each of its flows the least, and that share. */
static double tightest(const struct simulation *s, size_t *part)
{
    double least = INFINITY;

    for (size_t i = 0; i < s->parts->n_parts; i++)
        if (s->weight[i] > 1e-30 && s->free[i] / s->weight[i] < least) {
            least = s->free[i] / s->weight[i];
            *part = i;
        }
    return least;
}

static int uses(const struct pair *p, size_t part)
{
    for (size_t i = 0; i < p->n_uses; i++)
        if (p->uses[i].part == part)
            return 1;
    return 0;
}

/* Max-min: who shares the tightest part has its share of it, and what they leave of the other parts
 * is for the rest. */
static void share_out(struct simulation *s)
{
    int open = 0;
    size_t part = 0;

    for (size_t i = 0; i < s->parts->n_parts; i++) {
        s->free[i] = 1;
        s->weight[i] = 0;
    }
    for (size_t i = 0; i < s->n_pairs; i++) {
        struct pair *p = &s->pairs[i];
        p->flows = p->left > 0;
        p->rate = p->n_uses || !p->flows ? 0 : INFINITY;
        open += p->flows && p->n_uses;
        for (size_t k = 0; k < p->n_uses && p->flows; k++)
            s->weight[p->uses[k].part] += p->uses[k].cost;
    }
    while (open > 0) {
        double rate = tightest(s, &part);
        if (!isfinite(rate))
            break;
        for (size_t i = 0; i < s->n_pairs; i++) {
            struct pair *p = &s->pairs[i];
            if (!p->flows || p->rate > 0 || !uses(p, part))
                continue;
            p->rate = rate > 1e-3 ? rate : 1e-3;
            open--;
            for (size_t k = 0; k < p->n_uses; k++) {
                s->free[p->uses[k].part] =
                    fmax(0, s->free[p->uses[k].part] - p->uses[k].cost * rate);
                s->weight[p->uses[k].part] -= p->uses[k].cost;
            }
        }
        s->weight[part] = 0;
    }
}

/* To the next thing that happens. 0: nothing will. */
static int go_on(struct simulation *s)
{
    double next = INFINITY;
    int changed = 0;

    for (size_t i = 0; i < s->n_pairs; i++)
        changed |= s->pairs[i].flows != (s->pairs[i].left > 0);
    if (changed)
        share_out(s);
    for (size_t i = 0; i < s->n_pairs; i++) {
        const struct pair *p = &s->pairs[i];
        if (p->left > 0)
            next = fmin(next, s->now + (isfinite(p->rate) ? p->left / p->rate : 0));
        if (p->ended < p->moved)
            next = fmin(next, p->arrive[p->ended]);
    }
    for (int r = 0; r < s->model->n_ranks; r++)
        next = fmin(next, s->ranks[r].until);
    if (!isfinite(next))
        return 0;
    for (size_t i = 0; i < s->n_pairs; i++) {
        struct pair *p = &s->pairs[i];
        if (!(p->left > 0))
            continue;
        p->left = isfinite(p->rate) ? p->left - p->rate * (next - s->now) : 0;
        if (p->left > 1e-3) /* of a byte */
            continue;
        p->left = 0;
        p->arrive[p->moved++] = next + p->latency;
    }
    s->now = next;
    return 1;
}

double mn_simulate(const struct mn_model *model, const struct mn_schedule *schedules,
                   struct mn_load *parts)
{
    struct simulation s = {.model = model, .parts = parts};

    s.ranks = mn_zalloc((size_t)(model->n_ranks + 1) * sizeof *s.ranks);
    for (int r = 0; r < model->n_ranks; r++)
        s.ranks[r].schedule = &schedules[r];
    int good = set_up(&s);
    if (good)
        begin_what_may(&s);
    while (good && s.left > 0) {
        good = go_on(&s);
        finish(&s);
        begin_what_may(&s);
    }
    tear_down(&s);
    return good ? s.now : -1;
}
