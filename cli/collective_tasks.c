#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/bench_collective.h"
#include "topo/base/alloc.h"

struct name {
    const char *name;
    int value;
};

static const struct name type_aliases[] = {
    {"float", MN_TYPE_FLOAT32},
    {"half", MN_TYPE_FLOAT16},
    {"double", MN_TYPE_FLOAT64},
    {NULL, 0},
};

static const char *type_at(int i)
{
    return i < MN_TYPES ? mn_type_name(i) : NULL;
}

int mn_collective_knows_type(const char *name)
{
    for (int i = 0; i < MN_TYPES; i++)
        if (!strcmp(name, type_at(i)))
            return 1;
    for (const struct name *a = type_aliases; a->name; a++)
        if (!strcmp(name, a->name))
            return 1;
    return 0;
}

static const char *op_at(int i)
{
    return i < MN_REDOPS ? mn_redop_name(i) : NULL;
}

static const char *collective_at(int i)
{
    return i < MN_COLLECTIVES ? mn_collective_name((enum mn_collective)i) : NULL;
}

/* A bit for each name of the list; "all" sets all. */
static enum mn_err pick(const char *option, const struct mn_opt_list *list,
                        const char *(*at)(int i), const struct name *aliases, unsigned *bits,
                        struct mn_diag *diag)
{
    char known[512] = "";
    size_t used = 0;
    int n = 0;

    for (; at(n); n++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s, ", at(n));
    *bits = 0;
    for (size_t k = 0; k < list->count; k++) {
        unsigned before = *bits;
        const char *name = list->items[k];
        int twice = 0;
        for (int i = 0; i < n; i++)
            if (!strcmp(name, "all") || !strcmp(name, at(i))) {
                twice |= (int)(*bits >> i & 1);
                *bits |= 1u << i;
            }
        for (const struct name *a = aliases; a && a->name; a++)
            if (!strcmp(name, a->name))
                *bits |= 1u << a->value;
        if (*bits == before && !twice)
            return mn_fail(diag, MN_ERR_USAGE, "--%s '%s': expected some of %sor all", option, name,
                           known);
    }
    return MN_OK;
}

static void add_task(struct mn_collective_session *s, struct mn_collective_task task)
{
    struct mn_collective_task *new = mn_grow((void **)&s->tasks, &s->n_tasks, sizeof *new);
    *new = task;
}

/* One collective by one name of --algorithm. */
static enum mn_err add_algorithm(struct mn_collective_session *s, struct mn_collective_task task,
                                 const char *name, struct mn_diag *diag)
{
    int nranks = s->plan.nranks, all = !strcmp(name, "all");

    if (s->options->engine && task.collective == MN_SPARSE_ALLREDUCE)
        return MN_OK; /* it has no such thing */
    if (!strcmp(name, "auto")) {
        add_task(s, task);
        return MN_OK;
    }
    for (const struct mn_algorithm *a = mn_algorithms; a->name; a++) {
        if (a->collective != task.collective || (!all && strcmp(name, a->name) != 0))
            continue;
        task.algorithm = a;
        const char *refusal = mn_collective_refusal(&task, nranks);
        if (refusal && !all)
            return mn_fail(diag, MN_ERR_USAGE, "--algorithm %s for %s and %d ranks: %s", name,
                           mn_collective_name(task.collective), nranks, refusal);
        if (!refusal)
            add_task(s, task);
    }
    return MN_OK;
}

static enum mn_err known_algorithm(const char *name, unsigned collectives, struct mn_diag *diag)
{
    char known[512] = "auto, all";
    size_t used = strlen(known);

    if (!strcmp(name, "auto") || !strcmp(name, "all"))
        return MN_OK;
    for (const struct mn_algorithm *a = mn_algorithms; a->name; a++) {
        if (!(collectives >> a->collective & 1))
            continue;
        if (!strcmp(name, a->name))
            return MN_OK;
        if (!strstr(known, a->name) && used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, ", %s", a->name);
    }
    return mn_fail(diag, MN_ERR_USAGE, "--algorithm '%s': expected some of %s", name, known);
}

struct choice {
    unsigned collectives, types, ops;
};

static enum mn_err choose(const struct mn_collective_session *s, struct choice *choice,
                          struct mn_diag *diag)
{
    static const char *names[] = {"float32"};
    static const struct mn_opt_list float32 = {.items = names, .count = 1};
    const struct mn_bench_options *o = s->options;
    enum mn_err err =
        pick("collective", &o->collectives, collective_at, NULL, &choice->collectives, diag);

    if (!err)
        err = pick("type", o->types.count ? &o->types : &float32, type_at, type_aliases,
                   &choice->types, diag);
    if (!err)
        err = pick("op", &o->ops, op_at, NULL, &choice->ops, diag);
    for (size_t i = 0; i < o->algorithms.count && !err; i++)
        err = known_algorithm(o->algorithms.items[i], choice->collectives, diag);
    if (!err && o->root >= s->plan.nranks)
        err = mn_fail(diag, MN_ERR_USAGE, "--root %ld: there are %d ranks, from 0 on", o->root,
                      s->plan.nranks);
    return err;
}

/* All sizes of one collective, type and operation. */
static enum mn_err add_sizes(struct mn_collective_session *s, struct mn_collective_task task,
                             const struct mn_bench_sizes *sizes, struct mn_diag *diag)
{
    const struct mn_bench_options *o = s->options;
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < sizes->n; i++) {
        task.bytes = sizes->size[i];
        for (size_t a = 0; a < o->algorithms.count && !err; a++)
            err = add_algorithm(s, task, o->algorithms.items[a], diag);
    }
    return err;
}

enum mn_err mn_collective_plan(struct mn_collective_session *s, struct mn_diag *diag)
{
    const struct mn_bench_options *o = s->options;
    struct mn_bench_sizes sizes = {.n = 0};
    struct choice choice;
    enum mn_err err = choose(s, &choice, diag);

    if (!err)
        err = mn_bench_sizes_parse(&o->sizes, &sizes, diag);

    for (int c = 0; c < MN_COLLECTIVES && !err; c++)
        for (int type = 0; type < MN_TYPES && !err; type++)
            for (int op = 0, ops = 0; op < MN_REDOPS && !err; op++) {
                int reduces = mn_collective_reduces((enum mn_collective)c);
                if (!(choice.collectives >> c & 1) || !(choice.types >> type & 1) ||
                    !(choice.ops >> op & 1) || (!reduces && ops++))
                    continue;
                struct mn_collective_task task = {.collective = (enum mn_collective)c,
                                                  .type = type,
                                                  .op = op,
                                                  .root = (int)o->root,
                                                  .iters = (unsigned long)o->iters,
                                                  .warmup = (unsigned long)o->warmup,
                                                  .repeat = mn_bench_repeat(o),
                                                  .check = !o->no_check};
                err = add_sizes(s, task, &sizes, diag);
            }
    free(sizes.size);
    if (!err && !s->n_tasks)
        err = mn_fail(diag, MN_ERR_USAGE, "no algorithm of these does any of these collectives");
    return err;
}
