/* Hosts through OpenSSH: a connection a question. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/build.h"
#include "fleet/crew_ssh_impl.h"
#include "fleet/ssh.h"
#include "topo/base/alloc.h"
#include "topo/base/log.h"

#define LOOK_MS 60000 /* to see what a host has, once connected: it may be busy */

int mn_crew_ssh_become(const struct mn_crew_host *host, const char *script, const char *argument)
{
    char *command = NULL;
    size_t size;
    FILE *file = open_memstream(&command, &size);

    if (!file)
        return 1;
    fputs("exec sh -c", file);
    mn_ssh_word(file, script);
    mn_ssh_word(file, argument);
    if (fclose(file))
        return 1;
    struct mn_ssh ssh = {.host = host->name,
                         .address = *host->address ? host->address : NULL,
                         .connect_s = (host->crew->plan.connect_ms + 999) / 1000,
                         .command = command};
    int code = mn_ssh_become(&ssh);
    free(command);
    return code;
}

char *mn_crew_line(const struct mn_crew_host *host, char *text, const char *word)
{
    char begin[64];
    int length = snprintf(begin, sizeof begin, "%s %s ", host->crew->mark, word);

    for (char *at = text; at && *at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (!strncmp(at, begin, (size_t)length)) {
            at[strcspn(at, "\n")] = 0;
            return at + length;
        }
    }
    return NULL;
}

int mn_crew_take_program(struct mn_crew_host *host, const char *path)
{
    if (*path == '/' && mn_strlcpy(host->program, path, sizeof host->program))
        return 1;
    mn_crew_host_fail(host, MN_ERR_PROTO,
                      "its meshnet is at '%.100s': expected a path from / on, below %zu bytes",
                      path, sizeof host->program);
    return 0;
}

void mn_crew_not_reached(struct mn_crew_host *host, const struct mn_errand *e)
{
    const char *last = *e->last ? e->last : "it said nothing";

    if (e->end == MN_ERRAND_STOPPED)
        mn_crew_host_fail(host, MN_ERR_FAILED, "interrupted");
    else if (e->end == MN_ERRAND_LATE)
        mn_crew_host_fail(host, MN_ERR_TIMEOUT, "not done by ssh within %u s%s%s", e->ms / 1000,
                          *e->last ? ": " : "", e->last);
    else if (e->end == MN_ERRAND_RAN && e->status == MN_SSH_FAILED && *host->address)
        mn_crew_host_fail(host, MN_ERR_PEER_DEAD, "ssh did not get there: %s", last);
    else if (e->end == MN_ERRAND_RAN && e->status == MN_SSH_FAILED)
        mn_crew_host_fail(host, MN_ERR_PEER_DEAD,
                          "ssh did not get there: %s. Try: ssh -o BatchMode=yes %s true", last,
                          host->name);
    else
        mn_crew_host_fail(host, MN_ERR_PROTO, "its shell failed by ssh, exit status %d: %s",
                          e->status, last);
}

struct look {
    struct mn_crew_host *host;
    const char *script, *program;
};

static int look(void *ctx)
{
    struct look *l = ctx;

    return mn_crew_ssh_become(l->host, l->script, l->program);
}

static void say_line(void *ctx, const char *text)
{
    struct look *l = ctx;

    /* What ssh says of a name is an error only when no further place is. */
    MN_DEBUG("%s: %s", l->host->name, text);
}

/* Where the host has this very meshnet: "MARK have PATH", else "MARK lack MACHINE LIBC". */
static char *look_script(const char *mark)
{
    char build[MN_BUILD_TEXT];

    return mn_asprintf("m=%s; for p in \"$0\" meshnet /usr/local/bin/meshnet /usr/bin/meshnet; do "
                       "case $(\"$p\" node about </dev/null 2>/dev/null) in "
                       "*\"%s\"*) echo \"$m have $(command -v \"$p\")\"; exit 0;; esac; done; "
                       "l=$(getconf GNU_LIBC_VERSION 2>/dev/null) || l=\"no glibc\"; "
                       "echo \"$m lack $(uname -m) $l\"",
                       mark, mn_build_id(build));
}

/* Returns what the host lacks, to be freed; NULL: nothing, or it cannot be asked. */
static char *take(struct mn_crew_host *host, struct mn_errand *e)
{
    char *have = e->out ? mn_crew_line(host, e->out, "have") : NULL;
    char *lack = e->out && !have ? mn_crew_line(host, e->out, "lack") : NULL;

    if (e->end != MN_ERRAND_RAN || (!have && !lack)) {
        mn_crew_not_reached(host, e);
        return NULL;
    }
    host->reached = 1;
    if (have)
        mn_crew_take_program(host, have);
    return mn_strdup(lack);
}

static void open_all(struct mn_crew *crew)
{
    struct mn_errand *errands = mn_zalloc(crew->n * sizeof *errands);
    struct look *looks = mn_zalloc(crew->n * sizeof *looks);
    char **lacks = mn_zalloc(crew->n * sizeof *lacks);
    char *script = look_script(crew->mark), program[512];

    mn_crew_own_program(program, sizeof program);
    for (size_t i = 0; i < crew->n; i++) {
        struct mn_crew_host *host = &crew->hosts[i];
        if (host->ops != &mn_crew_ssh || !host->pending)
            continue;
        looks[i] = (struct look){.host = host, .script = script, .program = program};
        errands[i] = (struct mn_errand){.body = look,
                                        .line = say_line,
                                        .ctx = &looks[i],
                                        .ms = crew->plan.connect_ms + LOOK_MS};
    }
    mn_errands_run(errands, crew->n, crew->plan.stop);
    for (size_t i = 0; i < crew->n; i++) {
        if (errands[i].body)
            lacks[i] = take(&crew->hosts[i], &errands[i]);
        mn_errand_free(&errands[i]);
    }
    mn_crew_copy(crew, lacks);
    for (size_t i = 0; i < crew->n; i++)
        free(lacks[i]);
    free(lacks);
    free(script);
    free(looks);
    free(errands);
}

/* A connection that was lost took the copy along; the host may be there again. */
static void renew(struct mn_crew *crew)
{
    int some = 0;

    for (size_t i = 0; i < crew->n; i++) {
        struct mn_crew_host *host = &crew->hosts[i];
        if (!host->copied || mn_errand_goes_on(&host->keeper))
            continue;
        host->err = MN_OK;
        host->pending = some = 1;
    }
    if (some)
        open_all(crew);
    for (size_t i = 0; i < crew->n; i++)
        crew->hosts[i].pending = 0;
}

static int ask(struct mn_crew_host *host, const struct mn_node_verb *verb)
{
    char *script = mn_node_script(verb);
    int code = mn_crew_ssh_become(host, script, host->program);

    free(script);
    return code;
}

static enum mn_err judge(const struct mn_crew_host *host, const struct mn_errand *e,
                         struct mn_diag *diag)
{
    (void)host;
    if (e->status == MN_SSH_FAILED)
        return mn_fail(diag, MN_ERR_PEER_DEAD, "the ssh connection failed%s%s",
                       *e->last ? ": " : " without a word", e->last);
    return e->status > 128
               ? mn_fail(diag, MN_ERR_PEER_DEAD, "its ssh was ended by signal %d", e->status - 128)
               : MN_OK;
}

const struct mn_crew_ops mn_crew_ssh = {.open = open_all,
                                        .renew = renew,
                                        .ask = ask,
                                        .judge = judge,
                                        .close = mn_crew_copies_end};
