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

/* Rank r ends: the group does, or spares it (1). */
static int lose(struct mn_group *g, enum mn_err code, const char *text, int r)
{
    int spared = mn_group_lose(g, r, text);

    if (!spared)
        end_group(g, code, text, r);
    return spared;
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
        lose(g, err, text, r);
    } else if (err) {
        lose(g, err, diag.text, r);
    } else {
        const cJSON *abort = cJSON_GetObjectItemCaseSensitive(message, "abort");
        if (cJSON_IsString(abort)) {
            mn_strlcpy(text, abort->valuestring, sizeof text);
            mn_clean(text);
            g->told |= !lose(g, MN_ERR_FAILED, text, r);
        } else if (peer->message) {
            snprintf(text, sizeof text, "%s: a control message out of turn", peer->name);
            lose(g, MN_ERR_PROTO, text, r);
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

enum mn_err mn_group_await(struct mn_group *g, int r, double since, cJSON **message,
                           struct mn_diag *diag)
{
    struct mn_group_peer *peer = &g->peers[r];
    double wait = g->plan.timeout_ms / 1000.0;

    /* The hub gives up first, since it knows whom it misses. One it spares it may have measured
     * with, and missed there already. */
    if (g->plan.rank)
        wait += g->spares ? wait + 5 : 5;
    while (!peer->message && !peer->left) {
        enum mn_err err = mn_group_watch(g, 50, diag);
        if (!err && !peer->message && !peer->left && mn_seconds() > since + wait) {
            err =
                mn_fail(diag, MN_ERR_TIMEOUT, "nothing heard from %s for %.0f s", peer->name, wait);
            if (mn_group_lose(g, r, diag->text))
                err = MN_OK;
        }
        if (err)
            return err;
    }
    *message = peer->message; /* none of one who has left */
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
