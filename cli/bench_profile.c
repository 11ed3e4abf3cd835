#include <string.h>

#include "cli/bench.h"
#include "cli/bench_collective.h"

#define SMALL       (64u << 10)
#define QUICK_SMALL (4u << 10)
#define QUICK_MS                                                                                   \
    12000             /* of 15 s; the rest is for connecting and what takes longer than thought    \
                       */
#define OUTSTANDING 8 /* as NCCL has */
#define BURST       16

enum { BW = 1, LAT = 2, BI = 4, RATE = 8, BURSTS = 16 };

static const struct {
    const char *name;
    unsigned profiles;
} names[] = {
    {"bw", BW},
    {"lat", LAT},
    {"bi", BI},
    {"rate", RATE},
    {"burst", BURSTS},
    {"all", BW | LAT | BI | RATE | BURSTS},
    /* as --tests has them */
    {"bandwidth", BW | BI},
    {"latency", LAT},
};
#define N_NAMES (sizeof names / sizeof *names)

static unsigned profiles_of(const char *name)
{
    for (size_t i = 0; i < N_NAMES; i++)
        if (!strcmp(names[i].name, name))
            return names[i].profiles;
    return 0;
}

enum mn_err mn_bench_check_types(const struct mn_bench_options *o, struct mn_diag *diag)
{
    const char *option = o->tests.count ? "tests" : "type";
    const struct mn_opt_list *list = o->tests.count ? &o->tests : &o->types;

    if (o->tests.count && o->types.count && !o->collectives.count)
        return mn_fail(diag, MN_ERR_USAGE, "--tests is another name of --type: give one of them");
    for (size_t i = 0; i < list->count; i++) {
        const char *name = list->items[i];
        if (o->collectives.count) {
            if (profiles_of(name) && strcmp(name, "all") != 0)
                return mn_fail(diag, MN_ERR_USAGE,
                               "--%s '%s' is what is measured with --peer; with --collective, "
                               "--type names the elements: float32, …",
                               option, name);
        } else if (!profiles_of(name)) {
            int element = mn_collective_knows_type(name);
            return mn_fail(diag, MN_ERR_USAGE, "--%s '%s': %s of bw, lat, bi, rate, burst or all",
                           option, name,
                           element ? "it is a type of elements, for --collective; with --peer, "
                                     "expected some"
                                   : "expected some");
        }
    }
    return MN_OK;
}

static enum mn_err pick_ways(const struct mn_bench_options *o, unsigned profiles,
                             struct mn_p2p_plan *plan, struct mn_diag *diag)
{
    const unsigned out = 1u << MN_P2P_OUT, in = 1u << MN_P2P_IN, both = 1u << MN_P2P_BOTH;
    int all = o->direction == MN_P2P_DIRECTIONS;
    unsigned one = all ? out | in : 1u << o->direction;

    if (all)
        plan->directions = (profiles & BW ? out | in : 0) | (profiles & BI ? both : 0);
    else
        plan->directions = profiles & (BW | BI) ? one : 0;
    if (!all && one != both && profiles & BI && !(profiles & BW))
        return mn_fail(diag, MN_ERR_USAGE,
                       "--type bi is both directions at once: leave out --direction %s",
                       mn_p2p_direction_names[o->direction]);
    if (one == both && profiles & BURSTS)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--type burst goes out or in: leave out --direction both");
    if (o->memory != MN_MEMORY_HOST && o->raw_verbs)
        return mn_fail(diag, MN_ERR_USAGE, "--raw-verbs moves host memory: leave out --memory");
    if (one == both && o->raw_verbs)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--raw-verbs goes out or in: leave out --direction both");
    plan->latency = (profiles & LAT) != 0;
    plan->rate = profiles & RATE ? one : 0;
    plan->bursts = profiles & BURSTS ? one : 0;
    plan->raw = !o->raw_verbs ? 0 : all ? out : one;
    return MN_OK;
}

/* Sizes above SMALL only where they were clearly meant. */
static unsigned long long small_limit(const struct mn_bench_options *o,
                                      const struct mn_p2p_plan *plan)
{
    if (!o->tests.count && !o->types.count)
        return SMALL;
    for (size_t i = 0; i < plan->n_sizes; i++)
        if (plan->sizes[i] <= SMALL)
            return SMALL;
    return ~0ull;
}

enum mn_err mn_bench_profile(const struct mn_bench_options *o, struct mn_p2p_plan *plan,
                             struct mn_diag *diag)
{
    const struct mn_opt_list *list = o->tests.count ? &o->tests : &o->types;
    unsigned profiles = list->count || o->raw_verbs ? 0 : BW | LAT | BI;
    long flows = o->flows ? o->flows : o->threads ? o->threads : 1;
    enum mn_err err = mn_bench_check_types(o, diag);

    if (err)
        return err;
    for (size_t i = 0; i < list->count; i++)
        profiles |= profiles_of(list->items[i]);
    if (o->threads > flows)
        return mn_fail(diag, MN_ERR_USAGE,
                       "--threads %ld with --flows %ld: a flow has one thread, so there are at "
                       "least as many flows",
                       o->threads, flows);
    plan->connections = (int)flows;
    plan->threads = o->threads ? (int)o->threads : 1;
    plan->outstanding = o->outstanding ? (int)o->outstanding : OUTSTANDING;
    plan->rate_outstanding = o->outstanding ? (int)o->outstanding : MN_P2P_OUTSTANDING;
    plan->group = o->group ? (int)o->group : 1;
    plan->flush = o->flush;
    plan->burst_messages = o->burst ? (int)o->burst : BURST;
    plan->pause_ms = o->pause_ms;
    plan->latency_max = o->quick ? QUICK_SMALL : small_limit(o, plan);
    plan->budget_ms = o->quick ? QUICK_MS : 0;
    return pick_ways(o, profiles, plan, diag);
}

struct mn_repeat_plan mn_bench_repeat(const struct mn_bench_options *o)
{
    return (struct mn_repeat_plan){
        .duration_ms = o->duration_ms,
        .most_ms = o->max_duration_ms ? o->max_duration_ms : 2 * o->duration_ms,
        .precision = o->precision,
    };
}
