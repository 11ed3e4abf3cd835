#include "bench/check/trace.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fleet/launch.h"
#include "fleet/meet.h"
#include "bench/trace/replay.h"
#include "topo/base/alloc.h"

/* What the rank that knows why it ended says of it, in memory of all of them. */
struct outcome {
    uint64_t wrong, moved;
    char text[512];
};

struct play {
    const struct mn_check *check;
    struct mn_group_plan plan;
    struct outcome *outcome;
};

static int be_rank(void *ctx, int rank)
{
    const struct play *p = ctx;
    const struct mn_check_target *target = p->check->target;
    struct mn_replay_report *reports = mn_zalloc((size_t)p->plan.nranks * sizeof *reports);
    struct mn_group_plan plan = p->plan;
    struct mn_replay_rank own = {.plan = &plan,
                                 .trace = target->traces[rank],
                                 .plugin = target->path,
                                 .abi = target->version};
    struct mn_diag diag = {.text = ""};

    plan.rank = rank;
    enum mn_err err = mn_replay_play(&own, reports, &diag);
    if (err && (rank == 0 || !own.joined || !own.told))
        mn_strlcpy(p->outcome->text, diag.text, sizeof p->outcome->text);
    for (int r = 0; r < plan.nranks && !err && rank == 0; r++) {
        p->outcome->wrong += reports[r].wrong;
        p->outcome->moved += reports[r].received;
    }
    free(reports);
    return err != MN_OK;
}

static void on_line(void *ctx, int rank, const char *text)
{
    (void)ctx, (void)rank, (void)text;
}

void mn_check_trace(struct mn_check *check)
{
    const struct mn_check_target *target = check->target;
    struct play p = {.check = check,
                     .plan = {.nranks = target->n_traces, .stop = &mn_launch_stop},
                     .outcome = mmap(NULL, sizeof *p.outcome, PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    struct mn_launch crew = {.nranks = target->n_traces,
                             .body = be_rank,
                             .line = on_line,
                             .ctx = &p};
    char line[MN_MEET_LINE], host[MN_ADDR_TEXT];
    struct mn_diag diag = {.text = ""};
    int code = 0;

    if (!target->n_traces)
        mn_check_skip(check, "no trace was given (--trace)");
    if (p.outcome == MAP_FAILED)
        mn_check_skip(check, "no memory to share with other processes");
    p.plan.timeout_ms = (unsigned)((check->deadline_ns - mn_check_now_ns()) / 1000000u);
    mn_check_step(check, "%d processes play %d traces", target->n_traces, target->n_traces);
    enum mn_err err = mn_meet_open(&p.plan, NULL, 0, line, &diag);
    if (!err)
        err = mn_meet_read(line, NULL, 0, &p.plan, host, &diag);
    if (!err)
        err = mn_launch_local(&crew, &code, &diag);
    if (err)
        mn_check_skip(check, "%s", diag.text);
    if (p.outcome->wrong)
        mn_check_fail(check, "%llu of %llu messages arrived with wrong data or size",
                      (unsigned long long)p.outcome->wrong, (unsigned long long)p.outcome->moved);
    if (code)
        mn_check_fail(check, "%s",
                      p.outcome->text[0] ? p.outcome->text : "a process ended without a word");
    mn_check_note(check, "%llu messages", (unsigned long long)p.outcome->moved);
}
