#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/crew_options.h"
#include "fleet/node.h"
#include "topo/base/alloc.h"

struct options {
    int list;
    struct mn_crew_options crew;
};

static const struct mn_opt options[] = {
    {.name = "list",
     .type = MN_OPT_FLAG,
     .offset = offsetof(struct options, list),
     .help = "The verbs, with what each does."},
    MN_CREW_OPTIONS(struct options, crew),
    MN_OPT_END,
};

/* What sudo takes away, as operands. */
static const char *const settable[] = {"MESHNET_NODE=", "MESHNET_CONFIG=", "MESHNET_LOG="};

static enum mn_err set(const char *word, struct mn_diag *diag)
{
    for (size_t i = 0; i < sizeof settable / sizeof *settable; i++) {
        size_t length = strlen(settable[i]);
        char name[32];
        if (strncmp(word, settable[i], length) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)length - 1, word);
        if (!strcmp(name, "MESHNET_CONFIG") && word[length])
            return mn_sudo_config(word + length, diag);
        if (word[length])
            setenv(name, word + length, 1);
        return MN_OK;
    }
    return mn_fail(diag, MN_ERR_USAGE,
                   "unexpected '%s'; after the verb only MESHNET_NODE=, MESHNET_CONFIG= and "
                   "MESHNET_LOG= may stand",
                   word);
}

/* A line for each host: {"host", "answer"}, or {"host", "error", "code"}. */
static int print(const struct mn_crew_answer *answers, size_t n)
{
    int failed = 0;

    for (size_t i = 0; i < n; i++) {
        const struct mn_crew_answer *a = &answers[i];
        cJSON *line = a->err ? mn_node_error(&a->diag) : cJSON_CreateObject();
        cJSON_AddStringToObject(line, "host", a->host);
        if (!a->err)
            cJSON_AddItemReferenceToObject(line, "answer", a->json);
        failed |= a->err != MN_OK;
        failed |= mn_node_put(line) != MN_OK;
    }
    return failed;
}

static int ask_hosts(const struct options *o, const char *name)
{
    const struct mn_node_verb *verb;
    struct mn_diag diag = {.text = ""};
    struct mn_crew *crew = NULL;
    cJSON *ask = NULL;
    int code = 1;
    enum mn_err err = mn_node_find(name, &verb, &diag);

    if (!err)
        err = mn_node_read(&ask, &diag);
    if (!err)
        err = mn_crew_options_open(&o->crew, "node", &crew, &diag);
    if (!err) {
        size_t n = mn_crew_size(crew);
        struct mn_crew_answer *answers = mn_zalloc(n * sizeof *answers);
        (void)mn_crew_ask(crew, name, ask, answers);
        code = print(answers, n);
        mn_crew_answers_free(answers, n);
        free(answers);
    }
    mn_crew_close(crew);
    cJSON_Delete(ask);
    return err ? mn_cmd_fail("node", &diag) : code;
}

/* By sudo, which is asked for verbs of this host: a user whom it lets run those is not to ask other
 * hosts with root's keys, nor to have root open a file that he may name. */
static enum mn_err check_sudo(const struct options *o, struct mn_diag *diag)
{
    const struct mn_crew_options *crew = &o->crew;

    if (!mn_sudo_user(NULL) || (!crew->hosts.count && !crew->token_file && !crew->agents))
        return MN_OK;
    return mn_fail(
        diag, MN_ERR_USAGE,
        "--hosts, --agents and --token-file are not for sudo: a verb that it runs is for "
        "this host alone; call it without sudo, it is asked where root is needed");
}

static int run(const void *values, int argc, char **argv)
{
    const struct options *o = values;
    struct mn_diag diag = {.text = ""};
    enum mn_err err = check_sudo(o, &diag);

    if (o->list) {
        for (const struct mn_node_verb *verb = mn_node_verbs; verb->name; verb++)
            printf("%-10s %s\n", verb->name, verb->what);
        return 0;
    }
    /* What sudo is tried with, see fleet/node_here.c: nothing is done. */
    if (!err && argc == 2 && !strcmp(argv[1], "--help"))
        return 0;
    if (!err && !argc)
        err = mn_fail(&diag, MN_ERR_USAGE, "expected a verb; meshnet node --list shows them");
    for (int i = 1; i < argc && !err; i++)
        err = set(argv[i], &diag);
    if (err)
        return mn_cmd_fail("node", &diag);
    return o->crew.hosts.count ? ask_hosts(o, argv[0]) : mn_node_stream(argv[0]);
}

const struct mn_command mn_cmd_node = {
    .name = "node",
    .summary = "what other nodes call here: a question as JSON in, the answer out",
    .usage = "[OPTION]… VERB [NAME=VALUE]… <QUESTION",
    .options = options,
    .options_size = sizeof(struct options),
    .notes = "Examples:\n"
             "  echo {} | meshnet node about\n"
             "  echo {} | meshnet node about --hosts spark-a,spark-b",
    .exits = {{0, MN_GOOD ": the answer is on standard output; with --hosts that of each host"},
              {1, MN_FAILED "why is on standard output"},
              {2,
               MN_REFUSED "an unknown verb, a question that is none, no root where it is needed"}},
    .run = run,
};
