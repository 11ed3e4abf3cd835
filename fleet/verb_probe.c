/* The verb "probe": this node's part of a run that another one leads. */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "fleet/probe.h"
#include "fleet/probe_impl.h"
#include "fleet/verbs.h"

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    stop = number;
}

/* NICs that were brought up are put back first. */
static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
#define CAUGHT (sizeof caught / sizeof *caught)

enum mn_err mn_verb_probe(const cJSON *ask, cJSON **answer, struct mn_diag *diag)
{
    struct sigaction action = {.sa_handler = on_signal}, before[CAUGHT];
    struct mn_probe_result result = {.n_nics = 0};
    struct mn_probe_plan plan;
    enum mn_err err = mn_probe_ask_parse(ask, &plan, diag);

    *answer = NULL;
    /* Not killed with whoever started it, either. */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    plan.stop = &stop;
    for (size_t i = 0; i < CAUGHT; i++)
        sigaction(caught[i], &action, &before[i]);
    if (!err)
        err = mn_probe_run(&plan, &result, diag);
    for (size_t i = 0; i < CAUGHT; i++)
        sigaction(caught[i], &before[i], NULL);
    if (!err)
        *answer = mn_probe_result_json(&result);
    mn_probe_result_free(&result);
    free(plan.take.items);
    free(plan.skip.items);
    mn_wipe(plan.key, sizeof plan.key);
    return err;
}
