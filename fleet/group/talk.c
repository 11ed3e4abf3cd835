/* The control plane of a group once all have joined. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fleet/group/group_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/clean.h"
#include "topo/base/clock.h"

/* Ends the group and tells everyone but the rank it came from. */
static enum mn_err end_group(struct mn_group *g, enum mn_err code, const char *text, int from)
{
    if (g->over)
        return g->cause.code;
    g->over = 1;
    mn_fail(&g->cause, code, "%s", text);
    for (int r = 0; r < g->plan.nranks; r++) {
        if (g->peers[r].ctl.fd < 0 || r == from)
            continue;
        cJSON *message = cJSON_CreateObject();
        cJSON_AddStringToObject(message, "abort", text);
        g->told |= !mn_ctl_send(&g->peers[r].ctl, message, NULL);
    }
    g->told |= g->plan.rank == 0;
    return code;
}

static enum mn_err say_cause(const struct mn_group *g, struct mn_diag *diag)
{
    if (diag)
        *diag = g->cause;
    return g->cause.code;
}

/* One message of rank r has come, or its end. */
static void take(struct mn_group *g, int r)
{
    struct mn_group_peer *peer = &g->peers[r];
    struct mn_diag diag;
    char text[sizeof diag.text];
    cJSON *message;
    enum mn_err err = mn_ctl_receive(&peer->ctl, 5000, &message, &diag);

    if (err == MN_ERR_PEER_DEAD) {
        snprintf(text, sizeof text, "%s ended", peer->name);
        end_group(g, err, text, r);
    } else if (err) {
        end_group(g, err, diag.text, r);
    } else {
        const cJSON *abort = cJSON_GetObjectItemCaseSensitive(message, "abort");
        if (cJSON_IsString(abort)) {
            mn_strlcpy(text, abort->valuestring, sizeof text);
            mn_clean(text);
            end_group(g, MN_ERR_FAILED, text, r);
            g->told = 1;
        } else if (peer->message) {
            snprintf(text, sizeof text, "%s: a control message out of turn", peer->name);
            end_group(g, MN_ERR_PROTO, text, r);
        } else {
            peer->message = message;
            return;
        }
        cJSON_Delete(message);
    }
}

const char *mn_group_stop_reason(const struct mn_group *g)
{
    const struct mn_group_roll *roll = g->plan.roll;

    if (roll && roll->ended[0])
        return roll->ended;
    return g->plan.stop && *g->plan.stop == SIGTERM ? "asked to end by SIGTERM" : "interrupted";
}

enum mn_err mn_group_watch(struct mn_group *g, int wait_ms, struct mn_diag *diag)
{
    struct pollfd fds[MN_GROUP_RANKS];
    int ranks[MN_GROUP_RANKS], n = 0;

    if (!g->over && g->plan.stop && *g->plan.stop)
        end_group(g, MN_ERR_FAILED, mn_group_stop_reason(g), -1);
    for (int r = 0; r < g->plan.nranks; r++) {
        if (g->peers[r].ctl.fd < 0)
            continue;
        fds[n] = (struct pollfd){.fd = g->peers[r].ctl.fd, .events = POLLIN};
        ranks[n++] = r;
    }
    if (!g->over && poll(fds, (nfds_t)n, wait_ms) > 0)
        for (int i = 0; i < n && !g->over; i++)
            if (fds[i].revents)
                take(g, ranks[i]);
    return g->over ? say_cause(g, diag) : MN_OK;
}

enum mn_err mn_group_look(struct mn_group *g, struct mn_diag *diag)
{
    return mn_group_watch(g, 0, diag);
}

enum mn_err mn_group_await(struct mn_group *g, int r, cJSON **message, struct mn_diag *diag)
{
    struct mn_group_peer *peer = &g->peers[r];
    /* The hub gives up first, since it knows whom it misses. */
    double wait = g->plan.timeout_ms / 1000.0 + (g->plan.rank ? 5 : 0);
    double deadline = mn_seconds() + wait;

    while (!peer->message) {
        enum mn_err err = mn_group_watch(g, 50, diag);
        if (!err && !peer->message && mn_seconds() > deadline)
            err =
                mn_fail(diag, MN_ERR_TIMEOUT, "nothing heard from %s for %.0f s", peer->name, wait);
        if (err)
            return err;
    }
    *message = peer->message;
    peer->message = NULL;
    return MN_OK;
}

enum mn_err mn_group_fail(struct mn_group *g, enum mn_err err, struct mn_diag *diag)
{
    double deadline = mn_seconds() + 1.5;
    char text[sizeof diag->text];

    /* A connection that broke is often a rank that died, and the hub is about to say which. */
    while (!g->over && mn_seconds() < deadline)
        (void)mn_group_watch(g, 50, NULL);
    if (g->over)
        return say_cause(g, diag);
    snprintf(text, sizeof text, "%s: %.800s", g->peers[g->plan.rank].name, diag->text);
    return end_group(g, err, text, -1);
}

int mn_group_told(const struct mn_group *g)
{
    return g->told;
}

/* --- conversations: everyone says something to the hub and gets an answer --------------------- */

enum kind { GATHER, EXCHANGE, MAX };

static const char *const kinds[] = {"gather", "exchange", "max"};

static void put_hex(cJSON *message, const uint8_t *data, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    char *hex = mn_zalloc(2 * bytes + 1);

    for (size_t i = 0; i < bytes; i++) {
        hex[2 * i] = digits[data[i] >> 4];
        hex[2 * i + 1] = digits[data[i] & 15];
    }
    cJSON_AddStringToObject(message, "data", hex);
    free(hex);
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum mn_err get_hex(const struct mn_group_peer *peer, const cJSON *message, enum kind kind,
                           uint8_t *data, size_t bytes, struct mn_diag *diag)
{
    const cJSON *op = cJSON_GetObjectItemCaseSensitive(message, "op");
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(message, "data");

    if (!cJSON_IsString(op) || strcmp(op->valuestring, kinds[kind]) != 0 || !cJSON_IsString(item) ||
        strlen(item->valuestring) != 2 * bytes)
        return mn_fail(diag, MN_ERR_PROTO,
                       "%s: does something else than this rank; were they started with the same "
                       "options?",
                       peer->name);
    for (size_t i = 0; i < bytes; i++) {
        int high = digit(item->valuestring[2 * i]), low = digit(item->valuestring[2 * i + 1]);
        if (high < 0 || low < 0)
            return mn_fail(diag, MN_ERR_PROTO, "%s: control message is not hex", peer->name);
        data[i] = (uint8_t)(high << 4 | low);
    }
    return MN_OK;
}

static enum mn_err say(struct mn_group *g, int r, enum kind kind, const uint8_t *data, size_t bytes,
                       struct mn_diag *diag)
{
    cJSON *message = cJSON_CreateObject();

    cJSON_AddStringToObject(message, "op", kinds[kind]);
    put_hex(message, data, bytes);
    enum mn_err err = mn_ctl_send(&g->peers[r].ctl, message, diag);
    /* It ended, and may have left its reason. */
    enum mn_err over = err == MN_ERR_PEER_DEAD ? mn_group_watch(g, 1000, diag) : MN_OK;
    return over ? over : err;
}

static enum mn_err hear(struct mn_group *g, int r, enum kind kind, uint8_t *data, size_t bytes,
                        struct mn_diag *diag)
{
    cJSON *message;
    enum mn_err err = mn_group_await(g, r, &message, diag);

    if (err)
        return err;
    err = get_hex(&g->peers[r], message, kind, data, bytes, diag);
    cJSON_Delete(message);
    return err;
}

/* The answer for rank r out of what all said, said bytes each. */
static void answer(const struct mn_group *g, enum kind kind, const uint8_t *all, size_t said, int r,
                   uint8_t *out)
{
    size_t n = (size_t)g->plan.nranks, block = said / n;

    if (kind == GATHER) {
        memcpy(out, all, said * n);
    } else if (kind == EXCHANGE) {
        for (size_t from = 0; from < n; from++)
            memcpy(out + from * block, all + from * said + (size_t)r * block, block);
    } else {
        memcpy(out, all, said);
        for (size_t from = 1; from < n; from++)
            for (size_t i = 0; i < said; i += sizeof(float)) {
                float a, b;
                memcpy(&a, out + i, sizeof a);
                memcpy(&b, all + from * said + i, sizeof b);
                if (b > a)
                    memcpy(out + i, &b, sizeof b);
            }
    }
}

/* Says said bytes, gets heard bytes. */
static enum mn_err converse(struct mn_group *g, enum kind kind, const void *mine, size_t said,
                            void *result, size_t heard, struct mn_diag *diag)
{
    int n = g->plan.nranks;

    if (said > MN_GROUP_BLOCK || heard > MN_GROUP_BLOCK)
        return mn_fail(diag, MN_ERR_INTERNAL, "control blocks of %zu and %zu bytes", said, heard);
    if (g->plan.rank) {
        enum mn_err err = say(g, 0, kind, mine, said, diag);
        return err ? err : hear(g, 0, kind, result, heard, diag);
    }
    uint8_t *all = mn_zalloc((size_t)n * said + 1), *out = mn_zalloc(heard + 1);
    enum mn_err err = MN_OK;
    if (said)
        memcpy(all, mine, said);
    for (int r = 1; r < n && !err; r++)
        err = hear(g, r, kind, all + (size_t)r * said, said, diag);
    for (int r = n - 1; r > 0 && !err; r--) {
        answer(g, kind, all, said, r, out);
        err = say(g, r, kind, out, heard, diag);
    }
    if (!err && heard)
        answer(g, kind, all, said, 0, result);
    free(out);
    free(all);
    return err;
}

enum mn_err mn_group_allgather(struct mn_group *g, const void *mine, size_t bytes, void *all,
                               struct mn_diag *diag)
{
    return converse(g, GATHER, mine, bytes, all, bytes * (size_t)g->plan.nranks, diag);
}

enum mn_err mn_group_exchange(struct mn_group *g, const void *to, size_t bytes, void *from,
                              struct mn_diag *diag)
{
    bytes *= (size_t)g->plan.nranks;
    return converse(g, EXCHANGE, to, bytes, from, bytes, diag);
}

enum mn_err mn_group_max(struct mn_group *g, float *values, size_t count, struct mn_diag *diag)
{
    size_t most = MN_GROUP_BLOCK / sizeof *values;
    enum mn_err err = MN_OK;

    for (size_t at = 0, n; at < count && !err; at += n) {
        n = count - at < most ? count - at : most;
        err = converse(g, MAX, values + at, n * sizeof *values, values + at, n * sizeof *values,
                       diag);
    }
    return err;
}

enum mn_err mn_group_barrier(struct mn_group *g, struct mn_diag *diag)
{
    return converse(g, GATHER, "", 0, NULL, 0, diag);
}
