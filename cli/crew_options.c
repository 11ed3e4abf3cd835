#include "cli/crew_options.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/host_name.h"
#include "cli/rank_env.h"
#include "fleet/ctl.h"
#include "fleet/launch.h"

static void say(void *command, const char *host, const char *text)
{
    fflush(stdout);
    fprintf(stderr, "meshnet %s: %s: %s\n", (const char *)command, host, text);
}

static int place(void *places, const char *host, int number, char address[MN_ADDR_TEXT])
{
    const struct mn_names *names = places;
    char ways[MN_NAMES_WAYS][MN_ADDR_TEXT];
    int n = mn_names_ways(&names->mesh, names->self, host, ways);

    if (number < n)
        memcpy(address, ways[number], MN_ADDR_TEXT);
    return number < n;
}

enum mn_err mn_crew_options_check(const struct mn_crew_options *o, struct mn_diag *diag)
{
    if (!o->agents && (o->token_file || o->port != MN_CTL_PORT))
        return mn_fail(diag, MN_ERR_USAGE, "--%s belongs to --agents: add it",
                       o->token_file ? "token-file" : "port");
    return MN_OK;
}

enum mn_err mn_crew_options_open_hosts(const struct mn_crew_options *o,
                                       const struct mn_opt_list *hosts, const char *command,
                                       struct mn_crew **crew, struct mn_diag *diag)
{
    struct mn_names names;
    struct mn_crew_plan plan = {.hosts = hosts,
                                .way = o->agents ? MN_CREW_AGENTS : MN_CREW_SSH,
                                .port = (uint16_t)o->port,
                                .stop = &mn_launch_stop,
                                .place = place,
                                .places = &names,
                                .say = say,
                                .ctx = (void *)(uintptr_t)command};
    enum mn_err err = mn_crew_options_check(o, diag);

    if (!err && o->agents)
        err = mn_token_read(o->token_file, "meshnet serve prints one", plan.token, diag);
    mn_launch_catch();
    /* A mesh file that is broken may be what is to be mended: it only tells no places then. */
    (void)mn_names_read(&names, NULL);
    if (!err)
        err = mn_crew_open(&plan, crew, diag);
    mn_names_free(&names);
    mn_wipe(plan.token, sizeof plan.token);
    return err;
}

enum mn_err mn_crew_options_open(const struct mn_crew_options *o, const char *command,
                                 struct mn_crew **crew, struct mn_diag *diag)
{
    return mn_crew_options_open_hosts(o, &o->hosts, command, crew, diag);
}

size_t mn_crew_print_failures(const char *command, const struct mn_crew_answer *answers, size_t n)
{
    size_t failed = 0;

    fflush(stdout);
    for (size_t i = 0; i < n; i++)
        if (answers[i].err && answers[i].err != MN_ERR_SKIPPED) {
            fprintf(stderr, "meshnet %s: %s\n", command, answers[i].diag.text);
            failed++;
        }
    return failed;
}
