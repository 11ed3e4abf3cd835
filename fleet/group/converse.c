/* Conversations: everyone says something to the hub and gets an answer. */
#include <stdlib.h>
#include <string.h>

#include "fleet/group/group_impl.h"
#include "topo/base/alloc.h"
#include "topo/base/clock.h"

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
    cJSON *message;

    if (g->peers[r].left)
        return MN_OK;
    message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "op", kinds[kind]);
    put_hex(message, data, bytes);
    mn_group_tell_gone(g, message);
    enum mn_err err = mn_ctl_send(&g->peers[r].ctl, message, diag);
    if (err && mn_group_lose(g, r, diag->text))
        return MN_OK;
    /* It ended, and may have left its reason. */
    enum mn_err over = err == MN_ERR_PEER_DEAD ? mn_group_watch(g, 1000, diag) : MN_OK;
    return over ? over : err;
}

static enum mn_err hear(struct mn_group *g, int r, double since, enum kind kind, uint8_t *data,
                        size_t bytes, struct mn_diag *diag)
{
    cJSON *message;
    enum mn_err err = mn_group_await(g, r, since, &message, diag);

    if (err)
        return err;
    if (!message) {
        memset(data, 0, bytes);
        return MN_OK;
    }
    err = get_hex(&g->peers[r], message, kind, data, bytes, diag);
    if (!err && g->plan.rank)
        mn_group_learn_gone(g, message);
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
        return err ? err : hear(g, 0, mn_seconds(), kind, result, heard, diag);
    }
    uint8_t *all = mn_zalloc((size_t)n * said + 1), *out = mn_zalloc(heard + 1);
    double since = mn_seconds();
    enum mn_err err = MN_OK;
    if (said)
        memcpy(all, mine, said);
    for (int r = 1; r < n && !err; r++)
        err =
            hear(g, r, g->spares ? since : mn_seconds(), kind, all + (size_t)r * said, said, diag);
    mn_group_count(g);
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
