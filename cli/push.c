#include "cli/push.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/base/alloc.h"

/* --- asking --------------------------------------------------------------------------------- */

static int is_system(const struct mn_push *push)
{
    return push->to && !strcmp(push->to, MN_FILES_SYSTEM);
}

/* The question, with the text or without; the caller's. */
static cJSON *question(const struct mn_push *push, int with_text)
{
    cJSON *ask = cJSON_CreateObject();

    if (is_system(push))
        cJSON_AddStringToObject(ask, "place", "system");
    else if (push->to)
        cJSON_AddStringToObject(ask, "path", push->to);
    if (with_text)
        cJSON_AddStringToObject(ask, "text", push->text);
    return ask;
}

static void fail_host(struct mn_push_host *host, const struct mn_crew_answer *answer)
{
    host->err = answer->err;
    host->diag = answer->diag;
}

static void take_state(struct mn_push_host *host, const struct mn_crew_answer *answer,
                       struct mn_file_state *state)
{
    struct mn_diag why;

    if (answer->err)
        fail_host(host, answer);
    else if ((host->err = mn_file_state_parse(answer->json, state, &why)))
        mn_fail(&host->diag, host->err, "%s: %s", host->name, why.text);
}

static int has_it(const struct mn_push *push, const struct mn_file_state *state)
{
    return state->exists && state->bytes == mn_file_hash(push->text, push->len);
}

static int is_chosen(const struct mn_push *push, const struct mn_push_host *host, int by_root)
{
    return !host->err && !has_it(push, &host->had) && host->by_root == by_root;
}

/* Asks those that are to be written, as their user or by sudo. Returns how many these are. */
static size_t ask_chosen(struct mn_push *push, struct mn_crew *crew, int by_root, const char *verb,
                         const cJSON *ask, struct mn_crew_answer *answers)
{
    const cJSON **asks = mn_zalloc((push->n + 1) * sizeof *asks);
    size_t n = 0;

    for (size_t i = 0; i < push->n; i++)
        if (is_chosen(push, &push->hosts[i], by_root)) {
            asks[i] = ask;
            n++;
        }
    if (n)
        (void)mn_crew_ask_each(crew, verb, asks, answers);
    free(asks);
    return n;
}

/* --- looking -------------------------------------------------------------------------------- */

static void check_sudo(struct mn_push_host *host, const struct mn_crew_answer *answer)
{
    if (answer->err)
        fail_host(host, answer);
    else if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer->json, "sudo")))
        host->err = mn_fail(&host->diag, MN_ERR_CONFIG,
                            "%s: %s: this user cannot write it there: allow sudo without a "
                            "password, or come as root (--hosts root@%s)",
                            host->name, host->had.path, host->name);
}

/* The system's file can be written by sudo, others by their user only. */
static void look_for_root(struct mn_push *push, struct mn_crew *crew,
                          struct mn_crew_answer *answers)
{
    cJSON *ask = cJSON_CreateObject();

    cJSON_AddTrueToObject(ask, "sudo");
    for (size_t i = 0; i < push->n; i++) {
        struct mn_push_host *host = &push->hosts[i];
        if (host->err || host->had.writable || has_it(push, &host->had))
            continue;
        host->by_root = !strcmp(host->had.path, MN_FILES_SYSTEM);
        if (!host->by_root)
            host->err = mn_fail(&host->diag, MN_ERR_CONFIG, "%s: %s: cannot be written there%s%s",
                                host->name, host->had.path, host->had.broken[0] ? ": " : "",
                                host->had.broken);
    }
    size_t n = ask_chosen(push, crew, 1, "about", ask, answers);
    for (size_t i = 0; n && i < push->n; i++)
        if (is_chosen(push, &push->hosts[i], 1))
            check_sudo(&push->hosts[i], &answers[i]);
    if (n)
        mn_crew_answers_free(answers, push->n);
    cJSON_Delete(ask);
}

void mn_push_look(struct mn_push *push, struct mn_crew *crew)
{
    push->n = mn_crew_size(crew);
    push->hosts = mn_zalloc((push->n + 1) * sizeof *push->hosts);
    struct mn_crew_answer *answers = mn_zalloc((push->n + 1) * sizeof *answers);
    cJSON *ask = question(push, 0);

    (void)mn_crew_ask(crew, push->to && !is_system(push) ? "put-mesh-at" : "mesh", ask, answers);
    for (size_t i = 0; i < push->n; i++) {
        mn_strlcpy(push->hosts[i].name, answers[i].host, sizeof push->hosts[i].name);
        take_state(&push->hosts[i], &answers[i], &push->hosts[i].had);
        push->hosts[i].now = push->hosts[i].had;
    }
    mn_crew_answers_free(answers, push->n);
    look_for_root(push, crew, answers);
    cJSON_Delete(ask);
    free(answers);
}

/* --- writing -------------------------------------------------------------------------------- */

static void check_written(const struct mn_push *push, struct mn_push_host *host)
{
    if (!host->err && !has_it(push, &host->now))
        host->err = mn_fail(&host->diag, MN_ERR_FAILED,
                            "%s: %s is another one than was written: somebody else writes it, too",
                            host->name, host->now.path);
}

static void write_some(struct mn_push *push, struct mn_crew *crew, int by_root, const char *verb)
{
    struct mn_crew_answer *answers = mn_zalloc((push->n + 1) * sizeof *answers);
    cJSON *ask = question(push, 1);

    if (ask_chosen(push, crew, by_root, verb, ask, answers)) {
        for (size_t i = 0; i < push->n; i++)
            if (is_chosen(push, &push->hosts[i], by_root)) {
                take_state(&push->hosts[i], &answers[i], &push->hosts[i].now);
                check_written(push, &push->hosts[i]);
            }
        mn_crew_answers_free(answers, push->n);
    }
    cJSON_Delete(ask);
    free(answers);
}

void mn_push_write(struct mn_push *push, struct mn_crew *crew)
{
    push->wrote = 1;
    write_some(push, crew, 0, push->to && !is_system(push) ? "put-mesh-at" : "put-mesh");
    write_some(push, crew, 1, "put-mesh-system");
}

size_t mn_push_failed(const struct mn_push *push)
{
    size_t failed = 0;

    for (size_t i = 0; i < push->n; i++)
        failed += push->hosts[i].err != MN_OK;
    return failed;
}

/* --- telling -------------------------------------------------------------------------------- */

static const char *word_of(const struct mn_push *push, const struct mn_file_state *had)
{
    if (!had->exists)
        return "none";
    if (has_it(push, had))
        return "the same";
    if (had->broken[0])
        return "a broken one";
    return had->digest.hash == push->own.digest.hash ? "the same in other words" : "another";
}

static const char *difference(const struct mn_push *push, const struct mn_file_state *had,
                              char *text, size_t size)
{
    text[0] = 0;
    if (had->exists && had->broken[0])
        mn_strlcpy(text, had->broken, size);
    else if (had->exists && had->digest.hash != push->own.digest.hash)
        mn_mesh_differences(&push->own, &had->digest, text, size);
    return *text ? text : NULL;
}

static void put_now(const struct mn_push *push, const struct mn_push_host *host, struct mn_out *out)
{
    int written = !host->err && host->now.changed, same = !host->err && has_it(push, &host->had);

    mn_out_color(out, host->err ? MN_RED : written || same ? MN_GREEN : MN_PLAIN);
    mn_out_cell(out, host->err ? "failed"
                     : written ? "written"
                     : same    ? "unchanged"
                               : "not written");
}

static void put_host(const struct mn_push *push, const struct mn_push_host *host,
                     struct mn_out *out)
{
    int known = host->had.path[0] != 0;
    char text[2048];

    mn_out_row(out);
    mn_out_cell(out, host->name);
    mn_out_cell(out, known ? host->had.path : NULL);
    mn_out_cell(out, known ? word_of(push, &host->had) : NULL);
    mn_out_cell(out, difference(push, &host->had, text, sizeof text));
    put_now(push, host, out);
    mn_out_cell(out, host->now.node[0] ? host->now.node : NULL);
    mn_out_cell(out, host->err ? host->diag.text : NULL);
}

/* What differs, a host that is none of its nodes, and two that are the same one. */
static void put_notes(const struct mn_push *push, struct mn_out *out)
{
    char text[2048];

    for (size_t i = 0; i < push->n; i++) {
        const struct mn_push_host *host = &push->hosts[i];
        if (difference(push, &host->had, text, sizeof text))
            mn_out_note(out, MN_PLAIN, "%s had %s: %s", host->name, word_of(push, &host->had),
                        text);
        if (!has_it(push, &host->now))
            continue;
        if (!host->now.node[0] && host->now.why[0])
            mn_out_note(out, MN_YELLOW, "%s has the file, and is no node of it: %s", host->name,
                        host->now.why);
        for (size_t k = 0; k < i && host->now.node[0]; k++)
            if (!strcmp(push->hosts[k].now.node, host->now.node))
                mn_out_note(out, MN_YELLOW, "%s and %s both take themselves for node %s",
                            push->hosts[k].name, host->name, host->now.node);
    }
}

void mn_push_show(const struct mn_push *push, struct mn_out *out)
{
    static const struct mn_col cols[] = {
        {"host", "HOST", 0}, {"path", "FILE THERE", MN_DROP(1)},
        {"had", "HAD", 0},   {"differs", NULL, 0},
        {"now", "NOW", 0},   {"node", "NODE", 0},
        {"error", NULL, 0},
    };
    size_t failed = mn_push_failed(push);

    mn_out_str(out, "file", "File", push->file);
    mn_out_strf(out, "hash", "Hash", "%016llx", (unsigned long long)push->own.digest.hash);
    mn_out_table(out, "hosts", NULL, cols, sizeof cols / sizeof *cols);
    for (size_t i = 0; i < push->n; i++)
        put_host(push, &push->hosts[i], out);
    mn_out_table_end(out);
    put_notes(push, out);
    if (failed)
        mn_out_note(out, MN_RED, "%zu of %zu hosts failed%s", failed, push->n,
                    push->wrote ? "" : "; nothing was written");
}

void mn_push_say(const struct mn_push *push, const char *command)
{
    fflush(stdout);
    for (size_t i = 0; i < push->n; i++)
        if (push->hosts[i].err)
            fprintf(stderr, "meshnet %s: %s\n", command, push->hosts[i].diag.text);
}

void mn_push_free(struct mn_push *push)
{
    free(push->text);
    free(push->hosts);
}
