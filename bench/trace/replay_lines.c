#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/trace/replay_impl.h"
#include "topo/base/alloc.h"

#define LINES_MOST 65536
#define SLOT_ALIGN 4096
#define HEX        (2 * MN_HANDLE_SIZE)

enum mn_err mn_replay_called(struct replay *r, const char *call, int result)
{
    return result ? mn_group_call_failed(r->group, -1, call, result, r->diag) : MN_OK;
}

enum mn_err mn_replay_idle(struct replay *r)
{
    return mn_group_idle(r->group, &r->idle, r->diag);
}

static void collect(void *ctx, const struct mn_trace_event *e)
{
    const struct mn_trace_record *record = e->record;
    struct replay *r = ctx;
    enum mn_trace_op op = (enum mn_trace_op)record->op;

    if (!e->comm || (op != MN_TRACE_LISTEN && op != MN_TRACE_CONNECT && op != MN_TRACE_ACCEPT) ||
        r->n_lines == LINES_MOST)
        return;
    struct line *line = mn_grow((void **)&r->lines, &r->n_lines, sizeof *line);
    line->op = op;
    line->hash = record->b;
    line->listen = 0;
    /* An accept names its listen by its address then. */
    for (size_t i = r->n_lines - 1; op == MN_TRACE_ACCEPT && i-- > 0 && !line->listen;)
        if (r->lines[i].op == MN_TRACE_LISTEN && r->lines[i].mh == (void *)(uintptr_t)record->b) {
            line->listen = (uint32_t)i + 1;
            line->hash = r->lines[i].hash;
        }
    line->mh = op == MN_TRACE_LISTEN ? (void *)(uintptr_t)record->a : NULL;
}

/* What the other ranks listen for and connect to: "L HASH HANDLE" and "C HASH" lines. */
static char *describe(struct replay *r)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);

    if (!file)
        mn_no_memory();
    for (size_t i = 0; i < r->n_lines; i++) {
        const struct line *line = &r->lines[i];
        if (line->op == MN_TRACE_CONNECT)
            fprintf(file, "C %016llx\n", (unsigned long long)line->hash);
        if (line->op != MN_TRACE_LISTEN || !line->comm)
            continue;
        fprintf(file, "L %016llx ", (unsigned long long)line->hash);
        for (int b = 0; b < MN_HANDLE_SIZE; b++)
            fprintf(file, "%02x", line->handle[b]);
        fputc('\n', file);
    }
    fclose(file);
    return text;
}

static int read_handle(const char *hex, uint8_t handle[MN_HANDLE_SIZE])
{
    for (int b = 0; b < MN_HANDLE_SIZE; b++) {
        unsigned byte;
        if (sscanf(hex + (size_t)2 * b, "%2x", &byte) != 1)
            return 0;
        handle[b] = (uint8_t)byte;
    }
    return 1;
}

/* One line of another rank's (or the own) description. */
static void match(struct replay *r, const char *text, size_t length)
{
    unsigned long long hash;
    char kind;

    if (length < 18 || sscanf(text, "%c %16llx", &kind, &hash) != 2)
        return;
    for (size_t i = 0; i < r->n_lines; i++) {
        struct line *line = &r->lines[i];
        if (line->hash != hash)
            continue;
        if (kind == 'L' && line->op == MN_TRACE_CONNECT && length >= 19 + HEX)
            line->peer = read_handle(text + 19, line->handle);
        else if (kind == 'C' && line->op != MN_TRACE_CONNECT)
            line->peer = 1;
    }
}

static enum mn_err listen_for_all(struct replay *r)
{
    char **texts = NULL, *own;
    enum mn_err err = MN_OK;

    for (size_t i = 0; i < r->n_lines && !err; i++)
        if (r->lines[i].op == MN_TRACE_LISTEN)
            err = mn_replay_called(r, "listen",
                                   mn_plugin_listen(r->plan->plugin, r->plan->device,
                                                    r->lines[i].handle, &r->lines[i].comm));
    if (err)
        return err;
    own = describe(r);
    if (strlen(own) > MN_GROUP_TEXT)
        err = mn_fail(r->diag, MN_ERR_UNSUPPORTED, "%zu connections are too many to replay",
                      r->n_lines);
    if (!err)
        err = mn_group_gather_text(r->group, own, &texts, r->diag);
    for (int rank = 0; !err && rank < mn_group_size(r->group); rank++)
        for (const char *text = texts[rank]; *text;) {
            size_t length = strcspn(text, "\n");
            match(r, text, length);
            text += length + (text[length] == '\n');
        }
    free(texts);
    free(own);
    return err;
}

static int try_line(struct replay *r, struct line *line)
{
    if (line->op == MN_TRACE_CONNECT)
        return mn_plugin_connect(r->plan->plugin, r->plan->device, line->handle, &line->comm);
    struct line *listen = mn_replay_line(r, line->listen);
    return mn_plugin_accept(r->plan->plugin, listen->comm, &line->comm);
}

/* --- memory ----------------------------------------------------------------------------------- */

static enum mn_err take_memory(struct replay *r)
{
    struct mn_trace_stats stats;
    size_t all = 0;
    enum mn_err err = MN_OK;

    mn_trace_stats(r->plan->trace, &stats);
    for (size_t i = 0; i < r->n_lines && i < stats.n_comms; i++) {
        struct line *line = &r->lines[i];
        const struct mn_trace_comm *comm = &stats.comms[i];
        if (!line->comm || line->op == MN_TRACE_LISTEN)
            continue;
        line->slot = ((size_t)comm->posted + SLOT_ALIGN) / SLOT_ALIGN * SLOT_ALIGN;
        line->n_slots = ((size_t)comm->outstanding + 1) * (comm->group ? comm->group : 1);
        if (comm->posted > 1ull << 32 || line->n_slots > 65536 ||
            (all += line->slot * line->n_slots) > 1ull << 36)
            err = mn_fail(r->diag, MN_ERR_CONFIG, "connection %zu of the trace asks for too much",
                          i + 1);
        if (err)
            break;
    }
    mn_trace_stats_free(&stats);
    if (!err)
        err = mn_group_room(r->group, all, r->diag);
    for (size_t i = 0; i < r->n_lines && !err; i++) {
        struct line *line = &r->lines[i];
        size_t size = line->slot * line->n_slots;
        if (!size)
            continue;
        void *area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (area == MAP_FAILED)
            return mn_fail(r->diag, MN_ERR_NOMEM, "no memory for connection %zu", i + 1);
        line->area = area;
        line->busy = mn_zalloc(line->n_slots);
        line->mh = NULL;
        err = mn_replay_called(r, "regMr",
                               mn_plugin_reg_mr(r->plan->plugin, line->comm, area, size, 1,
                                                &line->mh));
    }
    return err;
}

enum mn_err mn_replay_connect(struct replay *r)
{
    size_t left = 1;

    mn_trace_walk(r->plan->trace, collect, r);
    enum mn_err err = r->n_lines < LINES_MOST
                          ? listen_for_all(r)
                          : mn_fail(r->diag, MN_ERR_UNSUPPORTED,
                                    "%d connections and more are too many to replay", LINES_MOST);

    while (left && !err) {
        size_t before = left;
        left = 0;
        for (size_t i = 0; i < r->n_lines && !err; i++) {
            struct line *line = &r->lines[i];
            if (line->op == MN_TRACE_LISTEN || line->comm || !line->peer ||
                (line->op == MN_TRACE_ACCEPT && !line->listen))
                continue;
            err = mn_replay_called(r, line->op == MN_TRACE_CONNECT ? "connect" : "accept",
                                   try_line(r, line));
            left += !line->comm;
            r->report->connections += line->comm != NULL;
        }
        if (left && left < before)
            r->idle = 0;
        else if (left && !err)
            err = mn_replay_idle(r);
    }
    return err ? err : take_memory(r);
}

void mn_replay_close(struct replay *r)
{
    struct mn_plugin *p = r->plan->plugin;

    for (size_t i = 0; i < r->n_lines; i++) {
        struct line *line = &r->lines[i];
        if (line->area && line->mh)
            mn_plugin_dereg_mr(p, line->comm, line->mh);
        if (line->comm && line->op == MN_TRACE_CONNECT)
            mn_plugin_close_send(p, line->comm);
        else if (line->comm && line->op == MN_TRACE_ACCEPT)
            mn_plugin_close_recv(p, line->comm);
        if (line->area)
            munmap(line->area, line->slot * line->n_slots);
        free(line->busy);
        free(line->tags);
    }
    for (size_t i = 0; i < r->n_lines; i++)
        if (r->lines[i].comm && r->lines[i].op == MN_TRACE_LISTEN)
            mn_plugin_close_listen(p, r->lines[i].comm);
    for (size_t i = 0; i < r->n_asked; i++)
        free(r->asked[i].more);
    free(r->lines);
    free(r->asked);
}
