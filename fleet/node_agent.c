#include "fleet/node_agent.h"

#include <math.h>
#include <sodium/utils.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/errand.h"
#include "topo/base/alloc.h"

#define PART    32766u /* bytes of a text in one message: a multiple of 3 */
#define PARTS   (MN_NODE_TEXT / PART + 1)
#define BASE64  sodium_base64_VARIANT_ORIGINAL
#define MORE_MS 10000u /* than a verb takes */

struct text {
    char *bytes;
    size_t used, room;
};

static enum mn_err send_part(struct mn_ctl *ctl, const char *bytes, size_t size,
                             struct mn_diag *diag)
{
    size_t length = sodium_base64_encoded_len(size, BASE64);
    char *code = mn_zalloc(length);
    cJSON *m = cJSON_CreateObject();

    sodium_bin2base64(code, length, (const unsigned char *)bytes, size, BASE64);
    cJSON_AddStringToObject(m, "part", code);
    free(code);
    return mn_ctl_send(ctl, m, diag);
}

static enum mn_err send_text(struct mn_ctl *ctl, const char *text, size_t size,
                             struct mn_diag *diag)
{
    enum mn_err err = MN_OK;

    for (size_t at = 0; at < size && !err; at += PART)
        err = send_part(ctl, text + at, size - at < PART ? size - at : PART, diag);
    return err;
}

static enum mn_err take_part(const cJSON *m, struct text *text, struct mn_diag *diag)
{
    const cJSON *part = cJSON_GetObjectItemCaseSensitive(m, "part");
    size_t got = 0;

    if (text->used + PART >= text->room) {
        text->room = 2 * text->room + 2 * PART;
        text->bytes = realloc(text->bytes, text->room);
        if (!text->bytes)
            mn_no_memory();
    }
    if (!cJSON_IsString(part) ||
        sodium_base642bin((unsigned char *)text->bytes + text->used, PART, part->valuestring,
                          strlen(part->valuestring), NULL, &got, NULL, BASE64))
        return mn_fail(diag, MN_ERR_PROTO, "control message: 'part' is none");
    text->used += got;
    text->bytes[text->used] = 0;
    return text->used <= MN_NODE_TEXT
               ? MN_OK
               : mn_fail(diag, MN_ERR_PROTO, "control messages: a text of more than %u bytes",
                         MN_NODE_TEXT);
}

/* --- the client ------------------------------------------------------------------------------- */

static enum mn_err send_question(struct mn_ctl *ctl, const char *verb, const char *ask, size_t size,
                                 struct mn_diag *diag)
{
    cJSON *m = cJSON_CreateObject();

    cJSON_AddStringToObject(m, "op", "node");
    cJSON_AddStringToObject(m, "verb", verb);
    cJSON_AddNumberToObject(m, "parts", (double)((size + PART - 1) / PART));
    enum mn_err err = mn_ctl_send(ctl, m, diag);
    return err ? err : send_text(ctl, ask, size, diag);
}

/* 1 at the end of the answer. */
static enum mn_err hear(const cJSON *m, struct text *answer, int *ended, struct mn_diag *diag)
{
    const cJSON *line = cJSON_GetObjectItemCaseSensitive(m, "line");

    if (cJSON_IsString(line)) {
        fprintf(stderr, "%s\n", line->valuestring);
        return MN_OK;
    }
    *ended = cJSON_HasObjectItem(m, "end");
    return *ended ? MN_OK : take_part(m, answer, diag);
}

enum mn_err mn_node_agent_ask(struct mn_ctl *ctl, const struct mn_node_verb *verb, const char *ask,
                              size_t size, struct mn_diag *diag)
{
    struct text answer = {.bytes = NULL};
    int ended = 0;
    enum mn_err err = send_question(ctl, verb->name, ask, size, diag);

    mn_ctl_watch(ctl);
    while (!err && !ended) {
        cJSON *m;
        err = mn_ctl_receive(ctl, verb->seconds * 1000 + MORE_MS, &m, diag);
        if (!err) {
            err = hear(m, &answer, &ended, diag);
            cJSON_Delete(m);
        }
    }
    if (!err && fwrite(answer.bytes, 1, answer.used, stdout) != answer.used)
        err = mn_fail_errno(diag, "handing on its answer");
    free(answer.bytes);
    return err;
}

/* --- serve ------------------------------------------------------------------------------------ */

int mn_node_agent_asked(const cJSON *first)
{
    const cJSON *op = cJSON_GetObjectItemCaseSensitive(first, "op");

    return cJSON_IsString(op) && !strcmp(op->valuestring, "node");
}

struct served {
    struct mn_ctl *ctl;
    const struct mn_node_verb *verb;
    enum mn_err err;
    struct mn_diag *diag;
};

static int body(void *ctx)
{
    return mn_node_here(((struct served *)ctx)->verb);
}

static void send_line(void *ctx, const char *text)
{
    struct served *s = ctx;
    cJSON *m = cJSON_CreateObject();

    cJSON_AddStringToObject(m, "line", text);
    if (s->err)
        cJSON_Delete(m);
    else
        s->err = mn_ctl_send(s->ctl, m, s->diag);
}

static enum mn_err read_question(struct mn_ctl *ctl, const cJSON *first, unsigned idle_ms,
                                 struct text *ask, struct mn_diag *diag)
{
    double parts;
    enum mn_err err = mn_ctl_number(first, "parts", 0, PARTS, &parts, diag);

    for (int i = 0; !err && i < parts; i++) {
        cJSON *m;
        err = mn_ctl_receive(ctl, idle_ms, &m, diag);
        if (!err) {
            err = take_part(m, ask, diag);
            cJSON_Delete(m);
        }
    }
    return err;
}

static enum mn_err send_answer(struct mn_ctl *ctl, const char *text, size_t size,
                               struct mn_diag *diag)
{
    enum mn_err err = send_text(ctl, text, size, diag);
    cJSON *m = cJSON_CreateObject();

    cJSON_AddTrueToObject(m, "end");
    if (!err)
        return mn_ctl_send(ctl, m, diag);
    cJSON_Delete(m);
    return err;
}

static enum mn_err send_refusal(struct mn_ctl *ctl, const struct mn_diag *why, struct mn_diag *diag)
{
    cJSON *json = mn_node_error(why);
    char *text = cJSON_PrintUnformatted(json);

    cJSON_Delete(json);
    if (!text)
        mn_no_memory();
    enum mn_err err = send_answer(ctl, text, strlen(text), diag);
    free(text);
    return err;
}

/* MN_ERR_CONFIG and USAGE are the asker's to hear. */
static enum mn_err allow(const cJSON *first, int manage, const struct mn_node_verb **verb,
                         struct mn_diag *why)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(first, "verb");
    enum mn_err err = mn_node_find(cJSON_IsString(name) ? name->valuestring : "", verb, why);

    if (!err && (*verb)->not_by_agents)
        err = mn_fail(why, MN_ERR_CONFIG, "'%s' is not for a meshnet serve to do: ask over ssh",
                      (*verb)->name);
    else if (!err && (*verb)->changes && !manage)
        err = mn_fail(why, MN_ERR_CONFIG,
                      "'%s' changes the host, which this meshnet serve does not do: start it with "
                      "--manage, or ask over ssh",
                      (*verb)->name);
    return err;
}

static enum mn_err run(struct served *s, const struct text *ask)
{
    struct mn_errand errand = {.body = body,
                               .line = send_line,
                               .ctx = s,
                               .text = ask->bytes ? ask->bytes : "",
                               .size = ask->used,
                               .until_fd = s->ctl->fd,
                               .stays = s->verb->changes,
                               .ms = s->verb->seconds * 1000 + MORE_MS};
    struct mn_diag why;
    enum mn_err err;

    mn_errands_run(&errand, 1, NULL);
    if (s->err)
        err = s->err;
    else if (errand.end == MN_ERRAND_STOPPED)
        /* It has nothing more to say: whatever comes means that it left. */
        err = mn_fail(s->diag, MN_ERR_PEER_DEAD, "%s: left before the answer to '%s'", s->ctl->peer,
                      s->verb->name);
    else if (errand.end == MN_ERRAND_RAN && errand.used)
        err = send_answer(s->ctl, errand.out, errand.used, s->diag);
    else {
        mn_fail(&why, MN_ERR_FAILED, "'%s' gave no answer%s%s", s->verb->name,
                *errand.last ? ": " : "", errand.last);
        err = send_refusal(s->ctl, &why, s->diag);
    }
    mn_errand_free(&errand);
    return err;
}

enum mn_err mn_node_agent_serve(struct mn_ctl *ctl, const cJSON *first, int manage,
                                unsigned idle_ms, struct mn_diag *diag)
{
    struct served s = {.ctl = ctl, .diag = diag};
    struct text ask = {.bytes = NULL};
    struct mn_diag why = {.text = ""};
    enum mn_err err = read_question(ctl, first, idle_ms, &ask, diag);

    mn_ctl_watch(ctl);
    if (!err)
        err = allow(first, manage, &s.verb, &why) ? send_refusal(ctl, &why, diag) : run(&s, &ask);
    free(ask.bytes);
    return err;
}
