/* Lines: accepted, dialled, stepped, and what comes over them. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet/relay/engine.h"
#include "topo/base/log.h"

static struct relayd_line *new_line(struct mn_relay *relay, int dialled)
{
    struct relayd_line *line = calloc(1, sizeof *line);

    if (!line)
        return NULL;
    line->source.what = RELAYD_LINE;
    line->relay = relay;
    line->dialled = dialled;
    line->fd = -1;
    line->born_ms = relay->now_ms;
    line->next = relay->lines;
    relay->lines = line;
    relay->n_lines++;
    relay->n_greeting++;
    return line;
}

void relayd_line_free(struct relayd_line *line)
{
    line->relay->n_lines--;
    line->relay->n_greeting -= !line->up;
    if (line->line)
        mn_line_close(line->line);
    mn_wipe(&line->who, sizeof line->who);
    free(line);
}

void relayd_line_fail(struct relayd_line *line, const char *fmt, ...)
{
    va_list args;

    if (line->ended)
        return;
    va_start(args, fmt);
    vsnprintf(line->text, sizeof line->text, fmt, args);
    va_end(args);
    line->ended = 1;
    line->relay->marked = 1;
}

/* --- who comes -------------------------------------------------------------------------------- */

/* The one that has been greeting for longest makes room. */
static void make_room(struct mn_relay *relay)
{
    struct relayd_line *oldest = NULL;

    if (relay->n_greeting < RELAYD_GREETING)
        return;
    for (struct relayd_line *l = relay->lines; l; l = l->next)
        if (!l->up && !l->ended && l->dialled < 0 && (!oldest || l->born_ms <= oldest->born_ms))
            oldest = l;
    if (oldest)
        relayd_line_fail(oldest, "others came meanwhile");
}

static void accept_line(struct mn_relay *relay, int fd)
{
    struct mn_diag diag = {.text = ""};

    make_room(relay);
    struct relayd_line *line = relay->n_lines < MN_QUOTA_LINES ? new_line(relay, -1) : NULL;
    if (!line) {
        relay->counts.refused++;
        close(fd);
        return;
    }
    enum mn_err err = mn_line_accept(&relay->config, relay->self, fd, &line->line, &diag);
    if (err) {
        line->line = NULL;
        relayd_line_fail(line, "%s", diag.text);
        return;
    }
    relayd_line_step(line);
}

static enum mn_verdict judge(void *relay, int fd)
{
    enum mn_verdict verdict = mn_line_judge(fd);

    if (verdict == MN_ARRIVAL_TAKEN)
        accept_line(relay, fd);
    return verdict;
}

void relayd_arrive(struct mn_relay *relay)
{
    mn_arrivals_step(&relay->arrivals, relay->fds, relay->n_fds,
                     relay->config.settings.handshake_ms, judge, relay);
}

/* --- who is dialled --------------------------------------------------------------------------- */

static struct relayd_line *known(struct mn_relay *relay, int node)
{
    struct relayd_line *best = NULL;

    for (struct relayd_line *l = relay->lines; l; l = l->next) {
        if (l->ended)
            continue;
        int is =
            l->up ? l->who.kind == MN_LINE_RELAY && (int)l->who.node == node : l->dialled == node;
        if (is && (!best || l->up > best->up))
            best = l;
    }
    return best;
}

enum mn_err relayd_line_to(struct mn_relay *relay, int node, struct relayd_line **out,
                           struct mn_diag *diag)
{
    struct mn_relay_door doors[MN_MAX_LOCALS];
    struct mn_line_dial dial = {.config = &relay->config,
                                .kind = MN_LINE_RELAY,
                                .node = relay->self,
                                .relay_node = node,
                                .relay_name = relayd_node_name(relay, node),
                                .doors = doors,
                                .port = (uint16_t)relay->config.settings.relay_port};

    *out = known(relay, node);
    if (*out)
        return MN_OK;
    dial.n_doors = mn_relay_doors(relay->mesh, relay->self, node, doors, MN_MAX_LOCALS);
    if (!dial.n_doors)
        return mn_fail(diag, MN_ERR_NOTFOUND, "no cable with addresses leads to %s",
                       dial.relay_name);
    struct relayd_line *line = new_line(relay, node);
    if (!line)
        return mn_fail(diag, MN_ERR_NOMEM, "no memory for a line to %s", dial.relay_name);
    mn_strlcpy(line->peer, dial.relay_name, sizeof line->peer);
    enum mn_err err = mn_line_dial(&dial, &line->line, diag);
    if (err) {
        line->line = NULL;
        relayd_line_fail(line, "%s", diag->text);
        return err;
    }
    *out = line;
    relayd_line_step(line);
    return MN_OK;
}

/* --- stepping --------------------------------------------------------------------------------- */

/* Its descriptor may be another one after a step. */
static void watch(struct relayd_line *line)
{
    int fd = mn_line_fd(line->line);
    struct epoll_event event = {.events = mn_line_events(line->line), .data.ptr = &line->source};

    /* Before it is up another door's socket may have the number of the one that was closed. */
    if (line->up && fd == line->fd && event.events == line->events)
        return;
    if (fd < 0)
        return;
    if (epoll_ctl(line->relay->epoll, EPOLL_CTL_MOD, fd, &event) &&
        epoll_ctl(line->relay->epoll, EPOLL_CTL_ADD, fd, &event)) {
        relayd_line_fail(line, "%s cannot be listened to: %s", line->peer, strerror(errno));
        return;
    }
    line->fd = fd;
    line->events = event.events;
}

static void is_up(struct relayd_line *line)
{
    line->up = 1;
    line->relay->n_greeting--;
    line->who = *mn_line_who(line->line);
    if (line->dialled >= 0) {
        line->who.kind = MN_LINE_RELAY;
        line->who.node = (uint32_t)line->dialled;
    }
    mn_line_call(line->line, relayd_node_name(line->relay, (int)line->who.node));
    mn_strlcpy(line->peer, mn_line_peer(line->line), sizeof line->peer);
    if ((int)line->who.node < 0 || line->who.node >= line->relay->mesh->n_nodes) {
        relayd_line_fail(line, "%s is no node of this mesh file", line->peer);
        return;
    }
    const char *quota = relayd_quota_line(line);
    if (quota) {
        line->relay->counts.refused++;
        relayd_line_fail(line, "%s, user %u: there are as many lines %s as may be", line->peer,
                         line->who.uid, quota);
        return;
    }
    MN_DEBUG("line with %s, %s", line->peer,
             line->who.kind == MN_LINE_RELAY ? "a relay" : "a process");
    relayd_ways_line_up(line);
}

static void hold(struct relayd_line *line)
{
    struct mn_relay *relay = line->relay;

    if (!relay->hears || line->held)
        return;
    mn_line_hold(line->line, 1);
    line->held = 1;
    line->holding = relay->holding;
    relay->holding = line;
}

static void let_go(struct mn_relay *relay)
{
    struct relayd_line *line = relay->holding;

    if (relay->hears)
        return;
    for (relay->holding = NULL; line; line = line->holding) {
        line->held = 0;
        mn_line_hold(line->line, 0);
        if (!line->ended)
            watch(line);
    }
}

void relayd_line_step(struct relayd_line *line)
{
    struct mn_diag diag = {.text = ""};
    enum mn_line_frame type;
    uint8_t *payload;
    size_t len;

    if (line->ended)
        return;
    enum mn_err err = mn_line_step(line->line, &diag), got = MN_ERR_AGAIN;
    if (!err && !line->up)
        is_up(line);
    line->relay->hears++;
    while (line->up && !line->ended && !(got = mn_line_get(line->line, &type, &payload, &len)))
        relayd_frame(line, type, payload, len);
    line->relay->hears--;
    let_go(line->relay);
    if (got && got != MN_ERR_AGAIN) /* what came is no frame: nothing else may come */
        err = mn_line_step(line->line, &diag);
    if (err && err != MN_ERR_AGAIN) {
        line->left = err == MN_ERR_PEER_DEAD || err == MN_ERR_CLOSED;
        line->reset = mn_line_was_reset(line->line);
        relayd_line_fail(line, "%s", diag.text);
    }
    if (!line->ended)
        watch(line);
}

void relayd_line_put(struct relayd_line *line, enum mn_line_frame type, const void *payload,
                     size_t len)
{
    if (!line || !line->up || line->ended)
        return;
    hold(line);
    enum mn_err err = mn_line_put(line->line, type, payload, len);
    if (err == MN_ERR_PEER_DEAD)
        return; /* why, its next step tells: the hang-up wakes it */
    if (err || (line->who.kind == MN_LINE_PROCESS && mn_line_waits(line->line) > RELAYD_USER_QUEUE))
        relayd_line_fail(line, "%s reads nothing of what it is told", line->peer);
    else if (!line->held)
        watch(line);
}

/* --- silence ---------------------------------------------------------------------------------- */

/* While something waits for the neighbour's relay, and for a while after something has passed: one
 * that is stopped has to be known of on both of its sides. A process answers pings only while it
 * calls, so is not asked; its cable's silence is found by TCP. */
static int is_waited_for(const struct relayd_line *line)
{
    const struct mn_relay *relay = line->relay;

    if (line->who.kind != MN_LINE_RELAY)
        return 0;
    if (line->active_ms &&
        relay->now_ms - line->active_ms < relay->config.settings.relay_silence_ms)
        return 1;
    for (int class = 0; class < MN_RELAY_CLASSES; class ++)
        for (int kind = 0; kind < MN_RELAY_KINDS; kind++) {
            const struct relayd_hop *out = line->trunk[0][class][kind];
            if (out && (out->share.used || out->share.queued || out->state == RELAYD_HOP_ASKED))
                return 1;
        }
    return 0;
}

int relayd_lines_wait(const struct mn_relay *relay)
{
    for (const struct relayd_line *l = relay->lines; l; l = l->next)
        if (!l->up || is_waited_for(l) || mn_line_silent_ms(l->line))
            return 1;
    return 0;
}

void relayd_lines_tick(struct mn_relay *relay)
{
    for (struct relayd_line *l = relay->lines; l; l = l->next) {
        if (l->ended || !l->line)
            continue;
        if (!l->up) {
            relayd_line_step(l);
            continue;
        }
        if (is_waited_for(l))
            mn_line_ping(l->line);
        unsigned silent = mn_line_silent_ms(l->line);
        if (silent >= relay->config.settings.relay_silence_ms)
            relayd_line_fail(l,
                             "%s has not answered for %u ms: its cable is silent, or it is "
                             "stopped",
                             l->peer, silent);
        else
            watch(l);
    }
}
